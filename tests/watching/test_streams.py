"""Answers are those of the model, verdicts those of a monitor that is told the same by hand."""

from functools import cache

import numpy as np
from hypothesis import strategies as st

import likewise as lw
from likewise.watching.watch_records import Counts
from tests.support.looping import each
from tests.support.strategies import METRICS, Tally, prove, streams
from tests.watching.models import same


@cache
def replayed_class():
    """Make the class with the first test that needs it."""
    from sklearn.base import BaseEstimator

    class Replayed(BaseEstimator):
        """A model that answers what a stream says, in order, and notes the very objects."""

        def __init__(self, Z=None):
            self.Z = Z
            self.at = 0
            self.answered = []

        def predict(self, X):
            stop = self.at + len(X)
            self.answered.append(self.Z[self.at : stop])
            self.at = stop
            return self.answered[-1]

        predict_proba = predict

        def one(self, x):
            answer = self.predict([x])[0]
            self.answered[-1] = answer
            return answer

    return Replayed


@each("metric", METRICS)
@each("how", ["single", "batched", "estimator"])
def test_watching_changes_no_answer_and_finds_what_a_monitor_finds(metric, how):
    tally = Tally()

    @prove(
        30,
        stream=streams(metric, most=60, widths=(1, 2, 3, 8)),
        sizes=st.lists(st.sampled_from((1, 1, 2, 7, 30)), min_size=1, max_size=9),
    )
    def holds(stream, sizes):
        X, Z, rule = stream.X, stream.Z, stream.rule
        told = lw.Monitor(rule)
        by_hand = [told.observe(x, z) for x, z in zip(X, Z, strict=True)]
        tally.note([one.witnesses for one in by_hand])
        model, given = replayed_class()(Z), X.copy()
        if how == "single":
            watched = lw.watch(model.one, rule, keep=1000)
            answers = [watched(x) for x in given]
        else:
            watched = lw.watch(model.predict if how == "batched" else model, rule, batched=True,
                               keep=1000)  # fmt: skip
            call = watched if how == "batched" else watched.predict
            if how == "estimator" and rule.output == "probabilities":
                call = watched.predict_proba
            stops = np.cumsum(np.resize(sizes, len(X)))
            answers = [call(part) for part in np.split(given, stops) if len(part)]
        assert all(one is other for one, other in zip(answers, model.answered, strict=True))
        assert np.array_equal(given, X)
        found = [one for one in by_hand if one.violation]
        assert watched.counts == Counts(len(X), len(found), 0), watched.failures
        for record, verdict in zip(watched.violations, found, strict=True):
            assert same(record.verdict, verdict)

    tally.assert_enough()
