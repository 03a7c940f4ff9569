"""A thread that writes what waits, once it has waited long enough."""

import weakref
from threading import Event, Thread
from typing import TYPE_CHECKING

from likewise.log import logger

if TYPE_CHECKING:
    from likewise.monitors.ledgered import LedgerMonitor


def start_flusher(ledgered: "LedgerMonitor", wake: Event, seconds: float) -> None:
    """Begin; it ends when the monitor is closed or gone."""
    known = weakref.ref(ledgered)
    Thread(target=_run, args=(known, wake, seconds), name="likewise-flush", daemon=True).start()


def _run(known: "weakref.ref[LedgerMonitor]", wake: Event, seconds: float) -> None:
    never, failing = Event(), False
    while True:
        wake.wait()
        wake.clear()
        never.wait(seconds)
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
            wake.set()  # the next call raises it again; until then, try again
        del ledgered
