"""A history and the index over it: how decisions get in, and the way back when a call is cut off.

A decision is laid out where a kernel finds it, checked there, and only then part of the history.
The first one ever settles shape, storage and how long outputs are; if it is refused, nothing is.

An exception may arrive between any two steps: from a signal handler, a user's index, a full disk.
`_next_row` says how many rows all finished calls have left behind, and moves in one step, once a
call's rows are written and indexed. `_cut_off` says how far a call has come; a call that finds it
set goes back to `_next_row` rows before it does anything else.

Invariant: what is refused, or was cut off before `_next_row` moved, leaves no trace.
Cost: after a cut-off inside a batch, or behind a kernel, the index is built again.
Not here: judging (robustness.py), memory (history/), which index it is (indexes/chooser.py).
"""

import os
import reprlib
from threading import RLock
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from numpy import ndarray

from likewise.burst import Burst
from likewise.errors import BadDecision, BadFile, BadRow, BadRule, LikewiseError
from likewise.forking import CUT_OFF_LOADING, copied_by_fork, first_use, is_loading_cut_off
from likewise.history.decisions import History
from likewise.indexes.chooser import Chooser, Index
from likewise.indexes.crowd import Crowd
from likewise.indexes.names import check
from likewise.kernels import table as t
from likewise.metrics.outputs import Keepable, Outputs, outputs_of
from likewise.monitors.reentry import called_within
from likewise.monitors.refusal import refusal, rows_of, wrong_shape
from likewise.plain import numbers_of, sequence_of
from likewise.rule import Rule
from likewise.types import Floats, Rows

SURE, ROW, INDEX = 0, 1, 2
"""How far a call may have come: not begun, or finished; scratch memory and one kernel call; several
rows and the index."""

_NONE: Rows = np.empty(0, np.int64)
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
        self._lock = RLock()
        self._cut_off = SURE
        self._forgetting = _NONE
        self._closed = CUT_OFF_LOADING if is_loading_cut_off() else ""  # why nothing is remembered
        self._reset()
        copied_by_fork(self)

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
            self._ready()
            if self._history is not None:
                self._rows = np.empty(0)
                self._history.close()
            self._reset()
            self._closed = "is closed"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # After a call that was cut off

    def _ready(self) -> None:
        """Undo what an earlier call left half done."""
        if self._cut_off:
            self._recover()

    def _refused(self) -> None:
        """Something was refused at the door: only scratch memory has changed."""
        if self._history is None or self._next_row == 0:
            self._forget_beginning()
        else:
            assert self._outputs is not None and self._index is not None
            self._outputs.discard()
            if not self._index.sound:  # it was a user's index that raised
                return
        self._cut_off = SURE

    def _recover(self) -> None:
        """Go back to the rows that finished calls have left, whatever else is there."""
        if called_within(self):
            raise BadDecision(
                "this monitor is in the middle of another call, out of which it was called again:"
                " by a signal handler, a finalizer, or a label, index or embedder of yours."
                " Nothing was stored: call it afterwards."
            )
        rows = self._settled_rows()
        if self._history is None or rows == 0:
            self._forget_beginning()
        else:
            self._go_back(rows)
        self._cut_off = SURE

    def _settled_rows(self) -> int:
        """How many rows all finished calls have left behind."""
        return self._next_row

    def _go_back(self, rows: int) -> None:
        """Have the first `rows` rows and no others."""
        history, chooser, crowd = self._history, self._chooser, self._crowd
        assert history is not None and chooser is not None and self._outputs is not None
        chooser.abandon()
        self._outputs.settle()
        if self._cut_off == INDEX or not chooser.index.sound or history.total != rows:
            self._cut_off = INDEX  # until all of this is done
            history.settle(rows, self._forgetting)
            self._forgotten(self._forgetting)
            self._forgetting = _NONE
            chooser.renew()
            if crowd is not None:
                crowd.leave()
                crowd.enter(chooser)
        else:
            history.point()
            chooser.index.settle()
            if crowd is not None:
                crowd.settle()
        self._index, self._busy = chooser.index, chooser.busy
        self._rows = history.rows
        self._next_row = self._room = rows  # forces _make_room on the next decision

    @property
    def rows(self) -> int:
        """Decisions ever taken: the row of the next one."""
        with self._lock:
            self._ready()
            return self._next_row

    def _take_back(self, rows: int) -> None:
        """Have only the first `rows` rows: those after them were never taken."""
        with self._lock:
            self._ready()
            self._cut_off = ROW
            self._next_row = rows
            self._recover()

    def _forgotten(self, rows: Rows) -> None:
        """The history has forgotten these rows; called again if that was cut off."""

    def _after_fork(self) -> None:
        """In a forked process, another thread may have been in the middle of a call."""
        self._lock = RLock()
        if self._cut_off:
            self._cut_off = INDEX
        elif self._busy:
            self._cut_off = ROW  # the thread that makes the next index is not here
        if is_loading_cut_off():
            self._reset()
            self._closed = CUT_OFF_LOADING
        elif self._filed:
            self._reset()
            self._closed = "keeps its rows in a file of the process that this one was forked from"

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
        if self._next_row == self._room:
            self._make_room(remember=remember)
        self._outputs.read(z, index.given)  # type: ignore[union-attr]
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
            raise BadDecision(f"this monitor {self._closed}. Nothing was stored: start a new one.")
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
        with first_use:
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
        """No decision was ever remembered: nothing is settled yet."""
        if self._history is not None:
            self._rows = np.empty(0)
            self._history.close()
        self._reset()

    def _refusal(self, code: int, x: Any, z: Any, which: str = "") -> BadDecision:
        """What a kernel's error code means."""
        assert self._index is not None
        at = int(self._index.state.table[t.BAD_AT])
        return refusal(code, at, self._storage, self._rule, x, z, which)

    # Many in

    def _write(self, x: Any, z: Any) -> tuple[Index | None, int]:
        """Check a batch and write it where no query sees it yet."""
        if self._cut_off:
            self._recover()
        self._cut_off = ROW
        try:
            return self._written(x, z)
        except LikewiseError:
            self._refused()
            raise

    def _written(self, x: Any, z: Any) -> tuple[Index | None, int]:
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
        outputs = self._outputs.read_many(z, count)  # type: ignore[union-attr]
        bad, at = index.crew.write(inputs, outputs)
        self._rows = self._history.rows
        if bad != 0:
            raise self._refusal(bad, inputs[at], z[at], f" of decision {at} of the batch")
        return index, count

    def _joined(self, count: int) -> None:
        """Written rows that the history has counted are remembered from here on."""
        assert self._outputs is not None
        self._outputs.commit()
        self._room = self._next_row + count  # forces _make_room on the next decision
        self._next_row += count
        self._cut_off = SURE

    # What is there

    def inputs(self, rows: Any) -> npt.NDArray[Any]:
        """What is remembered of these rows, in the shape and type in which it is kept."""
        with self._lock:
            self._ready()
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
        with self._lock:
            self._ready()
            return 0 if self._history is None else self._history.live
