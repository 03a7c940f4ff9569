"""Find the last position of each source in a ledger, and check new ones.

Every record has its source and its position. An event `positions` repeats the last ones: at the
latest after as many rows as a file of records holds, and before rows leave the window.
Invariant: positions of a source only grow.
Cost: reads the records of one file at most. Not here: storing them with decisions (store.py).
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from likewise.errors import BadRow, OldPosition
from likewise.ledger.protocol import FormatReader
from likewise.ledger.stored import Event, NameTable
from likewise.tables.array_types import Rows
from likewise.tables.positions import (
    Position,
    PositionNumbers,
    SourcePositions,
    mixed_positions_error,
    position_of,
    to_position_numbers,
)

POSITIONS = "positions"
"""The kind of these events."""
PAIR = {"position": "pair"}
"""What an event `source` says beside the name if positions are pairs."""
_TRIES = 5
_CHUNK = 1 << 13  # rows that are read together


class Sources:
    """Holds the sources of a ledger by code, and whether their positions are pairs."""

    def __init__(self, reader: FormatReader) -> None:
        self.names: NameTable = reader.names("source")
        events = reader.events("source") if self.names.listed else []
        self._pairs = [event.body.get("position") == "pair" for event in events]

    def __bool__(self) -> bool:
        return bool(self.names.listed)

    def position(self, code: int, numbers: Any) -> Position | None:
        """Return the position of a row with this source; None if it has none."""
        return None if self.names.of(code) is None else position_of(numbers, self._pairs[code])

    def places(self, codes: Rows, numbers: PositionNumbers) -> SourcePositions | None:
        """Return where rows come from; None if none of them has a source."""
        names = self.names.all_of(codes)
        if names is None:
            return None
        pairs = (name for name, pair in zip(self.names.listed, self._pairs, strict=True) if pair)
        return SourcePositions(names, numbers, frozenset(pairs))


def last_positions(reader: FormatReader) -> tuple[dict[str, Position], int]:
    """Return the last position on disk by source, and the row at which an event repeated them."""
    for _ in range(_TRIES):
        try:
            return _last_positions(reader)
        except BadRow:  # the rows behind the event left the window; there is another event then
            continue
    return _last_positions(reader)


def _last_positions(reader: FormatReader) -> tuple[dict[str, Position], int]:
    rows = reader.state().rows  # first: what comes meanwhile may have a source that is not known
    positions: dict[str, Position] = {}
    begin = reader.events("source")[:1]
    for event in reader.events(POSITIONS)[-1:]:
        positions, begin = _read_positions(event), [event]
    if not begin:
        return {}, rows
    first = max(begin[0].at_row, reader.first_kept())
    sources = Sources(reader)
    for start in range(first, rows, _CHUNK):
        stop = min(start + _CHUNK, rows)
        chunk = reader.decisions(start, stop, keys=False, witnesses=False)
        places = sources.places(chunk.sources, chunk.positions)
        if places is not None:
            positions |= places.last_positions()
    return positions, first


def _read_positions(event: Event) -> dict[str, Position]:
    last = event.body.get("last")
    if not isinstance(last, dict) or not all(map(_is_position, last.values())):
        raise event.unreadable()
    return {
        name: (value[0], value[1]) if isinstance(value, list) else value
        for name, value in last.items()
    }


def _is_position(value: Any) -> bool:
    numbers = value if isinstance(value, list) else [value, 0]
    return len(numbers) == 2 and all(type(one) is int and 0 <= one < 1 << 64 for one in numbers)


def positions_body(last: dict[str, Position]) -> dict[str, Any]:
    """Return the body of an event that repeats the last positions."""
    return {"last": {name: _position_value(position) for name, position in last.items()}}


def _position_value(position: Position) -> int | list[int]:
    return list(position) if isinstance(position, tuple) else position


def check_places(places: SourcePositions | None, last: dict[str, Position]) -> None:
    """Raise OldPosition unless each position is above those before it in its source."""
    if places is None:
        return
    for name, new_positions in _by_source(places):
        positions, pair, before = new_positions, name in places.pairs, last.get(name)
        if before is not None:
            if isinstance(before, tuple) != pair:
                raise mixed_positions_error(name, position_of(positions[0], pair), pair)
            start = np.array([to_position_numbers(before)], np.uint64)
            positions = np.concatenate([start, positions])
        major, minor = positions[:, 0], positions[:, 1]
        grows = (major[1:] > major[:-1]) | ((major[1:] == major[:-1]) & (minor[1:] > minor[:-1]))
        for i in np.flatnonzero(~grows)[:1].tolist():
            position, previous = (position_of(positions[k], pair) for k in (i + 1, i))
            raise OldPosition(
                f"the position is {position}, and the last one of the source {name!r} is"
                f" {previous}; expected one above it.",
                source=name,
                position=position,
                last=previous,
            )


def _by_source(places: SourcePositions) -> Iterator[tuple[str, PositionNumbers]]:
    """Yield the positions of each source, in their order."""
    codes = {name: code for code, name in enumerate(dict.fromkeys(places.sources))}
    if len(codes) == 1:
        (name,) = codes
        if name is not None:
            yield name, places.numbers
        return
    each = np.fromiter((codes[name] for name in places.sources), np.int64, len(places))
    order = np.argsort(each, kind="stable")
    bounds = np.searchsorted(each[order], np.arange(len(codes) + 1))
    for name, code in codes.items():
        if name is not None:
            yield name, places.numbers[order[bounds[code] : bounds[code + 1]]]
