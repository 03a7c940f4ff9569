"""What an audit prints: a summary for people, or JSON.

Values from the data may hold anything: screen.py makes of them text that no terminal obeys.
"""

from likewise.cli.audit import Wishes
from likewise.cli.auditing import Audited
from likewise.cli.feeding import Refusals
from likewise.cli.limits import Limit
from likewise.cli.screen import print_json as print_json_object
from likewise.cli.screen import say, say_lines
from likewise.reports.words import found_in_words, in_words, within_in_words

_PAIRS = 2
_COLUMNS = 12  # of a rule in words, and of a pair
_LONG = 240  # letters of a line of it


def print_json(audited: Audited, wishes: Wishes, limit: Limit) -> None:
    """One object: the findings, the bad rows, and whether the limit was passed."""
    bad, found = audited.bad, audited.findings.to_dict()
    for pair in found["worst"]:
        for name in ("row", "witness"):
            pair[f"{name}_{bad.source.unit}"] = audited.place(pair[name])
            if audited.file_of is not None:
                pair[f"{name}_file"] = audited.file_of(pair[name])
    found["bad"] = [
        {bad.source.unit: one.place, "code": one.code, "why": one.why} for one in bad.first
    ]
    found["remarks"] = [one.to_dict() for one in bad.source.remarks]
    if wishes.out is not None:
        found["pairs_written"] = audited.findings.pairs - audited.pairs_left_out
        found["pairs_left_out"] = audited.pairs_left_out
    if audited.alarms is not None:
        found["burst"] = audited.alarms.to_dict()
        first = audited.alarms.first
        place = None if first is None else audited.place(first)
        found["burst"][f"first_alarm_{bad.source.unit}"] = place
    print_json_object({**found, **limit.to_dict(audited.findings)})


def print_summary(audited: Audited, wishes: Wishes, limit: Limit) -> None:
    """What was found, by which rule, the clearest pairs, and what was written."""
    findings, bad = audited.findings, audited.bad
    first, *more = found_in_words(findings)
    say(first, "bold red" if findings.nothing_compared else "bold")
    for line in more:
        say(line)
    if findings.pairs > findings.flagged:
        say(f"Violating pairs: {findings.pairs:,}")
    if findings.computed.order.column is not None:
        say(f"Judged in order: {findings.computed.order.words()}.")
    if audited.alarms is not None:
        at = f"{bad.source.unit} {audited.place(audited.alarms.first or 0):,} of the file"
        say(audited.alarms.told(at))
    say()
    say("The rule", "bold")
    within = within_in_words(findings.computed.order.within)
    for line in shortened_rule([*in_words(findings.rule), *within]):
        say(f"  {line}")
    for one in findings.worst[:_PAIRS]:
        later, earlier = audited.place(one.pair.row or 0), audited.place(one.pair.witness.row)
        say()
        say_lines(clipped(str(one.pair)))
        if audited.file_of is None:
            say(f"({bad.source.unit}s {later:,} and {earlier:,} of the file)")
        else:
            files = [audited.file_of(row) for row in (one.pair.row or 0, one.pair.witness.row)]
            told = [f"{bad.source.unit} {later:,} of {files[0]}", f"{earlier:,} of {files[1]}"]
            say(f"({' and '.join(told)})")
    if bad.count:
        say()
        print_bad(bad)
    say()
    for ending, style in _ending(audited, wishes, limit):
        say(ending, style)


def print_bad(bad: Refusals) -> None:
    """Bad rows, with their places."""
    rows = "row was" if bad.count == 1 else "rows were"
    say(f"{bad.count:,} bad {rows} left out", "bold")
    for one in bad.first:
        say(f"  {bad.source.unit} {one.place:,}: {one.why}")
    if bad.count > len(bad.first):
        say(f"  and {bad.count - len(bad.first):,} more")


def _ending(audited: Audited, wishes: Wishes, limit: Limit) -> list[tuple[str, str]]:
    """Lines, each with its style."""
    lines, findings = [], audited.findings
    seconds = findings.computed.seconds
    if seconds is not None:
        lines.append(
            f"{findings.rows:,} decisions of {findings.computed.source} in {seconds:.1f} s"
        )
    if wishes.report is not None:
        lines.append(f"The report: {wishes.report}")
    if wishes.partition is not None:
        lines.append(f"Cells and results are kept in {wishes.partition}; remove it when done")
    if wishes.ledger is not None:
        lines.append(f"The ledger: {wishes.ledger}, {findings.computed.head}")
    if wishes.out is not None:
        lines.append(f"The violating pairs: {wishes.out}")
    if audited.pairs_left_out:
        lines.append(
            f"{audited.pairs_left_out:,} pairs are not in it: a sheet of Excel has no room for"
            " more. For all of them: --out pairs.parquet, or .csv."
        )
    told = [(line, "") for line in lines]
    kept = limit.kept(findings)
    if limit.share is not None and kept is not None:
        told.append((limit.words(findings), "green" if kept else "bold red"))
    return told


def shortened_rule(lines: list[str]) -> list[str]:
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


def clipped(pair: str) -> str:
    lines = pair.split("\n")
    most = _COLUMNS + 2
    if len(lines) <= most:
        return pair
    return "\n".join([*lines[: most - 1], f"and {len(lines) - most + 1:,} columns more"])
