"""Copy the whole history of a ledger into a new one: decisions, verdicts, words and notes.

Row numbers stay the same: an event `dropped` at the beginning stands for rows that have left the
window, and erased rows are written as zeros and erased again.
"""

from typing import Any

import numpy as np

from likewise.ledger.anchors import digest
from likewise.ledger.entries import Entries, Word
from likewise.ledger.ledger import Ledger
from likewise.ledger.notes import LedgerNote
from likewise.ledger.source_positions import Sources
from likewise.ledger.store import Store
from likewise.ledger.stored import LASTING_KINDS, NameTable, StoredDecisions
from likewise.tables.codec import read_word

_COPIED_KINDS = ("clock", "fault", "lost")
"""Kinds of events that are copied unchanged."""


def copy_history(ledger: Ledger, store: Store) -> None:
    """Copy everything from a ledger to the store of a new one."""
    reader = ledger.reader
    if reader.layout is None:
        return
    store.set_layout(reader.layout)
    if ledger.window != "all":
        store.event("window", {"keep": ledger.window})
    if ledger.first:
        _begin_at(store, ledger.first)
    models, words, sources = reader.names("model"), _words(reader.words()), Sources(reader)
    named: set[int] = set()
    for chunk in reader.all_decisions(ledger.first, reader.state().judged, witnesses=True):
        named.update(chunk.witnesses.records["row"].tolist())
        entries = _entries(chunk, models)
        entries.words, words = words, []  # all of them come with the first chunk
        entries.places = sources.places(chunk.sources, chunk.positions)
        store.append(entries)
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


def _begin_at(store: Store, first: int) -> None:
    """Begin the new ledger at row `first`."""
    end = store.end
    lasting = {
        str(event.number): digest(event)
        for event in store.reader.events()
        if event.kind in LASTING_KINDS
    }
    body = {
        "first": first,
        "link": end.link.hex(),
        "event": end.events,
        "words": store.words,
        "words_link": store.words_link.hex(),
        "erased_words": [],
        "latest": 0,
        "kept": lasting,
    }
    store.begin_at(first, body)


def _entries(chunk: StoredDecisions, models: NameTable) -> Entries:
    """Return entries for a chunk, with zeros for erased values."""
    erased = np.isnan(chunk.outputs[:, 0])
    outputs = np.where(erased[:, None], 0.0, chunk.outputs)
    inputs = np.ascontiguousarray(chunk.records["input"])
    inputs[erased] = 0
    return Entries(
        times=chunk.times,
        inputs=inputs,
        outputs=outputs,
        keys=None if chunk.keys is None else list(chunk.keys),
        firsts=chunk.firsts,
        counts=chunk.counts,
        witnesses=chunk.witnesses,
        models=models.all_of(chunk.models),
        facts=chunk.facts,
    )


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
