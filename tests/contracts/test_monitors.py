"""What every monitor promises (monitor/protocol.py), asked of each of them.

One class, `Kept`, says how a monitor is made and what its decisions look like; everything else is
the same for all. The oracle is a few lines of NumPy over what was told, in the order of rows.
"""

import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

import likewise as lw
from likewise.monitor.opening import LedgerOptions
from tests.support.letter_embedders import letters
from tests.support.ray_cluster import reused
from tests.support.refusals import raises
from tests.support.served_monitors import connected
from tests.support.sharded import in_process
from tests.support.slopes import open_slopes, slope_monitor

COUNT = 60


@dataclass(frozen=True)
class Kept:
    """A kind of monitor.

    make        a monitor, given a folder
    decisions   so many of them, as pairs of input and output
    near        whether two inputs are near
    bad         a decision that is refused
    steepest    whether verdicts name the steepest pair and not all near ones
    comparable  whether verdicts say if there was a near past input at all
    """

    make: Callable[[Any], Any]
    decisions: Callable[[np.random.Generator, int], list[tuple[Any, Any]]]
    near: Callable[[Any, Any], bool]
    bad: tuple[Any, Any]
    steepest: bool = False
    comparable: bool = False


def points(rng: np.random.Generator, count: int) -> list[tuple[Any, Any]]:
    x = rng.integers(0, 2, (count, 3)) + rng.normal(0, 0.06, (count, 3))
    return [(one, str(z)) for one, z in zip(x, rng.integers(0, 3, count), strict=True)]


def near_points(a: Any, b: Any) -> bool:
    return bool(np.abs(np.asarray(a) - np.asarray(b)).max() <= 0.15)


def slopes(rng: np.random.Generator, count: int) -> list[tuple[Any, Any]]:
    return [
        (one, float(z)) for (one, _), z in zip(points(rng, count), rng.random(count), strict=True)
    ]


def people(rng: np.random.Generator, count: int) -> list[tuple[Any, Any]]:
    return [
        (
            {
                "age": int(rng.integers(20, 60)),
                "job": str(rng.choice(["cook", "nurse"])),
                "sex": str(rng.choice(["f", "m"])),
            },
            str(rng.choice(["yes", "no"])),
        )
        for _ in range(count)
    ]


def near_people(a: Any, b: Any) -> bool:
    return a["job"] == b["job"] and abs(a["age"] - b["age"]) <= 5


def texts(rng: np.random.Generator, count: int) -> list[tuple[Any, Any]]:
    words = rng.choice(list("abcdefgh"), (count, 6))
    return [
        ("".join(word), str(z)) for word, z in zip(words, rng.integers(0, 2, count), strict=True)
    ]


def near_texts(a: str, b: str) -> bool:
    counts = np.array(letters([a, b]), dtype=float)
    return bool(np.abs(counts[0] - counts[1]).sum() <= 4)


VECTORS = lw.Rule("linf", 0.15)
PEOPLE = lw.Rule(
    features={
        "age": lw.Feature("number", tolerance=5),
        "job": lw.Feature("category"),
        "sex": lw.Feature("protected"),
    },
    output_column="approved",
)
TEXTS = lw.Rule("l1", 4, embed=letters)
BAD_POINT, BAD_PERSON = ([0.1, np.nan, 0.2], "0"), ({"age": "old", "job": "cook", "sex": "f"}, "no")

KINDS = {
    "vectors": Kept(lambda _: lw.Monitor(VECTORS), points, near_points, BAD_POINT),
    "vectors, an index in Python": Kept(
        lambda _: lw.Monitor(VECTORS, index="kdtree"), points, near_points, BAD_POINT
    ),
    "vectors in a file": Kept(
        lambda folder: lw.Monitor(VECTORS, row_file=folder / "rows"), points, near_points, BAD_POINT
    ),
    "vectors, bursts": Kept(
        lambda _: lw.Monitor(VECTORS, burst=lw.Burst(20)), points, near_points, BAD_POINT
    ),
    "vectors, comparables": Kept(
        lambda _: lw.Monitor(VECTORS, comparable=True),
        points,
        near_points,
        BAD_POINT,
        comparable=True,
    ),
    "vectors, comparables by an index in Python": Kept(
        lambda _: lw.Monitor(VECTORS, index="kdtree", comparable=True),
        points,
        near_points,
        BAD_POINT,
        comparable=True,
    ),
    "tables, comparables": Kept(
        lambda _: lw.Monitor(PEOPLE, comparable=True),
        people,
        near_people,
        BAD_PERSON,
        comparable=True,
    ),
    "ledger of vectors, comparables": Kept(
        lambda folder: lw.open(folder / "ledger", VECTORS, comparable=True, durability="off"),
        points,
        near_points,
        BAD_POINT,
        comparable=True,
    ),
    "tables": Kept(lambda _: lw.Monitor(PEOPLE), people, near_people, BAD_PERSON),
    "embedded": Kept(lambda _: lw.Monitor(TEXTS), texts, near_texts, (17, "0")),
    "slopes": Kept(
        lambda _: slope_monitor(lw.Rule("linf", 0.15, output="number")),
        slopes,
        near_points,
        ([0.1, np.nan, 0.2], 0.5),
        steepest=True,
    ),
}
for durability in ("commit", "batch", "off"):
    KINDS[f"ledger of vectors, {durability}"] = Kept(
        lambda folder, durability=durability: lw.open(
            folder / "ledger", VECTORS, durability=durability
        ),
        points,
        near_points,
        BAD_POINT,
    )
for durability in ("commit", "off"):
    KINDS[f"ledger of slopes, {durability}"] = Kept(
        lambda folder, durability=durability: open_slopes(
            folder / "ledger", lw.Rule("linf", 0.15, output="number"), durability=durability
        ),
        slopes,
        near_points,
        ([0.1, np.nan, 0.2], 0.5),
        steepest=True,
    )
KINDS["ledger of a table"] = Kept(
    lambda folder: lw.open(folder / "ledger", PEOPLE, durability="off"),
    people,
    near_people,
    BAD_PERSON,
)
KINDS["ledger of texts"] = Kept(
    lambda folder: lw.open(folder / "ledger", TEXTS, durability="off"),
    texts,
    near_texts,
    (17, "0"),
)
KINDS["cluster of vectors"] = Kept(
    lambda folder: reused(folder / "ledger", VECTORS, LedgerOptions(durability="off")),
    points,
    near_points,
    BAD_POINT,
)
KINDS["cluster of a table, shards in this process"] = Kept(
    lambda folder: in_process(folder / "ledger", PEOPLE, comparable=True),
    people,
    near_people,
    BAD_PERSON,
    comparable=True,
)
SERVED = [
    "vectors, comparables",
    "ledger of a table",
    "vectors",
    "vectors, bursts",
    "embedded",
    "ledger of vectors, commit",
]
for name in SERVED:
    KINDS[f"{name}, behind a service"] = replace(
        KINDS[name], make=lambda folder, make=KINDS[name].make: connected(make(folder))
    )
SLOW = {f"{name}, behind a service" for name in SERVED[1:]}  # thousands of requests each


MARKS = {name: [pytest.mark.slow] for name in SLOW}
MARKS["cluster of vectors"] = [pytest.mark.long, pytest.mark.xdist_group("ray")]


@pytest.fixture(params=[pytest.param(name, marks=MARKS.get(name, ())) for name in KINDS])
def kept(request):
    return KINDS[request.param]


@pytest.fixture
def monitor(kept, tmp_path):
    with kept.make(tmp_path) as monitor:
        yield monitor


@pytest.fixture
def told(kept):
    return kept.decisions(np.random.default_rng(7), COUNT)


def test_what_only_some_monitors_can_do_is_asked_of_them(monitor):
    remote, core = monitor.remote, monitor.core
    assert remote in (None, monitor)
    assert (remote is None) == (core is not None)
    assert monitor.durable == (remote is not None or core.ledger is not None)
    assert core is None or core.ledger is None or core.ledger.accepted_count == 0
    assert not monitor.closed
    monitor.close()
    assert monitor.closed


def test_what_a_ledger_can_do_is_one_object_or_a_bad_rule(monitor, told):
    monitor.observe(*told[0])
    try:
        ledger = monitor.ledger
        head = ledger.head()
    except lw.errors.BadRule:
        assert monitor.core is None or monitor.core.ledger is None
        return
    assert head.rows == 1 and ledger.positions == {}
    verification = ledger.verify(head)
    assert verification.ok and verification.rows == 1


def oracle(kept: Kept, told: list[tuple[Any, Any]], gone: set[int] = frozenset()) -> list[Any]:
    """For each decision the rows that it contradicts; for slopes, the steepest slope."""
    answers: list[Any] = []
    for i, (x, z) in enumerate(told):
        past = [(j, *told[j]) for j in range(i) if j not in gone]
        if kept.steepest:
            rises = [
                abs(z - other) / np.abs(np.asarray(x) - np.asarray(y)).max()
                for _, y, other in past
                if z != other
            ]
            answers.append(round(max(rises, default=0.0), 9))
        else:
            answers.append([j for j, y, other in past if z != other and kept.near(x, y)])
    return answers


def answered(kept: Kept, verdict: Any) -> Any:
    return round(verdict.slope, 9) if kept.steepest else verdict.witnesses.rows.tolist()


def batch(told: list[tuple[Any, Any]]) -> tuple[Any, Any]:
    inputs = [x for x, _ in told]
    return (np.array(inputs) if isinstance(inputs[0], np.ndarray) else inputs), [z for _, z in told]


def test_it_finds_what_the_oracle_finds_one_by_one(kept, monitor, told):
    expected = oracle(kept, told)
    assert sum(map(bool, expected)) > COUNT / 4, "a test on nothing"
    for row, (x, z) in enumerate(told):
        assert monitor.rows == row
        verdict = monitor.observe(x, z)
        assert verdict.row == row and answered(kept, verdict) == expected[row]
    assert monitor.rows == len(monitor) == COUNT


@pytest.mark.parametrize("sizes", [(COUNT,), (1, 7, 32, 20)])
def test_batches_give_the_same_verdicts(kept, monitor, told, sizes):
    found, start = [], 0
    for size in sizes:
        verdicts = monitor.observe_many(*batch(told[start : start + size]))
        assert len(verdicts) == size and verdicts[0].row == start
        found += [answered(kept, verdict) for verdict in verdicts]
        start += size
    assert found == oracle(kept, told)


def likes(kept: Kept, told: list[tuple[Any, Any]], gone: set[int] = frozenset()) -> list[Any]:
    """For each decision whether an earlier input was near; None where that is not asked."""
    if not kept.comparable:
        return [None] * len(told)
    return [
        any(kept.near(x, told[j][0]) for j in range(i) if j not in gone)
        for i, (x, _) in enumerate(told)
    ]


def test_it_says_whether_there_was_a_near_input_where_that_is_asked(kept, monitor, told):
    if kept.steepest:
        pytest.skip("a slope is measured without a radius")
    expected = likes(kept, told)
    if kept.comparable:
        lonely = [
            not like and not rows for like, rows in zip(expected, oracle(kept, told), strict=True)
        ]
        assert any(lonely) and any(expected), "a test on nothing"
    assert monitor.check(*told[0]).comparable == expected[0]
    assert [monitor.observe(*one).comparable for one in told[:20]] == expected[:20]
    verdicts = monitor.observe_many(*batch(told[20:45]))
    assert [verdict.comparable for verdict in verdicts] == expected[20:45]
    gone = set(range(0, 45, 2))
    monitor.forget(sorted(gone))
    rest = [likes(kept, [*told[:45], one], gone)[-1] for one in told[45:]]
    checked = monitor.check_many(*batch(told[45:]))
    assert [verdict.comparable for verdict in checked] == rest
    assert [monitor.check(*one).comparable for one in told[45:]] == rest
    x, z = batch(told)
    nothing = monitor.observe_many(x[:0], z[:0]), monitor.check_many(x[:0], z[:0])
    for several in (verdicts, checked, *nothing):
        if not kept.comparable:
            assert several.comparable is None
            assert not any("comparable" in one for one in several.to_dicts())
            continue
        said = several.comparable.tolist()
        assert said == [one.comparable for one in several]
        assert said == [one["comparable"] for one in several.to_dicts()]


def test_an_empty_batch_is_nothing(monitor, told):
    x, z = batch(told)
    monitor.observe_many(x, z)
    assert len(monitor.observe_many(x[:0], z[:0])) == 0
    assert len(monitor.check_many(x[:0], z[:0])) == 0
    assert monitor.load(x[:0], z[:0]) == range(COUNT, COUNT) and monitor.rows == COUNT


def test_load_remembers_and_judges_nothing(kept, monitor, told):
    assert monitor.load(*batch(told[:40])) == range(40)
    expected = oracle(kept, told)
    assert [answered(kept, monitor.observe(*one)) for one in told[40:]] == expected[40:]


def test_checks_leave_no_trace_and_are_not_compared_with_each_other(kept, monitor, told):
    monitor.observe_many(*batch(told[:30]))
    rest = told[30:]
    alone = [oracle(kept, [*told[:30], one])[-1] for one in rest]
    assert sum(map(bool, alone)) > 5
    verdicts = monitor.check_many(*batch(rest))
    assert [answered(kept, verdict) for verdict in verdicts] == alone
    assert {verdict.row for verdict in verdicts} == {None}
    assert [answered(kept, monitor.check(*one)) for one in rest] == alone
    assert monitor.rows == len(monitor) == 30
    found = [answered(kept, verdict) for verdict in monitor.observe_many(*batch(rest))]
    assert found == oracle(kept, told)[30:]


def test_similar_cases_are_all_that_are_near_whatever_their_output(kept, monitor, told):
    assert len(monitor.like(told[0][0])) == monitor.rows == 0
    keys = [f"k{row}" for row in range(40)]
    monitor.observe_many(*batch(told[:40]), keys=keys, models=["a", "b"] * 20)
    found_any = 0
    for gone in (set(), set(range(0, 40, 3))):
        monitor.forget(sorted(gone))
        for x, _ in told[40:]:
            near = [j for j in range(40) if j not in gone and kept.near(x, told[j][0])]
            found = monitor.like(x)
            rows = found.rows.tolist()
            assert (sorted(rows), found.near, len(found)) == (near, len(near), len(near))
            pairs = list(zip(found.input_distances.tolist(), rows, strict=True))
            assert pairs == sorted(pairs)
            assert found.outputs == [told[row][1] for row in rows]
            assert found.keys == [keys[row] for row in rows]
            assert found.models == [("a", "b")[row % 2] for row in rows]
            assert dict(found.counts) == Counter(found.outputs)
            few = monitor.like(x, limit=2, model="a")
            assert few.rows.tolist() == rows[:2]
            assert (few.near, few.counts) == (found.near, found.counts)
            assert (len(found.times) == len(rows)) if found.times is not None else True
            found_any += len(rows)
    assert found_any > 20
    assert monitor.rows == 40
    for call in (lambda: monitor.like(kept.bad[0]), lambda: monitor.like(told[0][0], limit=-1)):
        with pytest.raises(lw.LikewiseError):
            call()
    with pytest.raises(lw.errors.BadRule):
        monitor.like(told[0][0], person="somebody")


def test_a_check_before_everything_settles_nothing(kept, monitor, told):
    assert not answered(kept, monitor.check(*told[0]))
    assert len(monitor.check_many(*batch(told[:3]))) == 3
    assert monitor.rows == 0
    assert answered(kept, monitor.observe(*told[0])) == oracle(kept, told)[0]


def test_what_is_forgotten_is_no_witness(kept, monitor, told):
    monitor.observe_many(*batch(told[:40]))
    gone = set(range(0, 40, 3))
    assert monitor.forget(sorted(gone)) == len(gone)
    assert monitor.forget([0, 3]) == 0
    assert monitor.rows == 40 and len(monitor) == 40 - len(gone)
    expected = oracle(kept, told, gone)
    assert [answered(kept, monitor.observe(*one)) for one in told[40:]] == expected[40:]
    assert not monitor.past.alive(sorted(gone)).any()
    assert monitor.past.alive([1, 2]).all()


@pytest.mark.long
def test_a_refused_decision_leaves_no_trace_and_cannot_be_seen(kept, monitor, told):
    for first in (0, 30):
        for one in told[first : first + 30]:
            with pytest.raises(lw.LikewiseError):
                monitor.observe(*kept.bad, key="refused")
            with pytest.raises(lw.LikewiseError):
                monitor.check(*kept.bad)
            with pytest.raises(lw.LikewiseError):
                monitor.observe_many(*batch_of([one, kept.bad]))
            with pytest.raises(lw.LikewiseError):
                monitor.load(*batch_of([one, kept.bad]))
            assert monitor.past.row_of("refused") is None
            row = monitor.rows
            assert answered(kept, monitor.observe(*one)) == oracle(kept, told)[row]
    assert monitor.rows == len(monitor) == COUNT


def batch_of(several: list[tuple[Any, Any]]) -> tuple[Any, Any]:
    return [x for x, _ in several], [z for _, z in several]


def test_keys_are_unique_and_found(kept, monitor, told):
    monitor.observe(*told[0], key="first")
    x, z = batch(told[1:4])
    monitor.observe_many(x, z, keys=["second", None, 17])
    assert monitor.load(*batch(told[4:5]), keys=["loaded"]) == range(4, 5)
    for key, row in (("first", 0), ("second", 1), (17, 3), ("loaded", 4), ("none", None)):
        assert monitor.past.row_of(key) == row
    assert monitor.past.keys(range(5)) == ["first", "second", None, 17, "loaded"]
    for repeated in (["first", "x"], ["x", "x"]):
        with pytest.raises(lw.errors.RepeatedKey):
            monitor.observe_many(*batch(told[5:7]), keys=repeated)
    with pytest.raises(lw.errors.BadDecision):
        monitor.observe_many(*batch(told[5:7]), keys=["one"])
    assert monitor.rows == 5
    monitor.forget([0])
    assert monitor.past.row_of("first") is None and monitor.past.keys([0]) == [None]


def test_keys_are_in_verdicts(kept, monitor, told):
    if kept.steepest:
        pytest.skip("a slope names one row, and no keys")
    verdicts = monitor.observe_many(*batch(told), keys=[f"k{i}" for i in range(COUNT)])
    for row, verdict in enumerate(verdicts):
        assert verdict.key == f"k{row}"
        assert verdict.witness_keys == tuple(f"k{i}" for i in verdict.witnesses.rows)
    checked = monitor.check(*told[-1])
    assert checked.key is None and len(checked.witness_keys) == len(checked.witnesses)


def test_models_are_remembered_and_named(kept, monitor, told):
    names = [("a", "b", None)[i % 3] for i in range(COUNT)]
    monitor.observe(*told[0], model="a")
    x, z = batch(told[1:40])
    found = monitor.observe_many(x, z, models=names[1:40])
    assert monitor.load(*batch(told[40:50]), models=names[40:50]) == range(40, 50)
    assert monitor.past.models(range(50)) == names[:50]
    checked = monitor.check(*told[50], model="new")
    several = monitor.check_many(*batch(told[50:]), models="a")
    for wrong in ("", 5):
        with raises(lw.errors.UnexpectedValue):
            monitor.observe(*told[50], model=wrong)
        with raises(lw.errors.UnexpectedValue):
            monitor.observe_many(*batch(told[50:52]), models=["a", wrong])
    assert monitor.rows == 50
    monitor.forget([0, 1])
    assert monitor.past.models([0, 1, 3]) == [None, None, "a"]
    if kept.steepest:
        return
    for verdict, name in zip(found, names[1:40], strict=True):
        assert verdict.model == name
        assert verdict.witness_models == tuple(names[i] for i in verdict.witnesses.rows)
    assert checked.model == "new" and several.models == ("a",) * 10
    assert several.witness_models == tuple(names[i] for i in several.witnesses.rows)


def test_losses_are_said_by_every_later_verdict_and_by_no_earlier_one(kept, monitor, told):
    before = monitor.observe(*told[0])
    monitor.record_loss(2, "full", first=1, last=2)
    later = monitor.observe(*told[1])
    many = monitor.observe_many(*batch(told[2:5]))
    checked = monitor.check(*told[5])
    monitor.record_loss(3, "crash", since=1_700_000_000.0, until="2023-11-14T22:13:21")
    last = monitor.observe_many(*batch(told[5:6]))
    assert (before.missing_decisions, later.missing_decisions, checked.missing_decisions) == (
        0,
        2,
        2,
    )
    assert (many.missing_decisions, [one.missing_decisions for one in many]) == (2, [2, 2, 2])
    assert monitor.check_many(*batch(told[6:8])).missing_decisions == 5
    assert (last.missing_decisions, last[0].missing_decisions, monitor.missing_decisions) == (
        5,
        5,
        5,
    )
    assert not any(one.clean for one in (later, *many, checked, *last))
    assert monitor.rows == 6
    for count, reason in ((0, "full"), (-1, "full"), (True, "full"), (1.5, "x"), (1, ""), (1, 7)):
        with pytest.raises(lw.errors.BadDecision):
            monitor.record_loss(count, reason)
    with pytest.raises(lw.errors.BadDecision):
        monitor.record_loss(1, "full", first="one")
    with pytest.raises(lw.errors.BadDecision):
        monitor.record_loss(1, "full", since="soon")
    assert monitor.missing_decisions == 5


def test_times_are_checked(monitor, told):
    monitor.observe(*told[0], time=1_700_000_000.0)
    monitor.observe_many(*batch(told[1:3]), times=[1_700_000_001, 1_700_000_002])
    for wrong in ("soon", float("nan")):
        with pytest.raises(lw.errors.BadDecision):
            monitor.observe(*told[3], time=wrong)
        with pytest.raises(lw.errors.BadDecision):
            monitor.observe_many(*batch(told[3:5]), times=[wrong, wrong])
    with pytest.raises(lw.errors.BadDecision):
        monitor.observe_many(*batch(told[3:5]), times=[1_700_000_003])
    assert monitor.rows == 3


def test_the_past_is_what_was_told(kept, monitor, told):
    monitor.observe_many(*batch(told))
    past, rows = monitor.past, list(range(COUNT))
    assert past.rule == monitor.rule
    assert past.outputs(rows) == [z for _, z in told]
    if isinstance(told[0][0], dict):
        assert [past.values(row) for row in rows] == [{**x, "approved": z} for x, z in told]
        for several in ([1, 0], [], [0]):  # one row at a time
            with pytest.raises(lw.errors.BadRow):
                past.values(several)
        codes, values = past.codes("job", rows)
        assert [values[code] for code in codes] == [x["job"] for x, _ in told]
    else:
        vectors = letters([x for x, _ in told]) if isinstance(told[0][0], str) else batch(told)[0]
        assert np.array_equal(past.inputs(rows), np.array(vectors, dtype=past.inputs(rows).dtype))
    monitor.forget([4])
    assert past.outputs([3, 4]) == [told[3][1], None]
    for look in (past.outputs, past.inputs, past.keys, past.alive):
        with pytest.raises(lw.errors.BadRow):
            look([COUNT])


def test_threads_take_turns(kept, monitor, told):
    taken: list[tuple[int, int]] = []

    def tell(places: range) -> None:
        for place in places:
            taken.append((monitor.observe(*told[place]).row, place))

    threads = [threading.Thread(target=tell, args=(range(i, COUNT, 4),)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(row for row, _ in taken) == list(range(COUNT))
    in_order = [told[place] for _, place in sorted(taken)]
    assert monitor.past.outputs(range(COUNT)) == [z for _, z in in_order]
    x, z = told[0]
    expected = oracle(kept, [*in_order, (x, z)])[-1]
    assert answered(kept, monitor.check(x, z)) == expected


def test_a_closed_monitor_takes_nothing(kept, tmp_path, told):
    with kept.make(tmp_path) as monitor:
        monitor.observe(*told[0])
    monitor.close()  # once more, which is nothing
    x, z = batch(told[:2])
    for call in (monitor.observe, monitor.check):
        with raises(lw.LikewiseError):
            call(*told[0])
    for call in (monitor.observe_many, monitor.check_many, monitor.load):
        with raises(lw.LikewiseError):
            call(x, z)
    for call in (monitor.forget, monitor.past.inputs):
        with pytest.raises(lw.LikewiseError):
            call([0])


def test_a_monitor_is_closed_when_something_fails_inside(kept, tmp_path, told):
    with pytest.raises(ZeroDivisionError), kept.make(tmp_path) as monitor:
        monitor.observe(*told[0])
        raise ZeroDivisionError
    assert monitor.closed


def test_it_says_what_it_is(kept, monitor, told):
    assert str(monitor.explain())
    monitor.observe(*told[0])
    assert "1" in str(monitor.explain()) and "Monitor" in repr(monitor)
