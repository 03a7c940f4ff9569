"""Rows in a file: room is claimed before it is used, and what was written stays."""

import mmap
import os

import numpy as np
import pytest

import likewise as lw
from likewise.search.history import row_files
from likewise.search.history.row_files import RowFile
from tests.support.refusals import raises


@pytest.fixture(autouse=True)
def small_steps(monkeypatch):
    """Claim 64 KiB at a time."""
    monkeypatch.setattr(row_files, "_STEP", 1 << 16)


def opened(path, row_bytes: int) -> RowFile:
    rows = RowFile(path)
    rows.begin(row_bytes)
    return rows


def test_a_file_is_made_at_once_and_grows_with_its_rows(tmp_path):
    rows = opened(tmp_path / "rows", 24)
    assert (tmp_path / "rows").stat().st_size == 0
    assert (rows.rows, rows.size) == (0, 0)
    for wanted in (1, 100, 5_000, 5_001, 60_000):
        before = rows.rows
        rows.grow(wanted)
        assert rows.rows >= wanted and rows.rows > before
        assert rows.size == rows.rows * 24 == (tmp_path / "rows").stat().st_size
        view = rows.view(np.float64, 3 * wanted)
        assert view.ctypes.data == rows.address
        view[-3:] = wanted
    written = np.memmap(tmp_path / "rows", np.float64).reshape(-1, 3)
    for wanted in (1, 100, 5_000, 5_001, 60_000):
        assert written[wanted - 1].tolist() == [wanted] * 3, "growing kept what was there"
    rows.close(60_000)


def test_closing_keeps_the_rows_asked_for_and_nothing_else(tmp_path):
    for keep in (0, 1, 77):
        rows = opened(tmp_path / f"{keep}", 10)
        rows.grow(100)
        rows.view(np.uint8, 1_000)[:] = 7
        rows.close(keep)
        assert (tmp_path / f"{keep}").read_bytes() == b"\7" * 10 * keep
        rows.close(50)
        assert (tmp_path / f"{keep}").stat().st_size == 10 * keep, "closed once is closed"


def test_pages_are_let_go_in_time_and_read_back(tmp_path, monkeypatch):
    monkeypatch.setattr(row_files, "RESIDENT", 1 << 16)
    let_go = []
    rows = opened(tmp_path / "rows", 1 << 10)
    rows.grow(1_000)

    class Watched(mmap.mmap):
        def madvise(self, *how):
            let_go.append(how)
            return super().madvise(*how)

    rows._map = Watched(rows._file, rows.size)
    rows.memory = np.frombuffer(rows._map, dtype=np.uint8)
    for row in range(1_000):
        rows.view(np.uint8, 1_000 << 10)[row << 10] = row % 251
        rows.note_touched(1)
    assert len(let_go) == 1_000 // 65
    assert rows.memory[:: 1 << 10][:1_000].tolist() == [row % 251 for row in range(1_000)]
    rows.close(1_000)


@pytest.mark.parametrize("what", ["something in it", "a folder", "no folder"])
def test_a_place_that_cannot_be_used_is_refused_and_left_alone(what, tmp_path):
    place = tmp_path / "rows"
    if what == "something in it":
        place.write_bytes(b"precious")
    elif what == "a folder":
        place.mkdir()
    else:
        place = tmp_path / "not there" / "rows"
    with raises(lw.errors.BadFile) as error:
        opened(place, 8)
    assert isinstance(error.value, ValueError)
    assert what != "something in it" or place.read_bytes() == b"precious"
    assert place.exists() == (what != "no folder")


def test_a_file_that_cannot_grow_stays_as_it_was(tmp_path, monkeypatch):
    rows = opened(tmp_path / "rows", 16)
    rows.grow(10)
    size, held = rows.size, rows.rows
    rows.view(np.uint8, 160)[:] = 5

    def full(*_):
        raise OSError(28, "No space left on device")

    if not hasattr(os, "posix_fallocate"):
        pytest.skip("space cannot be claimed on this system")
    monkeypatch.setattr(os, "posix_fallocate", full)
    with raises(lw.errors.BadFile):
        rows.grow(10**6)
    assert (rows.size, rows.rows) == (size, held) and (tmp_path / "rows").stat().st_size == size
    assert (rows.view(np.uint8, 160) == 5).all()
    monkeypatch.undo()
    rows.grow(10**5)
    assert (rows.view(np.uint8, 160) == 5).all()
    rows.close(10)
    assert (tmp_path / "rows").read_bytes() == b"\5" * 160


def test_an_empty_file_may_be_used_and_its_owner_alone_may_read_it(tmp_path):
    (tmp_path / "rows").touch()
    opened(tmp_path / "rows", 8).close(0)
    opened(tmp_path / "new", 8).close(0)
    assert (tmp_path / "new").stat().st_mode & 0o077 == 0


def test_what_was_begun_and_cut_off_is_begun_again(tmp_path):
    rows = opened(tmp_path / "rows", 8)
    rows.grow(100)
    rows.view(np.uint8, 800)[:] = 7
    rows.begin(16)  # the history that had grown it was never finished
    assert (tmp_path / "rows").stat().st_size == rows.rows == 0
    rows.grow(1)
    assert not rows.view(np.uint8, 16).any()
    rows.close(1)


def test_a_file_is_one_monitors_from_the_beginning(tmp_path):
    first = lw.Monitor(lw.Rule("linf", 0.1), row_file=tmp_path / "rows")
    with raises(lw.errors.BadFile):
        lw.Monitor(lw.Rule("linf", 0.1), row_file=tmp_path / "rows")
    first.observe([0.5], "yes")
    first.close()
    assert (tmp_path / "rows").read_bytes() == np.array([0.5]).tobytes()
