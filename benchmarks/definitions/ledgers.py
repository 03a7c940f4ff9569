"""What a ledger costs: writing at each durability, opening, verifying, migrating, disk, memory."""

from __future__ import annotations

import gc
import sqlite3
import statistics
import tempfile
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import likewise as lw
from benchmarks import oracle
from benchmarks.harness import Answer, Row, Setting, address, benchmark
from benchmarks.measure import peak_rss_bytes, rss_bytes
from benchmarks.processes import call, scratch
from likewise.ledger.reader import LedgerReader
from likewise.monitor.opening import DURABILITIES

Array = NDArray[Any]
WIDTH = 12
RADII = {
    "observe": {"few": 0.1, "many": 0.3},
    "observe_many": {"few": 0.01, "many": 0.1},
}
"""With few witnesses, and with many."""
BATCH, SINGLE = 300_000, 2_000
CHUNK = 1 << 15  # decisions to a transaction, as the ledger has them
OPENED = {"rows": 1_000_000, "check": True}


@benchmark("The ledger")
def ledger(setting: Setting) -> Answer:
    """How fast are decisions written, and a ledger opened, verified and judged again?

    Writing: 12 float64 columns; medians; decisions a second by the ledger, in memory alone, and
    of a bare insert, which writes the same bytes to SQLite, in transactions of the same size,
    values ready in memory. bytes: on disk for each.

    Threads: one `observe` after another in each thread, `commit`; medians; events are
    transactions.

    Opening: each in a fresh process, kernels compiled before. One process verifies, by one
    thread. import_seconds come before; chain_rate is of the chain alone.

    Migrating: verified first, and on disk in the end; medians.
    """
    points, outputs = setting.rows_source().rows(setting.rows(BATCH), WIDTH)
    points = points.astype("float64")
    with tempfile.TemporaryDirectory(dir=scratch()) as place:
        folder = Path(place)
        tables = {
            "writing": [
                _write(setting, folder, durability, how, radius, points, outputs)
                for durability in ("commit", "batch", "off")
                for how in ("observe", "observe_many")
                for radius in RADII[how]
            ],
            "threads": _write_from_threads(setting, folder, points, outputs),
            "opening": _open(setting, folder),
            "migrating": [_migrate(setting, folder)],
        }
    return Answer(
        tables,
        [
            "flagged decisions are those of a monitor in memory",
            "every ledger verifies, and after opening has every row",
        ],
    )


def _write(
    setting: Setting,
    folder: Path,
    durability: str,
    how: str,
    radius: str,
    points: Array,
    outputs: Array,
) -> Row:
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
        with lw.open(path, rule, durability=durability) as monitor:
            begin = time.perf_counter()
            flagged = _feed(monitor, how, x, z)
            monitor.flush()
            times["ledger"].append(time.perf_counter() - begin)
            oracle.require(flagged == expected, "a ledger flags other decisions")
            oracle.require(flagged > 0 or radius == "few", "nothing was found")
            oracle.require(monitor.ledger.verify().ok, "a ledger does not verify")
            chunk = {"observe_many": CHUNK, "observe": DURABILITIES[durability][0]}[how]
            kept = _kept_bytes(monitor.core.ledger.journal.store.reader, count)
        size = sum(file.stat().st_size for file in path.iterdir())
        level = "OFF" if durability == "off" else "FULL"
        times["bare"].append(_insert(folder / f"{path.name}.sqlite", *kept, chunk, level))
    middle = {name: statistics.median(some) for name, some in times.items()}
    return {
        "durability": durability,
        "how": how,
        "radius": radius,
        "flagged": flagged,
        "rate": count / middle["ledger"],
        "memory_rate": count / middle["memory"],
        "bare_rate": count / middle["bare"],
        "ratio": middle["bare"] / middle["ledger"],
        "bytes": size / count,
    }


def _feed(monitor: Any, how: str, x: Array, z: list[Any]) -> int:
    if how == "observe_many":
        return int(monitor.observe_many(x, z).violations.sum())
    return sum(monitor.observe(*one).violation for one in zip(x, z, strict=True))


BARE_TABLES = """
CREATE TABLE decision (row INTEGER PRIMARY KEY, record BLOB);
CREATE TABLE verdict (
    row INTEGER PRIMARY KEY, time INTEGER, model INTEGER, count INTEGER, distance REAL,
    witnesses BLOB, distances BLOB, salt BLOB, commitment BLOB, review TEXT
);
"""


def _kept_bytes(reader: LedgerReader, stop: int) -> tuple[list[Any], list[Any]]:
    """Read what a ledger keeps of each decision: records, verdicts with witnesses."""
    records = reader.records
    assert records is not None
    decisions: list[Any] = []
    for start in range(0, stop, CHUNK):
        kept = records.read(start, min(start + CHUNK, stop))
        blobs = kept.view(f"V{kept.dtype.itemsize}").tolist()
        decisions += list(zip(range(start, start + len(kept)), map(bytearray, blobs), strict=True))
    verdicts = reader.all("SELECT * FROM verdict ORDER BY row")
    # Python's sqlite3 takes byte arrays as they are; for `bytes` it looks for an adapter first.
    return decisions, [
        tuple(bytearray(one) if isinstance(one, bytes) else one for one in cells)
        for cells in verdicts
    ]


def _insert(path: Path, decisions: list[Any], verdicts: list[Any], chunk: int, level: str) -> float:
    """Return the seconds of a bare insert, `chunk` decisions to a transaction."""
    database = sqlite3.connect(path, isolation_level=None)
    database.execute("PRAGMA journal_mode = WAL")
    database.execute(f"PRAGMA synchronous = {level}")
    database.execute("PRAGMA wal_autocheckpoint = 4096")
    database.executescript(BARE_TABLES)
    begin, place = time.perf_counter(), 0
    for start in range(0, len(decisions), chunk):
        part = decisions[start : start + chunk]
        database.execute("BEGIN IMMEDIATE")
        database.executemany("INSERT INTO decision VALUES (?, ?)", part)
        stop = place
        while stop < len(verdicts) and verdicts[stop][0] <= part[-1][0]:
            stop += 1
        rows = verdicts[place:stop]
        database.executemany("INSERT INTO verdict VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", rows)
        place = stop
        database.execute("COMMIT")
    seconds = time.perf_counter() - begin
    database.close()
    return seconds


def _write_from_threads(setting: Setting, folder: Path, points: Array, outputs: Array) -> list[Row]:
    """Measure group commit: as many decisions, from one thread and from several."""
    count = min(SINGLE, len(points))
    x, z = points[:count], outputs[:count].tolist()
    found: list[Row] = []
    for threads in (1, 4, 16):
        times, events = [], 0
        for i in range(setting.rounds):
            path = folder / f"threads-{threads}-{i}"
            with lw.open(path, lw.Rule("linf", 0.1)) as monitor:
                times.append(_time_threads(monitor, threads, x, z))
                oracle.require(monitor.rows == count, "rows are missing")
                oracle.require(monitor.ledger.verify().ok, "a ledger does not verify")
                query = "SELECT count(*) FROM event WHERE kind = 'judged'"
                ((events,),) = monitor.core.ledger.journal.store.reader.all(query)
        rate = count / statistics.median(times)
        first = found[0]["rate"] if found else rate
        found.append({"threads": threads, "rate": rate, "ratio": rate / first, "events": events})
    return found


def _time_threads(monitor: Any, threads: int, x: Array, z: list[Any]) -> float:
    """Return the seconds until all decisions are answered."""

    def work(start: int) -> None:
        for i in range(start, len(x), threads):
            monitor.observe(x[i], z[i])

    workers = [threading.Thread(target=work, args=(k,)) for k in range(threads)]
    begin = time.perf_counter()
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return time.perf_counter() - begin


def _open(setting: Setting, folder: Path) -> list[Row]:
    rows = []
    for size in (setting.rows(1_000_000), *([10_000_000] if setting.huge else [])):
        path = folder / f"open-{size}"
        with lw.open(path, lw.Rule("linf", 0.01), durability="off") as monitor:
            points, outputs = setting.rows_source().rows(size, WIDTH)
            for start in range(0, size, 1_000_000):
                part = slice(start, start + 1_000_000)
                monitor.observe_many(points[part].astype("float64"), outputs[part])
            oracle.require(len(monitor) == size, "rows are missing")
        del points
        for check in (True, False):
            given = {"path": str(path), "check": check}
            found = [
                setting.alone(measure_opening, given)
                for _ in range(setting.rounds if size <= 1_000_000 else 1)
            ]
            oracle.require(all(one["rows"] == size for one in found), "rows are missing")
            middle = sorted(found, key=lambda one: float(one["seconds"]))[len(found) // 2]
            rows.append({"check": check, **middle})
    return rows


def measure_opening(given: Mapping[str, Any]) -> Row:
    """Open a ledger in this process, and verify it apart."""
    begin = time.perf_counter()
    opener = lw.open
    imported = time.perf_counter()
    with opener(given["path"], check=given["check"]) as monitor:
        opened = time.perf_counter()
        rows = len(monitor)
    rates: Row = dict.fromkeys(("verify_rate", "chain_rate"))
    if given["check"]:
        with lw.Ledger(given["path"]) as ledger:
            for name, values in (("verify_rate", True), ("chain_rate", False)):
                begun = time.perf_counter()
                oracle.require(ledger.verify(values=values).ok, "the ledger does not verify")
                rates[name] = rows / (time.perf_counter() - begun)
    seconds = {"seconds": opened - imported, "import_seconds": imported - begin}
    return {"rows": rows, **seconds, **rates}


def _migrate(setting: Setting, folder: Path) -> Row:
    """Judge a ledger again under another rule."""
    points, outputs = setting.rows_source().rows(setting.rows(500_000), WIDTH)
    other, path = lw.Rule("linf", 0.06), folder / "migrated"
    with lw.open(path, lw.Rule("linf", 0.05)) as monitor:
        monitor.observe_many(points.astype("float64"), outputs)
    expected = lw.Monitor(other).observe_many(points.astype("float64"), outputs)
    times = []
    for i in range(setting.rounds):
        new = folder / f"{path.name}-{i}"
        begin = time.perf_counter()
        done = lw.migrate(path, new, rule=other)
        times.append(time.perf_counter() - begin)
        oracle.require(done.rows == len(points), "rows are missing")
        oracle.require(done.judged_again, "not judged again")
        with lw.Ledger(new) as ledger:
            oracle.require(ledger.verify().ok, "a migrated ledger does not verify")
            flagged = ledger.stats().violations
        oracle.require(flagged == int(expected.violations.sum()), "other decisions are flagged")
    rows, seconds = len(points), statistics.median(times)
    found = {"what": "another rule", "rows": rows, "flagged": flagged, "seconds": seconds}
    return {**found, "rate": rows / seconds}


SIZING_EPSILON, EACH = 0.05, 50_000


@benchmark("Sizing")
def sizing(setting: Setting) -> Answer:
    """How much disk, memory and time does a service need for so many decisions with keys?

    Bytes for each decision; seconds of CPU and by the clock for opening; the most memory of the
    process. 12 float64 numbers and a text key of 12 characters for each decision, two labels; the
    ledger is closed, and opened in a new process.
    """
    rows = setting.rows(2_000_000, least=20_000)
    with tempfile.TemporaryDirectory(dir=scratch()) as folder:
        given = {"path": str(Path(folder) / "ledger"), "rows": rows}
        written = call(address(fill), given)
        opened = call(address(reopen), given)
    oracle.require(opened["rows"] == rows, f"{opened['rows']} of {rows} decisions are there")
    return Answer(
        {"sizing": [{**opened, **written}]},
        ["all decisions are there, and the key of the last is known"],
    )


def fill(given: Mapping[str, Any]) -> Row:
    """Write a ledger; return the bytes that its folder takes for each decision."""
    rng = np.random.default_rng(0)
    rows, path = given["rows"], Path(given["path"])
    with lw.open(path, lw.Rule("linf", SIZING_EPSILON)) as monitor:
        for start in range(0, rows, EACH):
            count = min(EACH, rows - start)
            keys = [f"key-{i:08}" for i in range(start, start + count)]
            monitor.observe_many(rng.random((count, WIDTH)), rng.integers(0, 2, count), keys=keys)
    size = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
    return {"disk_bytes": size / rows}


def reopen(given: Mapping[str, Any]) -> Row:
    """Open a ledger; return what that costs, and the memory that each decision takes."""
    lw.Monitor(lw.Rule("linf", SIZING_EPSILON)).observe(np.zeros(WIDTH), 0)  # loads the kernels
    gc.collect()
    resident, cpu, wall = rss_bytes(), time.process_time(), time.perf_counter()
    monitor = lw.open(given["path"])
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    gc.collect()
    rows = monitor.rows
    oracle.require(monitor.row_of(f"key-{rows - 1:08}") == rows - 1, "a key is not known")
    return {
        "rows": rows,
        "memory_bytes": (rss_bytes() - resident) / rows,
        "open_seconds": cpu,
        "open_wall_seconds": wall,
        "peak_mb": peak_rss_bytes() / 1e6,
    }
