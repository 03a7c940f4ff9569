"""Find past inputs that are near a new one and got a different output, then remember it.

This is Problem 1 of Gupta et al. 2025 ("Monitoring Robustness and Individual Fairness").
Invariant: a rejected decision, or batch, leaves no trace.
Cost: memory grows with the history and with the number of distinct labels; `forget` frees it.
Not here: checking and storing decisions (admission.py), finding neighbours (search/indexes), what
is near (search/kernels/distance.py), locks: one caller at a time (monitor/monitor.py).
"""

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from likewise.errors import BadDecision, BadRule, LikewiseError
from likewise.rule.rule import Rule
from likewise.runtime.machine import count_cores
from likewise.search.engine.admission import Admission
from likewise.search.engine.chooser import (
    BULK_BUILD_ROWS,
    REVIEW_INTERVAL,
    Chooser,
    Index,
    SingleBestIndex,
)
from likewise.search.engine.protocol import ReportsMissingRows
from likewise.search.engine.refusal import wrong_shape
from likewise.search.engine.wildcards import WildcardMask
from likewise.search.indexes.protocol import RebuiltIndex
from likewise.search.indexes.workers import Threads
from likewise.search.kernels import table as t
from likewise.tables.array_types import Floats, NearRows, Rows
from likewise.tables.normalize import to_number_array
from likewise.verdict.context import VerdictContext
from likewise.verdict.losses import Explanation
from likewise.verdict.verdicts import Verdict, Verdicts
from likewise.verdict.witnesses import NO_WITNESSES, Witnesses


def explanation_of(rule: Rule, storage: str, chooser: Chooser | None) -> Explanation:
    """Return the explanation of an engine; `chooser` is None before the first decision."""
    if chooser is None:
        return Explanation(storage=storage)
    history, index = chooser.history, chooser.index
    table = index.state.table
    slack = rule.slack_for(storage)
    live = max(history.live, 1)
    inner = getattr(index, "index", None)
    periodic = inner if isinstance(inner, RebuiltIndex) else None
    return Explanation(
        index=index.name,
        shape=index.shape,
        reason=chooser.reason,
        remembered=history.live,
        forgotten=history.total - history.live,
        width=history.width,
        storage=storage,
        slack=slack,
        reach=rule.epsilon * (1.0 + slack),
        coordinates=index.state.layout.axes,
        leaves=index.leaves(),
        depth=index.depth(),
        form=index.describe(),
        tau=periodic.tau if periodic else None,
        predicted_us=periodic.predicted_us if periodic else None,
        share_visited=chooser.share(),
        rows_read=chooser.rows_read(),
        changes=chooser.changes,
        planes_lifted=int(table[t.LIFTS]),
        subtrees_rebuilt=int(table[t.REBUILDS]),
        bytes_per_decision=(history.used_bytes + index.state.used_bytes) / live,
        bytes_on_disk=history.disk_bytes / live,
    )


_LOAD = 1 << 16  # rows of a smaller batch inserted together
_TOGETHER = 1024  # rows of a batch whose near rows are searched together
_PAIRS = 1 << 19  # pairs of near rows that are in memory at a time, or those of one decision
_NONE: Rows = np.empty(0, np.int64)
_ANY_PROBABILITIES = [1.0]  # the output of an input that is only looked up
_ALONE: Rows = np.zeros(2, np.int64)  # offsets of a batch of one without witnesses


class Engine(Admission):
    """Judges vectors against a growing history.

    In every call, `first` is the row at which the past of a decision begins (`firsts`: for each
    decision of a batch), and `left_open` says which coordinates match everything (wildcards.py).
    """

    # One decision

    def observe(
        self, x: Any, z: Any, first: int = 0, left_open: WildcardMask | None = None
    ) -> Verdict:
        """Compare the decision (x, z) with the past, then make it part of the past."""
        index = self._admit(x, z, remember=True)
        near = 0
        if self._neighbours is not None:  # first: if it fails, nothing is remembered yet
            near = self._neighbours.observe(index, first)
        found = index.observe()
        if found < 0:
            raise self._refusal(found, x, z)
        if self.outputs.pending:  # type: ignore[union-attr]
            self.outputs.commit()  # type: ignore[union-attr]
        row = self.rows
        self.rows = row + 1  # from here on the decision is remembered
        witnesses = index.witnesses(found) if found else NO_WITNESSES
        similar = -1
        if self.comparable:
            similar = self._similar = self._find_similar(index, row, witnesses, first)
        if self._filed:
            self._note_touched(1)
        if self._busy or row % REVIEW_INTERVAL == 0:
            self._run_chooser(1)
        if first or left_open is not None or self._neighbours is not None or self._may_miss_rows:
            if self._neighbours is not None:
                self._neighbours.confirm(1)
            return self._build_verdict(
                row, witnesses, near, first, left_open, similar, remember=True
            )
        return Verdict(
            row, witnesses, self._context_with(similar) if self.comparable else self.verdict_context
        )

    def check(
        self, x: Any, z: Any, first: int = 0, left_open: WildcardMask | None = None
    ) -> Verdict:
        """Return the verdict on (x, z) as if it came now; remember nothing."""
        fresh = self.index is None
        index = self._admit(x, z, remember=False)
        found = index.check()
        if found < 0:
            raise self._refusal(found, x, z)
        witnesses = index.witnesses(found) if found else NO_WITNESSES
        similar = -1
        if self.comparable:
            similar = self._find_similar(index, self.rows, witnesses, first)
        near = 0
        if self._neighbours is not None and not fresh:
            near = self._neighbours.check(index, first)
        if self._filed and not fresh:
            self._note_touched(1)
        if fresh:
            left_open = None  # there is nothing to compare with
        verdict = self._build_verdict(
            None, witnesses, near, first, left_open, similar, remember=False
        )
        self.outputs.discard()  # type: ignore[union-attr]
        if fresh:
            self.reset()  # a check must not fix the shape or the storage of the history
        return verdict

    def _find_similar(self, index: Index, row: int, witnesses: Witnesses, first: int) -> int:
        """Return a near row of the decision that an index has judged last; -1 for none.

        With support, return how many rows are near instead. The same goes for `similar` elsewhere.
        """
        if self.support:
            return index.count_agreeing(row, first) + _count_from(first, witnesses)
        if witnesses is not NO_WITNESSES:
            last = int(witnesses.rows[-1])
            if last >= first:
                return last
        return index.find_comparable(row, first)

    def _context_with(self, similar: int) -> VerdictContext:
        """Return the context of a verdict that says whether there was a similar case."""
        if self.support:
            return self.verdict_context._replace(comparable=similar > 0, near=similar)
        if self._verdict_contexts[0] is not self.verdict_context:
            context = self.verdict_context
            without, with_one = (context._replace(comparable=flag) for flag in (False, True))
            self._verdict_contexts = context, without, with_one
        return self._verdict_contexts[1 + (similar >= 0)]

    def _build_verdict(
        self,
        row: int | None,
        witnesses: Witnesses,
        near: int,
        first: int,
        left_open: WildcardMask | None,
        similar: int,
        *,
        remember: bool,
    ) -> Verdict:
        """Return a verdict whose context says more than the usual."""
        if left_open is not None:
            witnesses, near = self._add_wildcard_matches(witnesses, near, first, left_open, row)
            if self.comparable:
                similar = self._find_similar_with_wildcards(
                    self.rows - remember, witnesses, first, left_open, similar
                )
            if remember:
                self.wildcards.add(self.rows - 1, left_open)
        if first > 0 and len(witnesses) and witnesses.rows[0] < first:
            place = self.rows if row is None else row
            witnesses = self._select_from(first, place, witnesses)
        context = self._context_with(similar) if self.comparable else self.verdict_context
        if self._neighbours is not None:
            alarm = self._alarm is not None and near >= self._alarm
            context = context._replace(neighbours=near, alarm=alarm)
        for missing in self._missing_row_counts():
            context = context._replace(not_compared=int(missing[0]))
        return Verdict(row, witnesses, context)

    def _select_from(self, first: int, row: int, witnesses: Witnesses) -> Witnesses:
        """Return those witnesses of a written row that come from row `first` on.

        An index that names only the best of all may know of another one there.
        """
        if isinstance(self.index, SingleBestIndex):
            return self.index.find_best(row, first)
        return witnesses.select(witnesses.rows >= first)

    def _add_wildcard_matches(
        self, witnesses: Witnesses, near: int, first: int, left_open: WildcardMask, row: int | None
    ) -> tuple[Witnesses, int]:
        """Return witnesses and neighbour count of a decision, rows with wildcards included."""
        assert self.index is not None
        place = self.rows if row is None else row
        if self._neighbours is not None and (left_open.any() or len(self.wildcards)):
            index = self._neighbours.index_up_to(self.index.state.history.total)
            begin = int(self._neighbours.bounds(place, 1, first)[0])
            near = self.wildcards.count(index, place, left_open, begin)
        return self.wildcards.judge(self.index, place, left_open, witnesses), near

    def _find_similar_with_wildcards(
        self, row: int, witnesses: Witnesses, first: int, left_open: WildcardMask, similar: int
    ) -> int:
        """Return a near row, rows with wildcards included; `similar` is the one the index found."""
        assert self.index is not None
        if self.support:
            return self.wildcards.count_near(self.index, row, left_open, first, similar)
        if len(witnesses) and witnesses.rows[-1] >= first:
            return int(witnesses.rows[-1])
        return self.wildcards.find_comparable(self.index, row, left_open, first, similar)

    def find_near_rows(self, row: int, first: int, left_open: WildcardMask | None) -> NearRows:
        """Return all rows from `first` on that are near a row, or the decision checked last.

        row: the decision's own row, or the next free one if it was only checked
        """
        assert self.history is not None and self.index is not None
        found = self.index.find_near_rows(row)
        self.history.note_touched(len(found[0]))
        if left_open is not None:
            found = self.wildcards.find_near(self.index, row, left_open, found)
        start = found[0].searchsorted(first)
        return found[0][start:], found[1][start:]

    def find_precedents(
        self, x: Any, first: int = 0, left_open: WildcardMask | None = None
    ) -> tuple[NearRows, int]:
        """Return all rows from `first` on that are near an input, whatever their outputs.

        Also how many rows could not be compared, since their shards were down. Nothing is
        remembered: the input is written behind the history, with an output that no query sees.
        """
        x = to_number_array(x, "the input")
        fresh = self.index is None
        if fresh:
            self._begin_with(x, _ANY_PROBABILITIES)
        elif x.shape != self._shape:
            raise wrong_shape(x.shape, self._shape)
        index, history = self.index, self.history
        assert index is not None and history is not None
        index.given[:] = 0.0
        if self.rule.output == "probabilities":
            index.given[0] = 1.0
        bad, _ = index.workers.write(x[None], index.given[None])
        self._inputs = history.rows
        if bad != 0:
            raise self._refusal(bad, x, None)
        found, missing = (_NONE, np.empty(0)), 0
        if fresh:
            self.reset()  # it must not fix the shape or the storage of the history
        else:
            found = self.find_near_rows(self.rows, first, left_open)
            missing = sum(int(counts[0]) for counts in self._missing_row_counts())
        return found, missing

    def find_near_rows_of_many(
        self, first: int, near: Rows, firsts: Rows | None, left_open: WildcardMask | None
    ) -> Iterator[tuple[Rows, Rows]]:
        """Yield decisions of a batch, by place, each beside a row that is near; in several parts.

        first, near   the row of the batch's first decision, and how many rows are near each
        """
        assert self.history is not None and self.index is not None
        begins = np.broadcast_to(0 if firsts is None else firsts, len(near))
        if left_open is not None and (left_open.any() or len(self.wildcards)):
            for i in np.flatnonzero(near).tolist():
                rows, _ = self.find_near_rows(first + i, int(begins[i]), left_open[i])
                yield np.full(len(rows), i), rows
            return
        total, start = np.cumsum(near), 0
        while start < len(near):
            most = _PAIRS + total[start] - near[start]
            size = int(total[start : start + _TOGETHER].searchsorted(most, "right"))
            counts, rows = self.index.find_near_rows_of_many(first + start, max(size, 1))
            self.history.note_touched(len(rows))
            owners = start + np.repeat(np.arange(len(counts)), counts)
            within = rows >= begins[owners]
            yield owners[within], rows[within]
            start += len(counts)

    # Many decisions

    def observe_many(
        self,
        x: Any,
        z: Any,
        firsts: Rows | None = None,
        left_open: WildcardMask | None = None,
        threads: int | None = None,
    ) -> Verdicts:
        """Judge a batch as `observe` would judge its decisions one by one; all are kept, or none.

        threads: how many cores may share the work; None for all
        """
        thread_count = threads_of(threads)
        inputs, outputs = self.batch(x, z)
        if len(inputs) == 1 and self._neighbours is None and left_open is None:
            alone = self._observe_alone(inputs, outputs, firsts)
            if alone is not None:
                return alone
        index, count = self._write(inputs, outputs)
        first = self.rows
        if index is None or count == 0:
            self.similar = _NONE
            return self._complete_verdicts(
                Verdicts(first, np.zeros(1, np.int64), NO_WITNESSES),
                None if self._neighbours is None else _NONE,
                None,
            )
        assert self.history is not None
        begins: Rows | int = 0 if firsts is None else firsts
        counts, found, missing = [], [], list[Rows]()
        near: Rows | None = None
        similar = np.full(count, -1, np.int64) if self.comparable else _NONE
        sinces = np.zeros(count, np.int64) if firsts is None else np.array(firsts, np.int64)
        self.in_doubt = True
        with Threads(thread_count) as pool:
            if self._neighbours is not None:  # first, as for one decision
                near = self._neighbours.judge(first, count, begins, pool)
            done = 0
            while done < count:
                index = self.index
                assert index is not None
                size = index.next_batch_size(count - done)
                if self._filed and not self._has_fixed_index:
                    size = min(size, t.RECENT_MOST)  # so that mapped pages are released in time
                judged, columns = index.judge(first + done, size, pool)
                counts.append(judged)
                found.append(columns)
                if self.comparable:
                    part = slice(done, done + size)
                    similar[part] = self._find_similar_of_many(
                        index, first + done, judged, columns[0], sinces[part], pool
                    )
                missing += self._missing_row_counts()
                self.history.join(size)
                if self._filed:
                    self._note_touched(size)
                self._run_chooser(size)
                done += size
        offsets = np.concatenate([[0], np.cumsum(np.concatenate(counts))])
        witnesses = Witnesses(
            *(np.concatenate(part) for part in list(zip(*found, strict=True))[:3])
        )
        if self._neighbours is not None:
            self._neighbours.confirm(count)
        self._count_written(count)
        self.similar = similar
        verdicts = Verdicts(first, offsets, witnesses)
        if left_open is not None:
            verdicts, near = self._add_wildcard_matches_of_many(verdicts, near, begins, left_open)
        return self._complete_verdicts(verdicts, near, firsts, missing)

    def _find_similar_of_many(
        self, index: Index, first: int, counts: Rows, rows: Rows, sinces: Rows, pool: Threads
    ) -> Rows:
        """Do what `_find_similar` does for decisions that an index has judged last.

        counts, rows    their witnesses
        """
        if self.support:
            similar = _witnesses_within(counts, rows, sinces)
            index.count_agreeing_many(first, similar, sinces, pool)
        else:
            similar = _last_witnesses(counts, rows, sinces)
            index.find_comparable_many(first, similar, sinces, pool)
        return similar

    def _observe_alone(self, x: Any, z: Any, firsts: Rows | None) -> Verdicts | None:
        """Judge a batch of one without the cost of a batch; None if it has to be refused."""
        if self._has_fixed_index:
            return None  # it may refuse after it has taken the row
        try:
            verdict = self.observe(x[0], z[0], 0 if firsts is None else int(firsts[0]))
        except BadDecision:
            self.undo_refusal()
            return None
        if self.comparable:
            self.similar = np.array([self._similar])
        count = len(verdict.witnesses)
        offsets = np.array([0, count]) if count else _ALONE
        return Verdicts(
            self.rows - 1,
            offsets,
            verdict.witnesses,
            comparable=self._has_comparable(),
            near=self.similar if self.support else None,
            missing_decisions=self.verdict_context.missing_decisions,
            past=self.verdict_context.past,
            question=self.verdict_context.question,
        )

    def _add_wildcard_matches_of_many(
        self, verdicts: Verdicts, near: Rows | None, begins: Rows | int, left_open: WildcardMask
    ) -> tuple[Verdicts, Rows | None]:
        """Extend the verdicts and neighbour counts of a batch, which the history already has."""
        assert self.history is not None and self.index is not None
        first, index = verdicts.first_row, self.index
        self.add_wildcards(first, left_open)
        if not len(self.wildcards):
            return verdicts, near
        if self._neighbours is not None:
            counted = self._neighbours.index_up_to(self.history.total)
            bounds = self._neighbours.bounds(first, len(verdicts), begins).tolist()
            near = np.array(
                [
                    self.wildcards.count(counted, first + i, left_open[i], bound)
                    for i, bound in enumerate(bounds)
                ],
                dtype=np.int64,
            )
        each = [
            self.wildcards.judge(index, first + i, left_open[i], verdict.witnesses)
            for i, verdict in enumerate(verdicts)
        ]
        if self.comparable:
            firsts = np.broadcast_to(begins, len(each)).tolist()
            for i, (witnesses, begin) in enumerate(zip(each, firsts, strict=True)):
                self.similar[i] = self._find_similar_with_wildcards(
                    first + i, witnesses, begin, left_open[i], int(self.similar[i])
                )
        return Verdicts.of(first, each), near

    def _missing_row_counts(self) -> list[Rows]:
        """Return how many past rows each decision judged last was not compared with.

        Empty where the index always has all rows.
        """
        if not self._may_miss_rows:
            return []
        return [cast(ReportsMissingRows, self.index).missing_row_counts]

    def _complete_verdicts(
        self,
        verdicts: Verdicts,
        near: Rows | None,
        firsts: Rows | None,
        missing: Sequence[Rows] = (),
    ) -> Verdicts:
        """Add the context to verdicts and drop witnesses from before the window."""
        if firsts is not None and len(firsts) and firsts[-1] > 0:
            within = verdicts.witnesses.rows >= firsts[verdicts.owners]
            if isinstance(self.index, SingleBestIndex) and not within.all():
                each = [verdict.witnesses for verdict in verdicts]
                for i in verdicts.owners[~within].tolist():
                    each[i] = self.index.find_best(verdicts.first_row + i, int(firsts[i]))
                verdicts = Verdicts.of(verdicts.first_row, each)
            else:
                verdicts = verdicts.select_witnesses(within)
        return replace(
            verdicts,
            neighbours=near,
            alarm_from=self._alarm,
            comparable=self._has_comparable(),
            near=self.similar if self.support else None,
            missing_decisions=self.verdict_context.missing_decisions,
            not_compared=np.concatenate(missing) if any(part.any() for part in missing) else None,
            past=self.verdict_context.past,
            question=self.verdict_context.question,
        )

    def _has_comparable(self) -> npt.NDArray[np.bool_] | None:
        """Return whether each decision of the last call had a near row; None if not asked."""
        return self.similar >= self.support if self.comparable else None

    def load(self, x: Any, z: Any, left_open: WildcardMask | None = None) -> range:
        """Remember decisions without judging them; return their rows."""
        _, count = self._write(*self.batch(x, z))
        return self._load_written(count, left_open)

    def load_stored(
        self, vectors: npt.NDArray[Any], outputs: Floats, left_open: WildcardMask | None
    ) -> range:
        """Load rows as they were stored, with outputs as numbers."""
        assert self.index is not None and self.history is not None
        bad, _ = self.index.workers.write(vectors, outputs)
        assert bad == 0
        self._inputs = self.history.rows
        return self._load_written(len(vectors), left_open)

    def _load_written(self, count: int, left_open: WildcardMask | None) -> range:
        first = self.rows
        if count:
            self._insert(count)
            if left_open is not None:
                self.add_wildcards(first, left_open)
        return range(first, first + count)

    def _insert(self, count: int) -> None:
        """Remember written rows without judging them."""
        index, first = self.index, self.rows
        assert index is not None and self.chooser is not None and self.history is not None
        large = first + count >= BULK_BUILD_ROWS and count >= first // 2
        large &= not self._has_fixed_index  # it may raise: insert before rows are counted
        self.in_doubt = True
        if not large:
            for start in range(0, count, _LOAD):
                index.insert(first + start, min(_LOAD, count - start))
        self.history.join(count)
        if large:
            self.chooser.build()
        self._run_chooser(1)
        self._count_written(count)

    def add_wildcards(self, first: int, left_open: WildcardMask) -> None:
        """Note which coordinates the remembered rows from `first` on leave open."""
        for i in np.flatnonzero(left_open.any(axis=1)).tolist():
            self.wildcards.add(first + i, left_open[i])

    # Forgetting

    def forget(self, rows: Rows) -> Rows:
        """Erase rows, which are never witnesses again; return those that were still remembered."""
        if len(rows) == 0:
            return _NONE
        assert self.chooser is not None and self.history is not None
        fresh = np.unique(rows[self.history.remembered_flags()[rows] != 0])
        self.rows_being_forgotten = fresh  # if this is interrupted, `settle` finishes it
        self.in_doubt = True
        try:
            with (
                nullcontext()
                if self._neighbours is None
                else self._neighbours.while_forgetting(fresh)
            ):
                self.chooser.forget(fresh)
        except LikewiseError:  # by an index that cannot forget, before anything changed
            self.rows_being_forgotten = _NONE
            self.in_doubt = False
            raise
        self.wildcards.erase(fresh)
        self.rows_being_forgotten = _NONE
        self.in_doubt = False
        return fresh

    def explain(self) -> Explanation:
        """Explain what index is in use, why, and what it costs."""
        explanation = explanation_of(self.rule, self.storage, self.chooser)
        if self._neighbours is None:
            return explanation
        return replace(explanation, burst=f"{self.burst}; {self._neighbours}")


def _count_from(first: int, witnesses: Witnesses) -> int:
    """Return how many witnesses come from row `first` on."""
    if first == 0 or witnesses is NO_WITNESSES:
        return len(witnesses)
    return len(witnesses) - int(witnesses.rows.searchsorted(first))


def _witnesses_within(counts: Rows, rows: Rows, sinces: Rows) -> Rows:
    """Return how many witnesses of each decision of a batch come from where its past begins on."""
    if not sinces.any():
        return counts.copy()
    owners = np.repeat(np.arange(len(counts)), counts)
    return np.bincount(owners[rows >= sinces[owners]], minlength=len(counts))


def _last_witnesses(counts: Rows, rows: Rows, sinces: Rows) -> Rows:
    """Return the last witness of each decision of a batch; -1 if it is before the past begins."""
    last = np.full(len(counts), -1, np.int64)
    flagged = np.flatnonzero(counts)
    last[flagged] = rows[np.cumsum(counts)[flagged] - 1]
    last[last < sinces] = -1
    return last


def threads_of(threads: int | None) -> int:
    """Return how many threads to use: the number given, or one for each core if it is None."""
    if threads is None:
        return count_cores()
    if not isinstance(threads, int) or isinstance(threads, bool) or threads < 1:
        raise BadRule(
            f"threads is {threads!r}; expected a whole number from 1, or None for all",
            setting="threads",
        )
    return threads
