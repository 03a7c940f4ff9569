"""Precedents: the past decisions that are near one input, whatever their outputs.

Invariant: frozen; nearest first, equally near ones by row; `near` and `counts` are of all near
decisions, also where fewer are listed.
Not here: finding them (monitor/precedent_lookup.py).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from likewise.tables.array_types import Floats, Rows
from likewise.tables.codec import json_value
from likewise.tables.new_frames import make_frame
from likewise.tables.times import iso_text
from likewise.verdict.html import format_count, make_table
from likewise.verdict.notebook_views import MOST_SHOWN

_MOST_NAMED = 8  # different outputs in a sentence
_MOST_COUNTED = 1000  # different outputs in a body


class CaseReview(NamedTuple):
    """What somebody said about a decision that contradicts an earlier one."""

    disposition: str
    reason: str | None
    """None if it was destroyed, or may not be read by the caller."""
    reviewer: str | None
    time: str
    verified: bool


class Overruling(NamedTuple):
    """Says that a decision took the place of an earlier one about the same case."""

    row: int
    """The decision that was overruled."""
    why: str | None
    by: str | None
    time: str
    verified: bool


@dataclass(frozen=True, eq=False, repr=False)
class Precedents:
    """Past decisions near one input, nearest first.

    >>> import likewise as lw
    >>> monitor = lw.Monitor(lw.Rule("linf", 0.1))
    >>> for x, z in (([0.5], "yes"), ([0.58], "no"), ([0.45], "yes"), ([0.9], "no")):
    ...     _ = monitor.observe(x, z)
    >>> monitor.like([0.52])
    <Precedents: 3 similar cases: 2 yes, 1 no>
    >>> monitor.like([0.52], limit=2).rows
    array([0, 1])
    """

    near: int
    """How many past decisions are near."""
    counts: Mapping[Any, int]
    """How many of them have each output, most frequent first."""
    rows: Rows
    input_distances: Floats
    outputs: list[Any]
    keys: list[Any]
    models: list[str | None]
    times: npt.NDArray[np.datetime64] | None
    """When each was decided, in UTC; None where no time is known."""
    reviews: list[tuple[CaseReview, ...]]
    """What was said about each, in order; empty without a ledger."""
    superseded: list[Overruling | None]
    """The decision in whose place each was put. The one overruled does not count any more."""
    not_compared: int = 0
    """Past decisions that were not compared, since their shards were down."""

    def __post_init__(self) -> None:
        for column in (self.rows, self.input_distances, self.times):
            if column is not None:
                column.flags.writeable = False

    def __len__(self) -> int:
        return len(self.rows)

    def describe(self, name_of: Callable[[Any], Any] = json_value) -> str:
        """Return how the similar cases were decided, in words.

        name_of: returns the display name of an output
        """
        text = format_count(self.near, "similar case")
        parts = [f"{count:,} {name_of(output)}" for output, count in self.counts.items()]
        if len(parts) > _MOST_NAMED:
            left_out = len(parts) - _MOST_NAMED + 1
            parts[_MOST_NAMED - 1 :] = [f"{format_count(left_out, 'other output')}"]
        if parts:
            text += f": {', '.join(parts)}"
        if self.not_compared:
            text += f"; {self.not_compared:,} past decisions could not be compared now"
        return text

    def __repr__(self) -> str:
        return f"<Precedents: {self.describe()}>"

    def _columns(self) -> dict[str, Any]:
        """Return the columns that say something, by name."""
        columns: dict[str, Any] = {"row": self.rows, "input_distance": self.input_distances}
        columns["output"] = self.outputs
        if any(key is not None for key in self.keys):
            columns["key"] = self.keys
        if self.times is not None:
            columns["time"] = self.times
        if any(model is not None for model in self.models):
            columns["model"] = self.models
        if any(self.reviews):
            columns["review"] = [each[-1].disposition if each else None for each in self.reviews]
        if any(one is not None for one in self.superseded):
            columns["supersedes"] = [None if one is None else one.row for one in self.superseded]
        return columns

    def to_frame(self) -> Any:
        """Return a data frame with a line for each: of pandas if installed, else of Polars."""
        return make_frame(self._columns())

    def hide_people(self) -> "Precedents":
        """Return them without keys, reviewers and reasons, for callers who may not read these."""
        return replace(
            self,
            keys=[None] * len(self),
            reviews=[
                tuple(one._replace(reason=None, reviewer=None) for one in each)
                for each in self.reviews
            ],
            superseded=[
                None if one is None else one._replace(why=None, by=None) for one in self.superseded
            ],
        )

    def to_dict(self) -> dict[str, Any]:
        """Return what the service and `likewise like --json` answer."""
        counts = list(self.counts.items())
        body: dict[str, Any] = {
            "near": self.near,
            "counts": [
                {"output": json_value(output), "count": count}
                for output, count in counts[:_MOST_COUNTED]
            ],
            "cases": [self._case(place) for place in range(len(self))],
        }
        if len(counts) > _MOST_COUNTED:
            body["other_outputs"] = len(counts) - _MOST_COUNTED
        if self.not_compared:
            body["not_compared"] = self.not_compared
        return body

    def to_exact(self) -> dict[str, Any]:
        """Return the fields with exact values; `precedents_of` reads them back."""
        fields = {name: getattr(self, name) for name in _PLAIN_FIELDS}
        return fields | {
            "counts": [[*one] for one in self.counts.items()][:_MOST_COUNTED],
            "times": None if self.times is None else self.times.astype(np.int64),
            "reviews": [[[*one] for one in each] for each in self.reviews],
            "superseded": [None if one is None else [*one] for one in self.superseded],
        }

    def _case(self, place: int) -> dict[str, Any]:
        case: dict[str, Any] = {
            "row": int(self.rows[place]),
            "input_distance": float(self.input_distances[place]),
            "output": json_value(self.outputs[place]),
        }
        if self.keys[place] is not None:
            case["key"] = json_value(self.keys[place])
        if self.times is not None:
            case["time"] = iso_text(int(self.times[place].astype(np.int64)))
        if self.models[place] is not None:
            case["model"] = self.models[place]
        if self.reviews[place]:
            case["reviews"] = [_drop_unknown(review) for review in self.reviews[place]]
        overruling = self.superseded[place]
        if overruling is not None:
            case["supersedes"] = _drop_unknown(overruling)
        return case

    def _repr_html_(self) -> str | None:
        shown = {name: column[:MOST_SHOWN] for name, column in self._columns().items()}
        return make_table(self.describe(), shown, len(self))


_PLAIN_FIELDS = (
    "near",
    "rows",
    "input_distances",
    "outputs",
    "keys",
    "models",
    "not_compared",
)


def precedents_of(body: Mapping[str, Any]) -> Precedents:
    """Read what `to_exact` returned; of many different outputs the most frequent are counted."""
    times = body["times"]
    return Precedents(
        counts=MappingProxyType({output: count for output, count in body["counts"]}),
        times=None if times is None else times.astype("datetime64[us]"),
        reviews=[tuple(CaseReview(*one) for one in each) for each in body["reviews"]],
        superseded=[None if one is None else Overruling(*one) for one in body["superseded"]],
        **{name: body[name] for name in _PLAIN_FIELDS},
    )


def _drop_unknown(fields: CaseReview | Overruling) -> dict[str, Any]:
    return {name: value for name, value in fields._asdict().items() if value is not None}
