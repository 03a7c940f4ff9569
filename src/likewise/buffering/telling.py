"""Tells a monitor of decisions that waited, in their order, and of losses before them.

A monitor takes a batch whole or refuses it whole. A refused batch is judged in parts
(intake/sifting.py), so that each refused decision is told alone and its neighbours are judged.

Where the monitor's disk fails, nothing was stored, as a rule, and it is tried again; but a commit
may have come through all the same, so the monitor's rows are looked at first. Where a process is
killed, the next one looks (position.py).

A monitor behind a service (client/) has rows of others as well, so they say nothing. Its calls have
ids instead: the same call is made again under its id, and the service does it once. If not even the
service can tell whether it was done, the decisions count as lost ("in doubt"), on the safe side.

Invariant: each decision is judged once, or refused, or lost and counted; losses are told before the
decisions that are judged next.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from inspect import signature
from queue import Empty, SimpleQueue
from typing import Any
from uuid import uuid4

from likewise.buffering.accounts import Accounts
from likewise.buffering.decisions import Waiting, arguments, runs
from likewise.buffering.position import DECISIONS, LOSSES, Intention, Position
from likewise.buffering.receipt import FAILED, IN_DOUBT
from likewise.intake.sifting import Judged, Unfit, sifted
from likewise.runtime.log import logger
from likewise.values.errors import BadDecision, BadFile, Forbidden, Unreachable
from likewise.values.losses import Loss

STORED = None
"""Stands for verdicts that are not known: the decisions are stored, and then something failed."""
TOGETHER = 1 << 15
"""Decisions that a ledger writes as one transaction: no batch is larger, so none is half there."""

_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 2.0  # seconds before a failed disk is tried again
_FOR_NOW = (BadFile, Unreachable, Forbidden)  # the decisions can be told later
_Part = list[Waiting]


class _Failed(BadDecision):
    """A decision that made a monitor fail with an error of somebody else's."""

    code = "failed"

    def __init__(self, error: BaseException) -> None:
        super().__init__(str(error))
        self.error = error


class Teller:
    """The one that calls the monitor; used by one thread at a time.

    vectors     whether decisions are vectors, which are put together as an array
    position    where it is noted what is being told, if that is to survive a crash
    given_up    whether what is in hand, and cannot be told at once, is to be lost
    """

    def __init__(
        self,
        monitor: Any,
        accounts: Accounts,
        *,
        vectors: bool,
        position: Position | None,
        given_up: Callable[[], bool],
    ) -> None:
        parameters = signature(monitor.observe_many).parameters
        self.takes_models = "models" in parameters
        self._has_ids = has_ids(monitor)
        self._request: dict[str, str] = {}
        """The id of the call that is made, as an argument; nothing where calls have none."""
        self._loss_request: dict[str, str] = {}
        self._settings = {"threads": 1} if "threads" in parameters else {}
        self._monitor = monitor
        self._accounts = accounts
        self._vectors = vectors
        self._position = position
        self._given_up = given_up
        self._durable = is_durable(monitor)
        self._part: _Part = []  # what the monitor was told last, and how many rows it had before
        self._before = 0
        self._in_doubt = False
        self._losses: list[Loss] = []  # that are being told
        self._missing_before: int | None = None
        self._nudged: SimpleQueue[None] = SimpleQueue()
        self.failing: str | None = None
        """Why the monitor's disk takes nothing at the moment."""

    def nudge(self) -> None:
        """Have it look at once whether to give up."""
        self._nudged.put(None)

    # Decisions

    def tell(self, batch: _Part) -> _Part:
        """Have a batch judged; what is left of it if that was given up, else nothing."""
        rest, pause = batch, _FIRST_PAUSE
        try:
            while rest and not self.is_over():
                try:
                    rest = self._tell(rest)
                except _FOR_NOW as error:
                    self._note_failure(error)
                    self._sleep(pause)
                    pause = min(2 * pause, _LONGEST_PAUSE)
        except BaseException:
            self._accounts.lost_in_hand(rest, FAILED)
            raise
        return rest

    def is_over(self) -> bool:
        """Whether nothing more can be told: it was given up, or the monitor is closed."""
        return self._given_up() or bool(getattr(self._monitor, "closed", False))

    def _tell(self, rest: _Part) -> _Part:
        """What is left of it if the monitor was in doubt; else nothing, or BadFile is raised."""
        if self._in_doubt:
            return self._after_doubt(rest)
        self.tell_losses()
        for outcome in self._judged(rest):
            if isinstance(outcome, Unfit):
                self._refused(outcome)
            else:
                self._answered(outcome)
            del rest[: len(outcome.rows)]
        self.failing = None
        return rest

    def _judged(self, batch: _Part) -> Iterator[Judged[_Part, Any] | Unfit[_Part]]:
        for run in runs(list(batch), vectors=self._vectors):
            yield from sifted(run, self._observe)

    def _observe(self, part: _Part) -> Any:
        """The verdicts of decisions that are told together; BadDecision if they are refused."""
        if not self._has_ids and len(part) > 1 and self._may_be_known(part):
            raise BadDecision("they are told one by one.")
        self._part = part
        if self._has_ids:
            self._request = {"request": uuid4().hex}
        else:
            self._before = self._monitor.rows
            self._intend(DECISIONS, len(part), part[-1][0] + 1, self._before)
        try:
            return self._call(part)
        except BadDecision:
            raise
        except _FOR_NOW:
            self._in_doubt = True
            raise
        except BaseException as error:  # of a user's index, embedder or label
            self._in_doubt = True
            stored = self._monitor.rows - self._before
            self._in_doubt = False
            if stored == len(part):
                return STORED
            raise _Failed(error) from error

    def _call(self, part: _Part) -> Any:
        given = arguments(part, vectors=self._vectors)
        return self._monitor.observe_many(**given, **self._settings, **self._request)

    def _may_be_known(self, part: _Part) -> bool:
        """Whether a ledger may have one of them already, under its key.

        It would answer that one, and store the others. If the disk fails then, its rows do not
        say how many of the part are stored; so such decisions are told alone.
        """
        if not getattr(self._monitor, "durable", False):
            return False
        column = self._monitor.rule.key_column
        keys = [entry[2].key for entry in part]
        if column is not None:
            rows = [entry[2].x for entry in part]
            if not all(isinstance(row, Mapping) for row in rows):
                return True
            keys = [row.get(column) for row in rows]
        given = [key for key in keys if key is not None]
        past = self._monitor.past
        return len(set(given)) < len(given) or any(past.row_of(key) is not None for key in given)

    def _answered(self, outcome: Judged[_Part, Any]) -> None:
        part = outcome.rows
        self._settle(len(part), part[-1][0] + 1)
        if outcome.answer is STORED:
            self._accounts.answered(part, first_row=self._before)
        else:
            self._accounts.answered(part, verdicts=outcome.answer)

    def _refused(self, outcome: Unfit[_Part]) -> None:
        (entry,) = outcome.rows
        self._settle(1, entry[0] + 1)
        error: Any = outcome.error.error if isinstance(outcome.error, _Failed) else outcome.error
        if isinstance(error, BadDecision):
            error = error.at(None)
        elif not isinstance(error, Exception):  # such as SystemExit
            error = BadDecision(f"judging it raised {type(error).__name__}.")
        self._accounts.refused(entry, error)

    def _after_doubt(self, rest: _Part) -> _Part:
        """See whether what was told last is stored, though the disk failed."""
        if self._has_ids:
            return self._made_again(rest)
        stored = min(self._monitor.rows - self._before, len(self._part))
        self._in_doubt = False
        if stored > 0:
            part = rest[:stored]
            self._settle(stored, part[-1][0] + 1)
            self._accounts.answered(part, first_row=self._before)
        return rest[max(0, stored) :]

    def _made_again(self, rest: _Part) -> _Part:
        """Make the last call again, under its id."""
        part = self._part
        try:
            verdicts = self._call(part)
        except BadDecision:  # which is told with each decision, when they are judged in parts
            self._in_doubt = False
            return rest
        except Unreachable as error:
            if not error.lasting:
                raise
            self._in_doubt = False
            self._accounts.lost_in_hand(rest[: len(part)], IN_DOUBT)
            return rest[len(part) :]
        self._in_doubt = False
        self._settle(len(part), part[-1][0] + 1)
        self._accounts.answered(rest[: len(part)], verdicts=verdicts)
        return rest[len(part) :]

    # Losses

    def tell_losses(self) -> None:
        """Tell what is pending, one after the other."""
        self._losses += self._accounts.take_pending()
        while self._losses:
            loss = self._losses[0]
            if self._has_ids:
                self._tell_loss_once(loss)
                del self._losses[0]
                continue
            missing = self._monitor.missing
            if self._missing_before is None:
                self._missing_before = missing
            if missing < self._missing_before + loss.count:  # else an earlier try came through
                self._intend(LOSSES, loss.count, 0, self._missing_before)
                tell_loss(self._monitor, loss)
            self._settle(loss.count)
            self._missing_before = None
            del self._losses[0]

    def _tell_loss_once(self, loss: Loss) -> None:
        """Under an id; if nobody can tell whether it was told, it is told again: better twice."""
        self._loss_request = self._loss_request or {"request": uuid4().hex}
        try:
            tell_loss(self._monitor, loss, **self._loss_request)
        except Unreachable as error:
            if error.lasting:
                self._loss_request = {}
            raise
        self._loss_request = {}

    def tell_losses_once(self) -> None:
        """Tell what is pending, if that can be done now."""
        try:
            self.tell_losses()
        except Exception as error:
            lost = sum(one.count for one in self._losses)
            logger.error("%d lost decisions could not be told: %s", lost, type(error).__name__)

    # The position

    def _intend(self, kind: int, count: int, stop: int, before: int) -> None:
        if self._position is not None:
            self._position.intend(Intention(kind, count, stop, before, self._durable))

    def _settle(self, count: int, done: int | None = None) -> None:
        if self._position is not None:
            self._position.settle(count, done)

    # Failures

    def _note_failure(self, error: BadFile | Unreachable | Forbidden) -> None:
        if self.failing is None:
            kind = type(error).__name__
            logger.warning("a buffer cannot tell its monitor: %s; trying again", kind)
        self.failing = str(error)

    def _sleep(self, seconds: float) -> None:
        with suppress(Empty):
            self._nudged.get(timeout=seconds)


def is_durable(monitor: Any) -> bool:
    """Whether a monitor's history outlives the process."""
    return bool(getattr(monitor, "durable", False))


def has_ids(monitor: Any) -> bool:
    """Whether its calls can be given ids, under which they are made once."""
    return "request" in signature(monitor.observe_many).parameters


def tell_loss(monitor: Any, loss: Loss, **request: str) -> None:
    """Tell a monitor of a loss."""
    since, until = (None if one is None else one / 1e6 for one in (loss.since, loss.until))
    monitor.lost(
        loss.count,
        loss.reason,
        first=loss.first,
        last=loss.last,
        since=since,
        until=until,
        **request,
    )
