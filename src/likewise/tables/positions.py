"""Where decisions come from: a source is one ordered sequence, a position a place in it.

A source has a name: one Redis stream, one Kafka partition ("decisions/3"), one file. A position is
a whole number (an offset, a line) or a pair of them (a Redis id, milliseconds and sequence); pairs
are compared by their first numbers, then by their second.

Invariant: what is no position is refused before anything changes.
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

Position: TypeAlias = int | tuple[int, int]
PositionNumbers: TypeAlias = npt.NDArray[np.uint64]
"""Two for each decision: a whole number is followed by 0."""

_END = 1 << 64


def to_position_numbers(position: Position) -> tuple[int, int]:
    """A position as it is kept and compared.

    >>> numbers_of(17), numbers_of((1700, 3))
    ((17, 0), (1700, 3))
    """
    return (position, 0) if isinstance(position, int) else position


def position_of(numbers: Sequence[int], pair: bool) -> Position:
    """A position as it was given."""
    first, second = int(numbers[0]), int(numbers[1])
    return (first, second) if pair else first


@dataclass(frozen=True)
class SourcePositions:
    """Of some decisions the source of each, and its position there."""

    sources: list[str | None]
    numbers: PositionNumbers
    pairs: frozenset[str]
    """Sources whose positions are pairs."""

    def __len__(self) -> int:
        return len(self.sources)

    def select(self, chosen: slice | list[int]) -> "SourcePositions":
        """Those of a stretch, or at these places."""
        if isinstance(chosen, slice):
            return SourcePositions(self.sources[chosen], self.numbers[chosen], self.pairs)
        return SourcePositions([self.sources[i] for i in chosen], self.numbers[chosen], self.pairs)

    def last_positions(self) -> dict[str, Position]:
        """By source the last position; those of a source are in order."""
        sources, numbers = self.sources, self.numbers
        begin = len(sources) - 1 if len(set(sources)) == 1 else 0  # of one source, the last place
        named = enumerate(sources[begin:], begin)
        places = {name: i for i, name in named if name is not None}
        return {name: position_of(numbers[i], name in self.pairs) for name, i in places.items()}


def join_positions(parts: Sequence[tuple[SourcePositions | None, int]]) -> SourcePositions | None:
    """One after the other; of parts without any, so many that come from nowhere."""
    there = [part for part, _ in parts if part is not None]
    if not there:
        return None
    sources: list[str | None] = []
    for part, count in parts:
        sources += [None] * count if part is None else part.sources
    numbers = [
        np.zeros((count, 2), np.uint64) if part is None else part.numbers for part, count in parts
    ]
    pairs = frozenset[str]().union(*(part.pairs for part in there))
    return SourcePositions(sources, np.concatenate(numbers), pairs)


def check_position(source: Any, position: Any) -> SourcePositions | None:
    """Where a single decision comes from; None if that is not said."""
    if source is None and position is None:
        return None
    return _build_positions([check_name(source, "the source")], [position])


def check_positions(sources: Any, positions: Any, count: int) -> SourcePositions | None:
    """Where so many decisions come from; None if that is not said of any.

    sources     one name for all, or a name, or None, for each
    positions   a position, or None, for each

    >>> places_of("decisions/3", [16, 17], 2).last()
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
    """Names and positions put together, each checked."""
    plain = _plain_numbers(given) if len(set(names)) == 1 and names[0] is not None else None
    if plain is not None:
        named = str(names[0])
        return SourcePositions(
            names, plain, frozenset({named} if isinstance(given[0], tuple) else ())
        )
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
            numbers.append(_pair(position))
            pair = not _is_whole(position)
        if shapes.setdefault(name, pair) != pair:
            raise mixed_positions_error(name, position, pair)
    if not shapes:
        return None
    pairs = frozenset(name for name, pair in shapes.items() if pair)
    return SourcePositions(names, np.array(numbers, np.uint64).reshape(-1, 2), pairs)


def _plain_numbers(given: list[Any]) -> PositionNumbers | None:
    """All positions as an array, if they are all ints, or all pairs of ints, within bounds."""
    kinds = set(map(type, given))
    if kinds == {tuple} and set(map(len, given)) == {2}:
        flat = list(chain.from_iterable(given))
    elif kinds == {int}:
        flat = given
    else:
        return None
    if set(map(type, flat)) != {int} or min(flat) < 0 or max(flat) >= _END:
        return None
    numbers = np.zeros((len(given), 2), np.uint64)
    if flat is given:
        numbers[:, 0] = np.array(flat, np.uint64)
    else:
        numbers[:] = np.array(flat, np.uint64).reshape(-1, 2)
    return numbers


def mixed_positions_error(source: str, position: Any, pair: bool) -> BadDecision:
    expected = "whole numbers" if pair else "pairs of them"
    return UnexpectedValue(
        f"the position is {position!r}, but positions of the source {source!r} are {expected}.",
        advice="Give all positions of a source in one way.",
    )


def _refuse_half(name: str | None, position: Any, i: int, count: int) -> None:
    of = "" if count == 1 else f" of decision {i}"
    came = f"the position{of} is {position!r}" if name is None else f"the source{of} is {name!r}"
    lacks = "source, the name of what it is a position in" if name is None else "position in it"
    raise BadDecision(f"{came}, and there is no {lacks}.", advice="Give both, or neither.")


def _is_whole(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def _pair(position: Any) -> tuple[int, int]:
    """The numbers of a position that is no plain int, or is out of bounds."""
    if type(position) is tuple and len(position) == 2:
        first, second = position
        if type(first) is type(second) is int and 0 <= first < _END and 0 <= second < _END:
            return first, second
    both = (position, 0) if _is_whole(position) else position
    if isinstance(both, tuple | list) and len(both) == 2 and all(map(_is_whole, both)):
        first, second = int(both[0]), int(both[1])
        if 0 <= first < _END and 0 <= second < _END:
            return first, second
    raise UnexpectedValue(
        f"the position is {short_repr(position)}; expected a whole number from 0 to 2**64 - 1, or a"
        " pair of them."
    )
