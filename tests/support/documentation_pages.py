"""Runs a page of the documentation as its reader would: each block in its order, in one folder.

    ```sh          run by bash; `likewise` is the installed command
    ```python      run in one namespace for the page
    ```text        directly after one of those: what it prints
    <!-- file: NAME -->     before any block: what the reader is asked to write to NAME
    <!-- not run: why -->   before a block that a test cannot run

In a block of output a line with nothing but … stands for lines left out. Times, dates and hashes of
a run are compared as such, not digit by digit; but a hash that a page shows twice is one hash.
"""

import contextlib
import io
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

BLOCK = re.compile(
    r"(?:^<!-- (?P<what>file|not run): (?P<said>[^\n]*?) -->\n+)?"
    r"^```(?P<language>\w*|\{[\w-]+\})\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
RUN = ("sh", "python")
HASH = re.compile(r"\b[0-9a-f]{64}\b")
CHANGING = (
    (HASH, "HASH"),
    (re.compile(r"\b\d+\.\d+ s\b"), "SECONDS"),
    (re.compile(r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z?"), "TIME"),
)


@dataclass(frozen=True)
class Step:
    """A block to run or to write, and what it is said to print."""

    language: str
    text: str
    file: str | None
    expected: str | None
    place: str


def steps(name: str, markdown: str) -> Iterator[Step]:
    """What a reader is asked to do, in order."""
    blocks = list(BLOCK.finditer(markdown))
    for i, block in enumerate(blocks):
        language, file = block["language"], block["said"] if block["what"] == "file" else None
        if block["what"] == "not run" or (language not in RUN and file is None):
            continue
        expected = None
        if language in RUN and i + 1 < len(blocks) and blocks[i + 1]["language"] == "text":
            between = markdown[block.end() : blocks[i + 1].start()]
            expected = None if between.strip() else blocks[i + 1]["text"]
        line = markdown.count("\n", 0, block.start("text"))
        yield Step(language, block["text"], file, expected, f"{name}, line {line}")


def run(name: str, markdown: str) -> list[tuple[Step, str]]:
    """Do it all in the current folder; each step with what it printed."""
    namespace: dict[str, object] = {"__name__": "__main__"}
    done = []
    for step in steps(name, markdown):
        printed = ""
        if step.file is not None:
            Path(step.file).write_text(step.text, encoding="utf-8")
        elif step.language == "sh":
            printed = _in_shell(step)
        else:
            told = io.StringIO()
            with contextlib.redirect_stdout(told):
                exec(compile(step.text, step.place, "exec"), namespace)
            printed = told.getvalue()
        done.append((step, printed))
    return done


def _in_shell(step: Step) -> str:
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", step.text],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env={**os.environ, "PATH": path},
    )
    assert done.returncode == 0, f"{step.place}: {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout


def differing(expected: str, printed: str) -> str | None:
    """The first piece of what a page shows that was not printed there; None if all was."""
    wanted, given = _steady(expected), _steady(printed)
    pieces = re.split(r"^…\n", wanted, flags=re.MULTILINE)
    if len(pieces) == 1:
        return None if wanted == given else wanted
    if not given.startswith(pieces[0]):
        return pieces[0]
    at = len(pieces[0])
    for piece in pieces[1:-1]:
        found = given.find(piece, at)
        if found < 0:
            return piece
        at = found + len(piece)
    return None if given[at:].endswith(pieces[-1]) else pieces[-1]


def same_hashes(shown: list[tuple[str, str]]) -> bool:
    """Whether equal hashes in what a page shows were equal in what was printed."""
    meant: dict[str, str] = {}
    for expected, printed in shown:
        named, given = HASH.findall(expected), HASH.findall(printed)
        for name, one in zip(named, given, strict=True) if len(named) == len(given) else ():
            if meant.setdefault(name, one) != one:
                return False
    return True


def _steady(text: str) -> str:
    for pattern, name in CHANGING:
        text = pattern.sub(name, text)
    return "".join(f"{line.rstrip()}\n" for line in text.splitlines())
