"""The library's log: the logger "likewise", silent until the program sets up logging.

Levels: DEBUG for steps, INFO for findings, WARNING for losses.

Invariant: no input, output, key or other personal value is logged, and no text of an error, which
may quote one. Names of models, rows, counts and types of errors may be logged.
"""

import logging

logger = logging.getLogger("likewise")
logger.addHandler(logging.NullHandler())
