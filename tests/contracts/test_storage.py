"""Inputs are compared as stored; the storage type decides the slack."""

import numpy as np
import pytest

import likewise as lw
from tests.support.oracle import Oracle, assert_same_verdicts

BECOMES = {
    "float16": "float32",
    "float32": "float32",
    "float64": "float64",
    "int8": "int8",
    "uint8": "uint8",
    "int16": "int16",
    "uint16": "uint16",
    "int32": "int32",
    "uint32": "uint32",
    "int64": "float64",
    "uint64": "float64",
    "bool": "float64",
}
INTEGERS = [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]


def stored_as(monitor: lw.Monitor) -> str:
    """Tell the storage type of a monitor that remembers one [1.0] from what it says of others."""
    try:
        verdict = monitor.check([1.1], "other")
    except lw.errors.BadDecision:
        for name in INTEGERS:
            if all(admits(monitor, end) for end in bounds(name)) and not any(
                admits(monitor, end) for end in beyond(name)
            ):
                return name
        return "some integer"
    (distance,) = verdict.witnesses.input_distances.tolist()
    names = {1.1 - 1.0: "float64", float(np.float32(1.1)) - 1.0: "float32"}
    return names.get(distance, f"something that puts 1.1 and 1.0 {distance} apart")


def bounds(name: str) -> tuple[int, int]:
    limits = np.iinfo(name)
    return max(limits.min, -(2**53)), min(limits.max, 2**53)


def beyond(name: str) -> tuple[int, int]:
    low, high = bounds(name)
    return low - 2, high + 2


def admits(monitor: lw.Monitor, value: int) -> bool:
    try:
        monitor.check([value], "other")
    except lw.errors.BadDecision:
        return False
    return True


@pytest.mark.parametrize("call", ["observe", "observe_many", "load"])
@pytest.mark.parametrize("given", BECOMES)
def test_auto_storage_follows_the_first_input(given, call):
    monitor = lw.Monitor(lw.Rule("linf", 1e100))
    first = np.ones((1, 1), dtype=given)
    if call == "observe":
        monitor.observe(first[0], "one")
    else:
        getattr(monitor, call)(first, ["one"])
    assert stored_as(monitor) == BECOMES[given]


@pytest.mark.parametrize("first", [[1.0], [1], (1,), [True]])
def test_auto_storage_of_plain_python_numbers_is_float64(first):
    monitor = lw.Monitor(lw.Rule("linf", 1e100))
    monitor.observe(first, "one")
    assert stored_as(monitor) == "float64"


@pytest.mark.parametrize("storage", ["float64", "float32", *INTEGERS])
@pytest.mark.parametrize("given", ["float64", "float32", "uint8", "int64", "list"])
def test_named_storage_holds_whatever_comes(storage, given):
    monitor = lw.Monitor(lw.Rule("linf", 1e100, storage=storage))
    first = [1.0] if given == "list" else np.ones(1, dtype=given)
    monitor.observe(first, "one")
    assert stored_as(monitor) == storage


@pytest.mark.parametrize("storage", ["float64", "float32"])
def test_check_does_not_settle_the_storage_or_the_width(storage):
    monitor = lw.Monitor(lw.Rule("linf", 1e100))
    verdict = monitor.check(np.ones(7, dtype=np.uint8), "one")
    assert (len(verdict.witnesses), verdict.row, len(monitor)) == (0, None, 0)
    monitor.observe(np.ones(1, dtype=storage), "one")
    assert stored_as(monitor) == storage


def test_inputs_are_rounded_to_the_storage_before_they_are_compared():
    monitor = lw.Monitor(lw.Rule("linf", 1e-12, storage="float32", slack=0))
    monitor.observe([0.1, 1e-60], "a")
    same = monitor.check([0.1 + 1e-10, 0.0], "b")
    assert same.witnesses.input_distances.tolist() == [0.0]
    assert not monitor.check([0.1 + 1e-7, 0.0], "b").violation


def test_stored_float32_values_are_compared_in_float64():
    a, b = np.float32(0.1), np.float32(16_777_216.0)
    monitor = lw.Monitor(lw.Rule("l1", 1e9, storage="float32"))
    monitor.observe([a, 0], "a")
    (distance,) = monitor.check([b, 0], "b").witnesses.input_distances
    assert distance == float(b) - float(a)
    assert distance != np.float64(b - a)


@pytest.mark.parametrize("storage", INTEGERS)
@pytest.mark.parametrize("metric", ["linf", "l1", "l2"])
def test_integers_never_wrap_around(metric, storage):
    low, high = bounds(storage)
    rule = lw.Rule(metric, 1e100, storage=storage)
    X = np.array([[low, high, 0], [high, low, 0], [low, low, 0], [high, high, 1]], dtype=storage)
    Z = ["a", "b", "c", "d"]
    expected = Oracle(rule).observe_many(X, Z)
    assert [len(one.rows) for one in expected] == [0, 1, 2, 3]
    assert_same_verdicts(lw.Monitor(rule).observe_many(X, Z), expected)
    near = lw.Monitor(lw.Rule(metric, 2.0, storage=storage))
    assert near.observe_many(X, Z).pairs == 0, "opposite ends of the range are not near"


@pytest.mark.parametrize(
    ("storage", "default"), [("float64", 1e-9), ("float32", 1e-5), ("uint8", 0.0), ("int32", 0.0)]
)
def test_default_slack_depends_on_the_storage(storage, default):
    def near(slack, stretch):
        monitor = lw.Monitor(lw.Rule("linf", 100 / (1 + stretch), slack=slack, storage=storage))
        monitor.observe([0], "a")
        return monitor.check([100], "b").violation

    assert near(None, 0.99 * default)
    assert not near(None, 1.01 * default + 1e-15)
    assert near(0.0, 0.0)
    assert not near(0.0, 1e-15)
    assert near(1e-3, 0.99e-3)
    assert not near(1e-3, 1.01e-3)


def test_eight_of_255_levels_is_within_eight_of_255():
    levels = np.arange(256)
    for storage in ("float32", "float64"):
        monitor = lw.Monitor(lw.Rule("linf", 8 / 255, storage=storage))
        X = (levels / 255)[:, None].astype(storage)
        counts = monitor.observe_many(X, levels.tolist()).counts
        assert counts.tolist() == np.minimum(levels, 8).tolist()


def test_the_boundary_belongs_to_near_and_delta_does_not_belong_to_different():
    monitor = lw.Monitor(lw.Rule("linf", 0.5, output="number", delta=0.25, slack=0))
    monitor.observe([0.0], 0.0)
    assert monitor.check([0.5], 0.5).violation
    assert not monitor.check([np.nextafter(0.5, 1)], 0.5).violation
    assert not monitor.check([0.5], 0.25).violation
    assert monitor.check([0.5], np.nextafter(0.25, 1)).violation


def test_a_rounding_step_across_zero_is_still_found():
    monitor = lw.Monitor(lw.Rule("linf", 1.0, slack=0))
    monitor.observe([-1e-17], "a")
    assert monitor.check([1.0], "b").witnesses.input_distances.tolist() == [1.0]


def test_coordinates_of_weight_zero_take_no_part_however_large():
    monitor = lw.Monitor(lw.Rule("l2", 1.0, weights=[0.0, 4.0]))
    monitor.observe([1e300, 0.0], "a")
    assert monitor.check([-1e300, 0.5], "b").witnesses.input_distances.tolist() == [1.0]
    assert not monitor.check([1e300, 0.51], "b").violation


@pytest.mark.parametrize("metric", ["linf", "l1", "l2"])
@pytest.mark.parametrize("epsilon", [1e-150, 1e150])
def test_epsilon_may_be_as_small_and_as_large_as_promised(metric, epsilon):
    monitor = lw.Monitor(lw.Rule(metric, epsilon))
    for step in range(200):
        monitor.observe([3 * epsilon * step, 0.0], "past")
    for step in range(0, 200, 9):
        inside = monitor.check([3 * epsilon * step + 0.9 * epsilon, 0.0], "new")
        outside = monitor.check([3 * epsilon * step + 1.1 * epsilon, 0.0], "new")
        assert inside.witnesses.rows.tolist() == [step]
        assert outside.witnesses.rows.tolist() == []


def test_inputs_too_far_apart_to_subtract_are_not_near():
    for metric in ("linf", "l1", "l2"):
        monitor = lw.Monitor(lw.Rule(metric, 1e150))
        monitor.observe([1.7e308, 1.7e308], "a")
        monitor.observe([1e160, 0.0], "a")
        assert not monitor.check([-1.7e308, 0.0], "b").violation
        assert monitor.check([1.7e308, 1.7e308], "b").witnesses.rows.tolist() == [0]


def test_cosine_is_blind_to_length_and_never_negative():
    monitor = lw.Monitor(lw.Rule("cosine", 1e-12))
    rng = np.random.default_rng(3)
    directions = rng.normal(size=(200, 7))
    for x in directions:
        monitor.observe(x * 10 ** rng.uniform(-60, 60), "past")
    for row, x in enumerate(directions):
        verdict = monitor.check(x, "new")
        assert verdict.witnesses.rows.tolist() == [row]
        assert 0.0 <= verdict.witnesses.input_distances[0] < 1e-14
