"""Format 1: walk from row to row, and compare everything with its hashes.

Cost: two hashes for each row, and reading it.
"""

from collections.abc import Iterator

import numpy as np

from likewise.ledger.anchors import begin_walk
from likewise.ledger.format1 import chain
from likewise.ledger.hashes import DIGEST, GENESIS, differing, event_link
from likewise.ledger.heads import Head, check_met, written_anew
from likewise.ledger.protocol import Reading
from likewise.ledger.stored import Altered, ChainEnd, Decisions, Event
from likewise.ledger.word_walk import check_words


def walk(reader: Reading, head: Head | None, values: bool = True) -> "Walk":
    return Walk(reader, head, values)


class Walk:
    """One walk along a chain, chunk by chunk."""

    def __init__(self, reader: Reading, head: Head | None, values: bool) -> None:
        self._reader = reader
        self._values = values
        self._wanted = head
        self._met = head is None
        self.first = self.rows = self.events = self.erased = 0
        self.end: ChainEnd | None = None
        self._link = GENESIS
        self._gone: set[int] = set()
        self._witnesses = 0

    def chunks(self) -> Iterator[Decisions]:
        reader = self._reader
        state = reader.state()
        self.first = self.rows = state.first
        self._gone = set(reader.erased().tolist())
        self.erased = sum(row >= self.first for row in self._gone)
        start = begin_walk(reader)
        self.events, self._link = start.events, start.link
        events = [event for event in reader.events() if event.number >= start.events]
        check_words(reader)
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
        if self.events != state.events or self._link != state.link:
            raise Altered(None, "the end of the chain is not where it should be")
        self._check_orphans()
        check_met(self._wanted, self._met, self.first, self.rows)
        self.end = ChainEnd(self.rows, self.events, self._link)

    def _check_orphans(self) -> None:
        """Whether the database has rows that no row of the chain accounts for."""
        ((decisions, witnesses),) = self._reader.all(
            "SELECT (SELECT count(*) FROM decision), (SELECT count(*) FROM witness)"
        )
        if decisions != self.rows - self.first:
            raise Altered(None, f"there are rows that are not between {self.first} and {self.rows}")
        if witnesses != self._witnesses:
            raise Altered(None, "there are witnesses of decisions that are not there")

    def _pass(self, event: Event) -> None:
        if event.number != self.events:
            raise Altered(None, f"event {self.events} is missing")
        link = event_link(
            self._link, event.number, event.at_row, event.time, event.kind, event.text
        )
        if link != event.link:
            raise Altered(None, f"event {event.number} ({event.kind!r}) is not as it was written")
        self._link = link
        self.events += 1
        self._meet(self.rows, self._link)

    def _expects(self, first: int, count: int) -> bool:
        """Whether the head that was given lies within a run of rows."""
        head = self._wanted
        return head is not None and first < head.rows < first + count

    def _meet(self, rows: int, link: bytes) -> None:
        head = self._wanted
        if head is not None and (head.rows, head.events) == (rows, self.events):
            if head.link != link:
                raise written_anew(head, f"row {rows - 1:,}")
            self._met = True

    def _check(self, chunk: Decisions) -> None:
        """Compare a chunk with its hashes; the first row that differs is named."""
        first, count, records = chunk.first, len(chunk), chunk.records
        known = records["commitment"].tobytes()
        made = chain.commitments(records["salt"], chunk.outputs, records["input"], chunk.keys)
        wrong, problem = count, ""
        for i in differing(made, known) if self._values else ():
            if not self._is_erased(chunk, i):
                wrong, problem = i, "its input, output or key is not as it was written"
                break
        links = chain.links(
            self._link, first, chunk.times, known, chunk.firsts, chunk.counts, chunk.witnesses
        )
        for i in differing(links, records["link"].tobytes())[:1]:
            if i < wrong:
                wrong, problem = i, "its time, verdict or place is not as it was written"
        kept = np.bincount(chunk.witnesses.owners, minlength=count)
        for i in np.flatnonzero(kept > np.maximum(chunk.counts, 0))[:1]:
            if i < wrong:
                wrong, problem = int(i), "it has more witnesses than it counts"
        self._witnesses += len(chunk.witnesses)
        if problem:
            raise Altered(first + wrong, f"row {first + wrong:,}: {problem}")
        for rows in range(first + 1, first + count) if self._expects(first, count) else ():
            self._meet(rows, links[(rows - first - 1) * DIGEST :][:DIGEST])
        self._link = links[-DIGEST:]
        self.rows = first + count
        self._meet(self.rows, self._link)

    def _is_erased(self, chunk: Decisions, i: int) -> bool:
        """Whether a row that does not match its commitment was erased, and says nothing now.

        Its record is overwritten after the database says that it is erased, the salt at last.
        """
        if chunk.first + i not in self._gone or not np.isnan(chunk.outputs[i]).all():
            return False
        record = chunk.records[i]
        keyless = chunk.keys is None or chunk.keys[i] is None
        return bool(keyless and (record["salt"].any() or not record["input"].any()))
