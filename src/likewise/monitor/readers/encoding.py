"""Encode the columns of a table as vectors whose distance is the rule's (see `Encoder`).

Invariant: the distance of two vectors is that of their rows, up to the rounding of float64.
Cost: some Python for each value; the vector has a coordinate for each number and ordinal, one for
all that must match, and a few for each category with a mismatch.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from likewise.errors import BadDecision, MissingValue, UnexpectedValue
from likewise.monitor.readers.embedded_reader import EmbeddedColumn, Vectors
from likewise.monitor.readers.protocol import Batch
from likewise.rule.feature import Feature
from likewise.rule.rule import Rule
from likewise.tables.frames import Column, is_missing, read_number_column
from likewise.tables.known_names import did_you_mean
from likewise.tables.normalize import label_of, require_list, short_repr

Floats = npt.NDArray[np.float64]
CodeArray = npt.NDArray[np.int32]

FAR = 4096.7
"""Rows that differ in what must match are at least so many times max(epsilon, 1) apart."""
_SHUFFLE, _NUMBERS = 2654435761, 1 << 32
_APART = float("inf")  # placeholder for the weight of what must match, while weights are collected
MISSING = -1
"""The code of a missing value."""


class Erased:
    """Stands for a label, category or text that was erased."""

    def __repr__(self) -> str:
        return "(erased)"


ERASED = Erased()


class Vocabulary:
    """Holds the values of a column by code; new ones count once they are committed."""

    def __init__(self, name: str, values: Sequence[Any] | None) -> None:
        self.name = name
        self.closed = values is not None
        self.values: list[Any] = list(values or ())
        self._codes = {value: code for code, value in enumerate(self.values)}
        self._fresh: dict[Any, int] = {}
        self.check_word: Callable[[Any, str, int], Any] | None = None
        """Called with every new value; raises BadDecision if it cannot be stored."""

    def read(self, column: Column) -> CodeArray:
        """Return the codes of a column's values; new values get codes that are not committed."""
        values = require_list(column)
        fresh: dict[Any, int] = {}
        codes: dict[Any, int] = {}
        try:
            for value in dict.fromkeys(values):
                code = self._codes.get(value)
                if code is None:
                    code = MISSING if is_missing(value) else self._learn(value, values, fresh)
                codes[value] = code
        except TypeError:
            i = next(i for i, value in enumerate(values) if not _is_hashable(value))
            raise UnexpectedValue(
                f"{self.name!r} is {values[i]!r}, which cannot be hashed; expected a string, a"
                " number or the like.",
                place=i,
                column=self.name,
            ) from None
        self._fresh = fresh
        return np.fromiter(map(codes.__getitem__, values), np.int32, len(values))

    @property
    def code_of(self) -> Callable[[Any], int | None]:
        """A function that returns the code of a known value, None for any other."""
        return self._codes.get

    def _learn(self, raw: Any, values: list[Any], fresh: dict[Any, int]) -> int:
        """Return the code of a value that is not known in the type in which it came."""
        try:
            value = label_of(raw, repr(self.name))
        except BadDecision as error:
            raise error.with_place(_find_place(raw, values)) from None
        code = self._codes.get(value)
        if code is not None:
            return code
        if self.closed:
            i = _find_place(raw, values)
            raise UnexpectedValue(
                f"{self.name!r} is {short_repr(value)}; expected one of"
                f" {', '.join(map(repr, self.values))}{did_you_mean(value, self.values) or '.'}",
                place=i,
                column=self.name,
                advice="Add it to the rule.",
            )
        if self.check_word is not None and value not in fresh:
            self.check_word(value, repr(self.name), len(self._codes) + len(fresh))
        return fresh.setdefault(value, len(self.values) + len(fresh))

    def find_uncommitted(self, code: int) -> Any:
        """Return the value of a code that is not committed."""
        return next(value for value, fresh_code in self._fresh.items() if fresh_code == code)

    def discard(self) -> None:
        """Forget values that are not committed."""
        self._fresh = {}

    def set_values(self, values: Sequence[Any]) -> None:
        """Take over the values of an earlier history by code; erased ones have no code."""
        self.values[:] = values
        self._fresh = {}
        self._codes.clear()
        self._codes.update(
            (value, code) for code, value in enumerate(values) if value is not ERASED
        )

    def drop(self, code: int) -> None:
        """Forget a value that no row has any more; its code is not used again."""
        if self._codes.get(self.values[code]) == code:  # the value may have got another code since
            del self._codes[self.values[code]]
        self.values[code] = ERASED

    def commit(self) -> None:
        """Make the values that were read last part of the vocabulary."""
        for value, code in self._fresh.items():
            self.values.append(value)  # first: a code without a value would be given out twice
            self._codes[value] = code
        self._fresh = {}

    def settle(self) -> None:
        """Repair an interrupted commit: only the last value can be without its code."""
        self._fresh = {}
        if self.values and self.values[-1] is not ERASED:
            self._codes.setdefault(self.values[-1], len(self.values) - 1)

    def cut(self, count: int) -> None:
        """Keep the first `count` values; no row has any of the others."""
        for value in self.values[count:]:
            if self._codes.get(value, -1) >= count:
                del self._codes[value]
        del self.values[count:]


class Encoder:
    """Reads tables under a rule with features.

    A number is a coordinate in its own unit, an ordinal its place; weights turn both into
    tolerances. A relative tolerance is a difference of logarithms. Everything that must match
    (categories without a mismatch, signs of relative numbers, and missing values that are a value
    of their own) becomes one coordinate: combinations are numbered, and two numbers are farther
    apart than any radius. A category or sign whose missing values match everything has a coordinate
    of its own, which can be left out. A category with a mismatch becomes coordinates of which two
    (for linf, one) differ:

        linf    its number in bits, each bit worth the mismatch
        l1, l2  one coordinate per value; two of them differ, each worth half (of the square)

    A text or a picture becomes the coordinates that its embedder returns (embedded_reader.py).
    """

    def __init__(self, rule: Rule) -> None:
        assert rule.features is not None
        self.features: Mapping[str, Feature] = rule.features
        self.metric = rule.metric
        self.far = FAR * max(1.0, rule.epsilon)
        self.kept_features = {name: one for name, one in self.features.items() if one.is_kept}
        """The features whose values are stored."""
        self.vocabularies = {
            name: Vocabulary(name, feature.order or feature.values)
            for name, feature in self.kept_features.items()
            if feature.kind != "number"
        }
        self.embedded = {
            name: EmbeddedColumn(name, feature)
            for name, feature in self.features.items()
            if feature.embed is not None
        }
        self._forget_combinations()
        self.has_must_match = any(_must_match(feature) for feature in self.features.values())
        weights = [_APART] if self.has_must_match else []
        self.places: dict[str, slice] = {}
        """The coordinates of each column."""
        for name, feature in self.features.items():
            own = self._weights_of(name, feature)
            self.places[name] = slice(len(weights), len(weights) + len(own))
            weights += own
        self.must_match_coordinates = [j for j, weight in enumerate(weights) if weight == _APART]
        """Coordinates in which two rows are either equal or farther apart than any radius."""
        self.weights = [self._weight(self.far) if one == _APART else one for one in weights]
        self.can_leave_open = any(feature.missing == "match" for feature in self.features.values())

    def _forget_combinations(self) -> None:
        self._combinations: dict[bytes, int] = {}
        self._fresh: dict[bytes, int] = {}
        self._numbered = 0  # combinations that ever had a number

    def reset(self) -> None:
        """Forget all values but those that the rule lists."""
        self._forget_combinations()
        for vocabulary in self.vocabularies.values():
            if vocabulary.closed:
                vocabulary.discard()
            else:
                vocabulary.set_values([])

    # Weights

    def _weight(self, unit: float) -> float:
        return unit * unit if self.metric == "l2" else unit

    def _weights_of(self, name: str, feature: Feature) -> list[float]:
        """Return the weights of a column's coordinates."""
        if name in self.embedded:
            width = self.embedded[name].width
            return [self._weight(1.0 / float(feature.tolerance))] * width  # type: ignore[arg-type]
        if feature.kind in ("number", "ordinal"):
            tolerance = feature.tolerance if feature.ratio is None else np.log(feature.ratio)
            weights = [self._weight(1.0 / float(tolerance))]  # type: ignore[arg-type]
            sign_apart = feature.ratio is not None and feature.missing == "match"
            return [*weights, _APART] if sign_apart else weights
        if feature.kind != "category":
            return []
        if feature.mismatch is None:
            return [_APART] if feature.missing == "match" else []
        many = len(feature.values or ()) + (feature.missing == "mismatch")
        if self.metric == "linf" or many == 2:
            bits = 1 if many <= 2 else (many - 1).bit_length()
            return [self._weight(feature.mismatch)] * bits
        return [0.5 * self._weight(feature.mismatch)] * many

    def make_vector_rule(self, rule: Rule) -> Rule:
        """Make the rule for the vectors."""
        return Rule(
            rule.metric,
            rule.epsilon,
            weights=self.weights,
            output=rule.output,
            delta=rule.delta,
            output_metric=rule.output_metric,
            slack=rule.slack,
            storage="float64",
        )

    # Reading

    def read(
        self, columns: Mapping[str, Column], count: int, optional: Sequence[str] = ()
    ) -> Batch:
        """Read rows as vectors; raise BadDecision, and change nothing, if one cannot be read.

        optional: columns that are not compared, and may be missing whatever the rule says
        """
        stored: dict[str, npt.NDArray[Any]] = {}
        vectors: dict[str, Vectors] = {}
        for name, feature in self.kept_features.items():
            if feature.kind == "number":
                stored[name] = read_number_column(name, columns[name])
            elif name in self.embedded:
                values, vectors[name] = self.embedded[name].read(columns[name])
                stored[name] = self.vocabularies[name].read(values)
            else:
                stored[name] = self.vocabularies[name].read(columns[name])
            missing = _mask_missing(stored[name])
            if feature.missing == "reject" and missing.any() and name not in optional:
                raise MissingValue(
                    f"{name!r} is missing.",
                    place=int(np.flatnonzero(missing)[0]),
                    column=name,
                    advice='Say in the rule what that means, missing = "mismatch" or "match".',
                )
        return self.encode(stored, count, vectors)

    def encode(
        self, stored: dict[str, npt.NDArray[Any]], count: int, vectors: Mapping[str, Vectors]
    ) -> Batch:
        """Encode rows as vectors, from their stored values and the vectors of embedded columns."""
        must: list[npt.NDArray[Any]] = []
        parts: list[Floats] = []
        left_open: list[npt.NDArray[np.bool_]] = []
        for name, column in stored.items():
            feature, missing = self.features[name], _mask_missing(column)
            if not feature.is_compared:
                continue
            if feature.missing == "mismatch" and feature.kind != "category":
                must.append(missing)
            if name in vectors:
                coordinates = vectors[name]
            else:
                coordinates = self._coordinates(name, column, missing, must)
            parts.append(coordinates)
            if self.can_leave_open:
                matches_all = missing & (feature.missing == "match")
                left_open.append(np.repeat(matches_all[:, None], coordinates.shape[1], axis=1))
        if self.has_must_match:
            parts.insert(0, self._combine(must))
            left_open.insert(0, np.zeros((count, 1), dtype=np.bool_))
        open_places = np.concatenate(left_open, axis=1) if self.can_leave_open else None
        return Batch(np.concatenate(parts, axis=1), None, None, stored, open_places)

    def _coordinates(
        self,
        name: str,
        stored: npt.NDArray[Any],
        missing: npt.NDArray[np.bool_],
        must: list[npt.NDArray[Any]],
    ) -> Floats:
        """Return the coordinates of a column; what must match is added to `must` instead."""
        feature = self.features[name]
        apart = feature.missing == "match"
        if feature.kind == "number":
            values = np.where(missing, 0.0, stored)
            if feature.ratio is None:
                return values[:, None]
            signs = np.sign(values)
            with np.errstate(divide="ignore"):
                values = np.where(signs == 0.0, 0.0, np.log(np.abs(values)))
            if apart:
                return np.stack([values, signs], axis=1)
            must.append(signs)
            return values[:, None]
        if feature.kind == "ordinal" or (feature.mismatch is None and apart):
            return np.where(missing, 0, stored).astype(np.float64)[:, None]
        if feature.mismatch is None:
            must.append(stored)
            return np.empty((len(stored), 0))
        own = 0 if apart else len(feature.values or ())
        return self.category_coordinates(name, np.where(missing, own, stored))

    def category_coordinates(self, name: str, codes: npt.NDArray[Any]) -> Floats:
        """Return coordinates in which any two different values are equally far apart."""
        feature, place = self.features[name], self.places[name]
        width = place.stop - place.start
        many = len(feature.values or ()) + (feature.missing == "mismatch")
        if self.metric == "linf" or many <= 2:
            return np.asarray((codes[:, None] >> np.arange(width)) & 1, dtype=np.float64)
        return np.asarray(codes[:, None] == np.arange(width), dtype=np.float64)

    def _combine(self, must: list[npt.NDArray[Any]]) -> Floats:
        """Return one number for each combination of everything that must match."""
        rows = np.stack(must, axis=1).astype(np.int32, order="C")
        first, inverse = _find_distinct_rows(rows)
        fresh: dict[bytes, int] = {}
        numbers = np.empty(len(first))
        for i, row in enumerate(rows[first]):
            combination = row.tobytes()
            number = self._combinations.get(combination)
            if number is None:
                number = fresh.setdefault(combination, self._numbered + len(fresh))
            numbers[i] = _scatter(number)
        self._fresh = fresh
        return numbers[inverse][:, None]

    def number_combination(self, combination: bytes) -> tuple[float, bool]:
        """Return the number of a combination of known values, and whether it is new."""
        number = self._combinations.get(combination)
        if number is not None:
            return float(_scatter(number)), False
        number = self._numbered
        self._fresh = {combination: number}
        for vocabulary in self.vocabularies.values():
            vocabulary.discard()
        return float(_scatter(number)), True

    def combines(self, names: Iterable[str]) -> bool:
        """Whether one of these columns takes part in combinations."""
        features = self.features
        return any(name in features and _must_match(features[name]) for name in names)

    def keep_combinations(self, coordinates: Floats) -> None:
        """Keep the combinations that have one of these coordinates; no row has the others."""
        stored = set(coordinates.tolist())
        self._combinations = {
            combination: number
            for combination, number in self._combinations.items()
            if _scatter(number) in stored
        }

    def commit(self) -> None:
        """Remember the combinations and values that were read last."""
        self._numbered += len(self._fresh)  # first: no number is ever given out twice
        self._combinations |= self._fresh
        self._fresh = {}
        for vocabulary in self.vocabularies.values():
            vocabulary.commit()

    def settle(self) -> None:
        """Make codes and values agree again after an interrupted call."""
        self._fresh = {}
        for vocabulary in self.vocabularies.values():
            vocabulary.settle()


def _mask_missing(stored: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    missing: npt.NDArray[np.bool_] = (
        np.isnan(stored) if stored.dtype.kind == "f" else stored == MISSING
    )
    return missing


def _scatter(number: int) -> int:
    """Return a different number for each, in no order, so that a tree does not grow at one end."""
    return number * _SHUFFLE % _NUMBERS


def _find_distinct_rows(rows: CodeArray) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Find the distinct rows of a table of codes: where each first occurs, and which a row is."""
    numbers, many = np.zeros(len(rows), dtype=np.int64), 1
    for codes in rows.T:
        low = int(codes.min()) if len(codes) else 0
        size = int(codes.max()) - low + 1 if len(codes) else 1
        if many * size > 1 << 62:
            numbers = np.unique(numbers, return_inverse=True)[1]
            many = int(numbers.max()) + 1
        numbers, many = numbers * size + (codes - low), many * size
    _, first, inverse = np.unique(numbers, return_index=True, return_inverse=True)
    return first, inverse


def _find_place(value: Any, values: list[Any]) -> int:
    return next(i for i, one in enumerate(values) if one is value)  # NA equals nothing


def _is_hashable(value: Any) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True


def _must_match(feature: Feature) -> bool:
    """Whether something in a column must match: its category, its sign, or that it is missing."""
    if feature.missing == "match" or not feature.is_compared:
        return False
    if feature.kind == "category":
        return feature.mismatch is None
    return feature.ratio is not None or feature.missing == "mismatch"
