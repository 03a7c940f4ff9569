"""Reads the size of a monitor's history, its index and its disk, for metrics and pages.

A monitor answers between two decisions, and a batch or a slow disk may keep it busy for seconds. So
it is read in a thread, and callers get the last reading if the new one takes more than
`PATIENCE_SECONDS`.
"""

import asyncio
import os
from dataclasses import dataclass
from pathlib import Path

from likewise.errors import LikewiseError
from likewise.monitor.monitor import Monitor
from likewise.service.served_monitor import ServedMonitor

PATIENCE_SECONDS = 2.0
_COLUMN_BYTES = {"number": 8, "key": 0, "ignore": 0}  # per row, by kind; others have codes


@dataclass(frozen=True, slots=True)
class MonitorReading:
    """Facts about a monitor at one moment."""

    rows: int
    bytes: float
    """Memory of vectors, outputs, the index in use, columns and keys."""
    share_visited: float
    missing: int
    index: str
    last_written: float | None = None
    """When its ledger was last written, in seconds since 1970; None without one."""
    disk: "DiskSpace | None" = None


@dataclass(frozen=True, slots=True)
class DiskSpace:
    free: int
    size: int

    @classmethod
    def measure(cls, path: Path) -> "DiskSpace":
        """Measure the disk that a path is on; what only root may use is not free."""
        disk = os.statvfs(path)
        return cls(disk.f_bavail * disk.f_frsize, disk.f_blocks * disk.f_frsize)


def read_monitor(monitor: Monitor) -> MonitorReading:
    """Read a monitor; may wait until it is free."""
    explanation = monitor.explain()
    features = (monitor.rule.features or {}).values()
    columns = sum(_COLUMN_BYTES.get(feature.kind, 4) for feature in features)
    path = monitor.ledger.path if monitor.durable else None
    return MonitorReading(
        explanation.remembered,
        explanation.remembered * (explanation.bytes_per_decision + columns)
        + monitor.core.keys.used_bytes,
        explanation.share_visited,
        monitor.missing_decisions,
        explanation.index,
        None if path is None else _last_written(path),
        None if path is None else DiskSpace.measure(path),
    )


class MonitorReadings:
    """Caches the last reading of each monitor."""

    def __init__(self) -> None:
        self._last: dict[str, MonitorReading] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    async def read(self, served: ServedMonitor) -> MonitorReading | None:
        """Return a new reading, or the last one if the monitor is busy; None before the first."""
        task = self._tasks.get(served.name)
        if task is None:
            task = asyncio.get_running_loop().create_task(self._ask(served))
            self._tasks[served.name] = task
        await asyncio.wait([task], timeout=PATIENCE_SECONDS)
        return self._last.get(served.name)

    def last(self, served: ServedMonitor) -> MonitorReading | None:
        """Return the last reading without asking; None if there is none."""
        return self._last.get(served.name)

    async def _ask(self, served: ServedMonitor) -> None:
        try:
            self._last[served.name] = await asyncio.to_thread(read_monitor, served.monitor)
        except (LikewiseError, OSError):  # closed meanwhile, or its disk is gone
            self._last.pop(served.name, None)
        finally:
            del self._tasks[served.name]


def _last_written(folder: Path) -> float | None:
    times = [entry.stat().st_mtime for entry in os.scandir(folder) if entry.is_file()]
    return max(times, default=None)
