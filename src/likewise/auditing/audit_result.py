"""What `lw.audit` and `likewise audit` return: everything an audit found, as one object.

Invariant: `to_dict` is what `likewise audit --json` prints.
Cost: pairs, curves and pages are made when they are first asked for.
"""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl

from likewise.auditing.feeding import NamedSource, RefusedRows
from likewise.auditing.kept_rows import KeptRows, stack_frames
from likewise.auditing.limits import AuditLimits
from likewise.auditing.pair_files import PairFrames
from likewise.errors import BadRule
from likewise.explaining.agreement import Agreement
from likewise.explaining.past import Past
from likewise.reports.document import save_result
from likewise.reports.finding_words import describe_findings
from likewise.reports.findings import Curve, Findings
from likewise.reports.report_page import render_page
from likewise.rule.burst import Burst
from likewise.sources.remarks import Remark
from likewise.tables.new_frames import make_frame
from likewise.verdict.group_effects import GroupEffects
from likewise.verdict.html import render_in_notebook
from likewise.verdict.verdicts import Verdicts

MOST_PAIRS = 20_000_000
"""How many pairs are kept for `Audit.pairs`: about half a gigabyte."""


class AlarmTally:
    """Counts the decisions of a stream that raised an alarm, and keeps the most neighbours."""

    def __init__(self, burst: Burst) -> None:
        self._burst = burst
        self.count = self.most_neighbours = 0
        self.first: int | None = None

    def add(self, verdicts: Verdicts) -> None:
        raised = np.flatnonzero(verdicts.alarms)
        if len(raised) and self.first is None:
            self.first = int(verdicts.rows[raised[0]])
        self.count += len(raised)
        if verdicts.neighbours is not None:
            self.most_neighbours = max(
                self.most_neighbours, int(verdicts.neighbours.max(initial=0))
            )

    def describe(self, place: str) -> str:
        """Describe the alarms in words; `place` is where the first one stands."""
        among = f"among the {self._burst.last:,} decisions before"
        if self._burst.alarm is None:
            return f"At most {self.most_neighbours:,} near inputs {among}"
        if self.count == 0:
            return (
                f"No alarm: at most {self.most_neighbours:,} near inputs {among}, below"
                f" {self._burst.alarm:,}"
            )
        return (
            f"Alarms: {self.count:,}, first at {place}; up to {self.most_neighbours:,} near"
            f" inputs {among}, where {self._burst.alarm:,} raise one"
        )

    def to_dict(self) -> dict[str, Any]:
        return {
            "last": self._burst.last,
            "alarm": self._burst.alarm,
            "most_neighbours": self.most_neighbours,
            "alarms": self.count,
            "first_alarm": self.first,
        }


@dataclass(frozen=True)
class StoredSource:
    """Names a ledger in messages."""

    name: str
    unit: str = "row"
    remarks: Sequence[Remark] = ()


class KeptPairs:
    """Keeps the verdicts of an audit, to make a frame of their pairs."""

    def __init__(self, past: Past, rows: KeptRows) -> None:
        self._frames = PairFrames(past, rows)
        self._verdicts: list[Verdicts] = []
        self._pairs = 0

    def add(self, verdicts: Verdicts) -> None:
        """Add a batch; beyond MOST_PAIRS nothing is kept."""
        self._pairs += verdicts.pairs
        self._verdicts.append(verdicts)
        if self._pairs > MOST_PAIRS:
            self._verdicts.clear()

    def make_frame(self) -> pl.DataFrame:
        """Return a frame of all pairs; raise BadRule if there are too many."""
        if self._pairs > MOST_PAIRS:
            raise BadRule(
                f"there are {self._pairs:,} contradicting pairs, and a frame has room for"
                f' {MOST_PAIRS:,}. Write them to a file: lw.audit(…, out="pairs.parquet").'
            )
        frames, before = [self._frames.make_empty()], 0
        for verdicts in self._verdicts:
            for frame in self._frames.make(verdicts, before):
                frames.append(frame)
                before += frame.height
        return stack_frames(frames[1:] or frames)


@dataclass(frozen=True, eq=False, repr=False)
class Audit:
    """Holds what an audit found, how the data were read, and where each decision stood."""

    findings: Findings
    """All numbers."""
    source: NamedSource
    """How the data were read."""
    refused: RefusedRows = field(default_factory=RefusedRows)
    """Bad rows that were left out."""
    find_place: Callable[[int], tuple[int, str | None]] = lambda row: (row, None)
    """Returns for a row its line or row in its file; and that file, where there are several."""
    alarms: AlarmTally | None = None
    pairs_left_out: int | None = None
    """How many pairs the file of pairs has no room for; None if no file was written."""
    limits: AuditLimits = field(default_factory=AuditLimits)
    kept_pairs: KeptPairs | None = None
    complete: Callable[[], Findings] | None = None
    """Returns the findings with all that a page shows; None if they have it already."""
    library: str | None = None
    """The library of frames: that of the data, or None for any that is installed."""

    @property
    def headline(self) -> tuple[str, ...]:
        """What was found, in sentences, the most important first."""
        return tuple(describe_findings(self.findings))

    @property
    def agreement(self) -> Agreement | None:
        """How far similar cases agree, beside chance; None where that was not computed."""
        return self.findings.agreement

    @property
    def groups(self) -> tuple[GroupEffects, ...]:
        """Who got less among similar cases, for each protected column."""
        return self.findings.groups

    @property
    def within_limit(self) -> bool | None:
        """Whether the limits are kept; None if none is broken and one cannot be told."""
        return self.limits.is_kept(self.findings)

    @cached_property
    def pairs(self) -> Any:
        """A frame with a line for each contradicting pair, as `likewise audit --out` writes it.

        Both sides stand beside each other: their places and rows, distances, and all columns. It is
        a frame of the library that the data came in, else of pandas, or of Polars without pandas.
        """
        if self.kept_pairs is None:
            raise BadRule(
                "this audit kept no pairs: it was made cell by cell, or of a ledger. Audit the file"
                " without partition, or read the contradictions of the ledger: ledger.violations()."
            )
        frame = self.kept_pairs.make_frame()
        if self.library == "polars":
            return frame
        if self.library == "pyarrow":
            return frame.to_arrow()
        columns = {
            one.name: one.to_list() if one.null_count() else one.to_numpy()
            for one in frame.iter_columns()
        }
        return make_frame(columns, self.library)

    @property
    def curve(self) -> Curve | None:
        """The shares that are flagged and comparable at other epsilons; None where it has none.

        A rule under which nearness is more than a distance has no curve.
        """
        return self._page_findings.curve

    @cached_property
    def _page_findings(self) -> Findings:
        """The findings with all that a page shows."""
        return self.findings if self.complete is None else self.complete()

    def to_html(self) -> str:
        """Return the report: one self-contained page."""
        return render_page(self._page_findings)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the report to a file that ends in .html, or the numbers to one in .json."""
        save_result(path, self.to_html, self.to_dict)

    def to_dict(self) -> dict[str, Any]:
        """Return what `likewise audit --json` prints: plain values for JSON."""
        values, unit = self.findings.to_dict(), self.source.unit
        for pair in values["worst"]:
            for name in ("row", "witness"):
                pair[f"{name}_{unit}"], file = self.find_place(pair[name])
                if file is not None:
                    pair[f"{name}_file"] = file
        values["bad_row_examples"] = self.refused.to_dicts(unit)
        values["remarks"] = [remark.to_dict() for remark in self.source.remarks]
        if self.pairs_left_out is not None:
            values["pairs_written"] = self.findings.pairs - self.pairs_left_out
            values["pairs_omitted"] = self.pairs_left_out
        if self.alarms is not None:
            first = self.alarms.first
            place = None if first is None else self.find_place(first)[0]
            values["burst"] = {**self.alarms.to_dict(), f"first_alarm_{unit}": place}
        return {**values, **self.limits.to_dict(self.findings)}

    def __str__(self) -> str:
        return "\n".join(self.headline)

    def __repr__(self) -> str:
        found = self.findings
        return (
            f"<Audit of {found.rows:,} decisions: {found.violations:,} contradict an earlier one,"
            f" {found.pairs:,} pairs>"
        )

    def _repr_html_(self) -> str | None:
        return render_in_notebook(
            "auditing/audit.html",
            sentences=self.headline,
            rule=self.findings.rule.explain(),
            groups=self.groups,
        )
