"""Put the decisions of two pasts together, so that similar cases of both sides can be found.

Each monitor numbers labels, categories and combinations of what must match as they come. Here they
get numbers that hold for both sides, and do not depend on the order of decisions.
Cost: the inputs of both sides once more; a row read back for each combination of what must match.
Not here: what is compared (explaining/compare_sides.py).
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from likewise.explaining.compare_groups import like_points
from likewise.explaining.compare_sides import JointDecisions
from likewise.explaining.past import Past, Points
from likewise.explaining.side_tests import Answers, order_values
from likewise.monitor.readers.encoding import Encoder
from likewise.reports.judged_history import JudgedHistory
from likewise.rule.rule import Rule
from likewise.tables.array_types import Floats, Rows
from likewise.verdict.model_counts import CodedColumn, ComparisonSpan

_MOST_COLUMNS = 32
"""Vectors with more coordinates are not adjusted for: they are no columns that mean something."""


def join_decisions(one: JudgedHistory, other: JudgedHistory, case: Rows) -> JointDecisions | None:
    """Put all decisions of two histories together; None if their inputs have different shapes.

    case: a number for each case, first those of the first side
    """
    sides = (one.past, np.arange(len(one))), (other.past, np.arange(len(other)))
    rule = one.past.rule
    encoder = None if rule.features is None else Encoder(rule)
    points = _join_points(sides, encoder)
    if points is None:
        return None
    outcome, scores, answers = _join_answers(sides, rule)
    names, numbers = _read_numbers(points, encoder, one.columns)
    person = rule.person_column
    return JointDecisions(
        like_points(points, _join_spans(sides), _join_models(sides, rule)),
        np.repeat([False, True], [len(one), len(other)]),
        answers,
        case,
        None
        if person is None
        else join_codes([past.codes(person, rows) for past, rows in sides])[0],
        outcome,
        scores,
        names,
        numbers,
    )


Sides = Sequence[tuple[Past, Rows]]


def join_codes(parts: Sequence[CodedColumn]) -> tuple[Rows, list[Any]]:
    """Return the codes of several columns as codes of one, by value, and the values that occur."""
    values: dict[Any, int] = {}
    joined = []
    for part in parts:
        own = np.full(len(part.values) + 1, -1)  # the last is for the code -1
        for code in np.unique(part.codes[part.codes >= 0]).tolist():
            own[code] = values.setdefault(part.values[code], len(values))
        joined.append(own[part.codes])
    return order_values(np.concatenate(joined), list(values)), sorted(values, key=repr)


def _join_points(sides: Sides, encoder: Encoder | None) -> Points | None:
    parts = [past.points(rows) for past, rows in sides]
    vectors = [part.vectors.reshape(len(part.vectors), -1) for part in parts]
    if len({one.shape[1] for one in vectors}) > 1:
        return None
    joined = np.concatenate(vectors)
    left_open = None
    if any(part.left_open is not None for part in parts):
        left_open = np.concatenate(
            [
                np.zeros(one.shape, np.bool_) if part.left_open is None else part.left_open
                for one, part in zip(vectors, parts, strict=True)
            ]
        ).reshape(joined.shape)
    if encoder is not None and encoder.must_match_coordinates:
        joined = joined.copy()
        _renumber(sides, encoder, joined, left_open)
    return Points(joined, left_open, parts[0].rule)


def _renumber(sides: Sides, encoder: Encoder, vectors: Any, left_open: Any) -> None:
    """Give coordinates of what must match the numbers of one encoder that reads both sides."""
    places = encoder.must_match_coordinates
    samples: list[dict[str, Any]] = []  # a row for each combination of what must match
    which = np.empty(len(vectors), np.int64)
    start = 0
    for past, rows in sides:
        here = slice(start, start + len(rows))
        codes = vectors[here, places]
        if left_open is not None:
            codes = np.hstack([codes, left_open[here, places]])
        _, first, number = np.unique(codes, axis=0, return_index=True, return_inverse=True)
        which[here] = len(samples) + number.reshape(-1)
        samples += [past.values(row) for row in rows[first].tolist()]
        start = here.stop
    order = sorted(range(len(samples)), key=lambda i: _must_match_key(encoder, samples[i]))
    table = {name: [samples[i][name] for i in order] for name in encoder.kept_features}
    coordinates = np.empty((len(samples), len(places)))
    coordinates[order] = encoder.read(table, len(samples)).vectors[:, places]
    vectors[:, places] = coordinates[which]


def _must_match_key(encoder: Encoder, values: dict[str, Any]) -> str:
    """Return a text for what must match in a row."""
    parts = []
    for name, feature in encoder.kept_features.items():
        value = values[name]
        if feature.kind == "number" and value is not None:
            value = (value > 0) - (value < 0)
        parts.append(value if feature.kind in ("category", "number") else value is None)
    return repr(parts)


def _join_spans(sides: Sides) -> ComparisonSpan | None:
    spans = [past.span(rows) for past, rows in sides]
    known = [span for span in spans if span is not None]
    if len(known) < len(spans):
        return None
    times = np.concatenate([span.times for span in known])
    return ComparisonSpan(known[0].text, known[0].microseconds, times)


def _join_models(sides: Sides, rule: Rule) -> CodedColumn | None:
    """Return the models of decisions if only decisions of one model are compared.

    A side that is one model is compared with the other side, whatever its model is called.
    """
    parts = [past.model_codes(rows) for past, rows in sides]
    known = [part for part in parts if part is not None]
    several = any(len(np.unique(part.codes)) > 1 for part in known)
    if rule.compare != "within" or len(known) < len(parts) or not several:
        return None
    return CodedColumn(*join_codes(known))


def _join_answers(sides: Sides, rule: Rule) -> tuple[str | None, Floats, Answers]:
    """Return what the scores count, the scores, and the answers.

    For labels that is the favourable one; if the rule names none, the most frequent.
    """
    if rule.output == "number":
        numbers = np.concatenate([past.numbers(rows) for past, rows in sides])
        name = rule.output_column or "output"
        return str(name), numbers, Answers(numbers, "number", rule.delta)
    if rule.output == "probabilities":
        outputs = np.array([one for past, rows in sides for one in past.outputs(rows)], np.float64)
        return None, np.zeros(len(outputs)), Answers(outputs, rule.output_metric, rule.delta)
    codes, labels = join_codes([past.codes("", rows) for past, rows in sides])
    counted = labels.index(rule.favourable) if rule.favourable in labels else None
    if counted is None:
        counted = int(np.argmax(np.bincount(codes)))
    scores = (codes == counted).astype(np.float64)
    return str(labels[counted]), scores, Answers(codes.astype(np.float64))


def _read_numbers(
    points: Points, encoder: Encoder | None, names: Sequence[str] | None
) -> tuple[tuple[str, ...], Floats]:
    """Return the names and values of compared numbers and ordinals, in tolerances."""
    rule, width = points.rule, points.vectors.shape[1]
    if encoder is not None:
        places = {
            name: encoder.places[name].start
            for name, feature in encoder.features.items()
            if feature.kind in ("number", "ordinal")
        }
        radius = 1.0  # tolerances are in the weights
    else:
        whole = width <= _MOST_COLUMNS and rule.metric != "cosine"
        places = {(names or ())[j] if names else f"x{j}": j for j in range(width) if whole}
        radius = rule.epsilon
    units = np.ones(width) if rule.weights is None else np.array(rule.weights)
    if rule.metric == "l2":
        units = np.sqrt(units)
    columns = list(places.values())
    values = points.vectors[:, columns].astype(np.float64) * units[columns] / radius
    if points.left_open is not None:
        values[points.left_open[:, columns]] = math.nan
    return tuple(places), values
