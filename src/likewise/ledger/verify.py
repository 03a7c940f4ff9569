"""Walk a ledger's chain and compare everything in it with its hashes.

Invariant: whatever was changed after it was written is found, unless every link from there to the
head was made anew; against that, keep a head elsewhere (`Head`) and compare.
Cost: two hashes for each row, and reading it; some 500,000 rows a second.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from likewise.ledger import chain
from likewise.ledger.folder import LockMark, mark_of
from likewise.ledger.reader import (
    KEPT,
    TAKING,
    Altered,
    Decisions,
    Event,
    LedgerReader,
    digest,
)
from likewise.values.errors import BadFile, CannotLook


@dataclass(frozen=True)
class Head:
    """The end of a chain at some moment, to be kept where the ledger's owner cannot reach it.

    >>> Head.of("likewise-head 1 2 3 " + 64 * "0").rows
    2
    """

    rows: int
    events: int
    link: bytes

    def __str__(self) -> str:
        return f"likewise-head 1 {self.rows} {self.events} {self.link.hex()}"

    @classmethod
    def of(cls, text: str) -> "Head":
        try:
            name, version, rows, events, link = text.split()
            head = cls(int(rows), int(events), bytes.fromhex(link))
        except ValueError:
            name = version = ""
        if (name, version) != ("likewise-head", "1") or len(head.link) != chain.DIGEST:
            raise BadFile(f"{text!r} is no head; expected 'likewise-head 1 ROWS EVENTS HASH'")
        return head


@dataclass(frozen=True)
class Verification:
    """What a walk found."""

    first: int
    """The first row that is still there."""
    rows: int
    erased: int
    events: int
    head: Head | None
    """The end of the chain; None if the walk did not come that far."""
    bad_row: int | None = None
    """The first row that is not as it was written; None also if it is no row that is wrong."""
    problem: str | None = None

    @property
    def ok(self) -> bool:
        return self.problem is None

    def __str__(self) -> str:
        if not self.ok:
            return f"not verified: {self.problem}"
        erased = f", {self.erased:,} of them erased" if self.erased else ""
        since = f" since row {self.first:,}" if self.first else ""
        return (
            f"intact: {self.rows - self.first:,} decisions{since}{erased}, {self.events:,} events;"
            f" {self.head}"
        )


def verify(reader: LedgerReader, head: Head | None = None) -> Verification:
    """Walk the whole chain; where a head is given, it must be on it.

    CannotLook if the system does not let us see the files: that is no answer.

    A writer may go on meanwhile. The database is read as it is at one moment, but records are
    overwritten by erasure and deleted when they leave the window; so if something seems wrong and
    such a thing has happened since, look again.
    """
    while True:
        mark = mark_of(reader.path)
        with reader.snapshot():
            found = _verify(reader, head, mark)
            taken = _taken(reader)
        if found.ok or taken is None or taken == _taken(reader):
            return found


def _taken(reader: LedgerReader) -> int | None:
    """The last event that took rows away; None if that cannot be read."""
    try:
        return max((event.number for event in reader.events() if event.kind in TAKING), default=-1)
    except CannotLook:
        raise
    except BadFile:
        return None


def blame_alteration(reader: LedgerReader, error: BaseException) -> None:
    """Where something failed because the ledger was altered, raise Altered.

    What is read out of an altered ledger may be refused as anything, such as a bad rule.
    """
    if isinstance(error, Exception) and not isinstance(error, BadFile):
        found = verify(reader)
        if found.problem is not None:
            raise Altered(found.bad_row, found.problem) from None


def _verify(reader: LedgerReader, head: Head | None, mark: LockMark | None) -> Verification:
    walk = Walk(reader, head)
    try:
        with reader.structure_checked():
            reader.check_schema()
            if mark is not None:
                mark.check(reader.path, reader.state().mark)
            for _ in walk.chunks():
                pass
    except CannotLook:
        raise  # which says nothing about the ledger
    except Altered as error:
        return walk.outcome(error.row, error.problem)
    except BadFile as error:
        return walk.outcome(None, str(error))
    return walk.outcome()


class Walk:
    """One walk along a chain, chunk by chunk."""

    def __init__(self, reader: LedgerReader, head: Head | None = None) -> None:
        self._reader = reader
        self._wanted = head
        self.first = self.rows = 0
        self._link = chain.GENESIS
        self._events = 0
        self._erased: set[int] = set()
        self._witnesses = 0
        self._complete = False
        self._met = head is None

    def outcome(self, bad_row: int | None = None, problem: str | None = None) -> Verification:
        head = Head(self.rows, self._events, self._link) if self._complete else None
        erased = sum(row >= self.first for row in self._erased)
        return Verification(self.first, self.rows, erased, self._events, head, bad_row, problem)

    def chunks(self) -> Iterator[Decisions]:
        """The rows of the ledger, each chunk checked before it is given; raise Altered."""
        reader = self._reader
        events = reader.events()
        state = reader.state()
        self.first = self.rows = state.first
        self._erased = set(reader.erased().tolist())
        events = self._begin(events)
        self._check_words(reader, [event for event in events if event.kind == "words"])
        place = 0
        self._meet(self.rows, self._link)
        while self.rows < state.rows or place < len(events):
            if place < len(events) and events[place].at_row == self.rows:
                self._pass(events[place])
                place += 1
                continue
            stop = state.rows if place == len(events) else min(state.rows, events[place].at_row)
            if stop <= self.rows:
                raise Altered(None, f"event {events[place].number} stands at the wrong row")
            for chunk in reader.all_decisions(self.rows, stop, witnesses=True):
                self._check(chunk)
                yield chunk
        if self._events != state.events or self._link != state.link:
            raise Altered(None, "the end of the chain is not where it should be")
        self._check_orphans()
        head = self._wanted
        if not self._met and head is not None and head.rows < self.first:
            raise Altered(
                None,
                f"the head given ({head}) is from before row {self.first:,}, the first that the"
                " window has kept, so whether it was on the chain can no longer be told",
            )
        if not self._met:
            raise Altered(
                None,
                f"the head given ({self._wanted}) is not on this chain, which has"
                f" {self.rows:,} rows: it was cut, or written anew",
            )
        self._complete = True

    def _check_orphans(self) -> None:
        """Whether the database has rows that no row of the chain accounts for."""
        decisions, witnesses = self._reader.counts()
        if decisions != self.rows - self.first:
            raise Altered(None, f"there are rows that are not between {self.first} and {self.rows}")
        if witnesses != self._witnesses:
            raise Altered(None, "there are witnesses of decisions that are not there")

    def _begin(self, events: list[Event]) -> list[Event]:
        """The events to be walked over; with rows dropped, start from what is said of them."""
        dropped = [event for event in events if event.kind == "dropped"]
        if not dropped:
            return events
        anchor = dropped[-1].body
        try:
            self._link = bytes.fromhex(anchor["link"])
            self._events = int(anchor["event"])
            kept = {int(number): known for number, known in anchor["kept"].items()}
        except (KeyError, ValueError, TypeError, AttributeError):
            raise Altered(None, f"event {dropped[-1].number} cannot be read") from None
        before = {one.number: digest(one) for one in events if one.number < self._events}
        if before != kept or any(
            one.kind not in KEPT for one in events if one.number < self._events
        ):
            raise Altered(None, f"events before number {self._events} are not those that were kept")
        return [event for event in events if event.number >= self._events]

    def _pass(self, event: Event) -> None:
        if event.number != self._events:
            raise Altered(None, f"event {self._events} is missing")
        link = chain.event_link(
            self._link, event.number, event.at_row, event.time, event.kind, event.text
        )
        if link != event.link:
            raise Altered(None, f"event {event.number} ({event.kind!r}) is not as it was written")
        self._link = link
        self._events += 1
        self._meet(self.rows, self._link)

    def _expects(self, first: int, count: int) -> bool:
        """Whether the head that was given lies within a run of rows."""
        head = self._wanted
        return head is not None and first < head.rows < first + count

    def _meet(self, rows: int, link: bytes) -> None:
        head = self._wanted
        if head is not None and (head.rows, head.events) == (rows, self._events):
            if head.link != link:
                raise Altered(
                    None,
                    f"after row {rows - 1:,} the chain is not the one that the head given"
                    f" ({head}) belongs to: it was written anew",
                )
            self._met = True

    def _check(self, chunk: Decisions) -> None:
        """Compare a chunk with its hashes; the first row that differs is named."""
        first, count, records = chunk.first, len(chunk), chunk.records
        known = records["commitment"].tobytes()
        made = chain.commitments(records["salt"], chunk.outputs, records["input"], chunk.keys)
        wrong, problem = count, ""
        for i in _differing(made, known):
            if not self._is_erased(chunk, i):
                wrong, problem = i, "its input, output or key is not as it was written"
                break
        links = chain.links(
            self._link, first, chunk.times, known, chunk.firsts, chunk.counts, chunk.witnesses
        )
        for i in _differing(links, records["link"].tobytes())[:1]:
            if i < wrong:
                wrong, problem = i, "its time, verdict or place is not as it was written"
        kept = np.bincount(chunk.witnesses.owners, minlength=count).astype(np.uint64)
        for i in np.flatnonzero(
            (kept > chunk.counts) | ((kept > 0) & (chunk.counts == chain.NOT_JUDGED))
        )[:1]:
            if i < wrong:
                wrong, problem = int(i), "it has more witnesses than it counts"
        self._witnesses += len(chunk.witnesses)
        if problem:
            raise Altered(first + wrong, f"row {first + wrong:,}: {problem}")
        for rows in range(first + 1, first + count) if self._expects(first, count) else ():
            self._meet(rows, links[(rows - first - 1) * chain.DIGEST :][: chain.DIGEST])
        self._link = links[-chain.DIGEST :]
        self.rows = first + count
        self._meet(self.rows, self._link)

    def _is_erased(self, chunk: Decisions, i: int) -> bool:
        """Whether a row that does not match its commitment was erased, and says nothing now.

        Its record is overwritten after the database says that it is erased, the salt at last.
        """
        if chunk.first + i not in self._erased or not np.isnan(chunk.outputs[i]).all():
            return False
        record = chunk.records[i]
        keyless = chunk.keys is None or chunk.keys[i] is None
        return bool(keyless and (record["salt"].any() or not record["input"].any()))

    def _check_words(self, reader: LedgerReader, said: list[Event]) -> None:
        """Words have a chain of their own, and events say how far it had come."""
        wanted = {0: chain.GENESIS}
        erased = {word for event in reader.events("erased") for word in event.listed("words")}
        try:
            for event in said:
                wanted[int(event.body["words"])] = bytes.fromhex(event.body["link"])
            for event in reader.events("dropped")[-1:]:
                wanted[int(event.body["words"])] = bytes.fromhex(event.body["words_link"])
                erased |= set(event.body["erased_words"])
        except (KeyError, ValueError, TypeError):
            raise Altered(None, "an event about words cannot be read") from None
        link, count = chain.GENESIS, 0
        for number, column, code, value, salt, commitment, stored in reader.words():
            problem = f"word {number} of {column or 'the output'!r} is not as it was written"
            if number != count or not isinstance(column, str) or not isinstance(code, int):
                raise Altered(None, problem)
            if value is None or salt is None:
                if number not in erased:
                    raise Altered(None, problem)
            elif chain.word_commitment(salt, value) != commitment:
                raise Altered(None, problem)
            link = chain.word_link(link, number, column, code, commitment)
            count += 1
            if link != stored or wanted.get(count, link) != link:
                raise Altered(None, problem)
        if count != max(wanted):
            raise Altered(None, f"there are {count} words, and there should be {max(wanted)}")


def _differing(made: bytes, known: bytes) -> list[int]:
    """Which of two runs of hashes differ."""
    if made == known:
        return []
    differ = (chain.digests(made) != chain.digests(known)).any(axis=1)
    return [int(i) for i in np.flatnonzero(differ)]
