"""A monitor beside the oracle through any sequence of calls that Hypothesis can think of."""

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

import likewise as lw
from tests.support.oracle import Oracle, assert_same_verdict, assert_same_verdicts
from tests.support.strategies import Tally, examples, streams

SEEDS = st.integers(0, 2**32 - 1)
SIZES = st.sampled_from((0, 1, 2, 10, 50, 100, 128, 129, 200, 300))


class MonitorBesideOracle(RuleBasedStateMachine):
    """Decisions come from a drawn stream, in any order and with repetition."""

    tally: Tally

    @initialize(
        stream=streams(most=300),
        index=st.sampled_from(("auto", "live")),
        past=st.sampled_from((0, 5, 100, 250, 500)),
        seed=SEEDS,
    )
    def start(self, stream, index, past, seed):
        self.stream = stream
        self.monitor, self.oracle = lw.Monitor(stream.rule, index=index), Oracle(stream.rule)
        self.issued = 0
        self.expected = []
        self.load(seed, past)
        self.observe(seed + 1, 30 if past else 0)

    def some(self, seed, size):
        picks = np.random.default_rng(seed).integers(len(self.stream), size=size)
        return self.stream.X[picks], [self.stream.Z[pick] for pick in picks]

    @rule(seed=SEEDS, size=st.sampled_from((1, 2, 40)))
    def observe(self, seed, size):
        for x, z in zip(*self.some(seed, size), strict=True):
            self.expected.append(self.oracle.observe(x, z))
            assert_same_verdict(self.monitor.observe(x, z), self.expected[-1])
        self.issued += size

    @rule(seed=SEEDS)
    def check(self, seed):
        (x,), (z,) = self.some(seed, 1)
        self.expected.append(self.oracle.check(x, z))
        assert_same_verdict(self.monitor.check(x, z), self.expected[-1])

    @rule(seed=SEEDS, size=SIZES, threads=st.sampled_from((None, 1, 2, 3)))
    def observe_many(self, seed, size, threads):
        X, Z = self.some(seed, size)
        expected = self.oracle.observe_many(X, Z)
        assert_same_verdicts(self.monitor.observe_many(X, Z, threads=threads), expected)
        self.expected += expected
        self.issued += size

    @rule(seed=SEEDS, size=SIZES)
    def load(self, seed, size):
        X, Z = self.some(seed, size)
        rows = range(self.issued, self.issued + size)
        assert list(self.monitor.load(X, Z)) == list(self.oracle.load(X, Z)) == list(rows)
        self.issued += size

    @rule(seed=SEEDS, share=st.sampled_from((0.01, 0.2, 0.9)), oldest=st.booleans())
    def forget(self, seed, share, oldest):
        rows = np.flatnonzero(np.random.default_rng(seed).random(self.issued) < share)
        if oldest:
            rows = np.arange(rows.size)
        assert self.monitor.forget(rows) == self.oracle.forget(rows)

    @rule(seed=SEEDS, bad=st.sampled_from((np.nan, np.inf, "text", "output", "batch", "row")))
    def refuse(self, seed, bad):
        (x,), (z,) = self.some(seed, 1)
        if bad == "row":
            known = [0] if self.issued else []
            with pytest.raises(lw.errors.BadRow):
                self.monitor.forget([*known, self.issued + seed % 10])
        elif bad == "batch":
            X, Z = self.some(seed, 1 + seed % 150)
            X = X.astype(float)
            X[seed % len(X), seed % X.shape[1]] = np.nan
            for call in (self.monitor.observe_many, self.monitor.load):
                with pytest.raises(lw.errors.BadDecision):
                    call(X, Z)
        else:
            if bad == "output":
                nonsense = {"label": [], "number": float("nan"), "probabilities": [0.2, 0.2]}
                z = nonsense[self.stream.rule.output]
            else:
                x = x.tolist()
                x[seed % len(x)] = bad
            for call in (self.monitor.observe, self.monitor.check):
                with pytest.raises(lw.errors.BadDecision):
                    call(x, z)

    @invariant()
    def remembers_as_many_as_the_oracle(self):
        if hasattr(self, "monitor"):
            assert len(self.monitor) == len(self.oracle)
            assert self.issued == len(self.oracle.outputs)

    def teardown(self):
        if hasattr(self, "expected"):
            self.tally.note(self.expected)


def test_monitor_equals_the_oracle_through_any_sequence_of_calls():
    class Counted(MonitorBesideOracle):
        tally = Tally()

    budget = settings(max_examples=examples(50), stateful_step_count=25, deadline=None)
    run_state_machine_as_test(Counted, settings=budget)
    Counted.tally.assert_enough(share=0.3)
