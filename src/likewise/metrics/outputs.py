"""Outputs become numbers: a label its code, a number itself, probabilities a vector.

Invariant: a new label gets its code only when its decision has been accepted (`commit`), so that a
rejected decision leaves no trace.
Cost: one dictionary entry per distinct label; labels are never dropped.
"""

import reprlib
from collections.abc import Callable, Hashable, Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from likewise.errors import BadDecision
from likewise.kernels import table as t
from likewise.rule import Rule
from likewise.types import Floats

_SMALL_RANGE = 1 << 16
Keepable: TypeAlias = Callable[[Any, str], Any]
"""Raises BadDecision for a value, under that name, that cannot be kept."""


class Outputs(Protocol):
    """How outputs of one kind are read."""

    kind: int
    width: int
    pending: bool
    """Whether what was read last waits for `commit` or `discard`."""
    keepable: Keepable | None
    """Asked about every new label."""

    def read(self, z: Any, into: Floats) -> None:
        """Write one output as numbers; raise BadDecision and write nothing if it is none."""

    def read_many(self, z: Any, count: int) -> Floats:
        """`count` outputs as a (count, width) array."""

    def commit(self) -> None:
        """The outputs read last were accepted."""

    def discard(self) -> None:
        """The outputs read last were not."""

    def settle(self) -> None:
        """After `commit` or anything else here was cut off: have it consistent again."""

    def shown(self, numbers: Floats) -> Any:
        """The output that was written as these numbers."""


def outputs_of(rule: Rule, first: Any) -> Outputs:
    """The reader for a rule; the first output settles how many probabilities there are."""
    if rule.output == "label":
        return Labels()
    if rule.output == "number":
        return Numbers()
    return Probabilities(rule.output_metric, len(_vector(first)))


class Labels:
    """Any hashable; two are the same if Python's == says so."""

    kind = t.LABEL
    width = 1

    def __init__(self) -> None:
        self._codes: dict[Hashable, int] = {}
        self.labels: list[Hashable] = []  # by code
        self.keepable: Keepable | None = None
        self._new: list[Hashable] = []
        self.pending = False

    def know(self, labels: Sequence[Hashable], gone: Hashable = None) -> None:
        """Take over labels by code, of an earlier history; those that are `gone` have no code."""
        self.labels = list(labels)
        self._codes = {label: code for code, label in enumerate(labels) if label is not gone}

    def shown(self, numbers: Floats) -> Any:
        return self.labels[int(numbers[0])]

    def read(self, z: Any, into: Floats) -> None:
        try:
            code = self._codes.get(z)
        except TypeError:
            raise _unhashable(z) from None
        if code is None:
            code = self._next(z)
        into[0] = code

    def _next(self, z: Hashable) -> int:
        if z != z:  # noqa: PLR0124 - that is what NaN is
            raise BadDecision(
                f"the output is {z!r}, which equals nothing, not even itself; expected a label."
                " Nothing was stored: say what a missing output means, for example 'none'."
            )
        if self.keepable is not None:
            self.keepable(z, "the output")
        self._new = [z]
        self.pending = True
        return len(self.labels)

    def read_many(self, z: Any, count: int) -> Floats:
        self._new = []
        coded = _small_integers(z)
        if coded is None:
            labels = z.tolist() if isinstance(z, np.ndarray) and z.ndim == 1 else list(z)
            return self._code(labels).reshape(-1, 1)
        values, low = coded
        seen = np.flatnonzero(np.bincount(values))
        codes = np.zeros(seen[-1] + 1 if len(seen) else 0)
        codes[seen] = self._code((seen + low).tolist())
        return codes[values].reshape(-1, 1)

    def _code(self, labels: Sequence[Hashable]) -> Floats:
        known, fresh = self._codes, dict[Hashable, int]()
        codes = np.empty(len(labels))
        for i, label in enumerate(labels):
            try:
                code = known.get(label)
                if code is None:
                    if label != label:  # noqa: PLR0124
                        raise BadDecision(
                            f"output {i} of the batch is {label!r}, which equals nothing, not even"
                            " itself; expected a label. Nothing was stored."
                        )
                    if self.keepable is not None and label not in fresh:
                        self.keepable(label, f"output {i} of the batch")
                    code = fresh.setdefault(label, len(self.labels) + len(fresh))
            except TypeError:
                raise _unhashable(label, f" {i} of the batch") from None
            codes[i] = code
        self._new = list(fresh)
        self.pending = True
        return codes

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


def _unhashable(z: Any, which: str = "") -> BadDecision:
    return BadDecision(
        f"output{which} is {reprlib.repr(z)} of type {type(z).__name__}, which cannot be hashed;"
        " expected a label such as a string, a number or a tuple. Nothing was stored."
    )


def _small_integers(z: Any) -> tuple[npt.NDArray[np.int64], int] | None:
    """Integers of a small range, shifted to start at 0: coded without looking at each."""
    if not (isinstance(z, np.ndarray) and z.ndim == 1 and z.dtype.kind in "iu" and len(z)):
        return None
    low, high = int(z.min()), int(z.max())
    if high - low >= _SMALL_RANGE or not -(2**62) < low <= high < 2**62:
        return None
    return z.astype(np.int64) - low, low


class Numbers:
    """One finite number each."""

    kind = t.NUMBER
    width = 1
    pending = False
    keepable: Keepable | None = None

    def read(self, z: Any, into: Floats) -> None:
        if isinstance(z, str | bytes):
            raise _no_number(z)
        try:
            into[0] = z
        except (TypeError, ValueError, OverflowError):
            raise _no_number(z) from None

    def read_many(self, z: Any, count: int) -> Floats:
        numbers = _numeric(z, "numbers")
        if numbers.ndim == 2 and numbers.shape[1] == 1:
            numbers = numbers[:, 0]
        if numbers.ndim != 1:
            raise BadDecision(
                f"the outputs have shape {numbers.shape}; expected one number for each decision."
                " Nothing was stored."
            )
        return numbers.reshape(-1, 1)

    def commit(self) -> None:
        """Numbers leave nothing to remember."""

    discard = settle = commit

    def shown(self, numbers: Floats) -> Any:
        number = float(numbers[0])
        return int(number) if number.is_integer() and abs(number) < 2**53 else number


def _no_number(z: Any) -> BadDecision:
    return BadDecision(
        f"the output is {reprlib.repr(z)} of type {type(z).__name__}; expected one finite number."
        " Nothing was stored."
    )


class Probabilities:
    """A vector of class probabilities each, all of one length."""

    pending = False
    keepable: Keepable | None = None

    def __init__(self, metric: str, width: int) -> None:
        self.kind = {"linf": t.OUT_LINF, "l1": t.OUT_L1, "l2": t.OUT_L2, "tv": t.OUT_TV}[metric]
        self.width = width

    def read(self, z: Any, into: Floats) -> None:
        vector = _vector(z)
        if len(vector) != self.width:
            raise self._width_error(len(vector))
        into[:] = vector

    def read_many(self, z: Any, count: int) -> Floats:
        matrix = _numeric(z, "probabilities")
        if matrix.ndim != 2:
            raise BadDecision(
                f"the outputs have shape {matrix.shape}; expected one row of probabilities for"
                " each decision. Nothing was stored."
            )
        if matrix.shape[1] != self.width:
            raise self._width_error(matrix.shape[1])
        return matrix

    def _width_error(self, came: int) -> BadDecision:
        return BadDecision(
            f"the output has {came} probabilities, but this history holds {self.width}, set by its"
            " first decision. Nothing was stored: send one for each class."
        )

    def commit(self) -> None:
        """Probabilities leave nothing to remember."""

    discard = settle = commit

    def shown(self, numbers: Floats) -> Any:
        return numbers.tolist()


def _vector(z: Any) -> Floats:
    vector = _numeric(z, "probabilities")
    if vector.ndim != 1 or len(vector) == 0:
        raise BadDecision(
            f"the output has shape {vector.shape}; expected a vector of probabilities."
            " Nothing was stored."
        )
    return vector


def _numeric(z: Any, what: str) -> Floats:
    try:
        array = np.asarray(z)
    except (ValueError, OverflowError):
        array = np.empty(0, dtype=object)
    if array.dtype.kind not in "fiub":
        raise BadDecision(
            f"the output is {reprlib.repr(z)}, an array of type {array.dtype}; expected {what}."
            " Nothing was stored."
        )
    return np.ascontiguousarray(array, dtype=np.float64)
