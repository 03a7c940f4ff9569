"""A signal that arrives anywhere in open() or close() never leaves the lock with the process.

Afterwards the ledger is open and can be closed, or it is closed. Whatever was answered is on disk
once it was closed a second time.
"""

import pytest

import likewise as lw
from tests.support.interruptions import Interrupted, at_step, steps_of_lines

pytestmark = pytest.mark.long

RULE = lw.Rule("linf", 0.1)
LAZY = {"durability": "batch", "batch_seconds": 2.0}


def opened(folder, **settings):
    return lw.open(folder, RULE, **settings)


@pytest.mark.parametrize("settings", [{}, LAZY], ids=["commit", "batch"])
def test_close_at_every_line(tmp_path, settings):
    folder, answered = tmp_path / "ledger", 0
    opened(folder, **settings).close()  # whatever is imported the first time

    def filled():
        nonlocal answered
        monitor = opened(folder, **settings)
        assert monitor.rows == answered
        for i in range(3):
            monitor.observe([0.01 * i], i % 2, key=f"{answered} {i}")
        answered += 3
        return monitor

    filled().close()
    steps = steps_of_lines(filled().close)
    assert len(steps) > 25
    for step in steps:
        monitor = filled()
        where = at_step(step, monitor.close, signals=True)
        monitor.close()
        try:
            opened(folder, check=False).close()
        except lw.errors.BadFile as error:
            error.add_note(f"interrupted at {where}")
            raise
    with lw.Ledger(folder) as ledger:
        assert ledger.rows == answered and ledger.verify().ok


@pytest.mark.parametrize("new", [False, True], ids=["one that is there", "a new one"])
def test_open_at_every_line(tmp_path, new):
    settings = {} if new else LAZY  # a thread writes what waits
    folder = tmp_path / "ledger"
    with opened(folder, **settings) as monitor:
        monitor.observe([0.5], 1)
    monitors = []

    def place(number):
        return tmp_path / f"new {number}" if new else folder

    def open_one(number):
        try:
            monitors.append(opened(place(number), **settings))
        except RuntimeError as error:  # of `threading.Condition`, which a signal breaks sometimes
            assert isinstance(error.__context__, Interrupted)

    steps = steps_of_lines(lambda: open_one("first"))
    assert len(steps) > 150
    for step in steps:
        where = at_step(step, lambda at=step: open_one(at), signals=True)
        while monitors:
            monitors.pop().close()
        try:
            with opened(place(step), check=False, **settings) as monitor:
                assert monitor.rows == 1 - new
        except lw.errors.BadFile as error:
            error.add_note(f"interrupted at {where}")
            raise
