"""Calls shards: sends requests ahead, gathers answers in order, brings lost shards back.

A shard that does not answer, or has other rows than it should, is opened again, is sent the rows
that it lacks, and then whatever it had not answered.
Invariant: every answer comes from a shard that has exactly the rows it should have before the call.
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
from likewise.tables.array_types import Rows

_REPLAY_BYTES = 4 << 20  # of rows sent together to a shard that lacks them
_SCAN_ROWS = 1 << 20  # rows that are searched together for forgotten ones
_BUILD_SECONDS = 20e-6  # for each row: as long as a slow machine may take to build an index of it
_PAUSE_SECONDS = 0.05  # between two attempts at a shard that is down
_RETRY_SECONDS = 1.0  # after which a shard that was left out is tried again

ShardCall = tuple[Any, ...]
"""The name of a method of `Shard`, and its arguments behind session and rows."""


@dataclass
class ShardRequest:
    """Is one call of several shards, and says what has become of it.

    first       shards must have the rows below it before the call
    stop        shards have the rows below it afterwards
    """

    first: int
    stop: int
    calls: dict[int, ShardCall]
    builds: bool = False
    """Whether shards build an index of their rows, which may take long."""
    handles: dict[int, Any] = field(default_factory=dict)
    absent: set[int] = field(default_factory=set)
    """Shards that were down, and are left out."""


class IncompleteRange(NamedTuple):
    """Names rows from `first` up to `stop` that were judged without a shard."""

    first: int
    stop: int
    shard: int


@dataclass
class _ShardState:
    """Says what is known about one shard."""

    attempts: int = 0
    """How often this coordinator has opened it."""
    is_open: bool = False
    valid_rows: int = 0
    """How many of its rows are known to be right."""
    down_since: float | None = None
    """When it was last found to be down; None while it is up."""


class Fleet:
    """Calls the shards of one history.

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
        self._states = [_ShardState() for _ in range(placement.shards)]
        self.incomplete_ranges: list[IncompleteRange] = []
        self.on_incomplete: Callable[[IncompleteRange], None] | None = None
        """Called with rows that are about to be answered without a shard."""
        self.recoveries = 0
        self.replayed = 0
        self.replay_seconds = 0.0

    def attach_history(self, history: History, spec: ShardSpec) -> None:
        """Set the rows that shards are to have; each shard is opened again."""
        self._history = history
        self._spec = spec
        for state in self._states:
            state.is_open = False

    def distrust_from(self, rows: int) -> None:
        """Trust no rows of shards from row `rows` on, since a call was cut off."""
        for shard, state in enumerate(self._states):
            state.is_open = False
            state.valid_rows = min(state.valid_rows, self.placement.count_rows(shard, rows))

    def record_incomplete(self, request: ShardRequest) -> None:
        """Record that rows were judged without some shards, to ask these when they are back."""
        for shard in sorted(request.absent):
            incomplete = IncompleteRange(request.first, request.stop, shard)
            if self.on_incomplete is not None:
                self.on_incomplete(incomplete)
            self.incomplete_ranges.append(incomplete)

    def _count_remembered(self, shard: int, row: int) -> int:
        """Count the rows of a shard below `row`, from the first of the history on."""
        count_rows = self.placement.count_rows
        return count_rows(shard, row) - count_rows(shard, self._history.first)

    def shards_with_rows(self, row: int) -> list[int]:
        """Return the shards that hold rows below `row`."""
        shards = range(self.placement.shards)
        return [shard for shard in shards if self._count_remembered(shard, row) > 0]

    def count_missing_rows(self, request: ShardRequest, row: int) -> int:
        """Count the rows below `row` that a request was not compared with."""
        return sum(self._count_remembered(shard, row) for shard in request.absent)

    def close(self, *, keep: bool) -> None:
        """Let go of the shards; end those of this ledger, unless they are to be kept."""
        if not keep:
            for shard in range(self.placement.shards):
                self.backend.end(shard, {self._coordinator, *self._trust})
        self.backend.close()

    # Asking

    def exchange(
        self, requests: Iterable[ShardRequest]
    ) -> Iterator[tuple[ShardRequest, dict[int, Any]]]:
        """Yield each request with its answers, in order, while later ones are under way."""
        waiting: deque[ShardRequest] = deque()
        for request in requests:
            waiting.append(request)
            for shard in request.calls:
                self._send(shard, request)
            if len(waiting) >= self.ahead:
                yield self._gather(waiting)
        while waiting:
            yield self._gather(waiting)

    def ask(self, request: ShardRequest) -> dict[int, Any]:
        """Return what every shard answers to a single request."""
        ((_, answers),) = self.exchange([request])
        return answers

    def _send(self, shard: int, request: ShardRequest) -> None:
        if not self._states[shard].is_open and not self._recover(shard, request.first):
            request.absent.add(shard)
            return
        name, *arguments = request.calls[shard]
        rows = self.placement.count_rows(shard, request.first)
        request.handles[shard] = self._call(shard, name, rows, *arguments)

    def _call(self, shard: int, name: str, *arguments: Any) -> Any:
        """Send a call of the current session; return its handle."""
        session = Session(self._epoch, self._coordinator, self._states[shard].attempts)
        return self.backend.send(shard, name, session, *arguments)

    def _gather(self, waiting: deque[ShardRequest]) -> tuple[ShardRequest, dict[int, Any]]:
        """Wait for the oldest of the requests that are under way."""
        request, answers = waiting[0], {}
        patience = self._patience_for(request.stop) if request.builds else self.patience
        for shard in reversed(request.calls):  # the first has most to do: hear others meanwhile
            while shard not in request.absent and shard not in answers:
                try:
                    answers[shard] = self.backend.result(request.handles[shard], patience)
                except (ShardDown, OutOfStep) as error:
                    self._recover_and_resend(shard, waiting, error)
            if shard not in request.absent:
                self._states[shard].valid_rows = self.placement.count_rows(shard, request.stop)
        waiting.popleft()
        return request, answers

    def _recover_and_resend(
        self, shard: int, waiting: Iterable[ShardRequest], error: Exception
    ) -> None:
        """Bring a shard back and send it again what it has not answered."""
        logger.info("shard %d did not answer (%s): it is brought back", shard, type(error).__name__)
        self._states[shard].is_open = False
        for request in waiting:
            if shard in request.calls:
                self._send(shard, request)
        self.recoveries += 1

    # Bringing a shard back

    def _recover(self, shard: int, row: int) -> bool:
        """Have a shard with exactly its rows below `row`; return False if it is left out."""
        state, now = self._states[shard], time.monotonic()
        if state.down_since is not None and now < state.down_since + _RETRY_SECONDS:
            return False
        patience = self.patience if state.down_since is None else 0.0
        while True:
            left = None if patience is None else patience - (time.monotonic() - now)
            wait_seconds = None if left is None else max(left, _PAUSE_SECONDS)
            try:
                self.backend.ensure_running(shard, wait_seconds)
                self._open(shard, row)
            except (ShardDown, OutOfStep):
                if left is not None and left <= 0:
                    logger.warning("shard %d is down, and is left out", shard)
                    state.down_since = time.monotonic()
                    return False
                time.sleep(_PAUSE_SECONDS)
            else:
                state.down_since, state.is_open = None, True
                return True

    def _open(self, shard: int, row: int) -> None:
        count_rows, state = self.placement.count_rows, self._states[shard]
        stop, begin = count_rows(shard, row), count_rows(shard, min(self._history.first, row))
        trust = {name: min(count_rows(shard, rows), stop) for name, rows in self._trust.items()}
        trust[self._coordinator] = min(state.valid_rows, stop)
        trusted_rows = max(trust.values())
        forgotten = self._find_forgotten(shard, begin, trusted_rows)
        state.attempts += 1
        opening = self._call(shard, "open", self._spec, trust, begin, forgotten)
        rows = self.backend.result(opening, self._patience_for(trusted_rows))
        if rows < stop:
            logger.info("shard %d gets rows %d to %d of its own", shard, rows, stop)
            self._replay(shard, rows, stop)
        state.valid_rows = stop

    def _patience_for(self, rows: int) -> float | None:
        """Return how long to wait for a call that may build an index of so many rows."""
        return None if self.patience is None else self.patience + rows * _BUILD_SECONDS

    def _find_forgotten(self, shard: int, first: int, stop: int) -> Rows:
        """Return which of a shard's own rows from `first` up to `stop` are forgotten."""
        history = self._history
        parts = [np.empty(0, np.int64)]
        if history.live < history.total - history.first:
            for start in range(first, stop, _SCAN_ROWS):
                local = np.arange(start, min(start + _SCAN_ROWS, stop))
                parts.append(local[self._read_alive(self.placement.to_global(shard, local)) == 0])
        return np.concatenate(parts)

    def _read_alive(self, rows: Rows) -> Any:
        """Return 1 for each row that is remembered or written behind the history, else 0."""
        most = int(rows.max(initial=-1)) + 1
        return self._history.region(t.ALIVE).view(np.uint8, most)[rows]

    def _replay(self, shard: int, first: int, stop: int) -> None:
        """Send a shard rows of its own, as the history has them."""
        history, backend, began = self._history, self.backend, time.monotonic()
        step = max(256, _REPLAY_BYTES // max(history.row_bytes, 1))
        under_way: deque[Any] = deque()
        for start in range(first, stop, step):
            local = np.arange(start, min(start + step, stop))
            rows = self.placement.to_global(shard, local)
            inputs, outputs = history.rows[rows], read_outputs(history, rows)
            history.note_touched(len(rows))
            forgotten = self._read_alive(rows) == 0
            if forgotten.any():  # their values are gone: anything that is admitted will do
                inputs[forgotten], outputs[forgotten] = 1, 0
                outputs[forgotten, 0] = history.rule.output == "probabilities"
            under_way.append(self._call(shard, "add", start, inputs, outputs, local[forgotten]))
            while len(under_way) > self.ahead:
                backend.result(under_way.popleft(), self.patience)
        for handle in under_way:
            backend.result(handle, self.patience)
        backend.result(self._call(shard, "build", stop), self._patience_for(stop))
        self.replayed += stop - first
        self.replay_seconds += time.monotonic() - began


def read_outputs(history: History, rows: Rows) -> Any:
    """Return outputs as numbers, for rows that are remembered or written behind the history."""
    most, width = int(rows.max(initial=-1)) + 1, history.out_width
    numbers = history.region(t.OUTPUTS).view(np.float64, most * width)
    return numbers.reshape(most, width)[rows]
