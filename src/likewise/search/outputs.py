"""Outputs become numbers: a label its code, a number itself, probabilities a vector.

Invariant: a new label gets its code only when its decision has been accepted (`commit`), so that a
rejected decision leaves no trace.
Cost: one dictionary entry per distinct label; labels are never dropped.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from likewise.errors import BadDecision, WrongShape
from likewise.rule.rule import Rule
from likewise.search.kernels import table as t
from likewise.tables.normalize import (
    PLAIN_LABELS,
    label_of,
    number_of,
    numbers_of_each,
    probabilities_of,
    probabilities_of_each,
    unmask,
)
from likewise.tables.rows import Floats

_SMALL_RANGE = 1 << 16
LabelCheck: TypeAlias = Callable[[Any, str, int], Any]
"""Raises BadDecision for a new value, under that name, that cannot be kept; told how many are known
beside it."""


class OutputCodec(Protocol):
    """How outputs of one kind are read."""

    kind: int
    width: int
    pending: bool
    """Whether what was read last waits for `commit` or `discard`."""
    check_new_label: LabelCheck | None
    """Asked about every new label."""

    def encode(self, z: Any, into: Floats) -> None:
        """Write one output as numbers; raise BadDecision and write nothing if it is none."""

    def encode_many(self, z: Any, count: int) -> Floats:
        """`count` outputs as a (count, width) array."""

    def commit(self) -> None:
        """The outputs read last were accepted."""

    def discard(self) -> None:
        """The outputs read last were not."""

    def settle(self) -> None:
        """After `commit` or anything else here was cut off: have it consistent again."""

    def decode(self, numbers: Floats) -> Any:
        """The output that was written as these numbers."""


def outputs_of(rule: Rule, first: Any) -> OutputCodec:
    """The reader for a rule; the first output settles how many probabilities there are."""
    if rule.output == "label":
        return LabelCodec()
    if rule.output == "number":
        return NumberCodec()
    return ProbabilityCodec(rule.output_metric, len(probabilities_of(first, "the output")))


class LabelCodec:
    """Any hashable with an == of its own; two are the same if that says so."""

    kind = t.LABEL
    width = 1

    def __init__(self) -> None:
        self._codes: dict[Hashable, int] = {}
        self.labels: list[Hashable] = []  # by code
        self.check_new_label: LabelCheck | None = None
        self._new: list[Hashable] = []
        self.pending = False

    def know(self, labels: Sequence[Hashable], gone: Hashable = None) -> None:
        """Take over labels by code, of an earlier history; those that are `gone` have no code."""
        self.labels = list(labels)
        self._codes = {label: code for code, label in enumerate(labels) if label is not gone}

    def decode(self, numbers: Floats) -> Any:
        return self.labels[int(numbers[0])]

    def encode(self, z: Any, into: Floats) -> None:
        try:
            code = self._codes.get(z)
        except TypeError:  # it cannot be hashed, but may stand for what can
            code = None
        into[0] = self._code_of(z) if code is None else code

    def _code_of(self, z: Any) -> int:
        """The code of a label that is not known as it came."""
        label = label_of(z, "the output")
        code = self._codes.get(label)
        if code is not None:
            return code
        if self.check_new_label is not None:
            self.check_new_label(label, "the output", len(self._codes))
        self._new = [label]
        self.pending = True
        return len(self.labels)

    def encode_many(self, z: Any, count: int) -> Floats:
        self._new = []
        if isinstance(z, np.ma.MaskedArray):
            z = unmask(z, "the output")
        coded = _small_integers(z)
        if coded is None:
            # Dates stay NumPy's for now: some of them would become integers.
            plain = isinstance(z, np.ndarray) and z.ndim == 1 and z.dtype.kind not in "mM"
            labels = z.tolist() if plain else list(z)
            return self._code(labels).reshape(-1, 1)
        values, low = coded
        seen = np.flatnonzero(np.bincount(values))
        codes = np.zeros(seen[-1] + 1 if len(seen) else 0)
        codes[seen] = self._code((seen + low).tolist())
        return codes[values].reshape(-1, 1)

    def _code(self, labels: Sequence[Hashable]) -> Floats:
        known, fresh = self._codes, dict[Hashable, int]()
        self.pending = True
        all_known = self._known_codes(labels)
        if all_known is not None:
            return all_known
        codes = np.empty(len(labels))
        places = _first_places(labels)
        for i in places:
            label = labels[i]
            try:
                code = known.get(label)
                if code is None:
                    code = fresh.get(label)
            except TypeError:  # it cannot be hashed, but may stand for what can
                code = None
            if code is None:
                try:
                    code = self._new_code(label, known, fresh)
                except BadDecision as error:
                    raise error.with_place(i) from None
            codes[i] = code
        if len(places) < len(labels):
            by_label = {labels[i]: codes[i] for i in places}
            codes[:] = [by_label[label] for label in labels]
        self._new = list(fresh)
        return codes

    def _new_code(self, label: Any, known: Mapping[Any, int], fresh: dict[Any, int]) -> int:
        """Return the code of a label that is not known as it came."""
        label = label_of(label, "the output")
        code = known.get(label)
        if code is None:
            if self.check_new_label is not None and label not in fresh:
                self.check_new_label(label, "the output", len(known) + len(fresh))
            code = fresh.setdefault(label, len(self.labels) + len(fresh))
        return code

    def _known_codes(self, labels: Sequence[Hashable]) -> Floats | None:
        """The codes of labels; None unless all of them are known as they came."""
        try:
            codes = list(map(self._codes.get, labels))
        except TypeError:  # one cannot be hashed
            return None
        return None if None in codes else np.array(codes, dtype=np.float64)

    def commit(self) -> None:
        for label in self._new:
            self.labels.append(label)  # first: a code without a label would be given out twice
            self._codes[label] = len(self.labels) - 1
        self.discard()

    def discard(self) -> None:
        self._new = []
        self.pending = False

    def cut(self, count: int) -> None:
        """Of the labels, keep the first `count`; no row has any of the others."""
        for label in self.labels[count:]:
            if self._codes.get(label, -1) >= count:
                del self._codes[label]
        del self.labels[count:]

    def settle(self) -> None:
        self.discard()
        if self.labels:  # only the last can have been cut off from its code
            self._codes.setdefault(self.labels[-1], len(self.labels) - 1)


def _first_places(labels: Sequence[Hashable]) -> Sequence[int]:
    """Where each label stands first; all places if one is of a type that `label_of` may change."""
    places = range(len(labels))
    if not set(map(type, labels)) <= PLAIN_LABELS:
        return places
    return sorted(dict(zip(reversed(labels), reversed(places), strict=True)).values())


def _small_integers(z: Any) -> tuple[npt.NDArray[np.int64], int] | None:
    """Integers of a small range, shifted to start at 0: coded without looking at each."""
    if not (isinstance(z, np.ndarray) and z.ndim == 1 and z.dtype.kind in "iu" and len(z)):
        return None
    low, high = int(z.min()), int(z.max())
    if high - low >= _SMALL_RANGE or not -(2**62) < low <= high < 2**62:
        return None
    return z.astype(np.int64) - low, low


class NumberCodec:
    """One finite number each."""

    kind = t.NUMBER
    width = 1
    pending = False
    check_new_label: LabelCheck | None = None

    def encode(self, z: Any, into: Floats) -> None:
        into[0] = number_of(z, "the output")

    def encode_many(self, z: Any, count: int) -> Floats:
        return numbers_of_each(z, "the output").reshape(-1, 1)

    def commit(self) -> None:
        """Numbers leave nothing to remember."""

    discard = settle = commit

    def decode(self, numbers: Floats) -> Any:
        number = float(numbers[0])
        return int(number) if number.is_integer() and abs(number) < 2**53 else number


class ProbabilityCodec:
    """A vector of class probabilities each, all of one length."""

    pending = False
    check_new_label: LabelCheck | None = None

    def __init__(self, metric: str, width: int) -> None:
        self.kind = {"linf": t.OUT_LINF, "l1": t.OUT_L1, "l2": t.OUT_L2, "tv": t.OUT_TV}[metric]
        self.width = width

    def encode(self, z: Any, into: Floats) -> None:
        vector = probabilities_of(z, "the output")
        if len(vector) != self.width:
            raise self._width_error(len(vector))
        into[:] = vector

    def encode_many(self, z: Any, count: int) -> Floats:
        each = probabilities_of_each(z, "the output")
        for place, vector in enumerate(each[:1] if isinstance(each, np.ndarray) else each):
            if len(vector) != self.width:
                raise self._width_error(len(vector)).with_place(place)
        return np.asarray(each)

    def _width_error(self, came: int) -> BadDecision:
        return WrongShape(
            f"the output has {came} probabilities, but this history holds {self.width}, set by"
            " its first decision.",
            advice="Send one for each class.",
        )

    def commit(self) -> None:
        """Probabilities leave nothing to remember."""

    discard = settle = commit

    def decode(self, numbers: Floats) -> Any:
        return numbers.tolist()
