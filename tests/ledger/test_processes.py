"""A ledger among processes: one writes, others look. Read-only places, clocks, half-made ones."""

import json
import os
import random
import shutil
import signal
import sqlite3
import tempfile
import time
from pathlib import Path

import pytest

import likewise as lw
from tests.contracts import crashing
from tests.support.killing import program
from tests.support.programs import run_module
from tests.support.refusals import raises
from tests.support.segments import small_segments

RULE = lw.Rule("linf", 0.1)


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "ledger"


def content(folder):
    """Every file that says something; not those by which processes get out of each other's way."""
    passing = ("lock", "ledger.sqlite-shm")
    files = {path.name: path.read_bytes() for path in folder.iterdir() if path.name not in passing}
    return {name: said for name, said in files.items() if said}


def filled(folder, **how):
    monitor = lw.open(folder, RULE, **how)
    monitor.observe([0.1, 0.2], "yes", key="a")
    monitor.observe([0.15, 0.2], "no", key="b")
    return monitor


# Two writers


def test_a_second_writer_is_refused_and_told_who_writes(folder):
    with filled(folder) as monitor:
        with raises(lw.errors.BadFile):
            lw.open(folder)
        assert monitor.observe([0.1, 0.2], "no", key="c").violation
    with lw.open(folder) as monitor:
        assert monitor.rows == 3


@pytest.fixture
def feeder(folder):
    """Another process that writes, erases and drops, until it is killed."""
    with program(crashing.__file__, folder, "7", "window") as process:
        process.stdin.write('{"turn": 1}\n')
        process.stdin.flush()
        said = [json.loads(process.stdout.readline())]
        while said[-1][0] != "done":
            said.append(json.loads(process.stdout.readline()))
        process.child = next(about[0] for what, *about in said if what == "child")
        yield process
        process.stdout.close()


def test_a_writer_that_was_killed_leaves_no_lock(folder, feeder):
    with raises(lw.errors.BadFile):
        lw.open(folder)
    os.kill(feeder.child, signal.SIGKILL)
    assert any(json.loads(line) == ["gone", signal.SIGKILL] for line in feeder.stdout)
    with lw.open(folder) as monitor:
        assert monitor.rows > 0 and monitor.ledger.verify().ok


@pytest.mark.long
def test_readers_see_a_whole_ledger_while_it_is_written(folder, feeder):
    looks, rows, firsts = 0, set(), set()
    until = time.monotonic() + 4
    while time.monotonic() < until or len(rows) < 5:
        feeder_says(feeder)
        with lw.Ledger(folder) as ledger:
            verified = ledger.verify(ledger.head if ledger.rows else None)
            if verified.first_row >= ledger.rows > 0:  # 200 rows were written since it was opened
                continue
            assert verified.ok, verified
            assert verified.rows >= ledger.rows
            rows.add(ledger.rows)
            firsts.add(ledger.first)
            if ledger.rows > ledger.first:
                try:
                    last = ledger.entry(ledger.rows - 1)
                except (
                    lw.errors.BadRow
                ) as error:  # 200 rows were written since this ledger was opened
                    assert error.row == ledger.rows - 1
                    continue
                _, z, key = crashing.decision("7", last.row)
                assert last.erased or (last.output, last.key) == (z, key)
        looks += 1
    os.kill(feeder.child, signal.SIGKILL)
    assert looks > 5 and len(rows) >= 5


def test_a_row_that_left_the_window_while_somebody_looks_is_not_called_damaged(folder):
    with small_segments(), lw.open(folder, RULE, window="4 rows") as monitor:
        monitor.observe([0.0], "yes")
        with lw.Ledger(folder) as ledger:
            assert ledger.entry(0).output == "yes"
            for _ in range(500):
                monitor.observe([0.0], "yes")
            with raises(lw.errors.BadRow, row=0):
                ledger.entry(0)
        with lw.Ledger(folder) as ledger:
            assert ledger.first > 0
            assert ledger.entry(ledger.first).output == "yes"


def feeder_says(feeder):
    """Empty its pipe, so that it does not wait for us."""
    os.set_blocking(feeder.stdout.fileno(), False)
    while os.read(feeder.stdout.fileno(), 1 << 16) if _ready(feeder) else b"":
        pass


def _ready(feeder):
    import select

    return bool(select.select([feeder.stdout], [], [], 0)[0])


# Processes that are forked off


@pytest.mark.parametrize("what", ["leaves_what_waits_to_its_parent", "does_not_keep_the_lock"])
def test_a_forked_process(folder, what):
    """In a process of its own: this one may have more memory reserved than can be forked."""
    assert run_module("ledger.forking", what, folder).stdout == "done\n"


# Places that cannot be written


@pytest.fixture
def nobody():
    """A place that others can reach, and a way to be someone who may not write there."""
    place = Path(tempfile.mkdtemp())
    place.chmod(0o755)
    root = os.geteuid() == 0

    def become(someone):
        if root:
            os.seteuid(65534 if someone else 0)

    def protect(folder, allowed):
        for path in folder.rglob("*"):
            path.chmod(0o644 if allowed else 0o444)
        folder.chmod(0o755 if allowed else 0o555)

    yield place, become, protect
    become(False)
    for folder in place.iterdir():
        protect(folder, True)
    shutil.rmtree(place)


@pytest.mark.parametrize("killed", [False, True])
def test_a_read_only_folder_can_be_looked_at(nobody, killed):
    place, become, protect = nobody
    folder = place / "ledger"
    monitor = filled(folder)
    if killed:
        shutil.copytree(folder, place / "copy")
        assert (place / "copy" / "ledger.sqlite-wal").stat().st_size > 0
        folder = place / "copy"
    monitor.close()
    assert lw.replay(place / "ledger").ok  # everything is imported
    protect(folder, False)
    before = content(folder)
    become(True)
    with pytest.raises(PermissionError):  # it is what it is meant to be
        (folder / "new").touch()
    with raises(lw.errors.BadFile, text=False):  # the folder is not one of pytest's
        lw.open(folder)
    try:
        ledger = lw.Ledger(folder)
    except lw.errors.BadFile as error:
        assert killed and "cannot be used" in str(error)  # SQLite must write to read a log
    else:
        with ledger:
            assert ledger.verify().ok
            assert [entry.output for entry in ledger.entries()] == ["yes", "no"]
    with raises(lw.errors.BadFile, text=False):
        lw.open(folder / "new", RULE)
    become(False)
    assert content(folder) == before


# The clock


def test_a_clock_that_goes_back_stands_still_and_is_told_of(folder, monkeypatch):
    now = 1_800_000_000 * 10**9
    monkeypatch.setattr(time, "time_ns", lambda: now)
    with lw.open(folder, RULE, window="1 hours") as monitor:
        monitor.observe([0.1, 0.2], "yes")
        now -= 3600 * 10**9
        verdict = monitor.observe([0.1, 0.2], "no")
        assert verdict.witnesses.rows.tolist() == [0]
        monitor.observe_many([[0.1, 0.2]], ["yes"])
        assert monitor.ledger.verify().ok
    with lw.open(folder) as monitor:
        now += 7201 * 10**9
        verdict = monitor.observe([0.1, 0.2], "no")
        assert verdict.compared_with.first == 3 and not verdict.violation
        assert monitor.ledger.verify().ok
    with lw.Ledger(folder) as ledger:
        times = [entry.time for entry in ledger.entries()]
        assert times == sorted(times) and times[0] == times[1] == times[2] < times[3]
        told = [event.body for event in ledger.events() if event.kind == "clock"]
        assert told == [{"behind_microseconds": 3600 * 10**6}]
    assert lw.replay(folder).ok


def test_times_that_are_given_in_any_order_are_kept(folder):
    drawn = random.Random(3)
    times = [1_700_000_000 + drawn.randrange(-(10**6), 10**6) for _ in range(60)]
    with lw.open(folder, RULE, window="2 days") as monitor:
        for time_ in times[:30]:
            monitor.observe([0.1, 0.2], drawn.choice("ab"), time=time_)
        monitor.observe_many([[0.1, 0.2]] * 30, drawn.choices("ab", k=30), times=times[30:])
        assert monitor.ledger.verify().ok
    assert lw.replay(folder).ok
    with lw.open(folder) as monitor:
        assert monitor.rows == 60


# Versions, and folders that are half made


def test_a_newer_format_is_refused_politely(folder):
    filled(folder).close()
    database = sqlite3.connect(folder / "ledger.sqlite")
    database.execute("PRAGMA user_version = 3")
    database.close()
    before = content(folder)
    for way in (lw.open, lw.Ledger, lw.replay):
        with raises(lw.errors.BadFile):
            way(folder)
    assert content(folder) == before


def test_a_database_that_is_no_ledger_is_left_alone(folder):
    folder.mkdir()
    database = sqlite3.connect(folder / "ledger.sqlite")
    database.execute("CREATE TABLE mine (a)")
    database.close()
    before = content(folder)
    for way in (lambda path: lw.open(path, RULE), lw.Ledger):
        with raises(lw.errors.BadFile):
            way(folder)
    assert content(folder) == before


@pytest.mark.parametrize("there", [(), ("lock",), ("lock", "ledger.sqlite")])
def test_a_folder_whose_making_was_cut_short_is_made(folder, there):
    folder.mkdir()
    for name in there:
        (folder / name).touch()
    with raises(lw.errors.BadFile):
        lw.open(folder)
    with raises(lw.errors.BadFile):
        lw.Ledger(folder)
    with filled(folder) as monitor:
        assert monitor.ledger.verify().ok
