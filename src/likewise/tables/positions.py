"""Says where decisions come from: a source is an ordered sequence, a position a place in it.

A source has a name: one Redis stream, one Kafka partition ("decisions/3"), one file. A position is
a whole number (an offset, a line) or a pair of them (a Redis id), compared like a tuple.
Invariant: a value that is no position is refused before anything changes.
Not here: which positions came before (ledger/source_positions.py).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from likewise.errors import BadDecision, UnexpectedValue, WrongShape
from likewise.tables.model_names import check_name, check_names
from likewise.tables.normalize import require_list, short_repr
from likewise.tables.setting_checks import is_integer

Position: TypeAlias = int | tuple[int, int]
PositionNumbers: TypeAlias = npt.NDArray[np.uint64]
"""Two numbers for each decision; a position that is a whole number is followed by 0."""

_END = 1 << 64


def to_position_numbers(position: Position) -> tuple[int, int]:
    """Return a position as it is stored and compared.

    >>> to_position_numbers(17), to_position_numbers((1700, 3))
    ((17, 0), (1700, 3))
    """
    return (position, 0) if isinstance(position, int) else position


def position_of(numbers: Sequence[int], pair: bool) -> Position:
    """Return a position as the caller gave it: a pair, or the first number."""
    first, second = int(numbers[0]), int(numbers[1])
    return (first, second) if pair else first


@dataclass(frozen=True)
class SourcePositions:
    """The source and the position of each of several decisions."""

    sources: list[str | None]
    numbers: PositionNumbers
    pairs: frozenset[str]
    """Sources whose positions are pairs."""

    def __len__(self) -> int:
        return len(self.sources)

    def select(self, chosen: slice | list[int]) -> "SourcePositions":
        """Return the positions of a slice, or at these places."""
        if isinstance(chosen, slice):
            return SourcePositions(self.sources[chosen], self.numbers[chosen], self.pairs)
        return SourcePositions([self.sources[i] for i in chosen], self.numbers[chosen], self.pairs)

    def last_positions(self) -> dict[str, Position]:
        """Return the last position by source; positions of a source are in order."""
        sources, numbers = self.sources, self.numbers
        begin = len(sources) - 1 if len(set(sources)) == 1 else 0  # skip the loop for one source
        named = enumerate(sources[begin:], begin)
        places = {name: i for i, name in named if name is not None}
        return {name: position_of(numbers[i], name in self.pairs) for name, i in places.items()}


def join_positions(parts: Sequence[tuple[SourcePositions | None, int]]) -> SourcePositions | None:
    """Concatenate the positions of batches; a batch without any is given as its size.

    Returns None if no batch has any.
    """
    present = [part for part, _ in parts if part is not None]
    if not present:
        return None
    sources: list[str | None] = []
    for part, count in parts:
        sources += [None] * count if part is None else part.sources
    numbers = [
        np.zeros((count, 2), np.uint64) if part is None else part.numbers for part, count in parts
    ]
    pairs = frozenset[str]().union(*(part.pairs for part in present))
    return SourcePositions(sources, np.concatenate(numbers), pairs)


def check_position(source: Any, position: Any) -> SourcePositions | None:
    """Check the source and position of one decision; return None if it has neither."""
    if source is None and position is None:
        return None
    return _build_positions([check_name(source, "the source")], [position])


def check_positions(sources: Any, positions: Any, count: int) -> SourcePositions | None:
    """Check the sources and positions of `count` decisions; return None if none has any.

    sources     one name for all, or a list with a name or None for each
    positions   a list with a position or None for each

    >>> check_positions("decisions/3", [16, 17], 2).last_positions()
    {'decisions/3': 17}
    """
    if sources is None and positions is None:
        return None
    names = check_names(sources, count, "source") or [None] * count
    given = [None] * count
    if positions is not None:
        expected = "a list with a position or None for each decision"
        given = require_list(positions, "the positions", expected)
    if len(given) != count:
        raise WrongShape(
            f"there are {count} decisions and {len(given)} positions; expected one for each."
        )
    return _build_positions(names, given)


def _build_positions(names: list[str | None], given: list[Any]) -> SourcePositions | None:
    """Check each name and position, and join them."""
    first = names[0] if len(set(names)) == 1 else None
    plain = None if first is None else _plain_numbers(given)
    if first is not None and plain is not None:
        with_pairs = frozenset({first} if isinstance(given[0], tuple) else ())
        return SourcePositions(names, plain, with_pairs)
    numbers: list[tuple[int, int]] = []
    shapes: dict[str, bool] = {}  # whether the positions of a source are pairs
    for i, (name, position) in enumerate(zip(names, given, strict=True)):
        if name is None or position is None:
            if name is not None or position is not None:
                _refuse_half(name, position, i, len(given))
            numbers.append((0, 0))
            continue
        if type(position) is int and 0 <= position < _END:
            pair = False
            numbers.append((position, 0))
        else:
            numbers.append(_read_position(position))
            pair = not is_integer(position)
        if shapes.setdefault(name, pair) != pair:
            raise mixed_positions_error(name, position, pair)
    if not shapes:
        return None
    pairs = frozenset(name for name, pair in shapes.items() if pair)
    return SourcePositions(names, np.array(numbers, np.uint64).reshape(-1, 2), pairs)


def _plain_numbers(given: list[Any]) -> PositionNumbers | None:
    """Return all positions as an array if all are ints, or all pairs of ints, within bounds."""
    kinds = set(map(type, given))
    if kinds == {tuple} and set(map(len, given)) == {2}:
        flat = list(chain.from_iterable(given))
    elif kinds == {int}:
        flat = given
    else:
        return None
    if set(map(type, flat)) != {int} or min(flat) < 0 or max(flat) >= _END:
        return None
    if flat is not given:
        return np.array(flat, np.uint64).reshape(-1, 2)
    numbers = np.zeros((len(given), 2), np.uint64)
    numbers[:, 0] = np.array(flat, np.uint64)
    return numbers


def mixed_positions_error(source: str, position: Any, pair: bool) -> BadDecision:
    """Return the error for a source that gives whole numbers and pairs."""
    expected = "whole numbers" if pair else "pairs of them"
    return UnexpectedValue(
        f"the position is {position!r}, but positions of the source {source!r} are {expected}.",
        advice="Give all positions of a source in one way.",
    )


def _refuse_half(name: str | None, position: Any, i: int, count: int) -> None:
    of = "" if count == 1 else f" of decision {i}"
    known = f"the position{of} is {position!r}" if name is None else f"the source{of} is {name!r}"
    lacks = "source, the name of what it is a position in" if name is None else "position in it"
    raise BadDecision(f"{known}, and there is no {lacks}.", advice="Give both, or neither.")


def _read_position(position: Any) -> tuple[int, int]:
    """Return the two numbers of any position; raise UnexpectedValue if it is none."""
    both = (position, 0) if is_integer(position) else position
    if isinstance(both, tuple | list) and len(both) == 2 and all(map(is_integer, both)):
        first, second = int(both[0]), int(both[1])
        if 0 <= first < _END and 0 <= second < _END:
            return first, second
    raise UnexpectedValue(
        f"the position is {short_repr(position)}; expected a whole number from 0 to 2**64 - 1, or a"
        " pair of them."
    )
