"""A buffer in a forked process, and at the end of a program."""

import os

import pytest

import likewise as lw
from tests.support.programs import run_module


def run(what, folder):
    return run_module("queueing.leaving", what, folder, code=None)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
@pytest.mark.parametrize("what", ["forked", "forked_ledger"])
def test_forked_process_refuses_and_its_parent_goes_on(what, tmp_path):
    done = run(what, tmp_path)
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr


@pytest.mark.parametrize("what", ["ended", "ended_by_an_exit_function", "forgotten"])
def test_what_waits_at_the_end_of_the_program_is_judged(what, tmp_path):
    done = run(what, tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")
    with lw.open(tmp_path / "ledger") as monitor:
        assert (monitor.rows, monitor.missing_decisions) == (300, 0)


def test_program_ends_though_its_monitor_does_not(tmp_path):
    done = run("ended_at_once", tmp_path)
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr
