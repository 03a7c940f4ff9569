"""Do reviewers agree? Over pairs that two or more of them have reviewed, each with their last word.

`share` is how often two reviewers of the same pair said the same. Kappa takes off what they would
agree on by chance: of two reviewers Cohen's (1960), of more Fleiss' (1971), here for a number of
reviewers that differs from pair to pair: the agreement of each pair counts once, and chance is from
all answers together.

Invariant: free of order. None where nothing can be said: no such pair, or all always the same.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any


@dataclass(frozen=True)
class Agreement:
    """How far reviewers agree, and what that rests on."""

    pairs: int
    """Pairs of decisions that two or more have reviewed."""
    reviewers: int
    """Who have reviewed any of these."""
    share: float | None
    kappa: float | None
    method: str | None
    """Cohen or Fleiss."""

    def to_dict(self) -> dict[str, Any]:
        return {
            "pairs": self.pairs,
            "reviewers": self.reviewers,
            "share": self.share,
            "kappa": self.kappa,
            "method": self.method,
        }


def agreement_of(items: Iterable[Mapping[str, str]]) -> Agreement:
    """Of pairs, each with what every reviewer said of it.

    >>> said = [{"ana": "error", "bo": "error"}, {"ana": "error", "bo": "unfair"}]
    >>> agreement_of(said).share
    0.5
    """
    several = [item for item in items if len(item) >= 2]
    people = {name for item in several for name in item}
    if not several:
        return Agreement(0, 0, None, None, None)
    observed = sum(map(_agreeing, several)) / len(several)
    if len(people) == 2:
        method, chance = "Cohen", _chance_of_two(several, sorted(people))
    else:
        method, chance = "Fleiss", _chance_of_all(several)
    kappa = None if chance >= 1 else (observed - chance) / (1 - chance)
    return Agreement(len(several), len(people), observed, kappa, method)


def _agreeing(item: Mapping[str, str]) -> float:
    """The share of two reviewers of this pair who said the same."""
    both = list(combinations(item.values(), 2))
    return sum(one == other for one, other in both) / len(both)


def _chance_of_two(items: list[Mapping[str, str]], people: list[str]) -> float:
    first, second = (Counter(item[name] for item in items) for name in people)
    return float(sum(first[word] * second[word] for word in first)) / len(items) ** 2


def _chance_of_all(items: list[Mapping[str, str]]) -> float:
    words = Counter(word for item in items for word in item.values())
    return float(sum(count**2 for count in words.values())) / words.total() ** 2
