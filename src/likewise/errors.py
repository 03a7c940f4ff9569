"""Every error that likewise raises, as a tree.

LikewiseError
├── BadRule            a rule or a setting makes no sense, or does not fit the inputs
├── BadDecision        a decision cannot be compared with the past; nothing was stored
│   ├── MissingValue       an input, output, key or time is missing
│   ├── UnexpectedValue    a value has the wrong type, or is outside the allowed range
│   ├── WrongShape         the dimensions, or the number of values, are not those expected
│   ├── MissingColumn      the table lacks a column of the rule
│   ├── UnknownColumn      the table has a column that the rule does not know
│   ├── TooManyNames       one more label, category, model or source than is allowed
│   ├── WrongOrder         its time is before that of the previous decision
│   ├── NestedCall         the monitor was called from inside one of its own calls
│   ├── RepeatedKey        another decision already has its key
│   ├── ErasedKey          the decision with its key was erased
│   └── OldPosition        its source is already past this position
├── BadRow             the history has no such row
├── BadFile            a file cannot be used, or cannot grow
│   ├── BadTable           its columns, or outputs, do not fit the rule
│   └── CannotRead         the system does not let us read it; its content may be fine
├── Unreachable        a service did not answer
├── Forbidden          a service does not know the token, or the token may not do that
└── Violation          a watched model contradicted itself and is set to stop at that

UserWarning
├── ViolationWarning   a watched model contradicted itself
├── FailureWarning     a watched model answered, but could not be watched
└── HintWarning        a watch probably does not do what was meant

Each class has a `code` of its own and its facts as attributes (`facts()`). HTTP bodies and `--json`
carry both, and programs tell errors apart by them. The message is for people: what came, what was
expected, where, and what to do now.
"""

from collections.abc import Iterable
from typing import Any, ClassVar, Self, TypeVar

_ErrorT = TypeVar("_ErrorT", bound="LikewiseError")


class LikewiseError(Exception):
    """The root of all errors that likewise raises."""

    code: ClassVar[str] = "likewise-error"

    def facts(self) -> dict[str, Any]:
        """Return what is known about the error, by name; leave out what is not known."""

        def is_known(value: Any) -> bool:
            empty = isinstance(value, str | tuple) and len(value) == 0
            return not (empty or value is None or value is False)

        named = vars(self).items()
        return {name: value for name, value in named if name[0] != "_" and is_known(value)}

    @classmethod
    def restore(cls, message: str, facts: dict[str, Any]) -> Self:
        """Make an error from the message and facts that another process sent."""
        return _restore(cls, (message,), facts)

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (type(self), self.args, vars(self))


def _restore(kind: type[_ErrorT], args: tuple[Any, ...], facts: dict[str, Any]) -> _ErrorT:
    error = kind.__new__(kind)
    error.args = args
    vars(error).update(facts)
    return error


class BadRule(LikewiseError, ValueError):
    """A rule or a setting makes no sense, or does not fit the inputs.

    `setting` is the name of the setting, if one is to blame.
    """

    code = "bad-rule"
    setting: str | None = None

    def __init__(self, message: str, *, setting: str | None = None) -> None:
        super().__init__(message)
        self.setting = setting


class BadDecision(LikewiseError, ValueError):
    """A decision cannot be compared with the past. Nothing was stored.

    problem   what is wrong with the decision, as a sentence
    advice    what to do about it, as a sentence; empty if there is nothing to do
    place     its place in the batch, from 0; None for a decision that came alone
    column    the column that is wrong, if it is about one
    """

    code = "bad-decision"
    problem: str = ""
    advice: str = ""
    column: str | None = None
    place: int | None = None

    def __init__(
        self, problem: str, *, place: int | None = None, column: str | None = None, advice: str = ""
    ) -> None:
        self.problem = problem
        self.advice = advice
        self.column = column
        self.place = place
        super().__init__(self._message())

    def _message(self) -> str:
        where = "" if self.place is None else f"row {self.place}: "
        return f"{where}{self.problem} Nothing was stored. {self.advice}".rstrip()

    def with_place(self, place: int | None) -> Self:
        """Return this error with another place in the batch; None if the decision came alone."""
        moved = self.restore("", vars(self))
        moved.place = place
        moved.args = (moved._message(), *self.args[1:])
        return moved.with_traceback(self.__traceback__)

    @property
    def reason(self) -> str:
        """The problem and the advice, without "Nothing was stored": others of its batch may be."""
        return f"{self.problem} {self.advice}".rstrip()


class MissingValue(BadDecision):
    """An input, an output, a key or a time is missing. Nothing was stored."""

    code = "missing-value"


class UnexpectedValue(BadDecision):
    """A value has the wrong type, or is outside the allowed range. Nothing was stored."""

    code = "unexpected-value"


class WrongShape(BadDecision):
    """The dimensions, or the number of values, are not those expected. Nothing was stored."""

    code = "wrong-shape"


class MissingColumn(BadDecision):
    """The table lacks a `column` of the rule. Nothing was stored."""

    code = "missing-column"


class UnknownColumn(BadDecision):
    """The table has a `column` that the rule does not know. Nothing was stored."""

    code = "unknown-column"


class TooManyNames(BadDecision):
    """One more label, category, model or source than is allowed. Nothing was stored."""

    code = "too-many-names"


class WrongOrder(BadDecision):
    """The time of a decision is before that of the previous decision. Nothing was stored."""

    code = "wrong-order"


class NestedCall(BadDecision):
    """A monitor was called from inside one of its own calls. Nothing was stored."""

    code = "nested-call"


class RepeatedKey(BadDecision):
    """Another decision, in `row`, already has this `key`. Nothing was stored."""

    code = "repeated-key"
    key: Any = None
    row: int

    def __init__(self, problem: str, *, key: Any, row: int, place: int | None = None) -> None:
        super().__init__(problem, place=place, advice="Keys are unique.")
        self.key = key
        self.row = row


class ErasedKey(BadDecision):
    """The decision that had this `key` was erased. Nothing was stored."""

    code = "erased-key"
    key: Any = None

    def __init__(self, problem: str, *, key: Any) -> None:
        advice = "Do not send it again, or send it under another key."
        super().__init__(problem, advice=advice)
        self.key = key


class OldPosition(BadDecision):
    """The `position` is not above `last`, the last one of its `source`. Nothing was stored."""

    code = "old-position"

    def __init__(self, problem: str, *, source: str, position: Any, last: Any) -> None:
        super().__init__(problem, advice="It was sent before, or comes out of order.")
        self.source = source
        self.position = position
        self.last = last


class BadRow(LikewiseError, IndexError):
    """The history has no such `row`. Nothing was changed."""

    code = "bad-row"
    row: int | None = None

    def __init__(self, message: str, *, row: int | None = None) -> None:
        super().__init__(message)
        self.row = row


class BadFile(LikewiseError, ValueError):
    """A file cannot be used, or cannot grow. Nothing was stored. `path` is its name, if known."""

    code = "bad-file"
    path: str | None = None

    def __init__(self, message: str, *, path: object = None) -> None:
        super().__init__(message)
        self.path = None if path is None else str(path)


class BadTable(BadFile):
    """The columns or the outputs of a table do not fit the rule.

    `columns` are those that are missing, unknown or unusable.
    """

    code = "bad-table"
    columns: tuple[str, ...] = ()

    def __init__(self, message: str, *, path: object, columns: Iterable[str] = ()) -> None:
        super().__init__(message, path=path)
        self.columns = tuple(columns)


class CannotRead(BadFile):
    """The system does not let us read a file; its content may be fine."""

    code = "cannot-read"


class Unreachable(LikewiseError, ConnectionError):
    """A service did not answer, or refused to, however often it was asked.

    `in_doubt` says whether it may have done what it was asked for. If False, nothing was stored.
    `lasting` says that asking again will not tell: it was restarted, or it is too long ago.
    """

    code = "unreachable"
    in_doubt: bool = False
    lasting: bool = False

    def __init__(self, message: str, *, in_doubt: bool = False, lasting: bool = False) -> None:
        super().__init__(message)
        self.in_doubt = in_doubt
        self.lasting = lasting


class Forbidden(LikewiseError, PermissionError):
    """A service refused the token, or the token may not do what was asked for.

    Nothing is sent again: the token has to be changed, or what it may do. `in_doubt` says whether
    an earlier attempt, which was not answered, may have been done. If False, nothing was stored.
    """

    code = "forbidden"
    in_doubt: bool = False

    def __init__(self, message: str, *, in_doubt: bool = False) -> None:
        super().__init__(message)
        self.in_doubt = in_doubt


class Violation(LikewiseError):
    """A watched model contradicted itself, or a burst raised its alarm.

    The decision is remembered all the same, and nothing is lost: `verdicts` are those that violate
    or raise an alarm, `verdict` is the first of them, `answer` is what the model answered.
    """

    code = "violation"

    def __init__(self, message: str, verdicts: tuple[Any, ...], answer: Any) -> None:
        super().__init__(message)
        self.verdicts = verdicts
        self.verdict = verdicts[0]
        self.answer = answer


BY_CODE: dict[str, type[LikewiseError]] = {}
"""The errors above, by their codes."""


class ViolationWarning(UserWarning):
    """A watched model contradicted itself, or a burst raised its alarm."""


class FailureWarning(UserWarning):
    """A watched model answered, but its decision could not be watched."""


class HintWarning(UserWarning):
    """A watch probably does not do what was meant; the warning says what to do."""


for _error in tuple(vars().values()):
    if isinstance(_error, type) and issubclass(_error, LikewiseError):
        BY_CODE[_error.code] = _error
