"""A decision that is sent again under its key gets the answer of the first time."""

import numpy as np
import pytest

import likewise as lw
from tests.support.refusals import raises

VECTORS = lw.Rule("linf", 0.2)
PEOPLE = lw.Rule(
    features={
        "id": lw.Feature("key"),
        "age": lw.Feature("number", tolerance=5),
        "job": lw.Feature("category", missing="mismatch"),
    },
    output_column="ok",
)


@pytest.mark.parametrize("durability", ["commit", "batch"])
def test_the_same_decision_again_is_answered_as_before_and_not_stored_twice(tmp_path, durability):
    rng = np.random.default_rng(1)
    with lw.open(tmp_path, VECTORS, durability=durability, comparable=True) as monitor:
        x, z = rng.random((80, 2)), rng.choice(["a", "b"], 80).tolist()
        first = [monitor.observe(x[i], z[i], key=i) for i in range(80)]
        assert sum(verdict.count > 3 for verdict in first) > 10
        for i, verdict in enumerate(first):
            again = monitor.observe(x[i], z[i], key=i)
            assert (again.row, again.key, again.repeated) == (i, i, True)
            assert (again.count, again.comparable) == (verdict.count, verdict.comparable)
            assert again.violation == verdict.violation
            assert again.omitted_witnesses == max(0, verdict.count - 3)
            nearest = sorted(verdict.witnesses.nearest(3), key=lambda one: one.row)
            assert list(again.witnesses) == nearest
            assert again.witness_keys == tuple(one.row for one in nearest)
            assert again.to_dict()["repeated"] is True
        assert monitor.rows == 80
        assert not first[0].repeated and "known" not in first[0].to_dict()


@pytest.mark.parametrize(
    "other",
    [
        {"id": "p1", "age": 42, "job": None, "ok": "yes"},
        {"id": "p1", "age": 41, "job": "nurse", "ok": "yes"},
        {"id": "p1", "age": 41, "job": None, "ok": "no"},
    ],
)
def test_another_decision_under_a_key_is_refused(tmp_path, other):
    same = {"id": "p1", "age": 41, "job": None, "ok": "yes"}
    with lw.open(tmp_path, PEOPLE) as monitor:
        monitor.observe(same)
        assert monitor.observe(same).repeated
        with raises(lw.errors.RepeatedKey, place=0, key="p1", row=0):
            monitor.observe(other)
        assert monitor.rows == 1
        assert monitor.observe({**same, "id": "p2"}).row == 1


def test_an_erased_decision_that_is_sent_again_is_said_to_be_erased(tmp_path):
    with lw.open(tmp_path, VECTORS) as monitor:
        monitor.observe([0.1, 0.2], "a", key="ann")
        monitor.observe([0.1, 0.2], "a", key="ben")
        monitor.erase(key="ann")
    for _ in range(2):  # also in another process
        with lw.open(tmp_path) as monitor:
            with raises(lw.errors.ErasedKey, key="ann"):
                monitor.observe([0.1, 0.2], "a", key="ann")
            with pytest.raises(lw.errors.ErasedKey):
                monitor.observe_many([[0.3, 0.3], [0.1, 0.2]], ["a", "a"], keys=["new", "ann"])
            assert monitor.rows == 2
    with lw.open(tmp_path) as monitor:
        assert monitor.observe([0.1, 0.2], "b", key="cid").count == 1
    assert b"ann" not in b"".join(path.read_bytes() for path in tmp_path.iterdir())


def test_the_same_decision_twice_at_once_is_stored_once(tmp_path):
    with lw.open(tmp_path, VECTORS) as monitor:
        with monitor.core.lock:  # so that both wait
            answers = [monitor.submit([0.1, 0.2], "a", key="k") for _ in range(2)]
        first, second = (answer.result() for answer in answers)
        assert (first.row, first.repeated) == (0, False)
        assert (second.row, second.repeated) == (0, True)
        assert monitor.rows == 1
