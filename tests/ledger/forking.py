"""A ledger in a process that forks: python -m tests.ledger.forking WHAT FOLDER prints "done"."""

import os
import sys
import warnings

import likewise as lw
from tests.support.programs import answer_in_child

RULE = lw.Rule("linf", 0.1)


def filled(folder, **how):
    monitor = lw.open(folder, RULE, **how)
    monitor.observe([0.1, 0.2], "yes", key="a")
    monitor.observe([0.15, 0.2], "no", key="b")
    return monitor


def leaves_what_waits_to_its_parent(folder):
    with filled(folder, durability="batch", batch_seconds=1000) as monitor:
        said = answer_in_child(monitor.flush)
        assert said.startswith("BadFile: ") and "was forked from" in said, said
        assert answer_in_child(monitor.close) == "None"  # as at its exit
        assert not monitor.closed
        with lw.Ledger(folder) as ledger:
            assert ledger.rows == 0
    with lw.open(folder) as monitor:
        assert monitor.rows == 2 and monitor.ledger.verify().ok


def does_not_keep_the_lock(folder):
    monitor = filled(folder)
    out, into = os.pipe()
    child = os.fork()
    if child == 0:  # lives on, having inherited everything
        os.read(out, 1)
        os._exit(0)
    monitor.close()
    with lw.open(folder) as again:
        assert again.rows == 2
    os.write(into, b"x")
    os.waitpid(child, 0)


if __name__ == "__main__":
    warnings.filterwarnings("ignore", ".*multi-threaded.*fork", DeprecationWarning)
    {one.__name__: one for one in (leaves_what_waits_to_its_parent, does_not_keep_the_lock)}[
        sys.argv[1]
    ](sys.argv[2])
    print("done")
