"""A writer whose lock is lost acknowledges nothing more, and touches nothing of the next writer's.

A lock is lost if its file is deleted or replaced, or never held anybody off: some file systems
have no flock.
"""

import contextlib
import shutil
import subprocess
import sys

import pytest

import likewise as lw
from likewise.ledger import folder as ledger_folder
from likewise.ledger.folder import LostLock
from tests.ledger import other_writer
from tests.support.refusals import raises

RULE = lw.Rule("linf", 0.1)


@contextlib.contextmanager
def other_process(folder):
    """Another process that has the ledger open."""
    command = [sys.executable, other_writer.__file__, str(folder)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, **pipes) as process:
        try:
            yield process
            process.stdin.close()
            process.wait(60)
        except BaseException:
            process.kill()
            raise


def write(process, count):
    process.stdin.write(f"{count}\n")
    process.stdin.flush()


def opened(folder, **settings):
    monitor = lw.open(folder, RULE, **settings)
    for i in range(3):
        monitor.observe([0.1 * i, 0.5], i % 2, key=f"mine {i}")
    monitor.flush()
    return monitor


def content(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.suffix == ".rows"}


def delete(folder):
    (folder / "lock").unlink()


def replace(folder):
    (folder / "other").write_bytes((folder / "lock").read_bytes())
    (folder / "other").replace(folder / "lock")


ACTIONS = {
    "observe": lambda monitor: monitor.observe([0.3, 0.3], "mine"),
    "observe_many": lambda monitor: monitor.observe_many([[0.3, 0.3]] * 3, ["a", "b", "c"]),
    "erase": lambda monitor: monitor.erase(key="mine 1"),
    "truth": lambda monitor: monitor.ledger.truth("mine 1", "yes"),
    "review": lambda monitor: monitor.ledger.review(
        1, None, "error", reason="a typo", reviewer="ann"
    ),
}


@pytest.mark.parametrize("lose", [delete, replace])
def test_writer_without_its_lock_refuses_and_the_next_ones_records_are_whole(tmp_path, lose):
    folder = tmp_path / "ledger"
    monitor = opened(folder)
    lose(folder)
    with other_process(folder) as other:
        assert other.stdout.readline() == "3\n"
        with raises(LostLock):
            monitor.observe([0.3, 0.3], "mine", key="nowhere")  # before anything else was written
        write(other, 2)
        assert other.stdout.readline() == "5\n"
        before = content(folder)
        for action in ACTIONS.values():
            with pytest.raises(LostLock):
                action(monitor)
        assert content(folder) == before
        write(other, 1)
        assert other.stdout.readline() == "6\n"
    with pytest.raises(LostLock):
        monitor.close()
    monitor.close()
    with lw.open(folder) as monitor:
        assert monitor.rows == 6 and monitor.ledger.verify().ok
        assert monitor.row_of("nowhere") is None and monitor.row_of("other 5") == 5


def test_writer_that_is_not_held_off_by_flock_refuses(tmp_path, monkeypatch):
    """Two monitors of one process: the file of the lock is the same, and locks nobody out."""
    monkeypatch.setattr(ledger_folder, "_lock", lambda file: None)
    folder = tmp_path / "ledger"
    first = opened(folder)
    second = lw.open(folder)
    second.observe([0.9, 0.9], "other", key="other")
    before = content(folder)
    for action in ACTIONS.values():
        with raises(LostLock):
            action(first)
    assert content(folder) == before
    second.observe([0.9, 0.8], "other")
    with pytest.raises(LostLock):
        first.close()
    second.close()
    with lw.Ledger(folder) as ledger:
        assert ledger.rows == 5 and ledger.verify().ok


def test_commit_that_fails_is_not_taken_for_done_by_a_row_of_another(tmp_path, monkeypatch):
    """As many rows are there as if it had come through; they are not this writer's."""
    monkeypatch.setattr(ledger_folder, "_lock", lambda file: None)
    folder = tmp_path / "ledger"
    first = opened(folder)
    store = first.ledger.journal.store
    connect = store._connect

    def while_another_writes():
        store._drop()
        with lw.open(folder) as second:
            second.observe([0.9, 0.9], "other", key="other")
        connect()

    def fail(*_, **__):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(store, "_connect", while_another_writes)
    with monkeypatch.context() as failing:
        failing.setattr(store.records, "write", fail)
        with raises(LostLock):
            first.observe([0.3, 0.3], "mine", key="nowhere")
    with pytest.raises(LostLock):
        first.close()
    with lw.open(folder) as monitor:
        assert (
            monitor.rows == 4 and monitor.row_of("nowhere") is None and monitor.ledger.verify().ok
        )


def test_what_waits_is_not_written_into_another_writers_ledger(tmp_path):
    folder = tmp_path / "ledger"
    monitor = opened(folder, durability="batch", batch_seconds=60.0)
    monitor.observe([0.3, 0.3], "mine", key="waits")
    delete(folder)
    with lw.open(folder) as second:
        second.observe([0.9, 0.9], "other")
    with raises(LostLock):
        monitor.close()
    with lw.open(folder) as monitor:
        assert monitor.rows == 4 and monitor.row_of("waits") is None and monitor.ledger.verify().ok


def test_decision_is_not_written_into_a_ledger_that_was_deleted(tmp_path):
    folder = tmp_path / "ledger"
    monitor = opened(folder)
    moved = folder.rename(tmp_path / "moved")
    with raises(LostLock):
        monitor.observe([0.3, 0.3], "mine")
    shutil.copytree(moved, folder)
    with raises(LostLock):
        monitor.observe([0.3, 0.3], "mine")
    with pytest.raises(LostLock):
        monitor.close()
    with lw.Ledger(folder) as ledger:
        assert ledger.rows == 3


def test_database_that_was_replaced_is_not_written_to(tmp_path):
    folder = tmp_path / "ledger"
    opened(folder).close()
    shutil.copytree(folder, tmp_path / "copy")
    monitor = lw.open(folder)
    (tmp_path / "copy" / "ledger.sqlite").replace(folder / "ledger.sqlite")
    with raises(LostLock):
        monitor.observe([0.3, 0.3], "mine")
    with pytest.raises(LostLock):
        monitor.close()
