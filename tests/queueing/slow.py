"""Real monitors that can be made to wait, and what tests of buffers share."""

import os
import threading
import time
from contextlib import contextmanager
from types import SimpleNamespace

import numpy as np

import likewise as lw

RULE = lw.Rule("linf", 0.15)


class Gated(lw.Monitor):
    """A monitor that judges once it is let."""

    def __init__(self, rule=RULE, **settings):
        super().__init__(rule, **settings)
        self.gate, self.began = threading.Event(), threading.Event()

    def observe_many(self, *args, **kwargs):
        self.began.set()
        assert self.gate.wait(60)
        return super().observe_many(*args, **kwargs)


class Slow(lw.Monitor):
    """A monitor that takes its time over every batch."""

    seconds = 0.002

    def observe_many(self, *args, **kwargs):
        time.sleep(self.seconds)
        return super().observe_many(*args, **kwargs)


@contextmanager
def slow_ledger(folder, rule=RULE, seconds=0.002, **settings):
    """A monitor with a ledger that takes its time over judging, and none over accepting."""

    def slowly(call):
        def called(*args, **kwargs):
            time.sleep(seconds)
            return call(*args, **kwargs)

        return called

    with lw.open(folder, rule, durability="off", **settings) as monitor:
        monitor.observe_many = slowly(monitor.observe_many)
        monitor.ledger.judge_accepted = slowly(monitor.ledger.judge_accepted)
        yield monitor


@contextmanager
def slow_disk(seconds):
    """A disk that takes its time over every wait for it: `seconds` of what this gives, from now."""
    disk = SimpleNamespace(seconds=seconds, waits=0)
    sync = os.fdatasync

    def slowly(file):
        disk.waits += 1
        until = time.monotonic() + disk.seconds
        while disk.seconds and time.monotonic() < until:
            time.sleep(0.01)  # until it is quick again
        sync(file)

    os.fdatasync = slowly
    try:
        yield disk
    finally:
        os.fdatasync = sync


def decisions(count, seed=1):
    """Inputs around some centres, and labels."""
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 2, (count, 3)) + rng.normal(0, 0.06, (count, 3))
    return x, [str(one) for one in rng.integers(0, 3, count)]


def is_balanced(stats):
    """Whether every decision is accounted for."""
    return stats.submitted == (
        stats.answered + stats.refused + stats.total_lost + stats.waiting + stats.accepted
    )


def inline(x, z, **settings):
    """What a monitor says that is told one by one."""
    monitor = lw.Monitor(RULE, **settings)
    return [monitor.observe(*one) for one in zip(x, z, strict=True)]
