"""`likewise report`: write a page about what a ledger holds."""

from pathlib import Path
from typing import Any

import typer

from likewise.cli import options as o
from likewise.cli.exit_codes import FINE
from likewise.cli.input_files import check_output_path, refuse_unwritable
from likewise.cli.open_ledger import find_row, open_for_reading
from likewise.cli.terminal import print_json, progress, say, say_lines


def show(
    ledger: o.LedgerFolder,
    row: int | None = o.argument("The row of the decision.", "[ROW]", default=None, min=0),
    key: str | None = o.option("The key of the decision, instead.", metavar="KEY"),
    json: o.Json = False,
) -> int:
    """Show a decision of a ledger side by side with its witnesses.

    likewise show decisions.ledger 5942
    """
    from likewise.ledger.loss_events import bound_of
    from likewise.tables.codec import json_value
    from likewise.tables.printing import missing_in_words

    with open_for_reading(ledger) as opened:
        entry = opened.entry(find_row(opened, row, key))
        pairs = [] if entry.erased else _load_pairs(opened, entry)
        bound = bound_of(opened.events(), entry.row)
        slopes = [_slope(opened.question, pair) for pair in pairs] if opened.question else None
    near = None if entry.count is None else entry.facts.near
    if json:
        names = ("row", "key", "time", "erased", "output", "count", "missing_decisions")
        pair_values = [pair.to_dict() for pair in pairs]
        for pair, slope in zip(pair_values, slopes or [], strict=False):
            pair["slope"] = json_value(slope)
        shown = {name: getattr(entry, name) for name in names}
        if near is not None:
            shown["support"] = {"near": near, "agree": near - shown["count"]}
        print_json({**shown, "pairs": pair_values})
        return FINE
    key_text = "" if entry.key is None else f", key {entry.key}"
    say(f"row {entry.row:,}{key_text}, {entry.time}")
    if entry.erased:
        say("It was erased: only its time, its hash and its verdict are left.")
    judged = "not judged"
    if entry.count is not None:
        witnesses = f"{entry.count:,} witness{'es' * (entry.count != 1)}"
        if near is not None:
            witnesses += f" among {near:,} similar case{'s' * (near != 1)}"
        judged = f"{witnesses}, {_describe_range(entry.compared_with)}"
    say(f"{judged}{missing_in_words(entry.missing_decisions, bound=bound)}")
    for i, pair in enumerate(pairs):
        say()
        title = pair.title()
        if slopes is not None:
            title = f"slope {slopes[i]:.6g} against row {pair.witness.row:,}"
        say_lines("\n".join([title, *str(pair).splitlines()[1:]]))
    unseen = (entry.count or 0) - len(pairs)
    if unseen and not entry.erased:
        say()
        say(f"and {unseen:,} more: counted in the verdict, but not stored by name, or erased since")
    return FINE


def _describe_range(over: Any) -> str:
    """Say which rows a verdict compared; `stop` is the first row after them."""
    if over.stop <= over.first:
        return "compared with no row"
    if over.stop == over.first + 1:
        return f"compared with row {over.first:,}"
    return f"compared with rows {over.first:,} to {over.stop - 1:,}"


def _slope(question: Any, pair: Any) -> float:
    return float(question.slope(pair.witness.input_distance, pair.witness.output_distance))


def _load_pairs(ledger: Any, entry: Any) -> list[Any]:
    """Return the decision beside each witness that is still in the ledger."""
    from likewise.reports.selected_pairs import stored_pair

    pairs = (stored_pair(ledger, entry, witness, keys=False) for witness in entry.nearest)
    return [pair for pair in pairs if pair is not None]


def report(
    context: typer.Context,
    ledger: o.LedgerFolder,
    out: Path = o.option(
        "Where to write the page.", default=Path("likewise-report.html"), metavar="PAGE.html"
    ),
    json: o.Json = False,
) -> int:
    """Write a report about a ledger: what contradicts what, since when, and who got less.

    likewise report decisions.ledger --out page.html
    """
    from likewise.auditing.histories import audit_ledger
    from likewise.cli.audit_summary import print_not_shown
    from likewise.reports.finding_words import describe_findings
    from likewise.reports.report_page import write_page

    check_output_path(out, "--out", (".html", ".htm"))
    with open_for_reading(ledger) as opened, progress(f"judging {ledger} again"):
        findings = audit_ledger(opened, o.command_line(context))
    with refuse_unwritable(out):
        write_page(findings, out)
    if json:
        print_json({**findings.to_dict(), "page": str(out)})
        return FINE
    for line in describe_findings(findings):
        say(line)
    print_not_shown(findings)
    say(f"The report: {out}")
    return FINE
