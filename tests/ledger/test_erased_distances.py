"""From distances to known rows an erased person could be computed; so they are destroyed too."""

import math
import sqlite3
import struct

import numpy as np
import pytest

import likewise as lw

RULE = lw.Rule(
    "l2",
    2.0,
    features={
        "income": lw.Feature("number", tolerance=1_000),
        "age": lw.Feature("number", tolerance=5),
        "sex": lw.Feature("protected"),
    },
    output_column="approved",
)
PERSON = {"income": 52_345.0, "age": 41.0, "sex": "f", "approved": "yes"}
OTHERS = [(52_000.0, 40.0), (53_000.0, 43.0), (51_800.0, 44.0), (52_900.0, 38.0)]


@pytest.fixture
def folder(tmp_path):
    with lw.open(tmp_path / "ledger", RULE) as monitor:
        monitor.observe(PERSON, key="the person")
        for i, (income, age) in enumerate(OTHERS):
            other = {"income": income, "age": age, "sex": "m", "approved": "no"}
            verdict = monitor.observe(other, key=f"other {i}")
            assert 0 in verdict.witnesses.rows
    return tmp_path / "ledger"


def distances_to(folder, row):
    """Of each verdict that names a row: who it is, and how far away the row was."""
    with lw.Ledger(folder) as ledger:
        return [
            (ledger.values(entry.row), witness.input_distance)
            for entry in ledger.violations()
            for witness in entry.nearest
            if witness.row == row
        ]


def recovered(known):
    """Income and age of whoever is that far from those known: linear equations of circles."""
    places = np.array([(person["income"] / 1_000, person["age"] / 5) for person, _ in known])
    squares = np.array([distance**2 for _, distance in known])
    left = 2 * (places[1:] - places[0])
    norms = (places**2).sum(axis=1)
    right = squares[0] - squares[1:] + norms[1:] - norms[0]
    found, *_ = np.linalg.lstsq(left, right, rcond=None)
    return found * (1_000, 5)


def test_four_distances_tell_income_and_age_until_the_person_is_erased(folder):
    known = distances_to(folder, 0)
    assert len(known) == 4
    np.testing.assert_allclose(recovered(known), (PERSON["income"], PERSON["age"]), rtol=1e-6)
    before = [distance for _, distance in known]
    with lw.open(folder) as monitor:
        assert monitor.erase(key="the person").complete
    known = distances_to(folder, 0)
    assert len(known) == 4, "the verdicts still name the row"
    assert all(math.isnan(distance) for _, distance in known)
    files = b"".join(path.read_bytes() for path in folder.iterdir())
    for number in (*before, PERSON["income"], PERSON["age"]):
        assert struct.pack("<d", number) not in files
        assert struct.pack(">d", number) not in files  # as SQLite writes a number
    assert b"the person" not in files
    with lw.Ledger(folder) as ledger:
        assert ledger.verify().ok
        assert ledger.entry(1).nearest[0].row == 0
    assert lw.replay(folder).ok


def test_verdicts_of_the_erased_lose_their_distances_too(folder):
    with lw.open(folder) as monitor:
        monitor.erase(key="other 3")
    with lw.Ledger(folder) as ledger:
        entry = ledger.entry(4)
        assert entry.erased and entry.count == 1
        assert [witness.row for witness in entry.nearest] == [0]
        assert math.isnan(entry.nearest[0].input_distance)
        assert ledger.entry(1).nearest[0].input_distance > 0  # names nobody who was erased
        assert not list(ledger.violations(group=("sex", "f")))
        assert [one.row for one in ledger.violations(group=("sex", "m"))] == [1, 2, 3]
    with sqlite3.connect(folder / "ledger.sqlite") as database:
        assert database.execute("SELECT count(*) FROM member WHERE row = 4").fetchone() == (0,)
        assert database.execute("SELECT count(*) FROM member").fetchone() == (3,)
    database.close()


def test_what_was_said_of_all_that_a_decision_contradicts_goes_with_each_of_them(folder):
    with lw.open(folder) as monitor:
        monitor.review(1, None, "error", reason="the first one earned 52,345", reviewer="desk")
        monitor.review(2, 0, "error", reason="she earned 52,345", reviewer="desk")
        monitor.truth("other 0", "of the later one")
        monitor.erase(key="the person")
        assert monitor.verify().ok
    files = b"".join(path.read_bytes() for path in folder.iterdir())
    assert b"earned 52,345" not in files
    with lw.Ledger(folder) as ledger:
        assert [one.reason for one in ledger.reviews()] == [None, None]
        assert [one.value for one in ledger.truths()] == ["of the later one"]
    lw.migrate(folder, folder.with_name("new"))
    with lw.Ledger(folder.with_name("new")) as ledger:
        assert ledger.verify().ok
        assert [one.reason for one in ledger.reviews()] == [None, None]
