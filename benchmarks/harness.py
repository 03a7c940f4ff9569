"""What a benchmark is, what it needs to know, and what it hands back.

A definition is a function with a title: `@benchmark("Title")`. It gets a `Setting` (size, rows,
peers) and returns an `Answer`: tables of numbers, and what was checked. Its docstring says how it
measures. Its bars are lines of bars.csv.

Invariants: an answer turns into JSON without a path, a host name or a NumPy type in it. A bar whose
benchmark was not run, was skipped or ran shrunk is never called reached.
"""

from __future__ import annotations

import csv
import datetime
import inspect
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
    """A target for one number of an answer: a line of bars.csv.

    `row` says which row of the table: "threads=2; epsilon=0.01"; the first that matches counts.
    """

    benchmark: str
    table: str
    row: str
    value: str
    sign: str  # ≥, ≤ or =
    target: float
    unit: str
    name: str

    def find(self, tables: Tables) -> float | None:
        """Return the number, or None where there is no such row or number."""
        wanted = [one.split("=", 1) for one in self.row.split("; ") if one]
        for row in tables.get(self.table, ()):
            if all(_is_written(row.get(name), text) for name, text in wanted):
                value = row.get(self.value)
                return None if value is None else float(value)
        return None

    def judge(self, answer: Mapping[str, Any]) -> Row:
        """Compare with the target; a shrunk run is never judged."""
        value = self.find(answer["tables"]) if "tables" in answer else None
        reached: bool | None = None
        if value is not None and answer.get("scale") == 1:
            reached = {
                "≥": value >= self.target, "≤": value <= self.target, "=": value == self.target
            }[self.sign]  # fmt: skip
        return {
            "bar": self.name,
            "sign": self.sign,
            "target": self.target,
            "unit": self.unit,
            "value": value,
            "reached": reached,
            "load": answer.get("load"),
            "why_not": None if reached is not None else _explain(answer, value),
        }


def read_bars() -> list[Bar]:
    """Read every bar, in order."""
    with Path(__file__).with_name("bars.csv").open(encoding="utf-8", newline="") as file:
        return [Bar(**{**line, "target": float(line["target"])}) for line in csv.DictReader(file)]


def _is_written(value: Any, text: str) -> bool:
    """Tell whether a value of a row is what a bar has as text: 12 and 12.0 are the same."""
    try:
        return bool(value == float(text))
    except ValueError:
        return str(value) == text


def _explain(answer: Mapping[str, Any], value: float | None) -> str:
    for outcome in ("failed", "skipped"):
        if outcome in answer:
            return outcome
    return "not measured" if value is None else f"scale {answer.get('scale'):g}: not judged"


@dataclass(frozen=True)
class Benchmark:
    """A definition. Its name never changes: results are compared over time by it."""

    name: str
    title: str
    ask: Callable[[Setting], Answer]

    @property
    def explanation(self) -> list[str]:
        """What is measured and how: the paragraphs of the function's docstring."""
        return (inspect.getdoc(self.ask) or "").replace("\n\n", "\0").replace("\n", " ").split("\0")

    def run(self, setting: Setting) -> Row:
        """Measure once: the answer as JSON has it, why it was skipped, or how it failed."""
        start, load = time.perf_counter(), MachineLoad()
        found: Row
        try:
            answer = self.ask(setting)
            found = {
                "tables": answer.tables,
                "checks": list(answer.checks),
                "notes": [*self.explanation, *answer.notes],
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


def benchmark(title: str) -> Callable[[Callable[[Setting], Answer]], Benchmark]:
    """Make a definition of a function, named like it."""
    return lambda ask: Benchmark(ask.__name__, title, ask)
