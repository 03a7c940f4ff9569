"""The whole history of a ledger, copied into a new one: decisions, verdicts, words, what was said.

Row numbers stay, so what has left the window is left out by an event `dropped` at the beginning,
and what was erased is written as zeros and erased again.
"""

from typing import Any

import numpy as np

from likewise.ledger.anchors import digest
from likewise.ledger.entries import Entries, Word
from likewise.ledger.ledger import Ledger
from likewise.ledger.notes import LedgerNote
from likewise.ledger.source_positions import Sources
from likewise.ledger.store import Store
from likewise.ledger.stored import LASTING_KINDS, StoredDecisions
from likewise.tables.codec import read_word

_COPIED_KINDS = ("clock", "fault", "lost")
"""Kinds of events that are told again as they are."""


def copy_history(ledger: Ledger, store: Store) -> None:
    """Copy everything."""
    reader = ledger.reader
    if reader.layout is None:
        return
    store.set_layout(reader.layout)
    if ledger.window != "all":
        store.event("window", {"keep": ledger.window})
    if ledger.first:
        _begin_at(store, ledger.first)
    models, fresh, sources = reader.names("model"), _words(reader.words()), Sources(reader)
    named: set[int] = set()
    for some in reader.all_decisions(ledger.first, reader.state().judged, witnesses=True):
        named.update(some.witnesses.records["row"].tolist())
        entries = _entries(some, models)
        entries.words, fresh = fresh, []
        entries.places = sources.places(some.sources, some.positions)
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
    store.tell_positions(ledger.positions)  # of rows that have left, too
    if erased or numbers:
        store.erase(erased, numbers, [since[row] for row in erased])
        store.rewrite()


def _words(words: list[Any]) -> list[Word]:
    """All words; of an erased one a stand-in, which is erased at the end."""
    return [
        (column, code, None if value is None else read_word(value))
        for _, column, code, value, *_ in words
    ]


def _begin_at(store: Store, first: int) -> None:
    """Rows before `first` never were in this ledger."""
    end = store.end
    kept = {
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
        "kept": kept,
    }
    store.begin_at(first, body)


def _entries(some: StoredDecisions, models: Any) -> Entries:
    gone = np.isnan(some.outputs[:, 0])
    outputs = np.where(gone[:, None], 0.0, some.outputs)
    inputs = np.ascontiguousarray(some.records["input"])
    inputs[gone] = 0
    return Entries(
        times=some.times,
        inputs=inputs,
        outputs=outputs,
        keys=None if some.keys is None else list(some.keys),
        firsts=some.firsts,
        counts=some.counts,
        witnesses=some.witnesses,
        models=models.all_of(some.models),
        facts=some.facts,
    )


def _copy_notes(ledger: Ledger, store: Store) -> None:
    """What people said; the words of erased rows are empty, and erased again."""
    told = [event for event in ledger.events() if event.kind in ("review", "superseded", "truth")]
    texts = dict(ledger.reader.all("SELECT event, text FROM note")) if told else {}
    for event in told:
        body = {name: value for name, value in event.body.items() if name != "note"}
        other = body.get("by_row" if event.kind == "superseded" else "witness")
        review = body.get("disposition") if event.kind == "review" else None
        text = texts.get(event.number) or ""
        store.note(LedgerNote(event.kind, body, text, event.get_integer("row"), other, review))
