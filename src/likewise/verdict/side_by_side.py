"""Shows two decisions side by side: where they agree and differ, in the units of the columns.

As text, as a dictionary, or as HTML in a notebook. Invariant: values from the data are escaped; in
text, so that no terminal obeys them.
Not here: making a pair from two rows, and its card (explaining/).
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from likewise.tables.codec import json_value
from likewise.tables.printing import format_value, missing_in_words
from likewise.verdict.html import render_in_notebook
from likewise.verdict.witnesses import Witness


def _keep_value(column: str, value: Any) -> Any:
    return value


@dataclass(frozen=True)
class Pair:
    """A decision and one of its witnesses."""

    row: int | None
    witness: Witness
    mine: dict[str, Any]
    other: dict[str, Any]
    gaps: dict[str, float]
    outputs: tuple[str, ...]
    draw: Callable[["Pair"], str] = field(repr=False, compare=False)
    """Writes its card, under the rule by which they contradict each other."""
    hidden: int = 0
    """How many coordinates of long vectors are not shown; they differ less."""
    models: tuple[str | None, str | None] = (None, None)
    """The models of the decision and of the witness, where they are known."""
    name: Callable[[str, Any], Any] = field(default=_keep_value, repr=False, compare=False)
    """Returns the display name of a value of a column, or the value."""
    support: tuple[int, int] | None = None
    """How many earlier similar cases the decision has, and how many of them agree with it."""

    @property
    def columns(self) -> list[str]:
        """The outputs, then the columns that differ, farthest apart first, then the others."""
        rest = [name for name in self.mine if name not in self.outputs]
        rest.sort(key=lambda name: (not self.differs(name), -self.gaps.get(name, 0.0)))
        return [*self.outputs, *rest]

    def differs(self, name: str) -> bool:
        return bool(self.mine[name] != self.other[name])

    @property
    def headings(self) -> tuple[str, str]:
        mine = "this one" if self.row is None else f"row {self.row}"
        own_model, witness_model = self.models
        return (
            _format_heading(mine, own_model),
            _format_heading(f"row {self.witness.row}", witness_model),
        )

    def title(self) -> str:
        mine, other = self.headings
        return f"{mine} contradicts {other}, {self.witness.input_distance:.3g} away"

    def to_dict(self) -> dict[str, Any]:
        """Return the fields for JSON: values that it lacks become text, an infinite gap None."""
        return {
            "row": self.row,
            "witness": self.witness.row,
            "input_distance": self.witness.input_distance,
            "output_distance": self.witness.output_distance,
            **self._model_fields(),
            **self._support_field(),
            "columns": [
                {
                    "column": name,
                    "decision": json_value(self.mine[name]),
                    "witness": json_value(self.other[name]),
                    "differs": self.differs(name),
                    "gap": json_value(self.gaps.get(name)),
                }
                for name in self.columns
            ],
        }

    def _support_field(self) -> dict[str, Any]:
        if self.support is None:
            return {}
        near, agree = self.support
        return {"support": {"near": near, "agree": agree}}

    def describe_support(self) -> str:
        """Say how many of the earlier similar cases disagree; nothing where that is not known."""
        if self.support is None:
            return ""
        near, agree = self.support
        disagree = near - agree
        name = self.outputs[0]
        other = self.name(name, self.other[name])
        answered = "answered differently"
        if disagree == 1 and isinstance(other, str) and len(self.outputs) == 1:
            answered = format_value(other)
        return (
            f"{disagree:,} of {near:,} earlier similar case{'s' * (near != 1)}"
            f" {'was' if disagree == 1 else 'were'} {answered}."
        )

    def _model_fields(self) -> dict[str, str | None]:
        mine, other = self.models
        return {} if mine is None and other is None else {"model": mine, "witness_model": other}

    def __str__(self) -> str:
        table = [("", *self.headings, "")]
        both = self.mine, self.other
        for name in self.columns:
            mine, other = (format_value(self.name(name, one[name])) for one in both)
            table.append((format_value(name), mine, other, "*" if self.differs(name) else ""))
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        lines = [self.title()]
        for line in table:
            cells = [cell.ljust(width) for cell, width in zip(line, widths, strict=True)]
            lines.append("  ".join(cells).rstrip())
        return "\n".join(filter(None, [*lines, self.describe_support()]))

    def _repr_html_(self) -> str | None:
        return render_in_notebook("explaining/notebook.html", pairs=[self], more="")

    def card(self) -> str:
        """Return the pair as HTML, for a notebook, a report or a page."""
        return self.draw(self)


def _format_heading(row: str, model: str | None) -> str:
    return row if model is None else f"{row} ({format_value(model)})"


@dataclass(frozen=True)
class SideBySide:
    """A decision side by side with each of its nearest witnesses."""

    pairs: tuple[Pair, ...]
    witnesses: int
    missing_decisions: int = 0
    """Decisions that were known to be missing when this one was judged."""

    def to_dict(self) -> dict[str, Any]:
        return {"witnesses": self.witnesses, "pairs": [pair.to_dict() for pair in self.pairs]}

    def _more(self) -> str:
        more = self.witnesses - len(self.pairs)
        return f"and {more:,} more" if more > 0 else ""

    def __str__(self) -> str:
        if not self.pairs:
            return f"nothing contradicts it{missing_in_words(self.missing_decisions)}"
        return "\n\n".join([*map(str, self.pairs), *filter(None, [self._more()])])

    def _repr_html_(self) -> str | None:
        return render_in_notebook(
            "explaining/notebook.html",
            pairs=self.pairs,
            missing=missing_in_words(self.missing_decisions),
            more=self._more(),
        )
