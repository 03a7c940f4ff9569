"""The ledger of one monitor: its folder, and what only a ledger can answer."""

import atexit
import time
import weakref
from contextlib import closing
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import Protocol

from likewise.ledger import folder
from likewise.ledger.heads import Head
from likewise.ledger.ledger import Ledger
from likewise.ledger.reader import LedgerReader
from likewise.ledger.stats import LedgerStats
from likewise.ledger.verification import Verification, verify
from likewise.monitor.journal import Journal
from likewise.runtime.log import logger


class Flushable(Protocol):
    """What has something to write now and then."""

    closed: bool

    def flush(self) -> None: ...


def start_flusher(monitor: Flushable, wake: "SimpleQueue[bool]", seconds: float) -> None:
    """Begin; it ends when the monitor is closed or gone."""
    known = weakref.ref(monitor)
    Thread(target=_run, args=(known, wake, seconds), name="likewise-flush", daemon=True).start()


def _run(known: "weakref.ref[Flushable]", wake: "SimpleQueue[bool]", seconds: float) -> None:
    failing = False
    while True:
        wake.get()
        time.sleep(seconds)
        monitor = known()
        if monitor is None or monitor.closed:
            return
        try:
            monitor.flush()
            failing = False
        except Exception as error:
            if not failing:
                logger.warning("a ledger cannot be written: %s; trying again", type(error).__name__)
            failing = True
            wake.put(True)  # the next call raises it again; until then, try again
        del monitor


class Closable(Flushable, Protocol):
    """What is closed when the process ends."""

    def close(self) -> None: ...


class LedgerHandle:
    """A folder that a monitor writes to, until it is closed or the process ends.

    wait    seconds after which what waits is written, by a thread; None: nothing waits
    """

    def __init__(
        self,
        monitor: Closable,
        journal: Journal,
        path: Path,
        durability: str,
        wait: float | None,
    ) -> None:
        self.path = path
        self.durability = durability
        self._journal = journal
        if wait is not None:
            start_flusher(monitor, journal.wake_flusher, wait)
        self._finish = partial(_close, weakref.ref(monitor))
        atexit.register(self._finish)
        logger.debug("the ledger %s is open, with %d rows", path, journal.rows)

    @property
    def is_mine(self) -> bool:
        """Not so in a process that was forked off."""
        return self._journal.store.is_own_process

    def check_process(self) -> None:
        """Raise BadFile in a process that was forked off."""
        self._journal.store.check_process()

    def stats(self, last: str | None) -> LedgerStats:
        with Ledger(self.path) as ledger:
            return ledger.stats(last=last)

    def verify(self, head: Head | str | None) -> Verification:
        database = folder.connect(self.path, write=False, schema=False)  # which `verify` checks
        with closing(LedgerReader(self.path, database)) as reader:
            wanted = Head.of(head) if isinstance(head, str) else head
            return verify(reader, wanted)

    def close(self) -> None:
        self._journal.close()
        atexit.unregister(self._finish)
        logger.debug("the ledger %s is closed", self.path)


def _close(known: "weakref.ref[Closable]") -> None:
    monitor = known()
    if monitor is not None:
        monitor.close()
