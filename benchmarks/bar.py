"""One bar: a name, what was measured, the target, reached or not; and how to read an answer.

Read from the answers as they stand in the JSON, so that a report can be written again without
measuring again.

Invariant: a bar whose question was not asked, was skipped or ran shrunk is never called reached.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

Answers = Mapping[str, Any]
Reader = Callable[[Answers], float | None]


@dataclass(frozen=True)
class Bar:
    """`read` finds the measured value in the answers, or None where it was not measured."""

    name: str
    question: str
    target: float
    at_least: bool
    unit: str
    read: Reader

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
            "load": answer.get("load"),
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


def rows_of(answers: Answers, question: str, table: str) -> list[Mapping[str, Any]]:
    found: list[Mapping[str, Any]] = answers[question]["tables"].get(table, {}).get("rows", [])
    return found


def value_of(question: str, table: str, key: str, **where: Any) -> Reader:
    """The one row that matches, and its number."""

    def read(answers: Answers) -> float | None:
        for row in rows_of(answers, question, table):
            if all(row.get(name) == value for name, value in where.items()):
                value = row.get(key)
                return None if value is None else float(value)
        return None

    return read


def worst_of(question: str, table: str, key: str) -> Reader:
    def read(answers: Answers) -> float | None:
        return max((float(row[key]) for row in rows_of(answers, question, table)), default=None)

    return read
