"""Sets apart the rows of a batch that a monitor refuses, and has it judge the others.

A monitor takes a batch whole or refuses it whole, and a refused batch leaves no trace. So its
halves are tried, and theirs, until what is refused is single rows.

Invariant: every row is judged or refused, once; what comes out is in the order of the rows, and the
rows are judged in that order.
Cost: a batch without a bad row is judged once. A bad row among n has about 2 log2(n) parts judged;
a batch of bad rows only, 2n.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, Protocol, Self, TypeVar

from likewise.values.errors import BadDecision, RepeatedKey

_STORED_BUT = re.compile("Nothing was stored: (.)")
_LONGEST = 500  # letters of a reason; values in it may be of any length


class Sliceable(Protocol):
    """Rows, or their places: a slice of them is the same kind of thing."""

    def __len__(self) -> int: ...

    def __getitem__(self, part: slice, /) -> Self: ...


RowsT = TypeVar("RowsT", bound=Sliceable)
AnswerT = TypeVar("AnswerT")


@dataclass(frozen=True, slots=True)
class Judged(Generic[RowsT, AnswerT]):
    """Rows that were judged together, and the answer."""

    rows: RowsT
    answer: AnswerT


@dataclass(frozen=True, slots=True)
class Unfit(Generic[RowsT]):
    """One row that was refused when it was judged alone."""

    rows: RowsT
    error: BadDecision


def sifted(
    batch: RowsT,
    judge: Callable[[RowsT], AnswerT],
    refusal: type[BadDecision] = BadDecision,
) -> Iterator[Judged[RowsT, AnswerT] | Unfit[RowsT]]:
    """Judge the good rows of a batch, in as few parts as there have to be.

    judge       judges rows together, or raises and leaves no trace
    refusal     what it raises about a row; any other error ends the sifting

    Parts are judged as the iterator is asked for them, so whoever stops asking judges no more.

    >>> def judge(rows):
    ...     if 0 in rows:
    ...         raise BadDecision("a zero")
    ...     return [1 / row for row in rows]
    >>> [part.rows for part in sifted([2, 4, 0, 5], judge)]
    [[2, 4], [0], [5]]
    """
    waiting = [batch]  # the next part is the last one
    while waiting:
        rows = waiting.pop()
        count = len(rows)
        if count == 0:
            continue
        outcome = _judged(rows, judge, refusal)
        if isinstance(outcome, Unfit) and count > 1:
            half = count // 2
            waiting += [rows[half:], rows[:half]]
        else:
            yield outcome


def _judged(rows: Any, judge: Callable[[Any], Any], refusal: type[BadDecision]) -> Any:
    try:
        return Judged(rows, judge(rows))
    except refusal as error:
        return Unfit(rows, error)


def without_place(message: str) -> str:
    """A message about a row that was judged alone, without the number 0 that it had there."""
    message = message.removeprefix("row 0: ").replace(" of decision 0 of the batch", "")
    return message.replace("output 0 of the batch", "the output")


def about_the_row(error: BadDecision) -> BadDecision:
    """The error without the number that its row had in the part that was judged."""
    text = without_place(str(error))
    if text == str(error):
        return error
    again = RepeatedKey(text, error.row) if isinstance(error, RepeatedKey) else BadDecision(text)
    return again.with_traceback(error.__traceback__)


def reason(error: BadDecision) -> str:
    """Why a row was refused, for whoever sent it among others that are stored; not too long.

    >>> reason(BadDecision("row 0: there is no output. Nothing was stored."))
    'there is no output.'
    >>> reason(BadDecision("row 0: 'age' is missing. Nothing was stored: say what that means."))
    "'age' is missing. Say what that means."
    """
    text = str(error)
    if len(text) > _LONGEST:
        text = f"{text[: _LONGEST // 2]} … {text[-_LONGEST // 2 :]}"
    text = _STORED_BUT.sub(lambda found: found[1].upper(), without_place(text))
    return text.replace(" Nothing was stored.", "")
