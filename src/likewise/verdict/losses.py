"""A loss: decisions that were made and never reached a history.

Every later verdict is weaker for it, since what is not there cannot contradict anything.

>>> full = Loss(2, "full", first=7, last=8)
>>> full.and_then(Loss(1, "full", first=11, last=11)).to_dict()
{'count': 3, 'reason': 'full', 'first': 7, 'last': 11}
"""

from dataclasses import dataclass
from typing import Any

from likewise.errors import UnexpectedValue

AT_LEAST = ", at least or about so many"
"""The end of the reason of a loss whose size is not known: its count is the least that it is."""
AT_MOST = ", at most so many"
"""The end of the reason of a loss of which only a bound is known: its count is that bound."""

_MOST = 1 << 62
_LONGEST = 200  # letters of a reason


def reason_at_least(words: str) -> str:
    """The reason of a loss whose size is not known; of long words the beginning."""
    return words[: _LONGEST - len(AT_LEAST)] + AT_LEAST


@dataclass(frozen=True, slots=True)
class Loss:
    """So many decisions, lost for one reason.

    first, last     the numbers of the first and the last of them, where the sender numbers them
    since, until    when they were lost, in microseconds since 1970
    """

    count: int
    reason: str
    first: int | None = None
    last: int | None = None
    since: int | None = None
    until: int | None = None

    def __post_init__(self) -> None:
        if not _is_whole(self.count) or self.count < 1:
            raise UnexpectedValue(
                f"{self.count!r} decisions are said to be lost; expected a whole number from 1."
            )
        if not isinstance(self.reason, str) or not 0 < len(self.reason) <= _LONGEST:
            raise UnexpectedValue(
                f"the reason of a loss is {self.reason!r:.80}; expected a text of 1 to {_LONGEST}"
                " letters."
            )
        for name in ("first", "last", "since", "until"):
            value = getattr(self, name)
            if value is not None and not _is_whole(value):
                raise UnexpectedValue(
                    f"`{name}` of a loss is {value!r}; expected a whole number, or None."
                )

    def merge(self, other: "Loss") -> "Loss":
        """Both as one; they have the same reason."""
        return Loss(
            self.count + other.count,
            self.reason,
            _either(min, self.first, other.first),
            _either(max, self.last, other.last),
            _either(min, self.since, other.since),
            _either(max, self.until, other.until),
        )

    def to_dict(self) -> dict[str, Any]:
        """For JSON; what is not known is left out."""
        fields = {
            "count": self.count,
            "reason": self.reason,
            "first": self.first,
            "last": self.last,
            "since": self.since,
            "until": self.until,
        }
        return {name: value for name, value in fields.items() if value is not None}


def _either(choose: Any, one: int | None, other: int | None) -> int | None:
    known = [value for value in (one, other) if value is not None]
    return choose(known) if known else None


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and -_MOST < value < _MOST
