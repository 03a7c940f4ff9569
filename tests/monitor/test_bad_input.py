"""Bad input is refused with a message that helps, and leaves no trace.

Every bad decision is offered as the very first one and to a monitor with a past, to `observe`,
`check`, and in the middle of a batch. Afterwards the monitor must answer a stream exactly as a
twin that never met it.
"""

import re
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

import likewise as lw
from tests.support.looping import each
from tests.support.refusals import raises

WIDTH = 5
NAN, INF = float("nan"), float("inf")


def good(rule: lw.Rule, n: int, width: int, seed: int = 0) -> tuple[np.ndarray, list[Any]]:
    """A stream any rule here accepts: lattice points, so that ties and witnesses abound."""
    rng = np.random.default_rng(seed)
    X = rng.integers(1, 4, (n, width)) * (1 if "int" in rule.storage else 0.1)
    labels = rng.integers(0, 3, n)
    if rule.output == "number":
        return X, (labels * 0.7).tolist()
    if rule.output == "probabilities":
        return X, np.eye(3)[labels].tolist()
    return X, [f"label {label}" for label in labels]


def assert_twins(monitor: lw.Monitor, twin: lw.Monitor, width: int) -> None:
    """Both say the same of a following stream: one by one, then as a batch."""
    assert len(monitor) == len(twin)
    X, Z = good(twin.rule, 60, width, seed=1)
    found = 0
    for x, z in zip(X[:40], Z[:40], strict=True):
        mine, theirs = monitor.observe(x, z), twin.observe(x, z)
        assert mine.row == theirs.row
        assert_same_witnesses(mine.witnesses, theirs.witnesses)
        found += len(theirs.witnesses)
    mine, theirs = monitor.observe_many(X[40:], Z[40:]), twin.observe_many(X[40:], Z[40:])
    assert mine.rows.tolist() == theirs.rows.tolist()
    assert mine.offsets.tolist() == theirs.offsets.tolist()
    assert_same_witnesses(mine.witnesses, theirs.witnesses)
    assert found + theirs.pairs > 0, "the stream has no witnesses, so it cannot tell twins apart"


def assert_same_witnesses(mine: lw.Witnesses, theirs: lw.Witnesses) -> None:
    assert mine.rows.tolist() == theirs.rows.tolist()
    assert mine.input_distances.tobytes() == theirs.input_distances.tobytes()
    assert mine.output_distances.tobytes() == theirs.output_distances.tobytes()


def assert_helps(error: pytest.ExceptionInfo, says: tuple[str, ...], stored: bool = True) -> None:
    message = str(error.value)
    for pattern in says:
        assert re.search(pattern, message, re.IGNORECASE), f"no {pattern!r} in: {message}"
    if stored and isinstance(error.value, lw.errors.BadDecision):
        assert "nothing was stored" in message.lower()
    assert isinstance(error.value, (lw.LikewiseError, ValueError))


@dataclass(frozen=True)
class Bad:
    """A decision that no monitor under the rule accepts, and what its refusal must mention."""

    x: Any = None  # None: a good input
    z: Any = "good"  # "good": a good output
    says: tuple[str, ...] = ()
    rule: dict[str, Any] = field(default_factory=dict)
    first: bool = True  # refused even as the very first decision
    placed: bool = True  # in a batch, its position is named
    error: tuple[type[Exception], ...] = (lw.errors.BadDecision,)

    def make_rule(self) -> lw.Rule:
        return lw.Rule(**{"metric": "linf", "epsilon": 0.1, **self.rule})

    def decision(self, rule: lw.Rule) -> tuple[Any, Any]:
        (x,), (z,) = good(rule, 1, WIDTH, seed=2)
        is_good = isinstance(self.z, str) and self.z == "good"
        return x if self.x is None else self.x, z if is_good else self.z


def one(value: Any, dtype: Any = float) -> np.ndarray:
    return np.array([1, 1, value, 2, 1], dtype=dtype)


def shaped(x: Any, *says: str, **more: Any) -> Bad:
    """An input that is no row of numbers at all."""
    return Bad(x=x, says=says, placed=False, **more)


NUMBER = {"output": "number", "delta": 0.5}
CHANCES = {"output": "probabilities", "delta": 0.5}
MISFIT: dict[str, Any] = {  # whose fault it is, the rule's or the input's, is open
    "rule": {"weights": [1.0] * WIDTH},
    "error": (lw.errors.BadDecision, lw.errors.BadRule),
}
BYTES = {"storage": "uint8", "epsilon": 1}

BAD = {
    "NaN": Bad(one(NAN), says=("nan",)),
    "infinity": Bad(one(INF), says=("inf",)),
    "minus infinity": Bad(one(-INF), says=("-inf",)),
    "float32 NaN": Bad(one(NAN, np.float32), says=("nan",)),
    "NaN in a list": Bad([1.0, NAN, 0.1, 0.2, 0.3], says=("nan",)),
    "too wide": shaped(np.ones(7), r"\b7\b", r"\b5\b", first=False),
    "too narrow": shaped(np.ones(4), r"\b4\b", r"\b5\b", first=False),
    "text": shaped(["spam"] * WIDTH, "spam|str|text|<U|number"),
    "text that looks like numbers": shaped(["1.5"] * WIDTH, "1.5|str|text|<U|number"),
    "one string": shaped("12345", "12345|str|text|<U|number"),
    "bytes": shaped(b"12345", "12345|bytes|text|number"),
    "object array of numbers": shaped(one(2.5, object), "object|number"),
    "None among numbers": shaped([1.0, None, 2.0, 1.0, 1.0], "none|object|number"),
    "complex": shaped(one(1 + 2j, complex), "complex"),
    "dates": shaped(np.zeros(WIDTH, dtype="datetime64[D]"), "date|number"),
    "nothing at all": shaped(np.empty(0), r"empty|no |\b0\b|at least"),
    "an empty list": shaped([], r"empty|no |\b0\b|at least"),
    "a matrix": shaped(np.ones((2, WIDTH)), r"\b2\b", r"\b5\b", "shape", first=False),
    "a matrix of one row": shaped(np.ones((1, WIDTH)), r"\b1\b", r"\b5\b", "shape", first=False),
    "a single number": shaped(3.0, r"\b0\b|single|scalar|dimension|shape"),
    "a 0-d array": shaped(np.array(3.0), r"\b0\b|single|scalar|dimension|shape"),
    "a ragged list": shaped([[1.0, 2.0], [3.0], [], [1.0], [2.0]], "."),
    "a dictionary": shaped({"age": 3.0}, "dict|age|object|number"),
    "cosine of the zero vector": Bad(
        np.zeros(WIDTH), says=("zero|norm|length|direction",), rule={"metric": "cosine"}
    ),
    "cosine of a vector too short": Bad(
        np.full(WIDTH, 1e-80), says=("norm|length",), rule={"metric": "cosine"}
    ),
    "cosine of a vector too long": Bad(
        np.full(WIDTH, 1e80), says=("norm|length",), rule={"metric": "cosine"}
    ),
    "cosine of a vector whose weights hide it": Bad(
        [0.0, 0.0, 3.0, 0.0, 0.0],
        says=("zero|norm|length|direction",),
        rule={"metric": "cosine", "weights": [1.0, 1.0, 0.0, 1.0, 1.0]},
    ),
    "256 as uint8": Bad(one(256), says=("256", "uint8"), rule=BYTES),
    "-1 as uint8": Bad(one(-1), says=("-1", "uint8"), rule=BYTES),
    "-1 as uint8 from int64": Bad(one(-1, np.int64), says=("-1", "uint8"), rule=BYTES),
    "1.5 as uint8": Bad(one(1.5), says=(r"1\.5", "uint8"), rule=BYTES),
    "NaN as uint8": Bad(one(NAN), says=("nan",), rule=BYTES),
    "infinity as uint8": Bad(one(INF), says=("inf",), rule=BYTES),
    "1e300 as uint8": Bad(one(1e300), says=("uint8",), rule=BYTES),
    "128 as int8": Bad(one(128), says=("128", "int8"), rule={**BYTES, "storage": "int8"}),
    "2**31 as int32": Bad(one(2**31), says=("int32",), rule={**BYTES, "storage": "int32"}),
    "beyond 2**53 as int64": Bad(
        one(2**53 + 2, np.int64), says=("9007199254740994",), rule={**BYTES, "storage": "int64"}
    ),
    "beyond 2**53 as uint64": Bad(
        one(2**64 - 1, np.uint64), says=(".",), rule={**BYTES, "storage": "uint64"}
    ),
    "1e39 as float32": Bad(
        one(1e39), says=(r"1e\+?39|overflow", "float32"), rule={"storage": "float32"}
    ),
    "-1e300 as float32": Bad(
        one(-1e300), says=(r"-1e\+?300|overflow", "float32"), rule={"storage": "float32"}
    ),
    "fewer columns than weights": shaped(
        np.ones(3), r"\b3\b", r"\b5\b", "weight|column|feature|width", **MISFIT
    ),
    "more columns than weights": shaped(
        np.ones(6), r"\b6\b", r"\b5\b", "weight|column|feature|width", **MISFIT
    ),
    "a list as label": Bad(z=["a"], says=("hash", r"list|\['a'\]")),
    "a dictionary as label": Bad(z={"a": 1}, says=("hash",)),
    "an array as label": Bad(z=np.array([1, 2]), says=("hash",)),
    "NaN as label": Bad(z=NAN, says=("nan",)),
    "NumPy's NaN as label": Bad(z=np.float32("nan"), says=("nan",)),
    "NaN as number": Bad(z=NAN, says=("nan",), rule=NUMBER),
    "infinity as number": Bad(z=INF, says=("inf",), rule=NUMBER),
    "minus infinity as number": Bad(z=-INF, says=("-inf",), rule=NUMBER),
    "text as number": Bad(z="spam", says=("spam", "number"), rule=NUMBER, placed=False),
    "digits as number": Bad(z="12", says=("12", "number"), rule=NUMBER, placed=False),
    "None as number": Bad(z=None, says=("none|object|nan", "number"), rule=NUMBER, placed=False),
    "complex as number": Bad(z=1j, says=("1j|complex", "number"), rule=NUMBER, placed=False),
    "a list as number": Bad(z=[1.0, 2.0], says=("number",), rule=NUMBER, placed=False),
    "an integer too large for a float": Bad(
        z=10**400, says=("number|large|finite",), rule=NUMBER, placed=False
    ),
    "chances below one": Bad(z=[0.5, 0.3, 0.1], says=(r"0\.9|0\.89", r"\b1\b"), rule=CHANCES),
    "chances above one": Bad(z=[0.5, 0.5, 0.1], says=(r"1\.1", r"\b1\b"), rule=CHANCES),
    "chances just below one": Bad(z=[0.5, 0.3, 0.198], says=(r"0\.99", r"\b1\b"), rule=CHANCES),
    "a negative chance": Bad(z=[0.6, 0.6, -0.2], says=(r"-0\.2",), rule=CHANCES),
    "a slightly negative chance": Bad(z=[0.5, 0.5 + 1e-8, -1e-8], says=("-1e-0?8",), rule=CHANCES),
    "NaN among chances": Bad(z=[0.5, NAN, 0.5], says=("nan",), rule=CHANCES),
    "infinity among chances": Bad(z=[INF, 0.5, 0.5], says=("inf",), rule=CHANCES),
    "too many chances": Bad(
        z=[0.25] * 4, says=(r"\b4\b", r"\b3\b"), rule=CHANCES, first=False, placed=False
    ),
    "too few chances": Bad(
        z=[0.5, 0.5], says=(r"\b2\b", r"\b3\b"), rule=CHANCES, first=False, placed=False
    ),
    "no chances": Bad(z=[], says=("probabilit",), rule=CHANCES, placed=False),
    "a number as chances": Bad(z=0.5, says=("probabilit",), rule=CHANCES, placed=False),
    "a matrix as chances": Bad(z=[[0.5, 0.5]], says=("probabilit",), rule=CHANCES, placed=False),
    "text as chances": Bad(z=["a", "b", "c"], says=("probabilit",), rule=CHANCES, placed=False),
    "digits as chances": Bad(z=["0", "1", "0"], says=("probabilit",), rule=CHANCES, placed=False),
    "None as chances": Bad(z=None, says=("probabilit",), rule=CHANCES, placed=False),
}

every_bad = each("bad", BAD.values(), ids=BAD)
first_bad = {name: bad for name, bad in BAD.items() if bad.first}
placed_bad = {name: bad for name, bad in BAD.items() if bad.placed}


def with_past(rule: lw.Rule) -> tuple[lw.Monitor, lw.Monitor]:
    """Two monitors with the same past, some of it forgotten."""
    pair = lw.Monitor(rule), lw.Monitor(rule)
    X, Z = good(rule, 40, WIDTH)
    for monitor in pair:
        monitor.load(X[:20], Z[:20])
        monitor.observe_many(X[20:], Z[20:])
        monitor.forget([3, 30])
    return pair


@every_bad
def test_bad_decision_is_refused_and_leaves_no_trace_in_a_history(bad):
    rule = bad.make_rule()
    monitor, twin = with_past(rule)
    x, z = bad.decision(rule)
    for _ in range(2):
        with pytest.raises(bad.error) as observed:
            monitor.observe(x, z)
        assert_helps(observed, bad.says)
        with pytest.raises(bad.error) as checked:
            monitor.check(x, z)
        assert_helps(checked, bad.says, stored=False)
    assert_twins(monitor, twin, WIDTH)


@each("bad", first_bad.values(), ids=first_bad)
def test_bad_first_decision_is_refused_and_settles_nothing(bad):
    rule = bad.make_rule()
    width = WIDTH if rule.weights else WIDTH + 1  # neither width nor storage may stick
    x, z = bad.decision(rule)
    for calls in (("observe",), ("check",), ("check", "observe")):
        monitor, twin = lw.Monitor(rule), lw.Monitor(rule)
        for call in calls:
            with pytest.raises(bad.error) as error:
                getattr(monitor, call)(x, z)
            assert_helps(error, bad.says, stored=call == "observe")
        assert_twins(monitor, twin, width)


@pytest.mark.parametrize("past", [True, False], ids=["with a past", "empty"])
@pytest.mark.parametrize("call", ["observe_many", "load"])
@every_bad
def test_one_bad_decision_refuses_the_whole_batch(bad, call, past):
    rule, place = bad.make_rule(), 17
    monitor, twin = with_past(rule) if past else (lw.Monitor(rule), lw.Monitor(rule))
    X, Z = good(rule, 30, WIDTH, seed=3)
    rows: list[Any] = list(X)
    rows[place], Z[place] = bad.decision(rule)
    given: Any = np.array(rows) if bad.placed else rows
    says = (rf"\b{place}\b", *bad.says) if bad.placed else ()
    with pytest.raises(bad.error) as error:
        getattr(monitor, call)(given, Z)
    assert_helps(error, says)
    assert_twins(monitor, twin, WIDTH if past or rule.weights else WIDTH + 1)


@each("threads", [1, 2, 3])
@each("bad", placed_bad.values(), ids=placed_bad)
def test_the_first_of_two_bad_decisions_is_named(bad, threads):
    rule = bad.make_rule()
    monitor, twin = with_past(rule)
    X, Z = good(rule, 900, WIDTH, seed=3)
    rows = list(X)
    for place in (417, 823):
        rows[place], Z[place] = bad.decision(rule)
    with raises(lw.errors.UnexpectedValue):
        monitor.observe_many(np.array(rows), Z, threads=threads)
    assert_twins(monitor, twin, WIDTH)


@pytest.mark.parametrize("call", ["observe_many", "load"])
def test_a_bad_input_is_named_whatever_the_labels_are(call):
    monitor, twin = with_past(lw.Rule("linf", 0.1))
    X = np.ones((30, WIDTH))
    X[17, 2] = NAN
    labels = [(1, "x"), "a", ("y",), None, 2.5, frozenset({3}), b"a", (), "", True] * 3
    with pytest.raises(lw.errors.BadDecision) as error:
        getattr(monitor, call)(X, labels)
    assert_helps(error, ("nan", r"\b17\b"))
    assert_twins(monitor, twin, WIDTH)


@each("call", ["observe_many", "load"])
@each("past", [True, False], ids=["with a past", "empty"])
@each("rule", [{}, NUMBER, CHANCES], ids=["label", "number", "probabilities"])
def test_as_many_outputs_as_inputs_are_expected(rule, past, call):
    rule = Bad(rule=rule).make_rule()
    X, Z = good(rule, 13, WIDTH)
    for inputs, outputs in ((X, Z[:11]), (X[:11], Z)):
        monitor, twin = with_past(rule) if past else (lw.Monitor(rule), lw.Monitor(rule))
        with pytest.raises(lw.errors.BadDecision) as error:
            getattr(monitor, call)(inputs, outputs)
        assert_helps(error, (r"\b13\b", r"\b11\b"))
        assert_twins(monitor, twin, WIDTH)


BAD_BATCHES = {
    "one row, not a table": np.ones(2),
    "a number": 3.0,
    "text": [["a"] * WIDTH, ["b"] * WIDTH],
    "ragged": [[1.0] * WIDTH, [1.0] * (WIDTH - 1)],
    "no columns": np.empty((2, 0)),
    "complex": np.ones((2, WIDTH), dtype=complex),
    "objects": np.ones((2, WIDTH), dtype=object),
}


@each("call", ["observe_many", "load"])
@each("past", [True, False], ids=["with a past", "empty"])
@each("X", BAD_BATCHES.values(), ids=BAD_BATCHES)
def test_a_batch_that_is_no_table_of_numbers_is_refused(X, past, call):
    rule = lw.Rule("linf", 0.1)
    monitor, twin = with_past(rule) if past else (lw.Monitor(rule), lw.Monitor(rule))
    with pytest.raises(lw.errors.BadDecision) as error:
        getattr(monitor, call)(X, ["a", "b"])
    assert_helps(error, ())
    assert_twins(monitor, twin, WIDTH if past else WIDTH + 1)


@pytest.mark.parametrize("shape", [(3, 8), (3, 1, WIDTH), (3, WIDTH, 8)], ids=str)
@pytest.mark.parametrize("call", ["observe_many", "load"])
def test_a_batch_of_another_shape_is_refused(call, shape):
    monitor, twin = with_past(lw.Rule("linf", 0.1))
    with pytest.raises(lw.errors.BadDecision) as error:
        getattr(monitor, call)(np.ones(shape), ["a"] * 3)
    assert_helps(error, (rf"\b{shape[1]}\b", r"\b5\b"))
    assert_twins(monitor, twin, WIDTH)


def test_a_refused_first_input_does_not_settle_the_storage():
    rule = lw.Rule("linf", 0.1, slack=0)
    monitor, twin = lw.Monitor(rule), lw.Monitor(rule)
    for bad in (one(NAN, np.float32), one(INF, np.float16)):
        with pytest.raises(lw.errors.BadDecision):
            monitor.observe(bad, "a")
    for output in ([], NAN):
        with pytest.raises(lw.errors.BadDecision):
            monitor.observe(np.ones(3, dtype=np.uint8), output)
        with pytest.raises(lw.errors.BadDecision):
            monitor.observe_many(np.ones((2, 3), dtype=np.float32), ["a", output])
    assert_twins(monitor, twin, WIDTH)


def test_a_refused_first_output_does_not_settle_the_number_of_classes():
    rule = lw.Rule("linf", 0.1, **CHANCES)
    monitor, twin = lw.Monitor(rule), lw.Monitor(rule)
    with pytest.raises(lw.errors.BadDecision):
        monitor.observe(np.ones(WIDTH), [0.5, 0.6])
    with pytest.raises(lw.errors.BadDecision):
        monitor.observe(one(NAN), [0.5, 0.5])
    with pytest.raises(lw.errors.BadDecision):
        monitor.observe_many(np.ones((2, WIDTH)), [[0.5, 0.5], [0.5, 0.6]])
    monitor.check(np.ones(WIDTH), [0.5, 0.5])
    assert_twins(monitor, twin, WIDTH)


def test_rounding_in_probabilities_is_forgiven():
    monitor = lw.Monitor(lw.Rule("linf", 0.1, **CHANCES))
    for z in ([1.0, 0.0, 0.0], [0.0, 1.0009, 0.0], [0.0, 0.9991, 0.0], [1.0 + 1e-10, -1e-10, 0.0]):
        monitor.observe(np.ones(WIDTH), z)
    thirds = np.array([1 / 3, 1 / 3, 1 / 3], dtype=np.float32)
    assert monitor.observe(np.ones(WIDTH), thirds).witnesses.rows.tolist() == [0, 1, 2, 3]


BAD_ROWS = {
    "the next row": 40,
    "a row far away": 10**12,
    "a negative row": -1,
    "an unknown row among known ones": [0, 1, 77, 2],
    "a negative row among known ones": [0, 1, -7],
    "an unknown row in an array": np.array([5, 6, 99]),
    "a number that is no integer": 1.5,
    "floats": [0.0, 1.0],
    "an array of floats": np.array([0.0, 1.0]),
    "NaN": NAN,
    "text": "3",
    "text in a list": ["3"],
    "a mask": np.ones(40, dtype=bool),
    "None": None,
}


@each("verb", ["forget", "inputs"])
@each("rows", BAD_ROWS.values(), ids=BAD_ROWS)
def test_asking_for_a_row_that_is_not_there_changes_nothing(rows, verb):
    monitor, twin = with_past(lw.Rule("linf", 0.1))
    with raises(lw.errors.BadRow) as error:
        getattr(monitor if verb == "forget" else monitor.past, verb)(rows)
    assert isinstance(error.value, IndexError)
    assert_twins(monitor, twin, WIDTH)


@pytest.mark.parametrize("rows", [3, [0, 3], np.array([30, 31]), range(40)], ids=str)
def test_the_input_of_a_forgotten_row_is_not_to_be_had(rows):
    monitor, twin = with_past(lw.Rule("linf", 0.1))
    with raises(lw.errors.BadRow):
        monitor.past.inputs(rows)
    assert_twins(monitor, twin, WIDTH)


@each("verb", ["forget", "inputs"])
@each("rows", [0, [0], -1, range(3), np.array([0])], ids=str)
def test_an_empty_history_has_no_row(rows, verb):
    monitor, twin = lw.Monitor(lw.Rule("linf", 0.1)), lw.Monitor(lw.Rule("linf", 0.1))
    with pytest.raises(lw.errors.BadRow):
        getattr(monitor if verb == "forget" else monitor.past, verb)(rows)
    assert_twins(monitor, twin, WIDTH)


def test_a_closed_monitor_remembers_nothing():
    monitor, _ = with_past(lw.Rule("linf", 0.1))
    monitor.close()
    assert len(monitor) == 0
    assert monitor.explain().remembered == 0


def test_a_closed_monitor_that_saw_nothing_is_closed_too():
    with lw.Monitor(lw.Rule("linf", 0.1)) as monitor:
        pass
    with raises(lw.errors.BadDecision):
        monitor.observe(np.ones(WIDTH), "a")


@each(
    "rows",
    [
        7,
        np.int64(7),
        np.uint8(7),
        [7],
        (7, 7),
        range(7, 8),
        np.array([7]),
        np.array([7], np.int32),
    ],
    ids=repr,
)
def test_rows_to_forget_come_as_a_number_or_as_any_collection(rows):
    monitor, _ = with_past(lw.Rule("linf", 0.1))
    assert monitor.forget(rows) == 1
    assert monitor.forget(rows) == 0
    assert len(monitor) == 37


def test_an_unknown_index_is_refused():
    with raises(lw.errors.BadRule, setting="index"):
        lw.Monitor(lw.Rule("linf", 0.1), index="nonsense")


def test_errors_are_caught_as_the_builtin_errors_they_resemble():
    for error, builtin in (
        (lw.errors.BadRule, ValueError),
        (lw.errors.BadDecision, ValueError),
        (lw.errors.BadRow, IndexError),
        (lw.errors.BadFile, ValueError),
    ):
        assert issubclass(error, lw.LikewiseError)
        assert issubclass(error, builtin)
    assert issubclass(lw.LikewiseError, Exception)


@pytest.mark.parametrize(
    ("x", "z"),
    [
        ([np.float64("nan")], "a"),
        ([1.0], np.float64("nan")),
        ([1.0], [np.float64(1)]),
        (["a word"], "a"),
        (np.array(["x"]), "a"),
        (np.array(["x"] * 9), "a"),
    ],
)
def test_messages_tell_values_as_python_writes_them(x, z):
    with raises(lw.errors.UnexpectedValue):
        lw.Monitor(lw.Rule("linf", 0.1)).observe(x, z)
