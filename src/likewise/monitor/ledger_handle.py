"""Hold the ledger of one monitor: its folder, its flusher thread, and closing at exit."""

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


class Closable(Protocol):
    """A monitor that has to be flushed from time to time, and closed when the process ends."""

    closed: bool

    def flush(self) -> None: ...

    def close(self) -> None: ...


def _run_flusher(
    reference: "weakref.ref[Closable]", wake: "SimpleQueue[bool]", seconds: float
) -> None:
    """Flush a monitor some seconds after each wake-up, until it is closed or gone."""
    failing = False
    while True:
        wake.get()
        time.sleep(seconds)
        monitor = reference()
        if monitor is None or monitor.closed:
            return
        try:
            monitor.flush()
            failing = False
        except Exception as error:
            if not failing:
                logger.warning("a ledger cannot be written: %s; trying again", type(error).__name__)
            failing = True
            wake.put(True)  # try again; the monitor's next call raises the error, too
        del monitor


class LedgerHandle:
    """Holds the folder that a monitor writes to, until it is closed or the process ends.

    wait    seconds after which a thread writes what waits; None if nothing ever waits
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
        reference = weakref.ref(monitor)
        if wait is not None:
            arguments = reference, journal.wake_flusher, wait
            Thread(target=_run_flusher, args=arguments, name="likewise-flush", daemon=True).start()
        self._finish = partial(_close, reference)
        atexit.register(self._finish)
        logger.debug("the ledger %s is open, with %d rows", path, journal.rows)

    @property
    def is_mine(self) -> bool:
        """Whether this process opened the ledger, and was not forked since."""
        return self._journal.store.is_own_process

    def check_process(self) -> None:
        """Raise BadFile in a forked process."""
        self._journal.store.check_process()

    def stats(self, last: str | None) -> LedgerStats:
        """Count the decisions of the ledger, as a read-only view of it sees them."""
        with Ledger(self.path) as ledger:
            return ledger.stats(last=last)

    def verify(self, head: Head | str | None) -> Verification:
        """Check the chain through a read-only connection of its own."""
        database = folder.connect(self.path, write=False, schema=False)  # `verify` checks that
        with closing(LedgerReader(self.path, database)) as reader:
            return verify(reader, Head.of(head) if isinstance(head, str) else head)

    def close(self) -> None:
        """Write what waits, and release the folder."""
        self._journal.close()
        atexit.unregister(self._finish)
        logger.debug("the ledger %s is closed", self.path)


def _close(reference: "weakref.ref[Closable]") -> None:
    monitor = reference()
    if monitor is not None:
        monitor.close()
