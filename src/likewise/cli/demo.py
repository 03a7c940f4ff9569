"""`likewise demo`: watch loan decisions with a planted unfairness, and print what was found.

The monitor sees applicants and answers (demo_loans.py), but no model, district or reason. The demo
writes a page, the decisions and the rule, so that other commands can be tried on them.
Invariant: every number that is printed comes from the findings.
Cost: some seconds; where kernels are compiled at run time, the first use waits for that.
"""

import asyncio
import sys
import tempfile
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from likewise.auditing.demo_findings import DATA, watch_rows
from likewise.auditing.demo_loans import (
    DECISIONS,
    RULE,
    UPDATED,
    UPDATED_ON,
    Row,
    generate_decisions,
    to_csv,
)
from likewise.cli.exit_codes import CommandError
from likewise.cli.terminal import print_json, progress, say_lines, say_on_stderr
from likewise.errors import BadFile
from likewise.monitor.readers.protocol import Decision
from likewise.reports.finding_words import describe_findings
from likewise.reports.findings import Findings
from likewise.reports.report_page import write_page
from likewise.runtime.private_files import write_atomically
from likewise.tables.printing import percent

SECONDS = 120.0
MONITOR = "loans"
MODELS = ("2026-01", "2026-04")
_A_STEP = 0.1  # seconds between decisions that come together


# `likewise demo --serve`: the demo's decisions arrive in a service, and pages show them. They
# arrive over two minutes. A little after half of that the second model takes over, as on the day in
# April in the report, and the rate rises above its usual band.
# Invariant: nothing stays; the ledger is in a temporary folder that is removed with the command.


class ArrivingDecisions:
    """Sends decisions to a service; it is a module of `App` without routes."""

    OPERATIONS = ()

    def __init__(self, rows: Sequence[Row], updated: int, seconds: float = SECONDS) -> None:
        """updated: the row from which the second model answers"""
        self._rows, self._updated, self._seconds = rows, updated, seconds

    def routes(self, app: Any) -> list[Any]:
        self._service = app.service
        app.service.background_tasks.append(self.run)
        return []

    async def run(self) -> None:
        """Send all decisions, as evenly as the machine allows."""
        while not self._service.ready:
            await asyncio.sleep(_A_STEP)
        served = self._service.get_monitor(MONITOR)
        loop, rows = asyncio.get_running_loop(), self._rows
        begun, sent = loop.time(), 0
        while sent < len(rows) and not self._service.stopping:
            share = (loop.time() - begun) / self._seconds if self._seconds else 1.0
            due = min(len(rows), int(len(rows) * share))
            if due > sent:
                await served.observe_each([self._decision(i) for i in range(sent, due)])
                sent = due
            await asyncio.sleep(_A_STEP)
        say_on_stderr(
            "likewise: all decisions have arrived; the pages stay until you press Ctrl-C."
        )

    def _decision(self, i: int) -> Any:
        return Decision(self._rows[i], model=MODELS[i >= self._updated])


def serve_demo(port: int, *, seconds: float = SECONDS) -> int:
    """Serve the demo until the process is stopped."""
    try:
        from likewise.pages import page_router
        from likewise.service.running import serve
    except ModuleNotFoundError as error:
        raise CommandError(
            f"{error.name} is missing: pip install '.[serve]' in the clone of likewise."
        ) from None
    from likewise.service.settings import MonitorSettings, ServerSettings, ServiceSettings

    rows = generate_decisions()
    say_lines(
        f"{DECISIONS:,} loan decisions will arrive within {seconds:g} seconds. From row {UPDATED:,}"
        f" on, which was decided on {UPDATED_ON}, another model decides: watch the rate."
    )
    with tempfile.TemporaryDirectory(prefix="likewise-demo-") as folder:
        rule = Path(folder) / "loans.toml"
        rule.write_text(RULE, encoding="utf-8")
        monitor_settings = MonitorSettings(rule=rule, ledger=Path(folder) / "loans.ledger")
        settings = ServiceSettings({MONITOR: monitor_settings}, server=ServerSettings(port=port))

        def tell(line: str) -> None:
            where = line.partition("listening on ")[2]
            say_on_stderr(f"likewise: open {where}/ in a browser" if where else f"likewise: {line}")

        serve(settings, tell, [page_router, ArrivingDecisions(rows, UPDATED, seconds)])
    return 0


REPORT, RULE_FILE = "likewise-report.html", "likewise-demo.toml"
_WIDTH = 78


def run_demo(folder: Path, *, as_json: bool = False, command: str | None = None) -> int:
    """Make the stream, watch it, print what was found, and write files to `folder`.

    command: the whole command line, for the report.
    """
    if not as_json:
        say_lines(_describe_stream(), wrap=False)
        sys.stdout.flush()
    rows = generate_decisions()
    with progress("watching"):
        findings = watch_rows(rows, command)
    try:
        kept_files = _write_files(folder, rows, findings)
    except OSError as error:
        say_on_stderr(
            f"cannot write to {folder.resolve()}: {error.strerror or error}. Run the demo in a"
            " folder that is writable and has room."
        )
        return 2
    if as_json:
        print_json({**findings.to_dict(), "folder": str(folder), "files": kept_files})
        return 0
    for part in _describe_findings(findings), _describe_next_steps(kept_files):
        say_lines(part, wrap=False)
    return 0


def _write_files(folder: Path, rows: list[Row], findings: Findings) -> list[str]:
    """Write the page, the decisions and the rule; return the names of files that were kept.

    A rule or data that somebody has changed since an earlier demo is kept: the demo's own file is
    written beside it.
    """
    kept_files = []
    for name, content in ((DATA, to_csv(rows)), (RULE_FILE, RULE.encode())):
        path = folder / name
        if path.is_file() and not path.is_symlink() and path.read_bytes() != content:
            kept_files.append(name)
            path = path.with_stem(f"{path.stem}-new")
        with write_atomically(path) as file:
            file.write(content)
    try:
        write_page(findings, folder / REPORT)
    except BadFile as error:
        raise OSError(str(error)) from None
    return kept_files


# What is printed


def _paragraph(words: str, indent: str = "") -> str:
    return textwrap.fill(words, _WIDTH, initial_indent=indent, subsequent_indent=" " * len(indent))


def _describe_stream() -> str:
    watched = f"{DECISIONS:,} loan decisions of a model, watched in order of arrival."
    planted = (
        f"The planted flaw: on {UPDATED_ON} the model is retrained and now sees the district, too."
        " The past decisions that it learns from were unfair to people born abroad. Most of them"
        " live in two districts: the model never sees who was born where, but infers it from the"
        " district. The monitor sees only applicants and answers."
    )
    return f"{_paragraph(watched)}\n\n{_paragraph(planted)}\n"


def _describe_findings(findings: Findings) -> str:
    lines = ["What counts as similar", ""]
    for words in findings.rule.explain().lines:
        lines.append(_paragraph(words.removeprefix("- "), "    - " if words[0] == "-" else "  "))
    lines += ["", "What was found", ""]
    before = [span for span in findings.by_time if str(span.start) < UPDATED_ON.isoformat()]
    after = findings.by_time[len(before) :]
    rates = [
        sum(span.violations for span in part) / max(1, sum(span.of for span in part))
        for part in (before, after)
    ]
    change = (
        f"Before the model was retrained, {percent(rates[0])} of the comparable decisions"
        f" contradicted an earlier one; since then {percent(rates[1])}."
    )
    lines += [_paragraph(text, "  ") for text in (*describe_findings(findings), change)]
    lines += ["", "The clearest pair (* where they differ)", ""]
    lines += [f"  {line}" for line in str(findings.worst[0].pair).splitlines()]
    return "\n".join(lines) + "\n"


_FILE_DESCRIPTIONS = {
    REPORT: "a page with all of this, to open in a browser",
    DATA: "the decisions",
    RULE_FILE: "the rule",
}


def _describe_next_steps(kept_files: list[str]) -> str:
    """Say what was written, and what to try; `kept_files` were changed and not replaced."""
    names = {name: f"{Path(name).stem}-new{Path(name).suffix}" for name in kept_files}
    lines = ["Written here", ""]
    lines += [f"  {names.get(name, name):<23} {what}" for name, what in _FILE_DESCRIPTIONS.items()]
    for name, new in names.items():
        kept_text = f"{name} was changed since it was written, so it was kept: the demo's own is"
        lines += ["", _paragraph(f"{kept_text} {new}.")]
    data, rule = names.get(DATA, DATA), names.get(RULE_FILE, RULE_FILE)
    lines += ["", "Watch it happen in a browser", "", "  likewise demo --serve"]
    lines += ["", "Try next", "", f"  likewise init {data}"]
    lines += [f"  likewise {command} {data} --rule {rule}" for command in ("audit", "calibrate")]
    return "\n".join(lines)
