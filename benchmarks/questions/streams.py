"""How many decisions a second are read from a Redis stream, judged and on disk?

Beside a bare consumer of the same stream: the same client with the same settings, which reads the
entries and parses their JSON, and forgets them. The server forces every entry to disk; so does the
ledger, batch by batch.
"""

from __future__ import annotations

import importlib.util
import json
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import likewise as lw
from benchmarks import oracle, workloads
from benchmarks.answer import Answer, Setting, Skipped, Table
from benchmarks.measure import medians
from benchmarks.scratch import scratch
from likewise.ledger.ledger import Ledger
from likewise.sources.file_source import make_source, make_target
from likewise.sources.follower import Follower
from likewise.sources.judge_messages import StreamJudge, make_binder
from likewise.sources.sinks import LineTarget, StreamSink

COLUMNS_WIDE, TOLERANCE = 12, 0.05
DECISIONS = 100_000
BATCH = 4096
COLUMNS = {
    "rows": "decisions",
    "flagged": "flagged",
    "bare": "bare consumer, a second",
    "rate": "likewise, a second",
    "ratio": "÷ bare",
    "told_rate": "with verdict lines to a stream, a second",
    "told_ratio": "÷ bare",
}


def ask(setting: Setting) -> Answer:
    if importlib.util.find_spec("redis") is None:
        raise Skipped("the package redis is not installed.")
    if shutil.which("redis-server") is None:
        raise Skipped("redis-server is not installed (Debian has it).")
    given = {
        "folder": setting.folder_of("higgs_35k.npz"),
        "rows": setting.rows(DECISIONS, 2_000),
    }
    runs = [
        setting.alone("benchmarks.questions.streams:measured", given) for _ in range(setting.rounds)
    ]
    return Answer(
        "Streams",
        {
            "redis": Table(
                COLUMNS,
                [medians(runs)],
                f"{COLUMNS_WIDE} columns in JSON, tolerance {TOLERANCE:g}; Redis with `appendfsync"
                " always`, the ledger durable with every batch. All three in one run.",
            )
        },
        ["every decision is in the ledger, once, with its position", "contradictions were found"],
        ["The bare consumer reads the same batches and parses their JSON; it keeps nothing."],
    )


def measured(given: Mapping[str, Any]) -> dict[str, Any]:
    """A bare consumer, likewise, and likewise with verdict lines, over the same stream."""
    source = (
        workloads.generated() if given["folder"] is None else workloads.higgs(Path(given["folder"]))
    )
    count = given["rows"]
    points, outputs = source.rows(count, COLUMNS_WIDE)
    with tempfile.TemporaryDirectory(dir=scratch()) as folder, _server(Path(folder)) as client:
        _publish(client, points.astype("float64").round(5), outputs)
        bare = _bare(client, count)
        port = client.connection_pool.connection_kwargs["port"]
        quiet, flagged = _followed(Path(folder) / "quiet", port, count, None)
        told, _ = _followed(
            Path(folder) / "told", port, count, f"redis://127.0.0.1:{port}?stream=verdicts"
        )
        oracle.require(client.xlen("verdicts") == count, "not every verdict was told")
        oracle.require(flagged > 0, "nothing was found")
    rates = {"bare": count / bare, "rate": count / quiet, "told_rate": count / told}
    return {
        "rows": count,
        "flagged": flagged,
        **rates,
        "ratio": bare / quiet,
        "told_ratio": bare / told,
    }


@contextmanager
def _server(folder: Path) -> Iterator[Any]:
    import redis

    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
    data = folder / "redis"
    data.mkdir()
    command = ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--dir", str(data)]
    durable = ["--appendonly", "yes", "--appendfsync", "always", "--save", ""]
    process = subprocess.Popen(
        [*command, *durable], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
    )
    try:
        client = redis.Redis("127.0.0.1", port, protocol=2)  # as likewise does
        for _ in range(500):
            try:
                client.ping()
                break
            except redis.RedisError:
                time.sleep(0.02)
        with closing(client):
            yield client
    finally:
        process.kill()
        process.wait()


def _publish(client: Any, points: Any, outputs: Any) -> None:
    names = [f"c{i}" for i in range(COLUMNS_WIDE)]
    rows, labels = points.tolist(), outputs.tolist()
    for start in range(0, len(rows), BATCH):
        pipeline = client.pipeline(transaction=False)
        for row, label in zip(
            rows[start : start + BATCH], labels[start : start + BATCH], strict=True
        ):
            decision = {**dict(zip(names, row, strict=True)), "z": str(label)}
            pipeline.xadd("decisions", {"decision": json.dumps(decision)})
        pipeline.execute()


def _bare(client: Any, count: int) -> float:
    """Seconds of a consumer that reads and parses, and keeps nothing."""
    last, seen, start = b"0", 0, time.perf_counter()
    while seen < count:
        answer = client.xread({"decisions": last}, count=BATCH)
        for last, fields in answer[0][1]:  # noqa: B007 - where to go on
            json.loads(fields[b"decision"])
            seen += 1
    return time.perf_counter() - start


def _followed(folder: Path, port: int, count: int, to: str | None) -> tuple[float, int]:
    """Seconds until the last decision is on disk, and told; and how many are flagged."""
    columns = {f"c{i}": lw.Feature("number", tolerance=TOLERANCE) for i in range(COLUMNS_WIDE)}
    rule = lw.Rule(features=columns, output_column="z")
    target: LineTarget | None = None if to is None else make_target(to, "verdict")
    with lw.open(folder, rule, comparable=True) as monitor:
        source, format = make_source(f"redis://127.0.0.1:{port}?stream=decisions")
        follower = Follower(
            source,
            StreamJudge(monitor, make_binder(rule)),
            StreamSink(target, None),
            tell=print,
            format=format,
        )
        told, seconds = follower._report_verdicts, 0.0

        def stop_at_the_end(*some: Any) -> None:
            nonlocal seconds
            told(*some)
            if follower.counts.rows >= count:
                seconds = time.perf_counter() - start
                follower.stop()  # which waits for a poll of an empty stream, up to a second

        follower._report_verdicts = stop_at_the_end  # type: ignore[method-assign]
        start = time.perf_counter()
        follower.run()
        source.close()
        flagged = follower.counts.flagged
    with closing(Ledger(folder)) as ledger:
        oracle.require(ledger.rows == count, "not every decision is in the ledger")
        oracle.require(len(ledger.positions) == 1, "no position is in the ledger")
    return seconds, flagged
