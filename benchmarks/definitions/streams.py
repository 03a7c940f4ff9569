"""How many decisions a second are read from a Redis stream, judged and on disk?

Beside a bare consumer of the same stream: the same client with the same settings, which reads the
entries and parses their JSON, and forgets them. The server forces every entry to disk; so does the
ledger, batch by batch.
"""

from __future__ import annotations

import importlib.util
import json
import shutil
import tempfile
import time
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import likewise as lw
from benchmarks import oracle
from benchmarks.harness import Answer, Row, Setting, Skipped, benchmark
from benchmarks.measure import medians
from benchmarks.processes import free_port, scratch, server
from benchmarks.workloads import HIGGS_FILE, mix_of
from likewise.ledger.ledger import Ledger
from likewise.sources.file_source import make_source, make_target
from likewise.sources.follower import Follower
from likewise.sources.judge_messages import StreamJudge, make_binder
from likewise.sources.sinks import LineTarget, StreamSink

WIDTH, TOLERANCE = 12, 0.05
NAMES = [f"c{i}" for i in range(WIDTH)]
DECISIONS = 100_000
BATCH = 4096


@benchmark("Streams")
def streams(setting: Setting) -> Answer:
    """How does following a stream compare with a consumer that keeps nothing?

    12 columns in JSON, tolerance 0.05; Redis with `appendfsync always`, the ledger durable with
    every batch. All three in one run, decisions a second: bare is the bare consumer, told_rate is
    with verdict lines to another stream.

    The bare consumer reads the same batches and parses their JSON; it keeps nothing.
    """
    if importlib.util.find_spec("redis") is None:
        raise Skipped("the package redis is not installed.")
    if shutil.which("redis-server") is None:
        raise Skipped("redis-server is not installed (Debian has it).")
    given = {"folder": setting.folder_of(HIGGS_FILE), "rows": setting.rows(DECISIONS, 2_000)}
    runs = [setting.alone(measure_streams, given) for _ in range(setting.rounds)]
    return Answer(
        {"redis": [medians(runs)]},
        ["every decision is in the ledger, once, with its position", "contradictions were found"],
    )


def measure_streams(given: Mapping[str, Any]) -> Row:
    """Time a bare consumer, likewise, and likewise with verdict lines, over the same stream."""
    import redis

    count, port = given["rows"], free_port()
    points, outputs = mix_of(given["folder"]).rows(count, WIDTH)
    client = redis.Redis("127.0.0.1", port, protocol=2)  # as likewise does

    def is_ready() -> bool:
        try:
            return bool(client.ping())
        except redis.RedisError:
            return False

    with tempfile.TemporaryDirectory(dir=scratch()) as place:
        folder = Path(place)
        address = ["--port", str(port), "--bind", "127.0.0.1", "--dir", place]
        durable = ["--appendonly", "yes", "--appendfsync", "always", "--save", ""]
        with server(["redis-server", *address, *durable], is_ready), closing(client):
            _publish(client, points.astype("float64").round(5), outputs)
            bare = _time_bare_consumer(client, count)
            quiet, flagged = _time_follower(folder / "quiet", port, count, None)
            target = f"redis://127.0.0.1:{port}?stream=verdicts"
            told, _ = _time_follower(folder / "told", port, count, target)
            oracle.require(client.xlen("verdicts") == count, "not every verdict was told")
            oracle.require(flagged > 0, "nothing was found")
    return {
        "rows": count,
        "flagged": flagged,
        "bare": count / bare,
        "rate": count / quiet,
        "told_rate": count / told,
        "ratio": bare / quiet,
        "told_ratio": bare / told,
    }


def _publish(client: Any, points: Any, outputs: Any) -> None:
    decisions = list(zip(points.tolist(), outputs.tolist(), strict=True))
    for start in range(0, len(decisions), BATCH):
        pipeline = client.pipeline(transaction=False)
        for row, label in decisions[start : start + BATCH]:
            decision = {**dict(zip(NAMES, row, strict=True)), "z": str(label)}
            pipeline.xadd("decisions", {"decision": json.dumps(decision)})
        pipeline.execute()


def _time_bare_consumer(client: Any, count: int) -> float:
    """Return the seconds of a consumer that reads and parses, and keeps nothing."""
    last, seen, start = b"0", 0, time.perf_counter()
    while seen < count:
        answer = client.xread({"decisions": last}, count=BATCH)
        for last, fields in answer[0][1]:  # noqa: B007 - where to go on
            json.loads(fields[b"decision"])
            seen += 1
    return time.perf_counter() - start


def _time_follower(folder: Path, port: int, count: int, to: str | None) -> tuple[float, int]:
    """Return the seconds until the last decision is on disk, and told; and how many are flagged."""
    columns = {name: lw.Feature("number", tolerance=TOLERANCE) for name in NAMES}
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
        report, seconds = follower._report_verdicts, 0.0

        def stop_at_the_end(*some: Any) -> None:
            nonlocal seconds
            report(*some)
            if follower.counts.rows >= count:
                seconds = time.perf_counter() - start
                follower.stop()  # which waits for a poll of an empty stream, up to a second

        follower._report_verdicts = stop_at_the_end  # type: ignore[method-assign]
        start = time.perf_counter()
        follower.run()
        source.close()
        flagged = follower.counts.violations
    with closing(Ledger(folder)) as ledger:
        oracle.require(ledger.rows == count, "not every decision is in the ledger")
        oracle.require(len(ledger.positions) == 1, "no position is in the ledger")
    return seconds, flagged
