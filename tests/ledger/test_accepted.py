"""Decisions may be accepted first and judged later: the verdicts are those of their order."""

from functools import partial

import numpy as np
import pytest

import likewise as lw
from tests.support.interruptions import at_step
from tests.support.segments import small_segments

VECTORS = lw.Rule("linf", 0.1)
TABLE = lw.Rule(
    features={
        "id": lw.Feature("key"),
        "age": lw.Feature("number", tolerance=5),
        "job": lw.Feature("category"),
        "sex": lw.Feature("protected"),
    },
    output_column="approved",
)


def vectors(count, seed=5):
    rng = np.random.default_rng(seed)
    return rng.random((count, 2)), rng.choice(["a", "b", "c"], count).tolist()


def rows(count, seed=6):
    rng = np.random.default_rng(seed)
    return [
        {
            "id": f"case {i}",
            "age": int(rng.integers(20, 60)),
            "job": f"job {rng.integers(1 + i // 10)}",
            "sex": "fm"[rng.integers(2)],
            "approved": ["yes", "no", f"word {i}"][rng.integers(3)],
        }
        for i in range(count)
    ]


def same(found, expected):
    assert [one.row for one in found] == [one.row for one in expected]
    for mine, theirs in zip(found, expected, strict=True):
        assert mine.witnesses == theirs.witnesses and mine.key == theirs.key
    assert sum(one.count for one in expected) > 20


@pytest.mark.parametrize("kind", ["vectors", "table"])
def test_accepted_decisions_get_the_verdicts_of_their_order(tmp_path, kind):
    if kind == "vectors":
        x, z = vectors(300)
        keys = [f"case {i}" for i in range(300)]
        rule, given = VECTORS, lambda a, b: {"x": x[a:b], "z": z[a:b], "keys": keys[a:b]}
    else:
        table = rows(300)
        rule, given = TABLE, lambda a, b: {"x": table[a:b]}
    twin = lw.Monitor(rule).observe_many(**given(0, 300))
    with small_segments(), lw.open(tmp_path, rule) as monitor:
        found = list(monitor.observe_many(**given(0, 60)))
        assert monitor.ledger.judge_accepted() is None and monitor.ledger.accepted_count == 0
        assert monitor.ledger.accept(**given(60, 100)) == range(60, 100)
        assert monitor.ledger.accept(**given(100, 200)) == range(100, 200)
        assert monitor.ledger.accepted_count == 140
        with lw.Ledger(tmp_path) as ledger:
            verified = ledger.verify()
            assert verified.ok and (verified.rows, verified.pending) == (200, 140)
            assert ledger.pending == 140 and ledger.stats().decisions == 60
            assert [one.count for one in ledger.entries(60)] == [None] * 140
        found += monitor.ledger.judge_accepted(30)
        assert monitor.ledger.accepted_count == 110
        assert monitor.ledger.accept(**given(200, 210)) == range(200, 210)
        while (some := monitor.ledger.judge_accepted(50)) is not None:
            found += some
        assert monitor.ledger.accept(**given(210, 250)) == range(210, 250)
        later = list(monitor.observe_many(**given(250, 300)))  # judges the others first
        assert monitor.ledger.accepted_count == 0 and monitor.rows == 300
        same(found, list(twin)[:210])
        same(later, list(twin)[250:])
        assert monitor.ledger.verify().ok
    with lw.Ledger(tmp_path) as ledger:
        assert ledger.pending == 0
        assert [one.count for one in ledger.entries()] == twin.counts.tolist()
    assert lw.replay(tmp_path).ok


def test_what_is_refused_leaves_no_trace_and_what_was_accepted_still_waits(tmp_path):
    x, z = vectors(100)
    with lw.open(tmp_path, VECTORS) as monitor:
        with pytest.raises(lw.LikewiseError):
            monitor.ledger.accept(x[:5], z[:5])
        monitor.observe_many(x[:50], z[:50], keys=list(range(50)))
        monitor.ledger.accept(x[50:60], z[50:60], keys=list(range(50, 60)))
        for bad in ({"x": [[np.nan, 0.1]], "z": ["new"]}, {"x": [[0.1] * 3], "z": ["new"]},
                    {"x": x[:1], "z": z[:1], "keys": [55]}):  # fmt: skip
            with pytest.raises(lw.LikewiseError):
                monitor.ledger.accept(**bad)
            assert monitor.ledger.accepted_count == 10
        monitor.ledger.accept(x[60:], z[60:])
        assert monitor.rows == 100
    twin = lw.Monitor(VECTORS).observe_many(x, z)
    with lw.Ledger(tmp_path) as ledger:
        assert [one.count for one in ledger.entries()] == twin.counts.tolist()
    assert lw.replay(tmp_path).ok


@pytest.mark.parametrize("reopen", [False, True])
@pytest.mark.parametrize("kind", ["vectors", "table"])
def test_accepted_decisions_can_be_erased_before_they_are_judged(tmp_path, kind, reopen):
    if kind == "vectors":
        x, z = vectors(120)
        keys = [f"case {i}" for i in range(120)]
        rule, given = VECTORS, lambda a, b: {"x": x[a:b], "z": z[a:b], "keys": keys[a:b]}
    else:
        table = rows(120)
        rule, given = TABLE, lambda a, b: {"x": table[a:b]}
    monitor = lw.open(tmp_path, rule)
    monitor.observe_many(**given(0, 40))
    monitor.ledger.accept(**given(40, 120))
    assert monitor.erase(key="case 50").rows == (50,)
    assert monitor.erase(rows=[7, 40, 51, 52, 119]).rows == (7, 40, 51, 52, 119)
    assert monitor.ledger.accepted_count == 80
    with lw.Ledger(tmp_path) as ledger:
        assert ledger.verify().ok and ledger.pending == 80
    if reopen:
        monitor.close()
        monitor = lw.open(tmp_path)
    gone = {7, 40, 50, 51, 52, 119}
    twin = lw.Monitor(rule)
    twin.observe_many(**given(0, 40))
    twin.forget([7])
    expected = {}
    for row in range(40, 120):
        verdict = twin.observe_many(**given(row, row + 1))[0]
        expected[row] = verdict.count
        if row in gone:
            twin.forget([row])
    assert monitor.rows == 120 and monitor.ledger.verify().ok
    monitor.close()
    with lw.Ledger(tmp_path) as ledger:
        counts = {one.row: one.count for one in ledger.entries(40)}
    assert counts == {row: None if row in gone else count for row, count in expected.items()}
    assert sum(count or 0 for count in counts.values()) > 10
    assert lw.replay(tmp_path).ok


def test_a_backup_of_accepted_decisions_judges_them_when_it_is_opened(tmp_path):
    x, z = vectors(100)
    with lw.open(tmp_path / "a", VECTORS) as monitor:
        monitor.observe_many(x[:40], z[:40])
        monitor.ledger.accept(x[40:], z[40:])
        lw.back_up(tmp_path / "a", tmp_path / "b")
        assert monitor.ledger.accepted_count == 60
    twin = lw.Monitor(VECTORS).observe_many(x, z)
    for copy in ("a", "b"):
        with lw.Ledger(tmp_path / copy) as ledger:
            assert ledger.pending == 60
        lw.open(tmp_path / copy).close()
        with lw.Ledger(tmp_path / copy) as ledger:
            assert [one.count for one in ledger.entries()] == twin.counts.tolist()
            assert ledger.verify().ok and ledger.pending == 0


@pytest.mark.parametrize("what", ["accept", "judge"])
def test_accepting_and_judging_may_be_interrupted_anywhere(tmp_path, what):
    x, z = vectors(60)
    step, where = 0, "begin"
    while where:
        folder = tmp_path / str(step)
        monitor = lw.open(folder, VECTORS)
        monitor.observe_many(x[:20], z[:20])
        if what == "accept":
            where = at_step(step, partial(monitor.ledger.accept, x[20:40], z[20:40]), signals=True)
        else:
            monitor.ledger.accept(x[20:40], z[20:40])
            where = at_step(step, partial(monitor.ledger.judge_accepted, 7), signals=True)
        taken = monitor.rows
        assert taken in ((20, 40) if what == "accept" else (40,)), where
        monitor.observe_many(x[taken:], z[taken:])
        assert monitor.ledger.verify().ok, where
        monitor.close()
        with lw.Ledger(folder) as ledger:
            counts = [one.count for one in ledger.entries()]
        assert counts == lw.Monitor(VECTORS).observe_many(x, z).counts.tolist(), where
        step += 61
