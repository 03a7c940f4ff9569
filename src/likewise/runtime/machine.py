"""The machine: its cores, which ports answer, and its CPU load while something was measured.

A load of 1 means that the measurement had the machine to itself: its own work counts as 1, on any
number of processors, and the processor time of other programs is added. Where the system does not
report processor times, its load average is used instead.
"""

import os
import socket
import time
from ipaddress import ip_address
from pathlib import Path

_TIMEOUT_SECONDS = 5.0


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a host, given by its name or address."""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def count_cores() -> int:
    """Return how many cores this process may use."""
    available = getattr(os, "sched_getaffinity", None)
    return len(available(0)) if available else os.cpu_count() or 1


def explain_unreachable(address: str) -> str | None:
    """Return why nobody can be reached at "host:port"; None if somebody can.

    A scheme may stand before it. An address without a port, such as "auto", cannot be checked.
    """
    host, colon, port = address.rpartition("://")[2].partition("/")[0].rpartition(":")
    if not colon or not port.isdigit():
        return None
    try:
        socket.create_connection((host.strip("[]"), int(port)), _TIMEOUT_SECONDS).close()
    except (OSError, OverflowError) as error:
        return getattr(error, "strerror", None) or type(error).__name__
    return None


NOT_FINAL = 1.5
"""Figures measured at a higher load than this are not final."""
_STAT = Path("/proc/stat")


def _busy_seconds() -> float | None:
    """Return the processor time that the whole machine has spent, without idle time."""
    try:
        fields = _STAT.read_text().split("\n", 1)[0].split()[1:]
        ticks = os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, AttributeError):
        return None
    user, nice, system, _idle, _waiting, *others = map(int, fields[:8])
    return (user + nice + system + sum(others)) / ticks


def _own_seconds() -> float:
    """Return the processor time of this process and of its children that have ended."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


class MachineLoad:
    """Measures the load of the machine since this object was made."""

    def __init__(self) -> None:
        self._clock, self._busy, self._own = time.monotonic(), _busy_seconds(), _own_seconds()

    @property
    def seconds(self) -> float:
        """Seconds since this object was made."""
        return time.monotonic() - self._clock

    def measure(self) -> float | None:
        """Return the load; None where the system does not report it."""
        busy, seconds = _busy_seconds(), self.seconds
        if busy is None or self._busy is None or seconds <= 0:
            return os.getloadavg()[0] if hasattr(os, "getloadavg") else None
        others = busy - self._busy - (_own_seconds() - self._own)
        return 1.0 + max(0.0, others / seconds)


def is_final(load: float | None) -> bool:
    """Whether figures measured at that load are final."""
    return load is None or load <= NOT_FINAL
