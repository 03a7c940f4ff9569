"""What reviewers said, by row: read from the chain once, and then what has come since.

Do reviewers agree? `share` is how often two reviewers of the same pair said the same. Kappa takes
off what they would agree on by chance: of two reviewers Cohen's (1960), of more Fleiss' (1971),
here for a number of reviewers that differs from pair to pair: the agreement of each pair counts
once, and chance is from all answers together.

Invariant: of each row and reviewer the last word; an undone review is none.
Cost: a read of each review's event once; a few words for each row and reviewer.
"""

import threading
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import combinations
from typing import NamedTuple

from likewise.ledger.ledger import Ledger


class ReviewerAgreement(NamedTuple):
    """How far reviewers agree, and what that rests on."""

    pairs: int
    """Pairs of decisions that two or more have reviewed."""
    reviewers: int
    """Who have reviewed any of these."""
    share: float | None
    kappa: float | None
    method: str | None
    """Cohen or Fleiss."""


def measure_reviewer_agreement(items: Iterable[Mapping[str, str]]) -> ReviewerAgreement:
    """Of pairs, each with the last word of every reviewer; free of their order.

    None where nothing can be said: no such pair, or all always the same.

    >>> said = [{"ana": "error", "bo": "error"}, {"ana": "error", "bo": "unfair"}]
    >>> measure_reviewer_agreement(said).share
    0.5
    """
    several = [item for item in items if len(item) >= 2]
    people = {name for item in several for name in item}
    if not several:
        return ReviewerAgreement(0, 0, None, None, None)
    observed = sum(map(_measure_share, several)) / len(several)
    if len(people) == 2:
        method, chance = "Cohen", _chance_of_two(several, sorted(people))
    else:
        method, chance = "Fleiss", _chance_of_all(several)
    kappa = None if chance >= 1 else (observed - chance) / (1 - chance)
    return ReviewerAgreement(len(several), len(people), observed, kappa, method)


def _measure_share(item: Mapping[str, str]) -> float:
    """The share of two reviewers of this pair who said the same."""
    both = list(combinations(item.values(), 2))
    return sum(one == other for one, other in both) / len(both)


def _chance_of_two(items: list[Mapping[str, str]], people: list[str]) -> float:
    first, second = (Counter(item[name] for item in items) for name in people)
    return float(sum(first[word] * second[word] for word in first)) / len(items) ** 2


def _chance_of_all(items: list[Mapping[str, str]]) -> float:
    words = Counter(word for item in items for word in item.values())
    return float(sum(count**2 for count in words.values())) / words.total() ** 2


@dataclass(frozen=True)
class LastReview:
    """The last word of a reviewer on a row."""

    event: int
    row: int
    witness: int | None
    disposition: str


@dataclass
class ReviewLog:
    """The reviews of one ledger."""

    by_row: dict[int, dict[str, LastReview]] = field(default_factory=dict)
    _next: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def catch_up(self, ledger: Ledger) -> None:
        """Read what was said since."""
        with self._lock:
            for event in ledger.reader.events("review", first=self._next):
                self._next = event.number + 1
                row, witness = event.get_integer("row"), event.body.get("witness")
                reviewer = str(event.body.get("reviewer"))
                disposition = str(event.body.get("disposition"))
                said = dict(self.by_row.get(row, {}))
                said.pop(reviewer, None)
                if disposition != "open":
                    said[reviewer] = LastReview(event.number, row, witness, disposition)
                if said:
                    self.by_row[row] = said  # a new one: whoever reads has one state
                else:
                    self.by_row.pop(row, None)

    def find_last(self, reviewer: str) -> LastReview | None:
        """What somebody said last, and has not undone."""
        with self._lock:
            mine = [said[reviewer] for said in self.by_row.values() if reviewer in said]
        return max(mine, key=lambda word: word.event, default=None)

    def find_second_look_rows(self, reviewer: str) -> list[int]:
        """Rows that one other reviewer has reviewed, and nobody else; the oldest review first."""
        with self._lock:
            words = [
                next(iter(said.values()))
                for said in self.by_row.values()
                if len(said) == 1 and reviewer not in said
            ]
        return [word.row for word in sorted(words, key=lambda word: word.event)]

    def count_by_disposition(self) -> dict[str, int]:
        """How many rows have which last word."""
        with self._lock:
            last = [max(said.values(), key=lambda w: w.event) for said in self.by_row.values()]
        return dict(Counter(word.disposition for word in last).most_common())

    def count_by_reviewer(self) -> dict[str, int]:
        with self._lock:
            return dict(
                Counter(name for said in self.by_row.values() for name in said).most_common()
            )

    def reviewer_agreement(self) -> ReviewerAgreement:
        with self._lock:
            rows = list(self.by_row.values())
        return measure_reviewer_agreement(
            {name: word.disposition for name, word in said.items()} for said in rows
        )
