"""Whatever is altered in a ledger's database is a finding of `verify`, and never a crash.

Every column of every table is altered in several ways, as the database itself lists them: a table
or column that comes later is covered too.
"""

import shutil
import sqlite3
from contextlib import closing

import pytest

import likewise as lw
from tests.ledger.test_format import independent
from tests.support.commands import likewise
from tests.support.refusals import raises
from tests.support.segments import small_segments

RULE = lw.Rule(
    features={
        "age": lw.Feature("number", tolerance=3),
        "job": lw.Feature("category"),
        "sex": lw.Feature("protected"),
        "origin": lw.Feature("protected", values=["here", "abroad"]),
        "id": lw.Feature("key"),
    },
    output_column="approved",
)
TABLES = ("event", "key", "verdict", "member", "note", "word")
MAY_DIFFER: set[str] = set()
"""Columns that `verify` does not compare, with the reason: there is none."""


def person(i: int) -> dict[str, object]:
    return {
        "age": 30 + i % 5,
        "job": ("nurse", "cook", f"job {i // 50}")[i % 3],
        "sex": "fm"[i % 2],
        "origin": ("here", "abroad")[i // 2 % 2],
        "id": f"case {i}" if i % 2 else i,
        "approved": ("yes", "no")[i % 7 % 2],
    }


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A ledger that has rows in every table, and events that stayed when others left a window."""
    folder = tmp_path_factory.mktemp("altered") / "ledger"
    with small_segments(), lw.open(folder, RULE, window="70 rows", durability="off") as monitor:
        for i in range(140):
            monitor.observe(person(i), model=f"model {i % 2}", source="queue", position=i)
    with lw.open(folder, durability="off") as monitor:  # and what has left the window, the disk
        monitor.erase(key=["case 131", 132])
        monitor.ledger.review(135, None, "error", reason="a typo", reviewer="ann")
        monitor.ledger.review(136, None, "justified", reason="not unfair", reviewer="ben")
        monitor.ledger.truth("case 137", "yes")
        monitor.ledger.supersede("case 139", "yes", by="ann", why="an appeal")
    with lw.Ledger(folder) as ledger:
        assert ledger.first > 0 and ledger.verify().ok
        assert {event.kind for event in ledger.events()} >= {"rule", "model", "source", "erased"}
    return folder


_TABLES = "SELECT name, sql FROM sqlite_master WHERE type = 'table'"


def alter(folder, statement, *values):
    """Whether a statement changed something; no constraint of a column holds it up."""
    with closing(sqlite3.connect(folder / "ledger.sqlite", isolation_level=None)) as database:
        stored = database.execute(_TABLES).fetchall()
        write = "UPDATE sqlite_master SET sql = ? WHERE name = ?"
        database.execute("PRAGMA writable_schema = ON")
        database.executemany(write, ((sql.replace(" NOT NULL", ""), name) for name, sql in stored))
        database.execute("PRAGMA writable_schema = RESET")
        try:
            changed = database.execute(statement, values).rowcount
        except sqlite3.IntegrityError:  # there is such a row
            changed = 0
        database.execute("PRAGMA writable_schema = ON")
        database.executemany(write, ((sql, name) for name, sql in stored))
    return changed > 0


def columns_of(folder, table):
    with closing(sqlite3.connect(folder / "ledger.sqlite")) as database:
        return [name for _, name, *_ in database.execute(f"PRAGMA table_info({table})")]


def is_found(folder):
    """Whether verify, or whoever opens the ledger, tells of it; nothing else may be raised."""
    try:
        with lw.Ledger(folder) as ledger:
            found = ledger.verify()
    except lw.errors.BadFile:
        told = True
    else:
        told = not found.ok
        assert found.ok or len(found.problem) > 10
    return told


@pytest.fixture
def copy(whole, tmp_path):
    def make():
        folder = tmp_path / "ledger"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(whole, folder)
        return folder

    return make


def test_the_tables_are_those_of_the_database(whole):
    with closing(sqlite3.connect(whole / "ledger.sqlite")) as database:
        assert {name for name, _ in database.execute(_TABLES)} == set(TABLES)
        assert all(
            database.execute(f"SELECT count(*) FROM {name}").fetchone()[0] > 2 for name in TABLES
        )


ODD = ["NULL", "'x'", "7", "-1", "0.5", "zeroblob(5000)", "''", "x'ff'", "CAST(x'ff' AS TEXT)"]
SLIGHTLY = [
    "CASE typeof({0}) WHEN 'integer' THEN {0} + 1 WHEN 'real' THEN {0} / 2 ELSE {0} || 'x' END",
    "CAST({0} AS TEXT)",
    "CAST({0} AS BLOB)",
    "CASE typeof({0}) WHEN 'blob' THEN substr({0}, 2) WHEN 'text' THEN substr({0}, 2) ELSE 9 END",
]


@pytest.mark.long
@pytest.mark.parametrize("table", TABLES)
def test_altered_column_is_found(whole, copy, table):
    for column in columns_of(whole, table):
        tried = 0
        for value in [*ODD, *SLIGHTLY]:
            for which in ("1", "count(*)"):
                folder = copy()
                key = columns_of(folder, table)[2 if table == "member" else 0]
                new = value.format(f'"{column}"')
                row = (
                    f"(SELECT {key} FROM {table} ORDER BY {key} LIMIT 1 OFFSET"
                    f" (SELECT {which} - 1 FROM {table}))"
                )
                differs = f'({new} IS NOT "{column}" OR typeof({new}) != typeof("{column}"))'
                before = dump(folder, table)
                alter(
                    folder,
                    f'UPDATE {table} SET "{column}" = {new} WHERE {key} = {row} AND {differs}',
                )
                if dump(folder, table) == before:  # the type of the column made the same of it
                    continue
                tried += 1
                assert is_found(folder) or f"{table}.{column}" in MAY_DIFFER, (column, new, which)
                if tried == 1:
                    likewise("verify", folder, code=3)
        assert tried >= 4, column


def dump(folder, table):
    with closing(sqlite3.connect(folder / "ledger.sqlite")) as database:
        database.text_factory = bytes
        return database.execute(f"SELECT * FROM {table}").fetchall()


@pytest.mark.long
@pytest.mark.parametrize("table", TABLES)
def test_rows_less_or_more_are_found(whole, copy, table):
    columns = [f'"{name}"' for name in columns_of(whole, table)]
    key = columns[2 if table == "member" else 0]
    statements = [f"DELETE FROM {table}"]
    for end in ("min", "max"):
        statements.append(f"DELETE FROM {table} WHERE {key} = (SELECT {end}({key}) FROM {table})")
        for other in (-1, 3, 100, 10**6):
            values = [str(other) if name == key else name for name in columns]
            statements.append(
                f"INSERT INTO {table} SELECT {', '.join(values)} FROM {table}"
                f" WHERE {key} = (SELECT {end}({key}) FROM {table})"
            )
    tried = 0
    for statement in statements:
        folder = copy()
        if alter(folder, statement):
            tried += 1
            assert is_found(folder), statement
            likewise("verify", folder, code=3)
    assert tried >= 3


@pytest.mark.parametrize("table", TABLES)
def test_table_or_column_that_is_gone_is_found(whole, copy, table):
    statements = [f"DROP TABLE {table}", f"ALTER TABLE {table} RENAME TO other"]
    statements += [
        f'ALTER TABLE {table} RENAME COLUMN "{name}" TO another'
        for name in columns_of(whole, table)
    ]
    for statement in statements:
        folder = copy()
        with closing(sqlite3.connect(folder / "ledger.sqlite", isolation_level=None)) as database:
            database.execute(statement)
        assert is_found(folder), statement
    likewise("verify", folder, code=3)


# What an attacker would do


GROUPS = {
    "none": "DELETE FROM member",
    "one less": "DELETE FROM member WHERE code = 0",
    "a row less": "DELETE FROM member WHERE row = (SELECT max(row) FROM member)",
    "others": "UPDATE member SET code = 1 - code",
    "another column": "UPDATE member SET \"column\" = 'job' WHERE \"column\" = 'sex'",
    "a row more": 'INSERT INTO member SELECT "column", 1 - code, row FROM member LIMIT 1',
    "a column more": "INSERT INTO member VALUES ('age', 3, 100)",
}


@pytest.mark.parametrize("name", GROUPS)
def test_altered_groups_are_found_and_the_table_is_named(copy, name):
    folder = copy()
    with lw.Ledger(folder) as ledger:
        head = ledger.head
        assert list(ledger.violations(group=("sex", "m")))
    assert alter(folder, GROUPS[name])
    with lw.Ledger(folder) as ledger:
        found = ledger.verify(head)
        assert not found.ok and "'member'" in found.problem
    assert independent(folder).returncode != 0
    with raises(lw.errors.BadFile):
        lw.open(folder)


MOVED = {
    "a note": "UPDATE note SET salt = CAST(salt || 'not ' AS BLOB), text = 'unfair'"
    " WHERE text = 'not unfair'",
    "a word": "UPDATE word SET salt = CAST(salt || substr(value, 1, 4) AS BLOB),"
    " value = substr(value, 5) WHERE number = 1",
    "more distances": "UPDATE verdict SET salt = substr(salt, 1, 8), distance = NULL,"
    " distances = CAST(substr(salt, 9) || distances AS BLOB) WHERE row = 135",
    "no distances": "UPDATE verdict SET salt = CAST(salt || distances AS BLOB), distances = x'',"
    " distance = NULL WHERE row = 135",
}


@pytest.mark.parametrize("name", MOVED)
def test_bytes_that_moved_between_a_salt_and_what_it_hides_are_found(copy, name):
    """A commitment hashes both joined, so the length of a salt has to be what it was."""
    folder = copy()
    assert alter(folder, MOVED[name])
    assert is_found(folder)
    assert independent(folder).returncode != 0


def test_erased_key_stays_erased(copy):
    """Its mark is in the chain: there is no table from which it could be taken."""
    folder = copy()
    with lw.open(folder) as monitor:
        for key in ("case 131", 132):
            with raises(lw.errors.BadDecision):
                monitor.observe({**person(131), "id": key})
    others = "UPDATE event SET body = replace(body, '\"marks\"', '\"others\"')"
    assert alter(folder, f"{others} WHERE kind = 'erased'")
    assert is_found(folder)
