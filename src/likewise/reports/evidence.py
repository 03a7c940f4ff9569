"""Records how findings were computed: what someone needs to reproduce the numbers.

Not here: how it is shown (report_page.py), and where each fact comes from (auditing/feeding.py).
"""

import datetime
import platform
import sys
from dataclasses import dataclass
from importlib import import_module

from likewise.rule.rule import Rule
from likewise.sources.time_columns import AS_IT_IS, NEWEST_FIRST, SORTED, Arrangement
from likewise.tables.times import iso_text_of_seconds
from likewise.verdict.losses import Explanation
from likewise.version import __version__

_PACKAGES = ("numpy", "polars")


@dataclass(frozen=True)
class JudgingOrder:
    """Says in which order decisions were judged: what "earlier" means."""

    column: str | None = None
    """The column of times; None: decisions were judged in the order of the file, or of arrival."""
    file: Arrangement = AS_IT_IS
    """What was done with the file: judged as it is, from its end (newest first), or sorted."""
    ties: int = 0
    """How many decisions have the time of the one before, so that their lines decide."""
    lines: bool = False
    """Whether decisions came from a file, so that lines decide where no time is known."""
    within: str | None = None
    """How far back decisions are compared; None: no limit."""

    def describe(self) -> str:
        """Describe the order as a clause."""
        if self.column is None:
            above = "; “earlier” means “above in the file”" if self.lines else ""
            return ("as the lines stand in the file" if self.lines else "as they came") + above
        done = {
            AS_IT_IS: "the order that the file has already",
            NEWEST_FIRST: "the file has the newest first, so it was judged from its last line up",
            SORTED: "the file was in another order, so it was sorted",
        }[self.file]
        rest = "by line, from the last up" if self.file == NEWEST_FIRST else "by line"
        ties = f"; {self.ties:,} have the same time as the one before: these are ordered {rest}"
        within = f"; each is compared only with those of the {self.within} before it"
        more = ties * bool(self.ties) + within * bool(self.within)
        return f"by “{self.column}” (UTC), {done}{more}"


@dataclass(frozen=True)
class SkippedRows:
    """Counts rows that were left out for one kind of reason."""

    reason: str
    """The reason for the first of them."""
    place: int
    """The line or row of the first in the file."""
    rows: int


@dataclass(frozen=True)
class Evidence:
    """Holds what is known about an audit beside the monitor and its verdicts."""

    source: str
    order: JudgingOrder = JudgingOrder()
    sha256: str | None = None
    """The checksum of the data, as it was read."""
    size_bytes: int | None = None
    """The size of the data in bytes."""
    command: str | None = None
    """The whole command line."""
    unit: str = "row"
    """What a place counts: lines of a file, or rows."""
    remarks: tuple[str, ...] = ()
    """Where values were read differently from their text."""
    skipped: tuple[SkippedRows, ...] = ()
    skipped_for_other_reasons: int = 0
    head: str | None = None
    """The last link of the ledger's chain, if there is a ledger."""
    seconds: float | None = None
    machine_load: float | None = None
    """How busy the machine was meanwhile; 1 is this work alone (runtime/machine.py)."""
    seeds: tuple[tuple[str, int], ...] = ()
    """What was drawn at random, and the seeds."""
    model_column: str | None = None
    """The column that says which model decided, if one does."""


@dataclass(frozen=True, kw_only=True)
class Provenance(Evidence):
    """Records how the findings were computed, for someone who wants to reproduce them."""

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
    made_at: str
    """When the findings were made, in UTC."""


def build_provenance(
    evidence: Evidence, rule: Rule, explained: Explanation, made: datetime.datetime | None
) -> Provenance:
    """Combine the evidence with what a monitor says about itself; made now by default."""
    when = made or datetime.datetime.now(datetime.UTC)
    facts = ("reason", "storage", "slack", "reach", "remembered", "forgotten")
    return Provenance(
        **vars(evidence),
        **{name: getattr(explained, name) for name in facts},
        fingerprint=rule.fingerprint,
        index=explained.shape,
        version=__version__,
        python=platform.python_version(),
        packages=_packages(),
        made_at=iso_text_of_seconds(when.timestamp(), "seconds"),
    )


def _packages() -> tuple[tuple[str, str], ...]:
    """List the versions of packages that computed the numbers, as far as they are loaded."""
    return tuple(
        (name, str(import_module(name).__version__)) for name in _PACKAGES if name in sys.modules
    )
