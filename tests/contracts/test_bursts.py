"""Neighbours are the near inputs among the last N decisions, exactly, whatever else happens.

The oracle is `Counts`: all distances from one input to the last N, as stored, in float64.
"""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import strategies as st

import likewise as lw
from tests.support.oracle import Oracle, as_stored, assert_same_verdicts, input_distances, slack_of
from tests.support.refusals import raises
from tests.support.strategies import FAMILIES, METRICS, OUTPUTS, Tally, prove, streams

LASTS = (1, 2, 7, 60, 64, 65, 128, 200, 10_000)


class Counts(Oracle):
    """Counts neighbours beside what an oracle knows."""

    def __init__(self, rule: lw.Rule, last: int) -> None:
        super().__init__(rule)
        self.last = last

    def neighbours(self, x, since: int = 0) -> int:
        row = len(self.outputs)
        if row == 0:
            return 0
        part = slice(max(row - self.last, since), row)
        past, given = as_stored(self.storage, self.inputs[part]), as_stored(self.storage, x)
        reach = self.rule.epsilon * (1.0 + slack_of(self.rule, self.storage))
        near = input_distances(self.rule, past, given.ravel()) <= reach
        return int((near & self.alive[part]).sum())

    def count(self, xs, zs) -> list[int]:
        counts = []
        for x, z in zip(xs, zs, strict=True):
            counts.append(self.neighbours(x))
            self._remember(x, z)
        return counts


class Found(Tally):
    """Counts the examples in which there were neighbours."""

    def note(self, counts) -> None:
        self.examples += 1
        self.found += any(counts)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("output", OUTPUTS)
def test_neighbours_are_those_of_all_distances(metric, output):
    tally = Found()

    @prove(8, drawn=streams(metric, output), last=st.sampled_from(LASTS))
    def holds(drawn, last):
        counts = Counts(drawn.rule, last).count(drawn.X, drawn.Z)
        alarm = min(3, last)
        monitor = lw.Monitor(drawn.rule, burst=lw.Burst(last, alarm))
        for x, z, count in zip(drawn.X, drawn.Z, counts, strict=True):
            verdict = monitor.observe(x, z)
            assert (verdict.neighbours, verdict.alarm) == (count, count >= alarm)
        tally.note(counts)

    tally.assert_enough(0.5)


@pytest.mark.long
@pytest.mark.parametrize("family", FAMILIES)
def test_neighbours_do_not_depend_on_batches_or_threads(family):
    tally = Found()

    @prove(
        8,
        drawn=streams(family=family),
        last=st.sampled_from(LASTS),
        size=st.sampled_from((1, 3, 64, 129, 1000)),
        threads=st.sampled_from((None, 1, 2, 3)),
    )
    def holds(drawn, last, size, threads):
        counts = Counts(drawn.rule, last).count(drawn.X, drawn.Z)
        monitor = lw.Monitor(drawn.rule, burst=lw.Burst(last))
        found = []
        for start in range(0, len(drawn), size):
            part = slice(start, start + size)
            verdicts = monitor.observe_many(drawn.X[part], drawn.Z[part], threads=threads)
            assert verdicts.neighbours.dtype == np.int64 and not verdicts.alarms.any()
            assert [one.neighbours for one in verdicts] == verdicts.neighbours.tolist()
            found += verdicts.neighbours.tolist()
        assert found == counts
        tally.note(counts)

    tally.assert_enough(0.5)


@pytest.mark.parametrize("metric", METRICS)
def test_neighbours_are_exact_through_any_life(metric):
    """Decisions one by one, in batches, loaded, checked, refused and forgotten in between."""
    tally = Found()

    @prove(12, drawn=streams(metric), last=st.sampled_from(LASTS), seed=st.integers(0, 2**32 - 1))
    def holds(drawn, last, seed):
        rng = np.random.default_rng(seed)
        oracle, counts = Counts(drawn.rule, last), []
        monitor = lw.Monitor(drawn.rule, burst=lw.Burst(last, alarm=1))
        while len(oracle.outputs) < len(drawn):
            at = len(oracle.outputs)
            part = slice(at, at + int(rng.choice([1, 1, 2, 30, 150])))
            x, z = drawn.X[part], drawn.Z[part]
            verb = rng.choice(["observe", "observe", "many", "load", "check", "forget", "refuse"])
            if verb == "observe":
                assert monitor.observe(x[0], z[0]).neighbours == oracle.neighbours(x[0])
                oracle.load(x[:1], z[:1])
            elif verb == "many":
                verdicts = monitor.observe_many(x, z, threads=int(rng.integers(1, 4)))
                expected = oracle.count(x, z)
                assert verdicts.neighbours.tolist() == expected
                assert verdicts.alarms.tolist() == [count > 0 for count in expected]
                counts += expected
            elif verb == "load":
                monitor.load(x, z)
                oracle.load(x, z)
            elif verb == "check":
                verdict, count = monitor.check(x[0], z[0]), oracle.neighbours(x[0])
                assert (verdict.neighbours, verdict.alarm) == (count, count > 0)
            elif verb == "forget" and at:
                rows = np.unique(rng.integers(max(0, at - 2 * last), at, 5))
                assert monitor.forget(rows) == oracle.forget(rows)
            else:
                refused(monitor, x, z)
        tally.note(counts)

    tally.assert_enough(0.3)


def refused(monitor: lw.Monitor, x, z) -> None:
    bad = np.full(x[0].shape, np.nan)
    with pytest.raises(lw.errors.BadDecision):
        monitor.observe(bad, z[0])
    with pytest.raises(lw.errors.BadDecision):
        monitor.check(bad, z[0])
    with pytest.raises(lw.errors.BadDecision):
        monitor.observe_many([*x.tolist(), bad.tolist()], [*z, z[0]])


@pytest.mark.parametrize("storage", ["float32", "uint8", "int64"])
def test_what_was_stored_is_compared(storage):
    """Inputs come in another type than they are kept in."""
    rng = np.random.default_rng(2)
    X = (rng.integers(0, 4, (300, 3)) * (1 if storage != "float32" else 0.1)).astype(np.float64)
    rule = lw.Rule("linf", 1 if storage != "float32" else 0.1, storage=storage)
    counts = Counts(rule, 50).count(X, [0] * len(X))
    monitor = lw.Monitor(rule, burst=lw.Burst(50))
    assert [monitor.observe(x.tolist(), 0).neighbours for x in X] == counts
    assert max(counts) > 5


@pytest.mark.parametrize("index", ["auto", "live", "flat", "brute", "snn"])
@pytest.mark.parametrize("width", [20, 40])
def test_neighbours_do_not_depend_on_the_index(index, width, tmp_path):
    """Long inputs too, of which the tree holds a few coordinates, and rows in a file."""
    rng = np.random.default_rng(width)
    centres = rng.normal(size=(30, width))
    X = centres[rng.integers(30, size=2500)] + 0.05 * rng.normal(size=(2500, width))
    Z = rng.integers(0, 3, 2500).tolist()
    rule = lw.Rule("l2", 0.1 * np.sqrt(width) * 0.7)
    counts = Counts(rule, 300).count(X, Z)
    assert np.mean(counts) > 2
    with lw.Monitor(rule, index=index, row_file=tmp_path / "r", burst=lw.Burst(300)) as monitor:
        found = monitor.observe_many(X[:1000], Z[:1000]).neighbours.tolist()
        found += [monitor.observe(x, z).neighbours for x, z in zip(X[1000:], Z[1000:], strict=True)]
    assert found == counts


def test_verdicts_are_those_without_a_burst():
    rng = np.random.default_rng(4)
    X, Z = rng.integers(0, 4, (600, 4)) * 0.1, rng.integers(0, 3, 600).tolist()
    rule = lw.Rule("linf", 0.1)
    burst, plain = lw.Monitor(rule, burst=lw.Burst(100, alarm=5)), lw.Monitor(rule)
    for x, z in zip(X[:200], Z[:200], strict=True):
        mine, theirs = burst.observe(x, z), plain.observe(x, z)
        assert mine == theirs and repr(mine) == repr(theirs)
        assert (theirs.neighbours, theirs.alarm) == (None, False)
    plain = lw.Monitor(rule)
    plain.load(X[:200], Z[:200])
    verdicts = plain.observe_many(X[200:], Z[200:])
    assert verdicts.neighbours is None and not verdicts.alarms.any()
    oracle = Oracle(rule)
    oracle.load(X[:200], Z[:200])
    assert_same_verdicts(
        burst.observe_many(X[200:], Z[200:]), oracle.observe_many(X[200:], Z[200:])
    )


def test_an_empty_batch_has_no_neighbours():
    monitor = lw.Monitor(lw.Rule("linf", 0.1), burst=lw.Burst(10))
    for _ in range(2):
        assert monitor.observe_many(np.empty((0, 2)), []).neighbours.tolist() == []
        assert monitor.check([0.0, 0.0], "a").neighbours == len(monitor)
        monitor.observe([0.0, 0.0], "a")


def test_forgotten_decisions_leave_gaps_in_the_last_ones():
    monitor = lw.Monitor(lw.Rule("linf", 0.1), burst=lw.Burst(5))
    monitor.load(np.zeros((10, 2)), list(range(10)))
    monitor.forget([6, 7])
    assert monitor.check([0.0, 0.0], "a").neighbours == 3  # rows 5, 8 and 9, and none before


def test_threads_that_observe_together_are_counted_in_the_order_of_their_rows():
    rng = np.random.default_rng(9)
    X, rule = rng.integers(0, 4, (800, 2)) * 0.1, lw.Rule("linf", 0.1)
    monitor = lw.Monitor(rule, burst=lw.Burst(70))

    def watch(part):
        one = [monitor.observe(x, 0) for x in part[:150]]
        return [*one, *monitor.observe_many(part[150:], [0] * 50, threads=1)]

    with ThreadPoolExecutor(4) as pool:
        told = [one for part in pool.map(watch, np.split(X, 4)) for one in part]
    found = [one.neighbours for one in sorted(told, key=lambda one: one.row)]
    assert found == Counts(rule, 70).count(monitor.past.inputs(range(800)), [0] * 800)


class Fragile:
    """An index that looks at everything, and cannot add rows from some number on."""

    most = 10_000

    def __init__(self, space) -> None:
        self.rows: list[int] = []

    def add(self, row, point) -> None:
        if row >= self.most:
            raise RuntimeError("no room")
        self.rows.append(row)

    def candidates(self, point, radius):
        return np.array(self.rows, dtype=np.int64)


def test_an_index_that_fails_leaves_no_neighbour_behind(monkeypatch):
    rng = np.random.default_rng(5)
    X, rule = rng.integers(0, 3, (60, 2)) * 0.1, lw.Rule("linf", 0.1)
    monitor = lw.Monitor(rule, index=Fragile, burst=lw.Burst(20))
    oracle = Counts(rule, 20)
    for i, x in enumerate(X):
        if i % 7 == 3:
            monkeypatch.setattr(Fragile, "most", i)
            with pytest.raises(RuntimeError):
                monitor.observe(X[0], "b")
            monkeypatch.setattr(Fragile, "most", i + 2)
            with pytest.raises(RuntimeError):
                monitor.observe_many(X[:3], ["b"] * 3)
            monkeypatch.undo()
            assert len(monitor) == i
        if i % 5 == 1:  # a row of the same number, other than the one that failed
            monitor.load([x], ["a"])
            oracle.load([x], ["a"])
            continue
        assert monitor.observe(x, "a").neighbours == oracle.neighbours(x)
        oracle.load([x], ["a"])


# Tables


PEOPLE = {
    "age": lw.Feature("number", tolerance=5, missing="match"),
    "job": lw.Feature("category", missing="mismatch"),
    "sex": lw.Feature("protected"),
}


@pytest.mark.parametrize("missing", ["reject", "match"])
@pytest.mark.parametrize("differ", [False, True])
def test_rows_of_a_table_are_counted_where_places_match_everything(missing, differ):
    rng = np.random.default_rng(6)
    features = PEOPLE | {"age": lw.Feature("number", tolerance=5, missing=missing)}
    rule = lw.Rule(features=features, output_column="z", protected_must_differ=differ)
    share = 0.1 if missing == "match" else 0.0
    rows = [
        {
            "age": None if rng.random() < share else float(rng.integers(20, 60)),
            "job": str(rng.choice(["nurse", "smith"])),
            "sex": str(rng.choice(["f", "m"])),
            "z": str(rng.choice(["yes", "no"])),
        }
        for _ in range(400)
    ]

    def near(a, b):
        ages = a["age"], b["age"]
        return a["job"] == b["job"] and (None in ages or abs(ages[0] - ages[1]) <= 5)

    gone = {120, 121, 199}
    counts = [
        sum(near(row, rows[j]) for j in range(max(0, i - 50), i) if j not in gone or i < 200)
        for i, row in enumerate(rows)
    ]
    monitor = lw.Monitor(rule, burst=lw.Burst(50, alarm=10))
    for row, count in zip(rows[:100], counts[:100], strict=True):
        assert monitor.check(row).neighbours == count
        verdict = monitor.observe(row)
        assert (verdict.neighbours, verdict.alarm) == (count, count >= 10)
    verdicts = monitor.observe_many(rows[100:200])
    assert verdicts.neighbours.tolist() == counts[100:200]
    assert verdicts[7].neighbours == counts[107]
    assert [one.alarm for one in verdicts] == verdicts.alarms.tolist()
    monitor.forget(sorted(gone))
    monitor.load(rows[200:230])
    assert monitor.observe_many(rows[230:]).neighbours.tolist() == counts[230:]
    assert max(counts) > 10


# Ledgers


@pytest.mark.parametrize("window", ["all", "30 rows", "300 rows", "20 seconds"])
@pytest.mark.parametrize("table", [False, True])
def test_a_ledger_counts_the_same_however_often_it_is_opened(window, table, tmp_path):
    """Erased rows do not count, nor do rows that have left the window, kept as yet or not."""
    rng = np.random.default_rng(7)
    X = rng.integers(0, 4, (900, 2)) * 0.1
    Z = rng.integers(0, 2, 900).tolist()
    features = {name: lw.Feature("number", tolerance=0.1) for name in "ab"}
    rule = lw.Rule(features=features, output_column="z") if table else lw.Rule("linf", 0.1)
    oracle = Counts(lw.Rule("linf", 0.1), 100)
    seconds = np.cumsum(rng.choice([0.0, 0.2, 1.0], 900))
    when = seconds.astype("timedelta64[s]") + np.datetime64("2024-01-01T00:00:00")
    unit = window.split()[-1]

    def since(row):
        if unit == "rows":
            return max(0, row - int(window.split()[0]))
        age = when[row] - when[: row + 1]
        return 0 if window == "all" else int((age > np.timedelta64(20, "s")).sum())

    def given(part):
        if not table:
            return X[part], Z[part]
        rows = zip(X[part].tolist(), Z[part], strict=True)
        return ([{"a": a, "b": b, "z": z} for (a, b), z in rows],)

    def times(part):
        return [one.item() for one in when[part].astype("datetime64[ms]")]

    for life in range(6):
        first = 150 * life
        with lw.open(
            tmp_path / "ledger",
            rule,
            durability="off",
            window=window,
            burst=lw.Burst(100, alarm=20),
        ) as monitor:
            for row in range(first, first + 40):
                one = [column[0] for column in given(slice(row, row + 1))]
                time = times(slice(row, row + 1))[0]
                count = oracle.neighbours(X[row], since(row))
                assert monitor.check(*one, time=time).neighbours == count
                verdict = monitor.observe(*one, time=time)
                assert (verdict.neighbours, verdict.alarm) == (count, count >= 20), row
                oracle.load(X[row : row + 1], Z[row : row + 1])
            part = slice(first + 40, first + 140)
            verdicts = monitor.observe_many(*given(part), times=times(part))
            expected = []
            for row in range(first + 40, first + 140):
                expected.append(oracle.neighbours(X[row], since(row)))
                oracle.load(X[row : row + 1], Z[row : row + 1])
            assert verdicts.neighbours.tolist() == expected
            assert verdicts[3].neighbours == expected[3]
            gone = [first + 130, first + 139]
            monitor.erase(rows=gone)
            oracle.forget(gone)
            part = slice(first + 140, first + 150)
            monitor.load(*given(part), times=times(part))
            oracle.load(X[part], Z[part])
    assert max(expected) > 5


# What it is for


def wandering(rng, start, steps, length):
    """Someone looking for the edge of a decision: a walk of small steps, back when it got lost."""
    at = start.copy()
    for _ in range(steps):
        step = at + rng.normal(size=at.size) * length
        at = step if np.abs(step - start).max() < 2.5 * length else start.copy()
        yield at


def test_a_search_around_one_input_raises_the_alarm_and_ordinary_traffic_does_not():
    rng = np.random.default_rng(8)
    traffic = rng.random((3000, 8))
    burst = lw.Burst(last=1000, alarm=20)
    monitor = lw.Monitor(lw.Rule("linf", 0.05), burst=burst)
    assert not monitor.observe_many(traffic, np.ones(3000)).alarms.any()
    alarms = []
    for attack in wandering(rng, traffic[7], 60, 0.01):  # hidden among ten times as much traffic
        verdicts = monitor.observe_many(rng.random((9, 8)), np.ones(9))
        assert not verdicts.alarms.any()
        verdict = monitor.observe(attack, 1.0)
        assert not verdict.violation, "every answer is the same"
        alarms.append(verdict.alarm)
    assert alarms == [False] * 20 + [True] * 40


# The value itself


@pytest.mark.parametrize(
    ("settings", "setting"),
    [
        ({"last": 0}, "last"),
        ({"last": -5}, "last"),
        ({"last": 2.5}, "last"),
        ({"last": True}, "last"),
        ({"last": "many"}, "last"),
        ({"last": 10, "alarm": 0}, "alarm"),
        ({"last": 10, "alarm": 11}, "alarm"),
    ],
)
def test_a_burst_that_makes_no_sense_is_refused(settings, setting):
    with raises(lw.errors.BadRule, setting=setting):
        lw.Burst(**settings)


def test_a_burst_is_a_value():
    burst = lw.Burst(np.int64(10), alarm=np.int32(3))
    assert burst == lw.Burst(10, 3) and hash(burst) == hash(lw.Burst(10, 3))
    assert replace(burst, alarm=None) == lw.Burst(10)
    with raises(lw.errors.BadRule, setting="burst"):
        lw.Monitor(lw.Rule("linf", 0.1), burst=1000)


def test_a_monitor_says_that_it_counts():
    monitor = lw.Monitor(lw.Rule("linf", 0.1), burst=lw.Burst(1000, alarm=20))
    monitor.observe_many(np.random.default_rng(1).random((50, 2)), [0] * 50)
    told = str(monitor.explain())
    assert (
        "last 1,000 decisions are counted, alarm from 20 neighbours on; a tree of its own holds 50"
        in told
    )
    assert "burst" not in str(lw.Monitor(lw.Rule("linf", 0.1)).explain())
