"""Find where a walk along a chain begins: at its first event, or where the window has cut it."""

from typing import Any

from likewise.ledger.hashes import GENESIS, event_link
from likewise.ledger.protocol import FormatReader
from likewise.ledger.stored import LASTING_KINDS, Altered, ChainEnd, Event


def digest(event: Event) -> str:
    """Return a hash of all columns of an event that stays when the chain around it is dropped."""
    columns = (event.number, event.at_row, event.time, event.kind, event.text)
    return event_link(event.link, *columns).hex()


def begin_walk(reader: FormatReader) -> ChainEnd:
    """Return the row, event and link to begin with; raise Altered if lasting events changed."""
    events = reader.events()
    dropped = [event for event in events if event.kind == "dropped"]
    if not dropped:
        _check_lasting(reader, 0, 0)
        return ChainEnd(0, 0, GENESIS)
    body = dropped[-1].body
    try:
        link, number = bytes.fromhex(body["link"]), int(body["event"])
        lasting = {int(key): value for key, value in body["kept"].items()}
    except (KeyError, ValueError, TypeError, AttributeError):
        raise Altered(None, f"event {dropped[-1].number} cannot be read") from None
    before = [event for event in events if event.number < number]
    if {event.number: digest(event) for event in before} != lasting or any(
        event.kind not in LASTING_KINDS for event in before
    ):
        raise Altered(None, f"events before number {number} are not those that should have stayed")
    _check_lasting(reader, number, len(lasting))
    return ChainEnd(dropped[-1].get_integer("first"), number, link)


def _check_lasting(reader: FormatReader, number: int, count: int) -> None:
    """Raise Altered unless there are so many events before a number, none of them a run of rows."""
    query = "SELECT count(*), total(coalesce(first, stop, latest) IS NULL) FROM event"
    if reader.all(f"{query} WHERE number < ?", number) != [(count, count)]:
        raise Altered(None, f"the table 'event' has other rows before number {number} than it had")


def anchor_body(reader: Any, first: int) -> dict[str, Any]:
    """Return what an event must say so that the chain can be walked from row `first` on."""
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
