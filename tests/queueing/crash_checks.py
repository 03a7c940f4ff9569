"""What must be there after `crashing.py` was killed: nothing lost but what waited in memory only.

After every kill: what was answered is in the ledger once, in the row that was said, in the order of
numbers, with the verdict of a run that nobody interrupts; what was accepted is there; and of the
numbers that were given only the last are gone. The next opening says how many those may be.
"""

import random

import likewise as lw
from tests.queueing import crashing
from tests.support.killing import Life, program
from tests.support.uninterrupted import Uninterrupted


def numbers_in(folder):
    """Of each row of the ledger, how many rows each contradicts, and how many are not judged."""
    try:
        ledger = lw.Ledger(folder / "ledger")
    except lw.errors.BadFile as error:
        assert "no ledger" in str(error)
        return [], [], 0
    with ledger:
        assert ledger.verify().ok
        inputs, counts = [], []
        for some in ledger.columns():
            inputs += list(some.inputs["input"])
            counts += some.decisions.counts.tolist()
        return list(map(crashing.number_of, inputs)), counts, ledger.pending


class Killed:
    """A ledger whose writer is killed again and again."""

    def __init__(self, folder, seed):
        self.folder, self.seed = folder, seed
        self.beside = Uninterrupted(crashing.RULE.epsilon)
        self.begin = self.gone = self.accepted = self.left = 0
        self.answered, self.during = [], []

    def live(self, process, turn, drawn):
        early = turn % 4 == 0  # while the ledger is opened, or soon after
        delay = drawn.uniform(0, 0.05 if early else 0.4)
        order = {"turn": turn, "begin": self.begin}
        life = Life(process, order, delay, "child" if early else "opened")
        for rows, missing in life.told("opened")[:1]:
            assert rows == len(self.beside.decisions), "lost or repeated by opening"
            assert self.gone <= missing, "more were lost than are said"
        given = [number for (number,) in life.told("given")]
        assert given == list(range(self.begin, self.begin + len(given)))
        self.said = [one for one in life.said if one[0] in ("opened", "closed")]
        numbers = self.check(life.acknowledged)
        end = max([self.begin, *(number + 1 for number in given), *(n + 1 for n in numbers)])
        kept = [number for number in numbers if number >= self.begin]
        assert kept == list(range(self.begin, self.begin + len(kept))), "overtaken"
        for safe, accepted in life.told("safe"):
            assert self.begin + len(kept) >= safe, "answered or accepted, and lost"
            self.accepted = max(self.accepted, accepted)
        for (closed,) in life.told("closed"):
            assert self.begin + len(kept) >= closed, "lost by closing"
        self.gone += end - self.begin - len(kept)
        self.begin = end
        self.during.append(life.last)

    def check(self, answered):
        """Compare the ledger with what was answered, and with a run that nobody interrupts."""
        numbers, counts, pending = numbers_in(self.folder)
        self.left += pending > 0
        assert numbers == sorted(set(numbers)), "not in order, or twice"
        for number in numbers[len(self.beside.decisions) :]:
            self.beside.take(*crashing.decision(self.seed, number), key=number)
        assert numbers == [one.key for one in self.beside.decisions], "lost"
        judged = len(numbers) - pending
        expected = [len(one.rows) for one in self.beside.decisions]
        wrong = [i for i in range(judged) if counts[i] != expected[i]]
        assert not wrong, [(i, counts[i], expected[i], self.said, judged) for i in wrong][:5]
        assert counts[judged:] == [-1] * pending
        self.answered += answered
        for number, row, count in self.answered:
            assert (numbers[row], expected[row]) == (number, count)
        return numbers


def crash_and_finish(folder, seed, kills):
    """So many kills, and then a process that nothing befalls: everything is accounted for."""
    drawn, killed = random.Random(seed), Killed(folder, seed)
    with program(crashing.__file__, folder, seed) as process:
        for turn in range(kills):
            killed.live(process, turn, drawn)
    with lw.open(folder / "ledger", crashing.RULE) as monitor:
        with lw.buffered(monitor, 10, when_full="accept") as buffer:
            for number in range(killed.begin, killed.begin + 50):
                buffer.submit(*crashing.decision(seed, number))
            assert buffer.flush(120)
        assert buffer.stats.answered == 50
        rows, missing = monitor.rows, monitor.missing_decisions
    numbers = killed.check([])
    assert numbers[-50:] == list(range(killed.begin, killed.begin + 50))
    assert rows == len(numbers) and rows + killed.gone == killed.begin + 50
    assert killed.gone <= missing <= kills * (40 + 40)
    assert lw.replay(folder / "ledger").ok
    assert rows > 5 * kills and len(killed.answered) > kills, (rows, len(killed.answered))
    assert killed.gone > 0 and killed.accepted > 5, (killed.gone, killed.accepted)
    assert killed.left > kills // 10, "what was accepted never waited"
    assert len(set(killed.during)) >= 3, killed.during
