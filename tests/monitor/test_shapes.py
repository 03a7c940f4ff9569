"""Inputs of any shape are remembered as such, and given back as they are kept."""

import numpy as np
import pytest

import likewise as lw
from tests.support.looping import each
from tests.support.refusals import raises

RULE = lw.Rule("linf", 3)
SHAPES = [(5,), (1,), (2, 3), (4, 4, 3), (1, 1, 1, 2), (40,), (8, 8, 3)]
KEPT = {
    "uint8": "uint8",
    "int16": "int16",
    "float16": "float32",
    "float32": "float32",
    "float64": "float64",
    "int64": "float64",
}


def some(n: int, shape: tuple[int, ...], dtype: str = "uint8") -> tuple[np.ndarray, list[int]]:
    """Rows of one pattern at several levels: no two coordinates alike, and rows 0 to 7 apart."""
    rng = np.random.default_rng(len(shape))
    pattern = np.arange(np.prod(shape)).reshape(shape) % 100
    levels = rng.integers(0, 8, (n, *(1 for _ in shape)))
    return (pattern + levels).astype(dtype), rng.integers(0, 3, n).tolist()


@each("dtype", KEPT)
@each("shape", SHAPES, ids=str)
def test_inputs_come_back_in_their_shape_and_storage_type(shape, dtype):
    X, Z = some(60, shape, dtype)
    monitor = lw.Monitor(RULE)
    monitor.observe(X[0], Z[0])
    monitor.observe_many(X[1:30], Z[1:30])
    monitor.load(X[30:], Z[30:])
    for rows in (range(60), [59, 0, 7, 7], np.array([3]), (12, 11)):
        given = monitor.past.inputs(rows)
        assert given.dtype == KEPT[dtype] and given.shape == (len(rows), *shape)
        assert np.array_equal(given, X[list(rows)])
    assert monitor.past.inputs([]).shape == (0, *shape)


@pytest.mark.parametrize("storage", ["float64", "float32", "int32", "uint64", "int64"])
def test_inputs_are_given_back_as_stored_not_as_sent(storage):
    monitor = lw.Monitor(lw.Rule("linf", 3, storage=storage))
    monitor.observe([[1, 2], [3, 4]], "a")
    given = monitor.past.inputs([0])
    assert given.dtype == storage
    assert given.tolist() == [[[1, 2], [3, 4]]]


def test_inputs_given_back_are_a_copy():
    X, Z = some(20, (40,))
    monitor = lw.Monitor(RULE)
    monitor.load(X, Z)
    monitor.past.inputs(range(20))[:] = 99
    assert np.array_equal(monitor.past.inputs(range(20)), X)


@each("rows", [20, [0, 20], -1, [5, -1], [0.0], 1.5, "3", None], ids=repr)
def test_rows_that_are_not_there_have_no_input(rows):
    X, Z = some(20, (4, 4, 3))
    monitor = lw.Monitor(RULE)
    with pytest.raises(lw.errors.BadRow):
        monitor.past.inputs(0)
    monitor.load(X, Z)
    with pytest.raises(lw.errors.BadRow):
        monitor.past.inputs(rows)


def test_forgotten_rows_have_no_input():
    X, Z = some(20, (4, 4, 3))
    monitor = lw.Monitor(RULE)
    monitor.load(X, Z)
    monitor.forget([4, 9])
    for rows in (4, [0, 9], range(20)):
        with raises(lw.errors.BadRow):
            monitor.past.inputs(rows)
    assert np.array_equal(monitor.past.inputs([3, 5, 10]), X[[3, 5, 10]])


def misfits(shape: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Shapes that are not `shape`: as many coordinates laid out otherwise, and others."""
    size = int(np.prod(shape))
    return [(size,), (1, *shape), (*shape, 1), shape[::-1], (size + 1,), (*shape[:-1], 2)]


@each("call", ["observe", "check", "observe_many", "load"])
@each("shape", [(4, 4, 3), (8, 8, 3), (2, 3)], ids=str)
def test_another_shape_is_refused_and_leaves_no_trace(shape, call):
    X, Z = some(30, shape)
    monitor, twin = lw.Monitor(RULE), lw.Monitor(RULE)
    for one in (monitor, twin):
        one.observe_many(X[:20], Z[:20])
    for other in misfits(shape):
        bad = np.ones(other, dtype=np.uint8)
        with raises(lw.errors.WrongShape):
            if call in ("observe", "check"):
                getattr(monitor, call)(bad, 1)
            else:
                getattr(monitor, call)(np.stack([bad, bad]), [1, 2])
    assert len(monitor) == 20
    mine, theirs = (each.observe_many(X[20:], Z[20:]) for each in (monitor, twin))
    assert theirs.pairs > 0
    assert mine.rows.tolist() == theirs.rows.tolist()
    assert mine.witnesses == theirs.witnesses


@pytest.mark.parametrize("shape", [(0,), (3, 0), (0, 4, 4)], ids=str)
def test_an_input_without_coordinates_is_refused(shape):
    monitor = lw.Monitor(RULE)
    for call in (monitor.observe, monitor.check):
        with pytest.raises(lw.errors.BadDecision):
            call(np.empty(shape), 1)
    for call in (monitor.observe_many, monitor.load):
        with pytest.raises(lw.errors.BadDecision):
            call(np.empty((2, *shape)), [1, 2])
    monitor.observe(np.ones((2, 2)), 1)
    assert monitor.past.inputs(0).shape == (1, 2, 2)


def test_a_check_does_not_settle_the_shape():
    monitor = lw.Monitor(RULE)
    monitor.check(np.ones((4, 4, 3)), 1)
    monitor.observe(np.ones((2, 2)), 1)
    assert monitor.check(np.ones((2, 2)), 2).violation


def test_weights_are_one_for_each_coordinate_of_the_flattened_input():
    monitor = lw.Monitor(lw.Rule("linf", 1.0, weights=[0.0, 1.0, 2.0, 0.0, 1.0, 1.0]))
    monitor.observe(np.zeros((2, 3)), "a")
    assert monitor.check([[9.0, 1.0, 0.5], [9.0, 0.0, 0.0]], "b").violation
    assert not monitor.check([[0.0, 0.0, 0.6], [0.0, 0.0, 0.0]], "b").violation
    with raises(lw.errors.WrongShape):
        lw.Monitor(monitor.rule).observe(np.zeros((2, 4)), "a")


LAYOUTS = {
    "Fortran order": np.asfortranarray,
    "a view of something larger": lambda X: np.repeat(X, 2, axis=-1)[..., ::2],
    "channels moved": lambda X: np.ascontiguousarray(X.transpose(0, 3, 1, 2)).transpose(0, 2, 3, 1),
    "other byte order": lambda X: X.astype(X.dtype.newbyteorder(">")),
    "read only": lambda X: np.frombuffer(X.tobytes(), X.dtype).reshape(X.shape),
    "lists": lambda X: X.tolist(),
}


@each("dtype", ["uint8", "int16", "float32", "float64"])
@each("layout", LAYOUTS.values(), ids=LAYOUTS)
def test_the_layout_of_pictures_in_memory_does_not_matter(layout, dtype):
    X, Z = some(80, (8, 4, 3), dtype)
    plain, other, singly = (lw.Monitor(lw.Rule("l1", 200, storage=dtype)) for _ in range(3))
    expected = plain.observe_many(X, Z)
    assert expected.pairs > 500
    assert other.observe_many(layout(X), Z).witnesses == expected.witnesses
    counts = [len(singly.observe(x, z).witnesses) for x, z in zip(layout(X), Z, strict=True)]
    assert counts == expected.counts.tolist()
    assert np.array_equal(other.past.inputs(range(80)), X)
    assert np.array_equal(singly.past.inputs(range(80)), X)
