"""Copy a ledger while it is written, and later copy only what has changed since.

Invariant: there is always a whole copy of one moment: under its name, or, if the last step was
interrupted, beside it under a name that the next call knows.
Cost: copying the database and the files that changed, and verifying the whole copy.
"""

import contextlib
import os
import shutil
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from likewise.errors import BadFile
from likewise.ledger import folder
from likewise.ledger.entries import Word
from likewise.ledger.ledger import Ledger
from likewise.ledger.notes import LedgerNote
from likewise.ledger.reader import LedgerReader
from likewise.ledger.record_files import SUFFIX, sync_folder
from likewise.ledger.source_positions import Sources
from likewise.ledger.store import Store
from likewise.ledger.stored import NameTable, StoredDecisions
from likewise.ledger.verification import Verification
from likewise.ledger.write_buffer import Entries, UnwrittenDecisions
from likewise.runtime import private_files as private
from likewise.tables.codec import read_word
from likewise.tables.positions import SourcePositions

_COPIED_KINDS = ("clock", "fault", "lost")
"""Kinds of events that are copied unchanged."""


# Copy the whole history of a ledger into a new one: decisions, verdicts, words and notes.
# Row numbers stay the same: an event `dropped` at the beginning stands for rows that have left the
# window, and erased rows are written as zeros and erased again.


def copy_history(ledger: Ledger, store: Store) -> None:
    """Copy everything from a ledger to the store of a new one."""
    reader = ledger.reader
    if reader.layout is None:
        return
    store.set_layout(reader.layout)
    if ledger.window != "all":
        store.event("window", {"keep": ledger.window})
    if ledger.first:
        store.begin_at(ledger.first)
    models, words, sources = reader.names("model"), _words(reader.words()), Sources(reader)
    named: set[int] = set()
    for chunk in reader.all_decisions(ledger.first, reader.state().judged, witnesses=True):
        named.update(chunk.witnesses.records["row"].tolist())
        places = sources.places(chunk.sources, chunk.positions)
        store.append(_entries(chunk, models, places, words))
        words = []  # all of them come with the first chunk
    since = dict.fromkeys(reader.erased_rows().tolist(), ledger.first)
    for event in reader.events("erased"):
        since |= event.erasure_totals()
    erased = sorted(row for row in since if row >= ledger.first or row in named)
    numbers = [word[0] for word in reader.words() if word[3] is None]
    _copy_notes(ledger, store)
    for event in ledger.events():
        if event.kind in _COPIED_KINDS:
            store.event(event.kind, {**event.body, "at_row": event.at_row})
    store.tell_positions(ledger.positions)  # also those of rows that have left
    if erased or numbers:
        store.erase(erased, numbers, [since[row] for row in erased])
        store.rewrite()


def _words(words: list[Any]) -> list[Word]:
    """Return all words, with a stand-in for each erased one, which is erased at the end."""
    return [
        (column, code, None if value is None else read_word(value))
        for _, column, code, value, *_ in words
    ]


def _entries(
    chunk: StoredDecisions, models: NameTable, places: SourcePositions | None, words: list[Word]
) -> Entries:
    """Return entries for a chunk, with zeros for erased values."""
    erased = np.isnan(chunk.outputs[:, 0])
    outputs = np.where(erased[:, None], 0.0, chunk.outputs)
    inputs = np.ascontiguousarray(chunk.records["input"])
    inputs[erased] = 0
    decisions = UnwrittenDecisions(
        chunk.times,
        None if chunk.keys is None else list(chunk.keys),
        chunk.firsts,
        chunk.counts,
        chunk.witnesses,
        chunk.facts,
        models.all_of(chunk.models),
        places=places,
    )
    return Entries(decisions, inputs, outputs, words)


def _copy_notes(ledger: Ledger, store: Store) -> None:
    """Copy reviews and corrections; the texts of erased rows are empty, and erased again."""
    events = [event for event in ledger.events() if event.kind in ("review", "superseded", "truth")]
    texts = dict(ledger.reader.all("SELECT event, text FROM note")) if events else {}
    for event in events:
        body = {name: value for name, value in event.body.items() if name != "note"}
        other = body.get("by_row" if event.kind == "superseded" else "witness")
        review = body.get("disposition") if event.kind == "review" else None
        text = texts.get(event.number) or ""
        store.note(LedgerNote(event.kind, body, text, event.get_integer("row"), other, review))


# The database is copied as it is at one moment (SQLite's own backup), then files of records: those
# that are new, that have grown, or in which rows were erased or judged since. The copy is verified
# like any ledger. If it does not verify because rows were erased or dropped in between, it is made
# again.

_TRIES = 5


@dataclass(frozen=True)
class Backup:
    """Says what was copied."""

    rows: int
    copied: int
    """Files of records that were copied."""
    unchanged: int
    """Files that the earlier copy already had."""
    head: str

    def __str__(self) -> str:
        files = "1 file" if self.copied == 1 else f"{self.copied:,} files"
        unchanged = f", {self.unchanged:,} unchanged" if self.unchanged else ""
        copied = f"{files} of records copied{unchanged}"
        return f"{self.rows:,} decisions; {copied}; verified; {self.head}"


def back_up(ledger: str | os.PathLike[str], to: str | os.PathLike[str]) -> Backup:
    """Copy a ledger to a folder: a new one, or one with an earlier copy of the same ledger."""
    source, target = Path(ledger), Path(to)
    fresh, before = (target.with_name(f"{target.name}.{end}") for end in ("next", "before"))
    try:
        if before.exists() and not target.exists():  # interrupted between the last two steps
            before.rename(target)
        shutil.rmtree(before, ignore_errors=True)  # interrupted after them
        _check_target(source, target)
        private.make_folder(target.parent)
        for _ in range(_TRIES):
            shutil.rmtree(fresh, ignore_errors=True)
            try:
                verification, copied, kept = _make(source, target, fresh)
            except FileNotFoundError:  # dropped by the window meanwhile
                continue
            if verification.ok:
                if target.exists():
                    target.rename(before)
                fresh.rename(target)
                sync_folder(target.parent)
                return Backup(verification.rows, copied, kept, str(verification.head))
    except OSError as error:
        raise BadFile(
            f"{str(target)!r} cannot be written: {error.strerror}.", path=target
        ) from None
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
        if target.exists():
            shutil.rmtree(before, ignore_errors=True)
    with Ledger(source) as opened:
        verification = opened.verify()
    if not verification.ok:
        raise BadFile(f"{str(source)!r} is {verification}. Nothing was copied.", path=source)
    raise BadFile(
        f"{str(source)!r} drops rows faster than they can be copied. Try again.", path=source
    )


def restore(backup: str | os.PathLike[str], to: str | os.PathLike[str]) -> Backup:
    """Make a ledger from a copy, in a new folder."""
    target = Path(to)
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise BadFile(
            f"{str(target)!r} exists already. Nothing was written: name a new folder.",
            path=target,
        )
    return back_up(backup, to)


def _check_target(source: Path, target: Path) -> None:
    with Ledger(source) as ledger:
        mine = ledger.events()[0].link
    if source.resolve() == target.resolve():
        raise BadFile("a ledger cannot be copied onto itself.")
    if folder.exists(target):
        with Ledger(target) as earlier:
            if earlier.events()[0].link != mine:
                raise BadFile(
                    f"{str(target)!r} has a copy of another ledger. Nothing was changed: name"
                    " another folder.",
                    path=target,
                )
    elif target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise BadFile(f"{str(target)!r} exists already, and is no copy of a ledger.", path=target)


def _make(source: Path, target: Path, fresh: Path) -> tuple[Verification, int, int]:
    """Make a whole copy in the folder `fresh`; unchanged files are linked, not copied."""
    private.make_folder(fresh)
    os.close(private.open_private(fresh / folder.DATABASE))
    with (
        contextlib.closing(folder.connect(source, write=False)) as database,
        contextlib.closing(sqlite3.connect(fresh / folder.DATABASE)) as copy,
    ):
        database.backup(copy)
        copy.execute("PRAGMA journal_mode = DELETE")
    copied = kept = 0
    changed = _make_change_test(fresh, target)
    for path in sorted(source.glob(f"*{SUFFIX}")):
        before = target / path.name
        if before.is_file() and not changed(path):
            os.link(before, fresh / path.name)
            kept += 1
        else:
            _copy_file(path, fresh / path.name)
            copied += 1
    sync_folder(fresh)
    with Ledger(fresh) as new_copy:
        return new_copy.verify(), copied, kept


def _make_change_test(fresh: Path, target: Path) -> Callable[[Path], bool]:
    """Return a function that tells whether a file of records changed since the earlier copy."""
    if not folder.exists(target):
        return lambda path: True
    with (
        contextlib.closing(LedgerReader(fresh, folder.connect(fresh, write=False))) as now,
        Ledger(target) as earlier,
    ):
        layout = now.layout
        rows = 0 if layout is None else layout.segment_rows
        new_events = now.events()[len(earlier.events()) :]
        erased = [event for event in new_events if event.kind == "erased"]
        erased_rows = {row for event in erased for row in event.get_integers("rows")}
        touched = {row // rows for row in erased_rows} if rows else set()
        open_since = earlier.reader.state().judged // rows if rows else 0

    def is_changed(path: Path) -> bool:
        segment = int(path.stem) // rows
        same_size = path.stat().st_size == (target / path.name).stat().st_size
        return segment >= open_since or segment in touched or not same_size

    return is_changed


def _copy_file(path: Path, to: Path) -> None:
    file = private.open_private(to)
    with os.fdopen(file, "wb") as out, path.open("rb") as content:
        shutil.copyfileobj(content, out, 1 << 20)
        out.flush()
        os.fsync(out.fileno())
