"""A shard is an engine over some rows of a history, and answers one coordinator at a time.

Invariant: its answers depend on the rows that it was sent, in this order, and on nothing else. A
call that it refuses has changed nothing.
Cost: the memory of an engine over its rows.
Not here: where it runs (on_ray.py), which rows it gets (placement.py).
"""

import os
from typing import Any

import numpy as np

from likewise.search.engine.row_engine import Answers, Inputs, RowEngine
from likewise.search.outputs import outputs_of
from likewise.sharding.protocol import Fenced, OutOfStep, Session, ShardSpec, Trust
from likewise.tables.array_types import Floats, Rows


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

    def add(
        self, session: Session, held: int, inputs: Inputs, outputs: Floats, gone: Rows | None = None
    ) -> None:
        """Remember rows without judging them; `gone` names those that are forgotten already."""
        self._require_engine(session, held).add(inputs, outputs, gone)

    def build(self, session: Session, held: int) -> None:
        """Build the index after rows were added."""
        self._require_engine(session, held).build()

    def judge(self, session: Session, held: int, inputs: Inputs, outputs: Floats) -> Answers:
        """Remember rows; return the witnesses of each among the rows before it."""
        return compact_answers(self._require_engine(session, held).judge(inputs, outputs))

    def search(
        self,
        session: Session,
        held: int,
        inputs: Inputs,
        outputs: Floats,
        before: Rows | None = None,
    ) -> Answers:
        """Return the witnesses of each point among all rows, or among those below `before`."""
        return compact_answers(self._require_engine(session, held).search(inputs, outputs, before))

    def find_comparable(
        self,
        session: Session,
        held: int,
        inputs: Inputs,
        outputs: Floats,
        likes: Rows,
        sinces: Rows,
        first: int | None,
    ) -> Rows:
        """Return a comparable row of each point; with `first` the points are rows from there on."""
        engine = self._require_engine(session, held)
        return engine.find_comparable_rows(inputs, outputs, likes, sinces, first)

    def find_near(
        self, session: Session, held: int, inputs: Inputs, outputs: Floats, before: int
    ) -> Rows:
        """Return all rows below `before` that are near a point, whatever their outputs."""
        return self._require_engine(session, held).find_near_points(inputs, outputs, before)

    def forget(self, session: Session, held: int, rows: Rows) -> None:
        """Forget rows; those that are forgotten already stay so."""
        self._require_engine(session, held).forget(rows)

    def owner(self) -> str | None:
        """Return the coordinator whose calls it answers."""
        return None if self._session is None else self._session.coordinator

    def process(self) -> int:
        """Return the id of its process."""
        return os.getpid()

    def call(self, name: str, *arguments: Any) -> Any:
        """Make one of the calls above, by its name."""
        return getattr(self, name)(*arguments)
