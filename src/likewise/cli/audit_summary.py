"""An audit prints a summary for people, or JSON, through these functions.

Values from the data may hold anything: terminal.py makes them printable.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from likewise.auditing.audit_result import Audit
from likewise.auditing.feeding import RefusedRows
from likewise.cli.terminal import say, say_lines
from likewise.reports.finding_words import describe_time_limit
from likewise.reports.findings import Findings
from likewise.rule.rule import Rule

_PAIRS = 2
_COLUMNS = 12  # of a rule in words, and of a pair
_LINE_LENGTH = 240  # characters of a line of a rule


def print_summary(audited: Audit, written: Mapping[str, Path | None]) -> None:
    """Print the findings, the rule, the clearest pairs, and what was written."""
    findings, unit = audited.findings, audited.source.unit
    print_sentences(audited.headline, findings.nothing_compared)
    counted = findings.agreement is not None and findings.agreement.like_pairs
    if findings.pairs > findings.violations and not counted:
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
    for ending, style in _final_lines(audited, written):
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
    for line in shorten_rule([*rule.explain().lines, *describe_time_limit(within)]):
        say(f"  {line}")


def print_refused_rows(refused: RefusedRows, unit: str) -> None:
    """Print how many bad rows there are, and the first with their places."""
    rows = "row was" if refused.count == 1 else "rows were"
    say(f"{refused.count:,} bad {rows} left out", "bold")
    for row in refused.first:
        say(f"  {unit} {row.place:,}: {row.why}")
    if refused.count > len(refused.first):
        say(f"  and {refused.count - len(refused.first):,} more")


def _final_lines(audited: Audit, written: Mapping[str, Path | None]) -> list[tuple[str, str]]:
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
    for is_kept, why in audited.limits.check(findings):
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
