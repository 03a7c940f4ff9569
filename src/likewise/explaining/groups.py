"""Who was put at a disadvantage: violating pairs counted by protected group, in both directions.

Of a pair's two decisions one got the favourable output, or the better one; the other's group lost.
Beside the counts stand base rates, since a large group is in many pairs anyhow.

Invariant: every violating pair with two known groups and a better output is counted once; batches
counted one after the other give what one batch would.
Cost: what a batch's pairs and rows cost, whatever the length of the history.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from likewise.rules.feature import Feature
from likewise.rules.rule import Rule
from likewise.values.errors import BadRule
from likewise.values.past import Past
from likewise.values.printing import text_of
from likewise.values.verdicts import Floats, Rows, Verdicts


class _Others:
    """All groups beyond those that are counted apart."""

    def __repr__(self) -> str:
        return "all others"


OTHERS = _Others()


@dataclass(frozen=True)
class Groups:
    """Violating pairs by group."""

    column: str
    pairs: Mapping[tuple[Any, Any], int]
    """By (group that lost, group that won)."""
    decisions: Mapping[Any, int]
    """In the history, by group."""
    favourable: Mapping[Any, float]
    """The share of each group's decisions with the favourable output; for numbers the mean."""
    undecided: int
    """Pairs of which neither output is the better one, or with a group that is missing."""

    def lost(self, group: Any, to: Any) -> int:
        """How often a member of one group got less than a like member of another."""
        return self.pairs.get((group, to), 0)

    def __str__(self) -> str:
        lines = [f"violating pairs by {text_of(self.column)}"]
        lines += [
            f"  {text_of(str(loser))} got less than a like {text_of(str(winner))}: {count:,}"
            for (loser, winner), count in sorted(self.pairs.items(), key=lambda one: -one[1])
        ]
        total = max(1, sum(self.decisions.values()))
        lines += [
            f"  {text_of(str(group))}: {count / total:.1%} of all decisions, favourable"
            f" {self.favourable[group]:.4g}"
            for group, count in self.decisions.items()
        ]
        if self.undecided:
            lines.append(f"  {self.undecided:,} pairs without a better output or a known group")
        return "\n".join(lines)


def count_groups(past: Past, rows: int, verdicts: Verdicts, column: str) -> Groups:
    """The pairs of some verdicts, beside the base rates of all `rows` decisions."""
    counter = GroupCounter(past.rule, [column])
    counter.add_pairs(verdicts, past)
    counter.add_decisions(0, rows, past)
    return counter.groups()[0]


class GroupCounter:
    """Adds up batches: their pairs and, for base rates, their decisions.

    most: how many groups of a column are counted apart, the first to appear; None for all.

    A pair or decision is counted as the monitor remembers it: in the base rates only what is not
    forgotten, and a pair with a forgotten row as undecided.
    """

    def __init__(self, rule: Rule, columns: Sequence[str], most: int | None = None) -> None:
        features = rule.features or {}
        for column in columns:
            if column not in features or Feature.of(column, features[column]).kind != "protected":
                raise BadRule(f"{column!r} is not a protected column of this rule")
        check_favourable(rule)
        self._rule = rule
        self._most = most
        self._columns = {column: _Counts() for column in columns}
        self._good: list[float] = []  # by code of a label
        self._values: dict[str, Sequence[Any]] = dict.fromkeys(columns, ())  # by code of a group

    def add_pairs(self, verdicts: Verdicts, past: Past) -> None:
        """Count the violating pairs of a batch that has just been judged."""
        if verdicts.pairs == 0:
            return
        rows = np.repeat(verdicts.rows, verdicts.counts)
        others = verdicts.witnesses.rows
        mine, theirs = self._scores(rows, past), self._scores(others, past)
        for column, counts in self._columns.items():
            my_codes, self._values[column] = past.codes(column, rows)
            their_codes, _ = past.codes(column, others)
            counts.add_pairs(mine, theirs, my_codes, their_codes, self._most)

    def add_decisions(self, start: int, stop: int, past: Past) -> None:
        """Count these rows for the base rates."""
        if start == stop:
            return
        rows = np.arange(start, stop)
        scores = self._scores(rows, past)
        for column, counts in self._columns.items():
            codes, self._values[column] = past.codes(column, rows)
            counts.add_decisions(scores, codes, self._most)

    def _scores(self, rows: Rows, past: Past) -> Floats:
        """How good the outputs are: 1 or 0 for labels, a number as it is, or its opposite.

        NaN for rows that are forgotten.
        """
        if self._rule.output == "number":
            return self._sign * past.numbers(rows)
        codes, labels = past.codes("", rows)
        for label in labels[len(self._good) :]:
            self._good.append(float(label == self._rule.favourable))
        return np.append(self._good, np.nan)[codes]  # a forgotten row's code is -1

    @property
    def _sign(self) -> float:
        low = self._rule.output == "number" and self._rule.favourable == "low"
        return -1.0 if low else 1.0

    def groups(self) -> list[Groups]:
        """What has been counted, column by column."""
        return [
            counts.groups(column, self._values[column], self._sign, self._most)
            for column, counts in self._columns.items()
        ]


class _Counts:
    """What is counted of one column, by the codes of its groups."""

    def __init__(self) -> None:
        self.pairs: Counter[tuple[int, int]] = Counter()
        self.decisions: Counter[int] = Counter()
        self.sums: dict[int, float] = {}
        self.undecided = 0

    def add_pairs(
        self,
        mine: Floats,
        theirs: Floats,
        my_codes: npt.NDArray[np.int64],
        their_codes: npt.NDArray[np.int64],
        most: int | None,
    ) -> None:
        known = (mine < theirs) | (mine > theirs)  # neither is NaN
        known &= (my_codes >= 0) & (their_codes >= 0)
        self.undecided += int((~known).sum())
        lost = mine < theirs
        losers = _capped(np.where(lost, my_codes, their_codes)[known], most)
        winners = _capped(np.where(lost, their_codes, my_codes)[known], most)
        both = losers.astype(np.int64) << 32 | winners  # one number sorts faster than two
        which, counts = np.unique(both, return_counts=True)
        for one, count in zip(which.tolist(), counts.tolist(), strict=True):
            self.pairs[one >> 32, one & 0xFFFFFFFF] += count

    def add_decisions(self, scores: Floats, codes: npt.NDArray[np.int64], most: int | None) -> None:
        there = (codes >= 0) & ~np.isnan(scores)
        codes, scores = _capped(codes[there], most), scores[there]
        sums = np.bincount(codes, weights=scores)
        for code, count in enumerate(np.bincount(codes).tolist()):
            if count:
                self.decisions[code] += count
                self.sums[code] = self.sums.get(code, 0.0) + float(sums[code])

    def groups(self, column: str, values: Sequence[Any], sign: float, most: int | None) -> Groups:
        def name(code: int) -> Any:
            return OTHERS if code == most else values[code]

        present = sorted(self.decisions)
        return Groups(
            column,
            {(name(a), name(b)): count for (a, b), count in sorted(self.pairs.items())},
            {name(code): self.decisions[code] for code in present},
            {name(code): sign * self.sums[code] / self.decisions[code] for code in present},
            self.undecided,
        )


def _capped(codes: npt.NDArray[np.int64], most: int | None) -> npt.NDArray[np.int64]:
    return codes if most is None else np.minimum(codes, np.int64(most))


def check_favourable(rule: Rule) -> None:
    """Raise BadRule if a rule does not say which of two outputs is the better one."""
    if rule.output == "probabilities":
        raise BadRule("groups are counted for labels and numbers, and the output is probabilities")
    if rule.output == "number" and rule.favourable not in ("high", "low"):
        raise BadRule(f"favourable is {rule.favourable!r}; expected 'high' or 'low'")
    if rule.favourable is None:
        raise BadRule("the rule has no favourable output; say which label everyone wants")
