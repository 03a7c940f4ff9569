"""Kernels at work: one call for one decision, threads with desks of their own for a batch.

Invariant: results come in the order of the pieces, whichever thread did them.
Cost: a thread takes the next piece when it is free, so no one waits long for the slowest.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from queue import Empty, SimpleQueue
from typing import Any, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from likewise.search.history.stored_decisions import Table
from likewise.search.indexes.index_state import IndexState, ThreadScratch
from likewise.search.kernels import table as t
from likewise.tables.rows import Floats, Rows

OBSERVE, CHECK, PLANT, WRITE = 0, 1, 2, 3
"""Tasks that the kernel of every index knows."""

_PIECES = 4  # of a block, for each thread
_LEAST_ROWS = 256
_CHUNK_BYTES = 4 << 20  # of a batch, written together
Found: TypeAlias = tuple[Rows, Floats, Floats, Rows]
"""Rows, input distances, output distances; for a flat scan, whose witnesses they are."""
Kernel: TypeAlias = Callable[[int], int]
Result = TypeVar("Result")


class KernelRunner:
    """Runs an index's kernel on its table."""

    def __init__(self, state: IndexState, kernel: Kernel) -> None:
        self.state = state
        self.kernel = kernel
        self._scratches = [state.scratch]

    def run_task(self, task: int) -> int:
        return self.run_task_on(self.state.scratch, task)

    def run_task_on(self, desk: ThreadScratch, task: int) -> int:
        """Do a task at one of the desks."""
        desk.table[t.TASK] = task
        try:
            return self.kernel(desk.address)
        finally:
            desk.table[t.TASK] = OBSERVE  # the standing task, so that observe need not say it

    def scratches(self, threads: int) -> list[ThreadScratch]:
        """A desk for each thread; the first is the state's own."""
        while len(self._scratches) < threads:
            self._scratches.append(ThreadScratch(self.state, self.state.table.copy()))
        return self._scratches[:threads]

    def write(self, inputs: npt.NDArray[Any], outputs: Floats) -> tuple[int, int]:
        """Write a batch behind the history, unseen. (0, 0), or an error code and which was bad."""
        state, history, table = self.state, self.state.history, self.state.table
        count, first = len(inputs), history.total
        state.ensure(count + 1, 256)
        history.prepare(count)
        raw = history.can_store(inputs.dtype)
        table[t.FIRST] = first
        size = max(1, _CHUNK_BYTES // (8 * history.width))
        for start in range(0, count, size):
            stop = min(start + size, count)
            given = np.ascontiguousarray(outputs[start:stop])
            chunk = given
            if raw:
                history.rows[first + start : first + stop] = inputs[start:stop]
            else:
                chunk = np.ascontiguousarray(inputs[start:stop], dtype=np.float64)
            table[t.START], table[t.STOP] = start, stop
            table[t.INPUTS] = 0 if raw else chunk.ctypes.data
            table[t.GIVENS] = given.ctypes.data
            bad = self.run_task(WRITE)
            history.note_touched(stop - start)
            if bad != 0:
                return bad, start + int(table[t.FOUND])
        return 0, 0

    def run_in_parallel(
        self,
        size: int,
        threads: int,
        pool: ThreadPoolExecutor | None,
        lay_out: Callable[[Table], None],
        work: Callable[[ThreadScratch, int, int], list[Result]],
        least: int = _LEAST_ROWS,
    ) -> list[Result]:
        """Let threads work on `size` rows, piece by piece, reading only; what comes of it.

        Fewer rows than `least` for each thread are not worth a further one.
        """
        threads = max(1, min(threads, size // least))
        if threads == 1:
            lay_out(self.state.table)
            return work(self.state.scratch, 0, size)
        pieces = _PIECES * threads
        bounds = [size * k // pieces for k in range(pieces + 1)]
        results: list[list[Result]] = [[] for _ in range(pieces)]
        desks = self.scratches(threads)
        waiting = SimpleQueue[int]()
        for piece in range(pieces):
            waiting.put(piece)

        def take(desk: ThreadScratch) -> None:
            if desk is not self.state.scratch:
                desk.fit(self.state)
            lay_out(desk.table)
            while True:
                try:
                    piece = waiting.get_nowait()
                except Empty:
                    return
                results[piece] = work(desk, bounds[piece], bounds[piece + 1])

        assert pool is not None
        list(pool.map(take, desks))
        return [part for parts in results for part in parts]

    def make_task_work(self, task: int) -> Callable[[ThreadScratch, int, int], list[Found]]:
        """The work of `share` that is a kernel's task.

        A task that answers short of the end, since results have no more room, goes on from there.
        """

        def work(desk: ThreadScratch, start: int, stop: int) -> list[Found]:
            found = []
            while start < stop:
                desk.table[t.FOUND] = 0
                desk.table[t.START], desk.table[t.STOP] = start, stop
                start = self.run_task_on(desk, task)
                found.append(desk.results(int(desk.table[t.FOUND])))
            return found

        return work
