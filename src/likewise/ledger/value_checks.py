"""Compare the values of a ledger's rows with their commitments, in several processes.

The chain has to be walked from event to event, but a row's commitment is a matter of that row
alone, and takes most of the time. Other processes compare ranges of rows, and this one, once it has
walked the chain, helps with what is left. A process answers that a range is as it was written, and
how many keys it has, or that it is in doubt. In doubt the caller verifies all of it again in one
process. So what is found, and which row is named, never depends on the number of processes.

A process is a fresh interpreter with `sys.path` as it is here: it imports no script of the caller,
and inherits no lock and no open file. It ends when its input does, and so with this process.

Cost: the start of an interpreter for each process; worth it from `WORTH_BYTES` of records on.
Not here: the chain (format2/walk.py).
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

from likewise.ledger import folder
from likewise.ledger.reader import CHUNK, LedgerReader
from likewise.ledger.stored import Decisions
from likewise.values.errors import BadFile, BadRule, LikewiseError

WORTH_BYTES = 100_000_000
_MOST = 8  # processes, unless told otherwise: then the walk along the chain takes longest
_START = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]);"
    " from likewise.ledger.value_checks import answer; answer(sys.argv[2])"
)
_IN_DOUBT = -1


def processes_for(reader: LedgerReader, wanted: int | None) -> int:
    """How many processes verify a ledger, this one included."""
    if wanted is not None and (type(wanted) is not int or wanted < 1):
        raise BadRule(f"processes is {wanted!r}; expected a whole number from 1 on, or None.")
    if wanted == 1 or reader.format.values_hold is None or not _has_interpreter():
        return 1
    if wanted is not None:
        return wanted
    records, state = reader.records, reader.state()
    if records is None or (state.rows - state.first) * records.dtype.itemsize < WORTH_BYTES:
        return 1
    return min(_MOST, _cores())


def _has_interpreter() -> bool:
    """Not within a program that has Python inside: starting that again would be something else."""
    name = Path(sys.executable or "").name.lower()
    return not getattr(sys, "frozen", False) and name.startswith(("python", "pypy"))


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class ValueChecks:
    """Ranges of rows, compared by other processes and, in the end, by this one."""

    def __init__(self, reader: LedgerReader, others: int) -> None:
        state = reader.state()
        bounds = range(state.first, state.rows, CHUNK)
        self._reader = reader
        self._left = deque((start, min(start + CHUNK, state.rows)) for start in bounds)
        self._keys: list[int] = []
        self._processes: list[subprocess.Popen[str]] = []
        self._threads: list[Thread] = []
        self._others = min(others, len(self._left))

    def __enter__(self) -> "ValueChecks":
        command = [sys.executable, "-c", _START, json.dumps(sys.path), str(self._reader.path)]
        with contextlib.suppress(OSError):  # then this process does what is left
            for _ in range(self._others):
                process = subprocess.Popen(
                    command,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    text=True,
                )
                self._processes.append(process)
                thread = Thread(target=self._ask, args=(process,), daemon=True)
                thread.start()
                self._threads.append(thread)
        return self

    def __exit__(self, *_: object) -> None:
        self._left.clear()
        for process in self._processes:
            process.kill()
        for process in self._processes:
            process.wait()
        for thread in self._threads:
            thread.join()

    def hold(self) -> bool:
        """Compare what is left, and wait for the others: is all as it was written?"""
        for start, stop in self._ranges():
            self._keys.append(_keys_of(self._reader, start, stop))
        for thread in self._threads:
            thread.join()
        ((keys,),) = self._reader.all("SELECT count(*) FROM key")
        return _IN_DOUBT not in self._keys and sum(self._keys) == keys

    def _ranges(self) -> Iterator[tuple[int, int]]:
        """One after the other, each for one thread only; none after a range in doubt."""
        while _IN_DOUBT not in self._keys:
            try:
                yield self._left.popleft()
            except IndexError:
                return

    def _ask(self, process: "subprocess.Popen[str]") -> None:
        """Have a process compare ranges until none is left."""
        told, heard = process.stdin, process.stdout
        assert told is not None and heard is not None
        for start, stop in self._ranges():
            keys = _IN_DOUBT
            with contextlib.suppress(OSError, ValueError):  # it was killed, or said nothing
                told.write(f"{start} {stop}\n")
                told.flush()
                keys = int(heard.readline())
            self._keys.append(keys)
        for pipe in (told, heard):
            with contextlib.suppress(OSError):
                pipe.close()


@contextlib.contextmanager
def checked_chunks(reader: LedgerReader) -> Iterator[Iterator[Decisions]]:
    """All rows of a ledger; at the end Altered, if something is not as it was written.

    Of a large ledger the values of a chunk may be compared after it was given, while the caller
    goes on with them, such as building an index; but all are when this ends.
    """
    others, walk = processes_for(reader, None) - 1, reader.format.walk
    if others < 1:
        chunks = walk(reader, None).chunks()
        yield chunks
        deque(chunks, maxlen=0)  # those that nobody has asked for
        return
    try:
        with ValueChecks(reader, others) as checks:
            chunks = walk(reader, None, values=False).chunks()
            yield chunks
            deque(chunks, maxlen=0)
            hold = checks.hold()
    except BadFile:
        _name_first_altered(reader)
        raise
    if not hold:
        _name_first_altered(reader)


def _name_first_altered(reader: LedgerReader) -> None:
    """Verify in one process, which raises Altered where that finds something."""
    deque(reader.format.walk(reader, None).chunks(), maxlen=0)


def _keys_of(reader: LedgerReader, start: int, stop: int) -> int:
    compare = reader.format.values_hold
    try:
        keys = None if compare is None else compare(reader, start, stop)
    except LikewiseError:
        return _IN_DOUBT
    return _IN_DOUBT if keys is None else keys


def answer(path: str) -> None:
    """In another process: compare the ranges that it reads, one to a line, until there are none."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that asks ends this one
    database = folder.connect(Path(path), write=False, schema=False)
    with contextlib.closing(LedgerReader(Path(path), database)) as reader:
        for line in sys.stdin:
            start, stop = map(int, line.split())
            sys.stdout.write(f"{_keys_of(reader, start, stop)}\n")
            sys.stdout.flush()
