"""Which contradictions of a ledger are looked for: by time, model, group, review and distance.

The database's indexes propose rows; a group, which no hash covers, is compared with the record.
"""

import time as clock
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from likewise.ledger.protocol import Reading
from likewise.ledger.times import duration, microseconds
from likewise.values.errors import BadRule


def stretch(last: str | None, since: Any, until: Any) -> tuple[int | None, int | None]:
    """From when on, and until when, in microseconds since 1970; None for no limit."""
    begin = None if since is None else microseconds(since)
    end = None if until is None else microseconds(until)
    if last is None:
        return begin, end
    length = duration(last)
    if length is None or begin is not None or end is not None:
        raise BadRule(
            f'last is {last!r}; expected how long before now, such as "1 hour", and then neither'
            " since nor until"
        )
    return clock.time_ns() // 1000 - length, None


@dataclass(frozen=True)
class Sought:
    """A query for rows with witnesses."""

    reader: Reading
    where: str
    values: tuple[Any, ...]

    @classmethod
    def of(
        cls,
        reader: Reading,
        since: Any,
        until: Any,
        model: str | None,
        group: tuple[str, Any] | None,
        review: str | None,
        within: float | None,
        words: Mapping[str, Sequence[Any]],
    ) -> "Sought":
        parts: list[tuple[str, Any]] = []
        begin, end = stretch(None, since, until)
        if begin is not None:
            rows = reader.runs_since(begin)
            parts.append(("row >= ?", rows[0][0] if rows else reader.state().rows))
            parts.append(("time >= ?", begin))
        if end is not None:
            parts.append(("time < ?", end))
        if model is not None:
            parts.append(("model = ?", reader.names("model").codes.get(model, -2)))
        if within is not None:
            parts.append(("distance <= ?", float(within)))
        if review == "open":
            parts.append(("review IS ?", None))
        elif review is not None:
            parts.append(("review = ?", review))
        if group is not None:
            code = _code(reader, group, words)
            member = 'row IN (SELECT row FROM member WHERE "column" = ? AND code = ?)'
            parts.append((member, (group[0], code)))
        where = "".join(f" AND {part}" for part, _ in parts)
        values: list[Any] = []
        for _, value in parts:
            values += value if isinstance(value, tuple) else (value,)
        return cls(reader, where, tuple(values))

    def rows(self, first: int, stop: int) -> list[int]:
        return self.reader.flagged_where(self.where, self.values, first, stop)


def _code(reader: Reading, group: tuple[str, Any], words: Mapping[str, Sequence[Any]]) -> int:
    """The code of a value of a protected column; one that no row has, if it never occurs."""
    column, value = group
    feature: Any = (reader.rule.features or {}).get(column)
    if feature is None or feature.kind != "protected":
        raise BadRule(f"{column!r} is no protected column of this ledger's rule.")
    listed = feature.order or feature.values
    known = list(words.get(column, ()) if listed is None else listed)
    return known.index(value) if value in known else -2
