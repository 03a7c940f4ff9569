"""The caller's own names for decisions: strings or whole numbers, each given once."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from likewise.errors import BadDecision, BadRow, RepeatedKey
from likewise.history.ledger.chain import Key
from likewise.types import Rows


def plain_key(key: Any, what: str = "the key") -> Key:
    """As a ledger keeps it; raise BadDecision if it cannot."""
    if isinstance(key, np.generic):
        key = key.item()
    if isinstance(key, float) and key.is_integer():
        key = int(key)
    if isinstance(key, int) and not isinstance(key, bool) and -(2**63) <= key < 2**63:
        return int(key)
    try:
        if isinstance(key, str):
            key.encode()
            return str(key)
    except UnicodeEncodeError:
        pass
    raise BadDecision(
        f"{what} is {key!r} of type {type(key).__name__}; expected a string or a whole number."
        " Nothing was stored."
    )


class Keys:
    """Keys that were given beside decisions, by row and back.

    A key whose row has left the window is not found by it any more, but cannot be given again
    either while its row is on disk, where keys are unique.
    """

    def __init__(self) -> None:
        self._row_of: dict[Key, int] = {}
        self._key_of: dict[int, Key] = {}
        self._left: dict[Key, int] = {}  # rows that left the window and are still on disk

    def check(self, given: Sequence[Any] | None, count: int, first: int) -> list[Key] | None:
        """Keys for rows to come, None for a row without; raise BadDecision if one was given."""
        if given is None:
            return None
        if len(given) != count:
            raise BadDecision(
                f"there are {count} decisions and {len(given)} keys; expected one for each. Nothing"
                " was stored."
            )
        keys: list[Key] = [None if key is None else plain_key(key) for key in given]
        seen: dict[Key, int] = {}
        for i, key in enumerate(keys):
            if key is None:
                continue
            self._refuse_left(key)
            before = self._row_of.get(key, seen.get(key))
            if before is not None:
                raise RepeatedKey(
                    f"the key {key!r} was given to row {before} already. Nothing was stored: keys"
                    " are unique.",
                    before,
                )
            seen[key] = first + i
        return keys

    def add(self, first: int, keys: Sequence[Key] | None) -> None:
        for row, key in enumerate(keys or (), first):
            if key is not None:
                self._row_of[key] = row
                self._key_of[row] = key

    def keepable(self, key: Any) -> Key:
        """A key from a column as a ledger keeps it; raise BadDecision if it cannot."""
        plain = plain_key(key)
        self._refuse_left(plain)
        return plain

    def _refuse_left(self, key: Key) -> None:
        if key in self._left:
            raise BadDecision(
                f"the key {key!r} was given to row {self._left[key]} already, which has left the"
                " window but is still on disk. Nothing was stored: keys are unique; give another,"
                " or erase that row."
            )

    def forget(self, rows: Rows) -> None:
        if self._key_of:
            for row in rows.tolist():
                self._row_of.pop(self._key_of.pop(row, None), None)
        if self._left:
            gone = set(rows.tolist())
            self._left = {key: row for key, row in self._left.items() if row not in gone}

    def leave(self, rows: Rows, keys: Sequence[Key] | None, first: int) -> None:
        """Rows leave the window; those before `first` are not even on disk any more.

        keys    of these rows, where they come from a column
        """
        told = [self._key_of.get(row) for row in rows.tolist()] if keys is None else keys
        left = {**self._left, **dict(zip(told, rows.tolist(), strict=True))}
        self.forget(rows)
        self._left = {key: row for key, row in left.items() if row >= first and key is not None}

    def row_left(self, key: Any) -> int | None:
        """The row of a key that has left the window and is still on disk."""
        return self._left.get(key)

    def row_of(self, key: Any) -> int | None:
        return self._row_of.get(key)

    def key_of(self, row: int) -> Key:
        return self._key_of.get(row)


def unknown_key(key: Any) -> BadRow:
    return BadRow(f"no decision in this ledger has the key {key!r}. Nothing was changed.")
