"""Compare what people said of decisions with the commitments in the chain."""

from collections.abc import Callable

import numpy as np

from likewise.ledger.hashes import SALT, word_commitment
from likewise.ledger.protocol import Reading
from likewise.ledger.stored import Altered

_NAMED = "SELECT witnesses FROM verdict WHERE row = ?"
KINDS = ("review", "superseded", "truth")


def check_notes(reader: Reading, first: int, is_gone: Callable[[int], bool]) -> None:
    """Raise Altered unless all notes, and the marks of reviewed verdicts, are as they were written.

    first: the first row that is kept; notes on earlier ones have left with them
    """
    events = sorted(
        (event for kind in KINDS for event in reader.events(kind)), key=lambda one: one.number
    )
    events = [event for event in events if event.whole("row") >= first]
    notes = {event: rest for event, *rest in reader.all("SELECT * FROM note")}
    if set(notes) != {event.number for event in events}:
        raise Altered(None, "there are notes that no event tells of, or some are missing")
    marks: dict[int, str] = {}
    for event in events:
        row, other, text, salt = notes[event.number]
        about = event.body.get("by_row" if event.kind == "superseded" else "witness")
        if (row, other) != (event.body["row"], about):
            raise Altered(row, f"event {event.number}: its note is about other rows")
        gone = is_gone(row) or (other is not None and is_gone(other))
        if not gone and event.kind == "review" and other is None:
            gone = any(map(is_gone, _named_by(reader, row)))
        if text is salt is None:
            if not gone:
                raise Altered(
                    row, f"event {event.number}: its note is gone, and no erasure says why"
                )
        elif not (isinstance(text, str) and isinstance(salt, bytes) and len(salt) == SALT) or (
            word_commitment(salt, text).hex() != event.body.get("note")
        ):
            raise Altered(row, f"event {event.number}: its note is not as it was written")
        if event.kind == "review":
            marks[row] = str(event.body.get("disposition"))
    expected = {row: mark for row, mark in marks.items() if mark != "open"}
    there = dict(reader.all("SELECT row, review FROM verdict WHERE review IS NOT NULL"))
    if there != expected:
        raise Altered(None, "verdicts are marked with other reviews than the chain has")


def _named_by(reader: Reading, row: int) -> list[int]:
    """The witnesses that are kept of a verdict."""
    return [one for (named,) in reader.all(_NAMED, row) for one in np.frombuffer(named, "<i8")]
