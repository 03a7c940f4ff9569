"""Sets apart the rows of a batch that a monitor refuses, and has it judge the others.

A monitor takes a batch whole or refuses it whole, and a refused batch leaves no trace. So its
halves are tried, and theirs, until what is refused is single rows.

Invariant: every row is judged or refused, once; what comes out is in the order of the rows, and the
rows are judged in that order.
Cost: a batch without a bad row is judged once. A bad row among n has about 2 log2(n) parts judged;
a batch of bad rows only, 2n.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, Protocol, Self, TypeVar

from likewise.errors import BadDecision

_LONGEST = 500  # letters of a reason; values in it may be of any length


class Sliceable(Protocol):
    """Rows, or their places: a slice of them is the same kind of thing."""

    def __len__(self) -> int: ...

    def __getitem__(self, part: slice, /) -> Self: ...


RowsT = TypeVar("RowsT", bound=Sliceable)
AnswerT = TypeVar("AnswerT")


@dataclass(frozen=True, slots=True)
class JudgedRows(Generic[RowsT, AnswerT]):
    """Rows that were judged together, and the answer."""

    rows: RowsT
    answer: AnswerT


@dataclass(frozen=True, slots=True)
class RejectedRow(Generic[RowsT]):
    """One row that was refused when it was judged alone."""

    rows: RowsT
    error: BadDecision


def isolate_bad_rows(
    batch: RowsT,
    judge: Callable[[RowsT], AnswerT],
    refusal: type[BadDecision] = BadDecision,
) -> Iterator[JudgedRows[RowsT, AnswerT] | RejectedRow[RowsT]]:
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
        outcome = _try_judge(rows, judge, refusal)
        if isinstance(outcome, RejectedRow) and count > 1:
            half = count // 2
            waiting += [rows[half:], rows[:half]]
        else:
            yield outcome


def _try_judge(rows: Any, judge: Callable[[Any], Any], refusal: type[BadDecision]) -> Any:
    try:
        return JudgedRows(rows, judge(rows))
    except refusal as error:
        return RejectedRow(rows, error)


def describe_refusal(error: BadDecision) -> str:
    """Return why a row was refused, for whoever sent it among others that are stored; not too long.

    >>> reason(BadDecision("there is no output.", place=0))
    'there is no output.'
    >>> reason(BadDecision("'age' is missing.", column="age", advice="Say what that means."))
    "'age' is missing. Say what that means."
    """
    text = error.reason
    if len(text) > _LONGEST:
        text = f"{text[: _LONGEST // 2]} … {text[-_LONGEST // 2 :]}"
    return text
