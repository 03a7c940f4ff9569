"""What leaves a window leaves memory, and with its file the disk: inputs, outputs, keys and words.

Looked for in every byte of every file, while the ledger is being written: in the log too, and in
what SQLite has set aside.
"""

import gc
import sqlite3
import struct
import tracemalloc
import weakref
from contextlib import closing

import pytest

import likewise as lw
from tests.support.programs import run_python
from tests.support.segments import small_segments

KEEP, ROWS, LAG = 50, 700, 256
"""Rows in the window, rows in all, and how many a row may wait to be let go of, beside its file."""


def letters(texts):
    return [[text.count(one) for one in "abcdefgh"] for text in texts]


TABLE = lw.Rule(
    "l2",
    features={
        "id": {"kind": "key"},
        "age": {"kind": "number", "tolerance": 5},
        "job": {"kind": "category"},
        "town": {"kind": "protected"},
        "message": {"kind": "text", "embed": letters, "tolerance": 1},
    },
    output_column="answer",
)
VECTORS = lw.Rule("linf", 0.1)
NUMBERS = lw.Rule("linf", 0.1, output="number")


def number_of(i):
    return (i + 3) ** 0.37


def observe(monitor, rule, i):
    if rule is TABLE:
        return monitor.observe(
            {
                "id": f"the key of {i:06}.",
                "age": number_of(i),
                "job": f"the job of {i:06}." if i % 3 else "cook",
                "town": f"the town of {i:06}.",
                "message": f"the message of {i:06}." if i % 5 else "abc",
                "answer": f"the answer to {i:06}." if i % 2 else "yes",
            }
        )
    output = number_of(i) * 7 if rule is NUMBERS else f"the answer to {i:06}."
    return monitor.observe([number_of(i), 1.0], output, key=f"the key of {i:06}.")


def needles(rule, i):
    """Bytes that nothing but that row has."""
    words = ["key of", "answer to"]
    words += ["job of", "town of", "message of"] if rule is TABLE else []
    numbers = [number_of(i)] + [number_of(i) * 7] * (rule is NUMBERS)
    return [f"the {word} {i:06}.".encode() for word in words] + [
        struct.pack(order, number) for number in numbers for order in ("<d", ">d")
    ]


def rows_found(folder, rule, rows):
    """Those of which something is in some file."""
    content = b"".join(path.read_bytes() for path in sorted(folder.iterdir()))
    return [i for i in rows if any(needle in content for needle in needles(rule, i))]


@pytest.mark.long
@pytest.mark.parametrize(
    ("rule", "durability"),
    [
        pytest.param(TABLE, "commit", marks=pytest.mark.slow),
        (TABLE, "batch"),
        (TABLE, "off"),
        (VECTORS, "batch"),
        (NUMBERS, "batch"),
    ],
    ids=["table-commit", "table-batch", "table-off", "labels", "numbers"],
)
def test_what_left_with_its_file_is_in_no_file(tmp_path, rule, durability):
    folder = tmp_path / "ledger"
    with small_segments() as segment:
        with lw.open(folder, rule, window=f"{KEEP} rows", durability=durability) as monitor:
            for i in range(ROWS):
                observe(monitor, rule, i)
                if i in (340, 600, ROWS - 1):
                    monitor.flush()
                    with lw.Ledger(folder) as ledger:
                        first = ledger.first
                    assert first > i - KEEP - LAG - segment
                    assert rows_found(folder, rule, range(first)) == []
                    assert rows_found(folder, rule, range(first, i + 1)) == [*range(first, i + 1)]
            assert monitor.ledger.verify().ok
        assert rows_found(folder, rule, range(first)) == []
        with lw.open(folder, rule) as monitor:  # which lets go of all that left the window
            with lw.Ledger(folder) as ledger:
                first = ledger.first
            assert first > ROWS - KEEP - segment
            assert rows_found(folder, rule, range(first)) == []
            assert monitor.ledger.verify().ok
            for i in range(ROWS, ROWS + 10):
                observe(monitor, rule, i)
    assert lw.replay(folder).ok if rule is not TABLE else lw.Ledger(folder).verify().ok


def test_reader_keeps_the_log_until_it_is_done(tmp_path):
    folder = tmp_path / "ledger"
    with (
        small_segments(),
        lw.open(folder, VECTORS, window=f"{KEEP} rows", durability="off") as monitor,
    ):
        for i in range(100):
            observe(monitor, VECTORS, i)
        monitor.flush()
        with closing(sqlite3.connect(folder / "ledger.sqlite")) as reader:
            reader.execute("BEGIN")  # a long look, in the middle of which files leave
            assert reader.execute("SELECT count(*) FROM key").fetchone() == (100,)
            for i in range(100, 700):
                observe(monitor, VECTORS, i)
            monitor.flush()
            assert rows_found(folder, VECTORS, range(100)) != []
            assert reader.execute("SELECT count(*) FROM key").fetchone() == (100,)
        for i in range(700, 700 + LAG + 10):
            observe(monitor, VECTORS, i)
        monitor.flush()
        with lw.Ledger(folder) as ledger:
            first = ledger.first
        assert first > 500
        assert rows_found(folder, VECTORS, range(first)) == []


class Word(str):
    """Text of which can be told whether anything still holds it."""


def test_words_and_keys_leave_memory_within_one_file(tmp_path):
    kinds = ("id", "job", "town", "message", "answer")
    held = {}
    with (
        small_segments() as segment,
        lw.open(tmp_path / "ledger", TABLE, window=f"{KEEP} rows", durability="off") as monitor,
    ):
        for i in range(ROWS):
            row = {name: Word(f"{name} {i:06}") for name in kinds}
            held |= {(i, name): weakref.ref(one) for name, one in row.items()}
            monitor.observe({**row, "age": 40})
            del row
        gc.collect()
        there = [i for (i, _), word in held.items() if word() is not None]
        assert min(there) > ROWS - 1 - KEEP - LAG - segment
        assert len(there) >= KEEP  # those in the window are held, so the test can tell


def bytes_for_each_that_has_left(folder):
    """How much the memory of this process grew with each decision that left the window."""
    rule = lw.Rule(
        features={"age": {"kind": "number", "tolerance": 5}, "job": {"kind": "category"}},
        output_column="answer",
    )
    with (
        small_segments(),
        lw.open(folder, rule, window=f"{KEEP} rows", durability="off") as monitor,
    ):

        def least_held(rows):
            """The least memory in use while these are observed: rows leave in bursts."""
            held = []
            for i in rows:
                monitor.observe({"age": 40, "job": f"{i:0200}", "answer": f"{i:0100}"})
                if i % 16 == 0:
                    monitor.flush()
                    gc.collect()
                    held.append(tracemalloc.get_traced_memory()[0])
            return min(held)

        gc.freeze()  # what is there already is not gone through each time
        tracemalloc.start()
        least_held(range(LAG))
        before = least_held(range(LAG, 2 * LAG))
        least_held(range(2 * LAG, 4 * LAG))
        after = least_held(range(4 * LAG, 5 * LAG))
        tracemalloc.stop()
    return (after - before) / (3 * LAG)


@pytest.mark.long
def test_memory_does_not_grow_with_words_that_have_left(tmp_path):
    """In a process of its own: whatever else runs in this one would be counted too."""
    program = f"""if True:
        from tests.ledger.test_window_leaves import bytes_for_each_that_has_left
        print(bytes_for_each_that_has_left({str(tmp_path / "ledger")!r}))
    """
    done = run_python("-c", program)
    assert float(done.stdout) < 100, "bytes for each decision that has left"


def test_a_file_that_an_interrupted_window_left_goes_when_the_ledger_is_opened(tmp_path):
    """As if killed after the database was told, before the file was deleted."""
    folder = tmp_path / "ledger"
    with small_segments(), lw.open(folder, TABLE, window="50 rows", durability="off") as monitor:
        for i in range(ROWS):
            observe(monitor, TABLE, i)
    with lw.Ledger(folder) as ledger:
        first = ledger.first
    assert first >= 128
    old = folder / f"{first - 64:012}.rows"
    old.write_bytes(b"".join(needles(TABLE, first - 3)))
    assert rows_found(folder, TABLE, [first - 3]) == [first - 3]
    with lw.open(folder, TABLE) as monitor:
        assert not old.exists()
        assert rows_found(folder, TABLE, range(first)) == []
        assert monitor.ledger.verify().ok
