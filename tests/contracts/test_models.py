"""Which model decided: `compare` says which pairs count, within a model or across models; exactly.

The oracle compares with everything (tests/support/oracle.py). Epsilon is a distance that occurs.
Each test asserts that pairs were found and pairs were left out. Not here: tables with models,
persons and spans together (test_pairs_that_count.py).
"""

import pickle
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import strategies as st

import likewise as lw
from likewise.monitor.like_pairs import like_pairs
from likewise.verdict.model_counts import ModelSide
from tests.support.index_cases import few
from tests.support.lazily import polars as pl
from tests.support.letter_embedders import letters, some_texts
from tests.support.loan_pairs import (
    COUNT,
    Conditions,
    choose_models,
    draw_loans,
    monitor_of_loans,
    rows_in,
    rule_of_loans,
)
from tests.support.oracle import Oracle, as_stored, input_distances, same_or_not
from tests.support.play import VERBS, play, play_together
from tests.support.refusals import raises
from tests.support.slopes import slope_monitor
from tests.support.strategies import METRICS, OUTPUTS, prove, streams

pytestmark = pytest.mark.early


SEEDS = st.integers(0, 2**32 - 1)
STEPS = st.lists(
    st.tuples(st.sampled_from(VERBS), st.integers(1, 5) | st.integers(1, 150), SEEDS),
    min_size=1,
    max_size=15,
)
apart = pytest.mark.parametrize("compare", ["within", "across"])


class Told:
    """Counts what was found, and what models left out."""

    def __init__(self) -> None:
        self.pairs = self.left_out = self.hidden = self.alone = 0

    def note(self, oracle: Oracle, expected: list) -> None:
        self.pairs += sum(len(one.rows) for one in expected)
        self.alone += sum(not one.comparable for one in expected)
        self.left_out += oracle.left_out
        self.hidden += oracle.hidden

    def assert_enough(self) -> None:
        assert self.pairs > 30, "hardly a pair counted"
        assert self.left_out > 30, "hardly a pair was left out"
        assert self.hidden > 10, "no near row that does not count stood before one that does"
        assert self.alone > 0, "every decision had a like case"


def played(stream, compare: str, steps, seed: int, told: Told, indexes=("auto",)) -> None:
    rule = replace(stream.rule, compare=compare)
    models = choose_models(seed, len(stream))
    monitors = [
        lw.Monitor(rule, **{asked: True}, index=index)
        for index in indexes
        for asked in ("comparable", "support")
    ]
    oracle = Oracle(rule, comparable=True)
    told.note(oracle, play_together(monitors, oracle, stream.X, stream.Z, steps, models))
    rows = list(range(len(oracle.models)))
    gone = ~oracle.alive[: len(rows)]
    left = [None if one else model for one, model in zip(gone, oracle.models, strict=True)]
    assert all(monitor.past.models(rows) == left for monitor in monitors)


@pytest.mark.parametrize(
    ("metric", "output", "compare"),
    [  # every two of them meet in the quick tests, and all three in the slow ones
        pytest.param(metric, output, compare, marks=() if (i + j + k) % 2 else pytest.mark.slow)
        for i, metric in enumerate(METRICS)
        for j, output in enumerate(OUTPUTS)
        for k, compare in enumerate(("within", "across"))
    ],
)
def test_witnesses_and_comparables_are_those_of_models_that_are_compared(metric, output, compare):
    told = Told()

    @prove(10, stream=streams(metric, output), steps=STEPS, seed=SEEDS)
    def holds(stream, steps, seed):
        played(stream, compare, [("observe_many", 120, 0), *steps], seed, told)

    told.assert_enough()


@pytest.mark.long
@apart
@pytest.mark.parametrize("metric", METRICS)
def test_models_are_compared_alike_in_every_index(metric, compare):
    told = Told()

    @prove(12, stream=streams(metric, most=130, widths=(2, 3, 5, 8)), steps=STEPS, seed=SEEDS)
    def holds(stream, steps, seed):
        whole = [step for step in steps if step[0] != "forget"]  # an object cannot forget
        steps = [("observe_many", 60, 0), ("observe", 20, 0), *whole]
        names = {"auto": lambda width: "auto", **few(metric)}
        if metric in ("l2", "cosine"):
            names["flat"] = lambda width: "flat"
        indexes = [make(stream.X.shape[1]) for make in names.values()]
        played(stream, compare, steps, seed, told, indexes)

    told.assert_enough()


@apart
@pytest.mark.parametrize("index", ["auto", "flat"])
def test_models_of_long_inputs_whose_rows_are_in_a_file(index, compare, tmp_path):
    rng = np.random.default_rng(3)
    centres = rng.normal(size=(40, 48))
    X = centres[rng.integers(40, size=1500)] + 0.3 * rng.normal(size=(1500, 48))
    Z = (rng.integers(0, 7, 1500) * (rng.random(1500) < 0.1)).tolist()
    near = np.sort(input_distances(lw.Rule("l2", 1.0), X, X[0]))
    rule = lw.Rule("l2", float(near[12]), compare=compare)
    steps = [("observe_many", 300, 1), ("observe", 100, 0), ("load", 200, 0), ("forget", 150, 9)]
    steps += [("observe_many", 10, 0), ("check", 60, 0), ("observe_many", 800, 2)]
    told, oracle = Told(), Oracle(rule, comparable=True)
    with lw.Monitor(rule, support=True, index=index, row_file=tmp_path / "rows") as monitor:
        told.note(oracle, play(monitor, oracle, X, Z, steps, choose_models(8, 1500)))
    told.assert_enough()


def test_where_all_are_compared_models_change_no_verdict():
    rng = np.random.default_rng(4)
    X, Z = rng.random((400, 3)), rng.integers(0, 3, 400).tolist()
    rule = lw.Rule("linf", 0.2)
    plain, told = (lw.Monitor(rule, comparable=True) for _ in range(2))
    models = choose_models(5, 400)
    expected = plain.observe_many(X, Z)
    found = [told.observe(X[i], Z[i], model=models[i]) for i in range(100)]
    found += told.observe_many(X[100:], Z[100:], models=models[100:])
    assert found == list(expected) and expected.pairs > 1_000
    assert [one.comparable for one in found] == expected.comparable.tolist()


def test_a_stream_without_models_is_one_model():
    rng = np.random.default_rng(5)
    X, Z = rng.random((200, 2)), rng.integers(0, 2, 200).tolist()
    everything, within, across = (
        lw.Monitor(lw.Rule("linf", 0.1, compare=one), support=True)
        for one in ("all", "within", "across")
    )
    expected = everything.observe_many(X, Z)
    found = within.observe_many(X, Z)
    assert list(found) == list(expected) and expected.pairs > 50
    assert found.comparable.tolist() == expected.comparable.tolist()
    assert found.near.tolist() == expected.near.tolist()
    nothing = across.observe_many(X, Z)
    assert nothing.pairs == 0 and not nothing.comparable.any()
    assert across.check(X[0], 2, model="another").witnesses.rows.tolist() == (
        everything.check(X[0], 2).witnesses.rows.tolist()
    )


@apart
def test_models_of_embedded_inputs(compare):
    rng = np.random.default_rng(6)
    texts, Z = some_texts(rng, 300, 4), rng.integers(0, 2, 300).tolist()
    models = choose_models(7, 300)
    rule = lw.Rule("l1", 2, embed=letters, compare=compare)
    counts = np.array(letters(texts), dtype=float)
    near = np.abs(counts[:, None] - counts).sum(axis=2) <= 2
    likes, contradict = of_all_pairs(near, Z, models, compare)
    monitor = lw.Monitor(rule, comparable=True)
    found = [monitor.observe(texts[i], Z[i], model=models[i]) for i in range(100)]
    found += monitor.observe_many(texts[100:], Z[100:], models=models[100:])
    assert [one.witnesses.rows.tolist() for one in found] == rows_in(contradict)
    assert [one.comparable for one in found] == likes.any(axis=1).tolist()
    assert contradict.sum() > 50


def of_all_pairs(near, Z, models, compare) -> tuple[np.ndarray, np.ndarray]:
    """[later, earlier]: like cases, and contradictions, that count."""
    counts = np.array([same_or_not(compare, models, one) for one in models])
    likes = np.tril(near & counts, -1)
    return likes, likes & np.array([[a != b for b in Z] for a in Z])


@apart
def test_like_pairs_of_vectors_know_models(compare):
    rng = np.random.default_rng(9)
    X, models = rng.random((300, 2)), choose_models(10, 300)
    rule = lw.Rule("linf", 0.05, compare=compare)
    near = np.abs(X[:, None] - X).max(axis=2) <= 0.05
    likes, _ = of_all_pairs(near, [0] * 300, models, compare)
    found = [
        pair
        for pairs in like_pairs(rule, X, models=models)
        for pair in zip(pairs.later.tolist(), pairs.earlier.tolist(), strict=True)
    ]
    assert sorted(found) == sorted(map(tuple, np.argwhere(likes).tolist())) and len(found) > 50


def test_rows_before_a_span_are_not_compared_whoever_decided():
    monitor = lw.Monitor(lw.Rule("linf", 1.0, compare="within"), within="1 day", comparable=True)
    monitor.load([[0.0]] * 3, ["yes"] * 3, times=[0, 50_000, 86_400], models=["a", "b", "a"])
    verdict = monitor.observe([0.0], "no", time=2 * 86_400, model="a")
    assert (verdict.witnesses.rows.tolist(), verdict.comparable) == ([2], True)
    verdict = monitor.observe([0.0], "no", time=2 * 86_400, model="b")
    assert (verdict.witnesses.rows.tolist(), verdict.comparable) == ([], False)


def test_a_like_case_of_another_model_does_not_hide_one_of_the_same():
    """The latest near row, which an index finds first, is of the wrong model."""
    for index in ("auto", "kdtree"):
        rule = lw.Rule("linf", 0.1, compare="within")
        monitor = lw.Monitor(rule, comparable=True, index=index)
        monitor.load([[0.5], *[[0.5]] * 50], ["yes"] * 51, models=["a", *["b"] * 50])
        assert monitor.check([0.5], "yes", model="a").comparable
        assert not monitor.check([0.5], "yes", model="c").comparable
        assert monitor.observe_many([[0.5], [0.5]], ["yes"] * 2, models=["c", "a"]).comparable[1]


# What verdicts say


def small(**settings) -> lw.Monitor:
    monitor = lw.Monitor(lw.Rule("linf", 0.1), **settings)
    monitor.load([[0.0], [0.01], [0.02]], ["yes"] * 3, models=["a", None, "b"])
    return monitor


def test_verdicts_name_models():
    monitor = small()
    verdict = monitor.observe([0.0], "no", model="a")
    assert (verdict.model, verdict.witness_models) == ("a", ("a", None, "b"))
    said = verdict.to_dict()
    assert said["model"] == "a" and [one.get("model") for one in said["witnesses"]] == [
        "a",
        None,
        "b",
    ]
    assert "model a" in verdict._repr_html_()
    again = pickle.loads(pickle.dumps(verdict))
    assert (again.model, again.witness_models) == ("a", ("a", None, "b"))
    without = monitor.observe([0.0], "no")
    assert (without.model, without.witness_models) == (None, ("a", None, "b"))
    assert "model" not in without.to_dict()
    checked = monitor.check([0.0], "no", model="new")
    assert (checked.model, checked.witness_models) == ("new", ("a", None, "b"))
    several = monitor.check_many([[0.0], [9.0]], ["no", "no"], models=["b", None])
    assert several.models == ("b", None) and several.witness_models == ("a", None, "b")
    assert [one.model for one in several] == ["b", None]
    batch = monitor.observe_many([[0.0], [0.0]], ["yes", "no"], models="a")
    assert batch.models == ("a", "a") and batch.witness_models == ("a", None, "a", None, "b", "a")
    assert [one["model"] for one in batch.to_dicts()] == ["a", "a"]
    assert "model" in batch._repr_html_()
    some = batch.select_witnesses(np.array([True, False] * 3))
    assert some.witness_models == ("a", "a", "b")
    assert str(verdict.explain()).startswith("row 3 (a) contradicts row 0 (a), 0 away")
    assert verdict.explain().to_dict()["pairs"][1]["witness_model"] is None
    assert "<script>" not in monitor.observe([0.0], "x", model="<script>").explain()._repr_html_()


def test_verdicts_without_models_say_nothing_of_them():
    monitor = lw.Monitor(lw.Rule("linf", 0.1))
    monitor.observe([0.0], "yes")
    verdict = monitor.observe([0.0], "no")
    assert (verdict.model, verdict.witness_models) == (None, (None,))
    assert "model" not in verdict.to_dict() and "model" not in verdict.to_dict()["witnesses"][0]
    assert monitor.observe_many([[0.0]], ["no"]).models is None
    assert monitor.past.models([0, 1]) == [None, None]
    assert monitor.past.model_codes([0, 1]) is None


def test_the_past_knows_models_also_as_codes():
    monitor = small()
    assert monitor.past.models([2, 0, 1]) == ["b", "a", None]
    codes, names = monitor.past.model_codes([2, 0, 1])
    assert [names[code] for code in codes] == ["b", "a", None]
    with pytest.raises(lw.errors.BadRow):
        monitor.past.models([3])


def test_models_given_late_leave_earlier_rows_without():
    monitor = lw.Monitor(lw.Rule("linf", 0.1))
    for _ in range(5):
        monitor.observe([0.0], "yes")
    verdict = monitor.observe([0.0], "no", model="late")
    assert verdict.witness_models == (None,) * 5
    assert monitor.past.models(range(6)) == [None] * 5 + ["late"]
    assert monitor.observe([0.0], "yes").witness_models == ("late",)


# By model


@pytest.mark.parametrize("compare", ["all", "within", "across"])
@pytest.mark.parametrize("comparable", [True, False])
def test_by_model_counts_within_and_across_apart(compare, comparable):
    some = draw_loans(Conditions(compare))
    monitor = lw.Monitor(rule_of_loans(Conditions(compare)), comparable=comparable)
    first = monitor.observe_many(some.rows[:100], models=some.models[:100])
    verdicts = monitor.observe_many(some.rows[100:], models=some.models[100:])
    likes, contradict = some.like, some.contradict
    same = np.array([same_or_not("within", some.models, one) for one in some.models])
    told = {one.model: one for one in verdicts.by_model()}
    assert set(told) == set(some.models[100:])
    for model, one in told.items():
        mine = np.array([i >= 100 and other == model for i, other in enumerate(some.models)])
        assert one.decisions == mine.sum()
        assert one.comparable == (likes.any(axis=1)[mine].sum() if comparable else None)
        assert one.violations == contradict[mine].any(axis=1).sum()
        assert one.pairs == contradict[mine].sum()
        for side, kind, name in ((one.within, same, "within"), (one.across, ~same, "across")):
            pairs = (contradict & kind)[mine]
            known = one.comparable if compare == name else None
            compared = compare in ("all", name)
            assert side == ModelSide(compared, known, pairs.any(axis=1).sum(), pairs.sum())
            assert compared or side.pairs == 0
    assert sum(one.pairs for one in told.values()) == verdicts.pairs > 20
    decisions = [one.decisions for one in verdicts.by_model()]
    assert decisions == sorted(decisions, reverse=True) and len(first.by_model()) > 1


def test_by_model_needs_a_monitor_and_models():
    verdicts = small().observe_many([[0.0]], ["no"], models="a")
    with raises(lw.errors.BadRow):
        pickle.loads(pickle.dumps(verdicts)).by_model()
    assert lw.Monitor(lw.Rule("linf", 0.1)).observe_many([[0.0]], ["no"]).by_model() == ()


@pytest.mark.parametrize("person", [False, True])
@pytest.mark.parametrize("within", [False, True])
def test_like_cases_within_and_across_models_are_told_apart(person, within):
    conditions = Conditions("all", person, within)
    some, monitor = draw_loans(conditions), monitor_of_loans(conditions)
    monitor.observe_many(some.rows, times=some.times, models=some.models)
    same = np.array([same_or_not("within", some.models, one) for one in some.models])
    likes = some.like
    found = monitor.past.like_models(range(50, COUNT))
    assert found.within.tolist() == (likes & same).any(axis=1)[50:].tolist()
    assert found.across.tolist() == (likes & ~same).any(axis=1)[50:].tolist()
    assert found.within.any() and (found.within != found.across).any()
    monitor.forget([3])
    assert monitor.past.like_models(range(50, COUNT)) is None


# Names


@pytest.mark.parametrize("wrong", ["", 7, b"credit", ["credit"], float("nan"), "\ud800", True])
def test_what_is_no_name_is_refused_and_leaves_no_trace(wrong):
    monitor = small()
    calls = (
        lambda: monitor.observe([0.0], "no", model=wrong),
        lambda: monitor.check([0.0], "no", model=wrong),
        lambda: monitor.observe_many([[0.0], [1.0]], ["no", "no"], models=["a", wrong]),
        lambda: monitor.check_many([[0.0], [1.0]], ["no", "no"], models=["a", wrong]),
        lambda: monitor.load([[0.0], [1.0]], ["no", "no"], models=["a", wrong]),
    )
    for call in calls:
        with raises(lw.errors.UnexpectedValue):
            call()
    assert monitor.rows == 3 and monitor.past.models(range(3)) == ["a", None, "b"]


@pytest.mark.parametrize("wrong", [7, {"a": 1, "b": 2}, {"a"}, b"ab", object()])
def test_what_is_no_list_of_names_is_refused(wrong):
    with raises(lw.errors.UnexpectedValue):
        small().observe_many([[0.0], [1.0]], ["no", "no"], models=wrong)


def test_there_is_a_model_for_each():
    with raises(lw.errors.WrongShape):
        small().observe_many([[0.0], [1.0]], ["no", "no"], models=["a", "b", "c"])


@pytest.mark.parametrize(
    "given",
    [
        ["a", None, "b"],
        ("a", None, "b"),
        np.array(["a", None, "b"], dtype=object),
        pl.Series(["a", None, "b"]),
    ],
)
def test_models_come_as_any_sequence(given):
    monitor = lw.Monitor(lw.Rule("linf", 0.1))
    assert monitor.observe_many([[0.0]] * 3, [1, 2, 3], models=given).models == ("a", None, "b")


def test_names_of_arrays_are_plain_text():
    monitor = lw.Monitor(lw.Rule("linf", 0.1))
    verdicts = monitor.observe_many([[0.0]] * 2, [1, 2], models=np.array(["a", "b"]))
    assert {type(one) for one in verdicts.models} == {str}
    assert type(monitor.observe([0.0], 3, model=np.str_("a")).model) is str


def test_names_leave_memory_with_the_last_row_that_has_them():
    monitor = lw.Monitor(lw.Rule("linf", 0.1, compare="within"))
    monitor.load([[0.0]] * 4, ["yes"] * 4, models=["a", "b", "b", "c"])
    monitor.forget([0, 1])
    assert monitor.past.models(range(4)) == [None, None, "b", "c"]
    assert "a" not in monitor.past.model_codes([0]).values
    assert "b" in monitor.past.model_codes([0]).values
    for i in range(100):  # a number is used again, for another model
        row = monitor.observe([0.0], "no", model=f"m{i}").row
        monitor.forget([row])
    assert len(monitor.past.model_codes([0]).values) < 10
    assert monitor.observe([0.0], "no", model="b").witnesses.rows.tolist() == [2]
    monitor.forget(range(monitor.rows))
    assert monitor.past.model_codes([0]) is None


def test_a_closed_monitor_has_let_go_of_models():
    with small() as monitor:
        pass
    assert not monitor.core.memory.models


# Where models are not compared yet


@pytest.mark.parametrize("compare", ["within", "across"])
def test_hunts_refuse_to_leave_pairs_out(compare):
    rule = lw.Rule("linf", 0.1, output="number", compare=compare)
    with raises(lw.errors.BadRule, setting="compare"):
        slope_monitor(rule)
    with raises(lw.errors.BadRule, setting="compare"):
        lw.calibrate(rule, [[0.0]], [1.0])
    with raises(lw.errors.BadRule, setting="compare"):
        lw.calibrate(rule_of_loans(Conditions(compare)), draw_loans(Conditions()).rows)


# With a ledger


@pytest.mark.parametrize("compare", ["all", "within", "across"])
def test_a_ledger_keeps_models_and_compares_as_a_monitor_does(tmp_path, compare):
    rng = np.random.default_rng(11)
    rule = lw.Rule("linf", 0.2, compare=compare)
    X, Z = rng.random((240, 2)), rng.choice(["yes", "no"], 240).tolist()
    models = [["a", "b", None][i] for i in rng.integers(0, 3, 240)]
    twin = lw.Monitor(rule, comparable=True)
    pairs = 0
    for first in range(0, 240, 60):
        with lw.open(tmp_path, rule, comparable=True) as monitor:
            for i in range(first, first + 5):
                mine = monitor.observe(X[i], Z[i], model=models[i], key=i)
                theirs = twin.observe(X[i], Z[i], model=models[i], key=i)
                assert mine.witnesses == theirs.witnesses
                assert (mine.model, mine.comparable) == (theirs.model, theirs.comparable)
                assert mine.witness_models == theirs.witness_models
            some = slice(first + 5, first + 60)
            given = {"keys": list(range(first + 5, first + 60)), "models": models[some]}
            mine = monitor.observe_many(X[some], Z[some], **given)
            theirs = twin.observe_many(X[some], Z[some], **given)
            assert mine.witnesses == theirs.witnesses
            np.testing.assert_array_equal(mine.comparable, theirs.comparable)
            pairs += mine.pairs
            assert monitor.observe(X[first], Z[first], model=models[first], key=first).repeated
            monitor.erase(key=first + 7)
            twin.forget([first + 7])
    assert pairs > 300
    with lw.Ledger(tmp_path) as ledger:
        assert ledger.verify().ok
        entries = list(ledger.entries())
        assert [entry.model for entry in entries] == models
        for name in ("a", "b"):
            flagged = [entry.row for entry in entries if entry.count and entry.model == name]
            assert [one.row for one in ledger.violations(model=name)] == flagged != []
        assert list(ledger.violations(model="never seen")) == []
    assert lw.replay(tmp_path).ok
    with lw.open(tmp_path) as monitor:
        verdict = monitor.ledger.supersede(1, "other", by="desk", why="an appeal")
        assert monitor.past.models([verdict.row]) == [models[1]]
    new = tmp_path.with_name(f"new {compare}")
    done = lw.migrate(tmp_path, new, rule=lw.Rule("linf", 0.2))
    assert done.judged_again == (compare != "all")
    with lw.Ledger(new) as ledger:
        assert ledger.entry(3).model == models[3]


# Rules


def test_compare_is_part_of_the_rule():
    plain = lw.Rule("linf", 0.1)
    rules = [plain, *(replace(plain, compare=one) for one in ("within", "across"))]
    assert len({rule.fingerprint for rule in rules}) == 3
    for rule in rules:
        assert lw.Rule.from_toml(rule.to_toml()) == rule
        assert pickle.loads(pickle.dumps(rule)) == rule
    assert "compare" not in plain.to_toml()
    assert lw.Rule.from_toml('epsilon = 0.1\ncompare = "within"').compare == "within"
    for wrong in ("models", None, True):
        with raises(lw.errors.BadRule, setting="compare"):
            lw.Rule("linf", 0.1, compare=wrong)


def test_a_distance_on_the_boundary_is_compared():
    X = np.array([[0.1], [0.3], [0.1]])
    epsilon = float(as_stored(np.dtype(float), X)[1, 0] - X[0, 0])
    monitor = lw.Monitor(lw.Rule("linf", epsilon, slack=0, compare="across"))
    counts = monitor.observe_many(X, ["yes", "no", "yes"], models=["a", "b", "a"]).counts
    assert counts.tolist() == [0, 1, 1]


@pytest.mark.parametrize("compare", ["all", "within", "across"])
def test_vary_counts_what_a_monitor_with_models_says(compare):
    some = draw_loans(Conditions(compare))
    rule = rule_of_loans(Conditions(compare))
    varied = lw.vary(rule, some.rows, models=some.models)
    (doubled,) = [one for one in varied.variants if (one.column, one.how) == ("age", "doubled")]
    for changed, counts in ((rule, varied.baseline), (doubled.change.rule, doubled)):
        verdicts = lw.Monitor(changed, comparable=True).observe_many(some.rows, models=some.models)
        assert counts.comparable == verdicts.comparable.sum() > 20
        assert counts.violations == verdicts.violations.sum() > 10
