"""How busy the machine was while something was measured.

A load of 1 means that the measurement had the machine to itself: its own work counts as one, on
however many processors, and what other programs used of the processors is added. Where the system
does not say who used them, its own load average stands in.
"""

import os
import socket
import time
from pathlib import Path

_SECONDS = 5.0


def explain_unreachable(address: str) -> str | None:
    """Why nobody can be reached at "host:port", with a scheme before it or not; None: somebody can.

    An address without a port, such as "auto", says nothing that can be asked.
    """
    host, colon, port = address.rpartition("://")[2].partition("/")[0].rpartition(":")
    if not colon or not port.isdigit():
        return None
    try:
        socket.create_connection((host.strip("[]"), int(port)), _SECONDS).close()
    except (OSError, OverflowError) as error:
        return getattr(error, "strerror", None) or type(error).__name__
    return None


NOT_FINAL = 1.5
"""Figures measured at a higher load than this are not final."""
_STAT = Path("/proc/stat")


def _busy_seconds() -> float | None:
    """Processor time that the whole machine has spent, idle time left out."""
    try:
        fields = _STAT.read_text().split("\n", 1)[0].split()[1:]
        ticks = os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, AttributeError):
        return None
    user, nice, system, _idle, _waiting, *others = map(int, fields[:8])
    return (user + nice + system + sum(others)) / ticks


def _own_seconds() -> float:
    """Processor time of this process and of the processes it has started and seen end."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


class MachineLoad:
    """The load of the machine since this was made."""

    def __init__(self) -> None:
        self._clock, self._busy, self._own = time.monotonic(), _busy_seconds(), _own_seconds()

    @property
    def seconds(self) -> float:
        """Seconds since this was made."""
        return time.monotonic() - self._clock

    def measure(self) -> float | None:
        """The load, or None where the system tells nothing."""
        busy, seconds = _busy_seconds(), self.seconds
        if busy is None or self._busy is None or seconds <= 0:
            return os.getloadavg()[0] if hasattr(os, "getloadavg") else None
        others = busy - self._busy - (_own_seconds() - self._own)
        return 1.0 + max(0.0, others / seconds)


def is_final(load: float | None) -> bool:
    """Whether figures measured at that load can stand."""
    return load is None or load <= NOT_FINAL
