"""What takes seconds: computed aside, one at a time, and kept until somebody asks for it again.

A page never waits for it longer than a moment. It shows what was computed before, and from how many
decisions; or that it is being computed.

Invariant: one computation runs at a time, in a thread of its own; a page only reads its result.
Bound: one result for each monitor and question; how much a question may look at is its own.
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

_MOMENT = 0.15  # seconds that a page waits: small histories are answered at once


@dataclass
class Computation:
    """A question, and its answer once it is there."""

    rows: int
    """How many decisions there were when it was asked."""
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
        """The answer; None before it is there."""
        return self.future.result() if self.state == "done" else None

    @property
    def problem(self) -> str | None:
        """Why there is no answer."""
        error = self.future.exception() if self.future.done() else None
        if error is None:
            return None
        return str(error) if isinstance(error, LikewiseError) else type(error).__name__

    def to_dict(self) -> dict[str, Any]:
        return {
            "state": self.state,
            "rows": self.rows,
            "seconds": self.seconds,
            "problem": self.problem,
        }


class ComputationQueue:
    """All questions of one service that take long."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="likewise-aside")
        self._asked: dict[ServedMonitor, dict[str, Computation]] = {}

    async def ask(
        self,
        hosted: ServedMonitor,
        question: str,
        call: Callable[[], Any],
        *,
        recompute: bool = False,
    ) -> Computation:
        """The answer, or that it is being computed.

        anew: ask again, unless it is being computed
        """
        asked = self._asked.setdefault(hosted, {})
        found = asked.get(question)
        again = recompute or (found is not None and found.state == "failed" and _older(found))
        if found is None or (again and found.state != "computing"):
            found = asked[question] = self._start(hosted, call)
        if found.state == "computing":
            done = asyncio.wrap_future(found.future)
            done.add_done_callback(lambda one: one.cancelled() or one.exception())  # else it logs
            await asyncio.wait([done], timeout=_MOMENT)
        return found

    def _start(self, hosted: ServedMonitor, call: Callable[[], Any]) -> Computation:
        begun = clock.monotonic()

        def run_timed() -> Any:
            start = clock.thread_time()
            try:
                return call()
            except LikewiseError:
                raise
            except Exception:
                logger.exception("a fault of likewise, while computing for %s", hosted.name)
                raise
            finally:
                computation.seconds = round(clock.thread_time() - start, 3)

        computation = Computation(hosted.next_row, begun, Future())
        computation.future = self._thread.submit(run_timed)
        return computation

    def forget(self, hosted: ServedMonitor) -> None:
        """Drop the answers about a monitor, also those that are being computed."""
        self._asked.pop(hosted, None)

    def close(self) -> None:
        """Drop what has not begun. What runs is not waited for, so that ledgers close soon."""
        self._thread.shutdown(wait=False, cancel_futures=True)


def _older(found: Computation) -> bool:
    return clock.monotonic() - found.begun > 10.0
