"""The spill folder: what is written there comes back, whole, in order, and once."""

import datetime
import decimal
import os
import shutil

import numpy as np
import pytest

import likewise as lw
from likewise.buffering import frames
from likewise.buffering.decisions import SubmittedDecision
from likewise.buffering.position import DECISIONS, LOSSES, Intention, Position
from likewise.buffering.recovery import recovered
from likewise.buffering.spill import Spill
from likewise.reading.protocol import FROM_ROW
from tests.buffering.slow import RULE
from tests.looping import each
from tests.refusals import raises

VALUES = [
    np.arange(6, dtype=np.float32).reshape(2, 3),
    np.array([1, 255], np.uint8),
    np.array(3.5),
    np.array([], np.int64),
    {"age": 41, "job": "nurse", "when": datetime.date(2024, 3, 1), "pay": decimal.Decimal("1.10")},
    {"x": None, "ünï": "\ud800", "list": ["array", 1, [2, (3, "tuple")]], "raw": b"\x00\xff"},
    "a text",
    float("inf"),
    2**80,
]


@each("x", VALUES, ids=range(len(VALUES)))
@each("z", ["yes", None, FROM_ROW, True, 0.1, ("a", 1), np.array([0.5, 0.5])])
def test_decision_comes_back_as_it_was_written(x, z):
    decision = SubmittedDecision(x, z, "key 1", 1_700_000_000_000_000, 17, None)
    frames.check(decision)
    data = b"".join([frames.frame(5, decision), frames.frame(6, decision)])
    number, body, stop = frames.next_frame(data, 0)
    again = frames.decision_of(body)
    assert number == 5 and frames.next_frame(data, stop)[0] == 6
    for name, value in decision._asdict().items():
        read = getattr(again, name)
        if isinstance(value, np.ndarray):
            assert read.dtype == value.dtype and read.shape == value.shape
            assert read.tobytes() == value.tobytes() and read.flags.writeable
        else:
            assert type(read) is type(value) and read == value


def test_scalars_of_numpy_are_written_as_what_they_mean():
    decision = SubmittedDecision(
        [np.float64(0.25), np.int64(3)], np.str_("yes"), np.int32(7), None, 1
    )
    frames.check(decision)
    again = frames.decision_of(frames.body_of(decision))
    assert again[:3] == ([0.25, 3], "yes", 7)


@pytest.mark.parametrize("at", [0, 3, 4, 9, 17, 25, -1])
def test_frame_that_was_changed_or_cut_off_is_none(at):
    data = frames.frame(3, SubmittedDecision(np.arange(3.0), "yes", None, None, 1))
    changed = bytearray(data)
    changed[at] ^= 1
    assert frames.next_frame(bytes(changed), 0) is None
    assert frames.next_frame(data[:-1], 0) is None
    assert frames.next_frame(data, 0) is not None


def test_body_that_makes_no_sense_is_a_bad_file():
    for body in (b"", b"\x02\x00\x00\x00{}", b"\x09\x00\x00\x00{}", b"\x02\x00\x00\x00no"):
        with raises(lw.BadFile):
            frames.decision_of(body)


def decision(number):
    return SubmittedDecision(np.array([float(number)]), "yes", None, None, number)


@pytest.fixture
def spill(tmp_path):
    made = Spill(tmp_path / "s", most_bytes=1 << 20, fsync=False)
    made.find()
    yield made
    made.close()


def numbers(batch):
    return [entry[0] for entry in batch]


def test_frames_are_read_in_order_over_several_files(spill):
    spill._file_bytes = 300
    for number in range(10, 60):
        assert spill.append(number, decision(number))
    assert len(spill._files) > 5 and spill.waiting == 50 and spill.next_number == 60
    seen = []
    while spill.waiting:
        batch = spill.read(7)
        assert spill.read(7) == batch or True  # reading again before `took` gives the same
        spill.took(batch)
        seen += numbers(batch)
        assert [entry[2].x.tolist() for entry in batch] == [[float(n)] for n in numbers(batch)]
        spill.position.settle(len(batch), batch[-1][0] + 1)
        spill.release()
    assert seen == list(range(10, 60)) and spill.bytes == 0
    assert not list(spill.folder.glob("*.frames"))
    assert spill.next_number == 60


def test_what_is_not_settled_waits_again_after_rewinding_or_opening_again(tmp_path):
    spill = Spill(tmp_path / "s", most_bytes=1 << 20, fsync=True)
    spill.find()
    spill._file_bytes = 300
    for number in range(20):
        spill.append(number, decision(number))
    batch = spill.read(12)
    spill.took(batch)
    spill.position.settle(8, 8)
    spill.release()
    assert spill.waiting == 8
    spill.rewind()
    assert spill.waiting == 12 and numbers(spill.read(3)) == [8, 9, 10]
    spill.close()
    again = Spill(tmp_path / "s", most_bytes=1 << 20, fsync=False)
    again.find()
    assert again.waiting == 12 and numbers(again.read(100)) == list(range(8, 20))
    again.close()


@pytest.mark.parametrize("cut", [1, 10, 40])
def test_frame_that_was_cut_off_by_a_crash_is_not_there(tmp_path, cut):
    spill = Spill(tmp_path / "s", most_bytes=1 << 20, fsync=False)
    spill.find()
    for number in range(5):
        spill.append(number, decision(number))
    spill.close()
    (file,) = (tmp_path / "s").glob("*.frames")
    os.truncate(file, file.stat().st_size - cut)
    again = Spill(tmp_path / "s", most_bytes=1 << 20, fsync=False)
    again.find()
    assert numbers(again.read(100)) == [0, 1, 2, 3]
    assert again.append(5, decision(5)), "the next frame goes to another file"
    assert numbers(again.read(100)) == [0, 1, 2, 3, 5]
    again.close()


def test_leftovers_of_an_interrupted_append_are_written_over(tmp_path):
    spill = Spill(tmp_path / "s", most_bytes=1 << 20, fsync=False)
    spill.find()
    spill.append(0, decision(0))
    (file,) = spill._files
    os.pwrite(
        file.descriptor,
        frames.frame(1, SubmittedDecision("long" * 50, 0, None, None, 1)),
        file.mark[0],
    )
    assert spill.append(1, decision(1)) and numbers(spill.read(10)) == [0, 1]
    spill.close()
    again = Spill(tmp_path / "s", most_bytes=1 << 20, fsync=False)
    again.find()
    assert numbers(again.read(10)) == [0, 1]
    again.close()


def test_damaged_frame_loses_what_follows_in_its_file_and_says_how_much(spill):
    spill._file_bytes = 500
    for number in range(40):
        spill.append(number, decision(number))
    file = spill._files[1]
    frames_in_it = file.mark[1]
    os.pwrite(file.descriptor, b"\xff", file.mark[0] // 2)
    batch = spill.read(100)
    spill.took(batch)
    assert 0 < spill.unreadable < frames_in_it
    assert len(batch) + spill.unreadable == 40 and spill.waiting == 0
    assert numbers(batch)[-1] == 39


def test_folder_belongs_to_one_process_at_a_time(spill):
    with raises(lw.BadFile):
        Spill(spill.folder, most_bytes=1000, fsync=False)
    with raises(lw.BadFile):
        lw.buffered(lw.Monitor(RULE), when_full="spill", spill=spill.folder)


def test_files_are_for_their_owner_alone(spill):
    spill.append(0, decision(0))
    assert oct(spill.folder.stat().st_mode & 0o777) == "0o700"
    for path in spill.folder.iterdir():
        assert oct(path.stat().st_mode & 0o777) == "0o600", path


# The position


def test_position_outlives_the_process(tmp_path):
    position = Position(tmp_path / "p", fsync=True)
    position.give(41)
    position.settle(30, 35)
    position.intend(Intention(DECISIONS, 4, 39, 30, True))
    position.close()
    again = Position(tmp_path / "p", fsync=False)
    assert (again.given, again.settled, again.done) == (42, 30, 35)
    assert again.intention == (DECISIONS, 4, 39, 30, True)
    again.close()


def test_position_that_was_being_written_is_the_one_before(tmp_path):
    position = Position(tmp_path / "p", fsync=False)
    for count in range(1, 6):
        position.settle(1, count)
    place = (512, 1024)[position._turn % 2]
    position._map[place + 10] ^= 255  # the last writing was cut off
    position.close()
    again = Position(tmp_path / "p", fsync=False)
    assert (again.settled, again.done) == (4, 4)
    again._map[512:1100] = bytes(588)
    again.close()
    with raises(lw.BadFile):
        Position(tmp_path / "p", fsync=False)


# Recovery


def left_behind(folder, *, given, settled, done, waiting, intention):
    spill = Spill(folder, most_bytes=1 << 20, fsync=False)
    spill.find()
    for number in waiting:
        spill.append(number, decision(number))
    spill.position.give(given - 1)
    spill.position.settle(settled, done)
    spill.position.intend(intention)
    spill.close()


def again(folder, monitor):
    spill = Spill(folder, most_bytes=1 << 20, fsync=False)
    try:
        found = recovered(spill, monitor)
        return found, numbers(spill.read(100)), spill.position.settled
    finally:
        spill.close()


@pytest.mark.parametrize(("rows", "stored"), [(10, False), (14, True)])
def test_what_was_being_told_is_stored_if_the_ledger_has_grown_by_it(tmp_path, rows, stored):
    left_behind(
        tmp_path / "s", given=30, settled=10, done=10, waiting=range(10, 25),
        intention=Intention(DECISIONS, 4, 14, 10, True),
    )  # fmt: skip
    with lw.open(tmp_path / "ledger", RULE) as monitor:
        monitor.observe_many([[float(i)] for i in range(rows)], [0] * rows)
        found, waiting, settled = again(tmp_path / "s", monitor)
    assert waiting == list(range(14 if stored else 10, 25))
    assert settled == (14 if stored else 10)
    assert (found.next_number, found.lost) == (30, 5), "25 to 29 waited in memory"


def test_ledger_that_something_else_has_written_to_is_not_guessed_about(tmp_path):
    left_behind(
        tmp_path / "s", given=14, settled=10, done=10, waiting=(),
        intention=Intention(DECISIONS, 4, 14, 10, True),
    )  # fmt: skip
    with lw.open(tmp_path / "ledger", RULE) as monitor:
        monitor.observe_many([[float(i)] for i in range(12)], [0] * 12)
        with raises(lw.BadFile):
            lw.buffered(monitor, when_full="spill", spill=tmp_path / "s")
        shutil.rmtree(tmp_path / "s")
        with lw.buffered(monitor, when_full="spill", spill=tmp_path / "s") as buffer:
            assert buffer.submit([0.1], 0).number == 0


@pytest.mark.parametrize(("told", "settled"), [(0, 10), (3, 13)])
def test_loss_that_was_being_told_is_told_once(tmp_path, told, settled):
    left_behind(
        tmp_path / "s", given=13, settled=10, done=10, waiting=(),
        intention=Intention(LOSSES, 3, 0, 0, True),
    )  # fmt: skip
    with lw.open(tmp_path / "ledger", RULE) as monitor:
        if told:
            monitor.lost(told, "spill_full")
        with lw.buffered(monitor, when_full="spill", spill=tmp_path / "s") as buffer:
            assert monitor.missing == 3, "told at once, though nothing is submitted"
            assert buffer.stats.lost == ({} if told else {"crash": 3})
        assert monitor.missing == 3


def test_history_in_memory_is_gone_so_what_was_being_told_is_told_again(tmp_path):
    left_behind(
        tmp_path / "s", given=20, settled=10, done=10, waiting=range(10, 20),
        intention=Intention(DECISIONS, 4, 14, 0, False),
    )  # fmt: skip
    monitor = lw.Monitor(RULE)
    monitor.observe_many([[float(i)] for i in range(4)], [0] * 4)
    with lw.buffered(monitor, when_full="spill", spill=tmp_path / "s") as buffer:
        assert buffer.flush(60)
        assert [one.number for one in buffer.results()] == list(range(10, 20))
    assert buffer.stats.all_lost == 0 and monitor.rows == 14
