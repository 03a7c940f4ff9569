"""What is said while something runs: that the compiler is at work only while it is."""

import sys
import threading
import time
import types

import pytest

from likewise.cli import screen


@pytest.fixture
def jit(monkeypatch):
    """Kernels that are compiled at run time, by a compiler that is idle."""
    lock = threading.RLock()
    held = types.SimpleNamespace(_lock=lock)
    monkeypatch.setitem(
        sys.modules,
        "likewise.kernels.jit",
        types.SimpleNamespace(global_compiler_lock=held, kept=True),
    )
    monkeypatch.setattr(screen, "_PATIENCE", 0.05)
    monkeypatch.setattr(screen, "_AGAIN", 0.02)
    return lock


def test_waiting_for_something_else_is_not_called_compiling(jit, capsys):
    with screen.progress("judging"):
        time.sleep(0.3)
    assert capsys.readouterr().err == ""


def test_waiting_for_the_compiler_is_said_once(jit, capsys):
    with screen.progress("judging"), jit:  # as whoever calls a kernel holds it
        time.sleep(0.5)
    assert capsys.readouterr().err == "compiling, once per machine ...\n"


def test_kernels_that_are_there_are_never_called_compiling(monkeypatch, capsys):
    monkeypatch.delitem(sys.modules, "likewise.kernels.jit", raising=False)
    monkeypatch.setattr(screen, "_PATIENCE", 0.05)
    with screen.progress("judging"):
        time.sleep(0.3)
    assert capsys.readouterr().err == ""
