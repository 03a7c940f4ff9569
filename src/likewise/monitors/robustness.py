"""The monitor: which past inputs were near this one, and did they get a different answer?

It answers the paper's Problem 1 (Gupta et al. 2025, "Monitoring Robustness and Individual
Fairness") for a growing history: compare, then remember. What it is given is checked before
anything changes; what it answers is frozen.

Invariant: a rejected decision, or batch, leaves no trace.
Cost: memory grows with the history and with the number of distinct labels; `forget` gives back.
Not here: how decisions get in (remembering.py), how neighbours are found (indexes), what is near
(kernels/distance.py).
"""

import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import numpy as np

from likewise.burst import Burst
from likewise.errors import LikewiseError
from likewise.indexes.chooser import BUILD, EVERY
from likewise.indexes.proposed import Proposed
from likewise.kernels import table as t
from likewise.monitors.explanation import Explanation, explanation_of
from likewise.monitors.refusal import rows_of
from likewise.monitors.remembering import INDEX, ROW, SURE, Remembering
from likewise.rule import Rule
from likewise.types import NO_WITNESSES, Rows, Verdict, Verdicts, Witnesses

_LOAD = 1 << 16  # rows of a smaller one inserted together
_NONE: Rows = np.empty(0, np.int64)


class Monitor(Remembering):
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

    index   "auto" chooses, and changes its mind as the history grows; "live" is the tree, over a
            sketch where inputs are long; "flat" a scan of rotated coordinates, for l2 and cosine.
            The paper's are "brute", "kdtree", "snn", "bdd", Periodic(…) and Split(…); or your own:
            an index, or what makes one for a space (indexes/protocol.py).
    rows    a new file to keep inputs in, instead of memory: only candidates are read from it.
    burst   a Burst: count near inputs among the last decisions, whatever their output.

    An input may have any shape; the first decision settles it. All methods may be called from
    several threads; each call is one step of the history.
    """

    def __new__(cls, rule: Rule, **_: Any) -> "Monitor":
        """A rule with features gets the monitor that reads tables, one that embeds likewise."""
        if cls is Monitor and isinstance(rule, Rule) and rule.features is not None:
            from likewise.monitors.tables import TableMonitor

            return super().__new__(TableMonitor)
        if cls is Monitor and isinstance(rule, Rule) and rule.embed is not None:
            from likewise.monitors.embedded import EmbeddedMonitor

            return super().__new__(EmbeddedMonitor)
        return super().__new__(cls)

    def __init__(
        self,
        rule: Rule,
        *,
        index: Any = "auto",
        rows: str | os.PathLike[str] | None = None,
        burst: Burst | None = None,
    ) -> None:
        super().__init__(rule, index, rows, burst)

    # One decision

    def observe(self, x: Any, z: Any) -> Verdict:
        """Compare (x, z) with the past, then make it part of the past."""
        with self._lock:
            if self._cut_off:
                self._recover()
            self._cut_off = ROW
            try:
                index = self._admit(x, z, remember=True)
                near = 0
                if self._crowd is not None:  # first: if it fails, nothing is remembered yet
                    near = self._crowd.observe(index)
                found = index.observe()
                if found < 0:
                    raise self._refusal(found, x, z)
            except LikewiseError:
                self._refused()
                raise
            if self._outputs.pending:  # type: ignore[union-attr]
                self._outputs.commit()  # type: ignore[union-attr]
            row = self._next_row
            self._next_row = row + 1  # from here on the decision is remembered
            witnesses = index.witnesses(found) if found else NO_WITNESSES
            if self._filed:
                self._note_touched(1)
            if self._busy or row % EVERY == 0:
                self._mind(1)
            verdict = Verdict(row, witnesses)
            if self._crowd is not None:
                self._crowd.joined(1)
                verdict.amid(near, self._alarm)
            self._cut_off = SURE
            return verdict

    def check(self, x: Any, z: Any) -> Verdict:
        """The verdict on (x, z) as if it came now; nothing is remembered."""
        with self._lock:
            if self._cut_off:
                self._recover()
            fresh = self._index is None
            self._cut_off = ROW
            try:
                index = self._admit(x, z, remember=False)
                found = index.check()
                if found < 0:
                    raise self._refusal(found, x, z)
            except LikewiseError:
                self._refused()
                raise
            verdict = Verdict(None, index.witnesses(found) if found else NO_WITNESSES)
            if self._crowd is not None:
                verdict.amid(0 if fresh else self._crowd.check(index), self._alarm)
            if self._filed and not fresh:
                self._note_touched(1)
            self._outputs.discard()  # type: ignore[union-attr]
            if fresh:
                self._forget_beginning()  # a check settles nothing
            self._cut_off = SURE
            return verdict

    # Many decisions

    def observe_many(self, x: Any, z: Any, *, threads: int | None = None) -> Verdicts:
        """The same verdicts as `observe` would give one by one; all are remembered, or none.

        threads: how many cores may share the work; all of them unless told otherwise.
        """
        count_threads = _threads(threads)
        with self._lock:
            index, count = self._write(x, z)
            first = self._next_row
            if index is None or count == 0:
                self._cut_off = SURE
                return self._amid(Verdicts(first, np.zeros(1, np.int64), NO_WITNESSES), _NONE)
            assert self._history is not None
            counts, found = [], []
            crowd, near = self._crowd, _NONE
            self._cut_off = INDEX
            with ThreadPoolExecutor(count_threads) as pool:
                if crowd is not None:  # first, as for one decision
                    near = crowd.judge(first, count, count_threads, pool)
                done = 0
                while done < count:
                    index = self._index
                    assert index is not None
                    size = index.block(count - done)
                    if self._filed and not isinstance(index, Proposed):
                        size = min(size, t.RECENT_MOST)  # what is read is let go of in time
                    judged, columns = index.judge(first + done, size, count_threads, pool)
                    counts.append(judged)
                    found.append(columns)
                    self._history.join(size)
                    if self._filed:
                        self._note_touched(size)
                    self._mind(size)
                    done += size
            offsets = np.zeros(count + 1, np.int64)
            np.cumsum(np.concatenate(counts), out=offsets[1:])
            witnesses = Witnesses(
                *(np.concatenate(part) for part in list(zip(*found, strict=True))[:3])
            )
            verdicts = self._amid(Verdicts(first, offsets, witnesses), near)
            if crowd is not None:
                crowd.joined(count)
            self._joined(count)
            return verdicts

    def _amid(self, verdicts: Verdicts, neighbours: Rows) -> Verdicts:
        return verdicts if self._crowd is None else verdicts.amid(neighbours, self._alarm)

    def load(self, x: Any, z: Any) -> range:
        """Remember decisions without judging them; their rows."""
        with self._lock:
            index, count = self._write(x, z)
            first = self._next_row
            if index is None or count == 0:
                self._cut_off = SURE
                return range(first, first)
            assert self._chooser is not None and self._history is not None
            large = first + count >= BUILD and count >= first // 2
            large &= not isinstance(index, Proposed)  # it may raise: insert before rows are counted
            self._cut_off = INDEX
            if not large:
                with ThreadPoolExecutor(1) as pool:
                    for start in range(0, count, _LOAD):
                        index.insert(first + start, min(_LOAD, count - start), 1, pool)
            self._history.join(count)
            if large:
                self._chooser.build()
            self._mind(1)
            self._joined(count)
            return range(first, first + count)

    # Forgetting

    def forget(self, rows: Any) -> int:
        """Erase rows: never a witness again. How many of them were still remembered."""
        with self._lock:
            self._ready()
            wanted = rows_of(rows, self._next_row, "Nothing was forgotten.")
            if len(wanted) == 0:
                return 0
            assert self._chooser is not None and self._history is not None
            fresh = np.unique(wanted[self._history.alive()[wanted] != 0])
            self._forgetting = fresh  # if this is cut off, the next call finishes it
            self._cut_off = INDEX
            try:
                with nullcontext() if self._crowd is None else self._crowd.without(fresh):
                    self._chooser.forget(fresh)
            except LikewiseError:  # by an index that cannot forget, before anything changed
                self._forgetting = _NONE
                self._cut_off = SURE
                raise
            self._forgotten(fresh)
            self._forgetting = _NONE
            self._cut_off = SURE
            return len(fresh)

    def explain(self) -> Explanation:
        """What index is in use, why, and what it costs."""
        with self._lock:
            self._ready()
            told = explanation_of(self._rule, self._storage, self._chooser)
            if self._crowd is None:
                return told
            return replace(told, burst=f"{self.burst}; {self._crowd}")


def _threads(threads: int | None) -> int:
    if threads is None:
        available = getattr(os, "sched_getaffinity", None)
        return len(available(0)) if available else os.cpu_count() or 1
    if not isinstance(threads, int) or isinstance(threads, bool) or threads < 1:
        raise ValueError(f"threads is {threads!r}; expected a whole number from 1, or None for all")
    return threads
