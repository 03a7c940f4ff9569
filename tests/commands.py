"""Running the command as a user does, and in this process where a message is all that matters."""

import os
import select
import subprocess
import sys
import time
from pathlib import Path

INSTALLED = Path(sys.executable).with_name("likewise")
COMMAND = [str(INSTALLED)] if INSTALLED.is_file() else [sys.executable, "-m", "likewise"]


def likewise(*arguments, given=None, code=0, **settings):
    """The installed command, run to its end."""
    done = subprocess.run(
        [*COMMAND, *map(str, arguments)],
        input=given,
        capture_output=True,
        text=not isinstance(given, bytes),
        timeout=300,
        check=False,
        **settings,
    )
    assert done.returncode == code, (done.returncode, done.stdout, done.stderr)
    return done


def at_a_terminal(*arguments, typed=b"", **settings):
    """Everything that a terminal of 100 columns is sent, and the exit code."""
    import pty

    ours, theirs = pty.openpty()
    running = subprocess.Popen(
        [*COMMAND, *map(str, arguments)],
        stdin=theirs, stdout=theirs, stderr=theirs, close_fds=True,
        env={**os.environ, "TERM": "xterm-256color", "COLUMNS": "100", "LINES": "40"},
        **settings,
    )  # fmt: skip
    os.close(theirs)
    os.write(ours, typed)
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
