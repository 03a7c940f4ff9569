"""Find the rows of a batch that a monitor refuses, by halving, and have it judge the others.

Invariant: every row is judged or refused, once; rows are judged, and results come, in their order.
Cost: a batch without a bad row is judged once. For one bad row among n about 2 log2(n) parts are
judged; for a batch of bad rows only, 2n.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Generic, Protocol, Self, TypeVar

from likewise.errors import BadDecision

_LONGEST = 500  # characters of a reason; values in it may be of any length


class Sliceable(Protocol):
    """A sequence of rows, or of their places, a slice of which has the same type."""

    def __len__(self) -> int: ...

    def __getitem__(self, part: slice, /) -> Self: ...


RowsT = TypeVar("RowsT", bound=Sliceable)
AnswerT = TypeVar("AnswerT")


@dataclass(frozen=True, slots=True)
class JudgedRows(Generic[RowsT, AnswerT]):
    """Holds rows that were judged together, and the answer."""

    rows: RowsT
    answer: AnswerT


@dataclass(frozen=True, slots=True)
class RejectedRow(Generic[RowsT]):
    """Holds one row that was refused when it was judged alone."""

    rows: RowsT
    error: BadDecision


def isolate_bad_rows(
    batch: RowsT,
    judge: Callable[[RowsT], AnswerT],
    refusal: type[BadDecision] = BadDecision,
) -> Iterator[JudgedRows[RowsT, AnswerT] | RejectedRow[RowsT]]:
    """Judge the good rows of a batch, in as few parts as possible.

    judge       judges rows together, or raises and leaves no trace
    refusal     the error that it raises about a row; any other error is passed on

    A monitor refuses a batch as a whole, and a refused batch leaves no trace. So its halves are
    tried, and their halves, until only single rows are refused. Parts are judged lazily, as the
    iterator is asked for them.

    >>> def judge(rows):
    ...     if 0 in rows:
    ...         raise BadDecision("a zero")
    ...     return [1 / row for row in rows]
    >>> [part.rows for part in isolate_bad_rows([2, 4, 0, 5], judge)]
    [[2, 4], [0], [5]]
    """
    waiting = [batch]  # the next part is the last one
    while waiting:
        rows = waiting.pop()
        count = len(rows)
        if count == 0:
            continue
        outcome: JudgedRows[RowsT, AnswerT] | RejectedRow[RowsT]
        try:
            outcome = JudgedRows(rows, judge(rows))
        except refusal as error:
            if count > 1:
                half = count // 2
                waiting += [rows[half:], rows[:half]]
                continue
            outcome = RejectedRow(rows, error)
        yield outcome


def describe_refusal(error: BadDecision) -> str:
    """Return why one row of several was refused, as a text of bounded length for its sender.

    >>> describe_refusal(BadDecision("there is no output.", place=0))
    'there is no output.'
    >>> error = BadDecision("'age' is missing.", column="age", advice="Say what that means.")
    >>> describe_refusal(error)
    "'age' is missing. Say what that means."
    """
    text = error.reason
    if len(text) > _LONGEST:
        text = f"{text[: _LONGEST // 2]} … {text[-_LONGEST // 2 :]}"
    return text
