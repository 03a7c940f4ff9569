"""Computations that take seconds run in the background, and their results are kept.

A page waits only a moment. It then shows the last result and how many decisions that is based on,
or that the computation is still running.
Invariant: one computation runs at a time, in a thread of its own; a page only reads its result.
Bound: one result for each monitor and question; each question limits what it reads.
"""

import asyncio
import time as clock
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from likewise.errors import LikewiseError
from likewise.runtime.log import logger
from likewise.service.served_monitor import ServedMonitor

_WAIT_SECONDS = 0.15  # small histories are answered within the first request

_RETRY_SECONDS = 10.0


@dataclass
class Computation:
    """Holds a question, and its answer once there is one."""

    rows: int
    """How many decisions there were when the computation began."""
    begun: float
    future: "Future[Any]"
    seconds: float | None = None

    @property
    def state(self) -> str:
        if not self.future.done():
            return "computing"
        return "failed" if self.future.exception() else "done"

    @property
    def value(self) -> Any:
        """The answer; None until there is one."""
        return self.future.result() if self.state == "done" else None

    @property
    def problem(self) -> str | None:
        """Why there is no answer."""
        error = self.future.exception() if self.future.done() else None
        if error is None:
            return None
        return str(error) if isinstance(error, LikewiseError) else type(error).__name__

    @property
    def may_be_retried(self) -> bool:
        """Whether it failed, and long enough ago to try again."""
        return self.state == "failed" and clock.monotonic() - self.begun > _RETRY_SECONDS

    def to_dict(self) -> dict[str, Any]:
        return {
            "state": self.state,
            "rows": self.rows,
            "seconds": self.seconds,
            "problem": self.problem,
        }


class ComputationQueue:
    """Runs the computations of one service, one after another."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="likewise-computing")
        self._computations: dict[ServedMonitor, dict[str, Computation]] = {}

    async def ask(
        self,
        served: ServedMonitor,
        question: str,
        call: Callable[[], Any],
        *,
        recompute: bool = False,
    ) -> Computation:
        """Return the last computation of a question, or a new one, which may still be running.

        recompute: start again, unless it is being computed
        """
        computations = self._computations.setdefault(served, {})
        last = computations.get(question)
        if last is None or (last.state != "computing" and (recompute or last.may_be_retried)):
            last = computations[question] = self._start(served, call)
        if last.state == "computing":
            future = asyncio.wrap_future(last.future)
            future.add_done_callback(lambda it: it.cancelled() or it.exception())  # else it logs
            await asyncio.wait([future], timeout=_WAIT_SECONDS)
        return last

    def _start(self, served: ServedMonitor, call: Callable[[], Any]) -> Computation:
        begun = clock.monotonic()

        def run_timed() -> Any:
            start = clock.thread_time()
            try:
                return call()
            except LikewiseError:
                raise
            except Exception:
                logger.exception("a fault of likewise, while computing for %s", served.name)
                raise
            finally:
                computation.seconds = round(clock.thread_time() - start, 3)

        computation = Computation(served.next_row, begun, Future())
        computation.future = self._thread.submit(run_timed)
        return computation

    def forget(self, served: ServedMonitor) -> None:
        """Drop the computations about a monitor, also those that are running."""
        self._computations.pop(served, None)

    def close(self) -> None:
        """Drop what has not begun, and do not wait for the rest, so that ledgers close soon."""
        self._thread.shutdown(wait=False, cancel_futures=True)
