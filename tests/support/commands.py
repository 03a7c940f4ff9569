"""Running the command as a user does, and in this process where what it says is all that matters.

A process of its own takes half a second to import everything. So `likewise` is for most tests, and
`installed` for those about pipes, exit codes, other processes, and for each command once.
"""

import contextlib
import io
import os
import select
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from unittest import mock

from likewise.cli import main

INSTALLED = Path(sys.executable).with_name("likewise")
COMMAND = [str(INSTALLED)] if INSTALLED.is_file() else [sys.executable, "-m", "likewise"]


def likewise(*arguments, given=None, code=0):
    """The command in this process, with files for its three streams; what `installed` answers.

    code: the exit code that is expected; None: any
    """
    binary = isinstance(given, bytes)
    with contextlib.ExitStack() as streams:
        files = [streams.enter_context(tempfile.TemporaryFile()) for _ in range(3)]
        files[0].write(given if binary else (given or "").encode())
        files[0].seek(0)
        stdin, stdout, stderr = (io.TextIOWrapper(one, encoding="utf-8") for one in files)
        with mock.patch.multiple(sys, stdin=stdin, stdout=stdout, stderr=stderr):
            ended = main([*map(str, arguments)])
        said = []
        for stream in (stdout, stderr):
            stream.flush()
            stream.seek(0)
            said.append(stream.buffer.read() if binary else stream.read())
    assert code in (None, ended), (ended, *said)
    return subprocess.CompletedProcess(["likewise", *arguments], ended, *said)


def installed(*arguments, given=None, code=0, **settings):
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
