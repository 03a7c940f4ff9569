"""Define the tables of a ledger's database by version of the format, and check them.

Not here: what they mean (docs/ledger-format.md).
"""

import contextlib
import json
import reprlib
import sqlite3
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np

from likewise.errors import BadFile
from likewise.ledger.record_files import SEGMENT_BYTES, segment_rows_for
from likewise.rule.rule import STORAGES, Rule
from likewise.tables.codec import CODE, VECTOR, make_column_type

_BESIDE_INPUT = 160
"""Bytes of a record beside its input, about: it decides how many rows a file has."""
_MOST_BYTES = (1 << 31) - 1  # of a record: NumPy knows no larger type


@dataclass(frozen=True)
class RecordLayout:
    """How many numbers an output has, and how an input is laid out."""

    outputs: int
    segment_rows: int
    shape: tuple[int, ...] | None = None
    """The shape of a vector, or None for columns."""
    storage: str | None = None
    """The type in which a monitor compares vectors."""
    columns: tuple[tuple[str, str], ...] = ()
    """Name and type of each stored column; codes stand for words."""

    @classmethod
    def of_vectors(cls, shape: tuple[int, ...], storage: str, outputs: int) -> "RecordLayout":
        rows = segment_rows_for(_BESIDE_INPUT + _kept_type(storage).itemsize * int(np.prod(shape)))
        return cls(outputs, rows, shape=shape, storage=storage)

    @classmethod
    def of_columns(cls, columns: tuple[tuple[str, str], ...], outputs: int) -> "RecordLayout":
        width = sum(np.dtype(kind).itemsize for _, kind in columns)
        return cls(outputs, segment_rows_for(_BESIDE_INPUT + width), columns=columns)

    @cached_property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of one input."""
        if self.shape is not None:
            assert self.storage is not None
            return np.dtype((_kept_type(self.storage), self.shape))
        return np.dtype([(name, kind) for name, kind in self.columns])

    @property
    def vector_types(self) -> dict[str, np.dtype[Any]]:
        """The types of the vectors of texts and pictures, with their lengths, by column."""
        types = {name: np.dtype(kind) for name, kind in self.columns}
        return {name: kind[VECTOR] for name, kind in types.items() if kind.names is not None}

    def to_dict(self) -> dict[str, Any]:
        about: dict[str, Any] = {"outputs": self.outputs, "segment_rows": self.segment_rows}
        if self.shape is None:
            return about | {"columns": [list(column) for column in self.columns]}
        kind = _kept_type(self.storage or "").str
        return about | {"shape": list(self.shape), "type": kind, "storage": self.storage}

    @classmethod
    def of(cls, about: dict[str, Any], rule: Rule) -> "RecordLayout":
        """Return the layout in an event's body; raise BadFile unless it fits the rule."""
        try:
            layout = cls(
                int(about["outputs"]),
                int(about["segment_rows"]),
                shape=tuple(map(int, about["shape"])) if "shape" in about else None,
                storage=about.get("storage"),
                columns=tuple((name, kind) for name, kind in about.get("columns", ())),
            )
            as_written = json.dumps(layout.to_dict()) == json.dumps(about)
            sound = as_written and layout._is_small and layout._fits(rule)
        except (TypeError, ValueError, KeyError, OverflowError, AssertionError, SyntaxError):
            sound = False
        if not sound:
            text = reprlib.repr(about)
            raise BadFile(f"the ledger's layout makes no sense: {text}. It was altered.")
        return layout

    @property
    def _is_small(self) -> bool:
        return (
            self.dtype.itemsize > 0
            and self.outputs > 0
            and _BESIDE_INPUT + self.dtype.itemsize + 8 * self.outputs < _MOST_BYTES
            and 0 < self.segment_rows <= SEGMENT_BYTES
        )

    def _fits(self, rule: Rule) -> bool:
        """Return whether decisions under a rule have such inputs and outputs."""
        columns = rule.output_column
        count = 1 if rule.output != "probabilities" else None if columns is None else len(columns)
        if self.outputs != (count or self.outputs):
            return False
        if rule.features is not None:
            stored = {name: feature for name, feature in rule.features.items() if feature.is_kept}
            return list(stored) == [name for name, _ in self.columns] and all(
                _kind_fits(kind, stored[name]) for name, kind in self.columns
            )
        width = int(np.prod(self.shape or ()))
        return (
            self.shape is not None
            and min(self.shape, default=0) > 0
            and self.storage in STORAGES
            and self.storage != "auto"
            and rule.storage in ("auto", self.storage)
            and (rule.weights is None or len(rule.weights) == width)
        )


def _kind_fits(kind: str, feature: Any) -> bool:
    """Return whether a column of that type can hold a feature's values."""
    if feature.embed is None:
        return kind == ("<f8" if feature.kind == "number" else "<i4")
    parts = np.dtype(kind)
    return (
        parts.names == (CODE, VECTOR)
        and parts[VECTOR].base.kind in "fiu"
        and kind == make_column_type(parts[VECTOR])
    )


def _kept_type(storage: str) -> np.dtype[Any]:
    """Return the type of the numbers in a file: large integers are compared as float64."""
    kind = np.dtype("float64" if storage in ("int64", "uint64") else storage)
    return kind.newbyteorder("<")


FORMAT = 2
"""Version of the format in which new ledgers are written."""

_FORMAT_2 = """
CREATE TABLE event (
    number INTEGER PRIMARY KEY, at_row INTEGER NOT NULL, time INTEGER NOT NULL,
    kind TEXT NOT NULL, first INTEGER, stop INTEGER, latest INTEGER, body NOT NULL,
    link BLOB NOT NULL
);
CREATE INDEX event_kind ON event (kind, number) WHERE first IS NULL;
CREATE TABLE key (row INTEGER PRIMARY KEY, key NOT NULL);
CREATE UNIQUE INDEX key_key ON key (key);
CREATE TABLE verdict (
    row INTEGER PRIMARY KEY, time INTEGER NOT NULL, model INTEGER NOT NULL,
    count INTEGER NOT NULL, distance REAL, witnesses BLOB NOT NULL, distances BLOB, salt BLOB,
    commitment BLOB NOT NULL, review TEXT
);
CREATE INDEX verdict_model ON verdict (model, time) WHERE model >= 0;
CREATE INDEX verdict_distance ON verdict (distance);
CREATE INDEX verdict_review ON verdict (review, row) WHERE review IS NOT NULL;
CREATE TABLE member (
    "column" TEXT NOT NULL, code INTEGER NOT NULL, row INTEGER NOT NULL,
    PRIMARY KEY ("column", code, row)
) WITHOUT ROWID;
CREATE TABLE note (
    event INTEGER PRIMARY KEY, row INTEGER NOT NULL, other INTEGER, text TEXT, salt BLOB
);
CREATE INDEX note_row ON note (row);
CREATE INDEX note_other ON note (other) WHERE other IS NOT NULL;
CREATE TABLE word (
    number INTEGER PRIMARY KEY, "column" TEXT NOT NULL, code INTEGER NOT NULL, value TEXT,
    salt BLOB, commitment BLOB NOT NULL, link BLOB NOT NULL
);
CREATE INDEX word_code ON word ("column", code);
CREATE VIEW violations AS
SELECT verdict.row, strftime('%Y-%m-%dT%H:%M:%fZ', verdict.time / 1e6, 'unixepoch') AS time,
    key.key, verdict.count, verdict.distance, verdict.review
FROM verdict LEFT JOIN key ON key.row = verdict.row;
"""

SCHEMAS = {FORMAT: _FORMAT_2}
"""The schema of each format, by version. The schema of a released format is never changed."""

_PARTS = "SELECT type, name, tbl_name, sql FROM sqlite_master"
_INTERNAL = {
    "sqlite_sequence": "name,seq",
    "sqlite_stat1": "tbl,idx,stat",
    "sqlite_stat2": "tbl,idx,sampleno,sample",
    "sqlite_stat3": "tbl,idx,neq,nlt,ndlt,sample",
    "sqlite_stat4": "tbl,idx,neq,nlt,ndlt,sample",
}
"""Tables that SQLite makes for itself, and their columns."""


def check_schema(folder: Path, database: sqlite3.Connection) -> None:
    """Raise BadFile unless the database has the tables, indexes and views of its format, no others.

    A trigger could keep what is erased; a view or an index could stand in for a table.
    """
    (version,) = database.execute("PRAGMA user_version").fetchone()
    expected = _parts_of_schema(version)
    parts = set(database.execute(_PARTS)) - _internal_parts()
    if parts == expected:
        return
    more = [f"the {part[0]} {part[1]}" for part in parts - expected]
    missing = [f"no {part[0]} {part[1]} as it should be" for part in expected - parts]
    raise BadFile(
        f"the tables of the ledger {str(folder)!r} are not those of its format (it has"
        f" {', '.join(sorted(more + missing)[:3])}): they were altered. Nothing was changed: bring"
        " it back from a copy."
    )


def empty_internal_tables(database: sqlite3.Connection) -> None:
    """Empty SQLite's own tables: its statistics may hold samples of keys."""
    for _, name, *_ in _internal_parts().intersection(database.execute(_PARTS)):
        database.execute(f"DELETE FROM {name}")


@cache
def _internal_parts() -> frozenset[tuple[str, str, str, str | None]]:
    return frozenset(
        ("table", name, name, f"CREATE TABLE {name}({columns})")
        for name, columns in _INTERNAL.items()
    )


@cache
def _parts_of_schema(version: int) -> frozenset[tuple[str, str, str, str | None]]:
    with contextlib.closing(sqlite3.connect(":memory:")) as database:
        database.executescript(SCHEMAS.get(version, ""))
        return frozenset(database.execute(_PARTS))
