"""What docs/ledger-format.md says is enough to verify a ledger, and finds what verify() finds."""

import shutil
import sqlite3
import subprocess
from pathlib import Path

import numpy as np
import pytest

import likewise as lw
from tests.support.programs import run_python
from tests.support.refusals import raises

SCRIPT = Path(__file__).parents[2] / "docs" / "verify_ledger.py"


def independent(path: Path) -> subprocess.CompletedProcess[str]:
    """The verdict of code that knows nothing of likewise."""
    return run_python("-I", SCRIPT, path, code=None)


@pytest.fixture(scope="module")
def lived(tmp_path_factory) -> Path:
    """A ledger that has seen everything: keys, erasure, loads, words, a window, several lives."""
    from likewise.ledger import schema

    path = tmp_path_factory.mktemp("ledger") / "lived"
    rng = np.random.default_rng(2)
    before = schema.segment_rows_for
    schema.segment_rows_for = lambda size: 64
    try:
        for life in range(4):
            with lw.open(path, lw.Rule("linf", 0.2), window="300 rows") as monitor:
                x = rng.random((150, 3))
                labels = [f"label {life}", "yes", ("a", 1), 2.5]
                z = [labels[i] for i in rng.integers(0, 4, 150)]
                keys = [f"{life}-{i}" if i % 2 else life * 1000 + i for i in range(150)]
                monitor.observe_many(x[:100], z[:100], keys=keys[:100])
                monitor.load(x[100:120], z[100:120], keys=keys[100:120])
                for i in range(120, 150):
                    monitor.observe(x[i], z[i], time=1.7e9 + i)
                monitor.erase(key=[f"{life}-3", life * 1000 + 4])
            if life == 3:
                monitor = lw.open(path)
                monitor.ledger.review(500, None, "error", reason="a typo", reviewer="ann")
                monitor.ledger.review(500, None, "open", reason="no, it is not", reviewer="ben")
                monitor.ledger.truth("3-7", "yes")
                monitor.ledger.supersede("3-9", "yes", by="ann", why="an appeal")
                monitor.close()
    finally:
        schema.segment_rows_for = before
    return path


def test_short_script_without_likewise_verifies_any_ledger(lived, tmp_path):
    lines = [line for line in SCRIPT.read_text().splitlines() if line.strip()]
    assert len(lines) < 150 and "likewise." not in "\n".join(lines)
    with lw.Ledger(lived) as ledger:
        verification = ledger.verify()
        assert verification.ok, verification
        assert verification.first_row == 256 and verification.erased == 4
        kinds = {event.kind for event in ledger.events()}
        assert kinds >= {"rule", "layout", "words", "window", "erased", "dropped", "review"}
        assert kinds >= {"truth", "superseded"}
        found = independent(lived)
        assert (found.returncode, found.stdout.strip()) == (0, str(ledger.head)), found.stderr
    with lw.open(tmp_path / "new", lw.Rule("linf", 0.2)) as monitor:
        head = str(monitor.ledger.head())
    assert independent(tmp_path / "new").stdout.strip() == head


ALTERATIONS = {
    "a key": ("UPDATE key SET key = 'other' WHERE row = 451", 451),
    "a key gone": ("DELETE FROM key WHERE row = 455", 455),
    "a key more": ("INSERT INTO key VALUES (7, 'more')", None),
    "a count": ("UPDATE verdict SET count = count + 1 WHERE row = 500", 500),
    "a time of a verdict": ("UPDATE verdict SET time = time + 1 WHERE row = 500", 500),
    "a distance": ("UPDATE verdict SET distance = 0.1 WHERE row = 500", 500),
    "distances": (
        "UPDATE verdict SET distances = zeroblob(length(distances)) WHERE row = 500",
        500,
    ),
    "distances gone": (
        "UPDATE verdict SET distances = NULL, salt = NULL, distance = NULL WHERE row = 500",
        500,
    ),
    "witnesses": (
        "UPDATE verdict SET witnesses = zeroblob(length(witnesses)) WHERE row = 500",
        500,
    ),
    "a witness": (
        "UPDATE verdict SET witnesses = CAST(substr(witnesses, 1, length(witnesses) - 8)"
        " || x'F301000000000000' AS BLOB) WHERE row = 500",
        450,
    ),
    "a verdict gone": ("DELETE FROM verdict WHERE row = 500", 500),
    "a verdict more": (
        "INSERT INTO verdict SELECT 599 + row, time, model, count, distance, witnesses, distances,"
        " salt, commitment, review FROM verdict WHERE row = 500",
        None,
    ),
    "a review pretended": ("UPDATE verdict SET review = 'justified' WHERE row = 500", None),
    "a run gone": ("DELETE FROM event WHERE kind = 'judged' AND first = 450", None),
    "a run's rows": (
        "UPDATE event SET first = first + 1 WHERE kind = 'judged' AND first = 450",
        450,
    ),
    "a run's digest": ("UPDATE event SET body = zeroblob(32) WHERE first = 450", None),
    "a run's latest time": ("UPDATE event SET latest = latest + 1 WHERE first = 450", 450),
    "the last run gone": ("DELETE FROM event WHERE number = (SELECT max(number) FROM event)", None),
    "a word": ("UPDATE word SET value = '\"no\"' WHERE value = '\"yes\"'", None),
    "a word gone": ("UPDATE word SET value = NULL, salt = NULL WHERE value = '\"yes\"'", None),
    "an event": ("UPDATE event SET body = replace(body, '3', '5') WHERE kind = 'erased'", None),
    "an event gone": ("DELETE FROM event WHERE kind = 'erased'", None),
    "the rule": ("UPDATE event SET body = replace(body, '0.2', '0.3') WHERE kind = 'rule'", None),
    "a window": ("UPDATE event SET body = replace(body, '3', '4') WHERE kind = 'window'", None),
    "a note": ("UPDATE note SET text = 'other' WHERE text = 'a typo'", 500),
    "a note gone": ("UPDATE note SET text = NULL, salt = NULL WHERE text = 'a typo'", 500),
}
UNSEEN_BY_THE_SCRIPT = ("a word gone", "a note gone", "the last run gone")
"""It asks no erasure why words are gone. A head that is kept elsewhere shows a cut chain."""


@pytest.mark.parametrize("name", ALTERATIONS)
def test_alteration_is_found_and_its_row_named(lived, tmp_path, name):
    statement, row = ALTERATIONS[name]
    path = tmp_path / "ledger"
    shutil.copytree(lived, path)
    with sqlite3.connect(path / "ledger.sqlite") as database:
        assert database.execute(statement).rowcount > 0
    database.close()
    try:
        with lw.Ledger(path) as ledger:
            found = ledger.verify()
    except lw.errors.BadFile:
        assert name == "the last run gone"
    else:
        assert not found.ok
        assert found.bad_row == row, found
        assert found.head is None
    if name not in UNSEEN_BY_THE_SCRIPT:
        assert independent(path).returncode != 0
    with pytest.raises(lw.errors.BadFile):
        lw.open(path).close()


FIELDS = {
    "salt": 3,
    "commitment": 20,
    "time": 50,
    "position": 60,
    "model": 76,
    "first": 80,
    "count": 90,
    "missing": 98,
    "incomplete": 105,
    "neighbours": 113,
    "alarm": 116,
    "comparable": 118,
    "near": 122,
    "output": 131,
    "input": 141,
}


@pytest.mark.parametrize("at", FIELDS.values(), ids=FIELDS)
def test_altered_record_is_found(lived, tmp_path, at):
    path = tmp_path / "ledger"
    shutil.copytree(lived, path)
    name = path / f"{8 * 64:012}.rows"
    content = bytearray(name.read_bytes())
    size = len(content) // 64
    assert size == 128 + 8 + 3 * 8
    content[7 * size + at] ^= 1
    name.write_bytes(content)
    with lw.Ledger(path) as ledger:
        found = ledger.verify()
    assert not found.ok
    in_its_run = at in (FIELDS["time"], FIELDS["position"], FIELDS["model"]) or 80 <= at < 128
    assert found.bad_row in ((512, 519) if in_its_run else (519,)), found
    assert independent(path).returncode != 0


def test_head_kept_elsewhere_shows_a_chain_written_anew(lived, tmp_path):
    rule = lw.Rule("linf", 0.2)
    heads = []
    for name, change in (("honest", 0.0), ("forged", 0.5)):
        with lw.open(tmp_path / name, rule) as monitor:
            monitor.observe_many([[0.1], [0.2 + change], [0.3]], ["a", "b", "c"])
            heads.append(monitor.ledger.head())
            monitor.observe([0.4], "d")
            assert monitor.ledger.verify(heads[0] if name == "honest" else None).ok
    with lw.Ledger(tmp_path / "forged") as ledger:
        assert ledger.verify().ok  # in itself
        found = ledger.verify(str(heads[0]))
        assert not found.ok and "not the one that the head given" in found.problem
        assert ledger.verify(heads[1]).ok
        assert not ledger.verify(lw.Head(9, 9, bytes(32))).ok
    with raises(lw.errors.BadFile):
        lw.Head.of("likewise-head 3 0 0 00")
    assert lw.Head.of(str(heads[0])) == heads[0]


def test_head_from_before_the_window_is_no_alarm_about_the_rows(lived):
    with lw.Ledger(lived) as ledger:
        found = ledger.verify(lw.Head(5, 3, bytes(32)))
    assert "is from before row 256, the first that the window has kept" in str(found)
