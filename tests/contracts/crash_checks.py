"""What must be there after `crashing.py` was killed: compared with a run that nobody interrupts.

Each class is for one kind of work. `check` looks after every kill: every acknowledged decision is
there once and in order, with its verdict; nothing is there that was not tried; the chain holds.
`finish` goes on at last, undisturbed.
"""

import math
import random
import shutil
import time
from collections import defaultdict
from pathlib import Path

import numpy as np

import likewise as lw
from tests.contracts import crashing
from tests.support.programs import run_python
from tests.support.segments import small_segments
from tests.support.uninterrupted import Uninterrupted

ROOT = Path(__file__).parents[2]
OUTSIDE = ROOT / "docs" / "verify_ledger.py"
SOME = 30  # rows whose entries are looked at closely; columns are compared of all


def verified_outside(folder, ledger):
    """A program that knows nothing of likewise comes to the same head."""
    done = run_python("-I", OUTSIDE, folder, code=None)
    assert (done.returncode, done.stdout.strip()) == (0, str(ledger.head)), done.stderr


def opened(folder):
    """The ledger, or None where its making was cut off."""
    try:
        return lw.Ledger(folder)
    except lw.errors.BadFile as error:
        assert "no ledger" in str(error), error
        return None


def summary(row, expected):
    return crashing.summary(row, expected.rows, expected.first, expected.absent)


def check_columns(ledger, beside, erased):
    """Every row that is there: input, output, key, how many witnesses, since which row."""
    for columns in ledger.columns():
        some = columns.decisions
        stop = columns.first + len(some)
        expected = beside.decisions[columns.first : stop]
        assert some.counts.tolist() == [len(one.rows) for one in expected]
        assert some.firsts.tolist() == [one.first for one in expected]
        gone = [row in erased for row in range(columns.first, stop)]
        assert columns.erased.tolist() == gone
        keys = some.keys or [None] * len(some)
        inputs = map(tuple, columns.inputs["input"].tolist())
        found = zip(inputs, columns.outputs, keys, strict=True)
        for values, one, is_gone in zip(found, expected, gone, strict=True):
            assert is_gone or values == (one.x, one.z, one.key)


def check_entry(ledger, entry, beside, erased):
    """One row closely: the nearest witnesses, their distances unless destroyed, what is absent."""
    expected = beside.decisions[entry.row]
    rows = [row for row, _ in expected.nearest]
    distances = [distance for _, distance in expected.nearest]
    if erased & {entry.row, *rows}:
        rows, distances = sorted(rows), [math.nan] * len(rows)
    assert [one.row for one in entry.nearest] == rows
    np.testing.assert_equal([one.input_distance for one in entry.nearest], distances)
    if (
        entry.compared_with.first >= ledger.first
    ):  # else what was erased there has left with its rows
        assert entry.compared_with.absent == expected.absent


def check_some_entries(ledger, beside, drawn):
    there = range(ledger.first, ledger.rows)
    rows = {*drawn.sample(there, min(SOME, len(there))), *there[-SOME:]}
    for row in sorted(rows):
        check_entry(ledger, ledger.entry(row), beside, beside.erased)


class ByRow:
    """What a decision is follows from its row."""

    def __init__(self, folder, seed, kind):
        self.folder, self.seed = folder / "ledger", seed
        self.drawn = random.Random(seed)
        self.mix = crashing.MIXES[kind]
        words = self.mix.window.split()
        self.beside = Uninterrupted(
            None if self.mix.slopes else crashing.RULE.epsilon,
            int(words[0]) if words[0] != "all" else None,
        )
        self.tried = 0
        self.spans = {}  # of instants, where those of test_crashes.py do not suit

    def order(self, turn):
        return {"turn": turn}

    def check(self, life, outside):
        """How many rows there are."""
        self.tried = max([self.tried, *(rows for (rows,) in life.told("trying"))])
        ledger = opened(self.folder)
        if ledger is None:
            assert not life.told("opened") and not len(self.beside)
            return 0
        with ledger:
            verified = ledger.verify()
            assert verified.ok, verified
            assert len(self.beside) <= ledger.rows <= self.tried, "lost, or repeated"
            self._follow(ledger, life)
            for row, *verdict in life.acknowledged:
                assert row < ledger.rows, "lost"
                assert [row, *verdict] == summary(row, self.beside.decisions[row])
            erased = {row for row, _ in life.told("erased") if row >= ledger.first}
            assert erased <= set(ledger.erased_rows().tolist())
            check_columns(ledger, self.beside, self.beside.erased)
            check_some_entries(ledger, self.beside, self.drawn)
            if outside:
                verified_outside(self.folder, ledger)
            return ledger.rows

    def _follow(self, ledger, life):
        """Have the other run take the same decisions, and erase at the same moments."""
        events = [event for event in ledger.events() if event.kind == "erased"]
        erasures = {(event.at_row, row) for event in events for row in event.body["rows"]}
        erasures |= {(rows, row) for row, rows in life.told("erased")}  # some left the window since
        beside = self.beside
        waiting = sorted((at, row) for at, row in erasures if row not in beside.erased)
        while len(beside) < ledger.rows or waiting:
            while waiting and waiting[0][0] == len(beside):
                beside.erase(waiting.pop(0)[1])
            if len(beside) == ledger.rows:
                assert not waiting, waiting
                return
            beside.take(*crashing.decision(self.seed, len(beside)))

    def finish(self):
        with self.mix.open(self.folder) as monitor:
            for row in range(len(self.beside), len(self.beside) + 30):
                given = crashing.decision(self.seed, row)
                x, z, key = given
                verdict = monitor.observe(x, z, key=key)
                assert crashing.told(row, verdict) == summary(row, self.beside.take(*given))
            assert monitor.ledger.verify().ok
        assert lw.replay(self.folder).ok
        with lw.Ledger(self.folder) as ledger:
            verified_outside(self.folder, ledger)


class Backups(ByRow):
    """The same while a thread copies the ledger."""

    def __init__(self, folder, seed, kind):
        super().__init__(folder, seed, kind)
        self.copy = folder / "copy"
        self.copied = 0
        self.turn = 0

    def check(self, life, outside):
        rows = super().check(life, outside)
        self.turn += 1
        self.copied = max([self.copied, *(rows for rows, _ in life.told("copied"))])
        before = self.copy.with_name("copy.before")
        where = self.copy if self.copy.exists() else before  # cut off between the last two steps
        if where.exists():
            self._check_copy(where, rows)
        else:
            assert self.copied == 0, "a finished copy is gone"
        if rows and self.turn % 2:  # else the next child finds what was left
            self._copy_again(rows)
        return rows

    def _check_copy(self, where, rows):
        """A whole ledger of an earlier moment."""
        with lw.Ledger(where) as copy:
            verified = copy.verify()
            assert verified.ok, verified
            assert self.copied <= copy.rows <= rows
            erased = set(copy.erased_rows().tolist())
            assert erased <= self.beside.erased
            check_columns(copy, self.beside, erased)
            head = copy.head
        restored = self.copy.with_name("restored")
        assert lw.restore(where, restored).head == str(head)
        with lw.open(restored) as monitor:
            x, z, _ = crashing.decision(self.seed, copy.rows)
            assert monitor.observe(x, z).row == copy.rows
            assert monitor.ledger.verify(head).ok
        shutil.rmtree(restored)

    def _copy_again(self, rows):
        assert lw.back_up(self.folder, self.copy).rows == rows
        self.copied = rows
        assert sorted(path.name for path in self.copy.parent.iterdir()) == ["copy", "ledger"]


class ByName:
    """What a decision is follows from its name; many are under way at once, from several threads.

    What was not answered is sent again in the next life, under the same key.
    """

    def __init__(self, folder, seed, kind):
        self.folder, self.seed = folder / "ledger", seed
        self.drawn = random.Random(seed)
        self.beside = Uninterrupted(crashing.RULE.epsilon)
        self.tried, self.answered, self.spans = {}, set(), {}

    def order(self, turn):
        unanswered = [name for name in self.tried if name not in self.answered]
        return {"turn": turn, "unanswered": unanswered}

    def check(self, life, outside):
        self.tried |= {name: True for (name,) in life.told("trying")}
        ledger = opened(self.folder)
        if ledger is None:
            assert not life.told("opened")
            return 0
        with ledger:
            verified = ledger.verify()
            assert verified.ok, verified
            names = [key for some in ledger.columns() for key in some.decisions.keys or []]
            assert len(names) == ledger.rows == len(set(names)), "one without a name, or twice"
            assert set(names) <= set(self.tried)
            assert [one.key for one in self.beside.decisions] == names[: len(self.beside)]
            for name in names[len(self.beside) :]:
                x, z, _ = crashing.decision(self.seed, name)
                self.beside.take(x, z, name)
            self._check_answers(life, names)
            self._check_order(names)
            check_columns(ledger, self.beside, set())
            check_some_entries(ledger, self.beside, self.drawn)
            if outside:
                verified_outside(self.folder, ledger)
            return ledger.rows

    def _check_answers(self, life, names):
        """All that was answered is there: in the row that was said, with that verdict."""
        for name, row, *verdict in life.acknowledged:
            assert names[row] == name
            assert [row, *verdict] == summary(row, self.beside.decisions[row])
            self.answered.add(name)
        for name, row, count in life.told("known"):
            assert (names[row], count) == (name, len(self.beside.decisions[row].rows))
            self.answered.add(name)
        assert self.answered <= set(names), "lost"

    def _check_order(self, names):
        """Of each thread in each life, its decisions are there in order, and none is left out."""
        numbers = defaultdict(list)
        for name in names:
            turn, thread, number = map(int, name.split())
            numbers[turn, thread].append(number)
        for who, some in numbers.items():
            assert some == list(range(len(some))), who

    def finish(self):
        with lw.open(self.folder) as monitor:
            for name in self.order(0)["unanswered"]:
                x, z, _ = crashing.decision(self.seed, name)
                rows = len(self.beside)
                verdict = monitor.observe(x, z, key=name)
                if not verdict.repeated:
                    assert crashing.told(rows, verdict) == summary(
                        rows, self.beside.take(x, z, name)
                    )
            assert monitor.rows == len(self.beside) == len(self.tried)
        assert lw.replay(self.folder).ok
        with lw.Ledger(self.folder) as ledger:
            verified_outside(self.folder, ledger)


class Migrations:
    """A ledger, migrated: copied, and judged again under another rule."""

    def __init__(self, folder, seed, kind):
        self.folder, self.seed = folder, seed
        with small_segments(), lw.open(folder / "old", crashing.RULE) as monitor:
            some = [crashing.decision(seed, row) for row in range(300)]
            x, z, keys = map(list, zip(*some, strict=True))
            verdicts = monitor.observe_many(x, z, keys=keys)
            monitor.ledger.review(
                int(np.flatnonzero(verdicts.violations)[0]),
                None,
                "error",
                reason="seen",
                reviewer="me",
            )
            monitor.erase(rows=[5, 77, 131])
        self.old, self.content = looked_at(folder / "old"), content(folder / "old")
        self.again = Uninterrupted(crashing.OTHER_RULE.epsilon)
        for row in sorted(set(range(300)) - {5, 77, 131}):
            self.again.take(*some[row])
        self.states = []
        begun = time.perf_counter()
        crashing.migrate(folder, "first-copied")
        shutil.rmtree(folder / "first-copied")
        self.spans = {"migrating": (3, 1.2 * (time.perf_counter() - begun))}

    def order(self, turn):
        return {"turn": turn}

    def check(self, life, outside):
        """What the kill has left."""
        whole = [name for (name,) in life.told("migrated")]
        for name in whole:
            self._check_new(name, outside)
        state = "between"
        for (name,) in life.told("migrating")[len(whole) :]:
            partial = self.folder / f"{name}.partial"
            state = "in part" if partial.exists() else "before"
            if (self.folder / name).exists():
                state = "whole"
            else:
                crashing.migrate(self.folder, name)
            self._check_new(name, outside)
        self.states.append(state)
        assert content(self.folder / "old") == self.content, "it was changed"
        left = [path.name for path in self.folder.iterdir()]
        assert left == ["old"], left
        return len(self.states)

    def _check_new(self, name, outside):
        path = self.folder / name
        with lw.Ledger(path) as ledger:
            verified = ledger.verify()
            assert verified.ok, verified
            head, entries = self.old
            assert ledger.events()[0].body["origin"]["head"] == head
            if name.endswith("judged-again"):
                check_columns(ledger, self.again, set())
                assert ledger.rows == len(self.again)
            else:
                assert looked_at(path)[1] == entries
            if outside:
                verified_outside(path, ledger)
        shutil.rmtree(path)

    def finish(self):
        assert self.states.count("in part") >= max(1, len(self.states) // 8), self.states


def looked_at(folder):
    """The head of a ledger, and all of its entries; whom distances name stays, if erased or not."""
    with lw.Ledger(folder) as ledger:
        assert ledger.verify().ok
        gone = set(ledger.erased_rows().tolist())
        entries = []
        for columns in ledger.columns():
            some = columns.decisions
            witnesses = some.witnesses.nearest_first()
            keys = some.keys or [None] * len(some)
            for i, key in enumerate(keys):
                row, nearest = columns.first + i, witnesses.of(i).tolist()
                if gone & {row, *(one[0] for one in nearest)}:  # NaN is not equal to itself
                    nearest = sorted(one[0] for one in nearest)
                values = (columns.outputs[i], key, int(some.counts[i]), int(some.firsts[i]))
                given = {name: some_of[i] for name, some_of in columns.inputs.items()}
                told = "erased" if columns.erased[i] else repr(given)
                entries.append((row, int(some.times[i]), values, nearest, told))
        return str(ledger.head), entries


def content(folder):
    """Every file that says something; not those by which processes get out of each other's way."""
    passing = ("lock", "ledger.sqlite-shm")
    files = {path.name: path.read_bytes() for path in folder.iterdir() if path.name not in passing}
    return {name: said for name, said in files.items() if said}


CHECKS = {
    "commit": ByRow,
    "batch": ByRow,
    "group": ByName,
    "submit": ByName,
    "erase": ByRow,
    "window": ByRow,
    "slopes": ByRow,
    "migrate": Migrations,
    "backup": Backups,
}
