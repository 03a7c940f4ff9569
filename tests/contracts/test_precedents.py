"""`monitor.like` names every remembered decision that is near and counts, nearest first; exactly.

The oracle compares with everything; distances agree to the last bit. Nothing is remembered of a
question.
"""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import strategies as st

import likewise as lw
from tests.contracts.test_comparable import FEATURES, near_people, people
from tests.support.index_cases import few
from tests.support.loan_pairs import (
    Conditions,
    choose_models,
    draw_loans,
    every_condition,
    monitor_of_loans,
    rule_of_loans,
)
from tests.support.oracle import Oracle, input_distances
from tests.support.play import VERBS, play, play_together
from tests.support.precedents import Answers, nearby
from tests.support.refusals import raises
from tests.support.sharded import LocalShards, in_process, sharded
from tests.support.strategies import METRICS, every_kind, prove, streams

pytestmark = pytest.mark.early

SEEDS = st.integers(0, 2**32 - 1)
STEPS = st.lists(
    st.tuples(st.sampled_from(VERBS), st.integers(1, 5) | st.integers(1, 150), SEEDS), max_size=8
)
COMPARED = st.sampled_from(("all", "within", "across"))
QUESTIONS = 12  # of each stream


def compare_stream(answers: Answers, monitors, stream, steps, seed) -> None:
    """Play a stream to monitors and the oracle, and ask all of them the same."""
    rng = np.random.default_rng(seed)
    models = choose_models(seed, len(stream)) if stream.rule.compare != "all" else None
    oracle = Oracle(stream.rule)
    steps = [("observe_many", 120, 0), *steps]
    play_together(monitors, oracle, stream.X, stream.Z, steps, models)
    asked = nearby(rng, stream.X, QUESTIONS, stream.rule.metric)
    told = None if models is None else [models[i] for i in rng.integers(len(models), size=99)]
    for monitor in monitors:
        rows = monitor.rows
        answers.compare(monitor, oracle, asked, told)
        assert monitor.rows == rows
    play_together(monitors, oracle, stream.X[:9], stream.Z[:9], [("observe", 9, 0)])


@every_kind
def test_precedents_are_those_of_the_oracle(metric, output, family):
    answers = Answers()

    @prove(8, stream=streams(metric, output, family, most=400), steps=STEPS, seed=SEEDS)
    def holds(stream, steps, seed):
        compare_stream(answers, [lw.Monitor(stream.rule)], stream, steps, seed)

    answers.assert_enough()


@pytest.mark.parametrize("metric", METRICS)
def test_precedents_do_not_depend_on_the_index(metric):
    answers = Answers()
    short = streams(metric, most=130, widths=(2, 3, 5, 8))

    @prove(4, stream=short, steps=STEPS, seed=SEEDS, compare=COMPARED)
    def holds(stream, steps, seed, compare):
        stream = replace(stream, rule=replace(stream.rule, compare=compare))
        steps = [step for step in steps if step[0] != "forget"]  # an object cannot forget
        names = {"auto": lambda width: "auto", **few(metric)}
        if metric in ("l2", "cosine"):
            names["flat"] = lambda width: "flat"
        monitors = [
            lw.Monitor(stream.rule, index=make(stream.X.shape[1])) for make in names.values()
        ]
        compare_stream(answers, monitors, stream, steps, seed)

    answers.assert_enough()


@pytest.mark.parametrize("metric", METRICS)
def test_precedents_of_shards_and_models(metric):
    answers = Answers()

    @prove(6, stream=streams(metric, most=200), steps=STEPS, seed=SEEDS, compare=COMPARED)
    def holds(stream, steps, seed, compare):
        stream = replace(stream, rule=replace(stream.rule, compare=compare))
        monitors = [lw.Monitor(stream.rule), sharded(stream.rule)]
        compare_stream(answers, monitors, stream, steps, seed)

    answers.assert_enough()


@pytest.mark.parametrize("index", ["auto", "flat", "kdtree", "snn"])
def test_precedents_of_long_inputs_in_a_file(index, tmp_path):
    rng = np.random.default_rng(3)
    centres = rng.normal(size=(40, 48))
    X = centres[rng.integers(40, size=900)] + 0.3 * rng.normal(size=(900, 48))
    Z = rng.integers(0, 7, 900).tolist()
    rule = lw.Rule("l2", float(np.sort(input_distances(lw.Rule("l2", 1.0), X, X[0]))[6]))
    answers, oracle = Answers(), Oracle(rule)
    with lw.Monitor(rule, index=index, row_file=tmp_path / "rows") as monitor:
        for steps in ([("observe_many", 500, 1)], [("load", 200, 0), ("forget", 150, 9)]):
            play(monitor, oracle, X[len(oracle.outputs) :], Z[len(oracle.outputs) :], steps)
            answers.compare(monitor, oracle, X[::9])
    answers.assert_enough()


@pytest.mark.parametrize("output", ["number"])
@pytest.mark.parametrize("metric", ["linf", "l2"])
def test_a_monitor_of_slopes_knows_precedents_within_the_radius(metric, output):
    answers = Answers()
    short = streams(metric, output, "float64", most=300)

    @prove(5, stream=short, seed=SEEDS)
    def holds(stream, seed):
        rule = replace(stream.rule, delta=0.0)
        monitor, oracle = lw.Monitor(rule, slope=True), Oracle(rule)
        monitor.observe_many(stream.X, stream.Z)
        oracle.load(stream.X, stream.Z)
        answers.compare(monitor, oracle, stream.X[:20])

    answers.assert_enough()


@every_condition
@pytest.mark.parametrize("index", ["auto", "kdtree"])
def test_precedents_are_decisions_that_count(conditions, index):
    some = draw_loans(conditions)
    monitor = monitor_of_loans(conditions, index=index)
    answers = Answers()
    ages = np.array([row["age"] for row in some.rows], dtype=float)
    for row, case in enumerate(some.rows):
        time, model = some.times[row], some.models[row]
        without = {name: value for name, value in case.items() if name not in ("z", "sex")}
        if row % 4 == 0:
            found = monitor.like(without, time=time, model=model)
            near = np.flatnonzero(some.like[row])
            distances = (1 / 3.0) * np.abs(ages[near] - ages[row])
            order = np.lexsort((near, distances))
            outputs = [some.rows[i]["z"] for i in near[order].tolist()]
            answers.note(found, near[order], distances[order], outputs)
            assert found.models == [some.models[i] for i in found.rows.tolist()]
            assert (found.times is None) != conditions.within
            if conditions.within:
                assert found.times.tolist() == some.times[found.rows].tolist()
        monitor.observe(case, time=time, model=model)
    assert answers.found > 10


def test_decisions_of_a_person_are_left_out():
    some = draw_loans(Conditions(person=True))
    free = draw_loans(Conditions())
    monitor = lw.Monitor(rule_of_loans(Conditions(person=True), missing="reject"))
    known = [i for i, row in enumerate(some.rows) if row["who"] is not None]
    monitor.observe_many([some.rows[i] for i in known])
    who = np.array([some.rows[i]["who"] for i in known])
    near = free.near[np.ix_(known, known)]
    left_out = 0
    for place in range(0, len(known), 5):
        case = {name: some.rows[known[place]][name] for name in ("age", "job")}
        everybody = monitor.like(case)
        assert sorted(everybody.rows) == np.flatnonzero(near[place]).tolist()
        others = np.flatnonzero(near[place] & (who != who[place])).tolist()
        assert sorted(monitor.like(case, person=who[place]).rows) == others
        assert sorted(monitor.like({**case, "who": who[place]}).rows) == others
        assert sorted(monitor.like({**case, "who": who[place]}, person="x").rows) == sorted(
            everybody.rows
        )
        left_out += len(everybody) - len(others)
    assert left_out > 20
    with raises(lw.errors.BadRule, setting="person"):
        lw.Monitor(rule_of_loans(Conditions())).like(case, person=3)
    with raises(lw.errors.BadRule, setting="person"):
        lw.Monitor(lw.Rule("linf", 1.0)).like([0.0], person=3)


@pytest.mark.parametrize("must_differ", [False, True])
@pytest.mark.parametrize("kind", ["auto", "kdtree", "shards"])
def test_precedents_of_tables_with_wildcards(must_differ, kind, tmp_path):
    table = people(360, 7, 0.1)
    near = near_people(table, must_differ=must_differ)
    rule = lw.Rule(features=FEATURES, output_column="granted", protected_must_differ=must_differ)
    settings = {} if kind == "shards" else {"index": kind}
    make = in_process if kind == "shards" else lw.open
    with make(tmp_path / "ledger", rule, **settings) as monitor:
        monitor.observe_many(table[:300])
        gone = np.arange(0, 300, 7)
        monitor.forget(gone)
        near[:, gone] = False
        outputs = table["granted"].to_list()
        found = 0
        for row in range(300, 360):
            case = table.row(row, named=True)
            if not must_differ and row % 2:
                del case["sex"], case["race"]
            answer = monitor.like(case if row % 3 else table[row])
            expected = np.flatnonzero(near[row, :300]).tolist()
            assert sorted(answer.rows.tolist()) == expected
            assert answer.outputs == [outputs[i] for i in answer.rows.tolist()]
            assert (np.diff(answer.input_distances) >= 0).all()
            verdict = monitor.check(
                {**case, "sex": None, "race": None}
                | {name: table.row(row, named=True)[name] for name in ("sex", "race")}
            )
            nearer = dict(zip(answer.rows.tolist(), answer.input_distances, strict=True))
            assert all(nearer[one.row] == one.input_distance for one in verdict.witnesses)
            found += len(answer)
        assert found > 60
        if must_differ:
            with raises(lw.errors.MissingColumn):
                monitor.like({"age": 30, "income": 1, "job": "job 1"})


def test_what_a_ledger_knows_of_precedents(tmp_path):
    rule = lw.Rule("linf", 0.1)
    day = 86_400.0
    with lw.open(tmp_path / "ledger", rule, durability="batch", witnesses=5) as monitor:
        for row, (x, z) in enumerate([(0.5, "yes"), (0.52, "no"), (0.9, "no"), (0.45, "yes")]):
            monitor.observe([x], z, key=f"k{row}", time=day * (row + 1), model="m1")
        monitor.ledger.review(1, None, disposition="error", reason="a slip", reviewer="ann")
        monitor.ledger.review(1, None, disposition="justified", reason="not so", reviewer="bob")
        verdict = monitor.ledger.supersede("k3", "no", by="ann", why="an appeal")
        monitor.observe([0.53], "maybe", time=day * 2000)  # not on disk yet

        def look(open_monitor):
            found = open_monitor.like([0.51], time=day * 2001)
            assert found.rows.tolist() == [0, 1, 5, verdict.row] or found.rows.tolist() == [
                1,
                0,
                5,
                verdict.row,
            ]
            return found

        found = look(monitor)
        keys = dict(zip(found.rows.tolist(), found.keys, strict=True))
        assert keys == {0: "k0", 1: "k1", 5: None, verdict.row: None}
        assert found.models[:2] == ["m1", "m1"]
        times = dict(zip(found.rows.tolist(), found.times.astype(np.int64), strict=True))
        assert (times[0], times[1], times[5]) == tuple(int(one * day * 1e6) for one in (1, 2, 2000))
        reviews = dict(zip(found.rows.tolist(), found.reviews, strict=True))
        assert [(one.disposition, one.reason, one.reviewer) for one in reviews[1]] == [
            ("error", "a slip", "ann"),
            ("justified", "not so", "bob"),
        ]
        assert not reviews[0] and not reviews[5]
        overruling = found.superseded[-1]
        assert (overruling.row, overruling.by, overruling.why) == (3, "ann", "an appeal")
        assert found.superseded[:3] == [None] * 3
        assert dict(found.counts) == {"no": 2, "yes": 1, "maybe": 1}
        head, body = monitor.ledger.head(), found.to_dict()
    with lw.open(tmp_path / "ledger", rule) as monitor:
        assert look(monitor).to_dict() == body
        assert monitor.ledger.head() == head
        monitor.erase(rows=[0, 1])
        left = monitor.like([0.51], time=day * 2001)
        assert left.rows.tolist() == [5, verdict.row] and left.near == 2
        assert "k0" not in str(left.to_dict()) and "slip" not in str(left.to_dict())


@pytest.mark.parametrize("index", ["auto", "kdtree"])
def test_precedents_are_in_the_window(index, tmp_path):
    rng = np.random.default_rng(5)
    X, Z = rng.integers(0, 6, (300, 3)) * 0.1, rng.integers(0, 3, 300).tolist()
    rule = lw.Rule("l2", 0.1)
    answers, oracle = Answers(), Oracle(rule)
    oracle.load(X, Z)
    settings = {"window": "60 rows", "durability": "off", "index": index}
    with lw.open(tmp_path / "ledger", rule, **settings) as monitor:
        monitor.observe_many(X, Z)
        for x in X[:60]:
            rows, distances = oracle.like(x, first=240)
            found = monitor.like(x)
            assert len(found.times) == len(rows)
            answers.note(found, rows, distances, [Z[row] for row in rows.tolist()])
    assert answers.cases > 60


def test_time_is_that_of_the_last_decision_unless_given():
    monitor = lw.Monitor(lw.Rule("linf", 1.0), within="1 day")
    assert len(monitor.like([0.0])) == 0
    monitor.load([[0.0], [0.5]], ["yes", "no"], times=["2024-05-01", "2024-05-02"])
    assert monitor.like([0.0]).rows.tolist() == [0, 1]
    assert monitor.like([0.0], time="2024-05-02T12:00").rows.tolist() == [1]
    assert len(monitor.like([0.0], time="2024-06-02")) == 0
    with raises(lw.errors.WrongOrder):
        monitor.like([0.0], time="2024-04-30")


TABLE = lw.Rule(
    features={
        "age": {"kind": "number", "tolerance": 5},
        "job": {"kind": "category"},
        "who": {"kind": "person", "missing": "mismatch"},
        "id": {"kind": "key"},
    },
    output_column="z",
)


def test_nothing_is_remembered_of_a_question():
    monitor = lw.Monitor(TABLE)
    case = {"age": 30, "job": "cook"}
    assert len(monitor.like(case)) == 0 and monitor.rows == 0
    monitor.observe({**case, "who": "ann", "id": 1, "z": "yes"})
    words = str(monitor.core.memory.words())
    assert len(monitor.like({"age": 30, "job": "nurse", "who": "zoe"}, person="bob")) == 0
    found = monitor.like({**case, "id": 1, "z": "unknown"})  # neither is asked about
    assert (found.rows.tolist(), found.keys, found.outputs) == ([0], [1], ["yes"])
    assert str(monitor.core.memory.words()) == words and monitor.rows == len(monitor) == 1
    monitor.core.limit_words(1)
    assert monitor.like(case).near == 1


@pytest.mark.parametrize("output", ["label", "number", "probabilities"])
def test_a_question_before_everything_settles_nothing(output):
    monitor = lw.Monitor(lw.Rule("linf", 1.0, output=output, delta=0.1 if output != "label" else 0))
    found = monitor.like([0.5, 0.5])
    assert (found.near, dict(found.counts), found.to_dict()["cases"]) == (0, {}, [])
    assert len(monitor.like(np.zeros((2, 3), np.float32))) == 0
    z = {"label": "a", "number": 3, "probabilities": [0.25, 0.75]}[output]
    monitor.observe([[0.0, 1.0]], z)
    found = monitor.like([[0.5, 0.5]])
    assert found.outputs == [z] and found.near == 1
    monitor.forget([0])
    assert len(monitor.like([[0.5, 0.5]])) == 0


def test_what_cannot_be_compared_is_refused_and_leaves_no_trace():
    monitor = lw.Monitor(lw.Rule("linf", 1.0))
    for _ in range(2):
        for bad in ([np.nan], [], 0.5, "text"):
            with raises(lw.LikewiseError):
                monitor.like(bad)
        rows = monitor.rows
        monitor.observe([0.5], "yes")
        assert monitor.rows == rows + 1
    with raises(lw.errors.WrongShape):
        monitor.like([0.5, 0.5])
    for limit in (-1, 1.5, True, "all"):
        with raises(lw.errors.BadRule, setting="limit"):
            monitor.like([0.5], limit=limit)
    with raises(lw.errors.UnexpectedValue):
        monitor.like([0.5], model="")
    assert monitor.like([0.5]).rows.tolist() == [0, 1]
    table = lw.Monitor(TABLE)
    with raises(lw.errors.MissingColumn):
        table.like({"age": 30})
    with raises(lw.errors.UnexpectedValue):
        table.like([30, "cook"])
    table.close()
    with raises(lw.LikewiseError):
        table.like({"age": 30, "job": "cook"})


def test_rows_of_a_missing_shard_are_counted():
    backend = LocalShards(3)
    monitor = sharded(lw.Rule("linf", 1.0), backend=backend)
    monitor.observe_many([[0.0]] * 40, list(range(40)))
    assert monitor.like([0.0]).near == 40
    fleet = monitor.core.engine.index._fleet
    fleet.patience = 0.001
    send = backend.send

    def fail(shard, call, *given):
        from likewise.sharding.protocol import ShardDown

        return (None, ShardDown("on purpose")) if shard == 1 else send(shard, call, *given)

    backend.send = fail
    backend.ensure_running = lambda shard, seconds: None
    found = monitor.like([0.0])
    assert found.near + found.not_compared == 40 and found.not_compared > 0
    assert "not be compared" in str(found)


def test_precedents_as_a_frame_and_in_words():
    monitor = lw.Monitor(lw.Rule("linf", 0.1))
    for i in range(30):
        monitor.observe([0.5 + i / 1000], f"z{i}", model="m", key=i)
    found = monitor.like([0.5], limit=20)
    frame = found.to_frame()
    assert list(frame.columns) == ["row", "input_distance", "output", "key", "model"]
    assert len(frame) == len(found) == 20 and found.near == 30
    assert "23 other outputs" in repr(found) and len(repr(found)) < 300
    assert found._repr_html_().count("<tr>") == 11
    assert len(lw.Monitor(lw.Rule("linf", 0.1)).like([1.0]).to_frame()) == 0
