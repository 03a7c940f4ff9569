"""A process that works on a ledger is killed at random instants; nothing acknowledged is lost.

After every kill the ledger is compared with what was acknowledged and with a run in plain NumPy
that nobody interrupts (`crash_checks.py`). The next process goes on from there. KILLS says how
often in the slow tier, FEW in `make test`.
"""

import random

import pytest

from tests.contracts import crashing
from tests.contracts.crash_checks import CHECKS
from tests.queueing import crash_checks as buffering
from tests.support.killing import Life, program

pytestmark = pytest.mark.early

KILLS = {
    "commit": 250,
    "batch": 200,
    "group": 250,
    "submit": 200,
    "erase": 250,
    "window": 250,
    "slopes": 100,
    "migrate": 200,
    "backup": 200,
    "buffer": 200,
}
"""2,100 in all."""
FEW = {
    "commit": 8,
    "batch": 5,
    "group": 6,
    "submit": 5,
    "erase": 6,
    "window": 6,
    "slopes": 5,
    "migrate": 5,
    "backup": 5,
}
LIVES = {"buffer": 50}
"""Kills before another ledger is begun; 25 unless said here."""
OUTSIDE = 8
"""The verifier that knows nothing of likewise looks after so many kills."""

WORDS = {
    "commit": ("opening", "trying", "opened", "erasing"),
    "batch": ("opening", "trying", "opened", "erasing"),
    "group": ("opening", "done", "trying", "opened"),
    "submit": ("opening", "done", "trying", "opened"),
    "erase": ("opening", "erasing", "opened", "erased"),
    "window": ("opening", "opened", "trying", "closing"),
    "slopes": ("trying", "opened", "erasing", "closing"),
    "migrate": ("migrating", "migrating", "migrating", "migrated"),
    "backup": ("copying", "copying", "opened", "copied"),
}
"""After which words, in turn, the clock of a kill begins to run."""
SPANS = {
    "opening": (1, 0.03),
    "opened": (1, 0.25),
    "trying": (60, 0.004),
    "done": (40, 0.004),
    "erasing": (4, 0.02),
    "erased": (4, 0.002),
    "closing": (2, 0.02),
    "migrating": (3, 0.08),
    "migrated": (3, 0.004),
    "copying": (3, 0.06),
    "copied": (3, 0.01),
}
"""How often such a word is said at most before, and for how many seconds the clock runs at most."""


def crash(folder, seed, kind, kills):
    """Kill so many times, and check after each."""
    drawn = random.Random(f"{seed} {kind}")
    checks = CHECKS[kind](folder, seed, kind)
    rows, met, last = [], set(), []
    where = folder if kind == "migrate" else folder / "ledger"
    with program(crashing.__file__, where, seed, kind) as process:
        for turn in range(kills):
            after = WORDS[kind][turn % len(WORDS[kind])]
            most, seconds = checks.spans.get(after, SPANS[after])
            life = Life(
                process,
                checks.order(turn),
                drawn.uniform(0, seconds),
                after,
                drawn.randint(1, most),
            )
            rows.append(checks.check(life, outside=turn % OUTSIDE == OUTSIDE - 1))
            met |= {after} if life.met else set()
            last.append(life.last)
    checks.finish()
    check_variety(kind, rows, met, last)


def check_variety(kind, rows, met, last):
    """The kills landed all over the place.

    Three kinds of instants at least: a child is killed right after each of the words that it says
    when it begins something. The last word itself is not asked to be one of three. On a busy
    machine a child has said more before its killer has its turn, and what takes longest is met.
    """
    assert rows[-1] > 0 and len(set(rows)) > len(rows) // 5, rows
    assert met == set(WORDS[kind]), last
    assert len(met) >= 3 or kind == "migrate"


@pytest.mark.parametrize("kind", FEW)
def test_killed(tmp_path, kind):
    crash(tmp_path, 1, kind, FEW[kind])


@pytest.mark.slow
@pytest.mark.parametrize("kind", KILLS)
def test_killed_thousands_of_times(tmp_path, kind):
    lives = LIVES.get(kind, 25)
    for seed, done in enumerate(range(0, KILLS[kind], lives), start=2):
        kills = min(lives, KILLS[kind] - done)
        folder = tmp_path / f"{seed}"
        folder.mkdir()
        if kind == "buffer":
            buffering.crash_and_finish(folder, seed, kills)
        else:
            crash(folder, seed, kind, kills)
