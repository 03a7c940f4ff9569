"""What a ledger costs: writing at each durability, opening, verifying, and bytes on disk."""

from __future__ import annotations

import statistics
import tempfile
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

import likewise as lw
from benchmarks import bare, oracle
from benchmarks.answer import Answer, Setting, Table
from benchmarks.scratch import scratch
from likewise.monitor.opening import DURABILITIES

Array = NDArray[Any]
COLUMNS_WIDE = 12
RADII = {
    "observe": {"few": 0.1, "many": 0.3},
    "observe_many": {"few": 0.01, "many": 0.1},
}
"""With few witnesses, and with many."""
BATCH, SINGLE = 300_000, 2_000
_CHUNK = 1 << 15  # decisions to a transaction, as the ledger has them

WRITING = {
    "durability": "durability",
    "how": "how",
    "flagged": "flagged",
    "rate": "decisions a second",
    "memory_rate": "in memory alone",
    "bare_rate": "bare insert",
    "ratio": "ledger ÷ bare",
    "bytes": "bytes on disk",
}
OPENING = {
    "rows": "rows",
    "check": "chain verified",
    "seconds": "`lw.open`, s",
    "import_seconds": "import before it, s",
    "verify_rate": "verified rows a second",
    "chain_rate": "the chain alone",
}
THREADS = {
    "threads": "threads",
    "rate": "decisions a second",
    "ratio": "÷ one thread",
    "events": "transactions",
}
MIGRATING = {
    "what": "made of",
    "rows": "rows",
    "flagged": "flagged",
    "seconds": "`lw.migrate`, s",
    "rate": "rows a second",
}
COUNTS = (1, 4, 16)
MIGRATED = 500_000


def ask(setting: Setting) -> Answer:
    source = setting.rows_source()
    points, outputs = source.rows(setting.rows(BATCH), COLUMNS_WIDE)
    points = points.astype("float64")
    with tempfile.TemporaryDirectory(dir=scratch()) as folder:
        writing = [
            _writing(setting, Path(folder), durability, how, radius, points, outputs)
            for durability in ("commit", "batch", "off")
            for how in ("observe", "observe_many")
            for radius in RADII[how]
        ]
        threads = _threads(setting, Path(folder), points, outputs)
        opening = _opening(setting, Path(folder))
        migrating = _migrating(setting, Path(folder))
    return Answer(
        "The ledger",
        {
            "writing": Table(
                WRITING,
                writing,
                f"{COLUMNS_WIDE} float64 columns; medians. The bare insert writes the same bytes to"
                " SQLite, in transactions of the same size, values ready in memory.",
            ),
            "threads": Table(
                THREADS, threads, "One `observe` after another in each thread, `commit`; medians."
            ),
            "opening": Table(
                OPENING,
                opening,
                "Each in a fresh process, kernels compiled before. One process verifies, by one"
                " thread.",
            ),
            "migrating": Table(
                MIGRATING, migrating, "Verified first, and on disk in the end; medians."
            ),
        },
        [
            "flagged decisions are those of a monitor in memory",
            "every ledger verifies, and after opening has every row",
        ],
    )


def _writing(
    setting: Setting,
    folder: Path,
    durability: str,
    how: str,
    radius: str,
    points: Array,
    outputs: Array,
) -> dict[str, Any]:
    rule = lw.Rule("linf", RADII[how][radius])
    count = len(points) if how == "observe_many" else min(SINGLE, len(points))
    x, z = points[:count], outputs[:count].tolist()
    times: dict[str, list[float]] = {"ledger": [], "memory": [], "bare": []}
    for i in range(setting.rounds):
        monitor = lw.Monitor(rule)
        begin = time.perf_counter()
        expected = _feed(monitor, how, x, z)
        times["memory"].append(time.perf_counter() - begin)
        path = folder / f"{durability}-{how}-{radius}-{i}"
        with lw.open(path, rule, durability=durability) as ledger:
            begin = time.perf_counter()
            flagged = _feed(ledger, how, x, z)
            ledger.flush()
            times["ledger"].append(time.perf_counter() - begin)
            oracle.require(flagged == expected, "a ledger flags other decisions")
            oracle.require(flagged > 0 or radius == "few", "nothing was found")
            oracle.require(ledger.verify().ok, "a ledger does not verify")
            chunk = {"observe_many": _CHUNK, "observe": DURABILITIES[durability][0]}[how]
            rows = bare.rows_of(ledger._journal.store.reader, count)
        size = sum(file.stat().st_size for file in path.iterdir())
        level = "OFF" if durability == "off" else "FULL"
        times["bare"].append(bare.insert(folder / f"{path.name}.sqlite", *rows, chunk, level))
    middle = {name: statistics.median(some) for name, some in times.items()}
    return {
        "durability": durability,
        "how": how,
        "flagged": flagged,
        "rate": count / middle["ledger"],
        "memory_rate": count / middle["memory"],
        "bare_rate": count / middle["bare"],
        "ratio": middle["bare"] / middle["ledger"],
        "bytes": size / count,
        "radius": radius,
    }


def _feed(monitor: Any, how: str, x: Array, z: list[Any]) -> int:
    if how == "observe_many":
        return int(monitor.observe_many(x, z).violations.sum())
    return sum(monitor.observe(*one).violation for one in zip(x, z, strict=True))


def _threads(setting: Setting, folder: Path, points: Array, outputs: Array) -> list[dict[str, Any]]:
    """Group commit: as many decisions, from one thread and from several."""
    count = min(SINGLE, len(points))
    x, z = points[:count], outputs[:count].tolist()
    found = []
    for threads in COUNTS:
        times, runs = [], 0
        for i in range(setting.rounds):
            path = folder / f"threads-{threads}-{i}"
            with lw.open(path, lw.Rule("linf", 0.1)) as ledger:
                times.append(_from_threads(ledger, threads, x, z))
                oracle.require(ledger.rows == count, "rows are missing")
                oracle.require(ledger.verify().ok, "a ledger does not verify")
                query = "SELECT count(*) FROM event WHERE kind = 'judged'"
                ((runs,),) = ledger._journal.store.reader.all(query)
        rate = count / statistics.median(times)
        found.append({"threads": threads, "rate": rate, "events": runs})
    return [{**row, "ratio": row["rate"] / found[0]["rate"]} for row in found]


def _from_threads(ledger: Any, threads: int, x: Array, z: list[Any]) -> float:
    """Seconds until all decisions are answered."""

    def work(start: int) -> None:
        for i in range(start, len(x), threads):
            ledger.observe(x[i], z[i])

    workers = [threading.Thread(target=work, args=(k,)) for k in range(threads)]
    begin = time.perf_counter()
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return time.perf_counter() - begin


def _opening(setting: Setting, folder: Path) -> list[dict[str, Any]]:
    rows = []
    sizes = [setting.rows(1_000_000), *([10_000_000] if setting.huge else [])]
    for size in sizes:
        path = folder / f"open-{size}"
        source = setting.rows_source()
        with lw.open(path, lw.Rule("linf", 0.01), durability="off") as monitor:
            points, outputs = source.rows(size, COLUMNS_WIDE)
            for start in range(0, size, 1_000_000):
                part = slice(start, start + 1_000_000)
                monitor.observe_many(points[part].astype("float64"), outputs[part])
            oracle.require(len(monitor) == size, "rows are missing")
        del points
        for check in (True, False):
            found = [
                setting.alone(
                    "benchmarks.questions.ledger:open_one", {"path": str(path), "check": check}
                )
                for _ in range(setting.rounds if size <= 1_000_000 else 1)
            ]
            oracle.require(all(one["rows"] == size for one in found), "rows are missing")
            middle = sorted(found, key=lambda one: one["seconds"])[len(found) // 2]
            rows.append({"check": check, **middle})
    return rows


def open_one(given: Mapping[str, Any]) -> dict[str, Any]:
    """Open a ledger in this process, and verify it apart."""
    begin = time.perf_counter()
    opener = lw.open
    imported = time.perf_counter()
    with opener(given["path"], check=given["check"]) as monitor:
        opened = time.perf_counter()
        rows = len(monitor)
    rates: dict[str, Any] = dict.fromkeys(("verify_rate", "chain_rate"))
    if given["check"]:
        with lw.Ledger(given["path"]) as ledger:
            for name, values in (("verify_rate", True), ("chain_rate", False)):
                begun = time.perf_counter()
                oracle.require(ledger.verify(values=values).ok, "the ledger does not verify")
                rates[name] = rows / (time.perf_counter() - begun)
    return {
        "rows": rows,
        "seconds": opened - imported,
        "import_seconds": imported - begin,
        **rates,
    }


def _migrating(setting: Setting, folder: Path) -> list[dict[str, Any]]:
    """Judge a ledger again under another rule."""
    points, outputs = setting.rows_source().rows(setting.rows(MIGRATED), COLUMNS_WIDE)
    old, other = lw.Rule("linf", 0.05), lw.Rule("linf", 0.06)
    path = folder / "migrated"
    with lw.open(path, old) as monitor:
        monitor.observe_many(points.astype("float64"), outputs)
    times = []
    for i in range(setting.rounds):
        new = folder / f"{path.name}-{i}"
        begin = time.perf_counter()
        done = lw.migrate(path, new, rule=other)
        times.append(time.perf_counter() - begin)
        oracle.require(done.rows == len(points), "rows are missing")
        oracle.require(done.judged_again, "not judged again")
        expected = lw.Monitor(other).observe_many(points.astype("float64"), outputs)
        with lw.Ledger(new) as ledger:
            oracle.require(ledger.verify().ok, "a migrated ledger does not verify")
            flagged = ledger.stats().violations
        oracle.require(flagged == int(expected.violations.sum()), "other decisions are flagged")
    seconds = statistics.median(times)
    return [
        {
            "what": "another rule",
            "rows": len(points),
            "flagged": flagged,
            "seconds": seconds,
            "rate": len(points) / seconds,
        }
    ]
