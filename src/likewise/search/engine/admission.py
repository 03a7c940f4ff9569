"""Check and store decisions, and roll back a call that was interrupted.

Invariant: a refused decision leaves no trace; `settle(n)` rolls back to the first n rows.
Cost: after an interruption inside a batch, or after a kernel, the index is rebuilt.
Not here: judging (engine.py), memory (search/history), the choice of an index (chooser.py), locks
(monitor/monitor.py).
"""

import os
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy import ndarray

from likewise.errors import BadDecision, BadFile, BadRow, BadRule, UnexpectedValue, WrongShape
from likewise.rule.burst import Burst
from likewise.rule.rule import Rule
from likewise.runtime.forking import LOADING_CUT_OFF_BY_FORK, first_use_lock, is_loading_blocked
from likewise.search.engine.chooser import Chooser, Index, MakeTree
from likewise.search.engine.near_pairs import NeighbourCount
from likewise.search.engine.protocol import RemoteIndexFactory, ReportsMissingRows
from likewise.search.engine.refusal import refusal, wrong_shape
from likewise.search.engine.wildcards import Wildcards
from likewise.search.history.row_files import RowFile
from likewise.search.history.stored_decisions import History
from likewise.search.indexes.live_tree import LiveTree
from likewise.search.indexes.registry import check_index
from likewise.search.kernels import table as t
from likewise.search.outputs import LabelCheck, LabelCodec, OutputCodec, outputs_of
from likewise.tables.array_types import Floats, Rows
from likewise.tables.normalize import sequence_of, short_repr, to_number_array
from likewise.verdict.context import EMPTY_CONTEXT
from likewise.verdict.slope import SlopeQuestion

# A decision is written where a kernel finds it, checked there, and only then part of the history.
# The first one fixes shape, storage and the length of outputs; if it is refused, nothing is fixed.
#
# An exception may arrive between any two steps: from a signal handler, a user's index, a full disk.
# The caller knows how many rows all finished calls have left behind, and after a call that did not
# finish it calls `settle(rows)` before anything else. `in_doubt` is set while a call changes
# several rows and the index; if it is still set then, the index is rebuilt.

_NONE: Rows = np.empty(0, np.int64)
_READY = 1 << 16  # bytes of rows for which memory is prepared together
_NATIVE_TYPES = {"i1", "i2", "i4", "u1", "u2", "u4", "f4"}


class Admission:
    """Holds a history and the index over it, and stores decisions in both.

    rule        for vectors: features and embedders are handled by the reader
    comparable  whether each verdict says if there was a near row, of any output
    support     whether each says how many rows were near, and so also if there was one
    tree        makes the tree over the history, where it answers another question than the rule's
    question    the question about slopes that such a tree answers
    """

    def __init__(
        self,
        rule: Rule,
        *,
        index: Any = "auto",
        rows: str | os.PathLike[str] | None = None,
        burst: Burst | None = None,
        comparable: bool = False,
        support: bool = False,
        tree: MakeTree = LiveTree,
        question: SlopeQuestion | None = None,
    ) -> None:
        if not isinstance(burst, Burst | None):
            raise BadRule(
                f"burst is {burst!r}; expected a likewise.Burst, or None", setting="burst"
            )
        for name, asked in (("comparable", comparable), ("support", support)):
            if not isinstance(asked, bool):
                raise BadRule(f"{name} is {asked!r}; expected True or False", setting=name)
        if not isinstance(index, RemoteIndexFactory):
            check_index(index, rule.metric)
        self.rule = rule
        self.burst = burst
        self.comparable = comparable or support
        self.support = support
        self.verdict_context = EMPTY_CONTEXT._replace(question=question)
        """What every verdict says beside its witnesses."""
        self._verdict_contexts = self.verdict_context, self.verdict_context, self.verdict_context
        """The context as it is, with `comparable` False, and with `comparable` True."""
        self.check_new_label: LabelCheck | None = None
        """Called with every new label."""
        self._requested_index = index
        self._file = None if rows is None else RowFile(rows)
        self._tree = tree
        self._alarm = None if burst is None else burst.alarm
        self._neighbours = None if burst is None else NeighbourCount(burst.last)
        self._why_closed = LOADING_CUT_OFF_BY_FORK if is_loading_blocked() else ""
        self._reset()

    def _reset(self) -> None:
        self.history: History | None = None
        self.chooser: Chooser | None = None
        self.index: Index | None = None
        self.outputs: OutputCodec | None = None
        self.wildcards = Wildcards()
        self.rows = 0
        """Decisions ever taken: the row of the next one."""
        self.in_doubt = False
        self.similar = _NONE
        """A near row of each decision of the last batch, -1 for none. Which row it is depends on
        the index, so verdicts say only whether there is one. With support, how many are near."""
        self._similar = -1
        """What `similar` says of the last single decision."""
        self.rows_being_forgotten = _NONE
        """Rows that a call has begun to forget; if it is interrupted, `settle` finishes it."""
        self._shape: tuple[int, ...] | None = None
        self._dtype: np.dtype[Any] | None = None
        self._inputs: npt.NDArray[Any] = np.empty(0)
        self._room = 0
        self._busy = False  # whether every decision is followed by some work on the index
        self._filed = False
        self._has_fixed_index = False  # whether the index was requested, and fills itself
        self._may_miss_rows = False  # whether the index may have to answer without some of the past
        self.storage: str = self.rule.storage
        if self._neighbours is not None:
            self._neighbours.leave()

    def reset(self) -> None:
        """Forget all rows, and with them shape, storage and the length of outputs."""
        self._reset()
        if self._file is not None:
            self._file.empty()

    def close(self, why: str = "is closed") -> None:
        """Release the history; a file of rows keeps what was observed."""
        total = 0 if self.history is None else self.history.total
        self._reset()
        if self._file is not None:
            self._file.close(total)
        if isinstance(self._requested_index, RemoteIndexFactory):
            self._requested_index.close()
        self._why_closed = why

    # After a call that was refused, or interrupted

    def undo_refusal(self) -> bool:
        """Clean up after a refused call; return whether that was all there was to undo."""
        if self.in_doubt:
            return False
        if self.history is None or self.rows == 0:
            self.reset()
            return True
        assert self.outputs is not None and self.index is not None
        self.outputs.discard()
        return self.index.sound  # False if it was a user's index that raised

    def settle(self, rows: int) -> None:
        """Roll back to the first `rows` rows, whatever a call has left half done."""
        history, chooser, neighbours = self.history, self.chooser, self._neighbours
        if history is None or rows == 0:
            self.reset()
            return
        assert chooser is not None and self.outputs is not None
        chooser.abandon()
        self.outputs.settle()
        self.wildcards.settle(rows)
        if self.in_doubt or not chooser.index.sound or history.total != rows:
            self.in_doubt = True  # until all of this is done
            history.settle(rows, self.rows_being_forgotten)
            self.wildcards.erase(self.rows_being_forgotten)
            self.rows_being_forgotten = _NONE
            chooser.rebuild_index()
            if neighbours is not None:
                neighbours.leave()
                neighbours.enter(chooser)
        else:
            history.restore_addresses()
            chooser.index.settle()
            if neighbours is not None:
                neighbours.settle()
        self.index, self._busy = chooser.index, chooser.busy
        self._inputs = history.rows
        self.rows = self._room = rows  # forces _make_room on the next decision
        self.in_doubt = False

    def after_fork(self, *, cut_off: bool) -> bool:
        """Prepare for use in a forked process; return whether `settle` is needed.

        cut_off: whether another thread was in the middle of a call
        """
        if is_loading_blocked():
            self._reset()
            self._why_closed = LOADING_CUT_OFF_BY_FORK
            return False
        if self._file is not None:
            self._reset()
            self._file.release()
            self._why_closed = (
                "keeps its rows in a file of the process that this one was forked from"
            )
            return False
        self.in_doubt |= cut_off
        return cut_off or self._busy  # a fork does not copy the thread that makes the next index

    # The index

    def _run_chooser(self, decisions: int) -> None:
        """Let the chooser work; another index may be in use afterwards."""
        assert self.chooser is not None
        self.chooser.after_decisions(decisions)
        self.index = self.chooser.index
        self._busy = self.chooser.busy

    def _note_touched(self, decisions: int) -> None:
        """Count rows of the file that were written and read, so that pages are released in time."""
        history, index = self.history, self.index
        assert history is not None and index is not None
        last = np.arange(max(0, history.total - decisions), history.total + 1) % t.RECENT_MOST
        history.note_touched(decisions + int(index.state.recent[last, 2].clip(0).sum()))

    # One decision in

    def _admit(self, x: Any, z: Any, *, remember: bool) -> Index:
        """Write a decision where the kernel reads it; raise before anything changes."""
        if type(x) is not ndarray or x.dtype is not self._dtype or x.shape != self._shape:
            return self._admit_converted(x, z, remember=remember)
        index = self.index
        assert index is not None
        if self.rows == self._room:
            self._make_room(remember=remember)
        self.outputs.encode(z, index.given)  # type: ignore[union-attr]
        self._inputs[self.rows] = x
        return index

    def _admit_converted(self, x: Any, z: Any, *, remember: bool) -> Index:
        """Admit a decision on the slow path: convert dtype or shape of the input first."""
        x = to_number_array(x, "the input")
        if x.shape != self._shape:
            if self.index is not None:
                raise wrong_shape(x.shape, self._shape)
            self._begin_with(x, z)
        index, history = self.index, self.history
        assert index is not None and history is not None
        if self.rows == self._room:
            self._make_room(remember=remember)
        self.outputs.encode(z, index.given)  # type: ignore[union-attr]
        if history.can_store(x.dtype):
            self._inputs[self.rows] = x
        else:
            index.input[:] = x.reshape(-1)
            index.state.table[t.GIVEN_RAW] = 0
        return index

    def _make_room(self, *, remember: bool) -> None:
        """Prepare memory for the next rows, and for one to spare.

        On a full disk `check` still has a place to write to.
        """
        index, history = self.index, self.history
        assert index is not None and history is not None
        try:
            index.state.ensure(2, 0)
        except BadFile:
            if remember or self.rows == len(history.rows):
                raise
            return
        more = max(1, _READY // history.row_bytes)
        history.prepare(more)
        index.state.prepare(more)
        self._inputs = history.rows
        self._room = min(len(history.rows) - 1, history.total + more)

    # The beginning

    def _begin_with(self, x: npt.NDArray[Any], z: Any) -> None:
        """Fix shape and storage by a single first decision."""
        if x.ndim == 0 or x.size == 0:
            raise WrongShape(
                f"the input has shape {x.shape}; expected at least 1 feature, in one"
                " dimension or more."
            )
        self._begin(x.shape, x.dtype, z)

    def _begin(self, shape: tuple[int, ...], dtype: np.dtype[Any], z: Any) -> None:
        """Fix shape and storage by the first input, and the length of outputs by the first one."""
        if self._why_closed:
            raise BadDecision(f"this monitor {self._why_closed}.", advice="Start a new one.")
        storage: str = self.rule.storage
        if storage == "auto":
            storage = dtype.name if dtype.str[1:] in _NATIVE_TYPES else "float64"
            storage = "float32" if dtype == np.float16 else storage
        weights, width = self.rule.weights, int(np.prod(shape))
        if weights is not None and len(weights) != width:
            raise WrongShape(
                f"the input has {width} features, but the rule has {len(weights)} weights.",
                advice="Send as many features as there are weights.",
            )
        self.begin(shape, storage, outputs_of(self.rule, z))

    def begin(self, shape: tuple[int, ...], storage: str, outputs: OutputCodec) -> None:
        """Create an empty history and the index over it."""
        outputs.check_new_label = self.check_new_label
        self.history = History(self.rule, shape, storage, outputs, file=self._file)
        with first_use_lock:
            self.chooser = Chooser(
                self.history, self._requested_index, self._tree, wants_comparable=self.comparable
            )
        self.index = self.chooser.index
        if self._neighbours is not None:
            self._neighbours.enter(self.chooser)
        self.outputs = outputs
        self._shape = shape
        self._dtype = self.history.dtype if self.history.can_store(self.history.dtype) else None
        self._inputs = self.history.rows
        self.storage = storage
        self._filed = self._file is not None
        self._has_fixed_index = self.chooser.is_fixed
        self._may_miss_rows = isinstance(self.index, ReportsMissingRows)

    def _refusal(self, code: int, x: Any, z: Any) -> BadDecision:
        """Return the error that a kernel's code stands for."""
        assert self.index is not None
        at = int(self.index.state.table[t.BAD_AT])
        return refusal(code, at, self.storage, self.rule, x, z)

    # Many in

    def batch(self, x: Any, z: Any) -> tuple[npt.NDArray[Any], Any]:
        """Return inputs and outputs of a batch; raise unless there is one of each per decision."""
        inputs, z = to_number_array(x, "the input"), sequence_of(z)
        if inputs.ndim < 2:
            raise WrongShape(
                f"the inputs have shape {inputs.shape}; expected one row of features for each"
                " decision (two dimensions)."
            )
        count = len(inputs)
        try:
            output_count = len(z)
        except TypeError:
            raise UnexpectedValue(
                f"the outputs are {short_repr(z)}; expected one for each of {count} inputs."
            ) from None
        if output_count != count:
            raise WrongShape(
                f"there are {count} inputs and {output_count} outputs; expected one output for each"
                " input."
            )
        return inputs, z

    def _write(self, inputs: npt.NDArray[Any], z: Any) -> tuple[Index | None, int]:
        """Check the values of a batch and write it behind the history, where no query sees it."""
        count = len(inputs)
        if count == 0:
            return self.index, 0
        if inputs[0].size == 0:
            raise WrongShape("the inputs have no features; expected at least 1.")
        if self.index is None:
            self._begin(inputs.shape[1:], inputs.dtype, z[0])
        elif inputs.shape[1:] != self._shape:
            raise wrong_shape(inputs.shape[1:], self._shape)
        index = self.index
        assert index is not None and self.history is not None
        outputs = self.outputs.encode_many(z, count)  # type: ignore[union-attr]
        bad, at = index.workers.write(inputs, outputs)
        self._inputs = self.history.rows
        if bad != 0:
            raise self._refusal(bad, inputs[at], z[at]).with_place(at)
        return index, count

    def stage(self, x: Any, z: Any) -> int:
        """Write checked decisions behind the remembered ones and keep their labels; how many."""
        _, count = self._write(*self.batch(x, z))
        assert self.outputs is not None
        self.outputs.commit()
        return count

    def _count_written(self, count: int) -> None:
        """Remember written rows that the history has counted already."""
        assert self.outputs is not None
        self.outputs.commit()
        self._room = self.rows + count  # forces _make_room on the next decision
        self.rows += count
        self.in_doubt = False

    # Rows that come back from a journal

    def begin_at(self, row: int) -> None:
        """Begin an empty history at `row`: rows before it count as forgotten."""
        assert self.history is not None and self.index is not None
        self.index.state.ensure(row + 1, 0)
        self.history.begin_at(row)
        self.rows = self._room = row

    def append_stored(self, vectors: npt.NDArray[Any], outputs: Floats) -> int:
        """Append rows as they were stored, outputs as numbers; `fill_index` indexes them.

        Return the place of the first row that no engine would have taken; -1 if there is none.
        """
        assert self.index is not None and self.history is not None
        bad, at = self.index.workers.write(vectors, outputs)
        if bad != 0:
            return at
        self._inputs = self.history.rows
        self.in_doubt = True  # until history and engine count the same rows
        self.history.join(len(vectors))
        self._count_written(len(vectors))
        return -1

    def fill_index(self) -> None:
        """Build the index, now that all rows are there."""
        assert self.chooser is not None
        self.chooser.fill_index()
        self._run_chooser(1)

    # What is there

    def inputs(self, rows: Rows) -> npt.NDArray[Any]:
        """Return the inputs of rows, in the shape and type in which they are stored."""
        if len(rows) == 0:
            return np.empty((0, *(self._shape or ())), dtype=self._storage_type())
        assert self.history is not None
        forgotten = rows[self.history.remembered_flags()[rows] == 0]
        if len(forgotten):
            raise BadRow(f"row {forgotten[0]} was forgotten. Ask for rows that are remembered.")
        self.history.note_touched(len(rows))
        return self.history.rows[rows].astype(self._storage_type())

    def are_remembered(self, rows: Rows) -> npt.NDArray[np.bool_]:
        """Return whether each of these rows is remembered."""
        if self.history is None:
            return np.zeros(len(rows), dtype=np.bool_)
        return np.asarray(self.history.remembered_flags()[rows] != 0)

    def numbers(self, rows: Rows | slice) -> Floats:
        """Return outputs as numbers, or the codes of labels; NaN for forgotten rows."""
        if self.history is None:
            return np.empty((0, 1))
        numbers = self.history.outputs()[rows].copy()
        numbers[self.history.remembered_flags()[rows] == 0] = np.nan
        return numbers

    def output_at(self, row: int) -> Any:
        """Return the output of a row; None if it was forgotten."""
        history = self.history
        if history is None or not history.remembered_flags()[row]:
            return None
        assert self.outputs is not None
        return self.outputs.decode(history.outputs()[row])

    @property
    def labels(self) -> list[Any]:
        """The labels by code; empty where outputs are not labels."""
        return self.outputs.labels if isinstance(self.outputs, LabelCodec) else []

    def _storage_type(self) -> np.dtype[Any]:
        return np.dtype("float64" if self.storage == "auto" else self.storage)

    def __len__(self) -> int:
        """Return how many decisions are remembered now."""
        return 0 if self.history is None else self.history.live
