"""What must be there after `crashing.py` was killed: every number answered once, lost, or waiting.

After every kill: what was answered is in the ledger once, in the row that was said, in the order of
numbers, with the verdict of a run that nobody interrupts. At the end: every number that was given
is in the ledger, or known to be missing.
"""

import random

import likewise as lw
from tests.buffering import crashing
from tests.killing import Life, program
from tests.uninterrupted import Uninterrupted


def numbers_in(folder):
    """Of each row of the ledger, and how many are known to be missing."""
    try:
        ledger = lw.Ledger(folder / "ledger")
    except lw.BadFile as error:
        assert "no ledger" in str(error)
        return [], [], 0
    with ledger:
        assert ledger.verify().ok
        inputs, counts = [], []
        for some in ledger.columns():
            inputs += list(some.inputs["input"])
            counts += some.decisions.counts.tolist()
        lost = [event.body["count"] for event in ledger.events() if event.kind == "lost"]
        return list(map(crashing.number_of, inputs)), counts, sum(lost)


def check(folder, seed, beside, said, answered):
    """Compare the ledger with what was said, and with a run that nobody interrupts."""
    numbers, counts, missing = numbers_in(folder)
    assert numbers == sorted(set(numbers)), "not in order, or twice"
    for number in numbers[len(beside) :]:
        beside.take(*crashing.decision(seed, number), key=number)
    assert numbers == [one.key for one in beside.decisions], "lost"
    assert counts == [len(one.rows) for one in beside.decisions]
    for number, row, count in answered:
        assert (numbers[row], counts[row]) == (number, count)
    lost = {one[1] for one in said if one[0] == "given" and one[2] is not None}
    assert not lost & set(numbers)
    return len(numbers), missing


def crash(folder, seed, kills):
    """Kill so many times; during what."""
    drawn = random.Random(seed)
    beside = Uninterrupted(crashing.RULE.epsilon)
    said, answered, during, spilled = [], [], [], 0
    with program(crashing.__file__, folder, seed) as process:
        for turn in range(kills):
            early = turn % 4 == 0  # while ledger and folder are opened, or soon after
            delay = drawn.uniform(0, 0.05 if early else 0.4)
            life = Life(process, {"turn": turn}, delay, "child" if early else "opened")
            said += life.said
            answered += life.acknowledged
            check(folder, seed, beside, said, life.acknowledged)
            during.append(life.last)
            spilled += any((folder / "spill").glob("*.frames"))
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
    beside = Uninterrupted(crashing.RULE.epsilon)
    assert check(folder, seed, beside, said, answered) == (rows, missing)
    assert rows + missing == number + 1, "answered and lost are not all that was given"
    assert lw.replay(folder / "ledger").ok
    return rows, missing


def crash_and_finish(folder, seed, kills):
    """So many kills, and then a process that nothing befalls."""
    said, answered, during, spilled = crash(folder, seed, kills)
    rows, missing = finish(folder, seed, said, answered)
    assert rows > 10 * kills and missing > 0 and spilled > kills // 5, (rows, missing, spilled)
    assert {"opening", "given"} <= set(during), during
