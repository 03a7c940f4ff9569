"""From distances to known rows an erased person could be computed; so they are destroyed too."""

import math
import sqlite3
import struct

import numpy as np
import pytest

import likewise as lw
from likewise.ledger.entries import StoredWitnesses

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
        monitor.ledger.review(
            1, None, "error", reason="the first one earned 52,345", reviewer="desk"
        )
        monitor.ledger.review(2, 0, "error", reason="she earned 52,345", reviewer="desk")
        monitor.ledger.truth("other 0", "of the later one")
        monitor.erase(key="the person")
        assert monitor.ledger.verify().ok
    files = b"".join(path.read_bytes() for path in folder.iterdir())
    assert b"earned 52,345" not in files
    with lw.Ledger(folder) as ledger:
        assert [one.reason for one in ledger.reviews()] == [None, None]
        assert [one.value for one in ledger.truths()] == ["of the later one"]
    lw.migrate(folder, folder.with_name("new"))
    with lw.Ledger(folder.with_name("new")) as ledger:
        assert ledger.verify().ok
        assert [one.reason for one in ledger.reviews()] == [None, None]


BY_INCOME = lw.Rule(
    features={"income": lw.Feature("number", tolerance=1_000)}, output_column="approved"
)
ALIKE = [51_903.0 + 131 * i for i in range(8)]
JUDGED = [51_870.0 + 97 * i for i in range(12)]
INCOMES = (52_345.0, 52_410.0)
"""Of two persons, both within reach of everybody else."""


def by_income(folder, income):
    """A ledger whose first decision is the person's; the later ones are known."""
    with lw.open(folder, BY_INCOME, witnesses=20) as monitor:
        monitor.observe({"income": income, "approved": "yes"}, time=1e9)
        known = [(one, "yes") for one in ALIKE] + [(one, "no") for one in JUDGED]
        for i, (one, output) in enumerate(known):
            monitor.observe({"income": one, "approved": output}, time=1e9 + 1 + i)
    return folder


def fits(folder, income):
    """Whether the order in which witnesses are named is the one that this income leads to."""
    with lw.Ledger(folder) as ledger:
        known = [income, *ALIKE, *JUDGED]
        naming = [entry for entry in ledger.violations() if 0 in [one.row for one in entry.nearest]]
        assert len(naming) == len(JUDGED)
        told = {entry.row: [one.row for one in entry.nearest] for entry in naming}
    return all(
        names == sorted(names, key=lambda one: abs(known[one] - known[row]))
        for row, names in told.items()
    )


@pytest.mark.long
def test_order_of_witnesses_bounds_an_income_until_the_person_is_erased(tmp_path):
    folders = [by_income(tmp_path / str(income), income) for income in INCOMES]
    trials = [(folder, income) for folder in folders for income in INCOMES]
    assert [fits(*trial) for trial in trials] == [True, False, False, True]
    bounds = [income for income in range(51_400, 53_400, 10) if fits(folders[0], income)]
    assert 0 < len(bounds) <= 6 and abs(bounds[0] - INCOMES[0]) < 60
    for folder in folders:
        with lw.open(folder) as monitor:
            assert monitor.erase(rows=[0]).complete
        with lw.Ledger(folder) as ledger:
            assert ledger.verify().ok
        assert lw.replay(folder).ok
    assert not any(fits(*trial) for trial in trials), "the order follows from no income"
    first, second = map(what_is_left, folders)
    assert first == second, "what is left depends on the income"


def what_is_left(folder):
    """Everything of the database's verdicts that is not random."""
    database = sqlite3.connect(folder / "ledger.sqlite")
    cells = database.execute(
        "SELECT row, time, model, count, distance, witnesses, distances, salt, review FROM verdict"
        " ORDER BY row"
    ).fetchall()
    database.close()
    assert len(cells) == len(JUDGED)
    with lw.Ledger(folder) as ledger:
        (columns,) = ledger.columns()
        kept = columns.decisions
        return cells, kept.counts.tolist(), kept.firsts.tolist(), kept.outputs[1:].tolist()


def test_ledger_that_names_witnesses_by_distance_does_not_verify(tmp_path, monkeypatch):
    monkeypatch.setattr(StoredWitnesses, "by_row", StoredWitnesses.nearest_first)
    folder = by_income(tmp_path / "ledger", INCOMES[0])
    with lw.Ledger(folder) as ledger:
        checked = ledger.verify()
        assert not checked.ok and "are not named in order of rows" in str(checked.problem)
