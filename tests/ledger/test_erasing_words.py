"""Erasure and words: what others on disk have in common with the erased stays theirs.

Whatever is erased, under whatever window and output, later verdicts are those over the rows that
are left, in this life of the ledger and in the next.
"""

import random
import sqlite3
from contextlib import closing

import pytest

import likewise as lw
from likewise.ledger import folder as ledger_folder
from tests.support.refusals import raises
from tests.support.segments import small_segments

OUTPUTS = {
    "label": (0.0, lambda drawn: drawn.choice(["yes", "no", f"rare {drawn.randrange(40)}"])),
    "number": (0.5, lambda drawn: drawn.randrange(8) / 4),
    "probabilities": (0.4, lambda drawn: drawn.choice([(0.25, 0.75), (0.75, 0.25), (0.5, 0.5)])),
}


def rule_for(output):
    columns = ("p", "q") if output == "probabilities" else "answer"
    return lw.Rule(
        "linf",
        output=output,
        delta=OUTPUTS[output][0],
        features={
            "id": {"kind": "key"},
            "age": {"kind": "number", "tolerance": 5},
            "job": {"kind": "category"},
            "town": {"kind": "protected"},
        },
        output_column=columns,
    )


def row_of(drawn, output, i):
    given = OUTPUTS[output][1](drawn)
    named = dict(zip("pq", given, strict=True)) if output == "probabilities" else {"answer": given}
    jobs = ["nurse", "cook", f"rare job {drawn.randrange(30)}"]
    return {
        "id": f"person {i}",
        "age": drawn.randrange(20, 50),
        "job": drawn.choice(jobs),
        "town": f"town {drawn.randrange(30)}",
        **named,
    }


def differ(output, one, other):
    delta = OUTPUTS[output][0]
    if output == "label":
        return one["answer"] != other["answer"]
    if output == "number":
        return abs(one["answer"] - other["answer"]) > delta
    return max(abs(one[name] - other[name]) for name in "pq") > delta


class Twin:
    """What is left, compared one by one."""

    def __init__(self, output):
        self.output = output
        self.rows = []
        self.erased = set()
        self.found = 0

    def expected(self, row, since):
        self.rows.append(row)
        near = [
            i
            for i in range(since, len(self.rows) - 1)
            if i not in self.erased
            and self.rows[i]["job"] == row["job"]
            and abs(self.rows[i]["age"] - row["age"]) <= 5
            and differ(self.output, self.rows[i], row)
        ]
        self.found += len(near)
        return near


@pytest.mark.parametrize("output", OUTPUTS)
def test_erasing_from_a_table_keeps_later_verdicts_right(tmp_path, output):
    drawn, twin, folder = random.Random(output), Twin(output), tmp_path / "ledger"
    for _ in range(4):
        with lw.open(folder, rule_for(output), durability="off") as monitor:
            for _ in range(60):
                row = row_of(drawn, output, len(twin.rows))
                verdict = monitor.observe(row)
                assert verdict.witnesses.rows.tolist() == twin.expected(row, 0)
                if drawn.random() < 0.3:
                    gone = drawn.randrange(len(twin.rows))
                    erased = monitor.erase(rows=[gone]).rows
                    assert erased == (() if gone in twin.erased else (gone,))
                    twin.erased.add(gone)
            assert monitor.ledger.verify().ok
    assert twin.found > 100 and len(twin.erased) > 20
    again = lw.replay(folder)
    assert again.ok, again


@pytest.mark.long
@pytest.mark.parametrize("output", OUTPUTS)
def test_erasing_under_a_window_destroys_no_word_that_a_row_on_disk_has(tmp_path, output):
    """A wider window afterwards brings rows back that had left, and their words with them."""
    drawn, twin, folder = random.Random(output), Twin(output), tmp_path / "ledger"
    wider = 0
    with small_segments():
        for life in range(8):
            window = ["15 rows", "200 rows", "60 rows", "all"][life % 4]
            with lw.open(folder, rule_for(output), window=window, durability="off") as monitor:
                for _ in range(60):
                    row = row_of(drawn, output, len(twin.rows))
                    verdict = monitor.observe(row)
                    assert verdict.witnesses.rows.tolist() == twin.expected(
                        row, verdict.compared_with.first
                    )
                    wider += verdict.compared_with.first < len(twin.rows) - 100
                    if drawn.random() < 0.3:
                        gone = drawn.randrange(max(0, len(twin.rows) - 60), len(twin.rows))
                        monitor.erase(rows=[gone])
                        twin.erased.add(gone)
                assert monitor.ledger.verify().ok
            again = lw.replay(folder)
            assert again.ok, again
    assert twin.found > 100 and len(twin.erased) > 40 and wider > 50
    with lw.Ledger(folder) as ledger:
        for i in range(ledger.first, ledger.rows):
            if i not in twin.erased:
                values = ledger.values(i)
                assert (values["job"], values["town"]) == (
                    twin.rows[i]["job"],
                    twin.rows[i]["town"],
                )


@pytest.mark.parametrize("by", ["key", "rows"])
@pytest.mark.parametrize("keyed", ["column", "beside"])
def test_row_that_left_the_window_but_not_the_disk_can_be_erased(tmp_path, by, keyed):
    folder = tmp_path / "ledger"
    features = {"age": {"kind": "number", "tolerance": 5}, "job": {"kind": "category"}}
    if keyed == "column":
        features["id"] = {"kind": "key"}
    rule = lw.Rule("linf", features=features, output_column="answer")
    needle = b"the only one of her kind"

    def observe(monitor, i, job):
        row, key = {"age": i, "job": job, "answer": i % 2}, f"very secret person {i}"
        if keyed == "column":
            monitor.observe({**row, "id": key})
        else:
            monitor.observe(row, key=key)

    with lw.open(folder, rule, window="10 rows", durability="off") as monitor:
        for i in range(400):
            observe(monitor, i, needle.decode() if i == 3 else "cook")
        monitor.flush()
        asked = {"key": "very secret person 3"} if by == "key" else {"rows": [3]}
        found = monitor.erase(**asked)
        assert found.rows == (3,) and found.complete
        for file in folder.iterdir():
            assert needle not in file.read_bytes()
            assert b"very secret person 3\x00" not in file.read_bytes()
        assert monitor.erase(rows=[3]).rows == ()
        assert monitor.ledger.verify().ok
        if by == "key":
            with raises(lw.errors.BadRow):
                monitor.erase(**asked)
    with lw.Ledger(folder) as ledger:
        assert ledger.entry(3).erased and not ledger.entry(4).erased
    assert lw.replay(folder).ok


@pytest.mark.long
@pytest.mark.parametrize("durability", ["commit", "batch"])
@pytest.mark.parametrize("keyed", ["column", "beside"])
def test_key_of_a_row_that_is_still_on_disk_is_refused_at_once(tmp_path, keyed, durability):
    """Its row has left the window; else the disk would refuse it, and all that comes after it."""
    folder = tmp_path / "ledger"
    features = {"age": {"kind": "number", "tolerance": 5}}
    if keyed == "column":
        features["id"] = {"kind": "key"}
    rule = lw.Rule("linf", features=features, output_column="answer")

    def observe(monitor, i, key):
        row = {"age": i % 30, "answer": i % 2}
        if keyed == "column":
            return monitor.observe({**row, "id": key})
        return monitor.observe(row, key=key)

    with small_segments():
        for _ in range(2):
            with lw.open(folder, rule, window="10 rows", durability=durability) as monitor:
                for _ in range(300):
                    observe(monitor, monitor.rows, monitor.rows)
            with lw.open(folder, durability=durability) as monitor:
                with lw.Ledger(folder) as ledger:
                    first = ledger.first
                assert monitor.row_of(first + 2) is None  # it has left the window
                before = monitor.rows
                with raises(lw.errors.BadDecision):
                    observe(monitor, 0, first + 2)
                assert monitor.rows == before
                assert observe(monitor, 0, monitor.rows).row == before
                if first:
                    observe(monitor, 0, first - 1)  # which has left the disk too
                monitor.flush()
                assert monitor.ledger.verify().ok
                monitor.erase(key=first + 2)
                with pytest.raises(lw.errors.ErasedKey):
                    observe(monitor, 0, first + 2)
                observe(monitor, 0, 1_000_000 + first)
                monitor.flush()
                assert monitor.ledger.verify().ok


def test_erasure_that_fails_changes_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(ledger_folder, "BUSY_SECONDS", 0.2)
    folder, drawn, twin = tmp_path / "ledger", random.Random(3), Twin("number")
    with lw.open(folder, rule_for("number")) as monitor:
        for i in range(40):
            row = row_of(drawn, "number", i)
            monitor.observe(row)
            twin.expected(row, 0)
        head = monitor.ledger.head()
        with closing(sqlite3.connect(folder / "ledger.sqlite", isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")  # and nobody else can write
            with raises(lw.errors.BadFile):
                monitor.erase(key="person 7")
        assert monitor.ledger.head() == head
        assert monitor.row_of("person 7") == 7 and len(monitor) == 40
        assert monitor.past.values(7) == twin.rows[7]
        row = row_of(drawn, "number", 40)
        assert monitor.observe(row).witnesses.rows.tolist() == twin.expected(row, 0)
        assert monitor.erase(key="person 7").rows == (7,)
        twin.erased.add(7)
        row = twin.rows[7] | {"id": "person 41", "answer": 2.0}
        assert monitor.observe(row).witnesses.rows.tolist() == twin.expected(row, 0)
        assert monitor.ledger.verify().ok


def test_label_that_a_vector_on_disk_has_stays(tmp_path):
    folder = tmp_path / "ledger"
    labels = ["rare" if i in (4, 297) else "often" for i in range(300)]
    with lw.open(folder, lw.Rule("linf", 0.1), window="10 rows", durability="off") as monitor:
        for i, label in enumerate(labels):
            monitor.observe([i % 5], label)
    with lw.open(folder, window="10 rows") as monitor:
        assert monitor.erase(rows=[297]).rows == (297,)
        assert monitor.check([4], "rare").witnesses.rows.tolist() == [294, 299]
    with lw.open(folder, window="all") as monitor:  # row 4 is back
        assert 4 not in monitor.check([4], "rare").witnesses.rows
        assert monitor.check([4], "often").witnesses.rows.tolist() == [4]
    with lw.Ledger(folder) as ledger:
        assert ledger.entry(4).output == "rare"
    assert lw.replay(folder).ok
