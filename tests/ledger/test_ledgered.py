"""The monitor with a ledger: what it takes, what it refuses, and when things are on disk."""

import datetime
import decimal
import enum
import time

import numpy as np
import pytest

import likewise as lw
from likewise.ledger import write_buffer
from tests.support.programs import run_python
from tests.support.refusals import raises

RULE = lw.Rule("linf", 0.1)


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "ledger"


def rows_on_disk(folder) -> int:
    with lw.Ledger(folder) as ledger:
        return ledger.rows


def test_commit_answers_when_the_decision_is_on_disk(folder):
    with lw.open(folder, RULE) as monitor:
        for i in range(5):
            monitor.observe([i], i)
            assert rows_on_disk(folder) == i + 1
        monitor.observe_many([[7.0], [8.0]], [1, 2])
        assert rows_on_disk(folder) == 7


def test_the_rule_is_not_read_again_for_every_contradiction(folder, monkeypatch):
    features = {"a": lw.Feature("number", tolerance=1), "sex": lw.Feature("protected")}
    rule = lw.Rule("linf", 1.0, features=features, output_column="z")
    read, times = lw.Rule.from_toml, []
    monkeypatch.setattr(lw.Rule, "from_toml", lambda text: times.append(text) or read(text))
    with lw.open(folder, rule) as monitor:
        counts = []
        for i in range(6):
            assert monitor.observe({"a": 1.0, "sex": "f", "z": i}).violation == (i > 0)
            counts.append(len(times))
    assert counts[1] == counts[-1], "after the first contradiction"


@pytest.mark.parametrize("durability", ["batch", "off"])
def test_batch_writes_by_number_and_by_time(folder, durability):
    with lw.open(folder, RULE, durability=durability, batch_rows=4, batch_seconds=60) as monitor:
        on_disk = []
        for i in range(10):
            monitor.observe([i], i)
            on_disk.append(rows_on_disk(folder))
        assert on_disk == [0, 0, 0, 0, 4, 4, 4, 4, 8, 8]
        monitor.flush()
        assert rows_on_disk(folder) == 10
        monitor.observe([10], 10)
    assert rows_on_disk(folder) == 11
    with lw.open(folder, durability=durability, batch_rows=10**6, batch_seconds=0.05) as monitor:
        monitor.observe([11], 11)
        waited = time.monotonic() + 20
        while rows_on_disk(folder) < 12 and time.monotonic() < waited:
            time.sleep(0.01)
        assert rows_on_disk(folder) == 12


def test_what_waits_is_written_when_the_program_ends(folder):
    program = f"""
import likewise as lw
monitor = lw.open({str(folder)!r}, lw.Rule("linf", 0.1), durability="batch", batch_seconds=60)
for i in range(9):
    monitor.observe([i], i)
"""
    run_python("-c", program)
    assert rows_on_disk(folder) == 9


def test_other_rule_is_refused_and_the_difference_told(folder):
    lw.open(folder, lw.Rule("linf", 0.1, weights=[1, 2])).close()
    with raises(lw.errors.BadRule):
        lw.open(folder, lw.Rule("l2", 0.1, slack=0))
    lw.open(folder, lw.Rule("linf", 0.1, weights=[1, 2])).close()  # and the lock is free again


REFUSED = {
    "no rule": (lw.open, lw.errors.BadFile),
    "no such rule": (lambda path: lw.open(path, "linf"), lw.errors.BadRule),
    "durability": (lambda path: lw.open(path, RULE, durability="x"), lw.errors.BadRule),
    "window": (lambda path: lw.open(path, RULE, window="5 cats"), lw.errors.BadRule),
    "no window": (lambda path: lw.open(path, RULE, window="0 rows"), lw.errors.BadRule),
    "batch": (
        lambda path: lw.open(path, RULE, durability="batch", batch_rows=0),
        lw.errors.BadRule,
    ),
    "nothing to look at": (lw.Ledger, lw.errors.BadFile),
}


@pytest.mark.parametrize(("do", "kind"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_opened_is_refused_and_leaves_no_folder(folder, do, kind):
    with raises(kind):
        do(folder)
    assert not folder.exists()


def test_folder_with_other_files_is_left_alone(folder):
    folder.mkdir()
    (folder / "thesis.txt").write_text("years of work")
    with raises(lw.errors.BadFile):
        lw.open(folder, RULE)
    assert [file.name for file in folder.iterdir()] == ["thesis.txt"]


BAD = {
    "a key twice": ({"key": "a"}, lw.errors.RepeatedKey),
    "a key that is a list": ({"key": [1]}, lw.errors.UnexpectedValue),
    "a key without UTF-8": ({"key": "\ud800"}, lw.errors.UnexpectedValue),
    "a key too large": ({"key": 2**63}, lw.errors.UnexpectedValue),
    "no time": ({"time": "noon"}, lw.errors.UnexpectedValue),
    "an endless time": ({"time": float("inf")}, lw.errors.UnexpectedValue),
    "a label of no known type": ({"z": object}, lw.errors.UnexpectedValue),
    "an input": ({"x": [np.nan]}, lw.errors.UnexpectedValue),
}


@pytest.mark.parametrize(("change", "kind"), BAD.values(), ids=BAD)
def test_refused_decision_leaves_no_trace(folder, change, kind):
    with lw.open(folder, RULE) as monitor:
        monitor.observe([0.5], "yes", key="a")
        before = monitor.ledger.head()
        given = {"x": [0.5], "z": "no", **change}
        x, z = given.pop("x"), given.pop("z")
        with raises(kind):
            monitor.observe(x, z, **given)
        many = {f"{name}s": ["b", one] for name, one in given.items() if name == "key"}
        many |= {f"{name}s": [0, one] for name, one in given.items() if name == "time"}
        with raises(kind):
            monitor.observe_many([[0.4], x], ["yes", z], **many)
        assert monitor.ledger.head() == before
        assert monitor.observe([0.5], "no", key="b").row == 1
        with raises(lw.errors.WrongShape):
            monitor.observe_many([[0.4]], ["yes"], keys=["c", "d"])
        with raises(lw.errors.WrongShape):
            monitor.load([[0.4]], ["yes"], times=[1, 2])


class Grade(enum.StrEnum):
    GOOD = "good"


LABELS = [
    "text",
    7,
    2.5,
    True,
    None,
    ("a", (1, None)),
    datetime.date(2026, 1, 31),
    datetime.datetime(2026, 1, 31, 8, tzinfo=datetime.UTC),
    datetime.time(8, 30),
    decimal.Decimal("1.10"),
    b"\x00\xff",
    float("inf"),
    np.int64(12),
    Grade.GOOD,
    "naïve\n'\"\\",
]


def test_labels_come_back_equal_and_of_their_type(folder):
    twin = lw.Monitor(RULE)
    with lw.open(folder, RULE) as monitor:
        for label in LABELS:
            monitor.observe([0.5], label)
            twin.observe([0.5], label)
    with lw.Ledger(folder) as ledger:
        for row, label in enumerate(LABELS):
            found = ledger.entry(row).output
            assert found == label
            assert isinstance(label, (type(found), np.int64))
    with lw.open(folder) as monitor:
        for label in LABELS:
            assert monitor.observe([0.5], label).witnesses == twin.observe([0.5], label).witnesses


@pytest.mark.parametrize(
    "time",
    [
        1_700_000_000,
        1.7e9,
        "2023-11-14T22:13:20Z",
        "2023-11-14T22:13:20",
        "2023-11-14T23:13:20+01:00",
        datetime.datetime(2023, 11, 14, 22, 13, 20),
        np.datetime64("2023-11-14T22:13:20"),
    ],
)
def test_times_of_any_kind_are_one_time(folder, time):
    with lw.open(folder, RULE) as monitor:
        monitor.observe([0.5], "yes", time=time)
        monitor.observe_many([[0.5]], ["yes"], times=np.array([time]))
    with lw.Ledger(folder) as ledger:
        assert {entry.time for entry in ledger.entries()} == {"2023-11-14T22:13:20Z"}


@pytest.mark.parametrize("durability", ["commit", "batch"])
def test_memory_that_was_left_ahead_is_made_anew(folder, durability, monkeypatch):
    """Something breaks between judging and writing: an interrupt, say."""
    twin = lw.Monitor(RULE)
    with lw.open(folder, RULE, durability=durability, batch_seconds=60) as monitor:
        for i in range(5):
            monitor.observe([i / 50], i % 2)
            twin.observe([i / 50], i % 2)
        with monkeypatch.context() as patch:
            patch.setattr(write_buffer.UnwrittenDecisions, "of_one", interrupt)
            with pytest.raises(KeyboardInterrupt):
                monitor.observe([0.5], "never")
        assert monitor.check([0.0], 1).witnesses == twin.check([0.0], 1).witnesses
        for i in range(5):
            mine, theirs = monitor.observe([i / 50], i % 2), twin.observe([i / 50], i % 2)
            assert (mine.row, mine.witnesses) == (theirs.row, theirs.witnesses)
        assert monitor.ledger.verify().ok
    with lw.Ledger(folder) as ledger:
        assert [entry.output for entry in ledger.entries()] == [0, 1, 0, 1, 0] * 2


def interrupt(*_, **__):
    raise KeyboardInterrupt


def test_row_or_key_that_is_not_there_is_told(folder):
    with lw.open(folder, RULE) as monitor:
        monitor.observe([0.5], "yes", key=5)
        assert (monitor.row_of(5), monitor.row_of("5")) == (0, None)
        with raises(lw.errors.BadRow):
            monitor.erase(key="5")
        with pytest.raises(lw.errors.BadRow):
            monitor.erase(rows=[3])
        with pytest.raises(TypeError, match="erase takes a key, or keys, or rows"):
            monitor.erase()
        assert monitor.erase(key=[5]).rows == (0,)
        assert monitor.erase(rows=[0]).rows == ()
        with raises(lw.errors.ErasedKey, key=5):
            monitor.observe([0.5], "no", key=5)
        monitor.observe([0.5], "no", key=6)
        with raises(lw.errors.BadRule):
            monitor.past.values(1)
    with lw.Ledger(folder) as ledger:
        with raises(lw.errors.BadRow, row=9):
            ledger.entry(9)
        with raises(lw.errors.BadRow, row=0):
            ledger.values(0)
        assert ledger.entry(0).erased
        assert ledger.row_of(6) == 1


def test_replay_names_the_first_verdict_that_differs(folder, monkeypatch):
    rng = np.random.default_rng(0)
    x, z = rng.random((300, 2)), rng.integers(0, 2, 300).tolist()
    honest = write_buffer.select_nearest

    def forged(verdicts, most):
        kept = honest(verdicts, most)
        kept.of(150)["input_distance"][0] /= 2
        return kept

    with monkeypatch.context() as patch, lw.open(folder, RULE) as monitor:
        patch.setattr(write_buffer, "select_nearest", forged)
        monitor.observe_many(x, z)
        assert monitor.ledger.verify().ok  # the chain holds, since it was forged before it was made
    found = lw.replay(folder)
    assert (found.ok, found.row) == (False, 150)
    assert "its nearest witnesses were written as" in str(found)


def test_inputs_may_stay_on_disk(tmp_path):
    rng = np.random.default_rng(8)
    x = rng.integers(0, 255, (120, 8, 8, 3), dtype=np.uint8)
    x[60:] = np.clip(x[:60].astype(int) + rng.integers(-6, 7, x[:60].shape), 0, 255)
    z = rng.choice(["cat", "dog"], 120).tolist()
    rule = lw.Rule("linf", 6, storage="uint8")
    expected = lw.Monitor(rule).observe_many(x, z)
    assert expected.pairs > 15
    with lw.open(tmp_path, rule, inputs="disk") as monitor:
        first = monitor.observe_many(x[:50], z[:50])
        monitor.erase(rows=[3])
        names = sorted(path.name for path in tmp_path.iterdir())
        assert not [name for name in names if name.startswith("inputs")]
    with lw.open(tmp_path, inputs="disk") as monitor:
        found = [first, monitor.observe_many(x[50:], z[50:])]
        assert monitor.rows == 120
        assert monitor.ledger.verify().ok
    pairs = {
        (int(row), int(other))
        for part in found
        for row, other in zip(part.first_row + part.owners, part.witnesses.rows, strict=True)
    }
    all_pairs = zip(expected.owners, expected.witnesses.rows, strict=True)
    assert pairs == {(int(i), int(j)) for i, j in all_pairs if j != 3}
    with raises(lw.errors.BadRule, setting="inputs"):
        lw.open(tmp_path, inputs="both")
