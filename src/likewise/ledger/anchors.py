"""Where a walk along a chain begins: at its first event, or where the window has cut it."""

from typing import Any

from likewise.ledger.hashes import GENESIS, event_link
from likewise.ledger.protocol import FormatReader
from likewise.ledger.stored import LASTING_KINDS, Altered, ChainEnd, Event


def digest(event: Event) -> str:
    """Hash all columns of an event that stays when the chain through it is dropped."""
    columns = (event.number, event.at_row, event.time, event.kind, event.text)
    return event_link(event.link, *columns).hex()


def begin_walk(reader: FormatReader) -> ChainEnd:
    """The row, the event and the link to begin with; raise Altered if what was kept is not so."""
    events = reader.events()
    dropped = [event for event in events if event.kind == "dropped"]
    if not dropped:
        _check_kept(reader, 0, 0)
        return ChainEnd(0, 0, GENESIS)
    said = dropped[-1].body
    try:
        link, number = bytes.fromhex(said["link"]), int(said["event"])
        kept = {int(known): digested for known, digested in said["kept"].items()}
    except (KeyError, ValueError, TypeError, AttributeError):
        raise Altered(None, f"event {dropped[-1].number} cannot be read") from None
    before = [event for event in events if event.number < number]
    if {event.number: digest(event) for event in before} != kept or any(
        event.kind not in LASTING_KINDS for event in before
    ):
        raise Altered(None, f"events before number {number} are not those that were kept")
    _check_kept(reader, number, len(kept))
    return ChainEnd(dropped[-1].get_integer("first"), number, link)


def _check_kept(reader: FormatReader, number: int, many: int) -> None:
    """Raise Altered unless there are so many events before a number, none of them a run of rows."""
    query = "SELECT count(*), total(coalesce(first, stop, latest) IS NULL) FROM event"
    if reader.all(f"{query} WHERE number < ?", number) != [(many, many)]:
        raise Altered(None, f"the table 'event' has other rows before number {number} than it had")


def anchor_body(reader: Any, first: int) -> dict[str, Any]:
    """What an event must say so that the chain can be walked from row `first` on."""
    number, link = reader.format.anchor(reader, first)
    words, words_link = reader.last_word()
    return {
        "first": first,
        **reader.format.anchor_fields(reader, first),
        "link": link,
        "event": number,
        "words": words,
        "words_link": words_link.hex(),
        "erased_words": [
            word for (word,) in reader.all("SELECT number FROM word WHERE value IS NULL")
        ],
        "kept": {
            str(event.number): digest(event)
            for event in reader.events()
            if event.number < number and event.kind in LASTING_KINDS
        },
    }
