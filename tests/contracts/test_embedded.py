"""Rules that embed: the monitor equals brute force on the vectors, in memory and in a ledger."""

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import likewise as lw
from likewise import Embedder, Feature
from tests.support.letter_embedders import (
    letter_vector,
    letters,
    pixel_vector,
    pixels,
    some_pictures,
    some_texts,
)
from tests.support.oracle import (
    Oracle,
    as_stored,
    assert_same_verdict,
    assert_same_verdicts,
    input_distances,
    storage_of,
)
from tests.support.programs import run_python
from tests.support.refusals import raises
from tests.support.strategies import examples

SCRIPT = Path(__file__).parents[2] / "docs" / "verify_ledger.py"
METRICS = ["linf", "l1", "l2", "cosine"]
INF = math.inf


def verified_by_others(path):
    run_python("-I", SCRIPT, path)


# Texts alone


def vectors_of(texts, kind):
    return np.array([letter_vector(one) for one in texts], kind)


def drawn_radius(rng, metric, vectors):
    """A distance that occurs, so that someone is on the boundary."""
    rule = lw.Rule(metric, 1)
    points = as_stored(storage_of(rule, vectors), vectors)
    i, j = rng.integers(0, len(points), 2)
    return float(input_distances(rule, points[[i]], points[j])[0]) or 0.5


@pytest.mark.parametrize("metric", METRICS)
@given(seed=st.integers(0, 10**9), batch=st.sampled_from([1, 3, 64]), wide=st.booleans())
@settings(max_examples=examples(15))
def test_a_monitor_of_texts_is_an_oracle_of_vectors(metric, seed, batch, wide):
    """Observed, observed together, checked, loaded, forgotten, in any order."""
    rng = np.random.default_rng(seed)
    kind = np.float64 if wide else np.float32
    texts = some_texts(rng, 60)
    labels = rng.integers(0, 3, 60).tolist()
    epsilon = drawn_radius(rng, metric, vectors_of(texts, kind))
    embed = Embedder(
        lambda some: vectors_of(some, kind), batch=batch, cache=int(rng.choice([0, 5, 99]))
    )
    monitor, oracle = (
        lw.Monitor(lw.Rule(metric, epsilon, embed=embed)),
        Oracle(lw.Rule(metric, epsilon)),
    )
    at = 0
    while at < 60:
        some = texts[at : at + int(rng.integers(1, 12))]
        their = labels[at : at + len(some)]
        vectors = vectors_of(some, kind)
        match int(rng.integers(5)):
            case 0:
                assert_same_verdicts(
                    monitor.observe_many(some, their), oracle.observe_many(vectors, their)
                )
            case 1:
                for text, vector, z in zip(some, vectors, their, strict=True):
                    assert_same_verdict(monitor.observe(text, z), oracle.observe(vector, z))
            case 2:
                for text, vector, z in zip(some, vectors, their, strict=True):
                    assert_same_verdict(monitor.check(text, z), oracle.check(vector, z))
            case 3:
                assert monitor.load(some, their) == oracle.load(vectors, their)
            case _:
                if at and len(oracle.outputs):
                    rows = rng.integers(0, len(oracle.outputs), 3)
                    assert monitor.forget(rows) == oracle.forget(rows)
                continue
        assert len(monitor) == len(oracle)
        at += len(some)


@pytest.mark.parametrize("given", ["list", "tuple", "array", "series", "polars"])
def test_texts_come_in_whatever_holds_them(given):
    import pandas as pd
    import polars as pl

    make = {
        "list": list,
        "tuple": tuple,
        "array": np.array,
        "series": lambda some: pd.Series(some, index=range(7, 7 + len(some))),
        "polars": pl.Series,
    }[given]
    texts = ["abc", "abd", "hhh", "abc"]
    monitor = lw.Monitor(lw.Rule("l1", 2, embed=letters))
    assert monitor.observe_many(make(texts), [1, 2, 3, 4]).counts.tolist() == [0, 1, 0, 2]


@pytest.mark.parametrize(
    "given",
    ["abc", b"abc", bytearray(b"abc"), 7, None, np.array("abc"), {"a": 1}, iter("ab")],
    ids=lambda given: type(given).__name__,
)
def test_inputs_that_are_no_list_are_refused(given):
    monitor = lw.Monitor(lw.Rule("l1", 2, embed=letters))
    with raises(lw.errors.UnexpectedValue):
        monitor.observe_many(given, [1])


def test_an_array_of_pictures_is_a_batch_of_pictures():
    rng = np.random.default_rng(5)
    pictures = np.stack(some_pictures(rng, 50))
    labels = rng.integers(0, 2, 50)
    vectors = np.stack([pixel_vector(one) for one in pictures])
    monitor = lw.Monitor(lw.Rule("l2", 0.75, embed=pixels))
    expected = Oracle(lw.Rule("l2", 0.75)).observe_many(vectors, labels.tolist())
    assert sum(len(one.rows) for one in expected) > 5
    assert_same_verdicts(monitor.observe_many(pictures, labels), expected)


def test_an_item_that_cannot_be_embedded_leaves_no_trace():
    def picky(batch):
        return [letter_vector(one if one != "bad" else None) for one in batch]

    monitor = lw.Monitor(lw.Rule("l1", 2, embed=picky))
    for call in (
        lambda: monitor.observe("bad", 1),
        lambda: monitor.check("bad", 1),
        lambda: monitor.observe_many(["abc", "bad"], [1, 2]),
        lambda: monitor.load(["abc", "bad"], [1, 2]),
    ):
        with raises(lw.errors.UnexpectedValue):
            call()
    assert len(monitor) == 0
    assert monitor.observe("abc", 1).row == 0
    with raises(lw.errors.WrongShape):
        monitor.observe_many(["abc", "abd"], [1])
    assert len(monitor) == 1


def test_calibration_of_texts_is_that_of_their_vectors():
    rng = np.random.default_rng(6)
    texts, labels = some_texts(rng, 80), rng.integers(0, 2, 80).tolist()
    found = lw.calibrate(lw.Rule("l2", 1, embed=letters), texts, labels)
    plain = lw.calibrate(lw.Rule("l2", 1), vectors_of(texts, np.float32), labels)
    assert found.distances.tolist() == plain.distances.tolist()


@pytest.mark.parametrize("metric", METRICS)
def test_a_ledger_of_texts_is_the_monitor_through_several_lives(tmp_path, metric):
    rng = np.random.default_rng(7)
    texts, labels = some_texts(rng, 120), rng.integers(0, 3, 120).tolist()
    epsilon = drawn_radius(rng, metric, vectors_of(texts, np.float32))
    rule = lw.Rule(metric, epsilon, embed=letters)
    oracle, path = Oracle(lw.Rule(metric, epsilon)), tmp_path / "led"
    vectors = vectors_of(texts, np.float32)
    for life in range(4):
        part = slice(30 * life, 30 * life + 20)
        # Also without the rule: the function can be imported.
        with lw.open(path, rule if life in (0, 2) else None, models=True) as monitor:
            found = monitor.observe_many(texts[part], labels[part])
            assert_same_verdicts(found, oracle.observe_many(vectors[part], labels[part]))
            for i in range(30 * life + 20, 30 * life + 30):
                assert_same_verdict(monitor.check(texts[i], 9), oracle.check(vectors[i], 9))
                assert_same_verdict(
                    monitor.observe(texts[i], labels[i]), oracle.observe(vectors[i], labels[i])
                )
            gone = [30 * life + 3, 30 * life + 21]
            assert monitor.forget(gone) == oracle.forget(gone)
            assert monitor.ledger.verify().ok
    assert lw.replay(path).ok
    verified_by_others(path)
    with lw.Ledger(path) as ledger:
        assert ledger.rule.fingerprint == rule.fingerprint
        kept = next(iter(ledger.columns()))
        there = ~kept.erased
        assert kept.inputs["input"][there].tobytes() == vectors[there].tobytes()


# Tables


def gap(feature, a, b):
    """Of one column, in units of its tolerance, by hand."""
    if a is None or b is None:
        if feature.missing == "match" or (a is None and b is None):
            return 0.0
        return INF if feature.mismatch is None else feature.mismatch
    if feature.kind == "text":
        return (
            math.dist(*np.array([letter_vector(a), letter_vector(b)], np.float32))
            / feature.tolerance
        )
    if feature.kind == "image":
        return math.dist(pixel_vector(a), pixel_vector(b)) / feature.tolerance
    if feature.kind == "number":
        return abs(a - b) / feature.tolerance
    return 0.0 if a == b else (feature.mismatch or INF)


def distance(rule, a, b):
    measured = {name: one for name, one in rule.features.items() if one.is_compared}
    return math.sqrt(sum(gap(one, a[name], b[name]) ** 2 for name, one in measured.items()))


def expected_of(rule, rows, i):
    """Rows and distances of those before row i that it contradicts."""
    found = {}
    for j, other in enumerate(rows[:i]):
        apart = distance(rule, rows[i], other)
        if apart <= rule.epsilon * (1 + 1e-9) and rows[i]["z"] != other["z"]:
            if rule.protected_must_differ and rows[i]["sex"] == other["sex"]:
                continue
            found[j] = apart
    return found


def drawn_table(seed, count=40, pictures=True):
    rng = np.random.default_rng(seed)

    def missing():
        return str(rng.choice(["reject", "mismatch", "match"]))

    features = {
        "said": Feature(
            "text", embed=letters, tolerance=float(rng.choice([0.5, 1, 2])), missing=missing()
        ),
        "sex": Feature("protected"),
        "age": Feature("number", tolerance=5, missing=missing()),
        "job": Feature("category", missing=missing()),
        "town": Feature("category", values=["x", "y", "v"], mismatch=0.5, missing=missing()),
        "seen": Feature(
            "image", embed=Embedder(pixels, shape=[2, 2]), tolerance=0.5, missing=missing()
        ),
        "more": Feature(
            "text", embed=Embedder(letters, batch=2, cache=3), tolerance=3, missing=missing()
        ),
    }
    chosen = ["said", *rng.choice(list(features)[2:], int(rng.integers(0, 5)), replace=False)]
    if not pictures:
        chosen = [name for name in chosen if name != "seen"]
    order = [str(name) for name in rng.permutation(["sex", *chosen])]
    features = {name: features[name] for name in order}
    values = {
        "said": some_texts(rng, count, 2),
        "more": some_texts(rng, count),
        "sex": rng.choice(["f", "m"], count).tolist(),
        "age": rng.integers(30, 36, count).astype(float).tolist(),
        "job": rng.choice(["nurse", "cook"], count).tolist(),
        "town": rng.choice(["x", "y", "v"], count).tolist(),
        "seen": some_pictures(rng, count),
    }
    rows = [
        {
            name: None if feature.missing != "reject" and rng.random() < 0.15 else values[name][i]
            for name, feature in features.items()
        }
        | {"z": str(rng.choice(["yes", "no"]))}
        for i in range(count)
    ]
    rule = lw.Rule(
        "l2",
        features=features,
        output_column="z",
        protected_must_differ=bool(rng.random() < 0.3),
    )
    i, j = rng.integers(0, count, 2)
    apart = distance(rule, rows[i], rows[j])
    return lw.Rule(
        "l2",
        apart if 0.1 < apart < 10 else 1.0,
        features=features,
        output_column="z",
        protected_must_differ=rule.protected_must_differ,
    ), rows


def assert_as_expected(verdict, expected):
    assert verdict.witnesses.rows.tolist() == list(expected)
    assert np.allclose(verdict.witnesses.input_distances, list(expected.values()), atol=1e-9)


@pytest.mark.long
@given(seed=st.integers(0, 10**9))
@settings(max_examples=examples(40))
def test_a_table_with_texts_and_pictures_is_what_its_columns_say(seed):
    rule, rows = drawn_table(seed)
    one_by_one, at_once, halves = (lw.Monitor(rule) for _ in range(3))
    verdicts = at_once.observe_many(rows)
    halves.load(rows[:20])
    later = halves.observe_many(rows[20:], threads=1)
    for i, row in enumerate(rows):
        expected = expected_of(rule, rows, i)
        assert_as_expected(one_by_one.check(row), expected)
        assert_as_expected(one_by_one.observe(row), expected)
        assert_as_expected(verdicts[i], expected)
        if i >= 20:
            assert_as_expected(later[i - 20], expected)
    for i, row in enumerate(rows):
        kept = at_once.past.values(i)
        assert kept["said"] == row["said"]
        assert kept["sex"] == row["sex"]


def test_tables_do_find_something():
    """Else the test above could pass by finding nothing."""
    pairs = [
        lw.Monitor(rule).observe_many(rows).pairs for rule, rows in map(drawn_table, range(30))
    ]
    assert sum(one > 0 for one in pairs) > 20


@pytest.mark.long
@given(seed=st.integers(0, 10**9))
@settings(max_examples=examples(8))
def test_a_ledger_of_tables_is_the_monitor_through_several_lives(tmp_path_factory, seed):
    rule, rows = drawn_table(seed)
    path = tmp_path_factory.mktemp("embedded") / "led"
    for life in range(2):
        with lw.open(path, None if life else rule, models=True) as monitor:
            first = 20 * life
            verdicts = monitor.observe_many(rows[first : first + 15])
            for i in range(15):
                assert_as_expected(verdicts[i], expected_of(rule, rows, first + i))
            for i in range(first + 15, first + 20):
                assert_as_expected(monitor.observe(rows[i]), expected_of(rule, rows, i))
    again = lw.replay(path)
    assert again.ok and again.rows == 40
    verified_by_others(path)
    with lw.Ledger(path) as ledger:
        assert ledger.verify().ok
        said = next(iter(ledger.columns())).inputs["said"].tolist()
        assert said == [row["said"] for row in rows]
        assert ledger.values(7)["said"] == rows[7]["said"]
        assert ledger.rule.fingerprint == rule.fingerprint


def test_pictures_by_path_are_kept_by_path_and_arrays_by_digest(tmp_path):
    from PIL import Image

    rng = np.random.default_rng(9)
    pictures = [np.repeat(one[:, :, None], 3, axis=2) for one in some_pictures(rng, 30)]
    paths = []
    for i, picture in enumerate(pictures):
        paths.append(str(tmp_path / f"{i}.png"))
        Image.fromarray(picture).save(paths[-1])
    labels = rng.choice(["yes", "no"], 30).tolist()
    embed = Embedder(pixels, shape=[2, 2, 3], folder=tmp_path)
    features = {"seen": Feature("image", embed=embed, tolerance=0.5)}
    rule = lw.Rule("l2", features=features, output_column="z")
    given = {
        "paths": paths,
        "Paths": [Path(one) for one in paths],
        "bytes": [Path(one).read_bytes() for one in paths],
        "images": [Image.open(one) for one in paths],
        "arrays": pictures,
    }
    monitors = {name: lw.Monitor(rule) for name in given}
    rows = [{"seen": one, "z": z} for one, z in zip(pictures, labels, strict=True)]
    expected = [expected_of(rule, rows, i) for i in range(30)]
    assert sum(map(len, expected)) > 5
    for name, monitor in monitors.items():
        some = [{"seen": one, "z": z} for one, z in zip(given[name], labels, strict=True)]
        for one, mine in zip(monitor.observe_many(some), expected, strict=True):
            assert_as_expected(one, mine)
    assert (
        monitors["paths"].past.values(3)["seen"]
        == monitors["Paths"].past.values(3)["seen"]
        == paths[3]
    )
    for name in ("bytes", "images", "arrays"):
        assert monitors[name].past.values(3)["seen"].startswith("sha256:")


def test_a_row_that_cannot_be_embedded_is_named_and_nothing_is_stored(tmp_path):
    seen = Embedder(pixels, shape=[2, 2], folder=tmp_path)
    features = {
        "said": Feature("text", embed=letters, tolerance=1),
        "seen": Feature("image", embed=seen, tolerance=1),
    }
    rule = lw.Rule("l2", features=features, output_column="z")
    good = {"said": "abc", "seen": np.zeros((2, 2)), "z": 1}
    wrong = [
        (lw.errors.UnexpectedValue, "said", 7),
        (lw.errors.UnexpectedValue, "said", b"abc"),
        (lw.errors.MissingValue, "said", None),
        (lw.errors.MissingValue, "seen", float("nan")),
        (lw.errors.UnexpectedValue, "seen", str(tmp_path / "gone.png")),
        (lw.errors.UnexpectedValue, "seen", b"abc"),
        (lw.errors.UnexpectedValue, "seen", np.zeros((3, 3))),  # 9 numbers, and 4 before
    ]
    with lw.open(tmp_path / "led", rule) as ledger:
        for monitor in (lw.Monitor(rule), ledger):
            for kind, column, value in wrong:
                bad = good | {column: value}
                with raises(kind, place=1, column=column):
                    monitor.observe_many([good, bad])
                with raises(kind, place=0, column=column):
                    monitor.observe(bad)
            assert len(monitor) == 0
            assert monitor.observe(good).row == 0


def test_a_width_of_one_is_not_spread_over_all_coordinates():
    """NumPy would do so without a word."""

    def model(batch):
        return [[1.0]] if batch == ["short"] else [[float(len(one)), 2.0] for one in batch]

    features = {"said": Feature("text", embed=model, tolerance=1)}
    monitor = lw.Monitor(lw.Rule("l2", features=features, output_column="z"))
    with raises(lw.errors.UnexpectedValue, column="said", place=0):
        monitor.observe({"said": "short", "z": 1})
    assert len(monitor) == 0


def test_a_pair_of_texts_is_explained_by_the_distance_of_their_vectors():
    features = {
        "said": Feature("text", embed=letters, tolerance=2),
        "age": Feature("number", tolerance=5),
    }
    monitor = lw.Monitor(lw.Rule("l2", features=features, output_column="z"))
    monitor.observe({"said": "abc", "age": 40, "z": "yes"})
    told = monitor.observe({"said": "abd", "age": 41, "z": "no"}).explain()
    pair = told.pairs[0]
    assert pair.gaps["said"] == pytest.approx(math.sqrt(2) / 2)
    assert pair.gaps["age"] == pytest.approx(0.2)
    assert "abc" in str(told) and "abd" in str(told)


def test_words_of_other_languages_come_back_from_a_ledger(tmp_path):
    texts = ["ünïcödé", "漢字 🙂", 'quotes " and \\ and \n', "", "a\0b", " "]
    features = {"said": Feature("text", embed=letters, tolerance=1)}
    rule = lw.Rule("l2", features=features, output_column="z")
    with lw.open(tmp_path / "led", rule) as monitor:
        monitor.observe_many([{"said": text, "z": 1} for text in texts])
    with lw.Ledger(tmp_path / "led") as ledger:
        assert next(iter(ledger.columns())).inputs["said"].tolist() == texts
    with lw.open(tmp_path / "led", models=True) as monitor:
        assert [monitor.past.values(i)["said"] for i in range(len(texts))] == texts
        with raises(lw.errors.UnexpectedValue):
            monitor.observe({"said": "\ud800", "z": 1})
        assert monitor.rows == len(texts)
