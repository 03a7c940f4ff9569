"""One workload, all contenders, in one process and in turns.

likewise starts empty and compares and inserts every row of the stream, on one thread. Each peer
is an index already built over the same rows and only answers fresh queries. Peers are timed
before, between and after the runs of likewise; medians are reported.

Invariant: nothing is reported unless likewise and every peer name the same witnesses on samples
of the stream itself, of fresh rows, and at a wider radius where there is much to find.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks import oracle
from benchmarks.contenders import Peer, Question, warm_up
from benchmarks.harness import Setting
from benchmarks.measure import Timing, single_calls, timed, wall_us

Array = NDArray[Any]
STREAM_SAMPLE, FRESH_SAMPLE, WIDE_SAMPLE = 300, 200, 100
# A slower peer is asked fewer of them; looking at every row needs no index at all.
SHARE = {"scipy": 1.0, "sklearn": 0.2, "faiss": 0.02}
ORACLE_SAMPLE = 4


@dataclass(frozen=True)
class Workload:
    """A stream, fresh rows drawn the same way, and the peers built over the stream."""

    name: str
    points: Array
    outputs: Array
    fresh_points: Array
    fresh_outputs: Array
    peers: Sequence[Peer]


@dataclass(frozen=True)
class Asked:
    """A decision judged by likewise: only rows below `limit` had been there."""

    x: Array
    z: int
    limit: int
    answer: Array


def build_peers(setting: Setting, points: Array, metric: str) -> list[Peer]:
    return [make(points, metric) for make in setting.peers]


def agree(question: Question, load: Workload, asked: Sequence[Asked]) -> int:
    """Every peer, and looking at every row, name the witnesses that likewise named."""

    def same(who: str, one: Asked, rows: Array) -> None:
        expected = oracle.decide(question, load.points, load.outputs, rows, one.x, one.z)
        oracle.require(
            np.array_equal(expected, one.answer),
            f"{load.name}, {question.label}: {who} finds {expected.tolist()[:20]},"
            f" likewise {one.answer.tolist()[:20]}",
        )

    for peer in load.peers:
        part = asked[: max(ORACLE_SAMPLE, int(len(asked) * SHARE.get(peer.package, 1.0)))]
        queries = np.stack([one.x for one in part])
        found = peer.rows(peer.search(queries, question.reach * (1 + peer.margin)))
        for one, rows in zip(part, found, strict=True):
            same(peer.name, one, rows[rows < one.limit])
    for one in asked[:ORACLE_SAMPLE]:
        before = slice(0, one.limit)
        points, outputs = load.points[before], load.outputs[before]
        same("brute force", one, oracle.witnesses(question, points, outputs, one.x, one.z))
    return sum(len(one.answer) for one in asked)


def from_stream(load: Workload, verdicts: Any, sample: int) -> list[Asked]:
    """Half flagged rows (as far as there are any), half random ones, in random order."""
    rng = np.random.default_rng(len(load.points))
    flagged = np.flatnonzero(verdicts.violations)
    some = rng.permutation(flagged)[: sample // 2]
    rest = rng.choice(len(load.points), min(sample - len(some), len(load.points)), replace=False)
    return [
        Asked(load.points[i], int(load.outputs[i]), i, np.asarray(verdicts[i].witnesses.rows))
        for i in rng.permutation(np.concatenate([some, rest])).tolist()
    ]


def from_fresh(load: Workload, monitor: Any, sample: int) -> list[Asked]:
    """Fresh rows, checked against the whole stream."""
    rows = zip(load.fresh_points[:sample], load.fresh_outputs[:sample].tolist(), strict=True)
    return [
        Asked(x, z, len(load.points), np.asarray(monitor.check(x, z).witnesses.rows))
        for x, z in rows
    ]


def wide_check(question: Question, radius: float, load: Workload) -> str:
    """At a radius with much to find, fresh rows get the same witnesses from everyone."""
    wide = question.at(radius)
    monitor = wide.monitor()
    monitor.load(load.points, load.outputs)
    asked = from_fresh(load, monitor, WIDE_SAMPLE)
    total = agree(wide, load, asked)
    oracle.require(total > 0, f"{load.name}, {wide.label}: nothing found, so nothing was checked")
    return _told(wide, load, len(asked), "fresh rows", total)


def _told(question: Question, load: Workload, asked: int, what: str, total: int) -> str:
    names = ", ".join(peer.name for peer in load.peers) or "no peer"
    return (
        f"{load.name}, {question.label}: {asked} {what} have {total:,} witnesses, row by row the"
        f" same from likewise, brute force and {names} (slower ones asked fewer)"
    )


def compare(setting: Setting, question: Question, load: Workload) -> tuple[dict[str, Any], str]:
    """Measure one workload; the table's row, and what was checked."""
    warm_up(question, load.points, load.outputs)
    queries = {
        peer.package: load.fresh_points[: setting.rows(peer.queries, least=min(100, peer.queries))]
        for peer in load.peers
    }
    times: dict[str, list[Timing]] = {name: [] for name in ("likewise", *queries)}
    pairs = set()

    def time_peers() -> None:
        for peer in load.peers:
            batch = queries[peer.package]
            _, timing = timed(peer.search, batch, question.reach)
            times[peer.package].append(timing)

    monitor: Any = None
    verdicts: Any = None
    for _ in range(setting.rounds):
        time_peers()
        monitor = question.monitor()
        verdicts = None
        verdicts, timing = timed(monitor.observe_many, load.points, load.outputs, threads=1)
        times["likewise"].append(timing)
        pairs.add(verdicts.pairs)
    time_peers()
    oracle.require(len(pairs) == 1, f"{load.name}: runs disagree on the pairs: {sorted(pairs)}")

    asked = from_stream(load, verdicts, STREAM_SAMPLE)
    total = agree(question, load, asked)
    fresh = from_fresh(load, monitor, FRESH_SAMPLE)
    total += agree(question, load, fresh)
    told = _told(question, load, len(asked) + len(fresh), "rows of the stream and fresh", total)

    row: dict[str, Any] = {
        "workload": load.name,
        "rows": len(load.points),
        "columns": load.points.shape[1],
        "question": question.label,
        "metric": question.metric,
        "epsilon": question.epsilon,
        "flagged": int(np.count_nonzero(verdicts.violations)),
        "pairs": int(verdicts.pairs),
        "rounds": setting.rounds,
        **wall_us(times["likewise"], len(load.points)),
    }
    for package, batch in queries.items():
        for key, value in wall_us(times[package], len(batch)).items():
            row[f"{package}_{key}"] = value
        row[f"{package}_queries"] = len(batch)
    row["ratio"] = row["scipy_us"] / row["us"] if "scipy_us" in row else None
    row["bytes_per_decision"] = float(monitor.explain().bytes_per_decision)

    del monitor
    single = single_calls(question.monitor().observe, load.points, load.outputs)
    oracle.require(
        np.array_equal(single.counts, verdicts.counts),
        f"{load.name}, {question.label}: observe and observe_many count differently",
    )
    row.update(single.percentiles())
    return row, told
