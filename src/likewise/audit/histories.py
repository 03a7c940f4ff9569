"""Histories to be compared: a file, the rows of one model in it, or a ledger, each judged alone.

Each has a monitor of its own, so no decision of one is compared with a decision of the other.

Cost: the history in memory, with all its contradicting pairs.
"""

from contextlib import ExitStack
from dataclasses import replace

from likewise.audit.feeding import Decisions, OpenAgain
from likewise.audit.ledgers import evidence_of_ledger, judged_again
from likewise.audit.options import AuditOptions, settings_of
from likewise.audit.pipeline import Progress
from likewise.intake.binding import Binding, judge_with
from likewise.intake.models import models_in
from likewise.ledger.ledger import Ledger
from likewise.monitors.monitor import Monitor
from likewise.monitors.rejudge import monitor_again
from likewise.reports.evidence import computed
from likewise.reports.judged_history import HistoryTally, JudgedHistory
from likewise.runtime.load import Load
from likewise.sources.files import DecisionFile
from likewise.values.errors import BadFile


def judge_history(
    source: DecisionFile,
    binding: Binding,
    options: AuditOptions,
    stack: ExitStack,
    *,
    name: str,
    again: OpenAgain,
    progress: Progress,
    model: tuple[str, str] | None = None,
    numbered: bool,
) -> JudgedHistory:
    """Judge a file by a monitor of its own, which is open as long as the stack.

    model     a column and a model, whose rows alone are judged
    numbered  whether a case is told by the number of its decision, where there are no keys
    """
    decisions, tally = Decisions(source, binding, options, again, model), HistoryTally()
    monitor = stack.enter_context(Monitor(binding.rule, comparable=True, within=options.within))
    judge = judge_with(monitor, binding, lambda rows: settings_of(options, rows))
    for part in decisions.judged(judge):
        tally.add(part.answer, part.rows.places)
        progress(*source.progress, f"{len(monitor):,} decisions")
    evidence = decisions.evidence()
    if model is not None:
        evidence = replace(evidence, source=f"{source.name}, {name}")
    return tally.history(
        name,
        monitor.past,
        computed(evidence, monitor.rule, monitor.explain(), None),
        keys=None if binding.key is None else monitor.past.keys(range(monitor.rows)),
        bad_rows=decisions.refused.count,
        columns=binding.inputs or None,
        numbered=numbered,
    )


def judge_ledger(ledger: Ledger, name: str, command: str | None, stack: ExitStack) -> JudgedHistory:
    """Judge what a ledger holds once more, by a monitor that is open as long as the stack."""
    load, tally = Load(), HistoryTally()
    monitor = stack.enter_context(monitor_again(ledger, comparable=True))
    keys: list[object] = []
    for part in judged_again(ledger, monitor):
        if part.windowed:
            raise BadFile(
                f"the ledger {ledger.path} has a window, so its decisions were compared with a part"
                " of the past: such a rate cannot be compared. Compare the files of decisions."
            )
        tally.add(part.verdicts, part.places)
        keys += part.keys if part.keys is not None else [None] * len(part.places)
    if not keys:
        raise BadFile(f"the ledger {ledger.path} has no decisions, so there is nothing to compare.")
    evidence = evidence_of_ledger(ledger, command, load)
    return tally.history(
        name,
        monitor.past,
        computed(evidence, monitor.rule, monitor.explain(), None),
        keys=keys if any(key is not None for key in keys) else None,
    )


def models_of(source: DecisionFile, column: str) -> list[str]:
    """Return the models that decided, in the order in which they turn up."""
    found: dict[str, None] = {}
    for chunk in source.chunks({column: "text"}, [column]):
        found.update(dict.fromkeys(one for one in models_in(chunk.table, column) if one))
    return list(found)
