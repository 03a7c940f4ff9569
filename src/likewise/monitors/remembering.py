"""A history and the index over it: how decisions get in, and what is refused at the door.

A decision is laid out where a kernel finds it, checked there, and only then part of the history.
The first one ever settles shape, storage and how long outputs are; if it is refused, nothing is.

Invariant: what is refused leaves no trace.
Not here: judging (robustness.py), memory (history/), which index it is (indexes/chooser.py).
"""

import os
import reprlib
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from numpy import ndarray

from likewise.burst import Burst
from likewise.errors import BadDecision, BadFile, BadRow, BadRule, LikewiseError
from likewise.history.decisions import History
from likewise.indexes.chooser import Chooser, Index
from likewise.indexes.crowd import Crowd
from likewise.indexes.names import check
from likewise.kernels import table as t
from likewise.metrics.outputs import Keepable, Outputs, outputs_of
from likewise.monitors.refusal import refusal, rows_of, wrong_shape
from likewise.plain import numbers_of, sequence_of
from likewise.rule import Rule
from likewise.types import Floats

_READY = 1 << 16  # bytes of rows for which memory is made ready together
_KEPT_TYPES = {"i1", "i2", "i4", "u1", "u2", "u4", "f4"}


class Remembering:
    """What every monitor has: a rule, a history, an index, a lock."""

    def __init__(
        self, rule: Rule, index: Any, rows: str | os.PathLike[str] | None, burst: Burst | None
    ) -> None:
        if not isinstance(rule, Rule):
            raise BadRule(f"the rule is {rule!r}; expected a likewise.Rule")
        if not isinstance(burst, Burst | None):
            raise BadRule(f"burst is {burst!r}; expected a likewise.Burst, or None")
        check(index, rule.metric)
        self.rule = self._rule = rule  # with features, the second is the rule for vectors
        self._wanted = index
        self._path = rows
        self.burst = burst
        self._alarm = None if burst is None else burst.alarm
        self._crowd = None if burst is None else Crowd(burst.last)
        self._keepable: Keepable | None = None
        self._lock = Lock()
        self._closed = False
        self._reset()

    def _reset(self) -> None:
        self._history: History | None = None
        self._chooser: Chooser | None = None
        self._index: Index | None = None
        self._outputs: Outputs | None = None
        self._shape: tuple[int, ...] | None = None
        self._dtype: np.dtype[Any] | None = None
        self._rows: npt.NDArray[Any] = np.empty(0)
        self._room = 0
        self._next_row = 0
        self._busy = False  # whether every decision is followed by some work on the index
        self._filed = False
        self._storage = self._rule.storage
        if self._crowd is not None:
            self._crowd.leave()

    def close(self) -> None:
        """Let go of the history; a file of rows keeps what was observed."""
        with self._lock:
            if self._history is not None:
                self._rows = np.empty(0)
                self._history.close()
            self._reset()
            self._closed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # The index

    def _mind(self, decisions: int) -> None:
        """Let the chooser do its work; another index may be in use afterwards."""
        assert self._chooser is not None
        self._chooser.mind(decisions)
        self._index = self._chooser.index
        self._busy = self._chooser.busy

    def _note_touched(self, decisions: int) -> None:
        """Rows in a file were written and read: let go of their pages in time."""
        history, index = self._history, self._index
        assert history is not None and index is not None
        last = np.arange(max(0, history.total - decisions), history.total + 1) % t.RECENT_MOST
        history.touched(decisions + int(index.state.recent[last, 2].clip(0).sum()))

    # One decision in

    def _admit(self, x: Any, z: Any, *, remember: bool) -> Index:
        """Lay a decision out for the kernel; raise before anything changes."""
        if type(x) is not ndarray or x.dtype is not self._dtype or x.shape != self._shape:
            return self._admit_other(x, z, remember=remember)
        index = self._index
        assert index is not None
        if self._next_row == self._room:
            self._make_room(remember=remember)
        self._outputs.read(z, index.given)  # type: ignore[union-attr]
        self._rows[self._next_row] = x
        return index

    def _admit_other(self, x: Any, z: Any, *, remember: bool) -> Index:
        """The same for an input that is not, as it comes, what the history keeps."""
        x = numbers_of(x, "the input")
        if x.shape != self._shape:
            if self._index is not None:
                raise wrong_shape(x.shape, self._shape)
            if x.ndim == 0 or x.size == 0:
                raise BadDecision(
                    f"the input has shape {x.shape}; expected at least 1 feature, in one dimension"
                    " or more. Nothing was stored."
                )
            self._begin(x.shape, x.dtype, z)
        index, history = self._index, self._history
        assert index is not None and history is not None
        try:
            if self._next_row == self._room:
                self._make_room(remember=remember)
            self._outputs.read(z, index.given)  # type: ignore[union-attr]
        except LikewiseError:
            self._forget_beginning()
            raise
        if history.takes(x.dtype):
            self._rows[self._next_row] = x
        else:
            index.input[:] = x.reshape(-1)
            index.state.table[t.GIVEN_RAW] = 0
        return index

    def _make_room(self, *, remember: bool) -> None:
        """Have memory ready for the next rows, and for one to spare.

        On a full disk `check` still has a place to write to.
        """
        index, history = self._index, self._history
        assert index is not None and history is not None
        try:
            index.state.ensure(2, 0)
        except BadFile:
            if remember or self._next_row == len(history.rows):
                raise
            return
        more = max(1, _READY // history.row_bytes)
        history.prepare(more)
        index.state.prepare(more)
        self._rows = history.rows
        self._room = min(len(history.rows) - 1, history.total + more)

    # The beginning

    def _begin(self, shape: tuple[int, ...], dtype: np.dtype[Any], z: Any) -> None:
        """The first input settles shape and storage, the first output how long outputs are."""
        if self._closed:
            raise BadDecision("this monitor is closed. Nothing was stored: start a new one.")
        storage = self._rule.storage
        if storage == "auto":
            storage = dtype.name if dtype.str[1:] in _KEPT_TYPES else "float64"
            storage = "float32" if dtype == np.float16 else storage
        weights, width = self._rule.weights, int(np.prod(shape))
        if weights is not None and len(weights) != width:
            raise BadDecision(
                f"the input has {width} features, but the rule has {len(weights)} weights."
                " Nothing was stored: send as many features as there are weights."
            )
        self._begin_with(shape, storage, outputs_of(self._rule, z))

    def _begin_with(self, shape: tuple[int, ...], storage: str, outputs: Outputs) -> None:
        """A history of nothing, and an index over it."""
        outputs.keepable = self._keepable
        self._history = History(self._rule, shape, storage, outputs, path=self._path)
        self._chooser = self._chooser_over(self._history)
        self._index = self._chooser.index
        if self._crowd is not None:
            self._crowd.enter(self._chooser)
        self._outputs = outputs
        self._shape = shape
        self._dtype = self._history.dtype if self._history.takes(self._history.dtype) else None
        self._rows = self._history.rows
        self._storage = storage
        self._filed = self._path is not None

    def _chooser_over(self, history: History) -> Chooser:
        """What finds the index for a history."""
        return Chooser(history, self._wanted)

    def _forget_beginning(self) -> None:
        """After a refusal: if that was the very first decision, it has settled nothing."""
        if self._outputs is not None:
            self._outputs.discard()
        if self._history is not None and self._history.total == 0:
            self._rows = np.empty(0)
            self._history.close()
            self._reset()

    @contextmanager
    def _undone(self) -> Iterator[None]:
        """If an index fails, someone else's perhaps, a first decision has settled nothing."""
        try:
            yield
        except BaseException:
            self._forget_beginning()
            raise

    def _refuse(self, code: int, x: Any, z: Any, which: str = "") -> None:
        """Raise what a kernel's error code means; the first decision then has settled nothing."""
        assert self._index is not None
        at, storage = int(self._index.state.table[t.BAD_AT]), self._storage
        self._forget_beginning()
        raise refusal(code, at, storage, self._rule, x, z, which)

    # Many in

    def _write(self, x: Any, z: Any) -> tuple[Index | None, int]:
        """Check a batch and write it where no query sees it yet."""
        inputs, z = numbers_of(x, "the input"), sequence_of(z)
        if inputs.ndim < 2:
            raise BadDecision(
                f"the inputs have shape {inputs.shape}; expected one row of features for each"
                " decision (two dimensions). Nothing was stored."
            )
        count = len(inputs)
        try:
            given = len(z)
        except TypeError:
            raise BadDecision(
                f"the outputs are {reprlib.repr(z)}; expected one for each of {count} inputs."
                " Nothing was stored."
            ) from None
        if given != count:
            raise BadDecision(
                f"there are {count} inputs and {given} outputs; expected one output for each"
                " input. Nothing was stored."
            )
        if count == 0:
            return self._index, 0
        if inputs[0].size == 0:
            raise BadDecision(
                "the inputs have no features; expected at least 1. Nothing was stored."
            )
        if self._index is None:
            self._begin(inputs.shape[1:], inputs.dtype, z[0])
        elif inputs.shape[1:] != self._shape:
            raise wrong_shape(inputs.shape[1:], self._shape)
        index = self._index
        assert index is not None and self._history is not None
        try:
            outputs = self._outputs.read_many(z, count)  # type: ignore[union-attr]
            bad, at = index.crew.write(inputs, outputs)
        except LikewiseError:
            self._forget_beginning()
            raise
        self._rows = self._history.rows
        if bad != 0:
            self._refuse(bad, inputs[at], z[at], f" of decision {at} of the batch")
        return index, count

    def _join(self, count: int) -> None:
        """Written rows become part of the history."""
        assert self._history is not None
        self._history.table[t.TOTAL] += count
        self._history.table[t.LIVE] += count
        self._next_row += count
        self._room = self._next_row  # whatever is ready beyond is found out when it is needed

    # What is there

    def inputs(self, rows: Any) -> npt.NDArray[Any]:
        """What is remembered of these rows, in the shape and type in which it is kept."""
        with self._lock:
            wanted = rows_of(rows, self._next_row, "Ask for rows that it has.")
            if len(wanted) == 0:
                return np.empty((0, *(self._shape or ())), dtype=self._storage_type())
            assert self._history is not None
            gone = wanted[self._history.alive()[wanted] == 0]
            if len(gone):
                raise BadRow(f"row {gone[0]} was forgotten. Ask for rows that are remembered.")
            self._history.touched(len(wanted))
            return self._history.rows[wanted].astype(self._storage_type())

    def _outputs_from_first(self) -> tuple[int, Floats]:
        """The first row remembered, and the outputs from there on; NaN for those forgotten."""
        history = self._history
        if history is None:
            return 0, np.empty((0, 1))
        first = history.first
        outputs = history.outputs()[first:].copy()
        outputs[history.alive()[first:] == 0] = np.nan
        return first, outputs

    def _shown_output(self, numbers: npt.NDArray[Any]) -> Any:
        assert self._outputs is not None
        return self._outputs.shown(numbers)

    def _output_at(self, row: int) -> Any:
        """The output of a row; None if it was forgotten."""
        history = self._history
        if history is None or not history.alive()[row]:
            return None
        return self._shown_output(history.outputs()[row])

    def _storage_type(self) -> np.dtype[Any]:
        return np.dtype("float64" if self._storage == "auto" else self._storage)

    def __len__(self) -> int:
        """Decisions remembered now."""
        return 0 if self._history is None else self._history.live
