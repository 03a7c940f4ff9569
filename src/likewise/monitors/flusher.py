"""A thread that writes what waits, once it has waited long enough."""

import weakref
from threading import Event, Thread
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from likewise.monitors.ledgered import LedgerMonitor


def start_flusher(ledgered: "LedgerMonitor", wake: Event, seconds: float) -> None:
    """Begin; it ends when the monitor is closed or gone."""
    known = weakref.ref(ledgered)
    Thread(target=_run, args=(known, wake, seconds), name="likewise-flush", daemon=True).start()


def _run(known: "weakref.ref[LedgerMonitor]", wake: Event, seconds: float) -> None:
    never = Event()
    while True:
        wake.wait()
        wake.clear()
        never.wait(seconds)
        ledgered = known()
        if ledgered is None or ledgered.closed:
            return
        try:
            ledgered.flush()
        except Exception:
            wake.set()  # the next call raises it again; until then, try again
        del ledgered
