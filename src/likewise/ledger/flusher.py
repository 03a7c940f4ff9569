"""A thread that writes what waits, once it has waited long enough."""

import time
import weakref
from queue import SimpleQueue
from threading import Thread
from typing import Protocol

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
