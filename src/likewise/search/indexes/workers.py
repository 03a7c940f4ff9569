"""Run kernels: one call for one decision, threads with scratch memory of their own for a batch.

Invariant: results come in the order of the pieces, whichever thread did them.
Cost: a thread takes the next piece when it is free, so none waits long for the slowest.
"""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from queue import Empty, SimpleQueue
from typing import Any, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from likewise.search.history.stored_decisions import Table
from likewise.search.indexes.index_state import IndexState, ThreadScratch
from likewise.search.kernels import table as t
from likewise.tables.array_types import Floats, Rows

_PIECES = 4  # of a batch, for each thread
_LEAST_ROWS = 256
_CHUNK_BYTES = 4 << 20  # of a batch, written together
Found: TypeAlias = tuple[Rows, Floats, Floats, Rows]
"""Rows, input distances, output distances; for a flat scan, whose witnesses they are."""
Kernel: TypeAlias = Callable[[int], int]
_AnswerT = TypeVar("_AnswerT")


class Threads:
    """The threads that share the work on a batch; a single one is the caller's."""

    def __init__(self, count: int = 1) -> None:
        self.count = count
        self._pool = ThreadPoolExecutor(count) if count > 1 else None

    def map(self, work: Callable[..., _AnswerT], *items: Iterable[Any]) -> list[_AnswerT]:
        """Return the answers of a function about each of several items."""
        return list((map if self._pool is None else self._pool.map)(work, *items))

    def __enter__(self) -> "Threads":
        return self

    def __exit__(self, *_: object) -> None:
        if self._pool is not None:
            self._pool.shutdown()


ALONE = Threads()


class KernelRunner:
    """Runs an index's kernel on its table."""

    def __init__(self, state: IndexState, kernel: Kernel) -> None:
        self.state = state
        self.kernel = kernel
        self._scratches = [state.scratch]

    def run_task(self, task: int) -> int:
        return self.run_task_on(self.state.scratch, task)

    def run_task_on(self, scratch: ThreadScratch, task: int) -> int:
        """Run a task with the scratch memory of one thread."""
        scratch.table[t.TASK] = task
        try:
            return self.kernel(scratch.address)
        finally:
            scratch.table[t.TASK] = t.OBSERVE  # the default, so that `observe` need not set it

    def scratches(self, threads: int) -> list[ThreadScratch]:
        """Return scratch memory for each thread; the first is the state's own."""
        while len(self._scratches) < threads:
            self._scratches.append(ThreadScratch(self.state, self.state.table.copy()))
        return self._scratches[:threads]

    def write(self, inputs: npt.NDArray[Any], outputs: Floats) -> tuple[int, int]:
        """Write a batch behind the history, where no query sees it.

        Return (0, 0), or an error code and the place of the bad decision.
        """
        state, history, table = self.state, self.state.history, self.state.table
        count, first = len(inputs), history.total
        state.ensure(count + 1, 256)
        history.prepare(count)
        raw = history.can_store(inputs.dtype)
        table[t.FIRST] = first
        size = max(1, _CHUNK_BYTES // (8 * history.width))
        for start in range(0, count, size):
            stop = min(start + size, count)
            output_chunk = np.ascontiguousarray(outputs[start:stop])
            input_chunk = output_chunk
            if raw:
                history.rows[first + start : first + stop] = inputs[start:stop]
            else:
                input_chunk = np.ascontiguousarray(inputs[start:stop], dtype=np.float64)
            table[t.START], table[t.STOP] = start, stop
            table[t.INPUTS] = 0 if raw else input_chunk.ctypes.data
            table[t.GIVENS] = output_chunk.ctypes.data
            bad = self.run_task(t.WRITE)
            history.note_touched(stop - start)
            if bad != 0:
                return bad, start + int(table[t.FOUND])
        return 0, 0

    def run_in_parallel(
        self,
        task: int,
        size: int,
        threads: Threads,
        lay_out: Callable[[Table], None],
        least: int = _LEAST_ROWS,
    ) -> list[Found]:
        """Run a task that only reads on `size` rows, piece by piece; return what it finds.

        Fewer rows than `least` for each thread are not worth a further one.
        """
        count = max(1, min(threads.count, size // least))
        if count == 1:
            lay_out(self.state.table)
            return self._run_piece(self.state.scratch, task, 0, size)
        pieces = _PIECES * count
        bounds = [size * k // pieces for k in range(pieces + 1)]
        results: list[list[Found]] = [[] for _ in range(pieces)]
        waiting = SimpleQueue[int]()
        for piece in range(pieces):
            waiting.put(piece)

        def work(scratch: ThreadScratch) -> None:
            if scratch is not self.state.scratch:
                scratch.fit(self.state)
            lay_out(scratch.table)
            while True:
                try:
                    piece = waiting.get_nowait()
                except Empty:
                    return
                results[piece] = self._run_piece(scratch, task, bounds[piece], bounds[piece + 1])

        threads.map(work, self.scratches(count))
        return [part for parts in results for part in parts]

    def _run_piece(self, scratch: ThreadScratch, task: int, start: int, stop: int) -> list[Found]:
        """Run a task on a piece; call it again where the room for results ended it early."""
        found = []
        while start < stop:
            scratch.table[t.FOUND] = 0
            scratch.table[t.START], scratch.table[t.STOP] = start, stop
            start = self.run_task_on(scratch, task)
            found.append(scratch.results(int(scratch.table[t.FOUND])))
        return found


def join_found(parts: list[Found]) -> Found:
    """Join what a task found in the pieces of a batch."""
    rows, near, far, owners = (np.concatenate(column) for column in zip(*parts, strict=True))
    return rows, near, far, owners
