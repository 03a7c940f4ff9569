"""A program that feeds a ledger until it is killed; `test_crashes.py` kills it.

    python crashing.py FOLDER SEED DURABILITY WINDOW

Everything is imported and compiled once; then each line on standard input forks a child, which
opens the ledger and goes on with it. What the child does follows from the seed and the row, and
each thing is announced before and acknowledged after, as a line of JSON.
"""

import json
import os
import random
import sys
import zlib

import likewise as lw
from likewise.ledger import records

RULE = lw.Rule("linf", 0.08)
SMALL_FILES = 1 << 13
"""Bytes of a file of records, so that windows have some to drop."""


def decision(seed, row):
    """Input, output and key of a row."""
    drawn = random.Random(f"{seed} {row}")
    vector = [round(drawn.random(), 3), round(drawn.random() * 0.3, 3)]
    output = drawn.choice(["yes", "no", "yes", f"case {row // 50}"])
    return vector, output, f"person {row}" if drawn.random() < 0.7 else None


def say(*what):
    os.write(1, (json.dumps(what) + "\n").encode())


def told(row, verdict):
    """A verdict as it is acknowledged."""
    return summary(row, verdict.witnesses.rows, verdict.over.first, verdict.over.absent)


def summary(row, witnesses, first, absent):
    """Short, so that a line is written to a pipe whole or not at all, whoever is killed."""
    return [row, len(witnesses), zlib.crc32(witnesses.tobytes()), [first, absent]]


def acknowledge(verdicts):
    for at in range(0, len(verdicts), 40):
        say("done", verdicts[at : at + 40])


def observe_some(monitor, seed, count):
    first = monitor.rows
    some = [decision(seed, row) for row in range(first, first + count)]
    x, z, keys = map(list, zip(*some, strict=True))
    say("trying", first + count)
    verdicts = monitor.observe_many(x, z, keys=keys)
    acknowledge([told(first + i, verdict) for i, verdict in enumerate(verdicts)])


def observe_one(monitor, seed):
    row = monitor.rows
    x, z, key = decision(seed, row)
    say("trying", row + 1)
    return told(row, monitor.observe(x, z, key=key))


def erase_one(monitor, drawn):
    row = drawn.randrange(monitor.rows)
    if monitor.past.alive([row])[0]:
        say("erasing", row)
        monitor.erase(rows=[row])
        say("erased", row, monitor.rows)


def feed(folder, seed, durability, window, turn):
    drawn = random.Random(f"{seed} {turn}")
    say("opening")
    monitor = lw.open(folder, RULE, durability=durability, window=window)
    say("opened", monitor.rows)
    waiting = []
    while True:
        choice = drawn.random()
        if choice < 0.1:
            observe_some(monitor, seed, drawn.randrange(1, 90))
        elif choice < 0.16 and monitor.rows:
            erase_one(monitor, drawn)
        elif choice < 0.2:
            monitor.close()
            waiting = []
            say("closed")
            monitor = lw.open(folder, RULE, durability=durability, window=window)
            say("opened", monitor.rows)
        else:
            waiting.append(observe_one(monitor, seed))
        if durability == "commit" or drawn.random() < 0.1:
            monitor.flush()
            acknowledge(waiting)
            waiting = []


def main(folder, seed, durability, window):
    records.SEGMENT_BYTES = SMALL_FILES
    warm = lw.Monitor(RULE)  # compiled here, so that children are ready at once
    warm.observe([0.5, 0.5], "yes")
    warm.observe_many([[0.5, 0.5]], ["no"])
    warm.forget([0])
    warm.close()
    say("ready")
    for turn in sys.stdin:
        child = os.fork()
        if child == 0:
            feed(folder, seed, durability, window, turn.strip())
        say("child", child)
        _, status = os.waitpid(child, 0)
        say("gone", status)


if __name__ == "__main__":
    main(*sys.argv[1:])
