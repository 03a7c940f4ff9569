"""The library's log: the logger "likewise", silent until the program sets up logging.

Levels: DEBUG for steps, INFO for findings, WARNING for losses.

Invariant: no input, output, key or other personal value is logged, and no text of an error, which
may quote one. Names of models, rows, counts and types of errors may be logged.
"""

import logging
from typing import Any

logger = logging.getLogger("likewise")
logger.addHandler(logging.NullHandler())


def log_event(
    event: str,
    message: str,
    level: int = logging.INFO,
    *,
    fault: Exception | None = None,
    **fields: Any,
) -> None:
    """Log an event with fields, which a formatter may write one by one.

    fault   an exception whose type and place are logged
    """
    logger.log(level, message, exc_info=fault, extra={"fields": {"event": event} | fields})
