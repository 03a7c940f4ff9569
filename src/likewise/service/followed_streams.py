"""Monitors that follow a stream while they are served: one thread for each.

The thread polls and decodes; whatever concerns the monitor waits in the same queue as what comes
over HTTP (served_monitor.py), so every call is one step of one history, and counts and listeners
see it.

Invariant: a stream that fails does not end the service. It is tried again with a pause, from where
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
from likewise.sources.follower import Follower, GapFound
from likewise.sources.judge_messages import StreamJudge, make_binder
from likewise.sources.open_source import make_source, make_target
from likewise.sources.sinks import LineTarget, StreamSink

_RETRY_SECONDS = 5.0  # seconds before a stream that failed is tried again


class FollowerThread:
    """The thread that has one monitor follow its stream."""

    def __init__(
        self, hosted: ServedMonitor, settings: StreamSource, loop: asyncio.AbstractEventLoop
    ) -> None:
        self._hosted = hosted
        self._settings = settings
        self._loop = loop
        self._ending = Event()
        self._follower: Follower | None = None
        self._at_end = clock.monotonic()
        self._bind = make_binder(
            hosted.monitor.rule,
            output_column=settings.output_column,
            model_column=settings.model_column,
        )
        self._thread = Thread(target=self._run, name=f"likewise-follow-{hosted.name}", daemon=True)
        self._thread.start()

    @property
    def is_connected(self) -> bool:
        return self._follower is not None and self._follower.is_connected

    @property
    def lag_seconds(self) -> float:
        """Since the end of the stream was last reached; 0 while nothing waits there."""
        follower = self._follower
        if follower is not None and follower.caught_up_at is not None:
            self._at_end = follower.caught_up_at
            if follower.is_connected and not follower.is_behind:
                return 0.0
        return clock.monotonic() - self._at_end

    def stop(self) -> None:
        """End after what is in hand, and wait for that."""
        self._ending.set()
        if self._follower is not None:
            self._follower.stop()
        self._thread.join()

    def _run(self) -> None:
        name = self._hosted.name
        while not self._ending.is_set():
            try:
                self._follow()
            except GapFound as error:
                logger.error("monitor %s follows its stream no more: %s", name, error)
                return
            except LikewiseError as error:
                logger.error("monitor %s cannot follow its stream: %s", name, error)
            except Exception as error:  # of a client: the service goes on
                logger.error("monitor %s: its stream failed: %s", name, type(error).__name__)
            self._ending.wait(_RETRY_SECONDS)

    def _follow(self) -> None:
        settings, hosted = self._settings, self._hosted
        with ExitStack() as opened:
            source, format = make_source(settings.address)
            opened.enter_context(closing(source))
            self._follower = Follower(
                source,
                StreamJudge(hosted.monitor, self._bind, settings.model_column),
                StreamSink(
                    _open_target(settings.to, "verdict", opened),
                    _open_target(settings.dead_letters, "dead_letter", opened),
                    settings.witnesses,
                ),
                tell=lambda line: logger.warning("monitor %s: %s", hosted.name, line),
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
        self._loop.call_soon_threadsafe(self._count_bad_message)

    def _count_bad_message(self) -> None:
        self._hosted.counts.refused["bad-message"] += 1

    def _run_in_turn(self, call: Callable[[], Any], rows: int) -> Any:
        """Have a call wait for its turn. A refusal is no answer to a client, so it is not counted:
        a batch is refused again and again until the bad message is found.

        rows: how many decisions it judges; 0 if it judges none
        """

        async def turn() -> Any:
            hosted = self._hosted
            await hosted.wait_for_room(max(1, rows))
            if rows:
                return await hosted.observe_many(rows, call, counts_refusal=False)
            return await hosted.run_in_turn(call, counts_refusal=False)

        return asyncio.run_coroutine_threadsafe(turn(), self._loop).result()


def _open_target(address: str | None, field: str, opened: ExitStack) -> LineTarget | None:
    return None if address is None else opened.enter_context(closing(make_target(address, field)))


def check_source(rule: Rule | None, durable: bool, settings: StreamSource) -> None:
    """Raise BadRule now, rather than later in a thread, if a rule cannot be used for a stream.

    rule    of the monitor; None: the ledger's own, which is not known yet
    """
    if not durable and settings.to is not None:
        raise BadRule(
            "source has `to`, and the monitor is in memory: after a restart its rows begin again."
            " Give it a ledger."
        )
    if rule is not None:
        make_binder(rule, output_column=settings.output_column, model_column=settings.model_column)
