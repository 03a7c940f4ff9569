"""Join decisions that came one by one to one call, where that changes nothing but the time.

If the batch is refused, the caller takes the decisions one by one, to see which one is refused.
Invariant: the answers are those that `observe` would give one by one, keys and models that they
name included: either every decision has a key, or none has, and so with models.
Not here: decisions with times or positions of their own, and rows of a table: they are not joined.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Generic, NamedTuple, Protocol, Self, TypeVar

import numpy as np
import numpy.typing as npt

from likewise.errors import BadDecision
from likewise.monitor.metadata import RawMetadata
from likewise.monitor.readers.protocol import FROM_ROW, Decision
from likewise.tables.normalize import MAX_EXACT_INT

_LONGEST = 500  # characters of a reason; values in it may be of any length


# Find the rows of a batch that a monitor refuses, by halving, and have it judge the others.
# Invariant: every row is judged or refused, once; rows are judged, and results come, in their
# order.
# Cost: a batch without a bad row is judged once. For one bad row among n about 2 log2(n) parts are
# judged; for a batch of bad rows only, 2n.


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


FEW_DECISIONS = 64
"""Up to so many decisions, judging each by itself takes less time than judging a batch."""
MOST_JOINED = 1 << 12
"""How many decisions are joined at most: a ledger writes so many in one transaction."""
_NUMBERS = {float, int}


class BatchArguments(NamedTuple):
    """Holds the arguments of `observe_many`."""

    inputs: Any
    outputs: Any
    """A list, or FROM_ROW."""
    raw_metadata: RawMetadata


def make_batch(decisions: Sequence[Decision]) -> BatchArguments | None:
    """Return decisions as one batch; None if a batch would mean something else, or is refused.

    Inputs are all vectors of one type and length, or all rows of a table; either every output comes
    from its row or none does, and either every decision has a time or none has.
    """
    x, z, *columns = zip(*decisions, strict=True)
    from_row = sum(one is FROM_ROW for one in z)
    inputs = list(x) if set(map(type, x)) == {dict} else _stack_inputs(x)
    if inputs is None or from_row not in (0, len(z)):
        return None
    metadata = RawMetadata(
        *(list(column) if any(map(_is_given, column)) else None for column in columns)
    )
    if _is_partly_given(metadata.times):
        return None
    return BatchArguments(inputs, FROM_ROW if from_row else list(z), metadata)


def join_decisions(decisions: Sequence[Decision]) -> BatchArguments | None:
    """Return decisions on vectors as a batch; None if they have to be taken one by one."""
    if not 1 < len(decisions) <= MOST_JOINED:
        return None
    if any(_is_given(one.time) or _is_given(one.source) or one.z is FROM_ROW for one in decisions):
        return None
    batch = make_batch(decisions)
    if batch is None or type(batch.inputs) is list:
        return None
    metadata = batch.raw_metadata
    if metadata.positions is not None or any(map(_is_partly_given, metadata[:3])):
        return None
    return batch


def _stack_inputs(x: Sequence[Any]) -> npt.NDArray[Any] | None:
    """Stack inputs that are lists of numbers, or arrays of one kind, to one array; else None."""
    kinds = set(map(type, x))
    if kinds == {np.ndarray}:
        first = x[0]
        alike = all(one.shape == first.shape and one.dtype == first.dtype for one in x)
        return np.stack(x) if alike and first.dtype.kind in "fiu" and first.size else None
    width = len(x[0]) if kinds == {list} else 0
    if width == 0 or set(map(len, x)) != {width}:
        return None
    numbers = list(chain.from_iterable(x))
    kinds = set(map(type, numbers))
    if not kinds <= _NUMBERS or (int in kinds and max(map(abs, numbers)) > MAX_EXACT_INT):
        return None
    return np.array(numbers, np.float64).reshape(len(x), width)


def _is_given(value: Any) -> bool:
    return value is not None


def _is_partly_given(column: Any) -> bool:
    return column is not None and not all(map(_is_given, column))
