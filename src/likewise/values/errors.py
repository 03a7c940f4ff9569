"""What can go wrong, as a tree.

LikewiseError
├── BadRule       the rule itself makes no sense
├── BadDecision   cannot be compared with the past; nothing was stored
│   ├── RepeatedKey   another decision has its key already
│   ├── ErasedKey     the decision with its key was erased
│   └── OldPosition   its source was further already
├── BadRow        the history has no such row
├── BadFile       a file cannot be used, or cannot grow
│   └── CannotLook   the system does not let us look at it; that says nothing about what is in it
├── Unreachable   a service did not answer
├── Forbidden     a service answered, and does not know the token, or the token may not do that
└── Violation     a watched model contradicted itself, and was to be stopped

UserWarning
├── ViolationWarning   a watched model contradicted itself
├── FailureWarning     a watched model answered, but could not be watched
└── HintWarning        a watch does less, or something else, than was probably meant

Every message says what came, what was expected, where, and what to do now.
"""

from typing import Any


class LikewiseError(Exception):
    """Anything that likewise refuses to do."""


class BadRule(LikewiseError, ValueError):
    """The rule makes no sense, or does not fit the inputs."""


class BadDecision(LikewiseError, ValueError):
    """Cannot be compared with the past. Nothing was stored."""


class RepeatedKey(BadDecision):
    """Another decision has this key already, in `row`. Nothing was stored."""

    def __init__(self, message: str, row: int) -> None:
        super().__init__(message, row)
        self.row = row

    def __str__(self) -> str:
        return str(self.args[0])


class ErasedKey(BadDecision):
    """The decision that had this key was erased. Nothing was stored."""


class OldPosition(BadDecision):
    """The `position` is not above `last`, the last one of its `source`. Nothing was stored."""

    def __init__(self, message: str, source: str, position: Any, last: Any) -> None:
        super().__init__(message, source, position, last)
        self.source = source
        self.position = position
        self.last = last

    def __str__(self) -> str:
        return str(self.args[0])


class BadRow(LikewiseError, IndexError):
    """The history has no such row. Nothing was changed."""


class BadFile(LikewiseError, ValueError):
    """A file that cannot be used, or cannot grow. Nothing was stored."""


class CannotLook(BadFile):
    """A file that the system does not let us look at; what is in it may be as it should be."""


class Unreachable(LikewiseError, ConnectionError):
    """A service did not answer, or would not, however often it was asked.

    `in_doubt` says whether it may have done what it was asked for. If False, nothing was stored.
    `lasting` says that asking again will not tell: it was restarted, or it is too long ago.
    """

    def __init__(self, message: str, *, in_doubt: bool = False, lasting: bool = False) -> None:
        super().__init__(message)
        self.in_doubt = in_doubt
        self.lasting = lasting


class Forbidden(LikewiseError, PermissionError):
    """A service refused the token, or the token may not do what was asked for.

    Nothing is sent again: the token has to be changed, or what it may do. `in_doubt` says whether
    an earlier attempt, which was not answered, may have been done. If False, nothing was stored.
    """

    def __init__(self, message: str, *, in_doubt: bool = False) -> None:
        super().__init__(message)
        self.in_doubt = in_doubt


class Violation(LikewiseError):
    """A watched model contradicted itself, or a burst raised its alarm.

    The decision is remembered all the same. `verdicts` are those that violate or alarm,
    `verdict` is the first of them, `answer` is what the model answered: nothing is lost.
    """

    def __init__(self, message: str, verdicts: tuple[Any, ...], answer: Any) -> None:
        super().__init__(message, verdicts, answer)
        self.verdicts = verdicts
        self.verdict = verdicts[0]
        self.answer = answer

    def __str__(self) -> str:
        return str(self.args[0])


class ViolationWarning(UserWarning):
    """A watched model contradicted itself, or a burst raised its alarm."""


class FailureWarning(UserWarning):
    """A watched model answered, but its decision could not be watched."""


class HintWarning(UserWarning):
    """A watch does less, or something else, than was probably meant; it says what to do."""


for _error in tuple(vars().values()):
    if isinstance(_error, type) and issubclass(_error, Exception):
        _error.__module__ = "likewise"  # as users import them, and as tracebacks should name them
