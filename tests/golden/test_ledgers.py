"""Ledgers of every version of the format, opened forever."""

import math
import shutil
from pathlib import Path

import numpy as np
import pytest

import likewise as lw
from tests.golden.make_ledger import ROWS, RULE

VERSIONS = sorted(Path(__file__).parent.glob("ledger-*"))
HEADS = {
    "ledger-1/table": "likewise-head 1 50 4"
    " 53d32da2cb7a1d6e95d2cbfd8958b1c719a170f5d9a89879ddc91a8c4dd666e3",
    "ledger-1/vectors": "likewise-head 1 20 2"
    " 1f11308ba2799a55f99e3fbf36d2fe652c385a0bd7057748edf14f464a3319c8",
    "ledger-2/table": "likewise-head 2 50 5"
    " f7a9b220c8e9a866a715de950faa367a4606f26740bfdff7da0c3e2e49cf501a",
    "ledger-2/vectors": "likewise-head 2 20 22"
    " 9bba4e884de0d16ddc5e8b2d7cb7df32bc8455316857a964537ad4803ba5d6fd",
}


def test_there_is_a_ledger_of_every_version():
    from likewise.ledger.schema import FORMAT

    assert [path.name for path in VERSIONS] == [f"ledger-{n}" for n in range(1, FORMAT + 1)]


@pytest.mark.parametrize("version", VERSIONS, ids=lambda path: path.name)
def test_table_of_any_version_is_read_verified_and_gone_on_with(version, tmp_path):
    path = tmp_path / "ledger"
    shutil.copytree(version / "table", path)
    with lw.Ledger(path) as ledger:
        assert str(ledger.head) == HEADS[f"{version.name}/table"]
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
        assert mine[0].over == lw.Compared(0, 50, 1)


@pytest.mark.parametrize("version", VERSIONS, ids=lambda path: path.name)
def test_vectors_of_any_version_are_read_verified_and_gone_on_with(version, tmp_path):
    path = tmp_path / "ledger"
    shutil.copytree(version / "vectors", path)
    with lw.open(path) as monitor:
        assert str(monitor.head()) == HEADS[f"{version.name}/vectors"]
        np.testing.assert_array_equal(monitor.inputs([7]), [[0.2, 0.1]])
        verdict = monitor.check([0.2, 0.1], 0.0)
        assert verdict.witnesses.rows.tolist() == [
            i for i in range(20) if i % 4 / 2 > 0.5 and abs(i % 5 / 10 - 0.2) <= 0.25
        ]
    assert lw.replay(path).ok


LEDGERS = sorted(path for version in VERSIONS for path in version.iterdir())


@pytest.mark.parametrize("golden", LEDGERS, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_ledger_of_any_version_is_migrated_with_everything_in_it(golden, tmp_path):
    shutil.copytree(golden, tmp_path / "old")
    done = lw.migrate(tmp_path / "old", tmp_path / "new")
    with lw.Ledger(tmp_path / "old") as old, lw.Ledger(tmp_path / "new") as new:
        assert new.events()[0].body["origin"]["head"] == str(old.head) == done.head
        assert new.head.version == 2 and new.verify().ok
        assert (new.first, new.rows, len(new)) == (old.first, old.rows, len(old))
        gone = set(new.erased().tolist())
        entries = zip(new.entries(), old.entries(), strict=True)
        for mine, theirs in entries:
            assert (mine.row, mine.time, mine.key) == (theirs.row, theirs.time, theirs.key)
            assert (mine.output, mine.count) == (theirs.output, theirs.count)
            assert (mine.over.first, mine.erased) == (theirs.over.first, theirs.erased)
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


def test_newer_version_is_refused_politely(tmp_path):
    import sqlite3

    path = tmp_path / "ledger"
    shutil.copytree(VERSIONS[-1] / "table", path)
    with sqlite3.connect(path / "ledger.sqlite") as database:
        database.execute("PRAGMA user_version = 99")
    for look in (lw.open, lw.Ledger, lw.replay):
        with pytest.raises(lw.BadFile, match="has format 99, and this version of likewise knows"):
            look(path)
