"""An audit prints a summary for people, or JSON, through these functions.

Values from the data may hold anything: terminal.py makes them printable.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from likewise.audit.feeding import RefusedRows
from likewise.audit.pipeline import AuditResult
from likewise.cli.exit_codes import CommandError
from likewise.cli.terminal import print_json, say, say_lines
from likewise.explaining.agreement import FEWEST_SIMILAR
from likewise.reports.finding_words import describe_findings, describe_rule, describe_time_limit
from likewise.reports.findings import Findings
from likewise.rule.rule import Rule
from likewise.tables.printing import percent

MEASURES = {
    "any-pair": "of all decisions are in a contradicting pair (in any order)",
    "later": "of all decisions contradict an earlier one",
    "comparable": "of the comparable decisions contradict an earlier one",
    "disagreement": "of the similar cases of a decision disagree with it, on average",
    "opposed": f"of the decisions with at least {FEWEST_SIMILAR} similar cases are opposed by most",
}


@dataclass(frozen=True)
class AuditLimits:
    """AuditLimits what was found, as --max-rate, --max-rate-of and --min-index say."""

    max_rate: float | None
    """None: no limit."""
    measure: str
    """Which share is limited, a name in MEASURES."""
    min_index: float | None = None
    """The least lower limit of the agreement index; None: no limit."""

    def __post_init__(self) -> None:
        if self.measure not in MEASURES:
            raise CommandError(
                f"--max-rate-of is {self.measure!r}; expected {', '.join(MEASURES)}."
            )

    def _counts(self, findings: Findings) -> tuple[int, int] | None:
        """Return how many decisions the limited share counts, and of how many; None: a mean."""
        agreement = findings.agreement
        if self.measure == "disagreement":
            return None
        if self.measure == "opposed":
            return (agreement.opposed_by_most, agreement.opposed_of) if agreement else (0, 0)
        if self.measure == "comparable":
            return findings.violations, findings.with_earlier or 0
        flagged = findings.in_any_pair if self.measure == "any-pair" else findings.violations
        return flagged, findings.rows

    def rate(self, findings: Findings) -> float | None:
        """Return the share that is limited; None where it has no meaning."""
        if findings.nothing_compared:
            return None
        counts = self._counts(findings)
        if counts is None:
            return None if findings.agreement is None else findings.agreement.disagreement
        return counts[0] / counts[1] if counts[1] else None

    def check(self, findings: Findings) -> list[tuple[bool | None, str]]:
        """Say of each limit whether it is kept, None if that cannot be told, and why."""
        checks: list[tuple[bool | None, str]] = []
        if self.max_rate is not None:
            rate = self.rate(findings)
            kept = None if rate is None else rate <= self.max_rate
            checks.append((kept, self._describe_rate(findings, rate)))
        if self.min_index is not None:
            low = None if findings.agreement is None else findings.agreement.low
            kept = None if low is None else low >= self.min_index
            checks.append((kept, self._describe_index(findings, low)))
        return checks

    def is_kept(self, findings: Findings) -> bool | None:
        """Tell whether all limits are kept; None if none is broken and one cannot be told."""
        kept = [one for one, _ in self.check(findings)]
        return False if False in kept else None if None in kept else True

    def _describe_rate(self, findings: Findings, rate: float | None) -> str:
        assert self.max_rate is not None
        if rate is None and not findings.nothing_compared:
            return "there are too few similar cases, so --max-rate says nothing."
        if rate is None:
            return (
                "nothing could be compared, so --max-rate says nothing. Loosen the rule, as the"
                " summary says, until similar cases are found."
            )
        counts = self._counts(findings)
        of = "" if counts is None else f": {counts[0]:,} of {counts[1]:,}"
        than = "within" if rate <= self.max_rate else "more than"
        return (
            f"{percent(rate)} {MEASURES[self.measure]}{of}, {than} the"
            f" {percent(self.max_rate)} that --max-rate allows."
        )

    def _describe_index(self, findings: Findings, low: float | None) -> str:
        assert self.min_index is not None
        if low is None:
            why = "" if findings.agreement is None else f" {findings.agreement.how.sentence}"
            return f"the agreement index cannot be told, so --min-index says nothing.{why}"
        than = "at least" if low >= self.min_index else "less than"
        return (
            f"The agreement index is at least {low:.3f} (the lower limit of its 95 % interval),"
            f" {than} the {self.min_index:g} that --min-index asks for."
        )

    def to_dict(self, findings: Findings) -> dict[str, Any]:
        """Return the limits, the limited rate, and whether a limit is exceeded."""
        is_kept = self.is_kept(findings)
        return {
            "max_rate": self.max_rate,
            "max_rate_of": self.measure,
            "limited_rate": self.rate(findings),
            "min_index": self.min_index,
            "limit_exceeded": None if is_kept is None else not is_kept,
        }


_PAIRS = 2
_COLUMNS = 12  # of a rule in words, and of a pair
_LINE_LENGTH = 240  # characters of a line of a rule


def print_audit_json(audited: AuditResult, limits: AuditLimits, *, pairs: bool) -> None:
    """Print one object: the findings, the bad rows, and whether they are over the limit.

    pairs: whether pairs were written to a file
    """
    values, unit = audited.findings.to_dict(), audited.source.unit
    for pair in values["worst"]:
        for name in ("row", "witness"):
            pair[f"{name}_{unit}"], file = audited.find_place(pair[name])
            if file is not None:
                pair[f"{name}_file"] = file
    values["bad_row_examples"] = describe_refused_rows(audited.refused, unit)
    values["remarks"] = [remark.to_dict() for remark in audited.source.remarks]
    if pairs:
        values["pairs_written"] = audited.findings.pairs - audited.pairs_left_out
        values["pairs_omitted"] = audited.pairs_left_out
    if audited.alarms is not None:
        first = audited.alarms.first
        place = None if first is None else audited.find_place(first)[0]
        values["burst"] = {**audited.alarms.to_dict(), f"first_alarm_{unit}": place}
    print_json({**values, **limits.to_dict(audited.findings)})


def print_summary(
    audited: AuditResult, limits: AuditLimits, written: Mapping[str, Path | None]
) -> None:
    """Print the findings, the rule, the clearest pairs, and what was written."""
    findings, unit = audited.findings, audited.source.unit
    print_sentences(describe_findings(findings), findings.nothing_compared)
    if findings.pairs > findings.violations:
        say(f"Violating pairs: {findings.pairs:,}")
    if findings.computed.order.column is not None:
        say(f"Judged in order: {findings.computed.order.describe()}.")
    if audited.alarms is not None:
        at = f"{unit} {audited.find_place(audited.alarms.first or 0)[0]:,} of the file"
        say(audited.alarms.describe(at))
    print_rule(findings.rule, findings.computed.order.within)
    for placed in findings.worst[:_PAIRS]:
        later, file = audited.find_place(placed.pair.row or 0)
        earlier, other_file = audited.find_place(placed.pair.witness.row)
        say()
        say_lines(clip_pair(str(placed.pair)))
        if file is None:
            say(f"({unit}s {later:,} and {earlier:,} of the file)")
        else:
            say(f"({unit} {later:,} of {file} and {earlier:,} of {other_file})")
    if audited.refused.count:
        say()
        print_refused_rows(audited.refused, unit)
    print_not_shown(findings)
    say()
    for ending, style in _final_lines(audited, limits, written):
        say(ending, style)


def print_sentences(sentences: Sequence[str], is_empty: bool) -> None:
    """Print what was found, the most important first; is_empty: nothing could be compared."""
    say(sentences[0], "bold red" if is_empty else "bold")
    for line in sentences[1:]:
        say(line)


def print_not_shown(findings: Findings) -> None:
    """Print what findings do not show, as far as it depends on the data."""
    say()
    for one in findings.not_shown:
        if one.code in ("smallest-index", "repeated-persons"):
            say(one.sentence)
    say("No cause and no clearance follows; a report and --json list what this does not show.")


def print_rule(rule: Rule, within: str | None) -> None:
    """Print a rule in words, with the limit in time."""
    say()
    say("The rule", "bold")
    for line in shorten_rule([*describe_rule(rule), *describe_time_limit(within)]):
        say(f"  {line}")


def describe_refused_rows(refused: RefusedRows, unit: str) -> list[dict[str, Any]]:
    """Return the first bad rows for JSON."""
    return [{unit: row.place, "code": row.code, "reason": row.why} for row in refused.first]


def print_refused_rows(refused: RefusedRows, unit: str) -> None:
    """Print how many bad rows there are, and the first with their places."""
    rows = "row was" if refused.count == 1 else "rows were"
    say(f"{refused.count:,} bad {rows} left out", "bold")
    for row in refused.first:
        say(f"  {unit} {row.place:,}: {row.why}")
    if refused.count > len(refused.first):
        say(f"  and {refused.count - len(refused.first):,} more")


def _final_lines(
    audited: AuditResult, limits: AuditLimits, written: Mapping[str, Path | None]
) -> list[tuple[str, str]]:
    """Return the last lines of the summary, each with its style."""
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
    styled = [(line, "") for line in lines]
    for is_kept, why in limits.check(findings):
        if is_kept is not None:
            styled.append((why, "green" if is_kept else "bold red"))
    return styled


def shorten_rule(lines: list[str]) -> list[str]:
    """Shorten a rule of many columns, so that it does not push the findings off the screen."""
    lines = [line if len(line) <= _LINE_LENGTH else _clip_names(line) for line in lines]
    conditions = [line for line in lines if line.startswith("- ")]
    if len(conditions) <= _COLUMNS:
        return lines
    at = lines.index(conditions[_COLUMNS - 1])
    rest = f"- and {len(conditions) - _COLUMNS + 1:,} columns more"
    return [*lines[:at], rest, *lines[at + len(conditions) - _COLUMNS + 1 :]]


def _clip_names(line: str) -> str:
    """Clip a long list of names, and keep what the line says about them."""
    names, colon, what = line.rpartition(": ")
    room = max(20, _LINE_LENGTH - len(what))
    return f"{names[:room].rpartition(',')[0] or names[:room]}, …{colon}{what}"


def clip_pair(pair: str) -> str:
    """Shorten the text of a pair of many columns."""
    lines = pair.split("\n")
    most = _COLUMNS + 2
    if len(lines) <= most:
        return pair
    return "\n".join([*lines[: most - 1], f"and {len(lines) - most + 1:,} columns more"])
