"""A decision is comparable if an earlier, remembered input was near, whatever its output; exactly.

`support` says how many were. Every test asks for one and for the other.

The oracle compares with everything (tests/support/oracle.py); epsilon is a distance that occurs,
so some decision has its only like case on the boundary.
"""

import numpy as np
import pytest
from hypothesis import strategies as st

import likewise as lw
from likewise.verdict.exact_body import exact_body, exact_columns, verdict_of, verdicts_of
from tests.support.index_cases import few, scan_of
from tests.support.lazily import polars as pl
from tests.support.oracle import (
    Oracle,
    assert_same_verdict,
    assert_same_verdicts,
    input_distances,
    like_cases,
    slack_of,
    storage_of,
)
from tests.support.play import VERBS, play, play_together
from tests.support.refusals import raises
from tests.support.strategies import METRICS, every_kind, prove, streams

pytestmark = pytest.mark.early

SEEDS = st.integers(0, 2**32 - 1)
STEPS = st.lists(
    st.tuples(st.sampled_from(VERBS), st.integers(1, 5) | st.integers(1, 150), SEEDS),
    min_size=1,
    max_size=15,
)
AGREEING = st.sampled_from((True, False))


class Told:
    """Counts decisions that only an agreeing row makes comparable, and those that nothing does."""

    def __init__(self) -> None:
        self.agreeing = self.alone = 0

    def note(self, expected) -> None:
        self.agreeing += sum(bool(one.comparable) and len(one.rows) == 0 for one in expected)
        self.alone += sum(not one.comparable for one in expected)

    def assert_enough(self) -> None:
        assert self.agreeing > 0, "no decision had a like case that agrees"
        assert self.alone > 0, "every decision had a like case"


ASKED = [{"comparable": True}, {"support": True}]
asked_for = pytest.mark.parametrize("asked", ASKED, ids=["comparable", "support"])


def a_pair(rule: lw.Rule, asked: dict, **settings) -> tuple[lw.Monitor, Oracle]:
    return lw.Monitor(rule, **asked, **settings), Oracle(rule, comparable=True)


@asked_for
@every_kind
def test_a_verdict_says_whether_anything_was_near(metric, output, family, asked):
    told = Told()

    @prove(12, stream=streams(metric, output, family), steps=STEPS)
    def holds(stream, steps):
        expected = play(
            *a_pair(stream.rule, asked), stream.X, stream.Z, [("observe_many", 120, 0), *steps]
        )
        told.note(expected)

    told.assert_enough()


@asked_for
@pytest.mark.parametrize("metric", METRICS)
def test_comparables_do_not_depend_on_the_index(metric, asked):
    told = Told()

    @prove(6, stream=streams(metric, most=130, widths=(2, 3, 5, 8)), steps=STEPS)
    def holds(stream, steps):
        whole = [step for step in steps if step[0] != "forget"]  # an object cannot forget
        steps = [("observe_many", 60, 0), *whole]
        names = {"auto": lambda width: "auto", **few(metric)}
        if metric in ("l2", "cosine"):
            names["flat"] = lambda width: "flat"
        monitors = [
            lw.Monitor(stream.rule, **asked, index=make(stream.X.shape[1]))
            for make in names.values()
        ]
        oracle = Oracle(stream.rule, comparable=True)
        told.note(play_together(monitors, oracle, stream.X, stream.Z, steps))

    told.assert_enough()


@asked_for
@pytest.mark.parametrize("index", ["auto", "flat", "kdtree", "snn"])
@pytest.mark.parametrize("metric", ["l2", "cosine"])
def test_comparables_of_long_inputs(metric, index, asked, tmp_path):
    """A sketch, a flat scan and a change-over between them; rows in a file."""
    rng = np.random.default_rng(3)
    centres = rng.normal(size=(40, 48))
    X = centres[rng.integers(40, size=1500)] + 0.3 * rng.normal(size=(1500, 48))
    Z = rng.integers(0, 7, 1500) * (rng.random(1500) < 0.1)
    near = np.sort(input_distances(lw.Rule(metric, 1.0), X, X[0]))
    rule = lw.Rule(metric, float(near[2]))
    monitor, oracle = a_pair(rule, asked, index=index, row_file=tmp_path / "rows")
    steps = [("observe_many", 300, 1), ("observe", 100, 0), ("load", 200, 0), ("forget", 150, 9)]
    steps += [("observe_many", 10, 0), ("check", 60, 0), ("observe_many", 800, 2)]
    with monitor:
        expected = play(monitor, oracle, X, Z.tolist(), steps)
    told = Told()
    told.note(expected)
    told.assert_enough()


@asked_for
@pytest.mark.parametrize("output", ["label", "number", "probabilities"])
def test_where_nothing_can_differ_everything_near_is_a_like_case(output, asked):
    """Delta is above every distance that occurs: no subtree is looked at for witnesses."""
    rng = np.random.default_rng(4)
    X = rng.integers(0, 5, (400, 3)) * 0.1
    kinds = rng.integers(0, 9, 400)
    Z = {"label": [0] * 400, "number": kinds * 1.0}.get(output, np.eye(9)[kinds] / 2 + 1 / 18)
    delta = {"label": 0.5, "number": 20.0, "probabilities": 0.75}[output]
    rule = lw.Rule("linf", 0.05, output=output, delta=delta)
    expected = play(*a_pair(rule, asked), X, Z, [("observe_many", 200, 0), ("check", 200, 0)])
    assert not any(len(one.rows) for one in expected)
    assert 100 < sum(one.comparable for one in expected) < 600


@pytest.mark.parametrize("index", ["auto", "kdtree", "flat"])
@pytest.mark.parametrize("one_by_one", [True, False])
def test_rows_before_the_window_do_not_count(index, one_by_one, tmp_path):
    rng = np.random.default_rng(5)
    X = rng.integers(0, 6, (500, 3)) * 0.1
    Z = ["yes" if odd else "no" for odd in rng.random(500) < 0.2]
    rule = lw.Rule("l2", 0.1)
    storage = storage_of(rule, X)
    expected = []
    for i, x in enumerate(X):
        since = max(0, i - 60)
        alive = np.ones(i - since, dtype=bool)
        near, _ = like_cases(rule, slack_of(rule, storage), X[since:i], alive, x)
        expected.append(len(near))
    settings = {"window": "60 rows", "durability": "off", "index": index, "support": True}
    with lw.open(tmp_path / "ledger", rule, **settings) as monitor:
        if one_by_one:
            said = [monitor.observe(x, z) for x, z in zip(X, Z, strict=True)]
        else:
            said = [*monitor.observe_many(X[:7], Z[:7]), *monitor.observe_many(X[7:], Z[7:])]
        assert [verdict.support.near for verdict in said] == expected
        assert [verdict.comparable for verdict in said] == [near > 0 for near in expected]
        assert 100 < sum(near > 0 for near in expected) < 450 and max(expected) > 3
        assert all(verdict.comparable for verdict in said if verdict.violation)
        checked = [monitor.check(x, z).support for x, z in zip(X[:60], Z[:60], strict=True)]
        for x, z, support in zip(X[:60], Z[:60], checked, strict=True):
            near = np.flatnonzero(input_distances(rule, X[440:], x) <= 0.1 * (1 + 1e-9))
            agreeing = sum(Z[440 + i] == z for i in near.tolist())
            assert support == (len(near), agreeing)


@asked_for
def test_bursts_are_counted_beside(asked):
    rng = np.random.default_rng(6)
    X, Z = rng.integers(0, 6, (400, 3)) * 0.1, rng.integers(0, 2, 400).tolist()
    rule = lw.Rule("linf", 0.05)
    monitor = lw.Monitor(rule, **asked, burst=lw.Burst(1000))
    said = [monitor.observe(x, z) for x, z in zip(X[:150], Z[:150], strict=True)]
    verdicts = monitor.observe_many(X[150:], Z[150:])
    said += [*verdicts, monitor.check(X[0], 1)]
    assert [one.comparable for one in said] == [one.neighbours > 0 for one in said]
    assert 20 < sum(one.comparable for one in said) < 400
    if "support" in asked:
        assert [one.support.near for one in said] == [one.neighbours for one in said]


FEATURES = {
    "age": {"kind": "number", "tolerance": 2},
    "income": {"kind": "number", "tolerance": 50, "missing": "match"},
    "job": {"kind": "category", "missing": "match"},
    "sex": {"kind": "protected"},
    "race": {"kind": "protected"},
}


def people(count: int, seed: int, missing: float) -> pl.DataFrame:
    rng = np.random.default_rng(seed)

    def some(values):
        gone = rng.random(count) < missing
        return [None if one else value for value, one in zip(values, gone, strict=True)]

    return pl.DataFrame(
        {
            "age": rng.integers(20, 70, count),
            "income": some(rng.integers(0, 900, count).tolist()),
            "job": some([f"job {i}" for i in rng.integers(0, 4, count)]),
            "sex": [("f", "m")[i] for i in rng.integers(0, 2, count)],
            "race": [("a", "b")[i] for i in (rng.random(count) < 0.1).astype(int)],
            "granted": [("no", "yes")[i] for i in (rng.random(count) < 0.9).astype(int)],
        }
    )


def near_people(table: pl.DataFrame, *, must_differ: bool) -> np.ndarray:
    """Which rows are like cases of which, by the columns themselves."""
    age, income = table["age"].to_numpy(), table["income"].cast(pl.Float64).to_numpy()
    job = table["job"].fill_null("").to_numpy()
    gaps = np.abs(income - income[:, None])
    near = (np.abs(age - age[:, None]) <= 2) & (np.isnan(gaps) | (gaps <= 50))
    near &= (job == job[:, None]) | (job == "") | (job == "")[:, None]
    if must_differ:
        sex, race = table["sex"].to_numpy(), table["race"].to_numpy()
        near &= (sex != sex[:, None]) | (race != race[:, None])
    return near


@asked_for
@pytest.mark.parametrize("must_differ", [False, True])
@pytest.mark.parametrize("missing", [0.0, 0.02, 0.2])
@pytest.mark.parametrize("index", ["auto", "kdtree"])
def test_comparables_of_tables(must_differ, missing, index, asked, tmp_path):
    """Open places, columns that must differ, a window; one by one, at once and checked."""
    table = people(360, 7, missing)
    near = near_people(table, must_differ=must_differ)
    rule = lw.Rule(features=FEATURES, output_column="granted", protected_must_differ=must_differ)
    rows, granted = np.arange(360), table["granted"].to_numpy()
    for window in (10_000, 50):
        counts = near & (rows < rows[:, None]) & (rows >= rows[:, None] - window)
        expected = counts.sum(axis=1).tolist()
        differ = (counts & (granted != granted[:, None])).sum(axis=1).tolist()
        assert 20 < np.count_nonzero(expected) < 355
        folder = tmp_path / f"{window}"
        settings = {"window": f"{window} rows", "durability": "off", "index": index}
        with lw.open(folder, rule, **asked, **settings) as monitor:
            said = [monitor.observe(row) for row in table[:90].to_dicts()]
            said += monitor.observe_many(table[90:300])
            checked = [monitor.check(row) for row in table[300:].to_dicts()]
            told = monitor.check_many(table[300:])
            rest = near[300:, max(0, 300 - window) : 300].sum(axis=1).tolist()
            likes = [count > 0 for count in rest]
            assert [one.comparable for one in checked] == told.comparable.tolist() == likes
            if "support" in asked:
                assert [one.support.near for one in checked] == told.near.tolist() == rest
            said += [monitor.observe(row) for row in table[300:].to_dicts()]
        assert [one.comparable for one in said] == [count > 0 for count in expected]
        assert [one.count for one in said] == differ
        if "support" in asked:
            assert [one.support.near for one in said] == expected
        assert any(one.comparable and not one.violation for one in said)


@pytest.mark.parametrize("sizes", [(1,), (1, 2, 5), (40,)])
def test_comparables_of_tables_do_not_depend_on_batches(sizes):
    table = people(300, 9, 0.0)
    features = {name: {**one} for name, one in FEATURES.items()}
    for one in features.values():
        one.pop("missing", None)
    rule = lw.Rule(features=features, output_column="granted", protected_must_differ=True)
    near = near_people(table, must_differ=True)
    expected = np.tril(near, -1).sum(axis=1).tolist()
    assert expected != np.tril(near_people(table, must_differ=False), -1).sum(axis=1).tolist()
    monitor, found = lw.Monitor(rule, support=True), []
    while len(found) < len(table):
        size = sizes[len(found) % len(sizes)]
        found += monitor.observe_many(table[len(found) : len(found) + size]).near.tolist()
    assert found == expected


def test_a_forgotten_row_is_no_like_case_in_a_table():
    rule = lw.Rule(features=FEATURES, output_column="granted", protected_must_differ=True)
    table = people(300, 8, 0.1)
    near = near_people(table, must_differ=True)
    monitor = lw.Monitor(rule, support=True)
    monitor.observe_many(table[:200])
    gone = np.arange(0, 200, 2)
    monitor.forget(gone)
    near[:, gone] = False
    rows = np.arange(300)
    expected = (near & (rows < rows[:, None])).sum(axis=1)[200:].tolist()
    assert monitor.observe_many(table[200:]).near.tolist() == expected
    assert 10 < np.count_nonzero(expected) < 99


def test_it_is_not_said_unless_asked():
    monitor = lw.Monitor(lw.Rule("linf", 0.1))
    assert monitor.observe([0.1], "a").comparable is None
    assert monitor.observe_many([[0.1]], ["a"]).comparable is None
    assert monitor.observe([0.1], "a").support is None
    assert monitor.observe_many([[0.1]], ["a"]).near is None
    assert not monitor.comparable and not monitor.support
    comparing = lw.Monitor(lw.Rule("linf", 0.1), comparable=True)
    assert comparing.comparable and not comparing.support
    assert comparing.observe([0.1], "a").support is None
    counting = lw.Monitor(lw.Rule("linf", 0.1), support=True)
    assert counting.comparable and counting.support
    for name in ("comparable", "support"):
        for wrong in (1, "yes", None):
            with raises(lw.errors.BadRule, setting=name):
                lw.Monitor(lw.Rule("linf", 0.1), **{name: wrong})


def test_slopes_have_no_support(tmp_path):
    rule = lw.Rule("l2", 0.1, output="number", delta=0.0)
    with raises(lw.errors.BadRule, setting="support"):
        lw.Monitor(rule, slope=True, support=True)
    with raises(lw.errors.BadRule, setting="support"):
        lw.open(tmp_path / "ledger", rule, slope=True, support=True)
    assert not (tmp_path / "ledger").exists()


def test_verdicts_are_equal_whatever_is_said_beside():
    asked, plain = (lw.Monitor(lw.Rule("linf", 0.1), support=one) for one in (True, False))
    for x, z in (([0.1], "a"), ([0.15], "a"), ([0.9], "b"), ([0.12], "b")):
        assert asked.observe(x, z) == plain.observe(x, z)


def test_a_users_index_is_asked_once_for_each_decision():
    asked = []

    class Counting(type(scan_of("linf", 2))):
        def candidates(self, point, reach):
            asked.append(point)
            return super().candidates(point, reach)

    X = np.random.default_rng(9).random((60, 2))
    monitor, oracle = a_pair(lw.Rule("linf", 0.2), ASKED[0], index=Counting)
    assert_same_verdicts(
        monitor.observe_many(X[:40], [0] * 40), oracle.observe_many(X[:40], [0] * 40)
    )
    for x in X[40:]:
        assert_same_verdict(monitor.observe(x, 0), oracle.observe(x, 0))
    assert len(asked) == 59


def test_a_ledger_says_what_the_support_was(tmp_path):
    """Of repeats, after an erasure, in the answers of a service and in a copy."""
    rng = np.random.default_rng(10)
    X, Z = rng.integers(0, 6, (200, 3)) * 0.1, rng.integers(0, 3, 200).tolist()
    keys = [f"case {i}" for i in range(200)]
    with lw.open(tmp_path / "old", lw.Rule("l2", 0.1), support=True, witnesses=1) as monitor:
        said = monitor.observe_many(X[:150], Z[:150], keys=keys[:150])
        alone = monitor.observe(X[150], Z[150], key=keys[150])
        sent = monitor.observe_many(X[149:152], Z[149:152], keys=keys[149:152])
        assert [sent[i].support for i in (0, 1)] == [said[149].support, alone.support]
        body = exact_body(alone)
        assert verdict_of(body, None).support == alone.support
        assert body["support"] == {"near": alone.support.near, "agree": alone.support.agree}
        assert verdicts_of(exact_columns(sent), None).near.tolist() == sent.near.tolist()
        monitor.erase(rows=[0, 1, 2, 3])  # neighbours of later ones
    due = [one.support for one in said]
    assert max(one.near for one in due) > 5 and max(one.agree for one in due) > 1
    assert lw.replay(tmp_path / "old").ok
    lw.migrate(tmp_path / "old", tmp_path / "new")
    with lw.Ledger(tmp_path / "old") as ledger:
        assert ledger.verify().ok
        gone = set(ledger.erased_rows().tolist())
        rows = [i for i in range(150) if i not in gone]
        assert [ledger.entry(i).facts.near for i in rows] == [due[i].near for i in rows]
    with lw.open(tmp_path / "old") as monitor:  # it is not asked for any more
        assert monitor.observe(X[149], Z[149], key=keys[149]).support == due[149]
    with lw.Ledger(tmp_path / "new") as ledger:
        assert all(entry.facts.near is not None for entry in ledger.entries() if not entry.erased)
