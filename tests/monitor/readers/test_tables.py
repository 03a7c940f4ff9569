"""Tables of every sort mean the same, and what cannot be read is refused without a trace."""

import dataclasses
import datetime
import decimal
from collections import namedtuple
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import pytest

import likewise as lw
from likewise import Feature
from likewise.tables.frames import is_missing, table_columns
from tests.support.lazily import pandas as pd
from tests.support.lazily import polars as pl
from tests.support.lazily import pyarrow as pa
from tests.support.looping import each
from tests.support.refusals import raises

NAN, INF = float("nan"), float("inf")
BIG = 2**53  # BIG and BIG + 1 are the same float64
NUMBERS = ["age", "income"]
NAMES = ["age", "income", "job", "code", "member", "sex", "id", "approved"]
RULE = lw.Rule(
    features={
        "age": Feature("number", tolerance=5),
        "income": Feature("number", tolerance="20%", missing="mismatch"),
        "job": Feature("category", missing="match"),
        "code": Feature("category", missing="mismatch"),
        "member": Feature("category", missing="mismatch"),
        "sex": Feature("protected", missing="mismatch"),
        "id": Feature("key"),
        "note": Feature("ignore"),
    },
    output_column="approved",
)


def people(n: int, seed: int = 0) -> list[dict[str, Any]]:
    """Rows with holes, of few different values, so that many are near."""
    rng = np.random.default_rng(seed)

    def one_of(*values: Any) -> Any:
        return values[int(rng.integers(len(values)))]

    return [
        {
            "age": one_of(30, 33, 36),
            "income": one_of(None, 0.0, 1000.0, 1150.5),
            "job": one_of("nurse", "cook", None),
            "code": one_of(BIG, BIG + 1, None),
            "member": one_of(True, False, None),
            "sex": one_of("f", "m", None),
            "id": f"p{seed}-{i}",
            "approved": one_of("yes", "no"),
        }
        for i in range(n)
    ]


def columns(rows: list[dict]) -> dict[str, list]:
    return {name: [row[name] for row in rows] for name in NAMES}


def without_holes(rows: list[dict], value: Any) -> list[dict]:
    return [{n: value if one is None else one for n, one in row.items()} for row in rows]


class OnlyArrow:
    """A table that nobody knows, but that speaks Arrow."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self._table.__arrow_c_stream__(requested_schema)


def arrow(rows: list[dict]) -> pa.Table:
    given = columns(rows)
    return pa.table(given | {"job": pa.array(given["job"]).dictionary_encode()})


def pandas_nullable(rows: list[dict]) -> pd.DataFrame:
    types = {"age": "Int32", "income": "Float64", "job": "category", "code": "Int64"}
    frame = pd.DataFrame(
        {name: pd.Series(one, dtype="object") for name, one in columns(rows).items()}
    )
    return frame.astype(types | {"member": "boolean", "sex": "string", "id": "string"})


def pandas_objects(rows: list[dict]) -> pd.DataFrame:
    frame = pd.DataFrame(columns(rows), dtype="object", index=range(100, 100 + len(rows)))
    holes = [None, NAN, pd.NA, pd.NaT]
    for i, name in enumerate(["job", "code", "member", "sex", "income"]):
        column = frame[name].tolist()
        column = [holes[(i + k) % 4] if one is None else one for k, one in enumerate(column)]
        frame[name] = pd.Series(column, dtype="object", index=frame.index)
    return frame


def pandas_plain(rows: list[dict]) -> pd.DataFrame:
    """As pandas takes it by itself: NaN for numbers, its own strings."""
    given = columns(rows)
    return pd.DataFrame(given | {"code": pd.array(given["code"], dtype="Int64")})


def pandas_arrow(rows: list[dict]) -> pd.DataFrame:
    return arrow(rows).to_pandas(types_mapper=pd.ArrowDtype)


def polars(rows: list[dict]) -> pl.DataFrame:
    jobs, sexes = pl.Categorical(), pl.Enum(["f", "m"])
    return pl.DataFrame(columns(rows), schema_overrides={"job": jobs, "sex": sexes})


def polars_nan(rows: list[dict]) -> pl.DataFrame:
    return polars(rows).with_columns(pl.col("income").fill_null(NAN))


def structured(rows: list[dict]) -> np.ndarray:
    types = [(name, "f8" if name in NUMBERS else "O") for name in NAMES]
    made = np.empty(len(rows), dtype=types)
    for name in NAMES:
        made[name] = [NAN if row[name] is None and name in NUMBERS else row[name] for row in rows]
    return made


def plain_array(rows: list[dict]) -> np.ndarray:
    made = np.empty((len(rows), len(NAMES)), dtype=object)
    for i, row in enumerate(rows):
        made[i] = [row[name] for name in NAMES]
    return made


Person = namedtuple("Person", NAMES)
TABLES = {
    "named tuples": lambda rows: [Person(**row) for row in rows],
    "a tuple of dictionaries": tuple,
    "dictionaries with NaN": lambda rows: without_holes(rows, NAN),
    "dictionaries with NumPy's NaN": lambda rows: without_holes(rows, np.float32(NAN)),
    "dictionaries with NaT": lambda rows: without_holes(rows, np.datetime64("NaT")),
    "dictionaries with NA": lambda rows: without_holes(rows, pd.NA),
    "dictionaries in another order": lambda rows: [dict(reversed(row.items())) for row in rows],
    "dictionaries with a note": lambda rows: [{**row, "note": [1]} for row in rows],
    "pandas": pandas_plain,
    "pandas nullable": pandas_nullable,
    "pandas objects": pandas_objects,
    "pandas over Arrow": pandas_arrow,
    "polars": polars,
    "polars with NaN": polars_nan,
    "arrow": arrow,
    "arrow in pieces": lambda rows: pa.concat_tables([arrow(rows[:7]), arrow(rows[7:])]),
    "arrow batch": lambda rows: arrow(rows).combine_chunks().to_batches()[0],
    "an Arrow stream": lambda rows: OnlyArrow(arrow(rows)),
    "structured array": structured,
    "plain array": plain_array,
}


def assert_same(mine: lw.Verdicts, theirs: lw.Verdicts) -> None:
    assert mine.offsets.tolist() == theirs.offsets.tolist()
    assert mine.witnesses == theirs.witnesses
    assert theirs.pairs > 100, "hardly anything was near"


@each("table_of", TABLES.values(), ids=TABLES)
def test_table_of_every_sort_means_the_same(table_of):
    rows = people(150)
    monitor, twin = lw.Monitor(RULE), lw.Monitor(RULE)
    assert_same(monitor.observe_many(table_of(rows)), twin.observe_many(rows))
    assert (
        [monitor.past.values(i) for i in range(150)]
        == [twin.past.values(i) for i in range(150)]
        == rows
    )
    later = people(60, seed=1)
    monitor.load(table_of(later[:30]))
    twin.load(later[:30])
    for row in later[30:]:  # whoever began with one sort may go on with another
        assert monitor.observe(row).witnesses == twin.observe(row).witnesses
    assert monitor.row_of("p1-3") == 153


@each("table_of", TABLES.values(), ids=TABLES)
def test_outputs_may_be_given_apart(table_of):
    rows = people(80)
    answers = [row["approved"] for row in rows]
    twin = lw.Monitor(RULE).observe_many(rows)
    for z in (
        answers,
        pd.Series(answers, index=range(9, 89)),
        pl.Series(answers),
        np.array(answers),
    ):
        table = table_of(rows)
        if isinstance(table, np.ndarray) and table.dtype.names is None:
            table = table[:, :-1]
        found = lw.Monitor(RULE).observe_many(table, z)
        assert found.offsets.tolist() == twin.offsets.tolist()


def test_integers_beyond_floats_are_told_apart_as_categories():
    rule = lw.Rule(
        features={"x": Feature("number", tolerance=1), "c": Feature("category")}, output_column="z"
    )
    given = {"x": [1, 1, 1], "c": [BIG, BIG + 1, BIG], "z": [0, 1, 1]}
    unsigned = {**given, "c": pl.Series([2**64 - 2, 2**64 - 1, 2**64 - 2], dtype=pl.UInt64)}
    for table in (
        pd.DataFrame(given),
        pl.DataFrame(given),
        pa.table(given),
        pl.DataFrame(unsigned),
    ):
        verdicts = lw.Monitor(rule).observe_many(table)
        assert verdicts.counts.tolist() == [0, 0, 1]


def test_decimals_and_dates_are_numbers_and_categories():
    rule = lw.Rule(
        features={"x": Feature("number", tolerance="10%"), "c": Feature("category")},
        output_column="z",
    )
    x = [decimal.Decimal("1.00"), decimal.Decimal("1.10"), decimal.Decimal("1.11")]
    given = {"x": x, "c": [datetime.date(2020, 1, 1)] * 3, "z": [0, 1, 1]}
    rows = [dict(zip(given, row, strict=True)) for row in zip(*given.values(), strict=True)]
    for table in (rows, pd.DataFrame(given), pl.DataFrame(given), pa.table(given)):
        assert lw.Monitor(rule).observe_many(table).counts.tolist() == [0, 1, 0]


def test_whole_numbers_with_holes_are_the_categories_they_were():
    """pandas turns them into floats; 1.0 is 1 all the same."""
    rule = lw.Rule(
        features={
            "x": Feature("number", tolerance=1),
            "c": Feature("category", missing="mismatch"),
        },
        output_column="z",
    )
    frame = pd.DataFrame({"x": [1, 1, 1], "c": [1, None, 2], "z": [0, 0, 0]})
    assert frame["c"].dtype == np.float64
    monitor = lw.Monitor(rule)
    monitor.load(frame)
    for c, row in ((1, 0), (None, 1), (2, 2)):
        assert monitor.check({"x": 1, "c": c, "z": 1}).witnesses.rows.tolist() == [row]


def test_number_of_another_type_is_the_same_number():
    rule = lw.Rule(features={"x": Feature("number", tolerance=1)}, output_column="z")
    for dtype in ("int8", "uint64", "float16", "float32"):
        table = np.array([(1, 0), (1, 1)], dtype=[("x", dtype), ("z", "i8")])
        assert lw.Monitor(rule).observe_many(table).pairs == 1
    assert lw.Monitor(rule).observe_many(np.array([[1.0, 0.0], [2.0, 1.0]])).pairs == 1


FLAGS: dict[str, Any] = {
    "dictionaries": [{"x": True, "z": 0}, {"x": False, "z": 1}],
    "one true among numbers": [{"x": 1.0, "z": 0}, {"x": True, "z": 1}],
    "NumPy's own": [{"x": np.True_, "z": 0}, {"x": np.False_, "z": 1}],
    "an array with names": np.array([(1, 0), (0, 1)], dtype=[("x", "bool"), ("z", "i8")]),
    "an array": np.array([[True, False], [False, True]]),
    "an array of objects": np.array([[True, 0], [2.0, 1]], dtype=object),
    "pandas": pd.DataFrame({"x": [True, False], "z": [0, 1]}),
    "pandas nullable": pd.DataFrame({"x": pd.array([True, None], "boolean"), "z": [0, 1]}),
    "pandas objects": pd.DataFrame({"x": pd.Series([1, True], dtype=object), "z": [0, 1]}),
    "polars": pl.DataFrame({"x": [True, False], "z": [0, 1]}),
    "polars with a hole": pl.DataFrame({"x": [None, False], "z": [0, 1]}),
    "arrow": pa.table({"x": [True, False], "z": [0, 1]}),
}


@each("table", FLAGS.values(), ids=FLAGS)
def test_true_and_false_are_no_numbers(table):
    feature = Feature("number", tolerance=1, missing="match")
    monitor = lw.Monitor(lw.Rule(features={"x": feature}, output_column="z"))
    for look in (monitor.observe_many, monitor.load):
        with raises(lw.errors.UnexpectedValue, column="x"):
            look(table)
    assert len(monitor) == 0
    as_said = lw.Rule(features={"x": Feature("category", missing="match")}, output_column="z")
    assert len(lw.Monitor(as_said).observe_many(table)) == 2


def test_output_that_is_true_is_no_number_and_no_probability():
    feature = {"x": Feature("number", tolerance=1)}
    number = lw.Monitor(lw.Rule(features=feature, output="number", output_column="z"))
    shares = lw.Rule(features=feature, output="probabilities", output_column=["p", "q"])
    with raises(lw.errors.UnexpectedValue, column="z", place=0):
        number.observe({"x": 1, "z": True})
    with raises(lw.errors.UnexpectedValue, column="q", place=0):
        lw.Monitor(shares).observe_many([{"x": 1, "p": 1.0, "q": False}])
    assert len(number) == 0


@pytest.mark.parametrize(
    "table",
    [[], (), pd.DataFrame(columns=NAMES), pl.DataFrame(schema=NAMES), arrow(people(5)).slice(0, 0)],
    ids=["a list", "a tuple", "pandas", "polars", "arrow"],
)
def test_empty_table_has_no_verdicts(table):
    monitor = lw.Monitor(RULE)
    assert len(monitor.observe_many(table)) == 0
    monitor.observe_many(people(20))
    assert len(monitor.observe_many(table)) == 0
    assert len(monitor.load(table)) == 0
    assert len(monitor) == 20


MISSING = [None, NAN, np.float32(NAN), np.float64(NAN), pd.NA, pd.NaT, np.datetime64("NaT")]
MISSING += [decimal.Decimal("nan"), np.timedelta64("NaT")]


def test_missing_is_whatever_says_so():
    assert all(map(is_missing, MISSING))
    there = [0, "", False, INF, "nan", "None", [], (), np.float32(0), datetime.date(2020, 1, 1)]
    assert not any(map(is_missing, [*there, np.array([1, 2]), pd.Timestamp("2020")]))


@each("hole", MISSING, ids=repr)
def test_empty_place_is_refused_where_the_rule_rejects_it(hole):
    monitor = lw.Monitor(RULE)
    with raises(lw.errors.MissingValue, column="age", place=0):
        monitor.observe({**people(1)[0], "age": hole})
    assert len(monitor) == 0


# Refusals

CLOSED = lw.Rule(
    features={
        "age": Feature("number", tolerance=5),
        "grade": Feature("ordinal", order=["a", "b", "c"]),
        "job": Feature("category", values=["nurse", "cook"], mismatch=0.5),
        "town": Feature("category"),
        "sex": Feature("protected"),
        "id": Feature("key"),
    },
    output_column="approved",
)


def closed(n: int, seed: int = 0) -> list[dict[str, Any]]:
    rng = np.random.default_rng(seed)
    return [
        {
            "age": float(rng.choice([30, 33, 36])),
            "grade": str(rng.choice(["a", "b", "c"])),
            "job": str(rng.choice(["nurse", "cook"])),
            "town": str(rng.choice(["Ulm", "Linz"])),
            "sex": str(rng.choice(["f", "m"])),
            "id": 1000 * seed + i,
            "approved": str(rng.choice(["yes", "no"])),
        }
        for i in range(n)
    ]


BAD = {
    "text": ({"age": "33"}, lw.errors.UnexpectedValue),
    "bytes": ({"age": b"33"}, lw.errors.UnexpectedValue),
    "a list": ({"age": [33]}, lw.errors.UnexpectedValue),
    "a complex number": ({"age": 33j}, lw.errors.UnexpectedValue),
    "a date": ({"age": datetime.date(2020, 1, 1)}, lw.errors.UnexpectedValue),
    "true": ({"age": True}, lw.errors.UnexpectedValue),
    "NumPy's false": ({"age": np.False_}, lw.errors.UnexpectedValue),
    "infinite": ({"age": INF}, lw.errors.UnexpectedValue),
    "minus infinite": ({"age": -INF}, lw.errors.UnexpectedValue),
    "beyond floats": ({"age": 10**400}, lw.errors.UnexpectedValue),
    "a missing number": ({"age": None}, lw.errors.MissingValue),
    "a missing category": ({"town": None}, lw.errors.MissingValue),
    "a missing ordinal": ({"grade": NAN}, lw.errors.MissingValue),
    "a missing group": ({"sex": pd.NA}, lw.errors.MissingValue),
    "an unknown grade": ({"grade": "d"}, lw.errors.UnexpectedValue),
    "an unknown job": ({"job": "king"}, lw.errors.UnexpectedValue),
    "an unhashable category": ({"town": ["Ulm"]}, lw.errors.UnexpectedValue),
    "an unhashable group": ({"sex": {}}, lw.errors.UnexpectedValue),
    "a missing key": ({"id": None}, lw.errors.MissingValue),
    "an unhashable key": ({"id": [5]}, lw.errors.UnexpectedValue),
    "a missing output": ({"approved": None}, lw.errors.MissingValue),
}


def assert_no_trace(monitor: lw.Monitor, twin: lw.Monitor) -> None:
    """Both know the same, and say the same of a following stream."""
    assert len(monitor) == len(twin)
    known, same = monitor.core.reader.encoder, twin.core.reader.encoder
    for name, vocabulary in known.vocabularies.items():
        assert vocabulary.values == same.vocabularies[name].values
    assert known._combinations == same._combinations
    rows = range(monitor.rows)
    assert monitor.past.outputs(rows) == twin.past.outputs(rows)
    assert monitor.past.keys(rows) == twin.past.keys(rows)
    later = closed(60, seed=2)
    for row in later[:20]:
        mine, theirs = monitor.observe(row), twin.observe(row)
        assert (mine.row, mine.witnesses) == (theirs.row, theirs.witnesses)
    mine, theirs = monitor.observe_many(later[20:]), twin.observe_many(later[20:])
    assert mine.witnesses == theirs.witnesses
    assert theirs.pairs > 5
    assert monitor.past.values(len(monitor) - 1) == later[-1]


@each("past", [0, 40])
@each(("change", "kind"), BAD.values(), ids=BAD)
def test_refused_row_is_named_and_leaves_no_trace(change, kind, past):
    monitor, twin = lw.Monitor(CLOSED), lw.Monitor(CLOSED)
    for one in (monitor, twin):
        one.load(closed(past))
    batch = closed(10, seed=1)
    batch[3] |= {"town": "Graz", "sex": "x"}  # values that nobody may learn from a refused batch
    batch[6] |= change
    (column,) = change
    facts = {} if change == {"id": [5]} else {"column": column}
    for call, place in (
        (lambda: monitor.observe_many(batch), 6),
        (lambda: monitor.load(batch), 6),
        (lambda: monitor.observe(batch[6]), 0),
        (lambda: monitor.check(batch[6]), 0),
        (lambda: monitor.observe_many([batch[6]]), 0),
    ):
        with raises(kind, place=place, **facts):
            call()
    assert_no_trace(monitor, twin)


@each(("change", "kind"), BAD.values(), ids=BAD)
def test_check_leaves_no_trace(change, kind):
    monitor, twin = lw.Monitor(CLOSED), lw.Monitor(CLOSED)
    for one in (monitor, twin):
        one.load(closed(30))
    monitor.check({**closed(1, seed=5)[0], "town": "Graz", "sex": "x", "approved": "perhaps"})
    with pytest.raises(kind):
        monitor.observe(closed(1, seed=6)[0] | change)
    assert_no_trace(monitor, twin)


@each("hole", MISSING, ids=repr)
def test_refused_value_is_named_behind_an_empty_place(hole):
    features = {
        "x": Feature("number", tolerance=1, missing="match"),
        "c": Feature("category", values=["a", "b"], missing="mismatch"),
    }
    monitor = lw.Monitor(lw.Rule(features=features, output_column="z"))
    rows = [{"x": hole, "c": c, "z": 0} for c in ("a", hole, hole, "b", "new", "new")]
    with raises(lw.errors.UnexpectedValue, column="c", place=4):
        monitor.observe_many(rows)
    rows[5]["c"] = {}
    with raises(lw.errors.UnexpectedValue, column="c", place=5):
        monitor.observe_many(rows)


def test_keys_are_unique_in_the_batch_and_in_the_history():
    monitor, twin = lw.Monitor(CLOSED), lw.Monitor(CLOSED)
    for one in (monitor, twin):
        one.load(closed(40))
    batch = closed(10, seed=1)
    twice = [*batch, {**batch[2], "town": "Graz"}]
    with raises(lw.errors.RepeatedKey, place=10, key=1002, row=42):
        monitor.observe_many(twice)
    known = [*batch[:4], {**batch[4], "id": 7, "town": "Graz"}]
    with raises(lw.errors.RepeatedKey, place=4, key=7, row=7):
        monitor.load(known)
    with raises(lw.errors.RepeatedKey, place=0, key=7, row=7):
        monitor.observe(known[-1])
    assert_no_trace(monitor, twin)


def test_key_of_a_forgotten_row_is_free_again():
    monitor = lw.Monitor(CLOSED)
    monitor.load(closed(40))
    assert monitor.row_of(7) == 7
    monitor.forget([7])
    assert monitor.row_of(7) is None
    assert set(monitor.past.values(7).values()) == {None}
    monitor.observe({**closed(1, seed=1)[0], "id": 7})
    assert monitor.row_of(7) == 40


COLUMNS = {
    "a column is missing": (lambda row: {n: v for n, v in row.items() if n != "town"}, "town"),
    "the key is missing": (lambda row: {n: v for n, v in row.items() if n != "id"}, "id"),
    "the output is missing": (
        lambda row: {n: v for n, v in row.items() if n != "approved"},
        "approved",
    ),
    "a column is unknown": (lambda row: {**row, "shoe size": 43}, "shoe size"),
}


@pytest.mark.parametrize(("change", "named"), COLUMNS.values(), ids=COLUMNS)
def test_wrong_columns_are_named_and_leave_no_trace(change, named):
    monitor, twin = lw.Monitor(CLOSED), lw.Monitor(CLOSED)
    for one in (monitor, twin):
        one.load(closed(30))
    batch = closed(5, seed=1)
    batch[1]["town"] = "Graz"
    changed = [change(row) for row in batch]
    kind = lw.errors.UnknownColumn if named == "shoe size" else lw.errors.MissingColumn
    record = pd.DataFrame(changed).to_records(index=False)
    for table in (
        pd.DataFrame(changed),
        pl.DataFrame(changed),
        pa.Table.from_pylist(changed),
        record,
    ):
        with raises(kind, column=named):
            monitor.observe_many(table)
    with raises(kind, column=named, place=4):
        monitor.observe_many([*batch[:4], changed[4]])
    with raises(kind, column=named, place=0):
        monitor.observe(changed[0])
    assert_no_trace(monitor, twin)


@each(
    ("table", "kind"),
    [
        (5, lw.errors.UnexpectedValue),
        ("age", lw.errors.UnexpectedValue),
        (None, lw.errors.UnexpectedValue),
        ({1, 2}, lw.errors.UnexpectedValue),
        (pl.LazyFrame({"age": [1]}), lw.errors.UnexpectedValue),
        ([[1, 2]], lw.errors.UnexpectedValue),
        ([None], lw.errors.UnexpectedValue),
        (np.ones((3, 4)), lw.errors.WrongShape),
        (np.ones(7), lw.errors.WrongShape),
        (pd.DataFrame([[1, 2]], columns=["age", "age"]), lw.errors.BadDecision),
        (pd.DataFrame([[1, 2]]), lw.errors.MissingColumn),
    ],
    ids=lambda value: getattr(value, "__name__", type(value).__name__),
)
def test_what_is_no_table_is_refused(table, kind):
    monitor = lw.Monitor(CLOSED)
    with raises(kind):
        monitor.observe_many(table)
    assert len(monitor) == 0


@pytest.mark.parametrize("x", [[1, 2], 5, "age", np.ones(3), pd.Series([1, 2])])
def test_single_decision_has_names_of_columns(x):
    with raises(lw.errors.UnexpectedValue):
        lw.Monitor(CLOSED).observe(x)


def test_wrong_number_of_outputs_leaves_no_trace():
    monitor, twin = lw.Monitor(CLOSED), lw.Monitor(CLOSED)
    batch = closed(5, seed=1)
    with raises(lw.errors.WrongShape):
        monitor.observe_many(batch, ["yes"] * 4)
    with raises(lw.errors.UnexpectedValue, place=1):
        monitor.observe_many(batch, ["yes", NAN, "no", "no", "no"])
    assert_no_trace(monitor, twin)


CHANCES = lw.Rule(
    features={"x": Feature("number", tolerance=1)},
    output="probabilities",
    output_column=["no", "yes"],
    delta=0.2,
)
SCORE = lw.Rule(
    features={"x": Feature("number", tolerance=1)}, output="number", output_column="s", delta=1
)


@pytest.mark.parametrize(
    ("rule", "row", "kind"),
    [
        (CHANCES, {"x": 1, "no": "?", "yes": 1.0}, lw.errors.UnexpectedValue),
        (CHANCES, {"x": 1, "no": None, "yes": 1.0}, lw.errors.MissingValue),
        (CHANCES, {"x": 1, "no": 0.5, "yes": 1.0}, lw.errors.UnexpectedValue),
        (CHANCES, {"x": 1, "no": -0.5, "yes": 1.5}, lw.errors.UnexpectedValue),
        (SCORE, {"x": 1, "s": "high"}, lw.errors.UnexpectedValue),
        (SCORE, {"x": 1, "s": pd.NA}, lw.errors.MissingValue),
        (SCORE, {"x": 1, "s": INF}, lw.errors.UnexpectedValue),
    ],
    ids=str,
)
def test_outputs_that_are_none_are_refused(rule, row, kind):
    monitor = lw.Monitor(rule)
    for call in (monitor.observe, monitor.check, lambda one: monitor.load([one])):
        with raises(kind):
            call(row)
    assert len(monitor) == 0


def test_outputs_of_every_type_are_compared():
    rows = [{"x": 1, "s": 1}, {"x": 1, "s": 3}, {"x": 1, "s": decimal.Decimal("3.5")}]
    assert lw.Monitor(SCORE).observe_many(rows).counts.tolist() == [0, 1, 1]
    frame = pl.DataFrame({"x": [1, 1, 1], "no": [0.5, 0.6, 1.0], "yes": [0.5, 0.4, 0.0]})
    monitor = lw.Monitor(CHANCES)
    assert monitor.observe_many(frame).counts.tolist() == [0, 0, 2]
    checked = monitor.check({"x": 1.5, "no": 0.0, "yes": 1.0})
    assert checked.witnesses.rows.tolist() == [0, 1, 2]
    assert monitor.past.values(1) == {"x": 1, "no": 0.6, "yes": 0.4}


def test_columns_of_a_table_come_by_the_names_that_it_has():
    rows = people(5)
    for table_of in (list, pandas_plain, polars, arrow, structured):
        assert list(table_columns(table_of(rows))) == NAMES
    for nameless in (np.ones((2, 2)), [], [[1, 2]]):
        with raises(lw.errors.UnexpectedValue):
            table_columns(nameless)


def test_table_without_narwhals_says_what_to_install(monkeypatch):
    monkeypatch.setattr("likewise.tables.frames.find_spec", lambda name: None)
    with raises(lw.errors.BadDecision):
        lw.Monitor(RULE).observe_many(pd.DataFrame(columns(people(3))))
    assert len(lw.Monitor(RULE).observe_many(people(3))) == 3


@dataclasses.dataclass
class Applicant:
    age: int
    job: str
    approved: str


class AsMapping(Mapping):
    def __init__(self, inner):
        self._inner = inner

    def __getitem__(self, name):
        return self._inner[name]

    def __iter__(self):
        return iter(self._inner)

    def __len__(self):
        return len(self._inner)


class Declared:
    """As pydantic's models are: their fields are declared on the class."""

    model_fields: ClassVar = {"age": None, "job": None, "approved": None}

    def __init__(self, age, job, approved):
        self.age, self.job, self.approved = age, job, approved


FORMS = {
    "dictionary": dict,
    "mapping": AsMapping,
    "named tuple": lambda row: namedtuple("Row", row)(**row),
    "dataclass": lambda row: Applicant(**row),
    "model": lambda row: Declared(**row),
    "pandas row": pd.Series,
    "pandas frame": lambda row: pd.DataFrame([row]),
    "polars frame": lambda row: pl.DataFrame([row]),
}
APPLICANTS = lw.Rule(
    features={"age": Feature("number", tolerance=5), "job": Feature("category")},
    output_column="approved",
)


@each("form", FORMS)
def test_a_row_comes_in_any_form(form):
    monitor = lw.Monitor(APPLICANTS)
    rows = [
        {"age": 40, "job": "cook", "approved": "yes"},
        {"age": 43, "job": "cook", "approved": "no"},
        {"age": 46, "job": "cook", "approved": "yes"},
    ]
    found = [monitor.observe(FORMS[form](row)).witnesses.rows.tolist() for row in rows]
    assert found == [[], [0], [1]]
    assert monitor.past.values(1) == rows[1]
    assert monitor.check(FORMS[form](rows[1])).witnesses.rows.tolist() == [0, 2]


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_a_frame_of_several_rows_is_no_single_decision(frame):
    monitor = lw.Monitor(APPLICANTS)
    several = frame({"age": [1, 2], "job": ["a", "b"], "approved": ["yes", "no"]})
    with raises(lw.errors.WrongShape):
        monitor.observe(several)
    assert monitor.rows == 0 and monitor.observe_many(several).pairs == 0


def test_a_column_in_other_letters_is_suggested():
    with raises(lw.errors.MissingColumn, column="age") as refused:
        lw.Monitor(APPLICANTS).observe_many(
            pd.DataFrame({"Age": [40], "job": ["cook"], "approved": ["yes"]})
        )
    assert "did you mean 'Age'?" in str(refused.value)
    row = {"age": 40, "job": "cook", "approved": "yes", "jobs": "cook"}
    with raises(lw.errors.UnknownColumn, column="jobs") as refused:
        lw.Monitor(APPLICANTS).observe(row)
    assert "did you mean 'job'?" in str(refused.value)


def test_columns_that_the_rule_does_not_list_are_refused_or_ignored():
    row = {"age": 40, "job": "cook", "approved": "yes", "born": "Graz", "note": None}
    with raises(lw.errors.UnknownColumn, column="born", place=0):
        lw.Monitor(APPLICANTS).observe(row)
    rule = dataclasses.replace(APPLICANTS, extra="ignore")
    assert lw.Rule.from_toml(rule.to_toml()) == rule
    assert rule.fingerprint != APPLICANTS.fingerprint
    monitor = lw.Monitor(rule)
    monitor.observe(row)
    assert monitor.observe({**row, "approved": "no"}).witnesses.rows.tolist() == [0]
    assert monitor.observe_many([row, row]).counts.tolist() == [1, 1]
    assert monitor.observe_many(pd.DataFrame([row])).counts.tolist() == [1]
    assert monitor.past.values(0) == {"age": 40, "job": "cook", "approved": "yes"}
    with raises(lw.errors.MissingColumn, column="job", place=0):
        monitor.observe({"age": 40, "approved": "yes", "born": "Graz"})
    with raises(lw.errors.BadRule):
        lw.Rule(epsilon=1, extra="ignore")
    with raises(lw.errors.BadRule, setting="extra"):
        dataclasses.replace(APPLICANTS, extra="drop")


def test_whole_numbers_of_128_bits_are_read_as_any_others():
    rule = lw.Rule(
        output_column="z",
        epsilon=1,
        features={"a": lw.Feature("number", tolerance=1), "b": lw.Feature("category")},
    )
    monitor = lw.Monitor(rule)
    wide = pl.Series([3, 2**70], dtype=pl.Int128)
    monitor.observe_many(pl.DataFrame({"a": wide[:1], "b": wide[1:], "z": wide[1:]}))
    assert monitor.past.values(0) == {"a": 3, "b": 2**70, "z": 2**70}
    assert monitor.past.outputs([0]) == [2**70]
    with raises(lw.errors.UnexpectedValue, text=False, place=1, column="a"):
        monitor.observe_many(pl.DataFrame({"a": wide, "b": [1, 1], "z": [1, 1]}))


def test_column_of_lists_is_no_column_of_numbers():
    rule = lw.Rule(output_column="z", epsilon=1, features={"a": lw.Feature("number", tolerance=1)})
    lists = np.zeros(1, [("a", "f8", (2,)), ("z", "i8")])
    with raises(lw.errors.UnexpectedValue, text=False, column="a"):
        lw.Monitor(rule).observe_many(lists)


def test_message_about_a_column_names_a_few_others():
    rule = lw.Rule(output_column="z", epsilon=1, features={"a": lw.Feature("number", tolerance=1)})
    with pytest.raises(lw.errors.MissingColumn) as error:
        lw.Monitor(rule).observe({f"c{i}": 1 for i in range(100_000)})
    assert len(str(error.value)) < 2000
