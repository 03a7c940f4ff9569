"""What docs/ledger-format-1.md says is enough to verify a ledger of format 1."""

import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

import likewise as lw

SCRIPT = Path(__file__).parents[2] / "docs" / "verify_ledger_1.py"
GOLDEN = Path(__file__).parents[1] / "golden" / "ledger-1" / "lived"


def independent(path: Path) -> subprocess.CompletedProcess[str]:
    """The verdict of code that knows nothing of likewise."""
    return subprocess.run(
        [sys.executable, "-I", str(SCRIPT), str(path)], capture_output=True, text=True, check=False
    )


@pytest.fixture(scope="module")
def lived(tmp_path_factory) -> Path:
    """A ledger that has seen everything: keys, erasure, loads, words, a window, several lives."""
    path = tmp_path_factory.mktemp("ledger") / "lived"
    shutil.copytree(GOLDEN, path)
    return path


def test_short_script_without_likewise_verifies_any_ledger(lived):
    lines = [line for line in SCRIPT.read_text().splitlines() if line.strip()]
    assert len(lines) < 80 and "likewise." not in "\n".join(lines)
    with lw.Ledger(lived) as ledger:
        verification = ledger.verify()
        assert verification.ok, verification
        assert verification.first == 128 and verification.erased == 6
        kinds = {event.kind for event in ledger.events()}
        assert kinds >= {"rule", "layout", "words", "window", "erased", "dropped"}
        found = independent(lived)
        assert (found.returncode, found.stdout.strip()) == (0, str(ledger.head)), found.stderr


ALTERATIONS = {
    "a time": ("UPDATE decision SET time = time + 1 WHERE row = 300", 300),
    "a key": ("UPDATE decision SET key = 'other' WHERE row = 301", 301),
    "an output": ("UPDATE decision SET output = 1 - output WHERE row = 302", 302),
    "a count": ("UPDATE decision SET count = 0 WHERE row = (SELECT max(row) FROM decision)", 599),
    "a range": ("UPDATE decision SET first = first + 1 WHERE row = 310", 310),
    "a judgement": ("UPDATE decision SET count = NULL WHERE row = 311", 311),
    "a distance": (
        "UPDATE witness SET input_distance = 0.1 WHERE row = (SELECT max(row) FROM witness)",
        599,
    ),
    "a witness gone": ("DELETE FROM witness WHERE row = 450", 450),
    "a witness more": ("INSERT INTO witness VALUES (451, 9, 3, 0.1, 1)", 451),
    "a row gone": ("DELETE FROM decision WHERE row = 400", None),
    "the last row gone": ("DELETE FROM decision WHERE row = 599", None),
    "a row more": ("INSERT INTO decision VALUES (600, 0, NULL, 0, 0, 0)", None),
    "an erasure pretended": ("UPDATE decision SET output = NULL, key = NULL WHERE row = 305", 305),
    "a word": ("UPDATE word SET value = '\"no\"' WHERE value = '\"yes\"'", None),
    "a word gone": ("UPDATE word SET value = NULL, salt = NULL WHERE value = '\"yes\"'", None),
    "an event": ("UPDATE event SET body = replace(body, '3', '5') WHERE kind = 'erased'", None),
    "an event gone": ("DELETE FROM event WHERE kind = 'erased'", None),
    "the rule": ("UPDATE event SET body = replace(body, '0.2', '0.3') WHERE kind = 'rule'", None),
    "a window": ("UPDATE event SET body = replace(body, '3', '4') WHERE kind = 'window'", None),
}


@pytest.mark.parametrize(("statement", "row"), ALTERATIONS.values(), ids=ALTERATIONS)
def test_alteration_is_found_and_its_row_named(lived, tmp_path, statement, row):
    path = tmp_path / "ledger"
    shutil.copytree(lived, path)
    with sqlite3.connect(path / "ledger.sqlite") as database:
        assert database.execute(statement).rowcount > 0
    database.close()
    if "VALUES (600" in statement:
        with pytest.raises(lw.BadFile, match="row 600 should be there"):
            lw.Ledger(path)
    else:
        with lw.Ledger(path) as ledger:
            found = ledger.verify()
        assert not found.ok
        assert found.bad_row == row, found
        assert found.head is None
    if "value = NULL" not in statement:  # the script does not see a pretended erasure
        assert independent(path).returncode != 0
    with pytest.raises(lw.BadFile):
        lw.open(path).close()


@pytest.mark.parametrize("at", [5, 20, 60, 85, 100])
def test_altered_record_is_found(lived, tmp_path, at):
    path = tmp_path / "ledger"
    shutil.copytree(lived, path)
    name = path / f"{5 * 64:012}.rows"
    content = bytearray(name.read_bytes())
    content[7 * 104 + at] ^= 1
    name.write_bytes(content)
    with lw.Ledger(path) as ledger:
        assert ledger.verify().bad_row == 327
    assert "row 327" in independent(path).stderr


def test_head_from_before_the_window_is_no_alarm_about_the_rows(lived):
    with lw.Ledger(lived) as ledger:
        found = ledger.verify(lw.Head(5, 3, bytes(32), version=1))
    assert "is from before row 128, the first that the window has kept" in str(found)
