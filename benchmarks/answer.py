"""What a question needs to know, and what it hands back.

A `Setting` says how large the run is, where rows come from and which peers take part. An
`Answer` is plain tables: numbers with headings, what was checked, what a reader should know.

Invariant: an answer turns into JSON without a path, a host name or a NumPy type in it.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.child import call
from benchmarks.contenders import Peer
from benchmarks.workloads import Mix

TRIAL = 0.05  # a scale below this is a trial: it shows that everything runs


class Skipped(Exception):
    """The question cannot be asked here; the text says why."""


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
        """`full`, shrunk by the scale, but never below `least` (nor above `full`)."""
        return min(full, max(least, int(full * self.scale)))

    def rows_source(self) -> Mix:
        """Where HIGGS-like rows come from; skips the question where there is none."""
        if self.source is None:
            raise Skipped(
                "higgs_35k.npz was not found. Set LIKEWISE_DATA to the folder that holds it,"
                " or use --generated for made-up rows."
            )
        return self.source

    def data_file(self, name: str) -> Path:
        """A file of the data folder; skips the question where there is none."""
        if self.data is None or not (self.data / name).is_file():
            raise Skipped(f"{name} was not found. Set LIKEWISE_DATA to the folder that holds it.")
        return self.data / name

    def folder_of(self, name: str) -> str | None:
        """The folder that holds the file, or None where made-up rows are wanted instead."""
        return None if self.generated else str(self.data_file(name).parent)

    def alone(self, where: str, given: Mapping[str, Any]) -> dict[str, Any]:
        """A function in a process of its own; a trial stays in this one, for speed."""
        if self.scale >= TRIAL:
            return call(where, given)
        module, _, function = where.partition(":")
        found: dict[str, Any] = getattr(importlib.import_module(module), function)(given)
        return found

    def beside(
        self,
        given: Mapping[str, Any],
        before: Mapping[str, Any] | None = None,
        only: str | None = None,
    ) -> dict[str, Any]:
        """Every release of FAISS on the same question; the faster of now and `before`."""
        found: dict[str, Any] = {}
        for name, python in self.faiss.items():
            if only not in (None, name):
                continue
            now, old = call("benchmarks.flat:search", given, python), (before or {}).get(name)
            found[name] = now if old is None or now["us"] < old["us"] else old
        return found


@dataclass
class Table:
    """Rows of numbers; `columns` names those worth printing, with their headings."""

    columns: Mapping[str, str]
    rows: list[dict[str, Any]]
    caption: str = ""


@dataclass
class Answer:
    """What one question found."""

    title: str
    tables: dict[str, Table]
    checks: list[str] = field(default_factory=list)
    notes: Sequence[str] = ()

    def as_json(self) -> dict[str, Any]:
        return {
            "title": self.title,
            "tables": {
                name: {"caption": t.caption, "columns": dict(t.columns), "rows": t.rows}
                for name, t in self.tables.items()
            },
            "checks": list(self.checks),
            "notes": list(self.notes),
        }
