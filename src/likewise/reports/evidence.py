"""How findings were computed, as plain values: what someone needs to arrive at the same numbers.

Not here: how it is shown (report_page.py), and where each fact comes from (audit/feeding.py).
"""

import datetime
import platform
import sys
from dataclasses import dataclass
from importlib import import_module

from likewise.rule.rule import Rule
from likewise.sources.time_order import AS_IT_IS, NEWEST_FIRST, SORTED, Arrangement
from likewise.tables.times import iso_text_of_seconds
from likewise.verdict.index_report import Explanation
from likewise.version import __version__

_PACKAGES = ("numpy", "polars")


@dataclass(frozen=True)
class JudgingOrder:
    """In which order decisions were judged: what "earlier" means."""

    column: str | None = None
    """The column of times, or None: then the order is that of the file, or of arrival."""
    file: Arrangement = AS_IT_IS
    """What was done with the file: judged as it is, from its end (newest first), or sorted."""
    ties: int = 0
    """Decisions with the time of the one before them, so that the line decides."""
    lines: bool = False
    """Whether decisions came from a file, whose lines are their order where no time is known."""
    within: str | None = None
    """How long before a decision the past begins that it is compared with; None: no limit."""

    def describe(self) -> str:
        """The order, as a clause."""
        if self.column is None:
            above = "; “earlier” means “above in the file”" if self.lines else ""
            return ("as the lines stand in the file" if self.lines else "as they came") + above
        done = {
            AS_IT_IS: "in which the file is already",
            NEWEST_FIRST: "the file has the newest first, so it was judged from its last line up",
            SORTED: "in which the file was not, so it was sorted",
        }[self.file]
        rest = "by line, from the last up" if self.file == NEWEST_FIRST else "by line"
        ties = f"; {self.ties:,} have the time of the one before: these {rest}"
        within = f"; each is compared with those of the {self.within} before it, and no others"
        return (
            f"by “{self.column}” (UTC), {done}{ties * bool(self.ties)}{within * bool(self.within)}"
        )


@dataclass(frozen=True)
class SkippedRows:
    """Rows that were left out for one kind of reason."""

    why: str
    """Of the first of them."""
    place: int
    """Its line or row in the file."""
    rows: int


@dataclass(frozen=True)
class Evidence:
    """What whoever ran a command knows, beside the monitor and its verdicts."""

    source: str
    order: JudgingOrder = JudgingOrder()
    sha256: str | None = None
    """Of the bytes of the data, as they were read."""
    size: int | None = None
    """How many bytes that is."""
    command: str | None = None
    """The whole command line."""
    unit: str = "row"
    """What a place counts: lines of a file, or rows."""
    remarks: tuple[str, ...] = ()
    """How the file was read, where that is not as its text stands."""
    skipped: tuple[SkippedRows, ...] = ()
    skipped_for_other_reasons: int = 0
    head: str | None = None
    """The last link of the ledger's chain, if there is a ledger."""
    seconds: float | None = None
    load: float | None = None
    """How busy the machine was meanwhile; 1 is this work alone (runtime/machine.py)."""
    seeds: tuple[tuple[str, int], ...] = ()
    """What was drawn at random, and from which seed."""
    model_column: str | None = None
    """The column that says which model decided, if one does."""


@dataclass(frozen=True, kw_only=True)
class Provenance(Evidence):
    """How the findings were computed, for whoever wants to do it again."""

    fingerprint: str
    index: str
    reason: str
    storage: str
    slack: float | None
    reach: float | None
    remembered: int
    forgotten: int
    version: str
    python: str
    packages: tuple[tuple[str, str], ...]
    made: str
    """When, in UTC."""


def build_provenance(
    evidence: Evidence, rule: Rule, explained: Explanation, made: datetime.datetime | None
) -> Provenance:
    """The evidence, with what a monitor says of itself; made now, unless told otherwise."""
    when = made or datetime.datetime.now(datetime.UTC)
    return Provenance(
        **vars(evidence),
        fingerprint=rule.fingerprint,
        index=explained.shape,
        reason=explained.reason,
        storage=explained.storage,
        slack=explained.slack,
        reach=explained.reach,
        remembered=explained.remembered,
        forgotten=explained.forgotten,
        version=__version__,
        python=platform.python_version(),
        packages=_packages(),
        made=iso_text_of_seconds(when.timestamp(), "seconds"),
    )


def _packages() -> tuple[tuple[str, str], ...]:
    """The packages that numbers pass through, as far as they are in use."""
    return tuple(
        (name, str(import_module(name).__version__)) for name in _PACKAGES if name in sys.modules
    )
