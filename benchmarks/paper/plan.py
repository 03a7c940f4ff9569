"""Which cells there are, in the order in which they run.

A cell's key says everything it depends on but the code; results under another key are not reused.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.paper import streams

PEOPLE = ("brute", "kdtree", "bdd", "live")
PICTURES = ("brute", "kdtree", ["split", "kdtree", 16], "live")
EMBEDDINGS = ("brute", "kdtree", "snn", "live", "auto")
LENGTH_LIMIT = 10.0  # seconds of one curve
TABLE_LIMIT = 60.0
PART_LIMIT = 3.0
WIDTH_LIMIT = 4.0
CURVES: tuple[tuple[str, Any], ...] = (
    ("linf", "brute"),
    ("linf", "kdtree"),
    ("linf", "bdd"),
    ("linf", ["split", "kdtree", 2]),
    ("linf", ["split", "bdd", 2]),
    ("l2", "kdtree"),
    ("l2", "snn"),
    ("l2", "live"),
    ("linf", "live"),
)
RADII = (0.01, 0.025, 0.05)
WIDTHS = (4, 16, 64, 256, 1024, 3072)
PARTS = (1, 2, 4, 16)
PART_WIDTHS = (16, 64, 256, 1024)
COUNTED = (0.0025, 0.005, 0.01, 0.02, 0.04, 0.08, 0.12, 0.2, 0.24, 0.28, 0.32)
"""The radii of which the answer is known, but for the one that the table itself checks."""


@dataclass(frozen=True)
class Cell:
    """A function of cells.py, and what it is given."""

    work: str
    given: dict[str, Any]

    @property
    def key(self) -> str:
        return f"{self.work} {json.dumps(self.given, sort_keys=True)}"

    @property
    def timed(self) -> bool:
        return self.work != "counts"


def plan() -> list[Cell]:
    return [*_tables(), *_lengths(), *_widths(), *_counts()]


def _tables() -> Iterator[Cell]:
    for names, indexes in (
        ((*streams.FAIR, *streams.UNSEEN), PEOPLE),
        (streams.PICTURES, PICTURES),
        (streams.EMBEDDINGS, EMBEDDINGS),
    ):
        for name in names:
            for index in indexes:
                yield Cell("table", {"stream": name, "index": index, "limit": TABLE_LIMIT})


def _lengths() -> Iterator[Cell]:
    for columns in (12, 24):
        for epsilon in RADII:
            for metric, index in CURVES:
                given = {"columns": columns, "epsilon": epsilon, "metric": metric, "index": index}
                yield Cell("length", {**given, "limit": LENGTH_LIMIT})


def _widths() -> Iterator[Cell]:
    for width in WIDTHS:
        for metric, index in (
            ("linf", "brute"),
            ("linf", "kdtree"),
            ("linf", "bdd"),
            ("l2", "snn"),
            ("linf", "live"),
        ):
            if index == "bdd" and width > 64:
                continue  # loading alone would take minutes
            given = {"width": width, "metric": metric, "index": index}
            yield Cell("width", {**given, "loaded": 10_000, "rows": 2_000, "limit": WIDTH_LIMIT})
    for width in PART_WIDTHS:
        for index in ("kdtree", "bdd", "live"):
            if index == "bdd" and width > 256:
                continue
            given = {"width": width, "index": index, "parts": list(PARTS)}
            yield Cell("parts", {**given, "rows": 2_000, "limit": PART_LIMIT})


def _counts() -> Iterator[Cell]:
    for name in streams.FILES:
        step = 3 if name.startswith("adult") else len(COUNTED)
        for index in PEOPLE:
            for start in range(0, len(COUNTED), step):
                chosen = list(COUNTED[start : start + step])
                yield Cell("counts", {"file": name, "index": index, "radii": chosen})


def fingerprint(root: Path) -> str:
    """Of everything that a result depends on: the package and this folder."""
    digest = hashlib.sha256()
    for folder in ("src/likewise", "benchmarks/paper"):
        for path in sorted((root / folder).rglob("*.py")):
            if path.name not in ("page.py", "figures.py", "__main__.py", "plan.py"):
                digest.update(path.read_bytes())
    return digest.hexdigest()[:16]
