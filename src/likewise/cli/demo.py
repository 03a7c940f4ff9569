"""`likewise demo`: loan decisions with an unfairness planted in them, watched, and what was found.

The monitor sees applicants and answers (loans.py): no model, no district, no reason. It leaves
behind a page, the decisions and the rule, so that other commands can be tried on them.

Invariant: every number that is printed comes from the findings.
Cost: some seconds; where kernels are compiled at run time, the first use waits, and says so.
"""

import sys
import textwrap
import time
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from likewise.cli.screen import progress, say_aside, say_lines

if TYPE_CHECKING:
    from likewise.cli.loans import Row
    from likewise.reports.findings import Findings

REPORT, DATA, RULE_FILE = "likewise-report.html", "likewise-demo.csv", "likewise-demo.toml"
_WIDTH = 78
_BATCH = 500  # decisions watched at a time


def run(folder: Path | None = None) -> int:
    """Make the stream, watch it, tell what was found; files go to `folder`, or where we are."""
    if find_spec("sklearn") is None:
        say_aside(
            "The demo trains a model with scikit-learn, which is not installed:\n"
            "pip install 'likewise[demo]'"
        )
        return 2
    where = folder or Path()
    say_lines(_beginning(), wrap=False)
    sys.stdout.flush()
    from likewise.cli.loans import stream

    rows = stream()
    with progress("watching"):
        findings = watch(rows)
    try:
        _write(where, rows, findings)
    except OSError as error:
        say_aside(
            f"cannot write to {where.resolve()}: {error.strerror or error}. Run the demo in a"
            " folder that may be written to and has room."
        )
        return 2
    say_lines(_told(findings), wrap=False)
    say_lines(_pair(findings), wrap=False)
    say_lines(_NEXT, wrap=False)
    return 0


def watch(rows: "list[Row]") -> "Findings":
    """What a monitor finds in the stream, as it comes in batches."""
    from likewise.cli.loans import RULE
    from likewise.monitors.calibration import calibrate
    from likewise.monitors.monitor import Monitor
    from likewise.reports.findings import Tally
    from likewise.rules.rule import Rule

    began = time.perf_counter()
    rule = Rule.from_toml(RULE)
    monitor = Monitor(rule)
    tally = Tally(monitor)
    for start in range(0, len(rows), _BATCH):
        batch = rows[start : start + _BATCH]
        tally.add(monitor.observe_many(batch), times=[row["applied"] for row in batch])
    seconds = time.perf_counter() - began
    return tally.findings(
        source=f"{DATA} (generated loan decisions)",
        calibration=calibrate(rule, rows),
        seconds=seconds,
    )


def _write(folder: Path, rows: "list[Row]", findings: "Findings") -> None:
    from likewise.cli.loans import RULE, write_csv
    from likewise.reports.page import write_page
    from likewise.reports.whole import whole
    from likewise.values.errors import BadFile

    with whole(folder / DATA) as file:
        write_csv(rows, file)
    with whole(folder / RULE_FILE) as file:
        file.write(RULE.encode())
    try:
        write_page(findings, folder / REPORT)
    except BadFile as error:
        raise OSError(str(error)) from None


# What is printed


def _paragraph(words: str, indent: str = "") -> str:
    return textwrap.fill(words, _WIDTH, initial_indent=indent, subsequent_indent=" " * len(indent))


def _beginning() -> str:
    from likewise.cli.loans import DECISIONS, UPDATED_ON

    watched = f"{DECISIONS:,} loan decisions of a model, watched in order of arrival."
    planted = (
        f"Planted: on {UPDATED_ON} the model is trained anew and now sees the district, too. The"
        " past decisions that it learns from were unfair to people born abroad. Most of them live"
        " in two districts: the model is never told who was born where, and learns it all the same."
        " The monitor sees applicants and answers only."
    )
    return f"{_paragraph(watched)}\n\n{_paragraph(planted)}\n"


def _told(findings: "Findings") -> str:
    from likewise.cli.loans import UPDATED_ON
    from likewise.reports.words import found_in_words, in_words, percent

    lines = ["What counts as alike", ""]
    for words in in_words(findings.rule):
        lines.append(_paragraph(words.removeprefix("- "), "    - " if words[0] == "-" else "  "))
    lines += ["", "What was found", ""]
    before = [one for one in findings.by_time if str(one.start) < UPDATED_ON.isoformat()]
    after = findings.by_time[len(before) :]
    rates = [
        sum(one.flagged for one in part) / sum(one.decisions for one in part)
        for part in (before, after)
    ]
    first, *rest = found_in_words(findings)
    change = (
        f"Before the model was trained anew it was {percent(rates[0])} of the decisions, since then"
        f" {percent(rates[1])}."
    )
    lines += [_paragraph(one, "  ") for one in (first, change, *rest)]
    return "\n".join(lines) + "\n"


def _pair(findings: "Findings") -> str:
    clearest = "\n".join(f"  {line}" for line in str(findings.worst[0].pair).splitlines())
    return f"The clearest pair (* where they differ)\n\n{clearest}\n"


_NEXT = f"""\
Written here

  {REPORT:<21} a page with all of it, to open in a browser
  {DATA:<21} the decisions
  {RULE_FILE:<21} the rule

Try next

  likewise init {DATA}
  likewise audit {DATA} --rule {RULE_FILE}
  likewise calibrate {DATA} --rule {RULE_FILE}"""
