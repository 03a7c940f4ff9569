"""What reviewers said, by row: read from the chain once, and then what has come since.

Invariant: of each row and reviewer the last word; an undone review is none.
Cost: a read of each review's event once; a few words for each row and reviewer.
"""

import threading
from collections import Counter
from dataclasses import dataclass, field

from likewise.ledger.ledger import Ledger
from likewise.pages.agreement import Agreement, agreement_of


@dataclass(frozen=True)
class Word:
    """The last word of a reviewer on a row."""

    event: int
    row: int
    witness: int | None
    disposition: str


@dataclass
class ReviewLog:
    """The reviews of one ledger."""

    by_row: dict[int, dict[str, Word]] = field(default_factory=dict)
    _next: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def catch_up(self, ledger: Ledger) -> None:
        """Read what was said since."""
        with self._lock:
            for event in ledger.reader.events("review", first=self._next):
                self._next = event.number + 1
                row, witness = event.whole("row"), event.body.get("witness")
                reviewer = str(event.body.get("reviewer"))
                disposition = str(event.body.get("disposition"))
                said = dict(self.by_row.get(row, {}))
                said.pop(reviewer, None)
                if disposition != "open":
                    said[reviewer] = Word(event.number, row, witness, disposition)
                if said:
                    self.by_row[row] = said  # a new one: whoever reads has one state
                else:
                    self.by_row.pop(row, None)

    def last_of(self, reviewer: str) -> Word | None:
        """What somebody said last, and has not undone."""
        with self._lock:
            mine = [said[reviewer] for said in self.by_row.values() if reviewer in said]
        return max(mine, key=lambda word: word.event, default=None)

    def for_a_second_look(self, reviewer: str) -> list[int]:
        """Rows that one other reviewer has reviewed, and nobody else; the oldest review first."""
        with self._lock:
            words = [
                next(iter(said.values()))
                for said in self.by_row.values()
                if len(said) == 1 and reviewer not in said
            ]
        return [word.row for word in sorted(words, key=lambda word: word.event)]

    def by_disposition(self) -> dict[str, int]:
        """How many rows have which last word."""
        with self._lock:
            last = [max(said.values(), key=lambda w: w.event) for said in self.by_row.values()]
        return dict(Counter(word.disposition for word in last).most_common())

    def by_reviewer(self) -> dict[str, int]:
        with self._lock:
            return dict(
                Counter(name for said in self.by_row.values() for name in said).most_common()
            )

    def agreement(self) -> Agreement:
        with self._lock:
            rows = list(self.by_row.values())
        return agreement_of(
            {name: word.disposition for name, word in said.items()} for said in rows
        )
