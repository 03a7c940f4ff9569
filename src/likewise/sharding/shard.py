"""A shard is an engine over some rows of a history, and answers one coordinator at a time.

Invariant: its answers depend on the rows that it was sent, in this order, and on nothing else. A
call that it refuses has changed nothing.
Cost: the memory of an engine over its rows.
Not here: where it runs (on_ray.py), which rows it gets (placement.py).
"""

import os
from collections.abc import Callable
from typing import Any

import numpy as np

from likewise.search.engine.row_engine import Answers, RowEngine
from likewise.search.outputs import outputs_of
from likewise.sharding.protocol import Fenced, OutOfStep, Session, ShardSpec, Trust
from likewise.tables.array_types import Rows


def compact_answers(answers: Answers) -> Answers:
    """Return answers in fewer bytes, to be sent."""
    counts, rows, near, far = answers
    if len(rows) and rows.max() <= np.iinfo(np.int32).max:
        rows = rows.astype(np.int32)
    if len(far) > 1 and (far == far[0]).all():
        far = far[:1].copy()
    return counts, rows, near, far


def expand_answers(answers: Answers) -> Answers:
    """Return what `compact_answers` was given."""
    counts, rows, near, far = answers
    if len(far) != len(near):
        far = np.full(len(near), far[0])
    return counts, rows.astype(np.int64, copy=False), near, far


def _forward(call: Callable[..., Any], pack: Callable[[Any], Any] | None = None) -> Any:
    """Return a method that has the engine make a call, if session and rows are as expected."""

    def method(self: "Shard", session: Session, held: int, *arguments: Any) -> Any:
        answer = call(self._require_engine(session, held), *arguments)
        return answer if pack is None else pack(answer)

    return method


class Shard:
    """Searches rows, numbered from 0 in their order."""

    def __init__(self) -> None:
        self._session: Session | None = None
        self._spec: ShardSpec | None = None
        self._engine: RowEngine | None = None

    def ping(self) -> int:
        """Return how many rows it has had."""
        return self._rows

    @property
    def _rows(self) -> int:
        return 0 if self._engine is None else self._engine.rows

    def open(self, session: Session, spec: ShardSpec, trust: Trust, begin: int, gone: Rows) -> int:
        """Answer this session from now on; return how many rows can be relied on.

        trust   by coordinator: how many of the rows that came from it are right
        begin   rows before this one are forgotten
        gone    further rows that are forgotten
        """
        session, current = Session(*session), self._session
        if current is not None and current.coordinator != session.coordinator:
            if session.epoch <= current.epoch:
                raise Fenced(
                    f"a coordinator of epoch {current.epoch} has these shards, and this one has"
                    f" epoch {session.epoch}: the ledger is open elsewhere, or is an older copy of"
                    " one that was. Close this one; where an older copy is meant to go on, open it"
                    " with another `name`."
                )
        elif current is not None and session.attempt <= current.attempt:
            raise OutOfStep("an opening that was overtaken")
        trusted = 0 if current is None else trust.get(current.coordinator, 0)
        rows = min(trusted, self._rows)
        self._session = session
        if spec != self._spec or rows <= begin:
            self._start_empty(spec, begin)
        else:
            self._truncate(rows, begin, gone)
        return self._rows

    def _start_empty(self, spec: ShardSpec, begin: int) -> None:
        """Drop all rows; the next one is number `begin`."""
        engine = RowEngine(spec.rule, index=spec.index)
        outputs = outputs_of(spec.rule, np.zeros(spec.out_width))
        engine.begin(spec.shape, spec.storage, outputs)
        engine.begin_at(begin)
        self._spec, self._engine = spec, engine

    def _truncate(self, rows: int, begin: int, gone: Rows) -> None:
        """Keep the first `rows` rows, without those that are forgotten."""
        engine = self._engine
        assert engine is not None
        if engine.rows != rows or engine.in_doubt:
            engine.settle(rows)
        history = engine.history
        assert history is not None
        early = np.flatnonzero(history.remembered_flags()[history.first : begin]) + history.first
        engine.forget(np.union1d(early, gone[gone < rows]))

    def _require_engine(self, session: Session, expected_rows: int) -> RowEngine:
        """Return the engine; raise OutOfStep if the session or the rows are not those expected."""
        if self._session is None or self._engine is None or Session(*session) != self._session:
            raise OutOfStep(f"the session is {self._session}, not {session}")
        if self._engine.rows != expected_rows or self._engine.in_doubt:
            raise OutOfStep(f"there are {self._engine.rows} rows, not {expected_rows}")
        return self._engine

    # What the engine answers, after a session and the number of rows that are expected; RowEngine
    # says what each does. Witnesses are sent in fewer bytes.
    add = _forward(RowEngine.add)
    build = _forward(RowEngine.build)
    judge = _forward(RowEngine.judge, compact_answers)
    search = _forward(RowEngine.search, compact_answers)
    find_comparable = _forward(RowEngine.find_comparable_rows)
    count_agreeing = _forward(RowEngine.count_agreeing_rows)
    find_near = _forward(RowEngine.find_near_points)
    forget = _forward(RowEngine.forget)

    def owner(self) -> str | None:
        """Return the coordinator whose calls it answers."""
        return None if self._session is None else self._session.coordinator

    def process(self) -> int:
        """Return the id of its process."""
        return os.getpid()

    def call(self, name: str, *arguments: Any) -> Any:
        """Make one of the calls above, by its name."""
        return getattr(self, name)(*arguments)
