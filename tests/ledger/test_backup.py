"""Copies of a ledger that is being written: consistent, verified, incremental, restored."""

import shutil
import threading

import numpy as np

import likewise as lw
from tests.support.refusals import raises
from tests.support.segments import small_segments

RULE = lw.Rule("linf", 0.1)


def some(monitor, count, rng):
    x, z = rng.random((count, 2)), rng.choice(["a", "b"], count).tolist()
    first = monitor.rows
    monitor.observe_many(x, z, keys=[f"k{first + i}" for i in range(count)])


def entries(path):
    with lw.Ledger(path) as ledger:
        assert ledger.verify().ok
        return [(one.row, one.key, one.output, one.count, one.erased) for one in ledger.entries()]


def test_a_copy_is_verified_and_the_next_one_copies_what_changed(tmp_path):
    rng = np.random.default_rng(0)
    ledger, copy = tmp_path / "ledger", tmp_path / "copy"
    with small_segments(), lw.open(ledger, RULE) as monitor:
        some(monitor, 300, rng)
        first = lw.back_up(ledger, copy)
        assert (first.rows, first.copied, first.unchanged) == (300, 5, 0)
        assert first.head == str(monitor.ledger.head())
        some(monitor, 300, rng)
        second = lw.back_up(ledger, copy)
        assert (second.rows, second.copied, second.unchanged) == (600, 6, 4)
        monitor.erase(key="k70")
        assert entries(copy)[70][1] == "k70"
        third = lw.back_up(ledger, copy)
        assert (third.copied, third.unchanged) == (2, 8)  # that of row 70, and the one in use
        assert entries(copy) == entries(ledger)
    content = b"".join(path.read_bytes() for path in copy.iterdir())
    assert b"k70" not in content
    assert sorted(path.name for path in tmp_path.iterdir()) == ["copy", "ledger"]


def test_a_copy_of_a_ledger_that_is_written_erased_and_dropped_is_of_one_moment(tmp_path):
    rng = np.random.default_rng(1)
    ledger = tmp_path / "ledger"
    stop = threading.Event()
    with small_segments(), lw.open(ledger, RULE, window="400 rows") as monitor:
        some(monitor, 300, rng)

        def write():
            while not stop.is_set():
                some(monitor, 20, rng)
                monitor.erase(rows=[monitor.rows - 5])

        writer = threading.Thread(target=write)
        writer.start()
        try:
            heads = [lw.back_up(ledger, tmp_path / "copy").head for _ in range(4)]
        finally:
            stop.set()
            writer.join()
    with lw.Ledger(tmp_path / "copy") as copied:
        assert copied.verify(heads[-1]).ok and copied.rows > 300
    with lw.open(tmp_path / "copy") as monitor:
        assert monitor.observe([0.5, 0.5], "a").row == copied.rows


def test_a_copy_is_restored_into_a_new_folder_and_gone_on_with(tmp_path):
    rng = np.random.default_rng(2)
    with lw.open(tmp_path / "ledger", RULE) as monitor:
        some(monitor, 200, rng)
    lw.back_up(tmp_path / "ledger", tmp_path / "copy")
    before = entries(tmp_path / "ledger")
    shutil.rmtree(tmp_path / "ledger")
    assert lw.restore(tmp_path / "copy", tmp_path / "ledger").rows == 200
    assert entries(tmp_path / "ledger") == before
    with lw.open(tmp_path / "ledger") as monitor:
        some(monitor, 10, rng)
        assert monitor.rows == 210
    with raises(lw.errors.BadFile):
        lw.restore(tmp_path / "copy", tmp_path / "ledger")


def test_a_copy_of_another_ledger_is_not_replaced(tmp_path):
    for name in ("one", "two"):
        with lw.open(tmp_path / name, RULE) as monitor:
            monitor.observe([0.1, 0.1], "a")
    lw.back_up(tmp_path / "one", tmp_path / "copy")
    with raises(lw.errors.BadFile):
        lw.back_up(tmp_path / "two", tmp_path / "copy")
    with raises(lw.errors.BadFile):
        lw.back_up(tmp_path / "one", tmp_path / "one")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "file").touch()
    with raises(lw.errors.BadFile):
        lw.back_up(tmp_path / "one", tmp_path / "folder")


def test_an_altered_ledger_is_not_copied_over_a_good_copy(tmp_path):
    with lw.open(tmp_path / "ledger", RULE) as monitor:
        some(monitor, 50, np.random.default_rng(3))
    lw.back_up(tmp_path / "ledger", tmp_path / "copy")
    good = entries(tmp_path / "copy")
    name = next((tmp_path / "ledger").glob("*.rows"))
    content = bytearray(name.read_bytes())
    content[3] ^= 1
    name.write_bytes(content)
    with raises(lw.errors.BadFile):
        lw.back_up(tmp_path / "ledger", tmp_path / "copy")
    assert entries(tmp_path / "copy") == good


def test_a_copy_that_was_cut_off_between_its_last_steps_is_there(tmp_path):
    with lw.open(tmp_path / "ledger", RULE) as monitor:
        some(monitor, 50, np.random.default_rng(4))
    lw.back_up(tmp_path / "ledger", tmp_path / "copy")
    (tmp_path / "copy").rename(tmp_path / "copy.before")  # as if killed right then
    assert lw.back_up(tmp_path / "ledger", tmp_path / "copy").rows == 50
    assert not (tmp_path / "copy.before").exists()


def test_a_copy_that_was_cut_off_after_its_last_step_is_made_again_at_once(tmp_path):
    with lw.open(tmp_path / "ledger", RULE) as monitor:
        some(monitor, 50, np.random.default_rng(4))
    lw.back_up(tmp_path / "ledger", tmp_path / "copy")
    shutil.copytree(tmp_path / "copy", tmp_path / "copy.before")  # as if killed right then
    assert lw.back_up(tmp_path / "ledger", tmp_path / "copy").rows == 50
    assert not (tmp_path / "copy.before").exists()


def test_opening_waits_for_another_process_to_let_go(tmp_path):
    first = lw.open(tmp_path, RULE)
    first.observe([0.1, 0.1], "a")
    with raises(lw.errors.BadFile):
        lw.open(tmp_path, wait=0.1)
    threading.Timer(0.3, first.close).start()
    with lw.open(tmp_path, wait=20) as second:
        assert second.rows == 1
