"""`likewise report`: write a page about what a ledger holds."""

from pathlib import Path
from typing import Annotated

import typer

from likewise.cli import options as o
from likewise.cli.exit_codes import FINE
from likewise.cli.open_ledger import open_for_reading
from likewise.cli.output_files import check_output_path, refuse_unwritable
from likewise.cli.terminal import print_json, progress, say


def report(
    context: typer.Context,
    ledger: o.LedgerFolder,
    out: Annotated[Path, typer.Option(metavar="PAGE.html", help="Where to write the page.")] = Path(
        "likewise-report.html"
    ),
    json: o.Json = False,
) -> int:
    """Write a page about a ledger: what contradicts what, since when, and at whose cost.

    likewise report decisions.ledger --out page.html
    """
    from likewise.audit.histories import audit_ledger
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
    say(f"The report: {out}")
    return FINE
