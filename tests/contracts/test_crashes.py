"""A process that feeds a ledger is killed at random instants; nothing acknowledged is lost.

After every kill the ledger is opened and compared with a monitor in memory that was never
interrupted: every acknowledged decision is there once and in order, as are its verdict and key, and
the chain holds. The next process goes on from there.
"""

import json
import os
import random
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import likewise as lw
from tests.contracts import crashing

PROGRAM = str(Path(crashing.__file__))


class Uninterrupted:
    """What a monitor that is never stopped says to the same decisions and erasures."""

    def __init__(self, seed, window):
        self.seed = seed
        self.window = None if window == "all" else int(window.split()[0])
        self.monitor = lw.Monitor(crashing.RULE)
        self.erased = set()
        self.verdicts = []

    def go_on(self, rows, erasures):
        """Up to so many rows; `erasures` are (how many rows there were, which row)."""
        waiting = [(at, row) for at, row in erasures if row not in self.erased]
        while len(self.verdicts) < rows or waiting:
            now = len(self.verdicts)
            while waiting and waiting[0][0] == now:
                row = waiting.pop(0)[1]
                self.monitor.forget([row])
                self.erased.add(row)
            if now == rows:
                assert not waiting
                return
            x, z, _ = crashing.decision(self.seed, now)
            first = 0 if self.window is None else max(0, now - self.window)
            found = self.monitor.observe(x, z).witnesses
            kept = found.rows >= first
            absent = sum(row >= first for row in self.erased)
            nearest = sorted(zip(found.input_distances[kept], found.rows[kept], strict=True))[:3]
            self.verdicts.append(
                (
                    crashing.summary(now, found.rows[kept], first, absent),
                    [row for _, row in nearest],
                )
            )


class Child:
    """One life of the feeding process: what it said until it was killed."""

    def __init__(self, program, turn, delay):
        program.stdin.write(f"{turn}\n")
        program.stdin.flush()
        self.acknowledged, self.said = [], []
        self.rows = 0
        killer = None
        for line in program.stdout:
            what, *about = json.loads(line)
            self.said.append((what, *about))
            if what == "child":
                killer = threading.Timer(delay, os.kill, (about[0], signal.SIGKILL))
                killer.start()
            elif what == "done":
                self.acknowledged += about[0]
            elif what == "gone":
                break
        killer.join()
        assert self.said[-1] == ("gone", signal.SIGKILL), self.said[-3:]
        self.last = next((one[0] for one in self.said[-2::-1] if one[0] != "child"), "child")


def check(folder, child, told, beside):
    """Compare the folder with what was acknowledged and with the uninterrupted monitor."""
    try:
        ledger = lw.Ledger(folder)
    except lw.BadFile as error:
        assert not told and "no ledger" in str(error)
        return 0
    with ledger:
        verified = ledger.verify()
        assert verified.ok, verified
        events = [event for event in ledger.events() if event.kind == "erased"]
        erasures = {(event.at_row, row) for event in events for row in event.body["rows"]}
        erasures |= {(one[2], one[1]) for one in child.said if one[0] == "erased"}
        beside.go_on(ledger.rows, sorted(erasures))  # some may have left the window since
        assert ledger.rows >= max((one[0] + 1 for one in told), default=0)
        for row, *verdict in child.acknowledged:
            assert [row, *verdict] == beside.verdicts[row][0]
        gone = {one[1] for one in child.said if one[0] == "erased"}
        assert {row for row in gone if row >= ledger.first} <= set(ledger.erased().tolist())
        for entry in ledger.entries():
            _check_entry(ledger, entry, beside)
        return ledger.rows


def _check_entry(ledger, entry, beside):
    _, z, key = crashing.decision(beside.seed, entry.row)
    verdict, nearest = beside.verdicts[entry.row]
    assert entry.erased == (entry.row in beside.erased)
    assert entry.count == verdict[1]
    assert [one.row for one in entry.nearest] == nearest
    assert entry.over.first == verdict[3][0]
    if entry.over.first >= ledger.first:  # else what was erased there has left with its rows
        assert entry.over.absent == verdict[3][1]
    if not entry.erased:
        assert (entry.output, entry.key) == (z, key)


def check_inputs(folder, seed):
    with lw.Ledger(folder) as ledger:
        for columns in ledger.columns():
            for i, x in enumerate(columns.inputs["input"].tolist()):
                if not columns.erased[i]:
                    assert x == crashing.decision(seed, columns.first + i)[0]


def crash(folder, seed, kills, durability, window):
    """Kill so many times; after how many rows, and during what."""
    drawn = random.Random(seed)
    beside = Uninterrupted(seed, window)
    told, rows, during = [], [], []
    with subprocess.Popen(
        [sys.executable, PROGRAM, str(folder), str(seed), durability, window],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as program:
        assert json.loads(program.stdout.readline()) == ["ready"]
        for turn in range(kills):
            soon = turn < kills // 4  # while the ledger is made or opened
            child = Child(program, turn, drawn.uniform(0, 0.03 if soon else 0.6))
            told += child.acknowledged
            rows.append(check(folder, child, told, beside))
            during.append(child.last)
        program.stdin.close()
    check_inputs(folder, seed)
    go_on(folder, seed, beside, window)
    return rows, during


def go_on(folder, seed, beside, window):
    """At last a process that nothing befalls: its verdicts are those of the uninterrupted run."""
    with lw.open(folder) as monitor:
        begin = monitor.rows
        said = []
        for row in range(begin, begin + 30):
            x, z, key = crashing.decision(seed, row)
            said.append(crashing.told(row, monitor.observe(x, z, key=key)))
        beside.go_on(begin + 30, [])
        assert said == [verdict for verdict, _ in beside.verdicts[begin:]]
        assert monitor.verify().ok
    assert lw.replay(folder).ok


def check_variety(rows, during):
    """The kills landed all over the place."""
    assert len(set(rows)) > len(rows) // 3
    assert {"opening", "trying"} <= set(during) and len(set(during)) >= 4, during


CASES = [("commit", "all", 14), ("batch", "200 rows", 12), ("commit", "200 rows", 12)]


@pytest.mark.parametrize(("durability", "window", "kills"), CASES)
def test_killed(tmp_path, durability, window, kills):
    rows, during = crash(tmp_path / "ledger", 1, kills, durability, window)
    assert rows[-1] > 0 and len(set(rows)) > kills // 3
    assert len(set(during)) >= 2, during  # on a busy machine they meet what takes longest


@pytest.mark.slow
@pytest.mark.parametrize("seed", [2, 3])
@pytest.mark.parametrize(("durability", "window", "kills"), CASES)
def test_killed_hundreds_of_times(tmp_path, durability, window, kills, seed):
    rows, during = crash(tmp_path / "ledger", seed, 55, durability, window)
    check_variety(rows, during)
