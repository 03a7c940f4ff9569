"""Ledgers that were written once and must stay readable."""

import math
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

import likewise as lw
from likewise.ledger.reader import FORMATS, format_of
from likewise.verdict.context import ComparedRows
from tests.golden.make_ledger import ROWS, RULE
from tests.support.refusals import raises

GOLDEN = Path(__file__).parent / "ledger-2"
HEADS = {
    "table": "likewise-head 2 50 5"
    " 673f8783c8af2c3a10f3bb412ae433226c8badaa8827e368b2c6fe69c03a61fc",
    "vectors": "likewise-head 2 20 22"
    " 4c533ca4fccf2c7674184aed5638e6e81cb7fb09a3f363f560ad7f4d7224ec2c",
}


def test_there_is_a_golden_ledger_of_every_format():
    golden = sorted(path.name for path in Path(__file__).parent.glob("ledger-*"))
    assert golden == [f"ledger-{version}" for version in sorted(FORMATS)]


def test_table_is_read_verified_and_continued(tmp_path):
    path = tmp_path / "ledger"
    shutil.copytree(GOLDEN / "table", path)
    with lw.Ledger(path) as ledger:
        assert str(ledger.head) == HEADS["table"]
        assert ledger.verify().ok
        assert ledger.values(3) == {"age": 41.0, "job": "nurse", "sex": "m"}
        assert ledger.entry(3).key == "case 3"
        assert [event.kind for event in ledger.events()] == ["rule", "layout", "words", "erased"]
    assert lw.replay(path).ok
    rule = lw.Rule.from_toml(RULE)
    twin = lw.Monitor(rule)
    twin.load(ROWS[:50])
    twin.forget([7])
    with lw.open(path, rule) as monitor:
        mine, theirs = monitor.observe_many(ROWS[50:]), twin.observe_many(ROWS[50:])
        assert mine.witnesses == theirs.witnesses
        assert mine.pairs > 10
        assert mine[0].compared_with == ComparedRows(0, 50, 1)


def test_vectors_are_read_verified_and_continued(tmp_path):
    path = tmp_path / "ledger"
    shutil.copytree(GOLDEN / "vectors", path)
    with lw.open(path) as monitor:
        assert str(monitor.ledger.head()) == HEADS["vectors"]
        np.testing.assert_array_equal(monitor.past.inputs([7]), [[0.2, 0.1]])
        verdict = monitor.check([0.2, 0.1], 0.0)
        assert verdict.witnesses.rows.tolist() == [
            i for i in range(20) if i % 4 / 2 > 0.5 and abs(i % 5 / 10 - 0.2) <= 0.25
        ]
    assert lw.replay(path).ok


@pytest.mark.parametrize("name", HEADS)
def test_ledger_is_copied_with_everything_in_it(name, tmp_path):
    shutil.copytree(GOLDEN / name, tmp_path / "old")
    done = lw.migrate(tmp_path / "old", tmp_path / "new")
    with lw.Ledger(tmp_path / "old") as old, lw.Ledger(tmp_path / "new") as new:
        assert new.events()[0].body["origin"]["head"] == str(old.head) == done.head
        assert new.head.version == 2 and new.verify().ok
        assert (new.first, new.rows, len(new)) == (old.first, old.rows, len(old))
        gone = set(new.erased_rows().tolist())
        entries = zip(new.entries(), old.entries(), strict=True)
        for mine, theirs in entries:
            assert (mine.row, mine.time, mine.key) == (theirs.row, theirs.time, theirs.key)
            assert (mine.output, mine.count) == (theirs.output, theirs.count)
            assert (mine.compared_with.first, mine.erased) == (
                theirs.compared_with.first,
                theirs.erased,
            )
            named = [one.row for one in theirs.nearest]
            if not gone & {mine.row, *named}:
                assert mine.nearest == theirs.nearest
            elif mine.nearest:
                assert [one.row for one in mine.nearest] == sorted(named)
                assert all(math.isnan(one.input_distance) for one in mine.nearest)
            if not mine.erased:
                np.testing.assert_equal(new.values(mine.row), old.values(mine.row))
        assert len(list(new.violations())) > 0
    assert lw.replay(tmp_path / "new").ok
    with lw.open(tmp_path / "new") as monitor:
        assert monitor.rows == done.rows + sum(row >= new.first for row in gone) + new.first


@pytest.mark.parametrize("version", [-1, 0, 1, 3, 99])
def test_unknown_version_is_refused_and_nothing_is_changed(tmp_path, version):
    path = tmp_path / "ledger"
    shutil.copytree(GOLDEN / "table", path)
    with closing(sqlite3.connect(path / "ledger.sqlite")) as database:
        database.execute(f"PRAGMA user_version = {version}")
    before = {file.name: file.read_bytes() for file in path.iterdir()}
    for use in (lw.open, lw.Ledger, lw.replay, lambda old: lw.migrate(old, tmp_path / "new")):
        with raises(lw.errors.BadFile, path=str(path)):
            use(path)
    assert {name: (path / name).read_bytes() for name in before} == before
    assert not (tmp_path / "new").exists()
    with raises(lw.errors.BadFile):
        format_of(version)


def test_head_of_an_unknown_version_is_refused(tmp_path):
    with raises(lw.errors.BadFile):
        lw.Head.of(HEADS["table"].replace("head 2", "head 1"))
    shutil.copytree(GOLDEN / "table", tmp_path / "ledger")
    with lw.Ledger(tmp_path / "ledger") as ledger:
        other = lw.Head(ledger.head.rows, ledger.head.events, ledger.head.link, version=1)
        found = ledger.verify(other)
        assert ledger.verify(ledger.head).ok
    assert not found.ok and "is of format 1, and this ledger has format 2" in str(found)
