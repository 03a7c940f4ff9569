"""A program that works on a ledger until it is killed; `test_crashes.py` kills it.

    python crashing.py FOLDER SEED KIND

What a child does follows from the seed and its turn; what a decision is, from its row or its name.

    commit, batch, erase, window    decisions one by one and in batches, erasures, opening again
    slopes                          the same in a ledger of slopes, with a window
    group                           eight threads, each with its next decision once it was answered
    submit                          many decisions are handed in before the first is answered
    backup                          a thread copies the ledger over and over while another writes
    migrate                         a ledger becomes new ones, over and over
"""

import random
import sys
import zlib
from dataclasses import dataclass
from itertools import chain, count
from pathlib import Path
from threading import Thread

import likewise as lw
from likewise.ledger import record_files

sys.path.insert(0, str(Path(__file__).parents[2]))  # it is run as a script
from tests.support.killing import say, serve

RULE = lw.Rule("linf", 0.08)
OTHER_RULE = lw.Rule("linf", 0.12)
"""Under which a migration judges again."""
THREADS = 8
SMALL_FILES = 1 << 13
"""Bytes of a file of records, so that windows have some to drop."""


@dataclass(frozen=True)
class Mix:
    """How a ledger is opened, and how often something else than a single decision is done."""

    durability: tuple[str, ...] = ("commit",)
    """One of them in each life."""
    window: str = "all"
    many: float = 0.1
    erase: float = 0.04
    close: float = 0.04
    slopes: bool = False

    def open(self, folder, **settings):
        """The ledger, begun or gone on with."""
        return lw.open(folder, RULE, window=self.window, slope=self.slopes, **settings)


MIXES = {
    "commit": Mix(),
    "batch": Mix(("batch",)),
    "erase": Mix(("commit", "batch"), erase=0.4),
    "window": Mix(("commit", "batch"), "200 rows", many=0.3),
    "slopes": Mix(("commit", "batch"), "200 rows", many=0.2, erase=0.1, slopes=True),
    "backup": Mix(erase=0.01, close=0.0),
}


def decision(seed, name):
    """Input, output and key of a row, or of whatever is named so."""
    drawn = random.Random(f"{seed} {name}")
    vector = [round(drawn.random(), 3), round(drawn.random() * 0.3, 3)]
    label = f"case {name // 50}" if isinstance(name, int) else "case"
    output = drawn.choice(["yes", "no", "yes", label])
    return vector, output, f"person {name}" if drawn.random() < 0.7 else None


def told(row, verdict):
    """A verdict as it is acknowledged."""
    return summary(
        row, verdict.witnesses.rows, verdict.compared_with.first, verdict.compared_with.absent
    )


def summary(row, witnesses, first, absent):
    return [row, len(witnesses), zlib.crc32(witnesses.tobytes()), [first, absent]]


def acknowledge(verdicts):
    for at in range(0, len(verdicts), 40):
        say("done", verdicts[at : at + 40])


# Decisions by row


def observe_some(monitor, seed, how_many):
    first = monitor.rows
    some = [decision(seed, row) for row in range(first, first + how_many)]
    x, z, keys = map(list, zip(*some, strict=True))
    say("trying", first + how_many)
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


def feed(folder, seed, mix, turn, beside=None):
    """beside: what a thread does meanwhile, given the folder"""
    drawn = random.Random(f"{seed} {turn}")
    durability = drawn.choice(mix.durability)

    def opened():
        say("opening")
        monitor = mix.open(folder, durability=durability)
        say("opened", monitor.rows)
        return monitor

    monitor, waiting = opened(), []
    if beside is not None:
        Thread(target=beside, args=(folder,)).start()
    while True:
        choice = drawn.random()
        if choice < mix.many:
            observe_some(monitor, seed, drawn.randrange(1, 90))
        elif choice < mix.many + mix.erase and monitor.rows:
            erase_one(monitor, drawn)
        elif choice < mix.many + mix.erase + mix.close:
            say("closing")
            monitor.close()
            waiting = []
            say("closed")
            monitor = opened()
        else:
            waiting.append(observe_one(monitor, seed))
        if durability == "commit" or drawn.random() < 0.1:
            monitor.flush()
            acknowledge(waiting)
            waiting = []


def copy_over_and_over(folder):
    while True:
        say("copying")
        try:
            made = lw.back_up(folder, folder.with_name("copy"))
        except lw.errors.BadFile as error:  # erasures came between all of its attempts
            assert "Try again" in str(error), error
        else:
            say("copied", made.rows, made.head)


# Decisions by name


def answered(name, verdict):
    if verdict.repeated:  # sent again, and its first answer never arrived
        say("known", name, verdict.row, verdict.count)
    else:
        say("done", [[name, *told(verdict.row, verdict)]])


def feed_from_threads(folder, seed, turn, unanswered):
    """unanswered: names that were sent in lives before, to be sent again first"""
    monitor = open_ledger(folder)

    def observe(thread):
        for name in chain(unanswered[thread::THREADS], names(turn, thread)):
            x, z, _ = decision(seed, name)
            say("trying", name)
            answered(name, monitor.observe(x, z, key=name))

    threads = [Thread(target=observe, args=(thread,)) for thread in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def submit_many(folder, seed, turn, unanswered):
    monitor, drawn = open_ledger(folder), random.Random(f"{seed} {turn}")
    following = chain(unanswered, names(turn, 0))
    while True:
        some = [next(following) for _ in range(drawn.randrange(1, 60))]
        answers = []
        for name in some:
            x, z, _ = decision(seed, name)
            say("trying", name)
            answers.append(monitor.submit(x, z, key=name))
        for name, answer in zip(some, answers, strict=True):
            answered(name, answer.result())


def open_ledger(folder):
    say("opening")
    monitor = lw.open(folder, RULE)
    say("opened", monitor.rows)
    return monitor


def names(turn, thread):
    return (f"{turn} {thread} {i}" for i in count())


# Migrations


def migrate_over_and_over(folder, seed, turn):
    drawn = random.Random(f"{seed} {turn}")
    for i in count():
        new = f"{turn}-{i}-{drawn.choice(['copied', 'judged-again'])}"
        say("migrating", new)
        migrate(folder, new)
        say("migrated", new)


def migrate(folder, new):
    """Make the ledger of that name: copied, or judged again under another rule."""
    rule = OTHER_RULE if new.endswith("judged-again") else RULE
    return lw.migrate(folder / "old", folder / new, rule=rule)


def main(folder, seed, kind):
    record_files.SEGMENT_BYTES = SMALL_FILES
    folder = Path(folder)
    for slope in (False, True):
        warm = lw.Monitor(RULE, slope=slope)  # compiled here, so that children are ready at once
        warm.observe([0.5, 0.5], "yes")
        warm.observe_many([[0.5, 0.5]], ["no"])
        warm.forget([0])
        warm.close()

    def life(order):
        turn, unanswered = order["turn"], order.get("unanswered", [])
        if kind == "group":
            feed_from_threads(folder, seed, turn, unanswered)
        elif kind == "submit":
            submit_many(folder, seed, turn, unanswered)
        elif kind == "migrate":
            migrate_over_and_over(folder, seed, turn)
        else:
            beside = copy_over_and_over if kind == "backup" else None
            feed(folder, seed, MIXES[kind], turn, beside)

    serve(life)


if __name__ == "__main__":
    main(*sys.argv[1:])
