"""What `likewise compare` does between its options and telling: two histories, judged apart.

A side is a file, a ledger, or the rows of one file that a model decided. Each has a monitor of its
own, so no decision of one is compared with a decision of the other.

Cost: both histories at once in memory, with all their contradicting pairs. A file with a column of
models is read once for their names and once for each of the two.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from likewise.cli.auditing import Ties, order_of, skipped_of
from likewise.cli.endings import DATA, USAGE, Stop
from likewise.cli.feeding import Chunks, Refusals, feed
from likewise.cli.ledgers import evidence_of, judged_again, look
from likewise.cli.reading import Reading
from likewise.cli.rules import Quick, ask, read_rule
from likewise.cli.screen import progress
from likewise.intake.binding import judge_with
from likewise.intake.favourable import OutputsSeen
from likewise.intake.models import models_in
from likewise.ledger.ledger import Ledger
from likewise.monitors.monitor import Monitor
from likewise.monitors.rejudge import monitor_again
from likewise.reports.comparison import Comparison, compare
from likewise.reports.evidence import Evidence, computed
from likewise.reports.judged_history import HistoryTally, JudgedHistory
from likewise.rules.rule import Rule
from likewise.runtime.load import Load
from likewise.sources.chunk import Chunk, Refused, Types
from likewise.sources.time_order import InTimeOrder

_NAMES = 12  # models in a message


@dataclass(frozen=True)
class Wanted:
    """What is to be compared, and how it is read."""

    a: str
    b: str | None
    rule: Path | None
    quick: Quick
    reading: Reading
    column: str | None = None
    first: str | None = None
    second: str | None = None
    time_column: str | None = None
    within: str | None = None
    trust_code: bool = False
    command: str | None = None

    def __post_init__(self) -> None:
        if self.within is not None and self.time_column is None:
            raise Stop("--within is about times: say --time-column.")
        if (self.b is None) == (self.column is None):
            raise Stop(
                "what is to be compared? Give two files or ledgers, A and B; or one file and"
                " --model-column, the column that says which model decided."
            )
        if self.column is None and (self.first is not None or self.second is not None):
            raise Stop("--first and --second name models: say --model-column, too.")

    @property
    def beside(self) -> tuple[str, ...]:
        """Columns that are read, whether the rule knows them or not."""
        return tuple(name for name in (self.time_column, self.column) if name is not None)


def compared(wanted: Wanted) -> Comparison:
    """Both sides judged, and compared."""
    with ExitStack() as stack:
        if wanted.column is not None:
            one, other = _of_one_file(wanted, wanted.column, stack)
        else:
            assert wanted.b is not None
            one, other = _of_two(wanted, wanted.a, wanted.b, stack)
        return compare(one, other, column=wanted.column, command=wanted.command)


# Two files or ledgers


def _of_two(
    wanted: Wanted, a: str, b: str, stack: ExitStack
) -> tuple[JudgedHistory, JudgedHistory]:
    if a == b == "-":
        raise Stop("standard input is one file; expected another beside it.")
    names = Path(a).name, Path(b).name
    if names[0] == names[1]:
        names = a, b
    ledgers = [
        stack.enter_context(look(Path(one))) if Path(one).is_dir() else None for one in (a, b)
    ]
    known = _rule_of(wanted, ledgers)
    if known is not None:
        _refuse_across(known)
    sides = [
        _of_file(wanted, path, name, known, stack, numbered=known is not None)
        if ledger is None
        else _of_ledger(wanted, ledger, name, stack)
        for path, name, ledger in zip((a, b), names, ledgers, strict=True)
    ]
    return sides[0], sides[1]


def _rule_of(wanted: Wanted, ledgers: Sequence[Ledger | None]) -> Rule | None:
    """The rule of the ledgers, if there are any; stop if it is not that of all sides."""
    opened = [ledger for ledger in ledgers if ledger is not None]
    if not opened:
        return None
    if wanted.time_column is not None:
        raise Stop("--time-column is about files; a ledger has its own order, that of arrival.")
    if wanted.quick != Quick():
        raise Stop("a ledger has a rule of its own: leave out --metric, --epsilon and the like.")
    rules = [ledger.rule for ledger in opened]
    if wanted.rule is not None:
        rules.append(read_rule(wanted.rule, trust_code=wanted.trust_code))
    for rule in rules[1:]:
        if not rule.same_but_for_models(rules[0]):
            raise Stop(
                f"the ledger {opened[0].path} has another rule than"
                f" {wanted.rule if len(opened) < 2 else opened[1].path}: contradictions under two"
                " rules cannot be compared. Begin a ledger under the other's rule.",
            )
    return rules[0]


def _of_ledger(wanted: Wanted, ledger: Ledger, name: str, stack: ExitStack) -> JudgedHistory:
    began, load, tally = time.perf_counter(), Load(), HistoryTally()
    stack.enter_context(progress(f"judging {ledger.path} again"))
    monitor = stack.enter_context(monitor_again(ledger, comparable=True))
    keys: list[Any] = []
    for part in judged_again(ledger, monitor):
        if part.windowed:
            raise Stop(
                f"the ledger {ledger.path} has a window, so its decisions were compared with a part"
                " of the past: such a rate cannot be compared. Compare the files of decisions.",
                DATA,
            )
        tally.add(part.verdicts, part.places)
        keys += part.keys if part.keys is not None else [None] * len(part.places)
    _insist_on_some(len(keys), f"the ledger {ledger.path}")
    took = time.perf_counter() - began
    evidence = evidence_of(ledger, wanted.command, took, load.so_far())
    return tally.history(
        name,
        monitor.past,
        computed(evidence, monitor.rule, monitor.explain(), None),
        keys=keys if any(key is not None for key in keys) else None,
    )


def _insist_on_some(decisions: int, named: str) -> None:
    if decisions == 0:
        raise Stop(f"{named} has no decisions, so there is nothing to compare.", DATA)


# Files


def _of_file(
    wanted: Wanted,
    path: str,
    name: str,
    known: Rule | None,
    stack: ExitStack,
    model: str | None = None,
    *,
    numbered: bool,
    quiet: bool = False,
) -> JudgedHistory:
    """A file through a monitor of its own; with a model, its rows only.

    numbered  whether a case is told by the number of its decision, where there are no keys
    quiet     whether remarks on how the file was read were said already
    """
    began, load, tally = time.perf_counter(), Load(), HistoryTally()
    reading = wanted.reading
    opened = reading.open_again(path) if quiet else reading.open(path)
    with opened as source, progress(f"judging {name}") as bar:
        binding = ask(
            wanted.rule if known is None else None,
            wanted.quick,
            source.columns,
            source.name,
            wanted.beside,
            known,
            left_out=source.left_out,
            trust_code=wanted.trust_code,
        )
        _refuse_across(binding.rule)
        bad, ties = Refusals(source, reading.skip), Ties()
        in_order: InTimeOrder | None = None
        if wanted.time_column is not None:
            in_order = InTimeOrder(
                source,
                wanted.time_column,
                again=lambda: reading.open_again(path),
                dates=reading.day_order,
            )
        rows: Chunks | None = in_order
        if wanted.column is not None and model is not None:
            rows = _OfModel(in_order or source, wanted.column, model)
        monitor = stack.enter_context(Monitor(binding.rule, comparable=True, within=wanted.within))
        outputs = OutputsSeen(binding.rule)
        judge = judge_with(
            monitor, binding, lambda some: {} if wanted.within is None else {"times": some.times}
        )
        for part in feed(source, binding, judge, bad, rows):
            tally.add(part.answer, part.rows.places)
            ties.add(part.rows)
            outputs.add(part.rows.table)
            bar.update(*source.progress, f"{len(monitor):,} decisions")
        outputs.check(source.name)
        digest = source.digest()
        evidence = Evidence(
            source.name if model is None else f"{source.name}, {name}",
            order_of(wanted.time_column, wanted.within, in_order, ties.count),
            digest.sha256,
            digest.size,
            wanted.command,
            source.unit,
            tuple(map(str, source.remarks)),
            *skipped_of(bad),
            seconds=time.perf_counter() - began,
            load=load.so_far(),
        )
    keys = None if binding.key is None else monitor.past.keys(range(monitor.rows))
    return tally.history(
        name,
        monitor.past,
        computed(evidence, monitor.rule, monitor.explain(), None),
        keys=keys,
        bad_rows=bad.count,
        columns=binding.inputs or None,
        numbered=numbered,
    )


def _refuse_across(rule: Rule) -> None:
    if rule.compare == "across":
        raise Stop(
            'the rule has compare = "across", and each history is judged by itself, so that nothing'
            " could be compared. For decisions of several models beside each other: likewise audit"
            " --model-column."
        )


# One file with a column of models


def _of_one_file(
    wanted: Wanted, column: str, stack: ExitStack
) -> tuple[JudgedHistory, JudgedHistory]:
    if wanted.a == "-" or Path(wanted.a).is_dir():
        raise Stop("--model-column needs a file that can be read twice; expected its name.")
    models = _models(wanted, column)
    sides = [
        _of_file(
            wanted, wanted.a, f"{column} {model}", None, stack, model, numbered=True, quiet=i > 0
        )
        for i, model in enumerate(models)
    ]
    return sides[0], sides[1]


def _models(wanted: Wanted, column: str) -> tuple[str, str]:
    """The two models of a file: those named, else the only two, in the order of lines."""
    found: dict[str, None] = {}
    with wanted.reading.open_again(wanted.a) as source:
        if column not in (*source.columns, *source.left_out):
            raise Stop(f"--model-column {column} is no column of {source.name}.", DATA)
        for chunk in source.chunks({column: "text"}, [column]):
            found.update(dict.fromkeys(one for one in models_in(chunk.table, column) if one))
    models = list(found)
    listed = ", ".join(map(repr, models[:_NAMES])) + ", …" * (len(models) > _NAMES)
    chosen = [wanted.first, wanted.second]
    for option, model in zip(("--first", "--second"), chosen, strict=True):
        if model is not None and model not in found:
            raise Stop(f"{option} is {model!r}; {column} has {listed}.", DATA)
    rest = [model for model in models if model not in chosen]
    unnamed = chosen.count(None)
    if unnamed and len(rest) != unnamed:
        raise Stop(
            f"{column} has {len(models):,} value{'s' * (len(models) != 1)}: {listed}; expected two"
            " models. Name those to compare with --first and --second.",
            DATA if len(models) < 2 else USAGE,
        )
    one, other = (model if model is not None else rest.pop(0) for model in chosen)
    if one == other:
        raise Stop(f"--first and --second are both {one!r}; expected two models.")
    return one, other


class _OfModel:
    """Rows of one model; those without a model are refused."""

    def __init__(self, rows: Chunks, column: str, model: str) -> None:
        self._rows, self._column, self._model = rows, column, model

    def chunks(self, types: Types, wanted: Sequence[str]) -> Iterator[Chunk]:
        for chunk in self._rows.chunks(types, wanted):
            models = models_in(chunk.table, self._column)
            why = f"{self._column!r} is missing, so no model decided it"
            unknown = [
                Refused(place, why, "missing-value", self._column)
                for place, model in zip(chunk.places.tolist(), models, strict=True)
                if model is None
            ]
            mine = np.array([model == self._model for model in models], np.bool_)
            table = chunk.table
            yield Chunk(
                [row for row, one in zip(table, mine, strict=True) if one]
                if isinstance(table, list)
                else table.filter(mine),
                chunk.places[mine],
                (*chunk.refused, *unknown),
                None if chunk.times is None else chunk.times[mine],
            )
