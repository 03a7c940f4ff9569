"""Follows streams for monitors while they are served, with one thread for each.

The thread polls and decodes; its calls to the monitor wait in the same queue as those over HTTP
(served_monitor.py), so counts and listeners see them.
Invariant: a stream that fails does not end the service. It is tried again after a pause, from where
the ledger ends; only a gap under the policy "stop" ends the following, and the log says so.
"""

import asyncio
import time as clock
from collections.abc import Callable
from contextlib import ExitStack, closing
from threading import Event, Thread
from typing import Any

from likewise.errors import BadRule, LikewiseError
from likewise.rule.rule import Rule
from likewise.runtime.log import logger
from likewise.service.served_monitor import ServedMonitor
from likewise.service.settings import StreamSource
from likewise.sources.file_source import make_source, make_target
from likewise.sources.follower import Follower, GapFound
from likewise.sources.judge_messages import StreamJudge, make_binder
from likewise.sources.sinks import LineTarget, StreamSink

_RETRY_SECONDS = 5.0  # seconds before a stream that failed is tried again


class FollowerThread:
    """Runs the thread that follows the stream of one monitor."""

    def __init__(
        self, served: ServedMonitor, settings: StreamSource, loop: asyncio.AbstractEventLoop
    ) -> None:
        self._served = served
        self._settings = settings
        self._loop = loop
        self._ending = Event()
        self._follower: Follower | None = None
        self._at_end = clock.monotonic()
        self._bind = make_binder(
            served.monitor.rule,
            output_column=settings.output_column,
            model_column=settings.model_column,
        )
        self._thread = Thread(target=self._run, name=f"likewise-follow-{served.name}", daemon=True)
        self._thread.start()

    @property
    def is_connected(self) -> bool:
        return self._follower is not None and self._follower.is_connected

    @property
    def lag_seconds(self) -> float:
        """How long ago the end of the stream was last reached; 0 while no message waits there."""
        follower = self._follower
        if follower is not None and follower.caught_up_at is not None:
            self._at_end = follower.caught_up_at
            if follower.is_connected and not follower.is_behind:
                return 0.0
        return clock.monotonic() - self._at_end

    def stop(self) -> None:
        """End after the current messages, and wait for that."""
        self._ending.set()
        if self._follower is not None:
            self._follower.stop()
        self._thread.join()

    def _run(self) -> None:
        name = self._served.name
        while not self._ending.is_set():
            try:
                self._follow()
            except GapFound as error:
                logger.error("monitor %s no longer follows its stream: %s", name, error)
                return
            except LikewiseError as error:
                logger.error("monitor %s cannot follow its stream: %s", name, error)
            except Exception as error:  # of a client library: the service goes on
                logger.error("monitor %s: its stream failed: %s", name, type(error).__name__)
            self._ending.wait(_RETRY_SECONDS)

    def _follow(self) -> None:
        settings, served = self._settings, self._served
        with ExitStack() as stack:
            source, format = make_source(settings.address)
            stack.enter_context(closing(source))
            self._follower = Follower(
                source,
                StreamJudge(served.monitor, self._bind, settings.model_column),
                StreamSink(
                    _open_target(settings.to, "verdict", stack),
                    _open_target(settings.dead_letters, "dead_letter", stack),
                    settings.witnesses,
                ),
                tell=lambda line: logger.warning("monitor %s: %s", served.name, line),
                gaps=settings.gaps,
                format=format,
                call_monitor=self._run_in_turn,
                on_refused=self._report_bad_message,
            )
            if not self._ending.is_set():
                try:
                    self._follower.run()
                finally:
                    self._follower.is_connected = False

    def _report_bad_message(self) -> None:
        refused = self._served.counts.refused
        self._loop.call_soon_threadsafe(refused.update, ("bad-message",))

    def _run_in_turn(self, call: Callable[[], Any], rows: int) -> Any:
        """Make a call in the order of the monitor's queue.

        Refusals are not counted: a batch is refused repeatedly until the bad message is found.

        rows: how many decisions it judges; 0 if it judges none
        """

        async def run() -> Any:
            served = self._served
            await served.wait_for_room(max(1, rows))
            if rows:
                return await served.observe_many(rows, call, counts_refusal=False)
            return await served.run_in_turn(call, counts_refusal=False)

        return asyncio.run_coroutine_threadsafe(run(), self._loop).result()


def _open_target(address: str | None, field: str, stack: ExitStack) -> LineTarget | None:
    return None if address is None else stack.enter_context(closing(make_target(address, field)))


def check_source(rule: Rule | None, durable: bool, settings: StreamSource) -> None:
    """Raise BadRule now, rather than later in a thread, if a rule cannot be used for a stream.

    rule    of the monitor; None: the ledger's own, which is not read yet
    """
    if not durable and settings.to is not None:
        raise BadRule(
            "source has `to`, and the monitor is in memory: after a restart its rows begin again."
            " Give it a ledger."
        )
    if rule is not None:
        make_binder(rule, output_column=settings.output_column, model_column=settings.model_column)
