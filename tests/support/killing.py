"""Processes that are killed at random instants: what the killed and the killer have in common.

The program that is killed calls `serve`: everything is imported and compiled once, then each line
on standard input forks a child, which lives one life. Whatever it does, it says: a line of JSON
before, and another when it was answered. In the test, `program` runs it, and `Life` is one child,
from the line that begins it until it is gone.
"""

import json
import os
import signal
import subprocess
import sys
import threading
import time
import traceback
from contextlib import contextmanager, suppress

LONGEST = 30.0
"""Seconds after which a child is killed that never says the word it was to be killed after."""


# The side that is killed


def say(*what):
    """A short line is written to a pipe whole or not at all, whoever is killed."""
    os.write(1, (json.dumps(what) + "\n").encode())


def serve(life):
    """Fork a child for each line; `life` gets what the line says, and never comes back."""
    say("ready")
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            _live(life, json.loads(line))
        say("child", child)
        _, status = os.waitpid(child, 0)
        say("gone", status)


def _live(life, order):
    """Whatever goes wrong, in whichever thread, ends the child, and so the test."""

    def give_up(about):
        traceback.print_exception(about.exc_type, about.exc_value, about.exc_traceback)
        os._exit(1)

    threading.excepthook = give_up
    try:
        life(order)
    except BaseException:
        traceback.print_exc()
    os._exit(1)


# The side that kills


@contextmanager
def program(path, *arguments):
    """The program, once it is ready."""
    with subprocess.Popen(
        [sys.executable, str(path), *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert json.loads(process.stdout.readline()) == ["ready"]
            yield process
            process.stdin.close()
        except BaseException:
            process.kill()  # its child ends when it finds nobody to talk to
            raise


class Life:
    """One life: what the child said until it was killed.

    order           what the child is told
    after, nth      the word that begins the killer's clock, and which time it is said
    delay           seconds from then on
    """

    def __init__(self, process, order, delay, after="child", nth=1):
        process.stdin.write(json.dumps(order) + "\n")
        process.stdin.flush()
        self.said = []
        begun, times, killer = threading.Event(), 0, None
        for line in process.stdout:
            self.said.append(tuple(json.loads(line)))
            word = self.said[-1][0]
            times += word == after
            if times == nth:
                begun.set()
            if word == "child":
                killer = threading.Thread(target=_kill, args=(self.said[-1][1], begun, delay))
                killer.start()
            elif word == "gone":
                break
        killer.join()
        self.met = begun.is_set()  # else it never said that word
        assert self.said[-1] == ("gone", signal.SIGKILL), self.said[-3:]
        words = [one[0] for one in self.said[:-1] if one[0] != "child"]
        self.last = words[-1] if words else "child"

    def told(self, word):
        """All that was said with a word."""
        return [about for what, *about in self.said if what == word]

    @property
    def acknowledged(self):
        return [one for (some,) in self.told("done") for one in some]


def _kill(child, begun, delay):
    if begun.wait(LONGEST):
        time.sleep(delay)
    with suppress(ProcessLookupError):  # it ended by itself, which the test will not let pass
        os.kill(child, signal.SIGKILL)
