"""Findings: what a stream of verdicts adds up to, as numbers for a summary, a page, or JSON.

A `Tally` takes the verdicts of a stream, batch by batch, and makes `Findings` of them.

Invariant: findings depend on the decisions, not on how they came in batches.
Cost: some thousand numbers and `worst` pairs, however long the stream, and a bit for each decision.
Not here: adding up (totals.py), words (finding_words.py), pictures (charts.py), how it was
computed (evidence.py).
"""

import datetime
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from likewise.explaining.agreement import Agreement, measure_agreement
from likewise.explaining.compare_groups import compare_groups, protected_columns, why_no_groups
from likewise.explaining.past import Past
from likewise.monitor.calibration import Calibration
from likewise.monitor.protocol import AnyMonitor
from likewise.monitor.sensitivity import SensitivityTable
from likewise.reports.evidence import Evidence, Provenance, build_provenance
from likewise.reports.not_shown import Caveat, RepeatedRows, find_repeated, list_caveats
from likewise.reports.selected_pairs import WorstPair, WorstPairs
from likewise.reports.timeline import Stretch
from likewise.reports.totals import Margins, Totals, Words
from likewise.rule.rule import Rule
from likewise.verdict.group_effects import GroupEffects
from likewise.verdict.model_counts import ComparablesByModel, ModelCounts
from likewise.verdict.verdicts import Verdicts

_POINTS = 240  # of the epsilon curve


@dataclass(frozen=True)
class Curve:
    """Holds the share of decisions that would be flagged at other epsilons."""

    epsilons: tuple[float, ...]
    rates: tuple[float, ...]
    chosen: float
    rate_at_chosen: float
    decisions: int
    """How many decisions it was computed from: all, or the first of them."""
    comparable: tuple[float, ...] | None = None
    """The share of decisions that would have an earlier similar case, at each epsilon."""
    comparable_at_chosen: float | None = None


@dataclass(frozen=True)
class Loosening:
    """Says what would have to change for decisions to be compared, where none could be."""

    decisions: int
    """How many decisions it was computed from."""
    columns: tuple[tuple[str, int], ...]
    """Columns, and how many decisions would be comparable if that one alone were left out."""
    epsilons: tuple[tuple[float, float], ...]
    """Epsilons, and the share of decisions that would be comparable with each."""


@dataclass(frozen=True)
class Findings:
    """Holds everything a summary, a page or JSON needs, as plain values."""

    rule: Rule
    rows: int
    first_row: int
    violations: int
    """Decisions that contradict an earlier one about a similar case."""
    with_earlier: int | None
    """Decisions that had an earlier similar case at all, whatever its output; None: not counted."""
    in_any_pair: int
    """Decisions in at least one contradicting pair, as the later or the earlier: the same in any
    order."""
    pairs: int
    bad_rows: int
    by_row: tuple[Stretch, ...]
    by_time: tuple[Stretch, ...]
    without_time: int
    margins: Margins
    worst: tuple[WorstPair, ...]
    groups: tuple[GroupEffects, ...]
    no_groups_reason: str | None
    """Why nothing is counted by group although there are protected columns."""
    curve: Curve | None
    computed: Provenance
    loosening: Loosening | None = None
    """Only where nothing could be compared."""
    varied: SensitivityTable | None = None
    """The counts that the rule gives with each line of it changed."""
    by_model: tuple[ModelCounts, ...] = ()
    """Only where it is known which model decided."""
    missing_decisions: int = 0
    """Decisions that are known to be missing from the history."""
    agreement: Agreement | None = None
    """How well similar cases agree, beside random dealing; None where it was not computed."""
    repeated: RepeatedRows | None = None
    """Rows that may be about the same person, where no person column is declared."""

    @property
    def not_shown(self) -> tuple[Caveat, ...]:
        """What these findings do not show."""
        differing = [
            one.column for one in self.groups if any(two.is_supported for two in one.comparisons)
        ]
        return list_caveats(
            self.rule, self.rows, self.agreement, self.computed.order, self.repeated, differing
        )

    @property
    def hubs(self) -> int | None:
        """The fewest decisions that together are in half of all disagreeing pairs."""
        return None if self.agreement is None else self.agreement.hubs

    @property
    def rate(self) -> float:
        """The share of all decisions that contradict an earlier one."""
        return self.violations / self.rows if self.rows else 0.0

    @property
    def rate_among_comparable(self) -> float | None:
        """The share that contradict, of those that could be compared; None where none could."""
        return self.violations / self.with_earlier if self.with_earlier else None

    @property
    def rate_in_any_pair(self) -> float:
        """The share of all decisions that are in at least one contradicting pair."""
        return self.in_any_pair / self.rows if self.rows else 0.0

    @property
    def nothing_compared(self) -> bool:
        """Whether there were decisions, and not one had an earlier similar case."""
        return self.rows > 0 and self.with_earlier == 0

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON: numbers, text, lists and dictionaries only."""
        rates = ("rate", "rate_among_comparable", "rate_in_any_pair")
        return {
            **vars(self),  # numbers and text; what follows replaces the rest
            **{name: getattr(self, name) for name in rates},
            "by_row": [asdict(one) for one in self.by_row],
            "by_time": [asdict(one) for one in self.by_time],
            "margins": {"identical": self.margins.identical, "counts": list(self.margins.counts)},
            "worst": [one.to_dict() for one in self.worst],
            "by_model": [one.to_dict() for one in self.by_model],
            "groups": [one.to_dict() for one in self.groups],
            "agreement": self.agreement and self.agreement.to_dict(),
            "hubs": self.agreement and self.agreement.hubs_to_dict(),
            "curve": self.curve and asdict(self.curve),
            "loosening": self.loosening and asdict(self.loosening),
            "varied": self.varied and self.varied.to_dict(),
            "computed": asdict(self.computed),
            "rule": self.rule.to_toml(),
            "repeated": self.repeated and asdict(self.repeated),
            "not_shown": [one._asdict() for one in self.not_shown],
        }


class Tally:
    """Adds up the verdicts of a stream, batch by batch.

    monitor   the monitor that judges; its rule says what is near, its history has the values.
    worst     how many pairs to look at are chosen at most.
    columns   the names of coordinates, for a rule without features.

    >>> from likewise import Monitor
    >>> monitor = Monitor(Rule(metric="linf", epsilon=0.2))
    >>> tally = Tally(monitor)
    >>> tally.add(monitor.observe_many([[0.5], [0.6], [0.9]], ["yes", "no", "no"]))
    >>> found = tally.findings(source="three decisions")
    >>> found.violations, found.pairs, found.worst[0].pair.witness.row
    (1, 1, 0)
    """

    def __init__(
        self, monitor: AnyMonitor, *, worst: int = 20, columns: Sequence[str] | None = None
    ) -> None:
        self._monitor = monitor
        self._totals = Totals(monitor.rule.epsilon)
        self._worst = WorstPairs(worst, columns)

    def add(self, verdicts: Verdicts, times: Any = None) -> None:
        """Count a batch right after the monitor has judged it; `times`: one for each decision."""
        self._totals.add(verdicts, times)
        self._worst.add(verdicts, self._monitor.past)

    def findings(
        self,
        *,
        source: str | Evidence,
        bad_rows: int = 0,
        made: datetime.datetime | None = None,
        births: Mapping[str, Words] | None = None,
    ) -> Findings:
        """Return what has been found so far.

        source    where the decisions came from, for the reader; or all that is known of it.
        bad_rows  how many rows could not be judged and were left out.
        made      when the findings were made; now by default.
        births    numbers for the values of columns with birth dates (`find_repeated`).
        """
        evidence = source if isinstance(source, Evidence) else Evidence(source)
        past, totals = self._monitor.past, self._totals
        first = totals.first_row or 0
        rows = range(first, first + totals.by_row.rows)
        findings = findings_of(
            totals,
            past.rule,
            self._worst.pairs(),
            build_provenance(evidence, past.rule, self._monitor.explain(), made),
            groups=groups_among(past, rows),
            agreement=measure_agreement(past, rows),
            comparables=None if totals.comparable is None else comparables_by_model(past, rows),
            repeated=find_repeated(past, rows, births),
            bad_rows=bad_rows,
        )
        return replace(findings, missing_decisions=self._monitor.missing_decisions)


def findings_of(
    totals: Totals,
    rule: Rule,
    worst: tuple[WorstPair, ...],
    provenance: Provenance,
    *,
    groups: tuple[GroupEffects, ...] = (),
    agreement: Agreement | None = None,
    comparables: ComparablesByModel | None = None,
    repeated: RepeatedRows | None = None,
    bad_rows: int = 0,
) -> Findings:
    """Make findings of totals, with all that is known beside them; see `Tally.findings`.

    worst        the pairs to look at
    groups       of each protected column
    agreement    of similar cases
    comparables  by model, how many decisions have a similar case within and across models
    repeated     rows that may be about the same person
    """
    first = totals.first_row or 0
    return Findings(
        rule=rule,
        rows=totals.by_row.rows,
        first_row=first,
        violations=totals.flagged,
        with_earlier=totals.comparable,
        in_any_pair=totals.in_pairs.count,
        pairs=totals.pairs,
        bad_rows=bad_rows,
        by_row=totals.by_row.stretches(first),
        by_time=totals.by_time.stretches(),
        without_time=totals.by_time.untimed,
        margins=totals.margins,
        worst=worst,
        groups=groups,
        no_groups_reason=why_no_groups(rule),
        curve=None,
        computed=provenance,
        by_model=totals.models.counts(rule.compare, comparables),
        agreement=agreement,
        repeated=repeated,
    )


def groups_among(past: Past, rows: range) -> tuple[GroupEffects, ...]:
    """Compare groups by protected column: one pass over similar pairs, whatever their outputs."""
    if why_no_groups(past.rule) is not None or not protected_columns(past.rule):
        return ()
    return compare_groups(past, rows)


def comparables_by_model(past: Past, rows: range) -> ComparablesByModel | None:
    """Count by model who had a similar case within and across models: one pass over similar pairs.

    None where that is not known.
    """
    codes = past.model_codes(rows)
    if codes is None or past.rule.compare != "all":
        return None
    comparable = past.like_models(rows)
    if comparable is None:
        return None
    within, across = (np.bincount(codes.codes, one).astype(np.int64) for one in comparable)
    return {
        codes.values[code]: (int(within[code]), int(across[code]))
        for code in np.unique(codes.codes).tolist()
    }


def curve_of(calibration: Calibration, rule: Rule, like_cases: Calibration | None = None) -> Curve:
    """Return the rate at epsilons around the rule's own, as far as there is something to see."""
    finite = calibration.distances[np.isfinite(calibration.distances)]
    middle = float(np.median(finite)) if len(finite) else 0.0
    reach = max(2.5 * rule.epsilon, 1.2 * middle)
    reach = reach if math.isfinite(reach) else 2.5 * rule.epsilon
    steps = calibration.curve()[0]
    if like_cases is not None:
        steps = np.union1d(steps, like_cases.curve()[0])
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
        None if like_cases is None else tuple(like_cases.rate(one) for one in epsilons),
        None if like_cases is None else like_cases.rate(rule.epsilon),
    )
