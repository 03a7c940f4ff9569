"""A process that submits to a ledger through a spilling buffer is killed at random instants.

After every kill: what was answered is in the ledger once, in the row that was said, in the order of
numbers. At the end: every number that was given is in the ledger, or known to be missing.
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
from tests.buffering import crashing

PROGRAM = str(Path(crashing.__file__))


class Life:
    """One life of the submitting process: what it said until it was killed.

    after   the word after which the clock runs that kills it
    """

    def __init__(self, program, turn, delay, after):
        program.stdin.write(f"{turn}\n")
        program.stdin.flush()
        self.acknowledged, self.said = [], []
        child, killer, began = None, None, False
        for line in program.stdout:
            what, *about = json.loads(line)
            self.said.append((what, *about))
            if what == "child":
                child = about[0]
            elif what == "done":
                self.acknowledged += about[0]
            elif what == "gone":
                break
            began = began or what == after
            if began and child is not None and killer is None:
                killer = threading.Timer(delay, os.kill, (child, signal.SIGKILL))
                killer.start()
        killer.join()
        assert self.said[-1] == ("gone", signal.SIGKILL), self.said[-3:]
        self.last = self.said[-2][0]


def numbers_in(folder):
    """Of each row of the ledger, and how many are known to be missing."""
    try:
        ledger = lw.Ledger(folder / "ledger")
    except lw.BadFile as error:
        assert "no ledger" in str(error)
        return [], [], 0
    with ledger:
        assert ledger.verify().ok
        inputs = [x for some in ledger.columns() for x in some.inputs["input"]]
        counts = [entry.count for entry in ledger.entries()]
        lost = [event.body["count"] for event in ledger.events() if event.kind == "lost"]
        return list(map(crashing.number_of, inputs)), counts, sum(lost)


def check(folder, said, answered):
    """Compare the ledger with what was said."""
    numbers, counts, missing = numbers_in(folder)
    assert numbers == sorted(set(numbers)), "not in order, or twice"
    for number, row, count in answered:
        assert (numbers[row], counts[row]) == (number, count)
    lost = {one[1] for one in said if one[0] == "given" and one[2] is not None}
    assert not lost & set(numbers)
    return len(numbers), missing


def crash(folder, seed, kills):
    """Kill so many times; during what."""
    drawn = random.Random(seed)
    said, answered, during, spilled = [], [], [], 0
    with subprocess.Popen(
        [sys.executable, PROGRAM, str(folder), str(seed)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as program:
        assert json.loads(program.stdout.readline()) == ["ready"]
        for turn in range(kills):
            early = turn % 4 == 0  # while ledger and folder are opened, or soon after
            delay = drawn.uniform(0, 0.05 if early else 0.4)
            child = Life(program, turn, delay, "child" if early else "opened")
            said += child.said
            answered += child.acknowledged
            check(folder, said, answered)
            during.append(child.last)
            spilled += any((folder / "spill").glob("*.frames"))
        program.stdin.close()
    return said, answered, during, spilled


def finish(folder, seed, said, answered):
    """At last a process that nothing befalls: everything is accounted for."""
    given = [one[1] for one in said if one[0] == "given"]
    with lw.open(folder / "ledger", crashing.RULE) as monitor:
        with lw.buffered(
            monitor, when_full="spill", spill=folder / "spill", max_spill_bytes=1 << 20
        ) as buffer:
            number = buffer.submit(*crashing.decision(seed, buffer._queue.next_number)).number
            assert buffer.flush(120)
        stats = buffer.stats
        assert stats.spilled == 0 and stats.answered + stats.all_lost == stats.submitted
        rows, missing = monitor.rows, monitor.missing
    assert number >= max(given) + 1
    assert check(folder, said, answered) == (rows, missing)
    assert rows + missing == number + 1, "answered and lost are not all that was given"
    assert lw.replay(folder / "ledger").ok
    return rows, missing


def test_killed(tmp_path):
    said, answered, during, spilled = crash(tmp_path, 1, 12)
    rows, missing = finish(tmp_path, 1, said, answered)
    assert rows > 50 and missing > 0 and len(answered) > 20, "a test on nothing"
    assert spilled > 2 and len(set(during)) >= 2, (spilled, during)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 6))
def test_killed_hundreds_of_times(tmp_path, seed):
    said, answered, during, spilled = crash(tmp_path, seed, 50)
    rows, missing = finish(tmp_path, seed, said, answered)
    assert rows > 500 and missing > 0 and spilled > 10, (rows, missing, spilled)
    assert {"opening", "given"} <= set(during), during
