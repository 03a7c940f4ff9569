"""Two decisions side by side: what was alike, what was not, in the columns' own units.

Plain text, a dictionary, or HTML in a notebook. Every value from the data is escaped there: in
text, whatever cannot be printed, so that no terminal obeys it.
"""

import html
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from likewise.feature import Feature, plain
from likewise.types import Witness


def measured_gaps(
    features: Mapping[str, Feature], mine: Mapping[str, Any], other: Mapping[str, Any]
) -> dict[str, float]:
    """How far apart two rows are in each measured column, in units of its tolerance.

    A text needs its model for that, and is left out while that is not loaded; pictures, of which
    only a name is kept, always.
    """
    return {
        name: gap(feature, mine[name], other[name])
        for name, feature in features.items()
        if feature.measured and (feature.embed is None or _can_be_measured(feature))
    }


def _can_be_measured(feature: Feature) -> bool:
    return feature.kind == "text" and bool(feature.embed.is_loaded)


def gap(feature: Feature, a: Any, b: Any) -> float:
    """The distance of two values of a column: slow, and plainly what the rule says."""
    missing = a is None or b is None
    if a == b or (missing and feature.missing == "match"):
        return 0.0
    if missing or feature.kind == "category":
        return feature.mismatch or float("inf")
    if feature.ratio is not None:
        if np.sign(a) != np.sign(b):
            return float("inf")
        return float(abs(np.log(abs(a)) - np.log(abs(b))) / np.log(feature.ratio))
    if feature.embed is not None:
        u, v = feature.embed.loaded.many([a, b]).astype(np.float64)
        return float(np.linalg.norm(u - v)) / float(feature.tolerance)  # type: ignore[arg-type]
    if feature.order is not None:
        a, b = feature.order.index(a), feature.order.index(b)
    return float(abs(a - b)) / float(feature.tolerance)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Pair:
    """A decision and one of its witnesses."""

    row: int | None
    witness: Witness
    mine: dict[str, Any]
    other: dict[str, Any]
    gaps: dict[str, float]
    outputs: tuple[str, ...]

    @property
    def columns(self) -> list[str]:
        """The outputs, then columns that differ, the farthest apart first, then the others."""
        rest = [name for name in self.mine if name not in self.outputs]
        rest.sort(key=lambda name: (not self.differs(name), -self.gaps.get(name, 0.0)))
        return [*self.outputs, *rest]

    def differs(self, name: str) -> bool:
        return bool(self.mine[name] != self.other[name])

    @property
    def headings(self) -> tuple[str, str]:
        return ("this one" if self.row is None else f"row {self.row}"), f"row {self.witness.row}"

    def title(self) -> str:
        mine, other = self.headings
        return f"{mine} contradicts {other}, {self.witness.input_distance:.3g} away"

    def to_dict(self) -> dict[str, Any]:
        """For JSON: what that cannot hold is text, an infinite gap None."""
        return {
            "row": self.row,
            "witness": self.witness.row,
            "input_distance": self.witness.input_distance,
            "output_distance": self.witness.output_distance,
            "columns": [
                {
                    "column": name,
                    "this": _json(self.mine[name]),
                    "witness": _json(self.other[name]),
                    "differs": self.differs(name),
                    "gap": _json(self.gaps.get(name)),
                }
                for name in self.columns
            ],
        }

    def __str__(self) -> str:
        lines = [("", *self.headings, "")]
        lines += [
            (
                text_of(name),
                text_of(self.mine[name]),
                text_of(self.other[name]),
                "*" if self.differs(name) else "",
            )
            for name in self.columns
        ]
        widths = [max(len(line[j]) for line in lines) for j in range(3)]
        return "\n".join(
            [
                self.title(),
                *(
                    "  ".join(
                        [*(cell.ljust(w) for cell, w in zip(line, widths, strict=False)), line[3]]
                    ).rstrip()
                    for line in lines
                ),
            ]
        )

    def _repr_html_(self) -> str:
        mine, other = self.headings
        rows = "".join(
            f"<tr{' style=font-weight:bold' if self.differs(name) else ''}>"
            f"<th scope=row style=text-align:left>{html.escape(text_of(name))}</th>"
            f"<td>{html.escape(text_of(self.mine[name]))}</td>"
            f"<td>{html.escape(text_of(self.other[name]))}</td></tr>"
            for name in self.columns
        )
        return (
            f"<table><caption>{html.escape(self.title())}</caption>"
            f"<tr><th></th><th>{mine}</th><th>{other}</th></tr>{rows}</table>"
        )


@dataclass(frozen=True)
class SideBySide:
    """A decision beside its nearest witnesses."""

    pairs: tuple[Pair, ...]
    witnesses: int

    def to_dict(self) -> dict[str, Any]:
        return {"witnesses": self.witnesses, "pairs": [pair.to_dict() for pair in self.pairs]}

    def _more(self) -> str:
        more = self.witnesses - len(self.pairs)
        return f"and {more:,} more" if more > 0 else ""

    def __str__(self) -> str:
        if not self.pairs:
            return "nothing contradicts it"
        return "\n\n".join([*map(str, self.pairs), *filter(None, [self._more()])])

    def _repr_html_(self) -> str:
        if not self.pairs:
            return "<p>nothing contradicts it</p>"
        more = self._more()
        return "".join(pair._repr_html_() for pair in self.pairs) + (f"<p>{more}</p>" * bool(more))


def text_of(value: Any) -> str:
    """A name or a value on one line, with escapes for whatever cannot be printed."""
    if value is None:
        return "missing"
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    return text if text.isprintable() else repr(text)


def _json(value: Any) -> Any:
    value = plain(value)
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)
