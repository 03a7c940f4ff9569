"""The monitor: which past inputs were near this one, and did they get a different answer?

It answers the paper's Problem 1 (Gupta et al. 2025, "Monitoring Robustness and Individual
Fairness") for a growing history: compare, then remember. What it is given is checked before
anything changes; what it answers is frozen.

Invariant: a rejected decision, or batch, leaves no trace.
Cost: memory grows with the history and with the number of distinct labels; `forget` gives back.
Not here: how neighbours are found (indexes), what is near (kernels/distance.py).
"""

import os
import reprlib
from threading import Lock
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy import ndarray

from likewise.errors import BadDecision, BadRow, BadRule
from likewise.indexes.live import LiveTree
from likewise.indexes.state import State
from likewise.kernels import table as t
from likewise.metrics.geometry import geometry
from likewise.metrics.outputs import Outputs, outputs_of
from likewise.monitors.explanation import Explanation
from likewise.rule import Rule
from likewise.types import NO_WITNESSES, Verdict, Verdicts

INDEXES = ("auto", "live")
_LABEL_TREES = 4  # labels with a tree of their own; all further ones share one more
_KEPT_TYPES = {"i1", "i2", "i4", "u1", "u2", "u4", "f4"}


class Monitor:
    """Watches a sequence of decisions for like cases that were not treated alike.

    >>> monitor = Monitor(Rule(metric="linf", epsilon=0.1))
    >>> monitor.observe([0.50, 0.20], "yes").violation
    False
    >>> verdict = monitor.observe([0.45, 0.25], "no")
    >>> verdict.violation, verdict.row
    (True, 1)
    >>> for witness in verdict.witnesses:
    ...     print(witness.row, round(witness.input_distance, 3))
    0 0.05

    All methods may be called from several threads; each call is one step of the history.
    """

    def __init__(self, rule: Rule, *, index: str = "auto") -> None:
        if not isinstance(rule, Rule):
            raise BadRule(f"the rule is {rule!r}; expected a likewise.Rule")
        if index not in INDEXES:
            raise BadRule(f"index is {index!r}; expected one of {', '.join(INDEXES)}")
        self.rule = rule
        self._lock = Lock()
        self._index: LiveTree | None = None
        self._outputs: Outputs | None = None
        self._shape: tuple[int, ...] | None = None
        self._next_row = 0
        self._storage = rule.storage

    # One decision

    def observe(self, x: Any, z: Any) -> Verdict:
        """Compare (x, z) with the past, then make it part of the past."""
        with self._lock:
            index = self._admit(x, z)
            found = index.observe()
            if found < 0:
                self._refuse(found, x, z)
            if self._outputs.pending:  # type: ignore[union-attr]
                self._outputs.commit()  # type: ignore[union-attr]
            row = self._next_row
            self._next_row = row + 1
            return Verdict(row, index.witnesses(found) if found else NO_WITNESSES)

    def check(self, x: Any, z: Any) -> Verdict:
        """The verdict on (x, z) as if it came now; nothing is remembered."""
        with self._lock:
            fresh = self._index is None
            index = self._admit(x, z)
            found = index.check()
            if found < 0:
                self._refuse(found, x, z)
            self._outputs.discard()  # type: ignore[union-attr]
            verdict = Verdict(None, index.witnesses(found) if found else NO_WITNESSES)
            if fresh:
                self._reset()
            return verdict

    def _admit(self, x: Any, z: Any) -> LiveTree:
        """Lay a decision out for the kernel; raise before anything changes."""
        index = self._index
        if type(x) is not ndarray or x.shape != self._shape or x.dtype.kind not in "fiub":
            x = _array(x)
            if x.shape != self._shape:
                _check_vector(x)
                if index is not None:
                    raise self._width_error(x.shape[0])
                index = self._begin(x, z)
        assert index is not None
        try:
            self._outputs.read(z, index.given)  # type: ignore[union-attr]
        except BadDecision:
            self._forget_beginning()
            raise
        index.input[:] = x
        return index

    def _begin(self, x: npt.NDArray[Any], z: Any) -> LiveTree:
        """The first input settles width and storage, the first output how long outputs are."""
        width = x.shape[-1]
        storage = self.rule.storage
        if storage == "auto":
            kind = x.dtype.str[1:]
            storage = x.dtype.name if kind in _KEPT_TYPES else "float64"
            storage = "float32" if x.dtype == np.float16 else storage
        weights = self.rule.weights
        if weights is not None and len(weights) != width:
            raise BadDecision(
                f"the input has {width} features, but the rule has {len(weights)} weights."
                " Nothing was stored: send as many features as there are weights."
            )
        outputs = outputs_of(self.rule, z)
        state = State(
            geometry(self.rule, width, self.rule.slack_for(storage)),
            width=width,
            storage=storage,
            output=outputs.kind,
            out_width=outputs.width,
            trees=_LABEL_TREES + 1 if outputs.kind == t.LABEL else 1,
            delta=self.rule.delta,
        )
        self._index = LiveTree(state)
        self._outputs = outputs
        self._shape = (width,)
        self._storage = storage
        return self._index

    @property
    def _width(self) -> int:
        return self._shape[0] if self._shape else 0

    def _reset(self) -> None:
        self._index = None
        self._outputs = None
        self._shape = None
        self._storage = self.rule.storage

    def _forget_beginning(self) -> None:
        """After a refusal: if that was the very first decision, it has settled nothing."""
        if self._outputs is not None:
            self._outputs.discard()
        if self._index is not None and self._index.total == 0:
            self._reset()

    def _width_error(self, came: int) -> BadDecision:
        return BadDecision(
            f"the input has {came} features, but this history holds {self._width}, set by"
            " decision 0. Nothing was stored: send the same columns, or start a new monitor."
        )

    def _refuse(self, code: int, x: Any, z: Any, which: str = "") -> None:
        """Turn a kernel's error code into words."""
        assert self._index is not None and self._outputs is not None
        at, storage = self._index.bad_at, self._storage
        self._forget_beginning()
        if code == t.BAD_SUM:
            raise BadDecision(
                f"the output{which} is {reprlib.repr(z)}, which adds up to {float(np.sum(z)):g};"
                " expected probabilities that add up to 1. Nothing was stored."
            )
        if code == t.BAD_OUTPUT:
            part = np.asarray(z, dtype=np.float64).reshape(-1)[at]
            expected = "a finite number"
            if self.rule.output == "probabilities":
                expected = "probabilities, finite and none below 0"
            raise BadDecision(
                f"the output{which} is {reprlib.repr(z)}, with {part:g} at position {at};"
                f" expected {expected}."
                " Nothing was stored."
            )
        value = np.asarray(x).reshape(-1)[at]
        expected = {
            t.NOT_FINITE: "a finite number; say what a missing value means before sending it",
            t.NOT_INTEGER: f"a whole number, since this history keeps inputs as {storage}",
            t.OUT_OF_RANGE: f"a value that {storage} can hold",
        }.get(code, "")
        if code == t.BAD_NORM:
            raise BadDecision(
                f"the input{which} is {reprlib.repr(x)}, whose squared norm is 0 or beyond 1e150;"
                " expected a vector with a direction for the cosine metric. Nothing was stored."
            )
        raise BadDecision(
            f"feature {at} of the input{which} is {value!r}; expected {expected}."
            " Nothing was stored."
        )

    # Many decisions

    def observe_many(self, x: Any, z: Any, *, threads: int | None = None) -> Verdicts:
        """The same verdicts as `observe` would give one by one; all are remembered, or none.

        threads: how many cores may share the work; all of them unless told otherwise.
        """
        count_threads = _threads(threads)
        with self._lock:
            index, count = self._write(x, z)
            first = 0 if index is None else index.total
            if index is None or count == 0:
                return Verdicts(first, np.zeros(1, np.int64), NO_WITNESSES)
            counts, witnesses = index.judge(count, count_threads)
            self._next_row = index.total
            self._outputs.commit()  # type: ignore[union-attr]
            offsets = np.zeros(count + 1, np.int64)
            np.cumsum(counts, out=offsets[1:])
            return Verdicts(first, offsets, witnesses)

    def load(self, x: Any, z: Any) -> range:
        """Remember decisions without judging them; their rows."""
        with self._lock:
            index, count = self._write(x, z)
            first = 0 if index is None else index.total
            if index is not None and count:
                index.load(count)
                self._next_row = index.total
                self._outputs.commit()  # type: ignore[union-attr]
            return range(first, first + count)

    def _write(self, x: Any, z: Any) -> tuple[LiveTree | None, int]:
        """Check a batch and write it where no query sees it yet."""
        inputs = _array(x)
        if inputs.ndim != 2:
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
        if inputs.shape[1] == 0:
            raise BadDecision(
                "the inputs have no features; expected at least 1. Nothing was stored."
            )
        index = self._index
        if index is None:
            index = self._begin(inputs, z[0])
        elif inputs.shape[1:] != self._shape:
            raise self._width_error(inputs.shape[1])
        try:
            outputs = self._outputs.read_many(z, count)  # type: ignore[union-attr]
        except BadDecision:
            self._forget_beginning()
            raise
        bad, at = index.write(inputs, outputs)
        if bad != 0:
            self._refuse(bad, inputs[at], z[at], f" of decision {at} of the batch")
        return index, count

    # Forgetting

    def forget(self, rows: Any) -> int:
        """Erase rows: never a witness again. How many of them were still remembered."""
        with self._lock:
            total = 0 if self._index is None else self._index.total
            wanted = np.atleast_1d(np.asarray(rows))
            if wanted.size == 0:
                return 0
            if wanted.ndim != 1 or wanted.dtype.kind not in "iu":
                raise BadRow(
                    f"rows are {reprlib.repr(rows)}; expected a row number or a list of them."
                    " Nothing was forgotten."
                )
            outside = wanted[(wanted < 0) | (wanted >= total)]
            if len(outside):
                raise BadRow(
                    f"there is no row {outside[0]}: this history has rows 0 to {total - 1}."
                    " Nothing was forgotten."
                    if total
                    else f"there is no row {outside[0]}: this history is empty."
                )
            assert self._index is not None
            return self._index.forget(wanted.astype(np.int64))

    def __len__(self) -> int:
        """Decisions remembered now."""
        return 0 if self._index is None else self._index.live

    def explain(self) -> Explanation:
        """What index is in use, why, and what it costs."""
        with self._lock:
            index = self._index
            reason = "a bucket k-d tree that splits as it grows; the only index so far"
            if index is None:
                return Explanation(
                    "live", reason, 0, 0, None, self._storage, None, None, 0, 0, 0.0, 0.0, 0, 0, 0.0
                )
            state = index.state
            searches = max(index.count(t.SEARCHES), 1)
            blocks = index.count(t.VISITED) / searches
            live_blocks = max(int(state.table[t.BLOCKS]), 1)
            slack = self.rule.slack_for(self._storage)
            return Explanation(
                index="live",
                reason=reason,
                remembered=index.live,
                forgotten=index.total - index.live,
                width=self._width,
                storage=self._storage,
                slack=slack,
                reach=self.rule.epsilon * (1.0 + slack),
                leaves=int(state.nodes(t.LEAVES)[: int(state.table[t.TREES])].sum()),
                depth=index.depth(),
                blocks_per_search=blocks,
                share_visited=min(1.0, blocks / live_blocks),
                planes_lifted=int(state.table[t.LIFTS]),
                subtrees_rebuilt=int(state.table[t.REBUILDS]),
                bytes_per_decision=state.used_bytes / max(index.live, 1),
            )


def _threads(threads: int | None) -> int:
    if threads is None:
        available = getattr(os, "sched_getaffinity", None)
        return len(available(0)) if available else os.cpu_count() or 1
    if not isinstance(threads, int) or isinstance(threads, bool) or threads < 1:
        raise ValueError(f"threads is {threads!r}; expected a whole number from 1, or None for all")
    return threads


def _array(x: Any) -> npt.NDArray[Any]:
    """Numbers as an array, with no guesses about anything else."""
    try:
        array = np.asarray(x)
    except ValueError:
        array = np.empty(0, dtype=object)
    if array.dtype.kind not in "fiub" or array.dtype.itemsize > 8:
        raise BadDecision(
            f"the input is {reprlib.repr(x)}, an array of type {array.dtype}; expected numbers."
            " Nothing was stored."
        )
    return array


def _check_vector(x: npt.NDArray[Any]) -> None:
    if x.ndim != 1 or x.shape[0] == 0:
        raise BadDecision(
            f"the input has shape {x.shape}; expected one row of at least 1 feature (one"
            " dimension). Nothing was stored: for several decisions use observe_many."
        )
