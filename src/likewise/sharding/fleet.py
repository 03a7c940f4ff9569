"""The shards as their coordinator sees them: calls sent ahead, answers in order, losses mended.

Several calls are under way at once, at most `ahead` of them. A shard that does not answer, or has
other rows than it should, is brought back: it is opened again, gets the rows that it lacks from the
history, and is sent again whatever it had not answered. Nobody else waits for that but the caller.

Invariant: every answer is that of a shard which has exactly the rows that it should have before the
call. Which of its rows are right is known at any time, so a shard that was cut off is not trusted.
Cost: `ahead` batches in memory for each shard; bringing a shard back sends its rows once.
Not here: what the calls mean (sharded_index.py), where shards live (protocol.py).
"""

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from likewise.runtime.log import logger
from likewise.search.history.stored_decisions import History
from likewise.search.kernels import table as t
from likewise.sharding.placement import Placement
from likewise.sharding.protocol import OutOfStep, Session, ShardBackend, ShardDown, ShardSpec
from likewise.tables.rows import Rows

_REPLAY_BYTES = 4 << 20  # of rows sent together to a shard that lacks them
_LOOKED_AT = 1 << 20  # rows of which it is looked at together whether they are forgotten
_BUILD_SECONDS = 20e-6  # for each row: as long as a slow machine may take to build an index of it
_PAUSE = 0.05  # seconds between two attempts at a shard that is down
_AGAIN = 1.0  # seconds after which a shard that was left out is tried again

ShardCall = tuple[Any, ...]
"""The name of a method of `Shard`, and what it is given behind session and rows."""


@dataclass
class ShardRequest:
    """One call of several shards, and what has become of it.

    first       the rows below it are those that shards must have
    stop        the rows below it are those that they have afterwards
    """

    first: int
    stop: int
    calls: dict[int, ShardCall]
    builds: bool = False
    """Whether shards make an index of their rows, which may take long."""
    handles: dict[int, Any] = field(default_factory=dict)
    absent: set[int] = field(default_factory=set)
    """Shards that were down, and are left out."""


class IncompleteRange(NamedTuple):
    """Rows from `first` up to `stop` that were judged without a shard."""

    first: int
    stop: int
    shard: int


class Fleet:
    """Shards of one history.

    trust       by coordinator: up to which row its rows are those of the ledger
    patience    seconds after which a shard that is down is left out; None: never
    """

    def __init__(
        self,
        backend: ShardBackend,
        placement: Placement,
        *,
        epoch: int,
        coordinator: str,
        trust: Mapping[str, int],
        ahead: int,
        patience: float | None,
    ) -> None:
        self.backend = backend
        self.placement = placement
        self.ahead = ahead
        self.patience = patience
        self._epoch = epoch
        self._coordinator = coordinator
        self._trust = dict(trust)
        count = placement.shards
        self._attempts = [0] * count
        self._opened = [False] * count
        self._valid_rows = [0] * count  # rows of each that are known to be right
        self._down_since: dict[int, float] = {}  # shards that are down, and since when
        self.incomplete_ranges: list[IncompleteRange] = []
        self.on_incomplete: Callable[[IncompleteRange], None] | None = None
        """Told of rows that are about to be answered without a shard."""
        self.recoveries = 0
        self.replayed = 0
        self.replay_seconds = 0.0

    def attach_history(self, history: History, spec: ShardSpec) -> None:
        """These are the rows that shards are to have; what they have is looked at again."""
        self._history = history
        self._spec = spec
        self._opened = [False] * len(self._opened)

    def distrust_from(self, rows: int) -> None:
        """A call was cut off: what shards have from row `rows` on may be anything."""
        for shard in range(self.placement.shards):
            self._opened[shard] = False
            self._valid_rows[shard] = min(
                self._valid_rows[shard], self.placement.count_rows(shard, rows)
            )

    def record_incomplete(self, ask: ShardRequest) -> None:
        """Rows were judged without some shards, which are to be asked when they are back."""
        for shard in sorted(ask.absent):
            owed = IncompleteRange(ask.first, ask.stop, shard)
            if self.on_incomplete is not None:
                self.on_incomplete(owed)
            self.incomplete_ranges.append(owed)

    def shards_with_rows(self, row: int) -> list[int]:
        """The shards that hold rows below one."""
        first, held = self._history.first, self.placement.count_rows
        return [
            shard for shard in range(self.placement.shards) if held(shard, row) > held(shard, first)
        ]

    def count_missing_rows(self, ask: ShardRequest) -> int:
        """How many rows an ask was not compared with."""
        held, first = self.placement.count_rows, self._history.first
        return sum(held(shard, ask.first) - held(shard, first) for shard in ask.absent)

    def close(self, *, keep: bool) -> None:
        """Let go of the shards; end those of this ledger, unless they are to be kept."""
        if not keep:
            for shard in range(self.placement.shards):
                self.backend.end(shard, {self._coordinator, *self._trust})
        self.backend.close()

    # Asking

    def exchange(
        self, asks: Iterable[ShardRequest]
    ) -> Iterator[tuple[ShardRequest, dict[int, Any]]]:
        """Each ask with what every shard answered, in order, while the next are under way."""
        waiting: deque[ShardRequest] = deque()
        for ask in asks:
            waiting.append(ask)
            for shard in ask.calls:
                self._send(shard, ask)
            if len(waiting) >= self.ahead:
                yield self._gather(waiting)
        while waiting:
            yield self._gather(waiting)

    def ask(self, ask: ShardRequest) -> dict[int, Any]:
        """What every shard answers to a single ask."""
        ((_, answers),) = self.exchange([ask])
        return answers

    def _send(self, shard: int, ask: ShardRequest) -> None:
        if not self._opened[shard] and not self._recover(shard, ask.first):
            ask.absent.add(shard)
            return
        name, *given = ask.calls[shard]
        held = self.placement.count_rows(shard, ask.first)
        ask.handles[shard] = self.backend.send(shard, name, self._session(shard), held, *given)

    def _gather(self, waiting: deque[ShardRequest]) -> tuple[ShardRequest, dict[int, Any]]:
        """Wait for the oldest of those that are under way."""
        ask, answers = waiting[0], {}
        for shard in reversed(ask.calls):  # the first has most to do: meanwhile others are heard
            while shard not in ask.absent and shard not in answers:
                try:
                    patience = self._patience_for(ask.stop) if ask.builds else self.patience
                    answers[shard] = self.backend.result(ask.handles[shard], patience)
                except (ShardDown, OutOfStep) as error:
                    self._recover_and_resend(shard, waiting, error)
            if shard not in ask.absent:
                self._valid_rows[shard] = self.placement.count_rows(shard, ask.stop)
        waiting.popleft()
        return ask, answers

    def _recover_and_resend(
        self, shard: int, waiting: Iterable[ShardRequest], error: Exception
    ) -> None:
        """Bring a shard back and send it again what it has not answered."""
        logger.info("shard %d did not answer (%s): it is brought back", shard, type(error).__name__)
        self._opened[shard] = False
        for ask in waiting:
            if shard in ask.calls:
                self._send(shard, ask)
        self.recoveries += 1

    # Bringing a shard back

    def _session(self, shard: int) -> Session:
        return Session(self._epoch, self._coordinator, self._attempts[shard])

    def _recover(self, shard: int, row: int) -> bool:
        """Have a shard with exactly its rows below `row`; False if it is left out instead."""
        since = self._down_since.get(shard)
        now = time.monotonic()
        if since is not None and now < since + _AGAIN:
            return False
        patience = self.patience if since is None else 0.0
        while True:
            left = None if patience is None else patience - (time.monotonic() - now)
            try:
                self.backend.ensure_running(shard, None if left is None else max(left, _PAUSE))
                self._open(shard, row)
            except (ShardDown, OutOfStep):
                if left is not None and left <= 0:
                    logger.warning("shard %d is down, and is left out", shard)
                    self._down_since[shard] = time.monotonic()
                    return False
                time.sleep(_PAUSE)
            else:
                self._down_since.pop(shard, None)
                self._opened[shard] = True
                return True

    def _open(self, shard: int, row: int) -> None:
        held = self.placement.count_rows
        wanted, begin = held(shard, row), held(shard, min(self._history.first, row))
        right = min(self._valid_rows[shard], wanted)
        trust = {name: min(held(shard, rows), wanted) for name, rows in self._trust.items()}
        trust[self._coordinator] = right
        gone = self._find_forgotten(shard, begin, max(trust.values()))
        self._attempts[shard] += 1
        given = self._session(shard), self._spec, trust, begin, gone
        opening = self.backend.send(shard, "open", *given)
        there = self.backend.result(opening, self._patience_for(max(trust.values())))
        if there < wanted:
            logger.info("shard %d gets rows %d to %d of its own", shard, there, wanted)
            self._replay(shard, there, wanted)
        self._valid_rows[shard] = wanted

    def _patience_for(self, rows: int) -> float | None:
        """How long to wait for a call that may make an index of so many rows."""
        return None if self.patience is None else self.patience + rows * _BUILD_SECONDS

    def _find_forgotten(self, shard: int, first: int, stop: int) -> Rows:
        """Which of a shard's own rows from `first` up to `stop` are forgotten."""
        history = self._history
        if history.live >= history.total - history.first:
            return np.empty(0, np.int64)
        parts = [np.empty(0, np.int64)]
        for start in range(first, stop, _LOOKED_AT):
            local = np.arange(start, min(start + _LOOKED_AT, stop))
            parts.append(local[self._read_alive(self.placement.to_global(shard, local)) == 0])
        return np.concatenate(parts)

    def _read_alive(self, rows: Rows) -> Any:
        """One for each row that is remembered or written behind the history, 0 for the others."""
        most = int(rows.max(initial=-1)) + 1
        return self._history.region(t.ALIVE).view(np.uint8, most)[rows]

    def _replay(self, shard: int, first: int, stop: int) -> None:
        """Send a shard rows of its own, as the history has them."""
        history, backend, began = self._history, self.backend, time.monotonic()
        some = max(256, _REPLAY_BYTES // max(history.row_bytes, 1))
        under_way: deque[Any] = deque()
        for start in range(first, stop, some):
            local = np.arange(start, min(start + some, stop))
            rows = self.placement.to_global(shard, local)
            inputs, outputs = history.rows[rows], read_outputs(history, rows)
            history.note_touched(len(rows))
            gone = self._read_alive(rows) == 0
            if gone.any():  # anything that is admitted will do
                inputs[gone], outputs[gone] = 1, 0
                outputs[gone, 0] = history.rule.output == "probabilities"
            given = inputs, outputs, local[gone]
            under_way.append(backend.send(shard, "add", self._session(shard), start, *given))
            while len(under_way) > self.ahead:
                backend.result(under_way.popleft(), self.patience)
        for handle in under_way:
            backend.result(handle, self.patience)
        building = backend.send(shard, "build", self._session(shard), stop)
        backend.result(building, self._patience_for(stop))
        self.replayed += stop - first
        self.replay_seconds += time.monotonic() - began


def read_outputs(history: History, rows: Rows) -> Any:
    """Outputs as numbers, of rows that are remembered or written behind the history."""
    most, width = int(rows.max(initial=-1)) + 1, history.out_width
    numbers = history.region(t.OUTPUTS).view(np.float64, most * width)
    return numbers.reshape(most, width)[rows]
