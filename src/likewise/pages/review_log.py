"""The log of reviews by row, read from the ledger's chain, and how far reviewers agree.

`share` is how often two reviewers of the same pair agree. Kappa corrects that for chance: Cohen's
(1960) for two reviewers, Fleiss' (1971) for more, where every pair counts once, however many
reviewers it has, and chance comes from all answers together.
Invariant: the last review of each row and reviewer counts. Cost: each event is read once.
"""

import threading
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import combinations
from typing import NamedTuple

from likewise.ledger.ledger import Ledger


class ReviewerAgreement(NamedTuple):
    """Says how far reviewers agree, and how many pairs that is based on."""

    pairs: int
    """Pairs of decisions that two or more reviewers have reviewed."""
    reviewers: int
    """Reviewers of any of these pairs."""
    share: float | None
    kappa: float | None
    method: str | None
    """Cohen or Fleiss."""


def measure_reviewer_agreement(items: Iterable[Mapping[str, str]]) -> ReviewerAgreement:
    """Measure agreement on pairs, given the last disposition of every reviewer of each.

    Numbers are None where nothing can be said: no such pair, or all answers are the same.

    >>> reviews = [{"ana": "error", "bo": "error"}, {"ana": "error", "bo": "unfair"}]
    >>> measure_reviewer_agreement(reviews).share
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
    """Return the share of all two reviewers of a pair who agree."""
    answers = list(combinations(item.values(), 2))
    return sum(one == other for one, other in answers) / len(answers)


def _chance_of_two(items: list[Mapping[str, str]], people: list[str]) -> float:
    first, second = (Counter(item[name] for item in items) for name in people)
    return float(sum(first[word] * second[word] for word in first)) / len(items) ** 2


def _chance_of_all(items: list[Mapping[str, str]]) -> float:
    words = Counter(word for item in items for word in item.values())
    return float(sum(count**2 for count in words.values())) / words.total() ** 2


@dataclass(frozen=True)
class LastReview:
    """Holds the last review of a row by one reviewer."""

    event: int
    row: int
    witness: int | None
    disposition: str


@dataclass
class ReviewLog:
    """Holds the last reviews of one ledger, by row and reviewer."""

    by_row: dict[int, dict[str, LastReview]] = field(default_factory=dict)
    _next: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def catch_up(self, ledger: Ledger) -> None:
        """Read the reviews that were added since the last time."""
        with self._lock:
            for event in ledger.reader.events("review", first=self._next):
                self._next = event.number + 1
                row, witness = event.get_integer("row"), event.body.get("witness")
                reviewer = str(event.body.get("reviewer"))
                disposition = str(event.body.get("disposition"))
                reviews = dict(self.by_row.get(row, {}))  # a copy: readers see one state
                reviews.pop(reviewer, None)
                if disposition != "open":
                    reviews[reviewer] = LastReview(event.number, row, witness, disposition)
                if reviews:
                    self.by_row[row] = reviews
                else:
                    self.by_row.pop(row, None)

    def find_last(self, reviewer: str) -> LastReview | None:
        """Return the last review of a reviewer that was not undone."""
        with self._lock:
            own = [by[reviewer] for by in self.by_row.values() if reviewer in by]
        return max(own, key=lambda review: review.event, default=None)

    def find_second_look_rows(self, reviewer: str) -> list[int]:
        """Return rows that only one other reviewer has reviewed; the oldest review first."""
        with self._lock:
            single = [by for by in self.by_row.values() if len(by) == 1 and reviewer not in by]
        reviews = [review for by in single for review in by.values()]
        return [review.row for review in sorted(reviews, key=lambda review: review.event)]

    def count_by_disposition(self) -> dict[str, int]:
        """Count rows by their last disposition."""
        with self._lock:
            last = [max(by.values(), key=lambda it: it.event) for by in self.by_row.values()]
        return dict(Counter(review.disposition for review in last).most_common())

    def count_by_reviewer(self) -> dict[str, int]:
        with self._lock:
            reviewers = Counter(name for by in self.by_row.values() for name in by)
        return dict(reviewers.most_common())

    def reviewer_agreement(self) -> ReviewerAgreement:
        with self._lock:
            rows = list(self.by_row.values())
        return measure_reviewer_agreement(
            {name: review.disposition for name, review in by.items()} for by in rows
        )
