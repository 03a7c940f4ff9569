"""The bars set for likewise, in order.

Invariant: every bar is listed, whether it was measured or not.
"""

from __future__ import annotations

from typing import Any

from benchmarks import (
    bars_buffering,
    bars_cluster,
    bars_ledger,
    bars_partition,
    bars_people,
    bars_serve,
    bars_streams,
    bars_watched,
    bars_wide,
)
from benchmarks.bar import Answers, Bar, Reader, value_of, worst_of


def _growth(answers: Answers) -> float | None:
    small = value_of("growth", "curve", "us", rows=10_000)(answers)
    large = value_of("growth", "curve", "us", rows=1_000_000)(answers)
    return None if small is None or large is None else large / small


def _adult(key: str) -> Reader:
    return value_of("paper", "contenders", key, file="adult-base-P2", contender="likewise")


def _exactly(key: str, target: int, name: str) -> Bar:
    def off_by(answers: Answers) -> float | None:
        value = _adult(key)(answers)
        return None if value is None else abs(value - target)

    return Bar(f"adult-base-P2: {name}, off by", "paper", 0.0, False, "", off_by)


def _above_pause(arrivals: str) -> Reader:
    """The worst of all rounds, less the longest pause of an idle loop in the same run: ms."""

    def read(answers: Answers) -> float | None:
        worst = value_of("single", "single", "max_us", arrivals=arrivals)(answers)
        pause = value_of("single", "single", "pause_us", arrivals=arrivals)(answers)
        return None if worst is None or pause is None else (worst - pause) / 1e3

    return read


def _firsts() -> list[Bar]:
    bars = []
    for table, key, where, name, target, unit in (
        ("first", "seconds", {}, "first `observe` of a process, imports included", 0.3, "s"),
        (
            "commands",
            "above_seconds",
            {"command": "likewise --help"},
            "`likewise --help` above importing Typer and Rich",
            0.1,
            "s",
        ),
        (
            "commands",
            "above_seconds",
            {"command": "likewise audit, 1,000 rows"},
            "`likewise audit` of 1,000 rows above importing Polars and NumPy",
            0.5,
            "s",
        ),
        ("again", "longer_ms", {"name": "forget"}, "first `forget` longer than the next", 5, "ms"),
        ("again", "longer_ms", {"name": "drop"}, "first drop of a window, the same", 5, "ms"),
        ("again", "longer_ms", {"name": "change"}, "first change of the index, the same", 5, "ms"),
        ("first", "empty_mb", {}, "resident memory with one empty monitor", 60, "MB"),
    ):
        read = value_of("first_use", table, key, **where)
        bars.append(Bar(name, "first_use", target, False, unit, read))
    return bars


def _bars() -> list[Bar]:
    bars = [
        Bar(
            f"1M × {columns}, L∞ ε {epsilon:g}: SciPy's query alone ÷ likewise",
            "higgs",
            30.0 if epsilon == 0.025 or (columns, epsilon) == (24, 0.01) else 40.0,
            True,
            "×",
            value_of(
                "higgs", "contenders", "ratio", columns=columns, metric="linf", epsilon=epsilon
            ),
        )
        for columns in (12, 24)
        for epsilon in (0.01, 0.025, 0.05)
    ]
    l2 = value_of("higgs", "contenders", "ratio", columns=12, metric="l2", epsilon=0.05)
    clemont = value_of(
        "paper", "contenders", "ratio", file="adult-base-P2", contender="Clemont k-d tree"
    )
    clemont_single = value_of(
        "paper", "contenders", "single_ratio", file="adult-base-P2", contender="Clemont k-d tree"
    )
    bars += [
        Bar("1M × 12, L2 ε .05: SciPy's query alone ÷ likewise", "higgs", 10.0, True, "×", l2),
        Bar(
            "adult-base-P2, ε .16: Clemont's k-d tree ÷ `observe_many`",
            "paper",
            1_000,
            True,
            "×",
            clemont,
        ),
        Bar(
            "adult-base-P2, ε .16: Clemont's k-d tree ÷ one `observe`",
            "paper",
            300,
            True,
            "×",
            clemont_single,
        ),
        _exactly("flagged", 10_656, "10,656 flagged"),
        _exactly("pairs", 153_323, "153,323 pairs"),
        *(
            Bar(
                f"two threads over one, 1M × 12, ε {epsilon:g}",
                "threads",
                1.6,
                True,
                "×",
                value_of("threads", "threads", "speedup", threads=2, epsilon=epsilon),
            )
            for epsilon in (0.01, 0.05)
        ),
        *(
            Bar(
                f"one `observe` with some eight witnesses at 1M × 12, ε .05, {name}",
                "witnesses",
                target,
                False,
                "µs",
                value_of("witnesses", "witnesses", f"{name}_us"),
            )
            for name, target in (("p50", 10.0), ("p99", 50.0))
        ),
        Bar(
            "one `observe` above its kernel, p50 at 1M",
            "single",
            2.5,
            False,
            "µs",
            value_of("single", "kernel", "above_p50_us"),
        ),
    ]
    for arrivals in ("shuffled", "drifting", "sorted line"):
        name = f"worst `observe` on the way to 1M above an idle loop's pause, {arrivals}"
        bars.append(Bar(name, "single", 5.0, False, "ms", _above_pause(arrivals)))
    bars.append(Bar("growth from 10k to 1M rows, ε .01", "growth", 5.0, False, "×", _growth))
    for arrivals in ("drifting", "sorted line"):
        depth = value_of("arrivals", "insertion", "depth", arrivals=arrivals)
        ratio = value_of("arrivals", "insertion", "ratio", arrivals=arrivals)
        # 3 log2 of a million
        bars.append(Bar(f"depth at 1M, {arrivals}", "arrivals", 59.8, False, "", depth))
        name = f"insertion over the same rows shuffled, {arrivals}"
        bars.append(Bar(name, "arrivals", 3.0, False, "×", ratio))
    bars += [
        Bar("`load` of 1M × 12", "load", 1.0, False, "s", value_of("load", "load", "seconds")),
        Bar("`load` of 10M × 12", "huge", 10.0, False, "s", value_of("huge", "load", "seconds")),
        Bar(
            "1,000 labels over 2, same rows, worst radius",
            "labels",
            2.0,
            False,
            "×",
            worst_of("labels", "labels", "ratio"),
        ),
        Bar(
            "memory per decision at 1M × 12 float32",
            "memory",
            150.0,
            False,
            "bytes",
            value_of("memory", "memory", "largest_bytes"),
        ),
    ]
    return bars + _firsts()


BARS = [
    *_bars(),
    *bars_wide.BARS,
    *bars_people.BARS,
    *bars_ledger.BARS,
    *bars_watched.BARS,
    *bars_buffering.BARS,
    *bars_partition.BARS,
    *bars_cluster.BARS,
    *bars_serve.BARS,
    *bars_streams.BARS,
]


def judge(answers: Answers) -> list[dict[str, Any]]:
    """Every bar, in order, whether measured or not."""
    return [bar.judge(answers) for bar in BARS]
