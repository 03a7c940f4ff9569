"""A ledger with a window lets go of texts: in memory with their rows, on disk with their files."""

import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

import likewise as lw
from likewise.ledger import record_files
from likewise.monitor.readers.encoding import ERASED

KEEP, ROWS = 100, 900


def letters(texts: list[str]) -> list[list[int]]:
    return [[text.count(one) for one in "abcdefgh"] for text in texts]


RULE = lw.Rule(
    "l2",
    features={"message": {"kind": "text", "embed": letters, "tolerance": 1}},
    output_column="answer",
)


@pytest.fixture
def small_files(monkeypatch):
    monkeypatch.setattr(record_files, "SEGMENT_BYTES", 1 << 12)


def numbers_in(folder: Path) -> set[int]:
    with closing(sqlite3.connect(folder / "ledger.sqlite")) as database:
        held = "".join(line for line in database.iterdump() if 'INTO "word"' in line)
    return {int(number) for number in re.findall(r"private (\d+) abc", held)}


def observe(ledger: lw.Monitor, rows: range) -> None:
    for i in rows:
        ledger.observe({"message": f"private {i} abc", "answer": i % 2})


def test_texts_leave_with_the_window(tmp_path, small_files):
    folder = tmp_path / "ledger"
    with lw.open(folder, RULE, window=f"{KEEP} rows", durability="off") as ledger:
        observe(ledger, range(ROWS))
        first = ledger.ledger.journal.store.first
        assert first > ROWS - 3 * KEEP, "no file of records was dropped"
        known = ledger.core.memory.reader.encoder.vocabularies["message"].values
        assert sum(one is not ERASED for one in known) <= ROWS - first
        assert ledger.ledger.verify().ok
    assert numbers_in(folder) == set(range(first, ROWS))
    assert lw.replay(folder).ok


def test_texts_that_no_row_has_are_found_again_on_opening(tmp_path, small_files):
    folder = tmp_path / "ledger"
    for part in range(0, ROWS, 90):
        with lw.open(folder, RULE, window=f"{KEEP} rows", durability="off") as ledger:
            observe(ledger, range(part, part + 90))
    with lw.open(folder, models=True) as ledger:
        assert numbers_in(folder) == set(range(ledger.ledger.journal.store.first, ROWS))
        verdict = ledger.observe({"message": "private 0 abc", "answer": 5})
        assert len(verdict.witnesses) >= KEEP - 1
        assert ledger.past.values(ROWS)["message"] == "private 0 abc"
        assert ledger.ledger.verify().ok
    assert lw.replay(folder).ok


def test_a_text_that_a_row_still_has_stays(tmp_path, small_files):
    folder = tmp_path / "ledger"
    with lw.open(folder, RULE, window=f"{KEEP} rows", durability="off") as ledger:
        for i in range(ROWS):
            text = "always the same" if i % 3 == 0 else f"private {i} abc"
            ledger.observe({"message": text, "answer": 0})
        assert ledger.past.values(ROWS - 1 - (ROWS - 1) % 3)["message"] == "always the same"
    with lw.open(folder) as ledger:
        assert ledger.past.values(ROWS - 1 - (ROWS - 1) % 3)["message"] == "always the same"
    assert lw.replay(folder).ok
