"""Damage to a ledger's files: it is told of, as a LikewiseError or by verify(), or does no harm.

"No harm" is meant: the same decisions with the same verdicts are read, by those who look and by the
monitor, and further decisions get the verdicts that they would have got.
"""

import json
import random
import shutil
import sqlite3
from contextlib import closing

import numpy as np
import pytest

import likewise as lw
from likewise.ledger import record_files
from likewise.ledger.reader import LedgerReader
from tests.support.refusals import raises

pytestmark = pytest.mark.early

RULE = lw.Rule("linf", 0.1)
BITS = [1, 2, 4, 8, 16, 32, 64, 128, 255]
FURTHER = [([0.31, 0.52], "yes"), ([0.52, 0.31], "no"), ([0.4, 0.4], "new")]


def make(folder, *, killed=False):
    """A small ledger with several files of records, events of most kinds, words and an erasure.

    killed  leave it as a process does that was killed: with its log
    """
    drawn = np.random.default_rng(5)
    x = drawn.random((100, 2)).round(2)
    z = [("yes", "no", "perhaps")[i] for i in drawn.integers(0, 3, 100)]
    monitor = lw.open(folder, RULE, durability="off", window="90 rows")
    monitor.observe_many(x[:90], z[:90], keys=[f"k{i}" if i % 3 else i + 70_000 for i in range(90)])
    monitor.erase(key=["k20", "k83"])
    for i in range(90, 100):
        monitor.observe(x[i], z[i], key=f"k{i}")
        if i % 4 == 0:
            monitor.flush()
    monitor.flush()
    if killed:
        copy = folder.with_name("copy")
        shutil.copytree(folder, copy)
        monitor.close()
        shutil.rmtree(folder)
        copy.rename(folder)
    else:
        monitor.close()


@pytest.fixture(scope="module", params=["closed", "killed"])
def whole(request, tmp_path_factory):
    """A ledger, and what it says."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(record_files, "SEGMENT_BYTES", 1 << 12)
        folder = tmp_path_factory.mktemp(request.param) / "ledger"
        make(folder, killed=request.param == "killed")
    assert (folder / "ledger.sqlite-wal").exists() == (request.param == "killed")
    assert len(list(folder.glob("*.rows"))) == 2
    again = tmp_path_factory.mktemp("said") / "ledger"
    shutil.copytree(folder, again)
    return folder, looked_at(again), gone_on_with(again)


def looked_at(folder):
    """All that a reader is told; raises if verify() finds something."""
    with lw.Ledger(folder) as ledger:
        verified = ledger.verify()
        if not verified.ok:
            raise lw.errors.BadFile(verified.problem)
        inputs = [columns.inputs["input"].tobytes() for columns in ledger.columns()]
        keys = [ledger.row_of(key) for key in ("k1", "k20", "k50", "k99", 70_030, "none")]
        entries = [repr(entry) for entry in ledger.entries()]  # NaN is no other NaN
        return entries, inputs, [event.text for event in ledger.events()], keys


def gone_on_with(folder):
    """What a monitor says that opens it, how it goes on, and what is there then."""
    with lw.open(folder) as monitor:
        said = []
        for x, z in FURTHER:
            verdict = monitor.observe(x, z)
            said.append((verdict.row, verdict.witnesses.rows.tolist(), verdict.compared_with))
        verdicts = monitor.observe_many([[0.2, 0.7]], ["no"], keys=["further"])
        said.append(verdicts.witnesses.rows.tolist())
        erasure = monitor.erase(key="k50")
        verified = monitor.ledger.verify()
        if not verified.ok:
            raise lw.errors.BadFile(verified.problem)
    with lw.open(folder) as monitor:
        said.append((erasure, len(monitor), monitor.rows, monitor.row_of("further")))
    return said


def told_or_harmless(damaged, whole, *, go_on=True):
    """Whether the damage was told of; no other kind of error will do."""
    _, looked, went_on = whole
    told = False
    try:
        seen = looked_at(damaged)
    except lw.LikewiseError as error:
        assert len(str(error)) > 10
        told = True
    else:
        assert seen == looked
    if not go_on:
        return told
    try:
        further = gone_on_with(damaged)
    except lw.LikewiseError as error:
        assert len(str(error)) > 10
        told = True
    else:
        assert further == went_on
    return told


def copied(whole, tmp_path, name="damaged"):
    folder = tmp_path / name
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(whole[0], folder)
    return folder


def flip(path, offset, bits):
    with path.open("r+b") as file:
        file.seek(offset)
        byte = file.read(1)[0]
        file.seek(offset)
        file.write(bytes([byte ^ bits]))
    assert path.read_bytes()[offset] == byte ^ bits


def flip_some(whole, tmp_path, places, go_on=1):
    """Flip bits of one byte at a time; how often that was told of, by file."""
    told = {}
    for number, (name, offset, bits) in enumerate(places):
        folder = copied(whole, tmp_path)
        flip(folder / name, offset, bits)
        try:
            found = told_or_harmless(folder, whole, go_on=number % go_on == 0)
        except BaseException as error:
            error.add_note(f"byte {offset} of {name}, flipped by {bits:#04x}")
            raise
        told.setdefault(name, []).append(found)
    return told


def drawn_places(whole, seed, most):
    """So many offsets of each file, each with bits to flip."""
    drawn = random.Random(seed)
    for path in sorted(whole[0].iterdir()):
        size = path.stat().st_size
        for offset in sorted(drawn.sample(range(size), min(most, size))):
            yield path.name, offset, drawn.choice(BITS)


def all_places(whole, seed):
    """Every byte of every file, but one in sixteen where there is nothing but zeros.

    With a log, one in three of the log's, and one in sixteen elsewhere: other files are as without.
    """
    drawn, log = random.Random(seed), (whole[0] / "ledger.sqlite-wal").exists()
    for path in sorted(whole[0].iterdir()):
        content = path.read_bytes()
        for offset in range(len(content)):
            empty = not any(content[max(0, offset - 8) : offset + 8])
            every = 3 if path.suffix == ".sqlite-wal" else 16 if log or empty else 1
            if drawn.randrange(every) == 0:
                yield path.name, offset, drawn.choice(BITS)


def test_the_ledger_is_whole(whole, tmp_path):
    assert not told_or_harmless(copied(whole, tmp_path), whole)


@pytest.mark.long
def test_a_flipped_byte(whole, tmp_path):
    told = flip_some(whole, tmp_path, drawn_places(whole, 1, 12))
    assert any(told["ledger.sqlite"]) and any(told["000000000000.rows"])


@pytest.mark.long
def test_a_flipped_byte_in_the_header(whole, tmp_path):
    drawn = random.Random(2)
    offsets = sorted(drawn.sample(range(100), 25))
    flip_some(whole, tmp_path, [("ledger.sqlite", at, drawn.choice([1, 64])) for at in offsets])


@pytest.mark.parametrize("index", ["event_kind", "word_code", "key_key", "verdict_distance"])
def test_a_flipped_byte_in_an_index_of_the_database(whole, tmp_path, index):
    """No hash covers an index; one that does not fit its table would hide what is there."""
    with closing(sqlite3.connect(whole[0] / "ledger.sqlite")) as database:
        query = "SELECT rootpage FROM sqlite_master WHERE name = ?"
        ((page,),) = database.execute(query, (index,)).fetchall()
        ((size,),) = database.execute("PRAGMA page_size").fetchall()
    start = (page - 1) * size
    content = (whole[0] / "ledger.sqlite").read_bytes()[start : start + size]
    used = [start + i for i in range(size // 8, size) if content[i]]
    places = [("ledger.sqlite", offset, 255) for offset in used[:: max(1, len(used) // 30)]]
    told = flip_some(whole, tmp_path, places)
    assert len(places) >= 10 and sum(told["ledger.sqlite"]) > len(places) // 2, told


@pytest.mark.slow
def test_a_flipped_byte_anywhere(whole, tmp_path):
    """Every byte; looked at each time, and gone on with one time in twenty."""
    told = flip_some(whole, tmp_path, all_places(whole, 3), go_on=20)
    assert all(any(found) for name, found in told.items() if name.endswith(("sqlite", "rows")))


# Damage of other kinds


def test_a_record_file_that_was_cut(whole, tmp_path):
    for name in ("000000000000.rows", "000000000064.rows"):
        size = (whole[0] / name).stat().st_size
        for cut in (0, 1, 40, 95, 96, size - 97, size - 1):
            folder = copied(whole, tmp_path)
            with (folder / name).open("r+b") as file:
                file.truncate(cut)
            assert told_or_harmless(folder, whole)


def test_a_record_file_that_was_extended(whole, tmp_path):
    for extra in (b"\0", bytes(96), random.Random(1).randbytes(10_000)):
        for name in ("000000000000.rows", "000000000064.rows"):
            folder = copied(whole, tmp_path)
            with (folder / name).open("ab") as file:
                file.write(extra)
            assert not told_or_harmless(folder, whole)  # what lies behind the rows means nothing


def test_a_record_file_that_is_missing(whole, tmp_path):
    for name in ("000000000000.rows", "000000000064.rows"):
        folder = copied(whole, tmp_path)
        (folder / name).unlink()
        assert told_or_harmless(folder, whole)
        with raises(lw.errors.BadFile):
            lw.open(folder)


def test_record_files_in_each_others_place(whole, tmp_path):
    folder = copied(whole, tmp_path)
    one, other = folder / "000000000000.rows", folder / "000000000064.rows"
    content = one.read_bytes()
    one.write_bytes((other.read_bytes() * 2)[: len(content)])
    other.write_bytes(content)
    assert told_or_harmless(folder, whole)


@pytest.mark.long
def test_a_torn_page_of_the_database(whole, tmp_path):
    """The last page was written in part: the rest is what was there before, zeros or noise."""
    content = (whole[0] / "ledger.sqlite").read_bytes()
    pages = len(content) // 4096
    noise = random.Random(3)
    told = 0
    for page in range(pages):
        for rest in (bytes(3584), noise.randbytes(3584)):
            folder = copied(whole, tmp_path)
            at = 4096 * page + 512
            torn = content[:at] + rest + content[at + 3584 :]
            (folder / "ledger.sqlite").write_bytes(torn)
            told += told_or_harmless(folder, whole)
    assert told >= pages or (whole[0] / "ledger.sqlite-wal").exists()  # else the log has them all


def test_a_database_that_was_cut(whole, tmp_path):
    size = (whole[0] / "ledger.sqlite").stat().st_size
    for cut in (1, 99, 100, 4095, 4096, 4097, size // 2, size - 4096, size - 1):
        folder = copied(whole, tmp_path)
        with (folder / "ledger.sqlite").open("r+b") as file:
            file.truncate(cut)
        told_or_harmless(folder, whole)


def test_a_log_that_was_cut(whole, tmp_path):
    """Whatever it loses of what was acknowledged is told of, though SQLite does without a word."""
    log = whole[0] / "ledger.sqlite-wal"
    if not log.exists():
        pytest.skip("closed in good order, so there is no log")
    content, drawn = log.read_bytes(), random.Random(4)
    cuts = [0, 31, 32, 33, 56, len(content) - 4097, len(content) - 1]
    for cut in [*cuts, *drawn.sample(range(len(content)), 10)]:
        folder = copied(whole, tmp_path)
        (folder / log.name).write_bytes(content[:cut])
        assert told_or_harmless(folder, whole)
        torn = content[:cut] + drawn.randbytes(len(content) - cut)
        (folder / log.name).write_bytes(torn)
        assert told_or_harmless(folder, whole)


def test_a_log_that_is_lost_is_told_of_before_anything_is_written(whole, tmp_path):
    folder = copied(whole, tmp_path)
    if not (folder / "ledger.sqlite-wal").exists():
        pytest.skip("closed in good order, so there is no log")
    flip(folder / "ledger.sqlite-wal", 5000, 1)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    with raises(
        lw.errors.BadFile, text=False
    ):  # whether there is a log depends on the moment of the kill
        lw.open(folder)
    after = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert {k: v for k, v in after.items() if k[-3:] not in ("shm", "ock")} == {
        k: v for k, v in before.items() if k[-3:] not in ("shm", "ock")
    }
    flip(folder / "ledger.sqlite-wal", 5000, 1)  # mended
    assert not told_or_harmless(folder, whole)


def test_a_database_put_back_by_an_earlier_one(whole, tmp_path):
    folder = copied(whole, tmp_path)
    with lw.open(folder) as monitor:
        monitor.observe(*FURTHER[0])
    for name in ("ledger.sqlite", "000000000064.rows"):
        shutil.copy(whole[0] / name, folder / name)
    if not (whole[0] / "ledger.sqlite-wal").exists():
        assert told_or_harmless(folder, whole)


# Rows and cells that someone changed


ODD = [None, "", "x", "17", b"", b"\xff" * 40, 1.5, -1, 2**62, 2**63 - 1, float("inf"), '{"a": 1}']
CELLS = {
    "event": ["number", "at_row", "time", "kind", "first", "stop", "latest", "body", "link"],
    "key": ["row", "key"],
    "verdict": [
        *("row", "time", "model", "count", "distance", "witnesses"),
        *("distances", "salt", "commitment", "review"),
    ],
    "word": ["number", '"column"', "code", "value", "salt", "commitment", "link"],
}


def altered(folder, statement, *values):
    """Whether a statement changed something."""
    database = sqlite3.connect(folder / "ledger.sqlite", isolation_level=None)
    try:
        changed = database.execute(statement, values).rowcount
    except sqlite3.Error:  # the database itself refuses such a thing
        changed = 0
    database.close()
    return changed > 0


@pytest.mark.long
@pytest.mark.parametrize("table", CELLS)
def test_odd_values_in_cells(whole, tmp_path, table):
    drawn, changed = random.Random(table), 0
    for column in CELLS[table]:
        for value in drawn.sample(ODD, 6):
            folder = copied(whole, tmp_path)
            database = sqlite3.connect(folder / "ledger.sqlite", isolation_level=None)
            key = "row" if table in ("key", "verdict") else "number"
            rows = [row for (row,) in database.execute(f"SELECT {key} FROM {table}")]
            database.close()
            row = drawn.choice(rows)
            if altered(folder, f"UPDATE {table} SET {column} = ? WHERE {key} = ?", value, row):
                changed += 1
                try:
                    told_or_harmless(folder, whole)
                except BaseException as error:
                    error.add_note(f"{table}.{column} of {row} = {value!r}")
                    raise
    assert changed > len(CELLS[table])


BODIES = {
    "rule": [("rule", 7), ("rule", None), ("rule", "epsilon = 1e999"), ("rule", "[" * 5000)],
    "layout": [
        ("outputs", 2**40),
        ("outputs", -1),
        ("segment_rows", 0),
        ("segment_rows", 10**30),
        ("shape", [10**30]),
        ("shape", []),
        ("shape", "x"),
        ("shape", [-2]),
        ("storage", "x,"),
        ("storage", None),
        ("columns", [["a"]]),
    ],
    "erased": [("rows", [10**30]), ("rows", 3), ("rows", ["a"]), ("rows", [True]), ("words", [[]])],
    "words": [("words", "x"), ("words", 10**30), ("link", 3), ("link", "zz"), ("link", "")],
    "window": [("keep", 3), ("keep", "no rows"), ("keep", "9" * 400 + " rows"), ("keep", "1 row")],
}


@pytest.mark.parametrize("kind", BODIES)
def test_odd_bodies_of_events(whole, tmp_path, kind):
    for name, value in BODIES[kind]:
        folder = copied(whole, tmp_path)
        with lw.Ledger(folder) as ledger:
            event = next(event for event in ledger.events() if event.kind == kind)
        body = json.dumps(event.body | {name: value})
        assert altered(folder, "UPDATE event SET body = ? WHERE number = ?", body, event.number)
        try:
            assert told_or_harmless(folder, whole)
        except BaseException as error:
            error.add_note(f"{kind}.{name} = {value!r}")
            raise
    for body in ("", "[]", "3", "null", "[" * 100_000, '{"a": ', '{"rows": NaN}'):
        folder = copied(whole, tmp_path)
        assert altered(folder, "UPDATE event SET body = ? WHERE kind = ?", body, kind)
        assert told_or_harmless(folder, whole)


def test_a_row_that_is_there_twice_is_told(tmp_path):
    """A damaged page can make it so, below the check of the tables."""
    folder = tmp_path / "ledger"
    with lw.open(folder, lw.Rule("linf", 0.1)) as ledger:
        for i in range(3):
            ledger.observe([0.1 * i], i % 2, key=i)
    with closing(sqlite3.connect(folder / "ledger.sqlite", check_same_thread=False)) as database:
        database.executescript(
            "PRAGMA legacy_alter_table = ON; CREATE TABLE twice AS SELECT * FROM event;"
            "INSERT INTO twice SELECT * FROM event WHERE first = 1;"
            "DROP TABLE event; ALTER TABLE twice RENAME TO event;"
        )
        reader = LedgerReader(folder, database)
        with raises(lw.errors.BadFile):
            list(reader.format.walk(reader, None).chunks())
