"""What a person at a terminal sees: a bar while it runs, colours, nothing of it left over."""

import os
import pty
import re
import select
import subprocess
import time

import numpy as np
import polars as pl

from commands import COMMAND


def at_a_terminal(*arguments):
    """Everything that a terminal of 100 columns is sent, and the exit code."""
    ours, theirs = pty.openpty()
    running = subprocess.Popen(
        [*COMMAND, *map(str, arguments)],
        stdin=theirs, stdout=theirs, stderr=theirs, close_fds=True,
        env={**os.environ, "TERM": "xterm-256color", "COLUMNS": "100", "LINES": "40"},
    )  # fmt: skip
    os.close(theirs)
    sent, until = b"", time.monotonic() + 240
    while time.monotonic() < until:
        if not select.select([ours], [], [], 0.2)[0]:
            continue
        try:
            piece = os.read(ours, 1 << 16)
        except OSError:
            break  # the other end is closed
        if not piece:
            break
        sent += piece
    os.close(ours)
    return sent.decode(), running.wait(timeout=60)


def test_progress_is_shown_and_vanishes(tmp_path):
    """Long enough to take some seconds: a bar, how many so far, and then the summary alone."""
    random = np.random.default_rng(0)
    x = random.random((400_000, 4))
    frame = pl.DataFrame({f"c{j}": x[:, j] for j in range(4)})
    frame = frame.with_columns(z=pl.Series((x.sum(axis=1) > 2).astype(int)))
    frame.write_csv(tmp_path / "many.csv")
    sent, code = at_a_terminal(
        "audit", tmp_path / "many.csv", "--epsilon", "0.02", "--output-column", "z"
    )
    assert code == 0
    assert "judging" in sent and re.search(r"[\d,]+ decisions", sent)
    assert re.search(r"\d+%", sent.split("contradict")[0])
    assert "\x1b[?25h" in sent, "the cursor stays hidden"
    assert "\x1b[1m" in sent, "no bold headline"
    assert sent.rindex("judging") < sent.rindex("contradict an earlier one")


def test_help_has_colours_at_a_terminal():
    sent, code = at_a_terminal("--help")
    assert code == 0 and "\x1b[" in sent
