"""What can go wrong, as a tree.

LikewiseError
├── BadRule       the rule itself makes no sense
├── BadDecision   cannot be compared with the past; nothing was stored
├── BadRow        the history has no such row
└── BadFile       a file cannot be used, or cannot grow

Every message says what came, what was expected, where, and what to do now.
"""


class LikewiseError(Exception):
    """Anything that likewise refuses to do."""


class BadRule(LikewiseError, ValueError):
    """The rule makes no sense, or does not fit the inputs."""


class BadDecision(LikewiseError, ValueError):
    """Cannot be compared with the past. Nothing was stored."""


class BadRow(LikewiseError, IndexError):
    """The history has no such row. Nothing was changed."""


class BadFile(LikewiseError, ValueError):
    """A file that cannot be used, or cannot grow. Nothing was stored."""
