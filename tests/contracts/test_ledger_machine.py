"""Any life of a ledger, beside an oracle of a few lines: what it answers and what it keeps."""

import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import settings
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

import likewise as lw
from tests.support.strategies import examples

RULE = lw.Rule("linf", 0.1)
points = st.tuples(st.integers(0, 4), st.integers(0, 3)).map(lambda p: (p[0] / 10, p[1] / 10))
decisions = st.tuples(points, st.sampled_from("ab"))


@dataclass
class Row:
    x: tuple[float, float]
    z: str
    key: str | None
    witnesses: list[int]
    alive: bool = True
    erased: bool = False
    reviews: list[str] = field(default_factory=list)


class LedgerLife(RuleBasedStateMachine):
    """Every call is made on a ledger and on a list of rows."""

    @initialize()
    def begin(self):
        self.home = Path(tempfile.mkdtemp())
        self.places = 0
        self.path = self.home / "0"
        self.rows: list[Row] = []
        self.monitor = lw.open(self.path, RULE)

    def judged(self, x, z):
        """The rows that contradict (x, z) now."""
        reach = RULE.epsilon * (1 + 1e-9)
        return [
            i
            for i, row in enumerate(self.rows)
            if row.alive and row.z != z and np.abs(np.subtract(row.x, x)).max() <= reach
        ]

    def take(self, x, z, key):
        self.rows.append(Row(x, z, key, self.judged(x, z)))
        return self.rows[-1].witnesses

    def key(self):
        return f"case {len(self.rows)}"

    @rule(decision=decisions, keyed=st.booleans())
    def observe(self, decision, keyed):
        (x, z), key = decision, self.key() if keyed else None
        verdict = self.monitor.observe(x, z, key=key)
        assert verdict.row == len(self.rows)
        assert verdict.witnesses.rows.tolist() == self.take(x, z, key)

    @rule(some=st.lists(decisions, min_size=1, max_size=6))
    def observe_many(self, some):
        keys = [f"{self.key()}.{i}" for i in range(len(some))]
        verdicts = self.monitor.observe_many([x for x, _ in some], [z for _, z in some], keys=keys)
        for verdict, (x, z), key in zip(verdicts, some, keys, strict=True):
            assert verdict.witnesses.rows.tolist() == self.take(x, z, key)

    @rule(some=st.lists(decisions, min_size=1, max_size=6))
    def submit(self, some):
        answers = [self.monitor.submit(x, z) for x, z in some]
        for answer, (x, z) in zip(answers, some, strict=True):
            assert answer.result().witnesses.rows.tolist() == self.take(x, z, None)

    @precondition(lambda self: any(row.key and row.alive for row in self.rows))
    @rule(data=st.data())
    def observe_again(self, data):
        """A decision that is sent again gets its answer again."""
        known = [i for i, row in enumerate(self.rows) if row.key and row.alive]
        i = data.draw(st.sampled_from(known))
        row = self.rows[i]
        again = self.monitor.observe(row.x, row.z, key=row.key)
        assert (again.row, again.repeated, again.count) == (i, True, len(row.witnesses))
        assert set(again.witnesses.rows.tolist()) <= set(row.witnesses)

    @precondition(lambda self: self.rows)
    @rule(data=st.data())
    def erase(self, data):
        i = data.draw(st.integers(0, len(self.rows) - 1))
        successors = [i]
        with lw.Ledger(self.path) as ledger:
            for told in ledger.supersessions():
                if told.row in successors:
                    successors.append(told.by_row)
        self.monitor.erase(rows=[i])
        for gone in successors:
            row = self.rows[gone]
            row.alive, row.erased = False, True
            row.key = None

    @precondition(lambda self: any(row.key and row.alive for row in self.rows))
    @rule(data=st.data(), z=st.sampled_from("ab"))
    def supersede(self, data, z):
        known = [i for i, row in enumerate(self.rows) if row.key and row.alive]
        i = data.draw(st.sampled_from(known))
        verdict = self.monitor.ledger.supersede(self.rows[i].key, z, by="desk", why="an appeal")
        self.rows[i].alive = False
        assert verdict.witnesses.rows.tolist() == self.take(self.rows[i].x, z, None)

    @precondition(lambda self: any(row.witnesses for row in self.rows))
    @rule(data=st.data(), disposition=st.sampled_from(["error", "unfair", "open"]))
    def review(self, data, disposition):
        i = data.draw(st.sampled_from([i for i, row in enumerate(self.rows) if row.witnesses]))
        self.monitor.ledger.review(i, None, disposition, reason="looked at", reviewer="desk")
        self.rows[i].reviews.append(disposition)

    @rule()
    def reopen(self):
        self.monitor.close()
        self.monitor = lw.open(self.path)

    @rule()
    def crash(self):
        """What is on disk right now is all that there is."""
        self.places += 1
        left = self.home / str(self.places)
        shutil.copytree(self.path, left)
        self.monitor.close()
        self.path = left
        self.monitor = lw.open(self.path)

    @rule()
    def migrate(self):
        self.monitor.close()
        self.places += 1
        new = self.home / str(self.places)
        lw.migrate(self.path, new)
        self.path = new
        self.monitor = lw.open(self.path)

    @rule()
    def back_up(self):
        copy = self.home / "copy"
        shutil.rmtree(copy, ignore_errors=True)
        lw.back_up(self.path, copy)
        with lw.Ledger(copy) as ledger:
            assert ledger.rows == len(self.rows)

    @invariant()
    def has_the_rows(self):
        if hasattr(self, "rows"):
            assert self.monitor.rows == len(self.rows)
            assert len(self.monitor) == sum(row.alive for row in self.rows)

    def teardown(self):
        if not hasattr(self, "rows"):
            return
        self.monitor.close()
        with lw.Ledger(self.path) as ledger:
            verified = ledger.verify()
            assert verified.ok, verified
            for entry, row in zip(ledger.entries(), self.rows, strict=True):
                assert entry.count == len(row.witnesses)
                assert {one.row for one in entry.nearest} <= set(row.witnesses)
                assert len(entry.nearest) == min(3, len(row.witnesses))
                assert (entry.key, entry.erased) == (row.key, row.erased)
                assert entry.output == (None if row.erased else row.z)
            for mark in ("error", "unfair"):
                marked = [e.row for e in ledger.violations(review=mark)]
                assert marked == [
                    i for i, row in enumerate(self.rows) if row.reviews[-1:] == [mark]
                ]
        again = lw.replay(self.path)
        assert again.ok, again
        shutil.rmtree(self.home)


@pytest.mark.long
def test_ledger_equals_the_oracle_through_any_life():
    budget = settings(max_examples=examples(10), stateful_step_count=15, deadline=None)
    run_state_machine_as_test(LedgerLife, settings=budget)
