"""Values at the door: what means the same is judged the same, what loses its meaning is refused.

A value may come alone or in a batch, from NumPy, pandas, Polars, Arrow or as a Python object.
"""

import datetime
import enum
import fractions
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

import likewise as lw
from likewise import Feature
from tests.support.lazily import pandas as pd
from tests.support.lazily import polars as pl
from tests.support.lazily import pyarrow as pa
from tests.support.looping import each
from tests.support.refusals import raises

RULE = lw.Rule("linf", 0.1)
NUMBER = lw.Rule("linf", 0.1, output="number", delta=0.5)
CHANCES = lw.Rule("linf", 0.1, output="probabilities", delta=0.1)
X = np.zeros((3, 2))
BIG = 2**53  # BIG and BIG + 1 are the same float64


def contradicted(monitor: Any, x: Any, z: Any) -> bool:
    return bool(monitor.check(x, z).violation)


def assert_untouched(monitor: Any) -> None:
    """Nothing of what was refused is there: the next decision has row 0 and no witness."""
    assert len(monitor) == 0
    verdict = monitor.observe([0.0, 0.0, 0.0], "as if it were the first")
    assert verdict.row == 0 and not verdict.violation


# Labels


class Plain:
    """Equal to itself alone."""


class Valued:
    """Equal to others with the same value."""

    def __init__(self, value: int) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Valued) and self.value == other.value

    def __hash__(self) -> int:
        return hash(self.value)


class HalfWay(Valued):
    """Equal by value, but hashed by identity: no dictionary finds it again."""

    __hash__ = object.__hash__


class Several:
    """As a tensor of some numbers: hashed by identity, compared number by number."""

    ndim = 1

    def __eq__(self, other: object) -> Any:
        return np.array([True, True])

    def __hash__(self) -> int:
        return id(self)


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


MEANINGLESS = {
    "an object": Plain(),
    "a function": lambda: 0,
    "a value hashed by identity": HalfWay(1),
    "several numbers": Several(),
    "an object in a tuple": ("a", Plain()),
    "an object in a set": frozenset({Plain()}),
    "NaN in a tuple": ("a", float("nan")),
    "pandas' NA": pd.NA,
    "pandas' NaT": pd.NaT,
    "NumPy's NaT": np.datetime64("NaT"),
    "a masked place": np.ma.masked,
    "a time finer than Python's": np.datetime64(1, "ns"),
    "a year beyond Python's": np.datetime64("20000-01-01"),
    "months without a length": np.timedelta64(1, "M"),
}


@each("label", MEANINGLESS.values(), ids=MEANINGLESS)
def test_a_label_that_cannot_be_found_again_is_refused(label):
    monitor = lw.Monitor(RULE)
    for call in (monitor.observe, monitor.check):
        with raises(lw.errors.UnexpectedValue):
            call(X[0], label)
    labels = np.empty(3, dtype=object)
    labels[:] = ["a", label, "a"]
    for given in (labels.tolist(), labels):
        for call in (monitor.observe_many, monitor.load):
            with raises(lw.errors.UnexpectedValue, place=1):
                call(X, given)
    assert_untouched(monitor)


SAME = {
    "values": lambda: Valued(7),
    "members": lambda: Colour.BLUE,
    "classes": lambda: Valued,
    "nothing": lambda: None,
    "tuples": lambda: ("a", np.int64(1), (None, 2.5)),
    "sets": lambda: frozenset({np.str_("a"), 1}),
    "NumPy's integers": lambda: np.int16(3),
    "NumPy's text": lambda: np.str_("yes"),
    "NumPy's truth": lambda: np.bool_(True),
    "a number of an array": lambda: np.array(2.5),
    "a date": lambda: np.datetime64("2020-01-01"),
    "a date and time": lambda: np.datetime64("2020-01-01T12:30"),
    "nanoseconds that are microseconds": lambda: np.datetime64(1_577_836_800_000_001_000, "ns"),
    "a duration": lambda: np.timedelta64(90, "s"),
    "pandas' time": lambda: pd.Timestamp("2020-01-01", tz="UTC"),
    "dates in a tuple": lambda: (np.datetime64("2020-01-01"), 1),
}


@each("make", SAME.values(), ids=SAME)
def test_a_label_is_the_same_alone_and_in_a_batch(make):
    monitor = lw.Monitor(RULE)
    monitor.observe(X[0], make())
    assert not contradicted(monitor, X[0], make())
    labels = np.empty(2, dtype=object)
    labels[:] = [make(), make()]
    assert monitor.observe_many(X[:2], labels.tolist()).pairs == 0
    assert monitor.observe_many(X[:2], labels).pairs == 0
    assert contradicted(monitor, X[0], "another")


@pytest.mark.parametrize("unit", ["Y", "D", "m", "s", "ms", "us", "ns"])
def test_numpy_dates_are_what_python_has_for_them(unit):
    dates = np.array(["2020-01-01", "2021-01-01"], dtype=f"M8[{unit}]")
    monitor = lw.Monitor(RULE)
    monitor.observe_many(X[:1], dates[:1])
    day = datetime.date if unit in "YD" else datetime.datetime
    for same in (dates[0], day(2020, 1, 1)):
        assert not contradicted(monitor, X[0], same)
        assert monitor.observe_many(X[:1], [same]).pairs == 0
    assert contradicted(monitor, X[0], dates[1])
    assert contradicted(monitor, X[0], dates[0].astype(np.int64))  # a number is no date


def test_dates_in_an_array_that_python_has_none_for_are_refused():
    monitor = lw.Monitor(RULE)
    for dates in (np.array([0, 1, 1000], "M8[ns]"), np.array([0, 0, 2**40], "M8[D]")):
        with raises(lw.errors.UnexpectedValue):
            monitor.observe_many(X, dates)
    assert_untouched(monitor)


def table_rule(**settings: Any) -> lw.Rule:
    features = {"a": Feature("number", tolerance=1), "c": Feature("category"), **settings}
    return lw.Rule(features=features, output_column="z")


def test_a_category_that_cannot_be_found_again_is_refused():
    monitor = lw.Monitor(table_rule())
    rows = [{"a": 1, "c": "x", "z": 0}, {"a": 1, "c": Plain(), "z": 1}]
    with raises(lw.errors.UnexpectedValue, place=0):
        monitor.observe(rows[1])
    with raises(lw.errors.UnexpectedValue, place=1):
        monitor.observe_many(rows)
    assert len(monitor) == 0


def test_a_category_is_the_same_alone_and_in_a_table():
    date = np.datetime64("2020-01-01")
    monitor = lw.Monitor(table_rule())
    monitor.observe({"a": 1, "c": date, "z": 0})
    for day in (date, datetime.date(2020, 1, 1)):
        assert monitor.check({"a": 1, "c": day, "z": 1}).violation
        frame = pd.DataFrame({"a": [1], "c": pd.Series([day], dtype=object), "z": [0]})
        assert monitor.observe_many(frame).pairs == 0
    fields = [("a", float), ("c", "M8[D]"), ("z", int)]
    assert monitor.observe_many(np.array([(1, date, 0)], dtype=fields)).pairs == 0
    assert monitor.check({"a": 1, "c": datetime.date(2020, 1, 1), "z": 1}).witnesses.rows.tolist()


def test_a_key_is_the_same_alone_and_in_a_table():
    monitor = lw.Monitor(table_rule(id=Feature("key")))
    day = np.datetime64("2020-01-01")
    monitor.observe({"a": 1, "c": "x", "z": 0, "id": day})
    assert monitor.row_of(day) == monitor.row_of(datetime.date(2020, 1, 1)) == 0
    for key in (day, datetime.date(2020, 1, 1)):
        with raises(lw.errors.RepeatedKey, place=0, row=0):
            monitor.observe_many([{"a": 1, "c": "x", "z": 0, "id": key}])
    with raises(lw.errors.UnexpectedValue, place=0):
        monitor.observe({"a": 1, "c": "x", "z": 0, "id": Plain()})


# Batches that number their values otherwise


def series(values: list[Any]) -> dict[str, Any]:
    index = range(10, 10 + len(values))
    return {
        "pandas with another index": pd.Series(values, index=index),
        "pandas by name": pd.Series(values, index=[f"row {i}" for i in index]),
        "pandas backwards": pd.Series(values[::-1], index=range(len(values)))[::-1],
        "a pandas index": pd.Index(values),
        "a pandas categorical": pd.Categorical(values),
        "Polars": pl.Series(values),
        "Arrow": pa.array(values),
        "Arrow in chunks": pa.chunked_array([values[:1], values[1:]]),
        "a view of a dictionary": dict(enumerate(values)).values(),
        "NumPy": np.array(values),
    }


@each("name", series(["a", "b"]))
@each("values", [["a", "b", "a"], [1, 2, 1], [0.5, 2.0, 0.5]], ids=repr)
def test_outputs_are_taken_in_their_order_whatever_numbers_them(values, name):
    rules = [RULE] if isinstance(values[0], str) else [RULE, NUMBER]
    for rule in rules:
        expected = lw.Monitor(rule).observe_many(X, values)
        monitor = lw.Monitor(rule)
        given = series(values)[name]
        found = monitor.observe_many(X, given)
        assert found.counts.tolist() == expected.counts.tolist() == [0, 1, 1]
        assert not contradicted(monitor, X[0] + 9, values[0])
        assert monitor.check(X[0], values[0]).witnesses.rows.tolist() == [1]
        calibrated = lw.calibrate(rule, X, given)
        assert calibrated.rows.tolist() == lw.calibrate(rule, X, values).rows.tolist()


def test_probabilities_may_come_as_a_frame():
    chances = np.array([[0.9, 0.1], [0.5, 0.5], [0.9, 0.1]])
    for frame in (
        pd.DataFrame(chances, columns=["no", "yes"], index=[7, 8, 9]),
        pl.DataFrame(chances, schema=["no", "yes"]),
        pa.table({"no": chances[:, 0], "yes": chances[:, 1]}),
    ):
        assert lw.Monitor(CHANCES).observe_many(X, frame).counts.tolist() == [0, 1, 1]


def test_outputs_without_an_order_are_refused():
    monitor = lw.Monitor(RULE)
    for given in ({0: "a", 1: "b", 2: "c"}, {"a", "b", "c"}):
        with raises(lw.errors.UnexpectedValue):
            monitor.observe_many(X, given)
    assert_untouched(monitor)


# Masks


def masked(values: Any, at: Any) -> np.ma.MaskedArray:
    array = np.ma.array(values, dtype=float)
    array[at] = np.ma.masked
    return array


def test_masked_places_are_refused():
    one, many = masked([1.0, 2.0, 3.0], 1), masked(np.ones((3, 2)), (1, 0))
    for rule in (RULE, NUMBER):
        monitor = lw.Monitor(rule)
        with raises(lw.errors.UnexpectedValue):
            monitor.observe(one, 1)
        for given in (many, list(many)):
            for call in (monitor.observe_many, monitor.load):
                with raises(lw.errors.UnexpectedValue):
                    call(given, [1, 1, 1])
        for call in (monitor.observe_many, monitor.load):
            with raises(lw.errors.UnexpectedValue):
                call(X, one)
        with raises(lw.errors.UnexpectedValue):
            monitor.observe(X[0], np.ma.masked)
        assert len(monitor) == 0
    with raises(lw.errors.UnexpectedValue):
        lw.Monitor(CHANCES).observe(X[0], masked([0.5, 0.5], 1))
    with raises(lw.errors.UnexpectedValue):
        lw.calibrate(RULE, many, [1, 2, 1])


def test_masked_columns_are_refused():
    rule = table_rule(c=Feature("number", tolerance=1, missing="mismatch"))
    fields = [("a", float), ("c", float), ("z", int)]
    named = np.ma.zeros(3, dtype=fields)
    named["c"][2] = np.ma.masked
    by_place = masked(np.zeros((3, 3)), (2, 1))
    for given in (named, by_place):
        monitor = lw.Monitor(rule)
        with raises(lw.errors.UnexpectedValue):
            monitor.observe_many(given)
        assert len(monitor) == 0
    with raises(lw.errors.UnexpectedValue, column="c", place=0):
        lw.Monitor(rule).observe({"a": 1.0, "c": np.ma.masked, "z": 0})


def test_an_array_that_could_mask_but_does_not_is_an_array():
    given = np.ma.array([[0.0, 0.0], [0.0, 0.05]])
    monitor = lw.Monitor(RULE)
    assert monitor.observe_many(given, np.ma.array([1, 2])).counts.tolist() == [0, 1]
    assert monitor.observe(given[0], 1).witnesses.rows.tolist() == [1]
    rule = table_rule(c=Feature("number", tolerance=1))
    assert lw.Monitor(rule).observe_many(np.ma.zeros((2, 3))).pairs == 0


# Whole numbers that float64 rounds


WHOLE = {
    "int64": np.array([0, BIG + 1]),
    "uint64": np.array([0, BIG + 1], dtype=np.uint64),
    "the largest": np.array([0, 2**64 - 1], dtype=np.uint64),
    "the smallest": np.array([0, -(2**63)]),
    "a list": [0, BIG + 1],
    "beside a fraction": [0.5, BIG + 1],
    "beside a NumPy fraction": [np.float64(0.5), np.int64(BIG + 1)],
    "of both signs": [-1, 2**63],
    "many": np.array([*[0] * 999, -BIG - 1]),
}


@each("storage", ["auto", "float64", "int64"])
@each("whole", WHOLE.values(), ids=WHOLE)
def test_an_input_that_float64_rounds_is_refused(whole, storage):
    monitor = lw.Monitor(lw.Rule("linf", 0.1, storage=storage))
    for call in (monitor.observe, monitor.check):
        with raises(lw.errors.UnexpectedValue):
            call(whole, "a")
    for call in (monitor.observe_many, monitor.load):
        with raises(lw.errors.UnexpectedValue):
            call([whole, whole], ["a", "b"])
    assert len(monitor) == 0


@pytest.mark.parametrize("limit", [BIG, -BIG])
def test_the_largest_whole_number_that_float64_keeps_is_told_from_the_next(limit):
    monitor = lw.Monitor(lw.Rule("linf", 0.1))
    nearer = limit - 1 if limit > 0 else limit + 1
    monitor.observe_many(np.array([[limit], [nearer]]), ["a", "b"])
    assert monitor.check([limit], "b").witnesses.rows.tolist() == [0]
    assert monitor.check(np.array([nearer]), "a").witnesses.rows.tolist() == [1]


def frames(a: Any, b: Any) -> dict[str, Any]:
    return {
        "pandas": pd.DataFrame({"a": a, "b": b}),
        "pandas with one name twice": pd.DataFrame(
            np.array([b, a], dtype=object).T, columns=["a", "a"]
        ).infer_objects(),
        "Polars": pl.DataFrame({"a": a, "b": b}),
        "Arrow": pa.table({"a": a, "b": b}),
    }


@pytest.mark.parametrize("name", frames([1], [2]))
def test_a_frame_of_whole_numbers_and_fractions_is_not_rounded(name):
    monitor = lw.Monitor(RULE)
    for number in (BIG + 1, -BIG - 1):
        given = frames([1, number], [0.5, 1.5])[name]
        with raises(lw.errors.UnexpectedValue):
            monitor.observe_many(given, ["a", "b"])
    given = frames([1, 2], [0.5, 1e300])[name]  # a float is what it is
    assert monitor.observe_many(given, ["a", "b"]).pairs == 0


NUMBERS = {
    "int": BIG + 1,
    "int64": np.int64(BIG + 1),
    "uint64": np.uint64(2**64 - 1),
    "an array of one": np.array(-BIG - 1),
    "a decimal": Decimal(BIG + 1),
    "a fraction": fractions.Fraction(2 * BIG + 3, 2),
}


@pytest.mark.parametrize("number", NUMBERS.values(), ids=NUMBERS)
def test_a_number_as_output_that_float64_rounds_is_refused(number):
    monitor = lw.Monitor(NUMBER)
    for call in (monitor.observe, monitor.check):
        with raises(lw.errors.UnexpectedValue):
            call(X[0], number)
    if not isinstance(number, Decimal | fractions.Fraction):
        whole = np.array([1, 2, int(number)], dtype=np.uint64 if number > 0 else np.int64)
        for given in ([1, 0.5, number], whole, pd.Series(whole)):
            with raises(lw.errors.UnexpectedValue):
                monitor.observe_many(X, given)
    assert len(monitor) == 0


def test_labels_may_be_whole_numbers_of_any_size():
    monitor = lw.Monitor(RULE)
    monitor.observe(X[0], BIG)
    assert contradicted(monitor, X[0], BIG + 1)
    assert monitor.observe_many(X[:2], np.array([BIG + 1, BIG])).counts.tolist() == [1, 1]
    nulls = pl.Series([BIG, None, BIG + 1])  # NumPy has only floats for it
    assert lw.Monitor(RULE).observe_many(X, nulls).counts.tolist() == [0, 1, 2]


def columns(numbers: list[Any]) -> dict[str, Any]:
    rest = {"c": ["x"] * len(numbers), "z": list(range(len(numbers)))}
    table = {"a": numbers, **rest}
    rows = [dict(zip(table, row, strict=True)) for row in zip(*table.values(), strict=True)]
    given: dict[str, Any] = {
        "rows": rows,
        "pandas": pd.DataFrame(table),
        "pandas objects": pd.DataFrame(table, dtype=object),
        "Polars": pl.DataFrame(table),
        "Arrow": pa.table(table),
    }
    if all(number is not None for number in numbers):
        fields = [("a", np.int64), ("c", "U1"), ("z", int)]
        given["NumPy"] = np.array([tuple(row.values()) for row in rows], dtype=fields)
    else:
        given["nullable pandas"] = pd.DataFrame({**table, "a": pd.array(numbers, dtype="Int64")})
        del given["pandas"]  # it has made floats of them itself
    return given


@each("tolerance", [1, "10%"])
@each("hole", [False, True], ids=["whole", "with a hole"])
@each("sign", [1, -1])
def test_a_column_that_float64_rounds_is_refused(hole, sign, tolerance):
    numbers = [1, None, sign * (BIG + 1)] if hole else [1, 2, sign * (BIG + 1)]
    rule = table_rule(a=Feature("number", tolerance=tolerance, missing="mismatch"))
    for name, given in columns(numbers).items():
        monitor = lw.Monitor(rule)
        with raises(lw.errors.UnexpectedValue, column="a", place=2):
            monitor.observe_many(given)
        assert len(monitor) == 0, name
    monitor = lw.Monitor(rule)
    for row in ({"a": numbers[2]}, {"a": np.int64(numbers[2])}, {"a": Decimal(numbers[2])}):
        with raises(lw.errors.UnexpectedValue, column="a", place=0):
            monitor.observe({**row, "c": "x", "z": 0})
    assert len(monitor) == 0


def test_a_number_column_as_output_that_float64_rounds_is_refused():
    features = {"a": Feature("number", tolerance=1)}
    rule = lw.Rule(features=features, output="number", output_column="z", delta=0.5)
    monitor = lw.Monitor(rule)
    with raises(lw.errors.UnexpectedValue, column="z", place=0):
        monitor.observe({"a": 1, "z": BIG + 1})
    with raises(lw.errors.UnexpectedValue, column="z", place=1):
        monitor.observe_many(pd.DataFrame({"a": [1, 1], "z": [BIG, BIG + 1]}))
    with raises(lw.errors.UnexpectedValue):
        monitor.observe({"a": 1}, BIG + 1)
    assert len(monitor) == 0


def test_vectors_of_an_embedder_that_float64_rounds_are_refused():
    rule = lw.Rule("linf", 0.1, embed=lambda texts: [[len(text), BIG + 1] for text in texts])
    with raises(lw.errors.UnexpectedValue):
        lw.Monitor(rule).observe("a text", "a")


# Scalars of other packages


class Scalar:
    """As JAX or CuPy have it: a number behind an array of no dimension, which has no hash."""

    dtype, ndim = np.dtype(float), 0
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, value: Any) -> None:
        self._value = value

    def item(self) -> Any:
        return self._value

    def __eq__(self, other: object) -> Any:
        return np.array(self._value == other)


class Elsewhere:
    """A number in the memory of another device, which does not come of itself."""

    dtype, ndim = np.dtype(float), 0

    def item(self) -> Any:
        raise RuntimeError("no data here")

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise TypeError("implicit conversion to a NumPy array is not allowed")


def test_a_scalar_array_is_its_number():
    for rule, number in ((RULE, 3), (NUMBER, 2.5)):
        monitor = lw.Monitor(rule)
        monitor.observe(X[0], Scalar(number))
        assert not contradicted(monitor, X[0], number)
        assert not contradicted(monitor, X[0], Scalar(number))
        assert contradicted(monitor, X[0], Scalar(number + 1))
    with raises(lw.errors.UnexpectedValue):
        lw.Monitor(NUMBER).observe(X[0], Scalar(BIG + 1))


def test_an_array_that_does_not_come_is_refused():
    for rule in (RULE, NUMBER, CHANCES):
        monitor = lw.Monitor(rule)
        with raises(lw.errors.UnexpectedValue):
            monitor.observe(Elsewhere(), "a")
        with raises(lw.errors.UnexpectedValue):
            monitor.observe_many(Elsewhere(), ["a"])
        with pytest.raises(lw.errors.BadDecision):
            monitor.observe(X[0], Elsewhere())
        with raises(lw.errors.UnexpectedValue):
            monitor.observe_many(X[:1], [Elsewhere()])
        assert len(monitor) == 0


# A watched model


def test_a_watcher_keeps_masks_dates_and_whole_numbers_as_they_are():
    with lw.watch(lambda x: 1, RULE, on_failure="record") as watched:
        watched(masked([1.0, 2.0], 1))
        watched(pd.DataFrame({"a": [BIG + 1], "b": [0.5]}))
        told = [str(failure.error) for failure in watched.failures]
        assert watched.counts.decisions == 0
    assert "masked" in told[0] and "2**53" in told[1]
    days = np.array(["2020-01-01", "2020-01-01"], "M8[ns]")
    with lw.watch(lambda x: days[: len(x)], RULE, batched=True, on_failure="raise") as watched:
        watched(X[:1])
        watched(X[:2])
        assert watched.counts.decisions == 3 and watched.counts.violations == 0
    with lw.watch(lambda x: days[0], RULE, on_failure="raise") as watched:
        watched(X[0])
        assert not contradicted(watched.monitor, X[0], days[0])


class _Reserved:
    """Equal to its like, and not to be compared with anything else."""

    def __init__(self, number):
        self.number = number

    def __hash__(self):
        return 1

    def __eq__(self, other):
        return self.number == other.number


DAY = datetime.date(2020, 1, 1)
MIDNIGHT = datetime.datetime(2020, 1, 1)


@pytest.mark.parametrize(
    "labels",
    {
        "a day, and its first second": [np.datetime64(DAY, "D"), np.datetime64(DAY, "s"), "x"],
        "the same in tuples": [(np.datetime64(DAY, "D"), 1), (np.datetime64(DAY, "s"), 1), "x"],
        "one day in four ways": [DAY, np.datetime64(DAY, "D"), MIDNIGHT, np.datetime64(DAY, "s")],
        "numbers that are equal": [1, True, 1.0, np.float32(1), 0, False, "1", b"1", None],
        "again and again": ["a", "b", "a", None, "b", None, "c"],
    }.items(),
    ids=lambda case: case[0],
)
def test_labels_mean_the_same_alone_and_in_a_batch(labels):
    _, given = labels
    one, many = (lw.Monitor(lw.Rule("linf", 0.1)) for _ in range(2))
    alone = [one.observe([0.0], z).witnesses.rows.tolist() for z in given]
    found = many.observe_many(np.zeros((len(given), 1)), given)
    assert [verdict.witnesses.rows.tolist() for verdict in found] == alone
    assert any(alone)


def test_keys_of_a_type_of_its_own_are_compared_with_nothing_else():
    monitor = lw.Monitor(lw.Rule("linf", 0.1))
    keys = [_Reserved(i) for i in range(3)]
    monitor.observe_many([[0.0]] * 3, ["a"] * 3, keys=keys)
    assert monitor.observe([0.0], "b", key=_Reserved(9)).count == 3
    with raises(lw.errors.BadDecision):
        monitor.observe_many([[0.0]], ["a"], keys=[_Reserved(1)])
