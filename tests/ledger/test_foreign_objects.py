"""What the format does not list has no place in the database: objects, and rows of no decision.

A trigger that was planted could keep what is erased. A witness of a decision that is not there
would stand in the way of that decision.
"""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

import likewise as lw
from tests.support.commands import likewise
from tests.support.programs import run_python
from tests.support.refusals import raises
from tests.support.segments import small_segments

pytestmark = pytest.mark.pairwise

RULE = lw.Rule("linf", 0.1)
SCRIPT = Path(__file__).parents[2] / "docs" / "verify_ledger.py"
KEEP = """
CREATE TABLE elsewhere (key);
CREATE TRIGGER keep BEFORE DELETE ON key BEGIN INSERT INTO elsewhere VALUES (old.key); END;
"""
FOREIGN = {
    "a trigger": "CREATE TRIGGER keep BEFORE DELETE ON key BEGIN SELECT 1; END",
    "a trigger and a table": KEEP,
    "a table": "CREATE TABLE elsewhere (key)",
    "a view": "CREATE VIEW people AS SELECT key FROM key",
    "an index": "CREATE INDEX by_count ON verdict (count)",
    "a virtual table": "CREATE VIRTUAL TABLE elsewhere USING fts5(key)",
    "a trigger on the view": (
        "CREATE TRIGGER seen INSTEAD OF INSERT ON violations BEGIN SELECT 1; END"
    ),
    "no index": "DROP INDEX key_key",
    "another view": (
        "DROP VIEW violations; CREATE VIEW violations AS SELECT row, key AS count FROM key"
    ),
}


def make(folder):
    with lw.open(folder, RULE) as monitor:
        for i in range(6):
            monitor.observe([0.1 * (i % 2)], i % 3, key=f"person number {i}")
    return folder


@pytest.fixture
def folder(tmp_path):
    return make(tmp_path / "ledger")


def execute(folder, script):
    with closing(sqlite3.connect(folder / "ledger.sqlite", isolation_level=None)) as database:
        database.executescript(script)


def independent(folder):
    """The answer of code that knows nothing of likewise."""
    return run_python("-I", SCRIPT, folder, code=None)


@pytest.mark.parametrize("script", FOREIGN.values(), ids=FOREIGN)
def test_what_the_format_does_not_list_is_refused(folder, script):
    execute(folder, script)
    for way in (lw.Ledger, lw.open, lambda path: lw.open(path, check=False), lw.replay):
        with raises(lw.errors.BadFile):
            way(folder)
    done = likewise("verify", folder, code=3)
    assert "are not those of its format" in done.stdout + done.stderr
    if not script.startswith("DROP VIEW"):  # the script does not look at what a view says
        assert independent(folder).returncode != 0


@pytest.mark.parametrize("script", FOREIGN.values(), ids=FOREIGN)
def test_what_comes_in_while_it_is_open_fails_verify(folder, script):
    with lw.open(folder) as monitor, lw.Ledger(folder) as ledger:
        assert monitor.ledger.verify().ok and ledger.verify().ok
        execute(folder, script)
        for one in (monitor.ledger, ledger):
            found = one.verify()
            assert not found.ok and "are not those of its format" in found.problem


def test_nothing_is_erased_while_a_trigger_could_keep_it(folder):
    with lw.open(folder) as monitor:
        execute(folder, KEEP)
        with raises(lw.errors.BadFile):
            monitor.erase(key="person number 2")
        with closing(sqlite3.connect(folder / "ledger.sqlite")) as database:
            assert database.execute("SELECT * FROM elsewhere").fetchall() == []
        execute(folder, "DROP TRIGGER keep; DROP TABLE elsewhere")
        assert monitor.row_of("person number 2") == 2
        assert monitor.erase(key="person number 2").rows == (2,)
        assert monitor.ledger.verify().ok
    assert not [one for one in folder.iterdir() if b"person number 2" in one.read_bytes()]


def test_what_sqlite_keeps_for_itself_is_allowed_and_holds_nothing_of_the_erased(folder):
    execute(
        folder,
        "CREATE TABLE counted (a INTEGER PRIMARY KEY AUTOINCREMENT);"
        "INSERT INTO counted VALUES (NULL); DROP TABLE counted; ANALYZE;",
    )
    with lw.Ledger(folder) as ledger:
        assert ledger.verify().ok
    assert independent(folder).returncode == 0
    with lw.open(folder) as monitor:
        execute(folder, "INSERT INTO sqlite_stat1 VALUES ('key', 'x', 'person number 3')")
        monitor.erase(key="person number 3")
        assert monitor.ledger.verify().ok
        assert not [one for one in folder.iterdir() if b"person number 3" in one.read_bytes()]


# Rows that belong to no decision


_PLANTED = "INSERT INTO verdict SELECT {}, time, model, count, distance, witnesses, distances,"
_PLANTED += " salt, commitment, review FROM verdict WHERE row = 2"
ORPHANS = {
    "of the next row": _PLANTED.format(6),
    "a key of the next row": "INSERT INTO key VALUES (6, 'somebody')",
    "of a row far ahead": _PLANTED.format(1000),
    "a key of a row far ahead": "INSERT INTO key VALUES (1000, 'somebody')",
    "of a row before the first": _PLANTED.format(-1),
    "a key of a row before the first": "INSERT INTO key VALUES (-1, 'somebody')",
}


@pytest.mark.parametrize("script", ORPHANS.values(), ids=ORPHANS)
def test_orphan_fails_verify(folder, script):
    execute(folder, script)
    with lw.Ledger(folder) as ledger:
        found = ledger.verify()
    assert not found.ok and "of decisions that are not there" in found.problem, found
    with raises(lw.errors.BadFile):
        lw.open(folder)
    assert "not verified" in likewise("verify", folder, code=3).stdout
    assert independent(folder).returncode != 0


@pytest.mark.parametrize("durability", ["commit", "batch"])
@pytest.mark.parametrize("when", ["open", "opened without a check"])
@pytest.mark.parametrize("name", ORPHANS)
def test_orphan_blocks_no_write(folder, name, when, durability):
    script = ORPHANS[name]
    if when != "open":
        execute(folder, script)
    with lw.open(folder, check=False, durability=durability) as monitor:
        if when == "open":
            execute(folder, script)
        for i in range(6, 9):
            verdict = monitor.observe([0.1 * (i % 2)], i % 3)
            assert verdict.row == i and len(verdict.witnesses) > 0
        monitor.observe_many([[0.0], [0.1]], [0, 1])
        monitor.flush()
    with lw.Ledger(folder) as ledger:
        assert ledger.rows == 11
        assert [one.row for one in ledger.entry(6).nearest] != [0]
        assert ledger.verify().ok == ("before the first" not in name)  # what it wrote is its own
    if "before the first" not in name:
        assert lw.replay(folder).ok


def test_decision_before_the_first_that_is_kept_fails_verify(tmp_path):
    folder = tmp_path / "ledger"
    with small_segments(), lw.open(folder, RULE, window="20 rows", durability="off") as monitor:
        for i in range(400):
            monitor.observe([0.1 * (i % 2)], i % 3, key=f"person {i}")
    with lw.Ledger(folder) as ledger:
        assert ledger.first > 0 and ledger.verify().ok
    execute(folder, "INSERT INTO key VALUES (3, 'kept all the same')")
    with lw.Ledger(folder) as ledger:
        found = ledger.verify()
    assert not found.ok and "keys of decisions that are not there" in found.problem
    assert independent(folder).returncode != 0
