"""Two decisions side by side: what was alike, what was not, in the columns' own units.

Plain text, a dictionary, or HTML in a notebook (pair_card.py). Every value from the data is escaped
there: in text, whatever cannot be printed, so that no terminal obeys it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from likewise.explaining.pair_card import NOTEBOOK, pair_card
from likewise.rules.feature import Feature
from likewise.rules.rule import Rule
from likewise.values.errors import BadRow
from likewise.values.past import Past
from likewise.values.plain import json_value
from likewise.values.printing import missing_in_words, text_of
from likewise.values.verdicts import Verdict, Witness


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


COORDINATES = 12
"""Of two vectors, those that differ most are shown: so many."""


def pair_of(
    past: Past,
    row: int | None,
    witness: Witness,
    mine: Mapping[str, Any] | None = None,
    names: Sequence[str] | None = None,
    model: str | None = None,
) -> "Pair":
    """A decision and one of its witnesses, as the past has them.

    mine    a row of a table that was only checked
    model   the model of a decision that was only checked
    names   of coordinates, for a rule without features
    """
    if row is None and mine is None:
        raise BadRow("this input was only checked, so it is not there to be shown.")
    if past.rule.features is None:
        assert row is not None
        return _vectors(past, row, witness, names)
    ours = dict(mine) if mine is not None else past.values(row or 0)
    other = past.values(witness.row)
    gaps = measured_gaps(past.rule.features, ours, other)
    outputs = past.rule.output_column or ()
    return Pair(
        row,
        witness,
        ours,
        other,
        gaps,
        (outputs,) if isinstance(outputs, str) else tuple(outputs),
        past.rule,
        models=_models(past, row, witness, model),
    )


def _models(
    past: Past, row: int | None, witness: Witness, model: str | None
) -> tuple[str | None, str | None]:
    """The models of both sides; that of a decision that was only checked is told."""
    mine = model if row is None else past.models([row])[0]
    return mine, past.models([witness.row])[0]


def _vectors(past: Past, row: int, witness: Witness, names: Sequence[str] | None) -> "Pair":
    inputs, outputs = past.inputs([row, witness.row]), past.outputs([row, witness.row])
    models = _models(past, row, witness, None)
    return vector_pair(past.rule, row, witness, inputs, outputs, models, names)


def vector_pair(
    rule: Rule,
    row: int,
    witness: Witness,
    inputs: Any,
    outputs: Sequence[Any],
    models: tuple[str | None, str | None],
    names: Sequence[str] | None = None,
) -> "Pair":
    """Two vectors, in the coordinates that differ most, as the metric weighs them.

    inputs, outputs, models   of the decision, and of its witness
    """
    output = "output"
    while names is not None and output in names:
        output += " "
    shape = inputs[0].shape
    x, y = (one.reshape(-1) for one in inputs)
    apart = np.abs(x.astype(np.float64) - y.astype(np.float64))
    weights = np.ones(len(x)) if rule.weights is None else np.array(rule.weights)
    gaps = apart * (np.sqrt(weights) if rule.metric in ("l2", "cosine") else weights)
    shown = np.argsort(-gaps, kind="stable")[:COORDINATES].tolist()
    called = [_coordinate(j, shape, names) for j in shown]
    return Pair(
        row,
        witness,
        {output: outputs[0], **dict(zip(called, x[shown].tolist(), strict=True))},
        {output: outputs[1], **dict(zip(called, y[shown].tolist(), strict=True))},
        dict(zip(called, gaps[shown].tolist(), strict=True)),
        (output,),
        rule,
        len(x) - len(shown),
        models,
    )


def _coordinate(j: int, shape: tuple[int, ...], names: Sequence[str] | None) -> str:
    if names is not None and j < len(names):
        return str(names[j])
    return f"x[{', '.join(str(int(at)) for at in np.unravel_index(j, shape))}]"


def explain_pairs(past: Past, verdict: Verdict, count: int) -> "SideBySide":
    """A decision beside its nearest witnesses."""
    pairs = [
        pair_of(past, verdict.row, witness, verdict.values, model=verdict.model)
        for witness in verdict.witnesses.nearest(count)
    ]
    return SideBySide(tuple(pairs), len(verdict.witnesses), verdict.missing)


@dataclass(frozen=True)
class Pair:
    """A decision and one of its witnesses."""

    row: int | None
    witness: Witness
    mine: dict[str, Any]
    other: dict[str, Any]
    gaps: dict[str, float]
    outputs: tuple[str, ...]
    rule: Rule = field(repr=False, compare=False)
    """Under which they contradict each other."""
    hidden: int = 0
    """Coordinates of long vectors that are not shown: they differ less."""
    models: tuple[str | None, str | None] = (None, None)
    """The model that made the decision, and that of the witness, where these are known."""

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
        mine = "this one" if self.row is None else f"row {self.row}"
        return _heading(mine, self.models[0]), _heading(f"row {self.witness.row}", self.models[1])

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
            **self._model_fields(),
            "columns": [
                {
                    "column": name,
                    "this": json_value(self.mine[name]),
                    "witness": json_value(self.other[name]),
                    "differs": self.differs(name),
                    "gap": json_value(self.gaps.get(name)),
                }
                for name in self.columns
            ],
        }

    def _model_fields(self) -> dict[str, str | None]:
        mine, other = self.models
        return {} if mine is None and other is None else {"model": mine, "witness_model": other}

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
        return _in_notebook(self.card())

    def card(self) -> str:
        """As HTML, the same in a notebook, a report and a page."""
        return pair_card(self, self.rule)


def _in_notebook(cards: str) -> str:
    return f'{NOTEBOOK}<div class="likewise-pairs">{cards}</div>'


def _heading(row: str, model: str | None) -> str:
    return row if model is None else f"{row} ({text_of(model)})"


@dataclass(frozen=True)
class SideBySide:
    """A decision beside its nearest witnesses."""

    pairs: tuple[Pair, ...]
    witnesses: int
    missing: int = 0
    """Decisions that were known to be missing when it was judged."""

    def to_dict(self) -> dict[str, Any]:
        return {"witnesses": self.witnesses, "pairs": [pair.to_dict() for pair in self.pairs]}

    def _more(self) -> str:
        more = self.witnesses - len(self.pairs)
        return f"and {more:,} more" if more > 0 else ""

    def __str__(self) -> str:
        if not self.pairs:
            return f"nothing contradicts it{missing_in_words(self.missing)}"
        return "\n\n".join([*map(str, self.pairs), *filter(None, [self._more()])])

    def _repr_html_(self) -> str:
        if not self.pairs:
            return f"<p>nothing contradicts it{missing_in_words(self.missing)}</p>"
        more = self._more()
        cards = "".join(pair.card() for pair in self.pairs)
        return _in_notebook(cards) + (f"<p>{more}</p>" * bool(more))
