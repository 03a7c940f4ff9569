"""The index of a cluster (search/engine/protocol.py): a history that shards search.

The coordinator's kernel checks and writes a decision, its shard remembers and judges it, the others
are asked about it, and the witnesses are merged in order of rows.
Invariant: a batch is judged segment by segment, so one shard gets all rows of a request and the
others have exactly the rows before it. Only a shard's engine decides what is near.
Cost: one call of each shard with rows for `batch_rows` decisions. Not here: failures (fleet.py).
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from likewise.search.engine.row_engine import Answers
from likewise.search.history.stored_decisions import History
from likewise.search.indexes.python_index import state_over
from likewise.search.indexes.workers import ALONE, Found, KernelRunner, Threads
from likewise.search.kernels import table as t
from likewise.search.kernels.propose import propose
from likewise.sharding.fleet import Fleet, ShardCall, ShardRequest, read_outputs
from likewise.sharding.protocol import ShardSpec
from likewise.sharding.shard import expand_answers
from likewise.tables.array_types import Floats, NearRows, Rows
from likewise.verdict.verdicts import Verdicts
from likewise.verdict.witnesses import NO_WITNESSES, Witnesses

_TOGETHER = 1 << 15  # rows of a batch whose witnesses are in memory at once


class ShardedIndex:
    """Searches a history by asking shards."""

    name = shape = "shards"

    def __init__(self, history: History, fleet: Fleet, batch_rows: int) -> None:
        self.state = state_over(history)
        self.workers = KernelRunner(self.state, propose)
        self.input: Floats = self.state.scratch.small[t.INPUT]
        self.given: Floats = self.state.scratch.small[t.GIVEN]
        self.sound = True
        """False while shards are asked: cut off there, they may have rows that do not count."""
        self._history = history
        self._fleet = fleet
        self._batch_rows = batch_rows
        self._found = NO_WITNESSES
        self._sent_rows = 0  # shards have the rows below it
        self.missing_row_counts: Rows = np.zeros(1, np.int64)
        """For each decision judged last, the number of past rows it was not compared with."""
        self._absent: list[set[int]] = []
        """The shards that were down for each `batch_rows` of these decisions."""

    @contextmanager
    def _mark_unsound(self) -> Iterator[None]:
        self.sound = False
        yield
        self.sound = True

    # One decision

    def observe(self) -> int:
        """Judge and remember what is in row TOTAL, or `input`, and `given`."""
        found = self._judge_one(remember=True)
        if found >= 0:
            self.workers.run_task(t.REMEMBER)
        return found

    def check(self) -> int:
        """Judge what `observe` would judge, without remembering it."""
        return self._judge_one(remember=False)

    def _judge_one(self, *, remember: bool) -> int:
        bad = self.workers.run_task(t.ADMIT)
        if bad == t.FULL:
            self.state.ensure(1, 0)
            return self._judge_one(remember=remember)
        if bad != 0:
            return bad
        row = int(self.state.table[t.TOTAL])
        _, (rows, near, far, _) = self._search_shards(
            row, 1, self.given.reshape(1, -1), remember=remember
        )
        self._found = Witnesses(rows, near, far)
        return len(rows)

    def witnesses(self, found: int) -> Witnesses:
        """Return what the last `observe` or `check` found."""
        return self._found

    def find_comparable(self, row: int, since: int) -> int:
        """Return a comparable row, from `since` on, of the one judged last; -1 for none."""
        comparable_rows = np.full(1, -1, np.int64)
        self.find_comparable_many(row, comparable_rows, np.array([since], np.int64))
        return int(comparable_rows[0])

    def count_agreeing(self, row: int, since: int) -> int:
        """Count the rows from `since` on that are near the row judged last and do not differ."""
        agreeing = np.zeros(1, np.int64)
        self.count_agreeing_many(row, agreeing, np.array([since], np.int64))
        return int(agreeing[0])

    def find_near_rows(self, row: int) -> NearRows:
        """Return all rows before a written one that are near it, whatever their outputs."""
        request, _, rows, distances = self._ask_for_near_rows(row, 1)
        self.missing_row_counts = np.array([self._fleet.count_missing_rows(request, row)])
        return rows, distances

    def _points(self, first: int, count: int) -> tuple[Any, Floats]:
        """Return written rows and their outputs; a row that was only checked has it in `given`."""
        history = self._history
        inputs = history.rows[first : first + count]
        if first == self._sent_rows:  # it was only checked
            return inputs, self.given.reshape(1, -1).copy()
        return inputs, read_outputs(history, np.arange(first, first + count))

    # Many decisions

    def next_batch_size(self, left: int) -> int:
        """Return how many of the next rows to take together: those that go to one shard."""
        return min(
            left, _TOGETHER, self._fleet.placement.count_left_in_segment(self._history.total)
        )

    def judge(self, first: int, size: int, threads: Threads = ALONE) -> tuple[Rows, Found]:
        """Have shards search for written rows, and one of them remember these."""
        outputs = read_outputs(self._history, np.arange(first, first + size))
        return self._search_shards(first, size, outputs, remember=True)

    def _search_shards(
        self, first: int, size: int, outputs: Floats, *, remember: bool
    ) -> tuple[Rows, Found]:
        """Return the witnesses of written rows, which are in one segment."""
        fleet, inputs = self._fleet, self._history.rows
        owner = fleet.placement.shard_of(first) if remember else -1

        def requests() -> Iterator[ShardRequest]:
            for start in range(first, first + size, self._batch_rows):
                stop = min(start + self._batch_rows, first + size)
                points = inputs[start:stop], outputs[start - first : stop - first]
                calls: dict[int, ShardCall] = {}
                if remember:  # first, as it has most to do
                    calls[owner] = ("judge", *points)
                for shard in fleet.shards_with_rows(start):
                    calls.setdefault(shard, ("search", *points))
                yield ShardRequest(start, stop if remember else start, calls)

        counts, parts = [], []
        self.missing_row_counts, self._absent = np.zeros(size, np.int64), []
        done = 0
        with self._mark_unsound():
            for request, answers in fleet.exchange(requests()):
                stop = min(done + self._batch_rows, size)
                batch_counts, (*witnesses, owners) = self._merge_answers(answers, stop - done)
                self._absent.append(request.absent)
                if request.absent:
                    missing = fleet.count_missing_rows(request, request.first)
                    self.missing_row_counts[done:stop] = missing
                    if remember:
                        fleet.record_incomplete(request)
                counts.append(batch_counts)
                parts.append((*witnesses, owners + done))
                done = stop
        self._sent_rows = first + size if remember else first
        rows, near, far, owners = (np.concatenate(column) for column in zip(*parts, strict=True))
        return np.concatenate(counts), (rows, near, far, owners)

    def _merge_answers(self, answers: dict[int, Answers], size: int) -> tuple[Rows, Found]:
        """Merge the witnesses that shards name, in order of decisions and rows."""
        to_global = self._fleet.placement.to_global
        named = [(shard, expand_answers(part)) for shard, part in answers.items() if len(part[1])]
        if not named:
            no_rows, no_distances = np.empty(0, np.int64), np.empty(0)
            return np.zeros(size, np.int64), (no_rows, no_distances, no_distances, no_rows)
        counts = np.sum([part[0] for _, part in named], axis=0)
        rows = np.concatenate([to_global(shard, part[1]) for shard, part in named])
        near, far = (np.concatenate([part[i] for _, part in named]) for i in (2, 3))
        owners = np.repeat(np.arange(size), counts)
        if len(named) == 1:
            return counts, (rows, near, far, owners)
        # The witnesses of each shard are in order, and a stable sort merges what is in order.
        beyond = 1 + rows.max()
        keys = [np.repeat(np.arange(size) * beyond, part[0]) for _, part in named]
        order = np.argsort(np.concatenate(keys) + rows, kind="stable")
        return counts, (rows[order], near[order], far[order], owners)

    def find_late_verdicts(self, first: int, stop: int, shard: int) -> Verdicts | None:
        """Ask a shard about remembered rows that were judged without it; None: it is down."""
        fleet, placement, history = self._fleet, self._fleet.placement, self._history
        rows = np.arange(first, stop)
        rows = rows[history.remembered_flags()[rows] != 0]
        before = placement.to_local(shard, rows)
        points = history.rows[rows], read_outputs(history, rows)
        request = ShardRequest(history.total, history.total, {shard: ("search", *points, before)})
        counts = np.zeros(stop - first, np.int64)
        witnesses = NO_WITNESSES
        if len(rows) and placement.count_rows(shard, first):
            with self._mark_unsound():
                answers = fleet.ask(request)
            if request.absent:
                return None
            counts[rows - first], local, near, far = expand_answers(answers[shard])
            witnesses = Witnesses(placement.to_global(shard, local), near, far)
        return Verdicts(first, np.concatenate([[0], np.cumsum(counts)]), witnesses)

    def find_comparable_many(
        self, first: int, comparable_rows: Rows, sinces: Rows, threads: Threads = ALONE
    ) -> None:
        """Find a comparable row of each row judged last that has none in `comparable_rows` yet."""
        if (comparable_rows >= 0).all():
            return
        fleet, placement, size = self._fleet, self._fleet.placement, len(comparable_rows)
        inputs, outputs = self._points(first, size)
        stop = self._sent_rows
        owner = placement.shard_of(first) if stop > first else -1
        shards = {*fleet.shards_with_rows(first), *([owner] if stop > first else [])}

        def requests() -> Iterator[ShardRequest]:
            for start in range(0, size, self._batch_rows):
                part = slice(start, start + self._batch_rows)
                calls: dict[int, ShardCall] = {}
                for shard in sorted(shards):
                    own = placement.count_rows(shard, first) + start if shard == owner else None
                    found = np.where(comparable_rows[part] >= 0, 0, -1)
                    since = placement.to_local(shard, sinces[part])
                    points = inputs[part], outputs[part]
                    calls[shard] = ("find_comparable", *points, found, since, own)
                yield ShardRequest(stop, stop, calls)

        done = 0
        with self._mark_unsound():
            for _, answers in fleet.exchange(requests()):
                rows = comparable_rows[done : done + self._batch_rows]
                for shard, local in answers.items():
                    new = (rows < 0) & (local >= 0)
                    rows[new] = placement.to_global(shard, local[new])
                done += self._batch_rows

    def count_agreeing_many(
        self, first: int, agreeing: Rows, sinces: Rows, threads: Threads = ALONE
    ) -> None:
        """Add to `agreeing` what `count_agreeing` returns for each row judged last.

        A shard that is down is not counted, and its rows count as not compared.
        """
        fleet, placement, size = self._fleet, self._fleet.placement, len(agreeing)
        inputs, outputs = self._points(first, size)
        stop = self._sent_rows
        owner = placement.shard_of(first) if stop > first else -1
        shards = {*fleet.shards_with_rows(first), *([owner] if stop > first else [])}

        def requests() -> Iterator[ShardRequest]:
            for start in range(0, size, self._batch_rows):
                part = slice(start, start + self._batch_rows)
                calls: dict[int, ShardCall] = {}
                for shard in sorted(shards - self._absent[start // self._batch_rows]):
                    own = placement.count_rows(shard, first) + start if shard == owner else None
                    since = placement.to_local(shard, sinces[part])
                    calls[shard] = ("count_agreeing", inputs[part], outputs[part], since, own)
                yield ShardRequest(stop, stop, calls)

        done = 0
        with self._mark_unsound():
            for request, answers in fleet.exchange(requests()):
                part = slice(done, done + self._batch_rows)
                for counted in answers.values():
                    agreeing[part] += counted
                self.missing_row_counts[part] += fleet.count_missing_rows(request, first + done)
                done += self._batch_rows

    def find_near_rows_of_many(
        self, first: int, size: int, threads: Threads = ALONE
    ) -> tuple[Rows, Rows]:
        """Return how many rows `find_near_rows` finds for each of some rows, and all of these."""
        return self._ask_for_near_rows(first, size)[1:3]

    def _ask_for_near_rows(self, first: int, size: int) -> tuple[ShardRequest, Rows, Rows, Floats]:
        """Return the request, how many rows are near each, all of these and their distances."""
        placement, stop = self._fleet.placement, self._history.total
        points, rows = self._points(first, size), np.arange(first, first + size)
        calls: dict[int, ShardCall] = {
            shard: ("find_near", *points, placement.to_local(shard, rows))
            for shard in self._fleet.shards_with_rows(first + size)
        }
        request = ShardRequest(stop, stop, calls)
        with self._mark_unsound():
            answers = self._fleet.ask(request)
        owners = [np.repeat(np.arange(size), counts) for counts, _, _ in answers.values()]
        named = [placement.to_global(shard, local) for shard, (_, local, _) in answers.items()]
        nobody: Rows = np.empty(0, np.int64)
        owner, near = np.concatenate([nobody, *owners]), np.concatenate([nobody, *named])
        distances = np.concatenate([np.empty(0), *(part for *_, part in answers.values())])
        order = np.lexsort((near, owner))
        return request, np.bincount(owner, minlength=size), near[order], distances[order]

    def insert(self, first: int, size: int, threads: Threads = ALONE) -> None:
        """Have shards remember written rows without judging them."""
        history, placement = self._history, self._fleet.placement

        end, count_rows = first + size, placement.count_rows

        def requests() -> Iterator[ShardRequest]:
            start = first
            while start < end:
                left = min(placement.count_left_in_segment(start), end - start)
                stop = start + min(self._batch_rows, left)
                points = history.rows[start:stop], read_outputs(history, np.arange(start, stop))
                yield ShardRequest(start, stop, {placement.shard_of(start): ("add", *points)})
                start = stop

        build: dict[int, ShardCall] = {
            shard: ("build",)
            for shard in range(placement.shards)
            if count_rows(shard, end) > count_rows(shard, first)
        }
        with self._mark_unsound():
            for request, _ in self._fleet.exchange(requests()):
                history.note_touched(request.stop - request.first)
            self._fleet.ask(ShardRequest(end, end, build, builds=True))

    def remove(self, rows: Rows) -> None:
        """Have shards forget remembered rows."""
        placement, total = self._fleet.placement, self._history.total
        owners = placement.shards_of(rows)
        calls: dict[int, ShardCall] = {
            shard: ("forget", placement.to_local(shard, rows[owners == shard]))
            for shard in np.unique(owners).tolist()
        }
        with self._mark_unsound():
            self._fleet.ask(ShardRequest(total, total, calls))

    # After a call that was cut off

    def settle(self) -> None:
        """Have shards opened again before the next answer: they may have rows that do not count."""
        self.state.settle()
        self._fleet.distrust_from(self._history.total)

    def renew(self) -> None:
        self.settle()
        self.sound = True

    # Looking at it

    def depth(self) -> int:
        return 1

    def leaves(self) -> int:
        return self._fleet.placement.shards

    def describe(self) -> str:
        fleet, placement, total = self._fleet, self._fleet.placement, self._history.total
        counts = (placement.count_rows(shard, total) for shard in range(placement.shards))
        rows = ", ".join(f"{count:,}" for count in counts)
        return f"{fleet.backend.describe()}; rows of each so far: {rows}"


class ShardedIndexFactory:
    """Makes the index of an engine whose rows are searched by shards.

    index       of each shard: "auto", "live" or "flat"
    keep        whether shards keep running when this is closed
    """

    def __init__(self, fleet: Fleet, *, index: str, batch_rows: int, keep: bool) -> None:
        self.fleet = fleet
        self.current_index: ShardedIndex | None = None
        """The index over the current history; None before the first."""
        self._index = index
        self._batch_rows = batch_rows
        self._keep = keep

    def make_index(self, history: History) -> ShardedIndex:
        shape, storage, width = history.shape, history.storage, history.out_width
        spec = ShardSpec(history.rule, self._index, shape, storage, width)
        self.fleet.attach_history(history, spec)
        self.current_index = ShardedIndex(history, self.fleet, self._batch_rows)
        return self.current_index

    def close(self) -> None:
        self.fleet.close(keep=self._keep)
