"""The bars set for likewise, in order.

Invariant: every bar is listed, whether it was measured or not.
"""

from __future__ import annotations

from typing import Any

from benchmarks import bars_ledger, bars_people, bars_watched, bars_wide
from benchmarks.bar import Answers, Bar, Reader, value_of, worst_of


def _ms(read: Reader) -> Reader:
    def scaled(answers: Answers) -> float | None:
        us = read(answers)
        return None if us is None else us / 1e3

    return scaled


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


def _bars() -> list[Bar]:
    bars = [
        Bar(
            f"1M × {columns}, L∞ ε {epsilon:g}: SciPy's query alone ÷ likewise",
            "higgs",
            30.0,
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
    two = value_of("threads", "threads", "speedup", threads=2)
    bars += [
        Bar("1M × 12, L2 ε .05: SciPy's query alone ÷ likewise", "higgs", 10.0, True, "×", l2),
        Bar(
            "adult-base-P2, ε .16: Clemont's k-d tree ÷ likewise", "paper", 150, True, "×", clemont
        ),
        _exactly("flagged", 10_656, "10,656 flagged"),
        _exactly("pairs", 153_323, "153,323 pairs"),
        Bar("two threads over one, 1M × 12, ε .05", "threads", 1.5, True, "×", two),
        Bar(
            "one `observe` above its kernel, p50 at 1M",
            "single",
            3.5,
            False,
            "µs",
            value_of("single", "kernel", "above_p50_us"),
        ),
    ]
    for arrivals in ("shuffled", "drifting", "sorted line"):
        worst = _ms(value_of("single", "single", "max_us", arrivals=arrivals))
        name = f"worst single `observe` on the way to 1M, {arrivals}"
        bars.append(Bar(name, "single", 5.0, False, "ms", worst))
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
    for cache, target, name in (("empty", 15.0, "compile"), ("filled", 1.0, "from the cache")):
        seconds = value_of("first_use", "first_use", "first_use_seconds", cache=cache)
        bars.append(Bar(f"first use, {name}", "first_use", target, False, "s", seconds))
    return bars


BARS = [*_bars(), *bars_wide.BARS, *bars_people.BARS, *bars_ledger.BARS, *bars_watched.BARS]


def judge(answers: Answers) -> list[dict[str, Any]]:
    """Every bar, in order, whether measured or not."""
    return [bar.judge(answers) for bar in BARS]
