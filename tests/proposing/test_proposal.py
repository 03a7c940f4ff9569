"""Proposed rules: sensible at first sight, and able to read what they were proposed from."""

import datetime
import decimal

import numpy as np
import pytest

import likewise as lw
from likewise import Feature
from tests.support.lazily import pandas as pd
from tests.support.lazily import polars as pl
from tests.support.lazily import pyarrow as pa
from tests.support.looping import each
from tests.support.refusals import raises

N = 200
RNG = np.random.default_rng(5)


def number(tolerance: float, missing: str = "reject") -> Feature:
    return Feature("number", tolerance=tolerance, missing=missing)


def propose(table, **settings) -> lw.Rule:
    """The rule as it is before it is tried."""
    return lw.propose_rule(table, **settings, trial=False).rule


COLUMNS = {
    "0 to 199": (RNG.integers(0, 200, N), number(10)),
    "counts the rows": (np.arange(N), Feature("ignore")),
    "counts the rows down": (-np.arange(N), Feature("ignore")),
    "never repeats, against all odds": (RNG.permutation(N), Feature("key")),
    "never repeats, by chance": (7_919 * RNG.permutation(N), number(100_000)),
    "0 to 1": (np.linspace(0, 1, N), number(0.05)),
    "around a million": (1e6 + 1000 * np.arange(N), number(10_000)),
    "tiny": (1e-9 * np.arange(N), number(1e-8)),
    "negative": (-RNG.integers(0, 200, N), number(10)),
    "nearly always zero": (np.array([0] * (N - 4) + [1, 5, 20, 100]), number("10%")),
    "mostly nothing happened": (np.array([0] * (N - 40) + 20 * [1, 12]), Feature("category")),
    "mostly none, then a few": (np.array([0] * (N - 40) + 10 * [1, 2, 9, 31]), number(1)),
    "with holes": ([None if i % 7 == 0 else i for i in range(N)], number(10, "mismatch")),
    "decimals": ([decimal.Decimal(i // 2 * 2) for i in range(N)], number(10)),
    "two numbers": (np.arange(N) % 2, Feature("category")),
    "three numbers": (np.arange(N) % 3 * 100, Feature("category")),
    "four numbers": (np.arange(N) % 4, Feature("category")),
    "four fractions": (np.arange(N) % 4 / 4, number(0.05)),
    "eleven numbers": (np.arange(N) % 11, number(1)),
    "four numbers far apart": (np.arange(N) % 4 * 100, number(20)),
    "booleans": (np.arange(N) % 2 == 0, Feature("category")),
    "text": (np.array(["a", "b"])[np.arange(N) % 2], Feature("category")),
    "text with holes": (
        [None if i % 7 == 0 else f"t{i % 5}" for i in range(N)],
        Feature("category", missing="mismatch"),
    ),
    "unique codes": ([f"A-{i}" for i in range(N)], Feature("key")),
    "unique text": ([f"name {i}" for i in range(N)], Feature("ignore")),
    "names": (["Ann"] * 10 + [f"Bob the {i}th" for i in range(N - 10)], Feature("ignore")),
    "free text": ([f"a note about {i % 120}" for i in range(N)], Feature("ignore")),
    "text that repeats": ([f"t{i % 120}" for i in range(N)], Feature("category")),
    "unique text with holes": (
        [None if i == 5 else f"name {i}" for i in range(N)],
        Feature("ignore"),
    ),
    "always the same": (np.full(N, 7.5), Feature("ignore")),
    "the same or missing": (
        [None if i == 5 else "a" for i in range(N)],
        Feature("category", missing="mismatch"),
    ),
    "nothing": ([None] * N, Feature("ignore")),
    "as far apart as floats can be": (
        [(-1) ** i * 1.7e308 * (1 - i / 1_000) for i in range(N)],
        number(1e100),
    ),
    "farther than any tolerance": (1e200 * np.arange(N), number(1e100)),
    "nearer than any tolerance": (1e-200 * np.arange(N), number(1e-100)),
    "the smallest there are": (5e-324 * np.arange(N), number(1e-100)),
    "up to 2**53": (2**53 - RNG.integers(0, 200, N), number(10)),
    "floats near 2**60": (2.0**60 + 256.0 * np.arange(N), number(2_000)),
    "decimals that are the same floats": (
        [1 + decimal.Decimal(i) / 10**20 for i in range(N)],
        Feature("key"),  # whole numbers as floats, and no two decimals are the same
    ),
    "near 2**60": (2**60 + np.arange(N), Feature("ignore")),
    "nanoseconds": (1_577_836_800_000_000_000 + 10**9 * np.arange(N), Feature("ignore")),
    "near 2**64": ([2**64 + i for i in range(N)], Feature("ignore")),
    "beyond every float": ([10**400 + i for i in range(N)], Feature("ignore")),
    "decimals near 2**60": ([decimal.Decimal(2**60 + i) for i in range(N)], Feature("ignore")),
    "two numbers near 2**60": (2**60 + np.arange(N) % 2, Feature("category")),
    "lists": ([[i, i] for i in range(N)], Feature("ignore")),
    "lists with holes": ([None if i % 7 == 0 else [i] for i in range(N)], Feature("ignore")),
    "dictionaries": ([{"a": i} for i in range(N)], Feature("ignore")),
    "arrays": ([np.arange(3) for _ in range(N)], Feature("ignore")),
    "tuples of lists": ([(i, [i]) for i in range(N)], Feature("ignore")),
    "dates": (
        [datetime.date(2020, 1, 1 + i % 20) for i in range(N)],
        Feature("ignore"),
    ),
    "dates as text": ([f"2020-01-{1 + i % 20:02}" for i in range(N)], Feature("ignore")),
    "dates with points": ([f"{1 + i % 20}.1.2020" for i in range(N)], Feature("ignore")),
}


@each("name", COLUMNS)
def test_column_is_proposed_as_what_it_looks_like(name):
    values, expected = COLUMNS[name]
    values = values.tolist() if isinstance(values, np.ndarray) else values
    other = [float(i % 17) for i in range(N)]
    rows = [
        {"c": value, "other": x, "z": "yes" if i * i % 7 < 3 else "no"}
        for i, (value, x) in enumerate(zip(values, other, strict=True))
    ]
    rule = propose(rows, output="z")
    assert rule.features["c"] == expected
    assert rule.features["other"] == number(1)
    assert (rule.output, rule.output_column, rule.epsilon) == ("label", "z", 1.0)
    assert len(lw.Monitor(rule).observe_many(rows)) == N


@pytest.mark.parametrize(
    "column", ["id", "ID", "person_id", "id_person", "key", "case-key", "uuid"]
)
def test_whole_numbers_that_never_repeat_are_the_key_if_called_so(column):
    rows = [{column: i, "x": i % 9, "z": i % 2} for i in range(50)]
    assert propose(rows, output="z").features[column] == Feature("key")
    rows.append(rows[0])
    assert propose(rows, output="z").features[column].kind == "ignore"
    few = [{column: i % 7, "x": i % 9, "z": i % 2} for i in range(50)]
    assert propose(few, output="z").features[column].kind == "category"


@pytest.mark.parametrize("column", ["width", "idle", "keyboard", "paid", "android"])
def test_whole_numbers_that_never_repeat_are_numbers_otherwise(column):
    rows = [{column: 100 * i * i, "x": i % 9, "z": i % 2} for i in range(50)]
    assert propose(rows, output="z").features[column].kind == "number"


def test_one_key_is_enough():
    rows = [{"id": i, "name": f"n{i}", "x": i % 9, "z": i % 2} for i in range(50)]
    features = propose(rows, output="z").features
    assert (features["id"].kind, features["name"].kind) == ("key", "ignore")


@pytest.mark.parametrize(
    ("outputs", "kind"),
    [
        (["yes", "no"], "label"),
        ([0, 1], "label"),
        ([0.0, 1.0], "label"),
        ([True, False], "label"),
        ([0.25, 0.5], "number"),
        ([1, 0.5], "number"),
    ],
)
def test_kind_of_the_output_is_proposed(outputs, kind):
    rows = [{"x": i % 9, "z": outputs[i % 2]} for i in range(50)]
    rule = propose(rows, output="z")
    assert rule.output == kind
    assert len(lw.Monitor(rule).observe_many(rows)) == 50


def test_several_outputs_are_probabilities():
    rows = [{"x": i % 9, "p": 0.25, "q": 0.75} for i in range(50)]
    rule = propose(rows, output=["p", "q"])
    assert (rule.output, rule.output_column) == ("probabilities", ("p", "q"))
    assert len(lw.Monitor(rule).observe_many(rows)) == 50


def like_adult(n: int = 500) -> dict[str, list]:
    rng = np.random.default_rng(1)
    return {
        "age": rng.integers(17, 91, n).tolist(),
        "workclass": rng.choice(["Private", "State-gov", "?"], n).tolist(),
        "fnlwgt": rng.integers(12_000, 1_500_000, n).tolist(),
        "education-num": rng.integers(1, 17, n).tolist(),
        "sex": rng.choice(["Male", "Female"], n).tolist(),
        "race": [None if i % 50 == 0 else "White" for i in range(n)],
        "capital-gain": np.where(rng.random(n) < 0.08, rng.integers(1, 99_999, n), 0).tolist(),
        "hours-per-week": rng.integers(1, 99, n).tolist(),
        "native-country": [None if i % 20 == 3 else "Cuba" for i in range(n)],
        "person_id": list(range(n)),
        "income": rng.choice(["<=50K", ">50K"], n).tolist(),
    }


@pytest.mark.parametrize(
    "table_of",
    [
        pd.DataFrame,
        pl.DataFrame,
        pa.table,
        lambda given: pd.DataFrame(given).convert_dtypes(),
        lambda given: pd.DataFrame(given).to_dict("records"),
    ],
    ids=["pandas", "polars", "arrow", "pandas nullable", "dictionaries"],
)
def test_table_like_adult_gets_a_rule_that_reads_it(table_of):
    table = table_of(like_adult())
    rule = propose(table, output="income", protected=["sex", "race"])
    kinds = {name: feature.kind for name, feature in rule.features.items()}
    assert kinds == {
        "age": "number",
        "workclass": "category",
        "fnlwgt": "ignore",
        "education-num": "number",
        "sex": "protected",
        "race": "protected",
        "capital-gain": "number",
        "hours-per-week": "number",
        "native-country": "category",
        "person_id": "key",
    }
    tolerances = {name: one.tolerance for name, one in rule.features.items() if one.tolerance}
    assert tolerances == {
        "age": 5.0,
        "education-num": 1.0,
        "capital-gain": "10%",
        "hours-per-week": 5.0,
    }
    missing = {name for name, one in rule.features.items() if one.missing != "reject"}
    assert missing == {"race", "native-country"}
    assert lw.Rule.from_toml(rule.to_toml()) == rule
    assert len(lw.Monitor(rule).observe_many(table)) == 500


def test_tolerance_is_a_plain_figure_of_a_tenth_of_the_spread():
    for _ in range(200):
        numbers = RNG.normal(0, 10.0 ** RNG.uniform(-8, 8), 50)
        rows = [{"x": float(x), "z": 0} for x in numbers]
        tolerance = propose(rows, output="z").features["x"].tolerance
        low, high = np.quantile(numbers, [0.1, 0.9])
        assert 0.4 * (1 - 1e-9) <= tolerance / (0.1 * (high - low)) <= 1 + 1e-8
        assert f"{tolerance:.12e}"[:14] in {f"{step}.000000000000" for step in (1, 2, 5)}


def test_protected_may_be_one_name():
    rows = [{"x": i % 9, "sex": "fm"[i % 2], "z": i % 2} for i in range(50)]
    assert propose(rows, output="z", protected="sex").features["sex"].kind == "protected"


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        ({"output": "y"}, lw.errors.BadTable),
        ({"output": ["z", "y"]}, lw.errors.BadTable),
        ({"output": "z", "protected": ["race"]}, lw.errors.BadTable),
        ({"output": "z", "protected": ["x", "sex"]}, lw.errors.BadRule),
    ],
)
def test_what_cannot_be_proposed_says_why(settings, error):
    rows = [{"x": i % 9, "sex": "f", "z": i % 2} for i in range(50)]
    with raises(error):
        propose(rows, **settings)


def test_a_few_numbers_beyond_float64_do_not_hide_a_column():
    """The column is proposed from the others; a monitor refuses those few, by their row."""
    rows = [{"x": 2**60 + 1 if i == 7 else i, "z": i % 2} for i in range(50)]
    rule = propose(rows, output="z")
    assert rule.features["x"] == number(2)
    with raises(lw.errors.UnexpectedValue, column="x", place=7):
        lw.Monitor(rule).observe_many(rows)


@pytest.mark.parametrize("start", [0, 2**60, 10**400], ids=["0", "2**60", "10**400"])
def test_a_key_may_be_a_whole_number_of_any_size(start):
    rows = [{"id": start + i, "x": i % 9, "z": i % 2} for i in range(50)]
    rule = propose(rows, output="z")
    assert rule.features["id"] == Feature("key")
    monitor = lw.Monitor(rule)
    monitor.observe_many(rows)
    assert monitor.row_of(start + 7) == 7


@pytest.mark.parametrize("role", ["output", "protected"])
def test_a_column_of_lists_has_no_role(role):
    rows = [{"x": i % 9, "many": [i, i], "z": i % 2} for i in range(50)]
    settings = {"output": "z", role: "many"}
    with raises(lw.errors.BadRule):
        propose(rows, **settings)


def test_infinite_numbers_are_refused_by_row_and_column():
    rows = [{"x": float("inf") if i == 7 else float(i), "z": i % 2} for i in range(50)]
    rows[3]["x"] = None
    with raises(lw.errors.UnexpectedValue, column="x", place=7):
        propose(rows, output="z")
