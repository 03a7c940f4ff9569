"""Make pairs (verdict/side_by_side.py) of past rows: their values, and how far apart they are."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from likewise.errors import BadRow
from likewise.explaining.past import Past
from likewise.rule.feature import Feature
from likewise.rule.rule import Rule
from likewise.rule.value_names import name_value
from likewise.tables.printing import format_number, join_names
from likewise.verdict.html import display_both, render
from likewise.verdict.side_by_side import Pair, SideBySide
from likewise.verdict.verdicts import Verdict
from likewise.verdict.witnesses import Witness

_ALIKE = 8  # equal columns that are shown with values; the rest only by name


# Render a pair as a card: two decisions side by side as HTML, for reports, pages and notebooks.
# The earlier decision is on the left, differences are marked, ignored columns are folded away.
# Invariant: the same pair gives the same card wherever it is shown (pair_card.html).
# Not here: style sheets; the pair as text, or as a dictionary (verdict/side_by_side.py).


@dataclass(frozen=True)
class DecisionOrigin:
    """Says where a decision comes from, and what its file has that a monitor does not remember."""

    place: int | None = None
    """Its line in a text file, else its row, from 1."""
    unit: str = "line"
    time: str | None = None
    """When it was made, in UTC."""
    ignored: tuple[tuple[str, Any], ...] = ()
    """Columns of the file that the rule ignores, or does not know, with their values."""
    file: str | None = None
    """The file that it comes from, if there are several."""


def pair_card(
    pair: Pair,
    rule: Rule,
    *,
    later: DecisionOrigin | None = None,
    earlier: DecisionOrigin | None = None,
    anchor: str | None = None,
    zone: str = "UTC",
) -> str:
    """Render two decisions side by side as HTML.

    later, earlier   what else is known about the two
    anchor           the name of the card in links; unique on a page
    zone             what follows a time; nothing where the page says it once for all times
    """
    later, earlier = later or DecisionOrigin(), earlier or DecisionOrigin()
    features: dict[str, Feature] = dict(rule.features or {})
    keys = [name for name in pair.columns if name in features and features[name].kind == "key"]
    mine, other = ([side[name] for name in keys] for side in (pair.mine, pair.other))
    columns = [name for name in pair.columns if name not in keys]
    differ = [name for name in columns if name in pair.outputs or pair.differs(name)]
    alike = [name for name in columns if name not in differ]
    allowed = rule.epsilon if rule.metric == "linf" else 1.0  # tolerances in each column
    notes = []
    if alike[_ALIKE:]:
        notes.append(f"The same in both: {join_names(alike[_ALIKE:], 30)}.")
    if pair.hidden:
        notes.append(f"{pair.hidden:,} more coordinates differ less or not at all.")
    now = "later" if pair.row is not None else "now"
    return render(
        "explaining/pair_card.html",
        anchor=anchor,
        title=_title(pair, later, earlier),
        distance=" ".join(filter(None, [_distance(pair, rule), pair.describe_support()])),
        heads=[
            _head("earlier", pair.witness.row, other, earlier, pair.models[1]),
            _head(now, pair.row, mine, later, pair.models[0]),
        ],
        zone=zone,
        lines=[_line(pair, name, rule, allowed) for name in (*differ, *alike[:_ALIKE])],
        notes=notes,
        ignored=[
            (name, other, mine)
            for (name, other), (_, mine) in zip(earlier.ignored, later.ignored, strict=True)
        ],
    )


def display_values(pair: Pair, name: str) -> tuple[str, str]:
    """Return the values of the earlier and the later decision as text, with labels of the rule."""
    return display_both(*(pair.name(name, one[name]) for one in (pair.other, pair.mine)))


def _name_values(rule: Rule, outputs: Sequence[str]) -> Callable[[str, Any], Any]:
    """Return a function that names a value of a column as the rule's labels do."""
    labels = {name: one.labels for name, one in (rule.features or {}).items() if one.labels}
    if rule.output_labels:
        labels |= dict.fromkeys(outputs, rule.output_labels)
    return partial(_name_value, labels)


def _name_value(labels: Mapping[str, Any], column: str, value: Any) -> Any:
    return value if value is None else name_value(labels.get(column), value)


def _title(pair: Pair, later: DecisionOrigin, earlier: DecisionOrigin) -> str:
    if later.place is None or earlier.place is None:
        mine = "This one" if pair.row is None else f"Row {pair.row:,}"
        return f"{mine} contradicts row {pair.witness.row:,}"
    unit = later.unit
    return f"{unit.capitalize()} {later.place:,} contradicts {unit} {earlier.place:,}"


def _head(
    when: str,
    row: int | None,
    keys: list[object],
    where: DecisionOrigin,
    model: str | None,
) -> dict[str, Any]:
    place, file, time = "this one" if row is None else f"row {row:,}", None, None
    if where.place is not None:
        place, file = f"{where.unit} {where.place:,}", where.file
    if where.time is not None:
        day, _, clock = where.time.partition(" ")
        time = f"{day}T{clock}Z" if clock else day, day, clock
    return {"when": when, "place": place, "file": file, "keys": keys, "model": model, "time": time}


def _distance(pair: Pair, rule: Rule) -> str:
    apart = pair.witness.input_distance
    if apart == 0:
        return "The same in everything that counts."
    distance = format_number(float(f"{apart:.3g}"))
    return f"At distance {distance}, where up to {format_number(rule.epsilon)} counts as similar."


def _line(pair: Pair, name: str, rule: Rule, allowed: float) -> dict[str, Any]:
    feature = (rule.features or {}).get(name)
    differs = pair.differs(name)
    kind = "output differs" if name in pair.outputs else "differs" if differs else "alike"
    note = ""
    if feature is not None and feature.kind in ("protected", "person"):
        note = feature.kind
    elif differs and 0 < pair.gaps.get(name, 0.0) < float("inf") and feature is not None:
        part = format_number(float(f"{100 * pair.gaps[name] / allowed:.2g}"))
        note = f"{part}% of the tolerance"
    return {
        "name": name,
        "kind": kind,
        "mark": differs and name not in pair.outputs,
        "note": note,
        "texts": display_values(pair, name),
    }


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
    support: tuple[int, int] | None = None,
) -> Pair:
    """Make the pair of a decision and one of its witnesses, as the past has them.

    mine    the values of a table row that was only checked
    names   names of coordinates, for a rule without features
    model   the model of a decision that was only checked
    support  how many earlier similar cases the decision has, and how many of them agree
    """
    if row is None and mine is None:
        raise BadRow("this input was only checked, not stored, so it cannot be shown.")
    if past.rule.features is None:
        assert row is not None
        rows = [row, witness.row]
        models = _models(past, row, witness, None)
        pair = vector_pair(
            past.rule, row, witness, past.inputs(rows), past.outputs(rows), models, names
        )
    else:
        ours = dict(mine) if mine is not None else past.values(row or 0)
        models = _models(past, row, witness, model)
        pair = table_pair(past.rule, row, witness, ours, past.values(witness.row), models)
    return replace(pair, support=support)


def table_pair(
    rule: Rule,
    row: int | None,
    witness: Witness,
    mine: dict[str, Any],
    other: dict[str, Any],
    models: tuple[str | None, str | None],
) -> Pair:
    """Make the pair of two table rows."""
    gaps = measure_gaps(rule.features or {}, mine, other)
    names, card = rule.output_columns or ("output",), partial(pair_card, rule=rule)
    naming = _name_values(rule, names)
    return Pair(row, witness, mine, other, gaps, names, card, models=models, name=naming)


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
        _name_values(rule, (output,)),
    )


def _name_coordinate(j: int, shape: tuple[int, ...], names: Sequence[str] | None) -> str:
    if names is not None and j < len(names):
        return str(names[j])
    return f"x[{', '.join(str(int(at)) for at in np.unravel_index(j, shape))}]"


def explain_pairs(past: Past, verdict: Verdict, count: int) -> SideBySide:
    """Put a decision side by side with its nearest witnesses."""
    pairs = [
        make_pair(
            past,
            verdict.row,
            witness,
            verdict.values,
            model=verdict.model,
            support=verdict.support,
        )
        for witness in verdict.witnesses.nearest(count)
    ]
    return SideBySide(tuple(pairs), len(verdict.witnesses), verdict.missing_decisions)
