"""Compare the texts of a ledger with the chain: words of columns, and what people said.

Words have a chain of their own, which `words` events pin down; notes have a commitment each.
"""

from collections.abc import Callable

import numpy as np

from likewise.ledger.hashes import GENESIS, SALT, word_commitment, word_link
from likewise.ledger.protocol import Reading
from likewise.ledger.stored import Altered

_NAMED = "SELECT witnesses FROM verdict WHERE row = ?"
KINDS = ("review", "superseded", "truth")


def check_words(reader: Reading) -> None:
    """Raise Altered unless all words are as they were written, or were erased."""
    wanted = {0: GENESIS}
    erased = {word for event in reader.events("erased") for word in event.listed("words")}
    try:
        for event in reader.events("words"):
            wanted[int(event.body["words"])] = bytes.fromhex(event.body["link"])
        for event in reader.events("dropped")[-1:]:
            wanted[int(event.body["words"])] = bytes.fromhex(event.body["words_link"])
            erased |= set(event.body["erased_words"])
    except (KeyError, ValueError, TypeError):
        raise Altered(None, "an event about words cannot be read") from None
    link, count = GENESIS, 0
    for number, column, code, value, salt, commitment, stored in reader.words():
        problem = f"word {number} of {column or 'the output'!r} is not as it was written"
        if number != count or not isinstance(column, str) or not isinstance(code, int):
            raise Altered(None, problem)
        if value is None or salt is None:
            if number not in erased:
                raise Altered(None, problem)
        elif len(salt) != SALT or word_commitment(salt, value) != commitment:
            raise Altered(None, problem)
        link = word_link(link, number, column, code, commitment)
        count += 1
        if link != stored or wanted.get(count, link) != link:
            raise Altered(None, problem)
    if count != max(wanted):
        raise Altered(None, f"there are {count} words, and there should be {max(wanted)}")


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
