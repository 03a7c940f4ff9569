"""What an audit prints: a summary for people, or JSON.

Values from the data may hold anything: they are printed as text that no terminal obeys.
"""

from typing import Any

from rich.text import Text

from likewise.cli.audit import Wishes
from likewise.cli.auditing import Audited
from likewise.cli.options import print_json as print_json_object
from likewise.cli.replay import Refusals
from likewise.cli.screen import console, visible
from likewise.reports.findings import Findings
from likewise.reports.words import found_in_words, in_words, percent

_PAIRS = 2
_COLUMNS = 12  # of a rule in words, and of a pair
_LONG = 240  # letters of a line of it


def print_json(audited: Audited, wishes: Wishes, over: bool) -> None:
    """One object: the findings, the bad rows, and whether the limit was passed."""
    bad, found = audited.bad, audited.findings.to_dict()
    for pair in found["worst"]:
        for name in ("row", "witness"):
            pair[f"{name}_{bad.source.unit}"] = audited.place(pair[name])
    found["bad"] = [{bad.source.unit: one.place, "why": one.why} for one in bad.first]
    if audited.alarms is not None:
        found["burst"] = audited.alarms.to_dict()
        first = audited.alarms.first
        place = None if first is None else audited.place(first)
        found["burst"][f"first_alarm_{bad.source.unit}"] = place
    found["max_rate"] = wishes.max_rate
    found["over"] = over
    print_json_object(found)


def print_summary(audited: Audited, wishes: Wishes, over: bool) -> None:
    """What was found, by which rule, the clearest pairs, and what was written."""
    screen, findings, bad = console(), audited.findings, audited.bad
    first, *more = found_in_words(findings)
    screen.print(Text(first, style="bold"))
    for line in more:
        screen.print(visible(line))
    if findings.pairs > findings.flagged:
        screen.print(f"Violating pairs: {findings.pairs:,}")
    if audited.alarms is not None:
        at = f"{bad.source.unit} {audited.place(audited.alarms.first or 0):,} of the file"
        screen.print(audited.alarms.told(at))
    screen.print()
    screen.print(Text("The rule", style="bold"))
    for line in _shortened(in_words(findings.rule)):
        screen.print(visible(f"  {line}"))
    for one in findings.worst[:_PAIRS]:
        later, earlier = audited.place(one.pair.row or 0), audited.place(one.pair.witness.row)
        screen.print()
        screen.print(visible(_clipped(str(one.pair))))
        screen.print(f"({bad.source.unit}s {later:,} and {earlier:,} of the file)")
    if bad.count:
        screen.print()
        print_bad(screen, bad)
    screen.print()
    for ending in _ending(findings, wishes, over):
        screen.print(ending)


def print_bad(screen: Any, bad: Refusals) -> None:
    """Bad rows, with their places."""
    rows = "row was" if bad.count == 1 else "rows were"
    screen.print(Text(f"{bad.count:,} bad {rows} left out", style="bold"))
    for one in bad.first:
        screen.print(visible(f"  {bad.source.unit} {one.place:,}: {one.why}"))
    if bad.count > len(bad.first):
        screen.print(f"  and {bad.count - len(bad.first):,} more")


def _ending(findings: Findings, wishes: Wishes, over: bool) -> list[Text]:
    lines = []
    seconds = findings.computed.seconds
    if seconds is not None:
        source = visible(findings.computed.source)
        lines.append(f"{findings.rows:,} decisions of {source} in {seconds:.1f} s")
    if wishes.report is not None:
        lines.append(f"The report: {wishes.report}")
    if wishes.ledger is not None:
        lines.append(f"The ledger: {wishes.ledger}, {findings.computed.head}")
    if wishes.out is not None:
        lines.append(f"The violating pairs: {wishes.out}")
    told = [Text(line) for line in lines]
    if wishes.max_rate is not None:
        than = "more than" if over else "within"
        limit = (
            f"{percent(findings.rate)} flagged is {than} the {percent(wishes.max_rate)} allowed."
        )
        told.append(Text(limit, style="bold red" if over else "green"))
    return told


def _shortened(lines: list[str]) -> list[str]:
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


def _clipped(pair: str) -> str:
    lines = pair.split("\n")
    most = _COLUMNS + 2
    if len(lines) <= most:
        return pair
    return "\n".join([*lines[: most - 1], f"and {len(lines) - most + 1:,} columns more"])
