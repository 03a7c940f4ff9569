"""Keys: the caller's own names for decisions, each of which is used once."""

import contextlib
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from likewise.errors import BadDecision, BadRow, ErasedKey, RepeatedKey, UnexpectedValue, WrongShape
from likewise.tables.array_types import Rows
from likewise.tables.normalize import is_unicode, label_of, short_repr, to_python_scalar

Key = str | int | None
"""A key that a ledger can store."""


def list_keys(keys: Any) -> list[Any]:
    """Return the keys of a batch as a list; raise UnexpectedValue if that is impossible."""
    if not isinstance(keys, str | bytes | Mapping):
        with contextlib.suppress(TypeError):  # such as an array without a dimension
            return list(keys)
    raise UnexpectedValue(
        f"the keys are {short_repr(keys)}; expected a list, with a key or None for each decision."
    )


def normalize_key(key: Any, what: str = "the key") -> Any:
    """Return a key as a ledger stores it; raise UnexpectedValue unless it is text or an integer."""
    key = to_python_scalar(key)
    if isinstance(key, float) and key.is_integer():
        key = int(key)
    if isinstance(key, int) and not isinstance(key, bool) and -(2**63) <= key < 2**63:
        return int(key)
    if isinstance(key, str) and is_unicode(key):
        return str(key)
    raise UnexpectedValue(
        f"{what} is {short_repr(key)} of type {type(key).__name__}; expected a string or a whole"
        " number."
    )


class Keys:
    """Maps keys to rows and back.

    A key whose row has left the window is no longer found, but cannot be used again either while
    its row is on disk, where keys are unique.

    normalize_key: converts a key to what is stored; raises BadDecision if that is impossible
    """

    def __init__(self, normalize_key: Callable[[Any, str], Any] = label_of) -> None:
        self._normalize_key = normalize_key
        self.is_erased: Callable[[Any], bool] | None = None
        """Whether a key that is not here was erased; None where that is not recorded."""
        self.reset()

    def reset(self) -> None:
        self._row_of: dict[Any, int] = {}
        self._key_of: dict[int, Any] = {}
        self._left_window: dict[Any, int] = {}  # rows that left the window and are still on disk
        self._first_on_disk = 0

    @property
    def used_bytes(self) -> int:
        """Memory that the keys take, roughly: the dictionaries, and keys as long as the first."""
        try:
            key = next(iter(self._row_of), 0)
        except RuntimeError:  # another thread has just added a key
            key = 0
        each = sys.getsizeof(key) + sys.getsizeof(1 << 30)
        maps = (self._row_of, self._key_of, self._left_window)
        return sum(map(sys.getsizeof, maps)) + each * (len(self._row_of) + len(self._left_window))

    def check(
        self, given: Sequence[Any] | None, count: int, first: int, *, column: bool = False
    ) -> list[Any] | None:
        """Return the keys of new rows as they are stored, None for a row without a key.

        Raises BadDecision if a key was used before.

        column: whether the keys come from a column, so that errors name the row of the table
        """
        if given is None:
            return None
        if len(given) != count:
            raise WrongShape(
                f"there are {count} decisions and {len(given)} keys; expected one for each."
            )
        keys = self.normalize(given)
        if self._are_new(keys):
            return keys
        seen: dict[Any, int] = {}
        for i, key in enumerate(keys):
            if key is None:
                continue
            self._refuse_key_on_disk(key)
            before = self._row_of.get(key, seen.get(key))
            if before is not None:
                raise RepeatedKey(
                    f"the key {key!r} was given to row {before} already.",
                    key=key,
                    row=before,
                    place=i if column else None,
                )
            if self.is_erased is not None and self.is_erased(key):
                raise ErasedKey(f"the decision with the key {key!r} was erased.", key=key)
            seen[key] = first + i
        return keys

    def _are_new(self, keys: list[Any]) -> bool:
        """Whether all keys are new; False also if that cannot be said without a loop over them.

        This is the fast path: in most batches all keys are new.
        """
        if self.is_erased is not None or type(None) in set(map(type, keys)):
            return False
        distinct = set(keys)
        return (
            len(distinct) == len(keys)
            and self._row_of.keys().isdisjoint(distinct)
            and self._left_window.keys().isdisjoint(distinct)
        )

    def normalize(self, given: Sequence[Any]) -> list[Any]:
        """Return keys as they are stored; None for a decision without a key."""
        given = list(given)
        if self._normalize_key is normalize_key and set(map(type, given)) == {str}:
            with contextlib.suppress(UnicodeEncodeError):  # the loop below finds the bad key
                "".join(given).encode()
                return given
        return [None if key is None else self._normalize_key(key, "the key") for key in given]

    def _refuse_key_on_disk(self, key: Any) -> None:
        if key in self._left_window:
            raise BadDecision(
                f"the key {key!r} was given to row {self._left_window[key]} already, which has"
                " left the window but is still on disk.",
                advice="Keys are unique; give another, or erase that row.",
            )

    def add(self, first: int, keys: Sequence[Any]) -> None:
        """Add the keys of rows from `first` on; None for a row without a key."""
        rows: Sequence[int] = range(first, first + len(keys))
        # Types are compared, since a key of the caller's own type may not compare with None.
        if type(None) in set(map(type, keys)):
            rows = [row for row, key in zip(rows, keys, strict=True) if key is not None]
            keys = [key for key in keys if key is not None]
        self._row_of.update(zip(keys, rows, strict=True))
        self._key_of.update(zip(rows, keys, strict=True))

    def settle(self, rows: int, alive: Callable[[Rows], Any]) -> None:
        """Drop the keys of all but remembered rows, after a call that was interrupted."""
        with_key = np.array([row for row in self._key_of if row < rows], np.int64)
        remembered = with_key[alive(with_key)].tolist() if len(with_key) else []
        self._key_of = {row: self._key_of[row] for row in remembered}
        self._row_of = {key: row for row, key in self._key_of.items()}

    def forget(self, rows: Rows) -> None:
        """Drop the keys of these rows."""
        if self._key_of:
            for row in rows.tolist():
                self._row_of.pop(self._key_of.pop(row, None), None)
        if self._left_window:
            gone = set(rows.tolist())
            self._left_window = {
                key: row for key, row in self._left_window.items() if row not in gone
            }

    def leave_window(self, rows: Rows, first: int) -> None:
        """Move rows, in their order, out of the window; rows before `first` left the disk too.

        Rows leave the disk many at a time, and only then is there a loop over all keys.
        """
        if self._key_of:
            for row in rows.tolist():
                key = self._key_of.pop(row, None)
                if key is not None:
                    self._row_of.pop(key, None)
                    self._left_window[key] = row
        if first > self._first_on_disk:
            self._first_on_disk = first
            self._left_window = {key: row for key, row in self._left_window.items() if row >= first}

    def row_of(self, key: Any) -> int | None:
        return self._row_of.get(self._normalize_key(key, "the key"))

    def row_on_disk(self, key: Any) -> int:
        """Return the row of a key, even if it has left the window; raise BadRow if none has it."""
        stored = self._normalize_key(key, "the key")
        row = self._row_of.get(stored, self._left_window.get(stored))
        if row is None:
            raise BadRow(f"no decision here has the key {key!r}. Nothing was changed.")
        return row

    def key_of(self, row: int) -> Any:
        return self._key_of.get(row)

    def keys_of(self, rows: Rows) -> tuple[Any, ...]:
        """Return the keys of rows; None for a row without a key."""
        return tuple(map(self._key_of.get, rows.tolist()))

    def __bool__(self) -> bool:
        return bool(self._key_of)
