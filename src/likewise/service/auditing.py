"""Administrative calls are written into the ledger's chain before they are done.

An event "administration" says who asked (the name of the token), what, and of how many or which
rows. No values of people are in it. So nothing is done that the chain does not say; what was asked
and then refused is there too.
"""

from typing import Any

from likewise.runtime.log import logger
from likewise.service.hosted import Hosted


def note(hosted: Hosted, who: str, what: str, **more: Any) -> None:
    """In the monitor's turn: have the chain say what was asked; a monitor in memory has none."""
    logger.info("%s of %s, asked by %s", what, hosted.name, who or "a client without a token")
    if hosted.monitor.durable:
        hosted.monitor.administered(who, what, **more)
