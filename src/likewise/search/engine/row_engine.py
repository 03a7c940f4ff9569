"""Judge rows that come as numbers: the engine of a shard of a cluster.

Invariant: `search` and `find_near_points` remember nothing; `judge` names only earlier rows. The
index lacks at most the last `_unindexed_rows` rows, and none when a question is answered.
Cost: one thread. A point that is only searched for is written behind the history, where no query
sees it, and overwritten by the next.
Not here: which rows another shard has (sharding/placement.py).
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from likewise.errors import BadDecision
from likewise.search.engine.chooser import BULK_BUILD_ROWS
from likewise.search.engine.engine import Engine
from likewise.search.indexes.compiled_index import CompiledIndex, outputs_ignored
from likewise.search.indexes.workers import Found
from likewise.tables.array_types import Floats, Rows

_TOGETHER = 1 << 16  # rows inserted together

Inputs = npt.NDArray[Any]
Answers = tuple[Rows, Rows, Floats, Floats]
"""How many witnesses each point has; their rows and both distances, in order."""


class RowEngine(Engine):
    """Judges rows of numbers with one of the compiled indexes.

    The caller has read and checked decisions already: inputs are of the storage's type, outputs
    are numbers or codes of labels. `add` only writes rows; `build` then indexes all that were
    added. If they are most of the history, the index is chosen and built as after `Engine.load`,
    however many calls of `add` brought them.
    """

    _unindexed_rows = 0
    """How many of the last rows the index lacks."""

    def add(self, inputs: Inputs, outputs: Floats, gone: Rows | None = None) -> None:
        """Remember rows without judging them.

        gone: those of them that are forgotten, by row; their values are not stored
        """
        self.in_doubt = True  # until rows, and how many the index lacks, agree
        self._unindexed_rows += len(inputs)
        bad = self.append_stored(inputs, outputs)
        if bad >= 0:
            self._unindexed_rows -= len(inputs)
            self.in_doubt = False
            raise _bad_point_error(bad)
        if gone is not None and len(gone):
            assert self.history is not None
            self.history.erase(gone)  # the index never had them

    def build(self) -> None:
        """Index the rows that were added."""
        if self._unindexed_rows == 0:
            return
        history, chooser, stop = self.history, self.chooser, self.rows
        assert history is not None and chooser is not None
        first = stop - self._unindexed_rows
        self.in_doubt = True
        if (
            stop - history.first >= BULK_BUILD_ROWS
            and self._unindexed_rows >= (first - history.first) // 2
        ):
            chooser.build()
        else:
            for start in range(first, stop, _TOGETHER):
                self._compiled_index().insert(start, min(_TOGETHER, stop - start))
        self._run_chooser(1)
        self._unindexed_rows = 0
        self.in_doubt = False

    def settle(self, rows: int) -> None:
        """Roll back to the first `rows` rows; rebuild the index if it lacks some."""
        self.in_doubt |= self._unindexed_rows > 0
        super().settle(rows)
        self._unindexed_rows = 0

    def forget(self, rows: Rows) -> Rows:
        """Erase rows, which are never witnesses again; return those that were still remembered."""
        self.build()
        return super().forget(rows)

    def judge(self, inputs: Inputs, outputs: Floats) -> Answers:
        """Return the witnesses of each row among the rows before it, and remember all."""
        self._write_points(inputs, outputs)
        assert self.history is not None
        first, count = self.rows, len(inputs)
        parts = []
        self.in_doubt = True
        for index, done, size in self._batches(count):
            parts.append(index.judge(first + done, size))
            self.history.join(size)
            self._run_chooser(size)
        self._count_written(count)
        return _join_answers(parts)

    def search(self, inputs: Inputs, outputs: Floats, before: Rows | None = None) -> Answers:
        """Return the witnesses of each point among all rows, or among those below `before`."""
        self._write_points(inputs, outputs)
        count = len(inputs)
        answers = _join_answers(
            [
                index.search_unindexed(self.rows + done, size)
                for index, done, size in self._batches(count)
            ]
        )
        if before is None:
            return answers
        counts, rows, near, far = answers
        owners = np.repeat(np.arange(count), counts)
        chosen = rows < before[owners]
        counts = np.bincount(owners[chosen], minlength=count)
        return counts, rows[chosen], near[chosen], far[chosen]

    def find_comparable_rows(
        self,
        inputs: Inputs,
        outputs: Floats,
        comparable_rows: Rows,
        sinces: Rows,
        first: int | None = None,
    ) -> Rows:
        """Return `comparable_rows`, completed by a near row from `sinces` on; -1 for none.

        first: the row of the first of the points, if they are remembered already
        """
        if first is None:
            self._write_points(inputs, outputs)
            first = self.rows
        completed, sinces = comparable_rows.copy(), np.ascontiguousarray(sinces, dtype=np.int64)
        for index, done, size in self._batches(len(completed)):
            part = slice(done, done + size)
            index.arrange_rows(first + done, size)
            index.find_comparable_many(first + done, completed[part], sinces[part])
        return completed

    def count_agreeing_rows(
        self, inputs: Inputs, outputs: Floats, sinces: Rows, first: int | None = None
    ) -> Rows:
        """Count for each point the near rows from `sinces` on that do not differ.

        first: as for `find_comparable_rows`
        """
        if first is None:
            self._write_points(inputs, outputs)
            first = self.rows
        agreeing, sinces = np.zeros(len(sinces), np.int64), np.ascontiguousarray(sinces)
        for index, done, size in self._batches(len(agreeing)):
            part = slice(done, done + size)
            index.arrange_rows(first + done, size)
            index.count_agreeing_many(first + done, agreeing[part], sinces[part])
        return agreeing

    def find_near_points(
        self, inputs: Inputs, outputs: Floats, before: Rows
    ) -> tuple[Rows, Rows, Floats]:
        """Return how many rows below `before` are near each point, all of these, and distances."""
        self.build()
        with outputs_ignored(self._compiled_index().state):
            return self.search(inputs, outputs, before)[:3]

    def _write_points(self, inputs: Inputs, outputs: Floats) -> None:
        """Write points behind the history, unseen, for the index to search for."""
        self.build()
        bad, at = self._compiled_index().workers.write(inputs, outputs)
        if bad != 0:
            raise _bad_point_error(at)
        assert self.history is not None
        self._inputs = self.history.rows

    def _compiled_index(self) -> CompiledIndex:
        assert isinstance(self.index, CompiledIndex)
        return self.index

    def _batches(self, count: int) -> Iterator[tuple[CompiledIndex, int, int]]:
        """Yield the index in use, and the start and the size of each part of `count` rows."""
        done = 0
        while done < count:
            index = self._compiled_index()
            size = index.next_batch_size(count - done)
            yield index, done, size
            done += size


def _bad_point_error(at: int) -> BadDecision:
    return BadDecision(f"point {at} of those sent to a shard cannot be compared.")


def _join_answers(parts: list[tuple[Rows, Found]]) -> Answers:
    """Join the answers to several parts of a batch."""
    if not parts:
        nothing = np.empty(0, np.int64)
        return nothing, nothing, np.empty(0), np.empty(0)
    counts = np.concatenate([counted for counted, _ in parts])
    columns = [np.concatenate([found[i] for _, found in parts]) for i in range(3)]
    return counts, columns[0], columns[1], columns[2]
