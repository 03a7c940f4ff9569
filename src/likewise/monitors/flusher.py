"""A thread that writes what waits, once it has waited long enough."""

import time
import weakref
from queue import SimpleQueue
from threading import Thread
from typing import TYPE_CHECKING

from likewise.log import logger

if TYPE_CHECKING:
    from likewise.monitors.ledgered import LedgerMonitor


def start_flusher(ledgered: "LedgerMonitor", wake: "SimpleQueue[bool]", seconds: float) -> None:
    """Begin; it ends when the monitor is closed or gone."""
    known = weakref.ref(ledgered)
    Thread(target=_run, args=(known, wake, seconds), name="likewise-flush", daemon=True).start()


def _run(known: "weakref.ref[LedgerMonitor]", wake: "SimpleQueue[bool]", seconds: float) -> None:
    failing = False
    while True:
        wake.get()
        time.sleep(seconds)
        ledgered = known()
        if ledgered is None or ledgered.closed:
            return
        try:
            ledgered.flush()
            failing = False
        except Exception as error:
            if not failing:
                logger.warning("a ledger cannot be written: %s; trying again", type(error).__name__)
            failing = True
            wake.put(True)  # the next call raises it again; until then, try again
        del ledgered
