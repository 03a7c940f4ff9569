"""The library's log: the logger "likewise", silent until the program sets up logging.

Levels: DEBUG for what is done, INFO for what is found, WARNING for what is lost.

Invariant: no input, output, key or other value of people is logged, and no text of an error, which
may quote them: names of models, rows, counts and types of errors are.
"""

import logging

logger = logging.getLogger("likewise")
logger.addHandler(logging.NullHandler())
