"""From columns to vectors whose distance is the rule's.

A number is kept in its own unit, an ordinal as its place; weights turn both into tolerances. A
relative tolerance is a difference of logarithms. All that must match, which is every category
without a mismatch, every sign of a relative number and every missing place that is a value of its
own, becomes one coordinate: combinations are numbered, and two numbers lie farther apart than any
radius. (What may be missing and then matches everything keeps a coordinate of its own, which can be
left out.) A category with a mismatch becomes coordinates of which two (for linf, one) differ:

    linf    its number in bits, each bit worth the mismatch
    l1, l2  one coordinate per value; two of them differ, each worth half (of the square)

A text or a picture becomes the coordinates that its embedder makes of it (embedded_reader.py).

Invariant: the distance of two vectors is that of their rows, up to the rounding of float64.
Cost: some Python for each value; the vector has a coordinate for each number and ordinal, one for
all that must match, and a few for each category with a mismatch.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from likewise.errors import BadDecision, MissingValue, UnexpectedValue
from likewise.monitor.readers.embedded_columns import EmbeddedColumn, Vectors
from likewise.rule.feature import Feature
from likewise.rule.rule import Rule
from likewise.tables.frames import Column, is_missing, read_number_column
from likewise.tables.known_names import did_you_mean
from likewise.tables.normalize import label_of, require_list, short_repr

Floats = npt.NDArray[np.float64]
CodeArray = npt.NDArray[np.int32]

FAR = 4096.7
"""How many times epsilon, or 1, two rows are apart at least that differ in what must match."""
_SHUFFLE, _NUMBERS = 2654435761, 1 << 32
_APART = float("inf")  # stands for the weight of what must match, while weights are put together
MISSING = -1
"""The code of a missing place."""


class Erased:
    """Stands for a label, category or text that was erased."""

    def __repr__(self) -> str:
        return "(erased)"


ERASED = Erased()


class Vocabulary:
    """The values of a column by code; new ones count once they are committed."""

    def __init__(self, name: str, values: Sequence[Any] | None) -> None:
        self.name = name
        self.closed = values is not None
        self.values: list[Any] = list(values or ())
        self._codes = {value: code for code, value in enumerate(self.values)}
        self._fresh: dict[Any, int] = {}
        self.check_word: Callable[[Any, str, int], Any] | None = None  # asked about every new value

    def read(self, column: Column) -> CodeArray:
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
            i = next(i for i, value in enumerate(values) if not _hashable(value))
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
        """The code of a value seen before."""
        return self._codes.get

    def _learn(self, given: Any, values: list[Any], fresh: dict[Any, int]) -> int:
        """The code of a value that is not known as it came."""
        try:
            value = label_of(given, repr(self.name))
        except BadDecision as error:
            raise error.with_place(_place(given, values)) from None
        code = self._codes.get(value)
        if code is not None:
            return code
        if self.closed:
            i = _place(given, values)
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
        """What a code that is not committed stands for."""
        return next(value for value, known in self._fresh.items() if known == code)

    def discard(self) -> None:
        self._fresh = {}

    def set_values(self, values: Sequence[Any]) -> None:
        """Take over values by code, of an earlier history; those that were erased have no code."""
        self.values[:] = values
        self._fresh = {}
        self._codes.clear()
        self._codes.update(
            (value, code) for code, value in enumerate(values) if value is not ERASED
        )

    def drop(self, code: int) -> None:
        """No row has this value any more: it is gone, and its code is not used again."""
        if self._codes.get(self.values[code]) == code:  # it may have come again, as another
            del self._codes[self.values[code]]
        self.values[code] = ERASED

    def commit(self) -> None:
        for value, code in self._fresh.items():
            self.values.append(value)  # first: a code without a value would be given out twice
            self._codes[value] = code
        self._fresh = {}

    def settle(self) -> None:
        """After a commit was cut off: only the last value can be without its code."""
        self._fresh = {}
        if self.values and self.values[-1] is not ERASED:
            self._codes.setdefault(self.values[-1], len(self.values) - 1)

    def cut(self, count: int) -> None:
        """Of the values, keep the first `count`; no row has any of the others."""
        for value in self.values[count:]:
            if self._codes.get(value, -1) >= count:
                del self._codes[value]
        del self.values[count:]


@dataclass
class EncodedRows:
    """Rows of a table: their vectors, and what is kept of each column."""

    vectors: Floats
    columns: dict[str, npt.NDArray[Any]]
    """Numbers as they came (NaN where missing), everything else as codes."""
    left_open: npt.NDArray[np.bool_] = field(
        default_factory=lambda: np.empty((0, 0), dtype=np.bool_)
    )
    """Which coordinates of which row are near everything; no columns where none can be."""


class Encoder:
    """Reads tables under a rule with features."""

    def __init__(self, rule: Rule) -> None:
        assert rule.features is not None
        self.features: Mapping[str, Feature] = rule.features
        self.metric = rule.metric
        self.far = FAR * max(1.0, rule.epsilon)
        self.vocabularies = {
            name: Vocabulary(name, feature.order or feature.values)
            for name, feature in self.features.items()
            if feature.kind not in ("number", "key", "ignore")
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
        """Of the coordinates of a column."""
        for name, feature in self.features.items():
            own = self._weights(name, feature)
            self.places[name] = slice(len(weights), len(weights) + len(own))
            weights += own
        self.must_match_coordinates = [j for j, weight in enumerate(weights) if weight == _APART]
        """The coordinates in which two rows are equal, or farther apart than any radius."""
        self.weights = [self._weight(self.far) if one == _APART else one for one in weights]
        self.can_leave_open = any(feature.missing == "match" for feature in self.features.values())

    def _forget_combinations(self) -> None:
        self._combinations: dict[bytes, int] = {}
        self._fresh: dict[bytes, int] = {}
        self._numbered = 0  # combinations that ever had a number

    def reset(self) -> None:
        """Know no values but those that the rule lists."""
        self._forget_combinations()
        for vocabulary in self.vocabularies.values():
            if vocabulary.closed:
                vocabulary.discard()
            else:
                vocabulary.set_values([])

    # Weights

    def _weight(self, unit: float) -> float:
        return unit * unit if self.metric == "l2" else unit

    def _weights(self, name: str, feature: Feature) -> list[float]:
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
        """The rule for the vectors."""
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

    def read(self, columns: Mapping[str, Column], count: int) -> EncodedRows:
        """Rows as vectors; raise BadDecision, and change nothing, at the first that has none."""
        kept: dict[str, npt.NDArray[Any]] = {}
        vectors: dict[str, Vectors] = {}
        for name, feature in self.features.items():
            if feature.kind in ("key", "ignore"):
                continue
            if feature.kind == "number":
                kept[name] = read_number_column(name, columns[name])
            elif name in self.embedded:
                values, vectors[name] = self.embedded[name].read(columns[name])
                kept[name] = self.vocabularies[name].read(values)
            else:
                kept[name] = self.vocabularies[name].read(columns[name])
            missing = _mask_missing(kept[name])
            if feature.missing == "reject" and missing.any():
                raise MissingValue(
                    f"{name!r} is missing.",
                    place=int(np.flatnonzero(missing)[0]),
                    column=name,
                    advice='Say in the rule what that means, missing = "mismatch" or "match".',
                )
        return self.encode(kept, count, vectors)

    def encode(
        self, kept: dict[str, npt.NDArray[Any]], count: int, vectors: Mapping[str, Vectors]
    ) -> EncodedRows:
        """Rows as vectors, from what is kept of them and the vectors of what is embedded."""
        must: list[npt.NDArray[Any]] = []
        parts: list[Floats] = []
        loose: list[npt.NDArray[np.bool_]] = []
        for name, column in kept.items():
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
                open_to_all = missing & (feature.missing == "match")
                loose.append(np.repeat(open_to_all[:, None], coordinates.shape[1], axis=1))
        if self.has_must_match:
            parts.insert(0, self._combine(must))
            if self.can_leave_open:
                loose.insert(0, np.zeros((count, 1), dtype=np.bool_))
        read = EncodedRows(np.concatenate(parts, axis=1), kept)
        if self.can_leave_open:
            read.left_open = np.concatenate(loose, axis=1)
        return read

    def _coordinates(
        self,
        name: str,
        kept: npt.NDArray[Any],
        missing: npt.NDArray[np.bool_],
        must: list[npt.NDArray[Any]],
    ) -> Floats:
        feature = self.features[name]
        apart = feature.missing == "match"
        if feature.kind == "number":
            values = np.where(missing, 0.0, kept)
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
            return np.where(missing, 0, kept).astype(np.float64)[:, None]
        if feature.mismatch is None:
            must.append(kept)
            return np.empty((len(kept), 0))
        own = 0 if apart else len(feature.values or ())
        return self._category_coordinates(name, np.where(missing, own, kept))

    def category_coordinates(self, name: str) -> Floats:
        """By code: the coordinates of a category with a mismatch."""
        return self._category_coordinates(name, np.arange(len(self.features[name].values or ())))

    def _category_coordinates(self, name: str, codes: npt.NDArray[Any]) -> Floats:
        """Coordinates of which any two values differ by as much."""
        feature, place = self.features[name], self.places[name]
        width = place.stop - place.start
        many = len(feature.values or ()) + (feature.missing == "mismatch")
        if self.metric == "linf" or many <= 2:
            return np.asarray((codes[:, None] >> np.arange(width)) & 1, dtype=np.float64)
        return np.asarray(codes[:, None] == np.arange(width), dtype=np.float64)

    def _combine(self, must: list[npt.NDArray[Any]]) -> Floats:
        """One number for each combination of all that must match."""
        rows = np.stack(must, axis=1).astype(np.int32, order="C")
        first, inverse = _combinations(rows)
        known, fresh = self._combinations, dict[bytes, int]()
        numbers = np.empty(len(first))
        for i, row in enumerate(rows[first]):
            place = row.tobytes()
            number = known.get(place)
            if number is None:
                number = fresh.setdefault(place, self._numbered + len(fresh))
            numbers[i] = _scatter(number)
        self._fresh = fresh
        return numbers[inverse][:, None]

    def number_combination(self, place: bytes) -> tuple[float, bool]:
        """The number of a combination of known values, and whether it is a new one."""
        number = self._combinations.get(place)
        if number is not None:
            return float(_scatter(number)), False
        number = self._numbered
        self._fresh = {place: number}
        for vocabulary in self.vocabularies.values():
            vocabulary.discard()
        return float(_scatter(number)), True

    def combines(self, names: Iterable[str]) -> bool:
        """Whether one of these columns takes part in combinations."""
        features = self.features
        return any(name in features and _must_match(features[name]) for name in names)

    def keep_combinations(self, coordinates: Floats) -> None:
        """Let go of combinations that no row has; theirs are the coordinates of those that stay."""
        kept = set(coordinates.tolist())
        self._combinations = {
            place: number
            for place, number in self._combinations.items()
            if _scatter(number) in kept
        }

    def commit(self) -> None:
        """What was read last is remembered."""
        self._numbered += len(self._fresh)  # first: no number is ever given out twice
        self._combinations |= self._fresh
        self._fresh = {}
        for vocabulary in self.vocabularies.values():
            vocabulary.commit()

    def settle(self) -> None:
        """After a call that was cut off: have codes and values agree again."""
        self._fresh = {}
        for vocabulary in self.vocabularies.values():
            vocabulary.settle()


def _mask_missing(kept: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    missing: npt.NDArray[np.bool_] = np.isnan(kept) if kept.dtype.kind == "f" else kept == MISSING
    return missing


def _scatter(number: int) -> int:
    """Another number for each, in no order, so that a tree need not grow at one end."""
    return number * _SHUFFLE % _NUMBERS


def _combinations(rows: CodeArray) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The different rows of a table of codes: where each comes first, and which each row is."""
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


def _place(value: Any, values: list[Any]) -> int:
    return next(i for i, one in enumerate(values) if one is value)  # NA equals nothing


def _hashable(value: Any) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True


def _must_match(feature: Feature) -> bool:
    """Whether something of a column must match: its category, its sign, or that it is missing."""
    if feature.missing == "match" or not feature.is_compared:
        return False
    if feature.kind == "category":
        return feature.mismatch is None
    return feature.ratio is not None or feature.missing == "mismatch"
