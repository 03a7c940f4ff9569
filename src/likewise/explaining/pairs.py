"""Makes pairs (verdict/side_by_side.py) of the rows of a past: their values and how far apart."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from likewise.errors import BadRow
from likewise.explaining.pair_card import pair_card
from likewise.explaining.past import Past
from likewise.rule.feature import Feature
from likewise.rule.rule import Rule
from likewise.verdict.side_by_side import Pair, SideBySide
from likewise.verdict.verdicts import Verdict
from likewise.verdict.witnesses import Witness


def measure_gaps(
    features: Mapping[str, Feature], mine: Mapping[str, Any], other: Mapping[str, Any]
) -> dict[str, float]:
    """How far apart two rows are in each measured column, in units of its tolerance.

    A text needs its model for that, and is left out while that is not loaded; pictures, of which
    only a name is kept, always.
    """
    return {
        name: measure_gap(feature, mine[name], other[name])
        for name, feature in features.items()
        if feature.is_compared and (feature.embed is None or _can_be_measured(feature))
    }


def _can_be_measured(feature: Feature) -> bool:
    return feature.kind == "text" and bool(feature.embed.is_loaded)


def measure_gap(feature: Feature, a: Any, b: Any) -> float:
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
        u, v = feature.embed.embedding.embed_many([a, b]).astype(np.float64)
        return float(np.linalg.norm(u - v)) / float(feature.tolerance)  # type: ignore[arg-type]
    if feature.order is not None:
        a, b = feature.order.index(a), feature.order.index(b)
    return float(abs(a - b)) / float(feature.tolerance)  # type: ignore[arg-type]


COORDINATES = 12
"""Of two vectors, those that differ most are shown: so many."""


def make_pair(
    past: Past,
    row: int | None,
    witness: Witness,
    mine: Mapping[str, Any] | None = None,
    names: Sequence[str] | None = None,
    model: str | None = None,
) -> Pair:
    """A decision and one of its witnesses, as the past has them.

    mine    a row of a table that was only checked
    model   the model of a decision that was only checked
    names   of coordinates, for a rule without features
    """
    if row is None and mine is None:
        raise BadRow("this input was only checked, so it is not there to be shown.")
    if past.rule.features is None:
        assert row is not None
        rows = [row, witness.row]
        models = _models(past, row, witness, None)
        return vector_pair(
            past.rule, row, witness, past.inputs(rows), past.outputs(rows), models, names
        )
    ours = dict(mine) if mine is not None else past.values(row or 0)
    other = past.values(witness.row)
    gaps = measure_gaps(past.rule.features, ours, other)
    return Pair(
        row,
        witness,
        ours,
        other,
        gaps,
        past.rule.output_columns,
        partial(pair_card, rule=past.rule),
        models=_models(past, row, witness, model),
    )


def _models(
    past: Past, row: int | None, witness: Witness, model: str | None
) -> tuple[str | None, str | None]:
    """The models of both sides; that of a decision that was only checked is told."""
    if row is None:
        return model, past.models([witness.row])[0]
    mine, other = past.models([row, witness.row])
    return mine, other


def vector_pair(
    rule: Rule,
    row: int,
    witness: Witness,
    inputs: Any,
    outputs: Sequence[Any],
    models: tuple[str | None, str | None],
    names: Sequence[str] | None = None,
) -> Pair:
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
        partial(pair_card, rule=rule),
        len(x) - len(shown),
        models,
    )


def _coordinate(j: int, shape: tuple[int, ...], names: Sequence[str] | None) -> str:
    if names is not None and j < len(names):
        return str(names[j])
    return f"x[{', '.join(str(int(at)) for at in np.unravel_index(j, shape))}]"


def explain_pairs(past: Past, verdict: Verdict, count: int) -> SideBySide:
    """A decision beside its nearest witnesses."""
    pairs = [
        make_pair(past, verdict.row, witness, verdict.values, model=verdict.model)
        for witness in verdict.witnesses.nearest(count)
    ]
    return SideBySide(tuple(pairs), len(verdict.witnesses), verdict.missing)
