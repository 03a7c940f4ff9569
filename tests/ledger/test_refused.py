"""What a ledger could not write is refused, and cannot be seen by any look at it afterwards."""

import contextlib
import resource
from collections.abc import Iterator

import numpy as np
import pytest

import likewise as lw
from tests.support.refusals import raises

PEOPLE = lw.Rule(
    features={"age": lw.Feature("number", tolerance=5), "id": lw.Feature("key")},
    output_column="approved",
)


@contextlib.contextmanager
def no_larger_files() -> Iterator[None]:
    """No file of this process may grow beyond some bytes: writing a ledger fails."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (64, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def person(row, age=30, approved="yes"):
    return {"age": age + row, "id": f"p{row}", "approved": approved}


LOOKS = {
    "row_of": lambda monitor: monitor.row_of("p2") is None,
    "values": lambda monitor: does_raise(lw.errors.BadRow, lambda: monitor.past.values(2)),
    "inputs": lambda monitor: does_raise(lw.errors.BadRow, lambda: monitor.past.inputs([2])),
    "explain": lambda monitor: monitor.explain().remembered == 2,
    "rows": lambda monitor: monitor.rows == 2,
    "len": lambda monitor: len(monitor) == 2,
    "check": lambda monitor: len(monitor.check(person(2, approved="no")).witnesses) == 2,
}


def does_raise(error, action):
    with contextlib.suppress(error):
        action()
        return False
    return True


@pytest.mark.parametrize("durability", ["commit", "batch"])
@pytest.mark.parametrize("look", LOOKS)
def test_a_refused_decision_is_seen_by_no_look(tmp_path, look, durability):
    with lw.open(tmp_path, PEOPLE, durability=durability) as monitor:
        monitor.observe_many([person(0), person(1)])
        with no_larger_files(), raises(lw.errors.BadFile):
            monitor.observe_many([person(2), person(3)])
        assert LOOKS[look](monitor)
        assert monitor.observe(person(2)).row == 2
        assert monitor.row_of("p2") == 2 and monitor.ledger.verify().ok


def test_vectors_that_were_refused_are_not_there(tmp_path):
    with lw.open(tmp_path, lw.Rule("linf", 0.1)) as monitor:
        monitor.observe([0.1, 0.2], "yes", key="a")
        with no_larger_files(), pytest.raises(lw.errors.BadFile):
            monitor.observe([0.3, 0.2], "no", key="b")
        with pytest.raises(lw.errors.BadRow):
            monitor.past.inputs([1])
        assert monitor.row_of("b") is None
        np.testing.assert_array_equal(monitor.past.inputs([0]), [[0.1, 0.2]])
