"""Encode outputs as numbers: a label as its code, a number as itself, probabilities as a vector.

Invariant: a new label gets its code only when its decision has been accepted (`commit`), so that a
rejected decision leaves no trace.
Cost: one dictionary entry per distinct label; labels are never dropped.
"""

from collections.abc import Callable, Hashable, Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from likewise.errors import BadDecision, WrongShape
from likewise.rule.rule import Rule
from likewise.search.kernels import table as t
from likewise.tables.array_types import Floats
from likewise.tables.normalize import (
    PLAIN_LABELS,
    label_of,
    number_of,
    numbers_of_each,
    probabilities_of,
    probabilities_of_each,
    unmask,
)

_SMALL_RANGE = 1 << 16
LabelCheck: TypeAlias = Callable[[Any, str, int], Any]
"""Raises BadDecision for a new value that cannot be stored; called with the value, what it is
called in messages, and how many other values are known."""


class OutputCodec(Protocol):
    """Encodes and decodes outputs of one kind."""

    kind: int
    width: int
    pending: bool
    """Whether what was encoded last waits for `commit` or `discard`."""
    check_new_label: LabelCheck | None
    """Called with every new label."""

    def encode(self, z: Any, into: Floats) -> None:
        """Write one output as numbers; raise BadDecision and write nothing if it is none."""

    def encode_many(self, z: Any, count: int) -> Floats:
        """Return `count` outputs as a (count, width) array."""

    def commit(self) -> None:
        """Accept the outputs encoded last."""

    def discard(self) -> None:
        """Drop what the outputs encoded last would have added."""

    def settle(self) -> None:
        """Restore consistency after `commit` or another call was interrupted."""

    def decode(self, numbers: Floats) -> Any:
        """Return the output that was written as these numbers."""


def outputs_of(rule: Rule, first: Any) -> OutputCodec:
    """Return the codec for a rule; the first output fixes how many probabilities there are."""
    if rule.output == "label":
        return LabelCodec()
    if rule.output == "number":
        return NumberCodec()
    return ProbabilityCodec(rule.output_metric, len(probabilities_of(first, "the output")))


class LabelCodec:
    """Encodes any hashable value with an == of its own, which decides whether two are the same."""

    kind = t.LABEL
    width = 1

    def __init__(self) -> None:
        self._codes: dict[Hashable, int] = {}
        self.labels: list[Hashable] = []  # by code
        self.check_new_label: LabelCheck | None = None
        self._new: list[Hashable] = []
        self.pending = False

    def know(self, labels: Sequence[Hashable], gone: Hashable = None) -> None:
        """Take over the labels of an earlier history by code; those that are `gone` get no code."""
        self.labels = list(labels)
        self._codes = {label: code for code, label in enumerate(labels) if label is not gone}

    def decode(self, numbers: Floats) -> Any:
        return self.labels[int(numbers[0])]

    def encode(self, z: Any, into: Floats) -> None:
        try:
            code = self._codes.get(z)
        except TypeError:  # it cannot be hashed, but may stand for what can
            code = None
        if code is None:
            new: dict[Hashable, int] = {}
            code = self._new_code(z, new)
            if new:
                self._new, self.pending = list(new), True
        into[0] = code

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
        distinct = np.flatnonzero(np.bincount(values))
        codes = np.zeros(distinct[-1] + 1 if len(distinct) else 0)
        codes[distinct] = self._code((distinct + low).tolist())
        return codes[values].reshape(-1, 1)

    def _code(self, labels: Sequence[Hashable]) -> Floats:
        new: dict[Hashable, int] = {}
        self.pending = True
        all_known = self._known_codes(labels)
        if all_known is not None:
            return all_known
        codes = np.empty(len(labels))
        places = _first_places(labels)
        for i in places:
            label = labels[i]
            try:
                code = self._codes.get(label)
                if code is None:
                    code = new.get(label)
            except TypeError:  # it cannot be hashed, but may stand for what can
                code = None
            if code is None:
                try:
                    code = self._new_code(label, new)
                except BadDecision as error:
                    raise error.with_place(i) from None
            codes[i] = code
        if len(places) < len(labels):
            by_label = {labels[i]: codes[i] for i in places}
            codes[:] = [by_label[label] for label in labels]
        self._new = list(new)
        return codes

    def _new_code(self, label: Any, new: dict[Hashable, int]) -> int:
        """Return the code of a label that is not known as it came; add it to `new` if it is new."""
        label = label_of(label, "the output")
        code = self._codes.get(label)
        if code is None:
            if self.check_new_label is not None and label not in new:
                self.check_new_label(label, "the output", len(self._codes) + len(new))
            code = new.setdefault(label, len(self.labels) + len(new))
        return code

    def _known_codes(self, labels: Sequence[Hashable]) -> Floats | None:
        """Return the codes of labels; None unless all of them are known as they came."""
        try:
            codes = list(map(self._codes.get, labels))
        except TypeError:  # one cannot be hashed
            return None
        return None if None in codes else np.array(codes, dtype=np.float64)

    def commit(self) -> None:
        for label in self._new:
            self.labels.append(label)  # first: a code without a label would be assigned twice
            self._codes[label] = len(self.labels) - 1
        self.discard()

    def discard(self) -> None:
        self._new = []
        self.pending = False

    def cut(self, count: int) -> None:
        """Keep only the first `count` labels; no row has any of the others."""
        for label in self.labels[count:]:
            if self._codes.get(label, -1) >= count:
                del self._codes[label]
        del self.labels[count:]

    def settle(self) -> None:
        self.discard()
        if self.labels:  # an interruption can have left only the last without its code
            self._codes.setdefault(self.labels[-1], len(self.labels) - 1)


def _first_places(labels: Sequence[Hashable]) -> Sequence[int]:
    """Return where each label occurs first; all places if `label_of` may change one of them."""
    places = range(len(labels))
    if not set(map(type, labels)) <= PLAIN_LABELS:
        return places
    return sorted(dict(zip(reversed(labels), reversed(places), strict=True)).values())


def _small_integers(z: Any) -> tuple[npt.NDArray[np.int64], int] | None:
    """Return integers of a small range shifted to start at 0, and the shift; else None."""
    if not (isinstance(z, np.ndarray) and z.ndim == 1 and z.dtype.kind in "iu" and len(z)):
        return None
    low, high = int(z.min()), int(z.max())
    if high - low >= _SMALL_RANGE or not -(2**62) < low <= high < 2**62:
        return None
    return z.astype(np.int64) - low, low


class NumberCodec:
    """Encodes an output that is one finite number."""

    kind = t.NUMBER
    width = 1
    pending = False
    check_new_label: LabelCheck | None = None

    def encode(self, z: Any, into: Floats) -> None:
        into[0] = number_of(z, "the output")

    def encode_many(self, z: Any, count: int) -> Floats:
        return numbers_of_each(z, "the output").reshape(-1, 1)

    def commit(self) -> None:
        """Do nothing: numbers leave nothing to remember."""

    discard = settle = commit

    def decode(self, numbers: Floats) -> Any:
        number = float(numbers[0])
        return int(number) if number.is_integer() and abs(number) < 2**53 else number


class ProbabilityCodec:
    """Encodes an output that is a vector of class probabilities, all of one length."""

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

    def _width_error(self, count: int) -> BadDecision:
        return WrongShape(
            f"the output has {count} probabilities, but this history holds {self.width}, set by"
            " its first decision.",
            advice="Send one for each class.",
        )

    def commit(self) -> None:
        """Do nothing: probabilities leave nothing to remember."""

    discard = settle = commit

    def decode(self, numbers: Floats) -> Any:
        return numbers.tolist()
