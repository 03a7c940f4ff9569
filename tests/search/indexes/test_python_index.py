"""Somebody else's index: whatever it does, verdicts are exact or the error is theirs.

It may name rows that repeat or do not exist. It may raise, and then nothing was remembered. It may
keep copies, and then it goes when something is forgotten.
"""

import gc
import math
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st

import likewise as lw
from likewise.search.indexes.protocol import Point, Points, Rows, Space
from tests.support.index_cases import Scan, scan_of
from tests.support.oracle import Oracle, assert_same_verdict, assert_same_verdicts
from tests.support.play import VERBS, play
from tests.support.refusals import raises
from tests.support.strategies import METRICS, Tally, prove, streams

pytestmark = pytest.mark.pairwise

RULE = lw.Rule("linf", 0.1, slack=0)


def decisions(n: int, seed: int = 1, width: int = 3) -> tuple[np.ndarray, list[str]]:
    """Tenths, so that there are ties and witnesses; labels of which some are rare."""
    rng = np.random.default_rng(seed)
    return rng.integers(0, 4, (n, width)) * 0.1, [f"label {k}" for k in rng.poisson(2, n)]


def assert_goes_on(monitor: lw.Monitor, oracle: Oracle) -> None:
    """As if nothing had happened."""
    assert len(monitor) == len(oracle)
    X, Z = decisions(60, seed=7)
    said = [monitor.observe(x, z) for x, z in zip(X[:30], Z[:30], strict=True)]
    expected = oracle.observe_many(X, Z)
    for verdict, one in zip(said, expected, strict=False):
        assert_same_verdict(verdict, one)
    assert_same_verdicts(monitor.observe_many(X[30:], Z[30:]), expected[30:])
    assert any(len(one.rows) for one in expected)


# What it may propose

PROPOSALS: dict[str, Callable[[Rows], Any]] = {
    "twice": lambda rows: np.concatenate([rows, rows]),
    "backwards": lambda rows: rows[::-1],
    "a thousand times": lambda rows: np.repeat(rows, 1_000),
    "with rows that are not there": lambda rows: np.append(rows, [10**6, 2**62, 2**63 - 1]),
    "with negative rows": lambda rows: np.append([-1, -7, -(2**63)], rows),
    "with the row itself": lambda rows: np.append(rows, rows.max(initial=-1) + 1),
    "everything and more": lambda rows: np.arange(-300, 3_000),
    "as a list": lambda rows: rows.tolist(),
    "as int32": lambda rows: rows.astype(np.int32),
    "as a view with gaps": lambda rows: np.repeat(rows, 2)[::2],
}


@pytest.mark.parametrize("proposal", PROPOSALS.values(), ids=PROPOSALS)
def test_needless_candidates_are_harmless(proposal):
    class Careless(Scan):
        def candidates(self, point: Point, reach: float) -> Any:
            return proposal(super().candidates(point, reach))

    X, Z = decisions(150)
    steps = [(verb, 25, 3) for verb in (*VERBS, "observe")]
    expected = play(lw.Monitor(RULE, index=Careless), Oracle(RULE), X, Z, steps)
    assert any(len(one.rows) for one in expected)


NO_ROWS: dict[str, Callable[[int], Any]] = {
    "a mask": lambda count: np.ones(count, dtype=bool),
    "a mask that rules out all": lambda count: np.zeros(count, dtype=bool),
    "a list of truths": lambda count: [True] * count,
    "floats": lambda count: np.arange(count) * 1.0,
    "text": lambda count: [str(row) for row in range(count)],
    "rows in a matrix": lambda count: np.arange(count)[:, None],
    "one row alone": lambda count: np.int64(0),
    "nothing at all": lambda count: None,
}


@pytest.mark.parametrize("wrap", [None, "split", "periodic"])
@pytest.mark.parametrize("answer", NO_ROWS.values(), ids=NO_ROWS)
def test_an_answer_that_is_no_row_numbers_is_refused(answer, wrap):
    """A mask read as numbers would be the rows 0 and 1."""
    right = True

    class Wrong(Scan):
        def candidates(self, point: Point, reach: float) -> Any:
            return np.array(self.rows) if right else answer(len(self.rows))

    class WrongStatic:
        def __init__(self, points: Points, space: Space) -> None:
            self._count = len(points)

        def within(self, point: Point, reach: float) -> Any:
            return np.arange(self._count) if right else answer(self._count)

    index = {None: Wrong, "split": lw.Split(Wrong, 2), "periodic": lw.Periodic(WrongStatic, tau=5)}
    monitor, oracle = lw.Monitor(RULE, index=index[wrap]), Oracle(RULE)
    X, Z = decisions(30)
    monitor.observe_many(X, Z)
    oracle.load(X, Z)
    right = False
    for verb in ("observe", "check", "observe_many"):
        with raises(lw.errors.BadRule):
            offer(monitor, verb, X, Z)
    right = True
    assert_goes_on(monitor, oracle)


def test_an_answer_of_no_rows_may_have_any_type():
    class Nothing(Scan):
        def candidates(self, point: Point, reach: float) -> Any:
            return []

    assert lw.Monitor(RULE, index=Nothing).observe_many(*decisions(20)).pairs == 0


class AsItLikes(Scan):
    """Compares without a margin, in another order and by another formula than the kernels."""

    def candidates(self, point: Point, reach: float) -> Rows:
        def near(other: Point) -> bool:
            gaps = [abs(a - b) for a, b in zip(other.tolist(), point.tolist(), strict=True)]
            if self.space.metric == "linf":
                return max(gaps) <= reach
            return (
                sum(reversed(gaps)) if self.space.metric == "l1" else math.hypot(*gaps)
            ) <= reach

        return np.array(
            [row for row, other in zip(self.rows, self.points, strict=True) if near(other)]
        )


@pytest.mark.parametrize("metric", METRICS)
def test_an_index_may_compare_as_it_likes(metric):
    """The radius that it is told makes up for every rounding."""
    tally = Tally()

    @prove(8, stream=streams(metric, most=40, widths=(1, 2, 3, 5, 9)))
    def holds(stream):
        expected = Oracle(stream.rule).observe_many(stream.X, stream.Z)
        monitor = lw.Monitor(stream.rule, index=AsItLikes)
        assert_same_verdicts(monitor.observe_many(stream.X, stream.Z), expected)
        tally.note(expected)

    tally.assert_enough()


def test_points_come_in_units_of_a_radius_a_little_above_one():
    reaches, spaces = [], []

    class Watching(Scan):
        def candidates(self, point: Point, reach: float) -> Rows:
            reaches.append(reach)
            spaces.append(self.space)
            return super().candidates(point, reach)

    for metric in METRICS:
        monitor = lw.Monitor(lw.Rule(metric, 0.02), index=Watching)
        monitor.observe_many(1 + decisions(50)[0], ["same"] * 50)
    assert len(reaches) == 4 * 49
    assert all(1.0 < reach < 1.0 + 1e-6 for reach in reaches)
    assert {space.metric for space in spaces} == {"linf", "l1", "l2"}
    assert {space.width for space in spaces} == {3}


# What becomes of its rows


class Recorded(Scan):
    """Keeps account of every index made."""

    made: list["Recorded"]

    def __init_subclass__(cls) -> None:
        cls.made = []

    def __init__(self, space: Space) -> None:
        super().__init__(space)
        type(self).made.append(self)


class TakingMany(Scan):
    """Would rather have many rows at once."""

    def __init__(self, space: Space) -> None:
        super().__init__(space)
        self.batches: list[int] = []

    def add_many(self, rows: Rows, points: Points) -> None:
        self.batches.append(len(rows))
        for row, point in zip(rows.tolist(), points, strict=True):
            self.add(row, point)


@pytest.mark.parametrize("kind", [Scan, TakingMany])
def test_every_row_is_added_once_and_in_order(kind):
    made = []

    def make(space: Space) -> Scan:
        made.append(kind(space))
        return made[-1]

    X, Z = decisions(2_000)
    monitor = lw.Monitor(RULE, index=make)
    monitor.observe(X[0], Z[0])
    monitor.load(X[1:40], Z[1:40])  # inserted
    monitor.observe_many(X[40:60], Z[40:60])
    monitor.check(X[0], Z[0])
    monitor.load(X[60:1_990], Z[60:1_990])  # most of the history: built at once
    monitor.observe_many(X[1_990:], Z[1_990:])
    assert len(made) == 1
    assert made[0].rows == list(range(2_000))
    if kind is TakingMany:
        assert sum(made[0].batches) == 39 + 1_930


def test_forgetting_drops_the_copies():
    class Keeping(Recorded):
        pass

    X, Z = decisions(50)
    monitor, oracle = lw.Monitor(RULE, index=Keeping), Oracle(RULE)
    monitor.observe_many(X, Z)
    oracle.load(X, Z)
    secret = Keeping.made[0].points[17].tolist()
    gone = [row for row, x in enumerate(X) if (x == X[17]).all()]
    old = weakref.ref(Keeping.made.pop())
    assert monitor.forget(gone) == oracle.forget(gone)
    gc.collect()
    assert old() is None, "someone still holds on to the index with the forgotten rows"
    assert_same_verdict(monitor.check(X[17], "new"), oracle.check(X[17], "new"))
    assert len(Keeping.made) == 1
    assert Keeping.made[0].rows == [row for row in range(50) if row not in gone]
    assert secret not in [point.tolist() for point in Keeping.made[0].points]
    assert_goes_on(monitor, oracle)
    assert len(Keeping.made) == 1


@pytest.mark.parametrize(
    "wrap", [lambda make: lw.Split(make, 1), lambda make: lw.Split(make, 2)], ids=["1 part", "2"]
)
def test_forgetting_drops_the_copies_in_every_part(wrap):
    class Keeping(Recorded):
        pass

    X, Z = decisions(30)
    monitor, oracle = lw.Monitor(RULE, index=wrap(Keeping)), Oracle(RULE)
    monitor.observe_many(X, Z)
    oracle.load(X, Z)
    before = len(Keeping.made)
    assert monitor.forget(range(20)) == oracle.forget(range(20))
    assert_goes_on(monitor, oracle)
    assert len(Keeping.made) == 2 * before
    for index in Keeping.made[before:]:
        assert index.rows == list(range(20, 90))


def test_forgetting_drops_the_copies_of_a_static_index():
    built = []

    class Static:
        def __init__(self, points: Points, space: Space) -> None:
            built.append(len(points))
            self._count = len(points)

        def within(self, point: Point, reach: float) -> Rows:
            return np.arange(self._count)

    X, Z = decisions(40)
    monitor, oracle = lw.Monitor(RULE, index=lw.Periodic(Static, tau=10)), Oracle(RULE)
    monitor.observe_many(X, Z)
    oracle.load(X, Z)
    assert monitor.forget(range(25)) == oracle.forget(range(25))
    built.clear()
    assert_goes_on(monitor, oracle)
    assert built[0] == 15


# When it raises


ADDING = ("add, before", "add, after")


class Broken(RuntimeError):
    """The index's own error."""


class Failing(Scan):
    """Raises at a certain call, once."""

    countdown: dict[str, int]

    def _count(self, verb: str) -> None:
        left = self.countdown.get(verb)
        if left is not None:
            self.countdown[verb] = left - 1
            if left == 0:
                raise Broken(f"{verb} failed")

    def add(self, row: int, point: Point) -> None:
        self._count("add, before")
        super().add(row, point)
        self._count("add, after")

    def candidates(self, point: Point, reach: float) -> Rows:
        self._count("candidates")
        return super().candidates(point, reach)


def failing() -> type[Failing]:
    return type("Failing", (Failing,), {"countdown": {}})


def offer(monitor: lw.Monitor, verb: str, X: np.ndarray, Z: list[str]) -> None:
    if verb in ("observe", "check"):
        getattr(monitor, verb)(X[0], Z[0])
    else:
        getattr(monitor, verb)(X, Z)


BATCHES = [("load", 10, 5), ("load", 600, 0), ("load", 600, 599)]
JUDGED = [("observe", 1, 0), ("observe_many", 40, 0), ("observe_many", 40, 25)]
FAILURES = [
    *((*batch, call, past) for batch in BATCHES + JUDGED for call in ADDING for past in (0, 30)),
    *((*batch, "candidates", 30) for batch in [*JUDGED, ("check", 1, 0)]),
    *((*batch, "candidates", 0) for batch in JUDGED[1:]),
]
"""What is asked, of how many decisions, after how many calls what fails, and what is remembered."""


@pytest.mark.parametrize(("verb", "size", "after", "call", "past"), FAILURES)
def test_an_error_of_the_index_reaches_the_caller_and_nothing_is_remembered(
    verb, size, after, call, past
):
    make = failing()
    X, Z = decisions(past + size, seed=4)
    monitor, oracle = lw.Monitor(RULE, index=make), Oracle(RULE)
    if past:
        monitor.observe_many(X[:past], Z[:past])
        oracle.load(X[:past], Z[:past])
    new = [f"never seen {k % 3}" for k in range(size)]
    make.countdown[call] = after
    with pytest.raises(Broken, match=call):
        offer(monitor, verb, X[past:], new)
    assert len(monitor) == past
    assert monitor.explain().remembered == past
    assert_goes_on(monitor, oracle)


@pytest.mark.parametrize("verb", ["observe", "observe_many", "load"])
def test_an_error_at_the_first_decision_settles_nothing(verb):
    """Neither the shape of inputs nor their type."""
    make = failing()
    monitor = lw.Monitor(RULE, index=make)
    make.countdown["add, after"] = 0
    with pytest.raises(Broken):
        offer(monitor, verb, np.zeros((2, 5), dtype=np.float32), ["a", "b"])
    assert monitor.explain().width is None
    assert_goes_on(monitor, Oracle(RULE))


@pytest.mark.parametrize("verb", ["observe", "observe_many", "load"])
def test_an_error_of_the_factory_reaches_the_caller(verb):
    refusing = True

    def make(space: Space) -> Scan:
        if refusing:
            raise Broken("no index today")
        return Scan(space)

    monitor = lw.Monitor(RULE, index=make)
    for _ in range(2):
        with pytest.raises(Broken, match="no index today"):
            offer(monitor, verb, *decisions(5))
    assert len(monitor) == 0
    refusing = False
    assert_goes_on(monitor, Oracle(RULE))


def test_a_build_that_fails_is_tried_again():
    failures = 3

    class Static:
        def __init__(self, points: Points, space: Space) -> None:
            nonlocal failures
            failures -= 1
            if failures >= 0:
                raise Broken("build failed")
            self._count = len(points)

        def within(self, point: Point, reach: float) -> Rows:
            return np.arange(self._count)

    X, Z = decisions(40)
    monitor, oracle = lw.Monitor(RULE, index=lw.Periodic(Static, tau=10)), Oracle(RULE)
    failed = 0
    for x, z in zip(X, Z, strict=True):
        while True:
            try:
                verdict = monitor.observe(x, z)
                break
            except Broken:
                failed += 1
                assert len(monitor) == len(oracle)
        assert_same_verdict(verdict, oracle.observe(x, z))
    assert failed == 3
    assert_goes_on(monitor, oracle)


# An index that is there already


def test_an_object_serves_like_any_other_index():
    tally = Tally()
    steps = st.lists(
        st.tuples(st.sampled_from(VERBS[:-1]), st.integers(1, 40), st.just(1)), max_size=6
    )

    @prove(10, stream=streams(most=100, widths=(1, 2, 5)), steps=steps)
    def holds(stream, steps):
        index = scan_of(stream.rule.metric, stream.X.shape[1])
        monitor = lw.Monitor(stream.rule, index=index)
        whole = [*steps, ("observe", 20, 1)]
        tally.note(play(monitor, Oracle(stream.rule), stream.X, stream.Z, whole))
        assert index.rows == list(range(len(monitor)))

    tally.assert_enough()


CANNOT_FORGET = "given as an object, and another is needed: objects cannot forget, .*function that"


@pytest.mark.parametrize(
    "wrap", [lambda index: index, lambda index: lw.Split(index, 1)], ids=["object", "Split"]
)
def test_an_object_cannot_forget_and_says_so(wrap):
    X, Z = decisions(30)
    index = scan_of("linf", 3)
    monitor, oracle = lw.Monitor(RULE, index=wrap(index)), Oracle(RULE)
    monitor.observe_many(X, Z)
    oracle.load(X, Z)
    for rows in (3, [5, 6], range(30)):
        with raises(lw.errors.BadRule):
            monitor.forget(rows)
    assert monitor.forget([]) == 0
    assert monitor.explain().forgotten == 0
    assert monitor.past.inputs(range(30)).tolist() == X.tolist()
    assert_goes_on(monitor, oracle)
    assert index.rows == list(range(90))


@pytest.mark.parametrize(
    ("x", "z"),
    [([0.1, np.nan, 0.2], "yes"), ([0.1, 0.2, 0.3], ["no label"]), ([], "yes"), ("abc", "yes")],
    ids=["NaN", "unhashable", "empty", "no numbers"],
)
def test_a_refused_first_decision_does_not_use_an_object_up(x, z):
    index = scan_of("linf", 3)
    monitor = lw.Monitor(RULE, index=index)
    for _ in range(2):
        with pytest.raises(lw.errors.BadDecision):
            monitor.observe(x, z)
        with pytest.raises(lw.errors.BadDecision):
            monitor.check(x, z)
    monitor.check([0.1, 0.2, 0.3], "yes")
    assert index.rows == []
    assert_goes_on(monitor, Oracle(RULE))
    assert index.rows == list(range(60))


def test_an_object_that_failed_half_way_is_not_asked_again():
    """It holds more, or less, than is remembered, and cannot be made anew."""
    make = failing()
    index = make(Space("linf", 3))
    monitor = lw.Monitor(RULE, index=index)
    X, Z = decisions(20)
    monitor.observe_many(X, Z)
    make.countdown["add, before"] = 4
    with pytest.raises(Broken):
        monitor.observe_many(X, Z)
    with raises(lw.errors.BadRule):
        monitor.observe(X[0], Z[0])
    assert len(monitor) == 20


def test_an_object_in_several_parts_is_refused_and_nothing_is_remembered():
    monitor = lw.Monitor(RULE, index=lw.Split(scan_of("linf", 3), 2))
    with raises(lw.errors.BadRule):
        monitor.observe([0.1, 0.2, 0.3], "yes")
    assert len(monitor) == 0


# What is said about it


def test_explain_says_which_index_was_given():
    class Telling(Scan):
        def explain(self) -> str:
            return f"{len(self.rows)} rows in a list"

    for index, name, form in (
        (Scan, "Scan", "as given"),
        (Telling, "Telling", "1 rows in a list"),
        ("brute", "brute", "1 rows, all of them looked at"),
        (lw.Split(Telling, 2), "Split(", "2 parts of the coordinates, searched side by side"),
    ):
        monitor = lw.Monitor(RULE, index=index)
        monitor.observe([0.1, 0.2, 0.3], "yes")
        told = monitor.explain()
        assert told.index.startswith(name)
        assert told.form.startswith(form)
        assert told.reason == "asked for"
        assert told.tau is None and told.predicted_us is None
        assert form in str(told)
        monitor.forget(0)
        assert monitor.explain().form == "rebuilt with the next decision"
