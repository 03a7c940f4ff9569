"""What an audit prints: a summary for people, or JSON.

Values from the data may hold anything: terminal.py makes of them text that no terminal obeys.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from likewise.audit.pipeline import AuditResult
from likewise.audit.refused_rows import RefusedRows
from likewise.cli.exit_codes import CommandError
from likewise.cli.terminal import print_json as print_json_object
from likewise.cli.terminal import say, say_lines
from likewise.reports.finding_words import describe_findings, describe_rule, describe_time_limit
from likewise.reports.findings import Findings
from likewise.tables.printing import percent

MEASURES = {
    "any-pair": "of all decisions are in a contradicting pair (in any order)",
    "later": "of all decisions contradict an earlier one",
    "comparable": "of the comparable decisions contradict an earlier one",
}


@dataclass(frozen=True)
class MaxRate:
    """A share, and of what; None: no limit."""

    share: float | None
    measure: str

    def __post_init__(self) -> None:
        if self.measure not in MEASURES:
            raise CommandError(
                f"--max-rate-of is {self.measure!r}; expected {', '.join(MEASURES)}."
            )

    def rate(self, found: Findings) -> float | None:
        """The share that is limited; None where it has no meaning."""
        if found.nothing_compared:
            return None
        rates = {
            "any-pair": found.rate_in_any_pair,
            "later": found.rate,
            "comparable": found.rate_among_comparable,
        }
        return rates[self.measure]

    def is_kept(self, found: Findings) -> bool | None:
        """Whether the limit is kept; None if that cannot be said."""
        if self.share is None:
            return True
        rate = self.rate(found)
        return None if rate is None else rate <= self.share

    def describe(self, found: Findings) -> str:
        """The share beside its limit."""
        assert self.share is not None
        rate = self.rate(found)
        if rate is None:
            return (
                "nothing could be compared, so --max-rate says nothing. Loosen the rule, as the"
                " summary says, until like cases are found."
            )
        than = "within" if rate <= self.share else "more than"
        some, many = self._counts(found)
        return (
            f"{percent(rate)} {MEASURES[self.measure]}: {some:,} of {many:,}, {than} the"
            f" {percent(self.share)} that --max-rate allows."
        )

    def _counts(self, found: Findings) -> tuple[int, int]:
        some = found.in_any_pair if self.measure == "any-pair" else found.flagged
        return some, (found.comparable or 0) if self.measure == "comparable" else found.rows

    def to_dict(self, found: Findings) -> dict[str, Any]:
        """For JSON: the limit, what it is of, that rate, and whether it was passed."""
        kept = self.is_kept(found)
        return {
            "max_rate": self.share,
            "max_rate_of": self.measure,
            "limited_rate": self.rate(found),
            "over": None if kept is None else not kept,
        }


_PAIRS = 2
_COLUMNS = 12  # of a rule in words, and of a pair
_LONG = 240  # letters of a line of it


def print_audit_json(audited: AuditResult, limit: MaxRate, *, pairs: bool) -> None:
    """One object: the findings, the bad rows, and whether the limit was passed.

    pairs: whether they were written to a file
    """
    found, unit = audited.findings.to_dict(), audited.source.unit
    for pair in found["worst"]:
        for name in ("row", "witness"):
            pair[f"{name}_{unit}"], file = audited.find_place(pair[name])
            if file is not None:
                pair[f"{name}_file"] = file
    found["bad"] = [
        {unit: one.place, "code": one.code, "why": one.why} for one in audited.refused.first
    ]
    found["remarks"] = [one.to_dict() for one in audited.source.remarks]
    if pairs:
        found["pairs_written"] = audited.findings.pairs - audited.pairs_left_out
        found["pairs_left_out"] = audited.pairs_left_out
    if audited.alarms is not None:
        first = audited.alarms.first
        place = None if first is None else audited.find_place(first)[0]
        found["burst"] = {**audited.alarms.to_dict(), f"first_alarm_{unit}": place}
    print_json_object({**found, **limit.to_dict(audited.findings)})


def print_summary(audited: AuditResult, limit: MaxRate, written: Mapping[str, Path | None]) -> None:
    """What was found, by which rule, the clearest pairs, and what was written."""
    findings, unit = audited.findings, audited.source.unit
    first, *more = describe_findings(findings)
    say(first, "bold red" if findings.nothing_compared else "bold")
    for line in more:
        say(line)
    if findings.pairs > findings.flagged:
        say(f"Violating pairs: {findings.pairs:,}")
    if findings.computed.order.column is not None:
        say(f"Judged in order: {findings.computed.order.describe()}.")
    if audited.alarms is not None:
        at = f"{unit} {audited.find_place(audited.alarms.first or 0)[0]:,} of the file"
        say(audited.alarms.describe(at))
    say()
    say("The rule", "bold")
    within = describe_time_limit(findings.computed.order.within)
    for line in shorten_rule([*describe_rule(findings.rule), *within]):
        say(f"  {line}")
    for one in findings.worst[:_PAIRS]:
        later, file = audited.find_place(one.pair.row or 0)
        earlier, other_file = audited.find_place(one.pair.witness.row)
        say()
        say_lines(clip_pair(str(one.pair)))
        if file is None:
            say(f"({unit}s {later:,} and {earlier:,} of the file)")
        else:
            say(f"({unit} {later:,} of {file} and {earlier:,} of {other_file})")
    if audited.refused.count:
        say()
        print_refused_rows(audited.refused, unit)
    say()
    for ending, style in _final_lines(audited, limit, written):
        say(ending, style)


def print_refused_rows(refused: RefusedRows, unit: str) -> None:
    """Bad rows, with their places."""
    rows = "row was" if refused.count == 1 else "rows were"
    say(f"{refused.count:,} bad {rows} left out", "bold")
    for one in refused.first:
        say(f"  {unit} {one.place:,}: {one.why}")
    if refused.count > len(refused.first):
        say(f"  and {refused.count - len(refused.first):,} more")


def _final_lines(
    audited: AuditResult, limit: MaxRate, written: Mapping[str, Path | None]
) -> list[tuple[str, str]]:
    """Lines, each with its style."""
    lines, findings = [], audited.findings
    seconds = findings.computed.seconds
    if seconds is not None:
        lines.append(
            f"{findings.rows:,} decisions of {findings.computed.source} in {seconds:.1f} s"
        )
    texts = {
        "report": "The report: {}",
        "partition": "Cells and results are kept in {}; remove it when done",
        "ledger": f"The ledger: {{}}, {findings.computed.head}",
        "out": "The violating pairs: {}",
    }
    lines += [text.format(written[name]) for name, text in texts.items() if written[name]]
    if audited.pairs_left_out:
        lines.append(
            f"{audited.pairs_left_out:,} pairs are not in it: a sheet of Excel has no room for"
            " more. For all of them: --out pairs.parquet, or .csv."
        )
    told = [(line, "") for line in lines]
    kept = limit.is_kept(findings)
    if limit.share is not None and kept is not None:
        told.append((limit.describe(findings), "green" if kept else "bold red"))
    return told


def shorten_rule(lines: list[str]) -> list[str]:
    """A rule of a hundred columns does not push the findings off the screen."""
    lines = [line if len(line) <= _LONG else _cut(line) for line in lines]
    conditions = [line for line in lines if line.startswith("- ")]
    if len(conditions) <= _COLUMNS:
        return lines
    at = lines.index(conditions[_COLUMNS - 1])
    rest = f"- and {len(conditions) - _COLUMNS + 1:,} columns more"
    return [*lines[:at], rest, *lines[at + len(conditions) - _COLUMNS + 1 :]]


def _cut(line: str) -> str:
    """A list of a hundred names, as far as it is still read, and what is said of them."""
    names, colon, what = line.rpartition(": ")
    room = max(20, _LONG - len(what))
    return f"{names[:room].rpartition(',')[0] or names[:room]}, …{colon}{what}"


def clip_pair(pair: str) -> str:
    lines = pair.split("\n")
    most = _COLUMNS + 2
    if len(lines) <= most:
        return pair
    return "\n".join([*lines[: most - 1], f"and {len(lines) - most + 1:,} columns more"])
