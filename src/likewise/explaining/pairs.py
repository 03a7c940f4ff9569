"""Make pairs (verdict/side_by_side.py) of past rows: their values, and how far apart they are."""

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
    """Measure how far apart two rows are in each compared column, in units of its tolerance.

    Texts are left out while their model is not loaded; pictures always, since only their names are
    kept.
    """
    return {
        name: measure_gap(feature, mine[name], other[name])
        for name, feature in features.items()
        if feature.is_compared and (feature.embed is None or _can_be_measured(feature))
    }


def _can_be_measured(feature: Feature) -> bool:
    return feature.kind == "text" and bool(feature.embed.is_loaded)


def measure_gap(feature: Feature, a: Any, b: Any) -> float:
    """Measure the distance of two values of a column, slowly, as the rule defines it."""
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
"""How many coordinates of two vectors are shown, those that differ most."""


def make_pair(
    past: Past,
    row: int | None,
    witness: Witness,
    mine: Mapping[str, Any] | None = None,
    names: Sequence[str] | None = None,
    model: str | None = None,
) -> Pair:
    """Make the pair of a decision and one of its witnesses, as the past has them.

    mine    the values of a table row that was only checked
    names   names of coordinates, for a rule without features
    model   the model of a decision that was only checked
    """
    if row is None and mine is None:
        raise BadRow("this input was only checked, not stored, so it cannot be shown.")
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
    """Return the models of both sides; `model` is that of a decision that was only checked."""
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
    """Make the pair of two vectors, in the coordinates that differ most by the metric's weights.

    inputs, outputs, models   those of the decision, and of its witness
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
    labels = [_name_coordinate(j, shape, names) for j in shown]
    return Pair(
        row,
        witness,
        {output: outputs[0], **dict(zip(labels, x[shown].tolist(), strict=True))},
        {output: outputs[1], **dict(zip(labels, y[shown].tolist(), strict=True))},
        dict(zip(labels, gaps[shown].tolist(), strict=True)),
        (output,),
        partial(pair_card, rule=rule),
        len(x) - len(shown),
        models,
    )


def _name_coordinate(j: int, shape: tuple[int, ...], names: Sequence[str] | None) -> str:
    if names is not None and j < len(names):
        return str(names[j])
    return f"x[{', '.join(str(int(at)) for at in np.unravel_index(j, shape))}]"


def explain_pairs(past: Past, verdict: Verdict, count: int) -> SideBySide:
    """Put a decision side by side with its nearest witnesses."""
    pairs = [
        make_pair(past, verdict.row, witness, verdict.values, model=verdict.model)
        for witness in verdict.witnesses.nearest(count)
    ]
    return SideBySide(tuple(pairs), len(verdict.witnesses), verdict.missing)
