"""Who was put at a disadvantage: violating pairs counted by protected group, in both directions.

Of a pair's two decisions one got the favourable output, or the better one; the other's group lost.
Beside the counts stand base rates, since a large group is in many pairs anyhow.

Invariant: every violating pair with two known groups and a better output is counted once.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from likewise.errors import BadRule
from likewise.types import Verdicts

if TYPE_CHECKING:
    from likewise.monitors.tables import TableMonitor


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
        lines = [f"violating pairs by {self.column}"]
        lines += [
            f"  {loser} got less than a like {winner}: {count:,}"
            for (loser, winner), count in sorted(self.pairs.items(), key=lambda one: -one[1])
        ]
        total = max(1, sum(self.decisions.values()))
        lines += [
            f"  {group}: {count / total:.1%} of all decisions, favourable"
            f" {self.favourable[group]:.4g}"
            for group, count in self.decisions.items()
        ]
        if self.undecided:
            lines.append(f"  {self.undecided:,} pairs without a better output or a known group")
        return "\n".join(lines)


def count_groups(verdicts: Verdicts, monitor: "TableMonitor", column: str) -> Groups:
    rule, features = monitor.rule, monitor._encoder.features
    if column not in features or features[column].kind != "protected":
        raise BadRule(f"{column!r} is not a protected column of this rule")
    first, score = _scores(monitor)
    codes = monitor._kept.column(column)[first:]
    values = monitor._encoder.vocabularies[column].values
    rows = np.repeat(verdicts.rows, verdicts.counts) - first
    others = verdicts.witnesses.rows - first
    there = (rows >= 0) & (others >= 0)
    rows, others = rows[there], others[there]
    mine, theirs = score[rows], score[others]
    known = (mine != theirs) & (codes[rows] >= 0) & (codes[others] >= 0)
    losers = np.where(mine < theirs, codes[rows], codes[others])[known]
    winners = np.where(mine < theirs, codes[others], codes[rows])[known]
    which, counts = np.unique(np.stack([losers, winners]), axis=1, return_counts=True)
    present = [code for code in range(len(values)) if (codes == code).any()]
    sign = -1.0 if rule.output == "number" and rule.favourable == "low" else 1.0
    return Groups(
        column,
        {
            (values[loser], values[winner]): int(count)
            for loser, winner, count in zip(*which.tolist(), counts.tolist(), strict=True)
        },
        {values[code]: int((codes == code).sum()) for code in present},
        {values[code]: float(sign * np.nanmean(score[codes == code])) for code in present},
        int(len(there) - known.sum()),
    )


def _scores(monitor: "TableMonitor") -> tuple[int, npt.NDArray[np.float64]]:
    """How good each output is: 1 or 0 for labels, a number as it is, or its opposite.

    From which row on, and NaN for those forgotten.
    """
    rule = monitor.rule
    if rule.output == "probabilities":
        raise BadRule("groups are counted for labels and numbers, and the output is probabilities")
    first, outputs = monitor._outputs_from_first()
    if rule.output == "number":
        sign = {"high": 1.0, "low": -1.0}.get(str(rule.favourable))
        if sign is None:
            raise BadRule(f"favourable is {rule.favourable!r}; expected 'high' or 'low'")
        return first, sign * outputs[:, 0]
    if rule.favourable is None:
        raise BadRule("the rule has no favourable output; say which label everyone wants")
    known = np.isfinite(outputs[:, 0])
    codes = outputs[known, 0].astype(np.int64)
    good = np.array(
        [
            monitor._shown_output(np.array([code])) == rule.favourable
            for code in range(int(codes.max(initial=-1)) + 1)
        ],
        dtype=np.float64,
    )
    score = np.full(len(outputs), np.nan)
    score[known] = good[codes]
    return first, score
