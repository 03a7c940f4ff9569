"""Runs a Python program in a process of its own, to its end; what a forked process answers."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 20  # in which a forked process has to answer


def run_python(
    *arguments: Any, code: int | None = 0, timeout: float = 300, **settings: Any
) -> subprocess.CompletedProcess[str]:
    """Run an interpreter with these arguments; what it printed, as text.

    code: the exit code that is expected; None: any
    """
    done = subprocess.run(
        [sys.executable, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
        **settings,
    )
    assert code in (None, done.returncode), (done.returncode, done.stdout, done.stderr)
    return done


def run_module(name: str, *arguments: Any, **settings: Any) -> subprocess.CompletedProcess[str]:
    """Run a module of the tests, such as "monitor.forked", as a program."""
    return run_python("-m", f"tests.{name}", *arguments, cwd=ROOT, **settings)


def answer_in_child(action: Callable[[], object]) -> str:
    """Fork a process that does this; what it answers, how it failed, or "hangs"."""
    out, into = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(SECONDS)
        try:
            said = str(action())
        except BaseException as error:
            said = f"{type(error).__name__}: {error}"
        os.write(into, said.encode())
        os._exit(0)
    os.close(into)
    with os.fdopen(out, "rb") as reading:
        answer = reading.read()
    os.waitpid(child, 0)
    return answer.decode() or "hangs"
