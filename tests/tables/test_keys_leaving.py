"""Keys of rows that left a window: refused while their rows are on disk, and then forgotten."""

import numpy as np

import likewise as lw
from likewise.ledger import record_files
from likewise.tables.keys import Keys
from tests.support.refusals import raises


def rows(start, stop):
    return np.arange(start, stop)


def test_keys_leave_in_order_and_are_forgotten_with_the_files_of_their_rows():
    keys = Keys()
    keys.add(0, [f"k{i}" if i % 3 else None for i in range(100)])
    for first in range(0, 60, 10):
        keys.leave_window(rows(first, first + 10), 0)
    assert keys.row_of("k50") is None and keys.row_on_disk("k50") == 50
    with raises(lw.errors.BadDecision):
        keys.check(["k1"], 1, 100)
    keys.leave_window(rows(60, 70), 40)
    assert keys.check(["k1", "k38"], 2, 100) == ["k1", "k38"]
    with raises(lw.errors.BadDecision):
        keys.check(["k40"], 1, 100)
    keys.forget(rows(40, 41))  # erased, though it had left
    assert keys.check(["k40"], 1, 100) == ["k40"]
    assert keys.row_of("k70") == 70


def test_keys_in_memory_are_bounded_by_the_window_and_a_file(tmp_path, monkeypatch):
    monkeypatch.setattr(record_files, "SEGMENT_BYTES", 1 << 14)
    most = 0
    with lw.open(tmp_path, lw.Rule("linf", 0.1), window="100 rows", durability="off") as monitor:
        for start in range(0, 6000, 50):
            names = [f"k{i}" for i in range(start, start + 50)]
            monitor.observe_many(np.zeros((50, 1)), ["a"] * 50, keys=names)
            keys = monitor.core.keys
            most = max(most, len(keys._row_of) + len(keys._left_window))
            assert len(keys._row_of) == len(keys._key_of)
        segment = monitor.core.ledger.journal.store.records.segment_rows
    assert segment < 1000
    assert most <= 2 * (segment + 100 + 256), "a window, a file, and what leaves together"
