"""A batch of which some decisions are stored already: they are answered, the rest is judged."""

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import likewise as lw
from likewise.verdict.context import ComparedRows
from tests.support.refusals import raises

RULE = lw.Rule("linf", 0.15)
TABLE = lw.Rule(
    features={"id": lw.Feature("key"), "a": lw.Feature("number", tolerance=0.15)},
    output_column="z",
)
INPUTS = [0.0, 0.1, 0.2, 0.3]


def test_a_batch_that_is_sent_again_in_part_is_answered_in_its_order(tmp_path):
    with lw.open(tmp_path, RULE, witnesses=1, comparable=True) as monitor:
        x, z = [[0.0], [0.1], [0.05]], ["a", "b", "a"]
        first = monitor.observe_many(x, z, keys=["k", "l", "m"], models="one")
        sent = [[0.1], [0.02], [0.05], [0.02]], ["b", "b", "a", "b"]
        again = monitor.observe_many(*sent, keys=["l", "new", "m", "new"], models="one")
        assert again.repeated.tolist() == [True, False, True, True]
        assert again.rows.tolist() == [1, 3, 2, 3]
        assert again.counts.tolist() == [first[1].count, 2, first[2].count, 2]
        assert [verdict.row for verdict in again] == [1, 3, 2, 3]
        assert [verdict.omitted_witnesses for verdict in again] == [0, 0, 0, 1]
        assert [verdict.key for verdict in again] == ["l", "new", "m", "new"]
        assert {verdict.model for verdict in again} == {"one"}
        assert again.violations.all() and again.comparable.all() and not again.clean.any()
        assert again[1].compared_with == ComparedRows(0, 3, 0)
        assert monitor.rows == 4 and monitor.ledger.verify().ok
        copied = pickle.loads(pickle.dumps(again))
        assert [one.to_dict() for one in copied] == again.to_dicts()
        all_known = monitor.observe_many(x, z, keys=["k", "l", "m"])
        assert all_known.repeated.all() and all_known.rows.tolist() == [0, 1, 2]
        assert monitor.observe([0.9], "a").row == 4
    assert lw.replay(tmp_path).ok


@pytest.mark.parametrize(
    ("keys", "outputs", "kind", "facts"),
    [
        (["new", "k"], ["a", "b"], lw.errors.RepeatedKey, {"place": 1, "key": "k", "row": 0}),
        (["new", "new"], ["a", "b"], lw.errors.RepeatedKey, {"place": 1, "key": "new", "row": 2}),
        (["k", "erased"], ["a", "a"], lw.errors.ErasedKey, {"key": "erased"}),
    ],
)
def test_what_is_not_the_same_refuses_the_batch_and_leaves_no_trace(
    tmp_path, keys, outputs, kind, facts
):
    with lw.open(tmp_path, RULE) as monitor:
        monitor.observe_many([[0.1]] * 2, ["a"] * 2, keys=["k", "erased"])
        monitor.erase(key="erased")
        with raises(kind, **facts):
            monitor.observe_many([[0.1]] * 2, outputs, keys=keys)
        assert monitor.rows == 2 and monitor.ledger.verify().ok
        assert monitor.observe_many([[0.1]] * 2, ["a"] * 2, keys=["k", "new"]).repeated[0]


def test_in_memory_a_repeated_key_still_refuses_the_batch():
    monitor = lw.Monitor(RULE)
    monitor.observe([0.1], "a", key="k")
    with pytest.raises(lw.errors.RepeatedKey):
        monitor.observe_many([[0.1]], ["a"], keys=["k"])
    assert monitor.rows == 1


def test_positions_of_what_is_stored_already_are_not_asked_for_again(tmp_path):
    with lw.open(tmp_path, RULE) as monitor:
        two = [[0.1]] * 2, ["a"] * 2
        monitor.observe_many(*two, keys=[1, 2], sources="s", positions=[1, 2])
        again = monitor.observe_many(*two, keys=[2, 3], sources="s", positions=[2, 3])
        assert again.rows.tolist() == [1, 2] and monitor.ledger.positions == {"s": 3}


BATCHES = st.lists(
    st.lists(
        st.tuples(
            st.one_of(st.none(), st.integers(0, 6)), st.sampled_from(INPUTS), st.sampled_from("ab")
        ),
        min_size=1,
        max_size=5,
    ),
    max_size=6,
)


@pytest.mark.long
@settings(max_examples=30, deadline=None)
@given(batches=BATCHES, table=st.booleans(), reopen=st.booleans())
def test_batches_with_repeats_are_those_of_a_dictionary(tmp_path_factory, batches, table, reopen):
    folder = tmp_path_factory.mktemp("repeats") / "led"
    rule = TABLE if table else RULE
    monitor = lw.open(folder, rule, durability="off")
    taken, stored = [], {}  # rows as (input, output); by key the row
    for number, drawn in enumerate(batches):
        batch = [  # a table whose rule has a key needs one for each
            (100 * number + 10 + i if key is None and table else key, x, z)
            for i, (key, x, z) in enumerate(drawn)
        ]
        if reopen:
            monitor.close()
            monitor = lw.open(folder, durability="off")
        rows, known, fresh, keyed, fits = [], [], [], dict(stored), True
        for key, x, z in batch:
            before = keyed.get(key) if key is not None else None
            known.append(before is not None)
            if before is None:
                before = len(taken) + len(fresh)
                fresh.append((x, z))
                if key is not None:
                    keyed[key] = before
            fits = fits and [*taken, *fresh][before] == (x, z)
            rows.append(before)
        keys, xs, zs = ([one[i] for one in batch] for i in range(3))
        try:
            if table:
                told = [{"id": k, "a": x, "z": z} for k, x, z in batch]
                verdicts = monitor.observe_many(told)
            else:
                verdicts = monitor.observe_many(np.array(xs)[:, None], zs, keys=keys)
        except lw.errors.RepeatedKey:
            assert not fits
        else:
            assert fits
            taken, stored = [*taken, *fresh], keyed
            assert verdicts.rows.tolist() == rows and verdicts.repeated.tolist() == known
            for row, verdict in zip(rows, verdicts, strict=True):
                x, z = taken[row]
                expected = [
                    i
                    for i, (near, other) in enumerate(taken[:row])
                    if abs(near - x) <= 0.15 and other != z
                ]
                assert verdict.count == len(expected)
                assert set(verdict.witnesses.rows.tolist()) <= set(expected)
                assert verdict.repeated or len(verdict.witnesses) == len(expected)
        assert monitor.rows == len(taken)
    monitor.close()
    with lw.Ledger(folder) as ledger:
        assert ledger.rows == len(taken) and ledger.verify().ok
