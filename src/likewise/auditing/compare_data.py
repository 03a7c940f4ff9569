"""Compares two histories from Python, and for `likewise compare`: files, tables, ledgers or models.

A side is a file, a table, a ledger, or the rows of one file that a model decided (histories.py).
Cost: a file with a column of models is read once for their names and once for each of the two.
"""

import os
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from likewise.auditing.histories import judge_history, judge_ledger, models_of
from likewise.auditing.job import AuditOptions, Progress, ignore_progress
from likewise.auditing.opened_data import (
    AnyPath,
    bind_columns,
    load_rule,
    open_data,
    open_ledger,
)
from likewise.errors import BadRule, BadTable
from likewise.ledger.ledger import Ledger
from likewise.reports.compare_page import compare_page
from likewise.reports.compare_words import describe_comparison
from likewise.reports.comparison import Comparison
from likewise.reports.comparison import compare as compare_histories
from likewise.reports.document import save_result
from likewise.reports.judged_history import JudgedHistory
from likewise.rule.rule import Rule
from likewise.sources.binding import Binding
from likewise.sources.file_source import DecisionFile
from likewise.sources.time_columns import DayOrder
from likewise.verdict.html import render_in_notebook

_MODELS_SHOWN = 12  # in a message


@dataclass(frozen=True, eq=False, repr=False)
class HistoryComparison:
    """Holds what a comparison of two histories found."""

    findings: Comparison
    """All numbers."""

    @property
    def headline(self) -> tuple[str, ...]:
        """What was found, in sentences, the most important first."""
        return tuple(describe_comparison(self.findings))

    def to_html(self) -> str:
        """Return the page of the comparison: one self-contained document."""
        return compare_page(self.findings)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the page to a file that ends in .html, or the numbers to one in .json."""
        save_result(path, self.to_html, self.to_dict)

    def to_dict(self) -> dict[str, Any]:
        """Return what `likewise compare --json` prints: plain values for JSON."""
        return self.findings.to_dict()

    def __str__(self) -> str:
        return "\n".join(self.headline)

    def __repr__(self) -> str:
        found = self.findings
        return (
            f"<Comparison of {found.one.compared:,} and {found.other.compared:,} decisions:"
            f" {found.new.count:,} contradicting pairs new, {found.gone.count:,} gone,"
            f" {found.persisting.count:,} persisting>"
        )

    def _repr_html_(self) -> str | None:
        rule = self.findings.rule.explain()
        return render_in_notebook(
            "auditing/audit.html", sentences=self.headline, rule=rule, groups=()
        )


@dataclass(frozen=True, kw_only=True)
class ComparisonJob:
    """Says how the sides of a comparison are opened, bound and judged.

    open      opens a side, quietly or not
    bind      binds a rule to the columns of a side: its own, or that of a ledger
    rule      the rule that ledgers must have, if there is one, and `rule_name` in messages
    progress  shows that a side is judged
    """

    open: Callable[[Any, bool], AbstractContextManager[DecisionFile]]
    bind: Callable[[DecisionFile, Rule | None], Binding]
    rule: Rule | None = None
    rule_name: str = "the rule"
    options: AuditOptions
    progress: Callable[[str], AbstractContextManager[Progress]] = lambda _: nullcontext(
        ignore_progress
    )

    def compare_two(self, sides: Sequence[Any], names: Sequence[str]) -> HistoryComparison:
        """Compare two files, tables or ledgers."""
        if all(isinstance(side, str) and side == "-" for side in sides):
            raise BadRule("standard input is one file; expected another beside it.")
        with ExitStack() as stack:
            ledgers = [
                None if opened is None else stack.enter_context(opened)
                for opened in map(open_ledger, sides)
            ]
            rule = self._find_ledger_rule([one for one in ledgers if one is not None])
            judged = []
            for side, name, ledger in zip(sides, names, ledgers, strict=True):
                if ledger is None:
                    numbered = rule is not None
                    judged.append(self._judge(side, name, stack, rule, numbered=numbered))
                    continue
                with self.progress(f"judging {ledger.path} again"):
                    judged.append(judge_ledger(ledger, name, self.options.command, stack))
            return self._compare(judged)

    def compare_models(
        self, data: Any, column: str, first: str | None, second: str | None
    ) -> HistoryComparison:
        """Compare two models within a file or a table."""
        if open_ledger(data) is not None or (isinstance(data, str) and data == "-"):
            raise BadRule("--model-column needs a file that can be read twice; expected its name.")
        models = self._choose_models(data, column, first, second)
        with ExitStack() as stack:
            judged = [
                self._judge(
                    data,
                    f"{column} {model}",
                    stack,
                    model=(column, model),
                    quiet=model != models[0],
                )
                for model in models
            ]
            return self._compare(judged, column)

    def _compare(
        self, judged: Sequence[JudgedHistory], column: str | None = None
    ) -> HistoryComparison:
        one, other = judged
        command = self.options.command
        return HistoryComparison(compare_histories(one, other, column=column, command=command))

    def _find_ledger_rule(self, ledgers: Sequence[Ledger]) -> Rule | None:
        """Return the rule of the ledgers, if any; raise BadRule if another side has another."""
        if not ledgers:
            return None
        if self.options.time_column is not None:
            raise BadRule(
                "--time-column is about files; a ledger has its own order, that of arrival."
            )
        rules = [ledger.rule for ledger in ledgers] + [self.rule] * (self.rule is not None)
        for rule in rules[1:]:
            assert rule is not None
            if not rule.is_same_except_models(ledgers[0].rule):
                other = self.rule_name if len(ledgers) < 2 else ledgers[1].path
                raise BadRule(
                    f"the ledger {ledgers[0].path} has another rule than {other}: contradictions"
                    " under two rules cannot be compared. Begin a ledger under the other's rule."
                )
        _refuse_across(ledgers[0].rule)
        return ledgers[0].rule

    def _judge(
        self,
        data: Any,
        name: str,
        stack: ExitStack,
        ledger_rule: Rule | None = None,
        model: tuple[str, str] | None = None,
        *,
        numbered: bool = True,
        quiet: bool = False,
    ) -> JudgedHistory:
        """Judge a file or a table; quiet: remarks on how it was read were made already."""
        with self.open(data, quiet) as source, self.progress(f"judging {name}") as progress:
            binding = self.bind(source, ledger_rule)
            _refuse_across(binding.rule)
            return judge_history(
                source,
                binding,
                self.options,
                stack,
                name=name,
                reopen=lambda: self.open(data, True),
                progress=progress,
                model=model,
                numbered=numbered,
            )

    def _choose_models(
        self, data: Any, column: str, first: str | None, second: str | None
    ) -> tuple[str, str]:
        """Return the two models of a file: those named, else the only two, in order of lines."""
        with self.open(data, True) as source:
            if column not in (*source.columns, *source.left_out):
                raise BadTable(
                    f"--model-column {column} is no column of {source.name}.", path=source.name
                )
            models = models_of(source, column)
            path = source.name
        listed = ", ".join(map(repr, models[:_MODELS_SHOWN]))
        listed += ", …" * (len(models) > _MODELS_SHOWN)
        chosen = [first, second]
        for option, model in zip(("--first", "--second"), chosen, strict=True):
            if model is not None and model not in models:
                raise BadTable(f"{option} is {model!r}; {column} has {listed}.", path=path)
        rest = [model for model in models if model not in chosen]
        unnamed = chosen.count(None)
        if unnamed and len(rest) != unnamed:
            text = (
                f"{column} has {len(models):,} value{'s' * (len(models) != 1)}: {listed}; expected"
                " two models. Name those to compare with --first and --second."
            )
            raise BadTable(text, path=path) if len(models) < 2 else BadRule(text)
        one, other = (model if model is not None else rest.pop(0) for model in chosen)
        if one == other:
            raise BadRule(f"--first and --second are both {one!r}; expected two models.")
        return one, other


def _refuse_across(rule: Rule) -> None:
    if rule.compare == "across":
        raise BadRule(
            'the rule has compare = "across", and each history is judged by itself, so that nothing'
            " could be compared. For decisions of several models beside each other: likewise audit"
            " --model-column."
        )


def name_sides(a: Any, b: Any) -> tuple[str, str]:
    """Return what two sides are called: the names of files, or whole paths if these are equal."""
    sides = [
        one.path if isinstance(one, Ledger) else one if isinstance(one, str | os.PathLike) else name
        for one, name in zip((a, b), ("a", "b"), strict=True)
    ]
    one, other = (Path(side).name for side in sides)
    return (str(sides[0]), str(sides[1])) if one == other else (one, other)


def compare(
    a: Any,
    b: Any = None,
    rule: Rule | AnyPath | None = None,
    *,
    model_column: str | None = None,
    first: str | None = None,
    second: str | None = None,
    output_column: str | None = None,
    ignore: Sequence[str] = (),
    time_column: str | None = None,
    within: str | None = None,
    dates: DayOrder | None = None,
    skip_bad_rows: bool = False,
    **reading: Any,
) -> HistoryComparison:
    """Compare two models, versions or times: does one contradict itself more often, and where?

    a, b          frames, lists of rows, files or ledgers, as for `lw.audit`; b is None to compare
                  two models within `a`
    rule          a `Rule`, or the file of one; ledgers have their own
    model_column  the column that says which model decided, to compare two within `a`: `first` with
                  `second`, or the only two

    The other options are those of `lw.audit`. Each history is judged by itself, under the same
    rule; no decision of one is compared with a decision of the other. The longer one is cut to the
    length of the shorter.
    """
    if (b is None) == (model_column is None):
        raise BadRule("what is to be compared? Expected a and b, or a and model_column")
    given = None if rule is None else load_rule(rule)
    extra = [name for name in (time_column, model_column) if name is not None]

    def bind(source: DecisionFile, ledger_rule: Rule | None) -> Binding:
        bound = load_rule(given if ledger_rule is None else ledger_rule)
        return bind_columns(bound, source, output_column, ignore, extra)

    job = ComparisonJob(
        open=lambda data, quiet: open_data(data, reading),
        bind=bind,
        rule=given,
        options=AuditOptions(time_column, dates, within, skip=skip_bad_rows),
    )
    if model_column is not None:
        return job.compare_models(a, model_column, first, second)
    return job.compare_two((a, b), name_sides(a, b))
