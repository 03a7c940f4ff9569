"""The repr of every public value is short, however much the value holds, and tells no keys."""

import inspect

import numpy as np
import pytest

import likewise as lw
from likewise.monitor.erasure import Erasure
from likewise.verdict.context import ComparedRows
from likewise.watching.asgi_middleware import Exchanged, RequestCounts
from likewise.watching.watch_records import Failure, Flagged
from tests.support.served_monitors import connected

LONGEST = 2_000
MANY = 5_000
SECRET = "secret key"


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """By public class, a value that holds much."""
    folder = tmp_path_factory.mktemp("large")
    names = [f"column {i} with a name that is rather long" for i in range(300)]
    words = [f"word {i}" for i in range(MANY)]
    feature = lw.Feature("category", values=words)
    features = {name: lw.Feature("number", tolerance=1) for name in names}
    rule = lw.Rule(features={**features, "words": feature}, output_column="z", favourable="yes")
    embedder = lw.Embedder(
        "python:tests.support.letter_embedders:letters", folder="/" + "long/" * MANY
    )
    monitor = lw.Monitor(lw.Rule("linf", 0.5))
    x = np.zeros((MANY, 2))
    keys = [f"{SECRET} {i}" for i in range(MANY)]
    verdicts = monitor.observe_many(x[:100], ["yes", "no"] * 50, keys=keys[:100])
    verdict = monitor.observe(x[0], "maybe", key=keys[100])
    table = [dict.fromkeys(names, 1.0) | {"words": words[0], "z": "yes"}] * 2
    slopes = lw.Monitor(lw.Rule("linf", 0.5, output="number"), slope=True)
    steep = slopes.observe_many(x + np.arange(MANY)[:, None], np.arange(MANY) ** 2)
    decision = lw.Decision(x.tolist(), words, keys[0])
    ledger = folder / "ledger"
    with lw.open(ledger, rule) as opened:
        opened.observe_many(table)
    watched = lw.watch(lambda some: some, lw.Rule("linf", 0.5), on_failure="record")
    made = [
        rule,
        feature,
        embedder,
        lw.Burst(100, 3),
        monitor,
        verdicts,
        verdict,
        verdict.witnesses,
        lw.Witness(1, 0.5, 1.0),
        ComparedRows(0, MANY, 0),
        monitor.explain(),
        slopes,
        steep,
        steep[MANY - 1],
        lw.calibrate(lw.Rule("linf", 1, weights=[1.0] * MANY), np.zeros((2, MANY)), [0, 1]),
        lw.vary(rule, table, most_columns=3),
        Erasure(tuple(range(MANY)), True),
        lw.Replay(MANY, 0, 0, 3, "a difference " * MANY),
        lw.Verification(0, MANY, 0, 3, None, 7, "a problem " * MANY),
        lw.Head(MANY, 3, bytes(32)),
        Flagged(verdict, words),
        Failure(1, ValueError(words), "a traceback " * MANY),
        Exchanged("/predict", SECRET.encode() * MANY, b"{}" * MANY, 200, ((b"a", b"b"),) * MANY),
        RequestCounts(),
        decision,
        lw.Receipt(3, verdict=verdict, refusal=ValueError(words)),
        lw.Periodic("kdtree"),
        lw.Split("kdtree"),
        watched,
        lw.WatchRequests(None, monitor, path="/predict"),
    ]
    with (
        lw.Ledger(ledger) as opened,
        connected(lw.Monitor(rule)) as client,
        lw.buffered(lw.Monitor(rule), 10) as buffer,
    ):
        yield {type(one): one for one in [*made, opened, client, buffer]}


def public_classes():
    classes = (getattr(lw, name) for name in lw.__all__)
    return {one for one in classes if inspect.isclass(one) and not issubclass(one, BaseException)}


def test_every_public_repr_is_short_and_tells_no_keys(large):
    elsewhere = {lw.client.AsyncClient, lw.WatchedEstimator}  # as Client, Watched
    assert all(any(issubclass(one, kind) for one in large) for kind in public_classes() - elsewhere)
    for kind, value in large.items():
        text = repr(value)
        assert 0 < len(text) <= LONGEST, (kind, len(text))
        assert SECRET not in text or kind is lw.Decision, kind


def test_a_repr_that_was_short_is_whole():
    assert eval(repr(lw.Witness(1, 0.5, 1.0)), vars(lw)) == lw.Witness(1, 0.5, 1.0)
    feature = lw.Feature("category", values=["a", "b"])
    assert eval(repr(feature), {"Feature": lw.Feature}) == feature


# What is neither true nor false


def test_verdicts_are_neither_true_nor_false(large):
    for kind, name in (
        (lw.Verdict, r"\.violation\b"),
        (lw.Verdicts, r"\.violations\.any"),
    ):
        with pytest.raises(TypeError, match=name):
            bool(large[kind])
    assert lw.Monitor(lw.Rule("linf", 0.5)).observe_many(np.zeros((0, 2)), []) is not None


# Equality


def run(**more):
    rng = np.random.default_rng(5)
    monitor = lw.Monitor(lw.Rule("linf", 0.1), comparable=True, burst=lw.Burst(50, 3))
    x, z = rng.random((200, 2)), rng.choice(["yes", "no"], 200).tolist()
    return monitor.observe_many(x, z, **more), monitor.check_many(x[:9], z[:9])


def test_verdicts_of_identical_runs_are_equal():
    keys = [f"k{i}" for i in range(200)]
    for more in ({}, {"keys": keys}, {"models": ["a", "b"] * 100}):
        one, other = run(**more), run(**more)
        assert one == other and one[0].pairs > 100
        assert one[0] == other[0]
    plain, keyed = run()[0], run(keys=keys)[0]
    assert plain != keyed and plain != run(models="a")[0] and plain != list(plain)
    less = plain.select_witnesses(np.arange(len(plain.witnesses)) > 0)
    assert plain != less
    with pytest.raises(TypeError, match="unhashable"):
        hash(plain)


def test_slopes_of_identical_runs_are_equal():
    def slopes(last=5.0):
        monitor = lw.Monitor(lw.Rule("linf", 0.5, output="number"), slope=True)
        return monitor.observe_many([[0.0], [1.0], [1.0], [3.0]], [1.0, 2.0, 2.0, last])

    assert slopes() == slopes() and slopes() != slopes(6.0)
    with pytest.raises(TypeError, match="unhashable"):
        hash(slopes())
