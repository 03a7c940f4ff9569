"""What a monitor is asked when somebody looks: the size of its history, its index, its disk.

A monitor answers between two decisions, and a batch or a slow disk may keep it for seconds. So it
is asked in a thread, and whoever looks does not wait long: he gets what was true when it answered
last, and the counts, which cost nothing, as they are now.
"""

import asyncio
import os
from dataclasses import dataclass
from pathlib import Path

from likewise.errors import LikewiseError
from likewise.monitor.monitor import Monitor
from likewise.service.served_monitor import ServedMonitor

PATIENCE_SECONDS = 2.0
_COLUMN_BYTES = {"number": 8, "key": 0, "ignore": 0}  # of a row, by kind; others have codes


@dataclass(frozen=True, slots=True)
class MonitorReading:
    """What a monitor said."""

    rows: int
    bytes: float
    """Vectors, outputs and the index in use, kept columns, and keys."""
    share_visited: float
    missing: int
    index: str
    last_written: float | None = None
    """When its ledger was, in seconds since 1970; None without one."""
    disk: "DiskSpace | None" = None


@dataclass(frozen=True, slots=True)
class DiskSpace:
    free: int
    size: int

    @classmethod
    def measure(cls, path: Path) -> "DiskSpace":
        """Of the disk that a path is on; what only root may use is not free."""
        told = os.statvfs(path)
        return cls(told.f_bavail * told.f_frsize, told.f_blocks * told.f_frsize)


def read_monitor(monitor: Monitor) -> MonitorReading:
    """Ask a monitor; may wait for its turn."""
    told = monitor.explain()
    features = (monitor.rule.features or {}).values()
    columns = sum(_COLUMN_BYTES.get(feature.kind, 4) for feature in features)
    path = monitor.path if monitor.durable else None
    return MonitorReading(
        told.remembered,
        told.remembered * (told.bytes_per_decision + columns) + monitor.known_keys.used_bytes,
        told.share_visited,
        monitor.missing,
        told.index,
        None if path is None else _last_written(path),
        None if path is None else DiskSpace.measure(path),
    )


class MonitorReadings:
    """The last reading of each monitor."""

    def __init__(self) -> None:
        self._last: dict[str, MonitorReading] = {}
        self._asking: dict[str, asyncio.Task[None]] = {}

    async def read(self, hosted: ServedMonitor) -> MonitorReading | None:
        """The reading now, or the last one if the monitor is busy; None before the first."""
        asking = self._asking.get(hosted.name)
        if asking is None:
            asking = asyncio.get_running_loop().create_task(self._ask(hosted))
            self._asking[hosted.name] = asking
        await asyncio.wait([asking], timeout=PATIENCE_SECONDS)
        return self._last.get(hosted.name)

    def last(self, hosted: ServedMonitor) -> MonitorReading | None:
        """The last one, without asking."""
        return self._last.get(hosted.name)

    async def _ask(self, hosted: ServedMonitor) -> None:
        try:
            self._last[hosted.name] = await asyncio.to_thread(read_monitor, hosted.monitor)
        except (LikewiseError, OSError):  # closed meanwhile, or its disk is gone
            self._last.pop(hosted.name, None)
        finally:
            del self._asking[hosted.name]


def _last_written(folder: Path) -> float | None:
    times = [entry.stat().st_mtime for entry in os.scandir(folder) if entry.is_file()]
    return max(times, default=None)
