"""What a stream of verdicts comes to: numbers for a summary, a page, or JSON.

A `Tally` takes the verdicts of a stream, batch by batch, and makes `Findings` of them: how many
contradict an earlier decision and when, how near the nearest contradiction is, which pairs are the
clearest, which group lost, and how all this was computed.

Invariant: findings depend on the decisions, not on how they came in batches.
Cost: some thousand numbers and `worst` pairs, however long the stream; each batch, what its own
rows and pairs cost.
Not here: words (words.py) and pictures (page.py).
"""

import datetime
import math
import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from likewise import __version__
from likewise.explaining.groups import GroupCounter, Groups
from likewise.monitors.calibration import Calibration
from likewise.monitors.protocol import AnyMonitor
from likewise.reports.timeline import ByRow, ByTime, Stretch
from likewise.reports.worst import WorstPair, WorstPairs
from likewise.rules.rule import Rule
from likewise.values.errors import BadRule
from likewise.values.verdicts import Verdicts

MARGINS = 20  # bars in the histogram of margins
_GROUPS = 50  # groups of a column that are counted apart
_POINTS = 240  # of the epsilon curve
_ROUNDING = 1e-9  # a margin of 0.6000000000000001 is one of 0.6


@dataclass(frozen=True)
class Margins:
    """How near the nearest witness of each flagged decision is, as a share of epsilon."""

    identical: int
    """At distance 0."""
    counts: tuple[int, ...]
    """At a share of epsilon above i/n, up to (i+1)/n, for n equal parts."""


@dataclass(frozen=True)
class Curve:
    """The share of decisions that would be flagged at other epsilons."""

    epsilons: tuple[float, ...]
    rates: tuple[float, ...]
    chosen: float
    rate_at_chosen: float
    decisions: int
    """From which it was computed: all, or the first so many."""


@dataclass(frozen=True)
class Computed:
    """How the findings were computed, for whoever wants to do it again."""

    source: str
    fingerprint: str
    index: str
    reason: str
    storage: str
    slack: float | None
    reach: float | None
    remembered: int
    forgotten: int
    head: str | None
    """The last link of the ledger's chain, if there is a ledger."""
    seconds: float | None
    version: str
    python: str
    made: str
    """When, in UTC."""


@dataclass(frozen=True)
class Findings:
    """Everything a summary, a page or JSON needs; plain values."""

    rule: Rule
    rows: int
    first_row: int
    flagged: int
    pairs: int
    bad_rows: int
    by_row: tuple[Stretch, ...]
    by_time: tuple[Stretch, ...]
    untimed: int
    margins: Margins
    worst: tuple[WorstPair, ...]
    groups: tuple[Groups, ...]
    no_groups: str | None
    """Why nothing is counted by group, where there are protected columns."""
    curve: Curve | None
    computed: Computed

    @property
    def rate(self) -> float:
        """The share of decisions that contradict an earlier one."""
        return self.flagged / self.rows if self.rows else 0.0

    def to_dict(self) -> dict[str, Any]:
        """For JSON: numbers, text, lists and dictionaries only."""
        return {
            "rows": self.rows,
            "first_row": self.first_row,
            "flagged": self.flagged,
            "pairs": self.pairs,
            "rate": self.rate,
            "bad_rows": self.bad_rows,
            "by_row": [asdict(one) for one in self.by_row],
            "by_time": [asdict(one) for one in self.by_time],
            "untimed": self.untimed,
            "margins": {"identical": self.margins.identical, "counts": list(self.margins.counts)},
            "worst": [one.to_dict() for one in self.worst],
            "groups": [_groups_dict(one) for one in self.groups],
            "no_groups": self.no_groups,
            "curve": None if self.curve is None else asdict(self.curve),
            "computed": asdict(self.computed),
            "rule": self.rule.to_toml(),
        }


def _groups_dict(groups: Groups) -> dict[str, Any]:
    return {
        "column": groups.column,
        "pairs": [
            {"lost": str(loser), "won": str(winner), "pairs": count}
            for (loser, winner), count in groups.pairs.items()
        ],
        "groups": [
            {
                "group": str(group),
                "decisions": count,
                "favourable": groups.favourable[group],
            }
            for group, count in groups.decisions.items()
        ],
        "undecided": groups.undecided,
    }


class Tally:
    """Adds up the verdicts of a stream, batch by batch.

    monitor   the one that judges; its rule says what is near, its history what the values were.
    worst     how many of the clearest pairs are kept.
    columns   the names of coordinates, for a rule without features.

    >>> from likewise import Monitor
    >>> monitor = Monitor(Rule(metric="linf", epsilon=0.2))
    >>> tally = Tally(monitor)
    >>> tally.add(monitor.observe_many([[0.5], [0.6], [0.9]], ["yes", "no", "no"]))
    >>> found = tally.findings(source="three decisions")
    >>> found.flagged, found.pairs, found.worst[0].pair.witness.row
    (1, 1, 0)
    """

    def __init__(
        self,
        monitor: AnyMonitor,
        *,
        worst: int = 20,
        columns: Sequence[str] | None = None,
    ) -> None:
        self._monitor = monitor
        self._first_row: int | None = None
        self._flagged = 0
        self._pairs = 0
        self._by_row = ByRow()
        self._by_time = ByTime()
        self._identical = 0
        self._margins = np.zeros(MARGINS, np.int64)
        self._worst = WorstPairs(worst, columns)
        self._groups, self._no_groups = _counter(monitor.rule)

    def add(self, verdicts: Verdicts, times: Any = None) -> None:
        """Count a batch, straight after the monitor has judged it; `times` one for each."""
        if len(verdicts) == 0:
            return
        past = self._monitor.past
        violations = verdicts.violations
        if times is not None:
            self._by_time.add(times, violations)
        if self._first_row is None:
            self._first_row = verdicts.first_row
        self._by_row.add(violations)
        self._flagged += int(violations.sum())
        self._pairs += verdicts.pairs
        self._add_margins(verdicts)
        self._worst.add(verdicts, past)
        if self._groups is not None:
            self._groups.add_pairs(verdicts, past)
            first = verdicts.first_row
            self._groups.add_decisions(first, first + len(verdicts), past)

    def _add_margins(self, verdicts: Verdicts) -> None:
        if verdicts.pairs == 0:
            return
        some = verdicts.offsets[:-1][verdicts.violations]
        nearest = np.minimum.reduceat(verdicts.witnesses.input_distances, some)
        shares = nearest / self._monitor.rule.epsilon
        self._identical += int((nearest == 0).sum())
        parts = np.ceil(shares[nearest > 0] * MARGINS - _ROUNDING).astype(np.int64) - 1
        self._margins += np.bincount(parts.clip(0, MARGINS - 1), minlength=MARGINS)

    def findings(
        self,
        *,
        source: str,
        bad_rows: int = 0,
        calibration: Calibration | None = None,
        head: str | None = None,
        seconds: float | None = None,
        made: datetime.datetime | None = None,
    ) -> Findings:
        """What has been found so far.

        source       where the decisions came from, for the reader.
        bad_rows     how many could not be judged and were left out.
        calibration  of the same decisions: gives the epsilon curve.
        head         the last link of the ledger's chain.
        seconds      how long reading and judging took.
        made         when; now, unless told otherwise.
        """
        first = self._first_row or 0
        return Findings(
            rule=self._monitor.rule,
            rows=self._by_row.rows,
            first_row=first,
            flagged=self._flagged,
            pairs=self._pairs,
            bad_rows=bad_rows,
            by_row=self._by_row.stretches(first),
            by_time=self._by_time.stretches(),
            untimed=self._by_time.untimed,
            margins=Margins(self._identical, tuple(self._margins.tolist())),
            worst=self._worst.pairs(),
            groups=self._counted(),
            no_groups=self._no_groups,
            curve=None if calibration is None else curve_of(calibration, self._monitor.rule),
            computed=self._computed(source, head, seconds, made),
        )

    def _counted(self) -> tuple[Groups, ...]:
        return () if self._groups is None else tuple(self._groups.groups())

    def _computed(
        self,
        source: str,
        head: str | None,
        seconds: float | None,
        made: datetime.datetime | None,
    ) -> Computed:
        explained = self._monitor.explain()
        when = made or datetime.datetime.now(datetime.UTC)
        return Computed(
            source=source,
            fingerprint=self._monitor.rule.fingerprint,
            index=explained.shape,
            reason=explained.reason,
            storage=explained.storage,
            slack=explained.slack,
            reach=explained.reach,
            remembered=explained.remembered,
            forgotten=explained.forgotten,
            head=head,
            seconds=seconds,
            version=__version__,
            python=platform.python_version(),
            made=when.astimezone(datetime.UTC).isoformat(timespec="seconds"),
        )


def _counter(rule: Rule) -> tuple[GroupCounter | None, str | None]:
    """What counts by group, or why nothing does."""
    features = rule.features or {}
    protected = [name for name, one in features.items() if one.kind == "protected"]
    if not protected:
        return None, None
    try:
        return GroupCounter(rule, protected, _GROUPS), None
    except BadRule as error:
        return None, str(error)


def curve_of(calibration: Calibration, rule: Rule) -> Curve:
    """The rate at epsilons around the rule's own, as far as there is something to see."""
    finite = calibration.distances[np.isfinite(calibration.distances)]
    middle = float(np.median(finite)) if len(finite) else 0.0
    reach = max(2.5 * rule.epsilon, 1.2 * middle)
    reach = reach if math.isfinite(reach) else 2.5 * rule.epsilon
    steps = calibration.curve()[0]
    steps = steps[steps <= reach]
    if len(steps) > _POINTS:  # too many to draw: as good as a smooth curve
        steps = np.linspace(0.0, reach, _POINTS)
    epsilons = np.unique([0.0, *steps, rule.epsilon, reach]).tolist()
    return Curve(
        tuple(epsilons),
        tuple(calibration.rate(epsilon) for epsilon in epsilons),
        rule.epsilon,
        calibration.rate(rule.epsilon),
        len(calibration),
    )
