"""The bars set for likewise: each a name, what was measured, the target, reached or not.

Read from the answers as they stand in the JSON, so that a report can be written again without
measuring again.

Invariant: a bar whose question was not asked, was skipped or ran shrunk is never called reached.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

Answers = Mapping[str, Any]


@dataclass(frozen=True)
class Bar:
    """`read` finds the measured value in the answers, or None where it was not measured."""

    name: str
    question: str
    target: float
    at_least: bool
    unit: str
    read: Callable[[Answers], float | None]

    def judge(self, answers: Answers) -> dict[str, Any]:
        answer = answers.get(self.question, {})
        value = self.read(answers) if "tables" in answer else None
        reached: bool | None = None
        if value is not None and answer.get("scale") == 1:
            reached = value >= self.target if self.at_least else value <= self.target
        return {
            "bar": self.name,
            "target": self.target,
            "at_least": self.at_least,
            "unit": self.unit,
            "value": value,
            "reached": reached,
            "why_not": None if reached is not None else _why(answer, value),
        }


def _why(answer: Mapping[str, Any], value: float | None) -> str:
    if "failed" in answer:
        return "failed"
    if "skipped" in answer:
        return "skipped"
    if value is None:
        return "not measured"
    return f"scale {answer.get('scale'):g}: not judged"


def _rows(answers: Answers, question: str, table: str) -> list[Mapping[str, Any]]:
    found: list[Mapping[str, Any]] = answers[question]["tables"].get(table, {}).get("rows", [])
    return found


def _value(question: str, table: str, key: str, **where: Any) -> Callable[[Answers], float | None]:
    """The one row that matches, and its number."""

    def read(answers: Answers) -> float | None:
        for row in _rows(answers, question, table):
            if all(row.get(name) == value for name, value in where.items()):
                value = row.get(key)
                return None if value is None else float(value)
        return None

    return read


def _worst(question: str, table: str, key: str) -> Callable[[Answers], float | None]:
    def read(answers: Answers) -> float | None:
        return max((float(row[key]) for row in _rows(answers, question, table)), default=None)

    return read


def _ms(read: Callable[[Answers], float | None]) -> Callable[[Answers], float | None]:
    def scaled(answers: Answers) -> float | None:
        us = read(answers)
        return None if us is None else us / 1e3

    return scaled


def _growth(answers: Answers) -> float | None:
    small = _value("growth", "curve", "us", rows=10_000)(answers)
    large = _value("growth", "curve", "us", rows=1_000_000)(answers)
    return None if small is None or large is None else large / small


def _adult(key: str) -> Callable[[Answers], float | None]:
    return _value("paper", "contenders", key, file="adult-base-P2", contender="likewise")


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
            _value("higgs", "contenders", "ratio", columns=columns, metric="linf", epsilon=epsilon),
        )
        for columns in (12, 24)
        for epsilon in (0.01, 0.025, 0.05)
    ]
    l2 = _value("higgs", "contenders", "ratio", columns=12, metric="l2", epsilon=0.05)
    clemont = _value(
        "paper", "contenders", "ratio", file="adult-base-P2", contender="Clemont k-d tree"
    )
    two = _value("threads", "threads", "speedup", threads=2)
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
            _value("single", "kernel", "above_p50_us"),
        ),
    ]
    for arrivals in ("shuffled", "drifting", "sorted line"):
        worst = _ms(_value("single", "single", "max_us", arrivals=arrivals))
        name = f"worst single `observe` on the way to 1M, {arrivals}"
        bars.append(Bar(name, "single", 5.0, False, "ms", worst))
    bars.append(Bar("growth from 10k to 1M rows, ε .01", "growth", 5.0, False, "×", _growth))
    for arrivals in ("drifting", "sorted line"):
        depth = _value("arrivals", "insertion", "depth", arrivals=arrivals)
        ratio = _value("arrivals", "insertion", "ratio", arrivals=arrivals)
        # 3 log2 of a million
        bars.append(Bar(f"depth at 1M, {arrivals}", "arrivals", 59.8, False, "", depth))
        name = f"insertion over the same rows shuffled, {arrivals}"
        bars.append(Bar(name, "arrivals", 3.0, False, "×", ratio))
    bars += [
        Bar("`load` of 1M × 12", "load", 1.0, False, "s", _value("load", "load", "seconds")),
        Bar("`load` of 10M × 12", "huge", 10.0, False, "s", _value("huge", "load", "seconds")),
        Bar(
            "1,000 labels over 2, same rows, worst radius",
            "labels",
            2.0,
            False,
            "×",
            _worst("labels", "labels", "ratio"),
        ),
        Bar(
            "memory per decision at 1M × 12 float32",
            "memory",
            150.0,
            False,
            "bytes",
            _value("memory", "memory", "largest_bytes"),
        ),
    ]
    for cache, target, name in (("empty", 15.0, "compile"), ("filled", 1.0, "from the cache")):
        seconds = _value("first_use", "first_use", "first_use_seconds", cache=cache)
        bars.append(Bar(f"first use, {name}", "first_use", target, False, "s", seconds))
    return bars


BARS = _bars()


def judge(answers: Answers) -> list[dict[str, Any]]:
    """Every bar, in order, whether measured or not."""
    return [bar.judge(answers) for bar in BARS]
