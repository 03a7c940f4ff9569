"""A program that submits decisions until it is killed; `test_crashes.py` kills it.

    python crashing.py FOLDER SEED

Each child goes on with the ledger, from a number that it is told. A decision is made from its
number, so that what a ledger holds says which numbers it has.
"""

import random
import sys
import time
from pathlib import Path

import numpy as np

import likewise as lw

sys.path.insert(0, str(Path(__file__).parents[2]))  # it is run as a script
from tests.support.killing import say, serve

RULE = lw.Rule("linf", 0.08)
SCALE = 2.0**-24
"""A number is in the input, too small to keep others apart."""


def decision(seed, number):
    drawn = random.Random(f"{seed} {number}")
    x = np.array([round(drawn.random(), 3), round(drawn.random() * 0.3, 3), number * SCALE])
    return x, drawn.choice(["yes", "no", "yes"])


def number_of(x):
    return round(float(x[2]) / SCALE)


def open_both(folder, drawn, begin):
    """A ledger and a buffer that is soon full, whose numbers count from `begin`."""
    monitor = lw.open(folder / "ledger", RULE, durability=drawn.choice(["commit", "batch", "off"]))
    say("opened", monitor.rows, monitor.missing_decisions)

    def on_verdict(one):
        say("done", [[begin + one.number, one.row, len(one.verdict.witnesses)]])

    buffer = lw.buffered(
        monitor,
        drawn.choice([1, 5, 40]),
        when_full="accept",
        batch_rows=drawn.choice([1, 7, 64]),
        batch_seconds=drawn.choice([0.0, 0.001]),
        on_verdict=on_verdict,
    )
    return monitor, buffer


def feed(folder, seed, turn, begin):
    drawn = random.Random(f"{seed} {turn}")
    say("opening")
    monitor, buffer = open_both(folder, drawn, begin)
    number = before = begin
    while True:
        receipt = buffer.submit(*decision(seed, number))
        assert receipt == (number - before, None, None, None, None, None)
        say("given", number)
        number += 1
        choice = drawn.random()
        if choice < 0.01:
            say("flushing")
            buffer.flush()
        elif choice < 0.015:
            say("closing")
            buffer.close(drawn.choice([0.0, 60.0]))
            assert buffer.stats.total_lost == 0
            monitor.close()
            say("closed", number)
            before = number
            monitor, buffer = open_both(folder, drawn, before)
        elif choice < 0.1:
            stats = buffer.stats
            say("safe", before + stats.answered + stats.accepted, stats.accepted)
            time.sleep(drawn.random() * 0.01)


def main(folder, seed):
    folder = Path(folder)
    warm = lw.Monitor(RULE)  # compiled here, so that children are ready at once
    warm.observe_many([decision(seed, i)[0] for i in range(4)], ["yes", "no"] * 2)
    warm.close()
    serve(lambda order: feed(folder, seed, order["turn"], order["begin"]))


if __name__ == "__main__":
    main(*sys.argv[1:])
