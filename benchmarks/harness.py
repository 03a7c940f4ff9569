"""What a benchmark is, what it needs to know, and what it hands back.

A definition is a function with a title and bars: `@benchmark("Title", Bar(...), ...)`. It gets a
`Setting` (size, rows, peers) and returns an `Answer`: tables of numbers, and what was checked.

Invariants: an answer turns into JSON without a path, a host name or a NumPy type in it. A bar whose
benchmark was not run, was skipped or ran shrunk is never called reached.
"""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.contenders import Peer
from benchmarks.processes import call
from benchmarks.workloads import Mix
from likewise.runtime.machine import MachineLoad

Row = dict[str, Any]
Tables = Mapping[str, Sequence[Mapping[str, Any]]]
Reader = Callable[[Tables], float | None]
TRIAL = 0.05  # a scale below this is a trial: it shows that everything runs


class Skipped(Exception):
    """The benchmark cannot run here; the text says why."""


@dataclass(frozen=True)
class Setting:
    """One run: its size, its rows, its peers."""

    source: Mix | None
    data: Path | None = None
    scale: float = 1.0
    peers: tuple[type[Peer], ...] = ()
    with_clemont: bool = False
    huge: bool = False
    rounds: int = 3
    generated: bool = False
    faiss: Mapping[str, str] = field(default_factory=dict)  # releases by name, with their Python

    def rows(self, full: int, least: int = 2_000) -> int:
        """Return `full`, shrunk by the scale, but never below `least` (nor above `full`)."""
        return min(full, max(least, int(full * self.scale)))

    def rows_source(self) -> Mix:
        """Return where HIGGS-like rows come from; skip the benchmark where there is none."""
        if self.source is None:
            raise Skipped(
                "higgs_35k.npz was not found. Set LIKEWISE_DATA to the folder that holds it,"
                " or use --generated for made-up rows."
            )
        return self.source

    def data_file(self, name: str) -> Path:
        """Return a file of the data folder; skip the benchmark where there is none."""
        if self.data is None or not (self.data / name).is_file():
            raise Skipped(f"{name} was not found. Set LIKEWISE_DATA to the folder that holds it.")
        return self.data / name

    def folder_of(self, name: str) -> str | None:
        """Return the folder that holds the file, or None where made-up rows are wanted instead."""
        return None if self.generated else str(self.data_file(name).parent)

    def alone(self, work: Callable[[Mapping[str, Any]], Row], given: Mapping[str, Any]) -> Row:
        """Run a function in a process of its own; a trial stays in this one, for speed."""
        return work(given) if self.scale < TRIAL else call(address(work), given)

    def beside(
        self,
        given: Mapping[str, Any],
        before: Mapping[str, Any] | None = None,
        only: str | None = None,
    ) -> Row:
        """Ask every release of FAISS the same; keep the faster of now and `before`."""
        found: Row = {}
        for name, python in self.faiss.items():
            if only in (None, name):
                now, old = call("benchmarks.flat:search", given, python), (before or {}).get(name)
                found[name] = now if old is None or now["us"] < old["us"] else old
        return found


def address(work: Callable[..., Any]) -> str:
    """Return module:function, by which another process finds it."""
    return f"{work.__module__}:{work.__qualname__}"


@dataclass
class Answer:
    """What one benchmark found: rows of numbers by table, what was checked, how it was measured."""

    tables: dict[str, list[Row]]
    checks: list[str]
    notes: Sequence[str] = ()


@dataclass(frozen=True)
class Bar:
    """A target for one number of an answer; `read` finds it, or None where it is missing."""

    name: str
    sign: str  # ≥ or ≤
    target: float
    unit: str
    read: Reader

    def judge(self, answer: Mapping[str, Any]) -> Row:
        value = self.read(answer["tables"]) if "tables" in answer else None
        reached: bool | None = None
        if value is not None and answer.get("scale") == 1:
            reached = value >= self.target if self.sign == "≥" else value <= self.target
        return {
            "bar": self.name,
            "target": self.target,
            "at_least": self.sign == "≥",
            "unit": self.unit,
            "value": value,
            "reached": reached,
            "load": answer.get("load"),
            "why_not": None if reached is not None else _explain(answer, value),
        }


def _explain(answer: Mapping[str, Any], value: float | None) -> str:
    for outcome in ("failed", "skipped"):
        if outcome in answer:
            return outcome
    return "not measured" if value is None else f"scale {answer.get('scale'):g}: not judged"


def cell(table: str, key: str | Callable[[Mapping[str, Any]], float], **where: Any) -> Reader:
    """Read a number of the first row that matches, or what `key` computes of that row."""

    def read(tables: Tables) -> float | None:
        for row in tables.get(table, ()):
            if all(row.get(name) == value for name, value in where.items()):
                value = row.get(key) if isinstance(key, str) else key(row)
                return None if value is None else float(value)
        return None

    return read


def worst(table: str, key: str) -> Reader:
    """Read the largest number of a column."""
    return lambda tables: max((float(row[key]) for row in tables.get(table, ())), default=None)


@dataclass(frozen=True)
class Benchmark:
    """A definition. Its name never changes: results are compared over time by it."""

    name: str
    title: str
    bars: tuple[Bar, ...]
    ask: Callable[[Setting], Answer]

    def run(self, setting: Setting) -> Row:
        """Measure once: the answer as JSON has it, why it was skipped, or how it failed."""
        start, load = time.perf_counter(), MachineLoad()
        found: Row
        try:
            answer = self.ask(setting)
            found = {
                "tables": answer.tables,
                "checks": list(answer.checks),
                "notes": list(answer.notes),
            }
        except Skipped as why:
            found = {"skipped": str(why)}
        except Exception as error:  # one failure must not lose the hours of the others
            found = {"failed": f"{type(error).__name__}: {error}"}
        measured = load.measure()
        return {
            "title": self.title,
            **found,
            "scale": setting.scale,
            "measured": datetime.date.today().isoformat(),
            "seconds": round(time.perf_counter() - start, 1),
            "load": None if measured is None else round(measured, 2),
        }


def benchmark(title: str, *bars: Bar) -> Callable[[Callable[[Setting], Answer]], Benchmark]:
    """Make a definition of a function, named like it."""
    return lambda ask: Benchmark(ask.__name__, title, bars, ask)
