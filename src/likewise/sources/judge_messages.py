"""Messages to verdicts: rows bound to the rule's columns, judged and stored with their positions.

Lines of standard input have no position that a ledger could go on from. Under a rule without a key
column their numbers are their keys there, so a line that is sent again is known.

Invariant: what `judge` is given is one transaction. A message has one position; of several
decisions in it the last one carries it, and they are stored together or not at all.
Not here: where messages come from (sources/), and what becomes of answers (sinks.py).
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from typing import Any, TypeAlias

from likewise.errors import BadDecision, BadRule, BadTable
from likewise.ledger.ledger import Ledger
from likewise.monitor.monitor import Monitor
from likewise.rule.rule import Rule
from likewise.sources.binding import Binding, bind_features, bind_vectors, read_models
from likewise.sources.json_lines import number_columns
from likewise.sources.line_source import STANDARD_INPUT
from likewise.sources.stream_messages import Messages
from likewise.tables.positions import Position
from likewise.verdict.verdicts import Verdicts

BindColumns: TypeAlias = Callable[[list[str]], Binding]
"""Binds the rule to these columns; BadTable if they do not fit."""


class PassedLine(BadDecision):
    """An earlier run has stored later lines and not this one, so it is not judged any more."""

    code = "passed-line"


class LineNumbers:
    """Numbers of lines as the keys of decisions, for a ledger whose rule has no key column.

    last     the last line that earlier runs have stored
    resume   whether the input begins again at its first line; else it goes on behind the last one
    """

    def __init__(self, last: int = 0, *, resume: bool = False) -> None:
        self._last = last
        self.lines_before = 0 if resume else last
        """Lines that came before the first one of this input."""

    @classmethod
    def of(cls, monitor: Monitor, *, resume: bool = False) -> "LineNumbers":
        """Go on with the numbers in a monitor's ledger, if it has one."""
        if not monitor.durable or monitor.rule.key_column is not None:
            return cls()
        with closing(Ledger(monitor.path)) as ledger:
            last = ledger.entry(ledger.rows - 1).key if ledger.rows > ledger.first else None
        return cls(last if isinstance(last, int) else 0, resume=resume)

    def keys(self, monitor: Monitor, messages: Messages) -> dict[str, Any]:
        """For `observe_many`; raise PassedLine if a line was passed by an earlier run."""
        if not monitor.durable or monitor.rule.key_column is not None:
            return {}
        numbers = [record.position for record in messages.records]
        for number in numbers:
            assert isinstance(number, int)
            if number <= self._last and monitor.row_of(number) is None:
                raise PassedLine("an earlier run could not judge this line, or it was erased since")
        return {"keys": numbers}


class StreamJudge:
    """A monitor that takes messages.

    Where the rule does not name the columns, the first message that can be judged does.

    monitor       None: `open_monitor` opens it once a message says what the rule is
    bind          binds the rule to columns
    model_column  the field that says which model decided
    lines         for messages that are lines of standard input
    """

    def __init__(
        self,
        monitor: Monitor | None,
        bind: BindColumns,
        model_column: str | None = None,
        *,
        open_monitor: Callable[[Rule], Monitor] | None = None,
        lines: LineNumbers | None = None,
    ) -> None:
        self._monitor = monitor
        self._bind = bind
        self._model_column = model_column
        self._open_monitor = open_monitor
        self._lines = lines
        self._binding: Binding | None = None
        self.number_columns: list[str] = []
        """Columns that hold numbers."""
        columns = None if monitor is None else columns_of_rule(monitor.rule)
        if columns is not None:
            self._use_binding(bind(columns))

    @property
    def is_open(self) -> bool:
        return self._monitor is not None

    @property
    def monitor(self) -> Monitor:
        assert self._monitor is not None
        return self._monitor

    @property
    def has_key_column(self) -> bool:
        return self.monitor.rule.key_column is not None

    @property
    def stores_positions(self) -> bool:
        return self._lines is None and self.monitor.durable

    def positions(self) -> Mapping[str, Position]:
        """Where earlier runs ended, by sequence."""
        if self._lines is not None:
            return {STANDARD_INPUT: self._lines.lines_before}
        return self.monitor.positions if self.monitor.durable else {}

    def judge(self, messages: Messages) -> Verdicts:
        """Judge all of them and store them with their positions, or raise BadDecision."""
        binding = self._binding or self._bind_to_row(messages.first_row)
        rows = messages.table
        settings: dict[str, Any] = {}
        column = self._model_column
        if column is not None:
            settings["models"] = read_models(rows, column)
        if self._lines is not None:
            settings |= self._lines.keys(self.monitor, messages)
        elif self.monitor.durable:
            settings["sources"], settings["positions"] = messages.sources_and_positions()
        return self.monitor.observe_many(*binding.arguments(rows), **settings)

    def _bind_to_row(self, row: dict[str, Any]) -> Binding:
        """Begin with the columns of a row, if a monitor takes it: it speaks for later ones."""
        try:
            binding = self._bind(list(row))
        except BadTable as error:  # other columns may do
            raise BadDecision(str(error)) from None
        decision = binding.arguments_of_row(row)
        if self._monitor is None:
            assert self._open_monitor is not None
            with Monitor(binding.rule) as trial:
                trial.check(*decision)
            self._monitor = self._open_monitor(binding.rule)
        else:
            self._monitor.check(*decision)
        return self._use_binding(binding)

    def _use_binding(self, binding: Binding) -> Binding:
        self._binding = binding
        self.number_columns = number_columns(binding.types)
        return binding


def columns_of_rule(rule: Rule) -> list[str] | None:
    """The columns that a rule names, its outputs last; None where it is about vectors."""
    if rule.features is None:
        return None
    outputs = rule.output_column or ()
    return [*rule.features, *([outputs] if isinstance(outputs, str) else outputs)]


def make_binder(
    rule: Rule,
    *,
    output_column: str | None = None,
    model_column: str | None = None,
    ignore: Sequence[str] = (),
) -> BindColumns:
    """Binds a rule to what messages have.

    output_column, ignore   for a rule about vectors: the field with the output, and fields that are
                            no part of the input
    model_column            the field that says which model decided
    """
    beside = () if model_column is None else (model_column,)
    vectors = rule.features is None
    if vectors == (output_column is None) or (ignore and not vectors):
        what = "is about vectors, and does not say" if vectors else "has features, and says"
        raise BadRule(f"the rule {what} which field is the output (output_column).")
    if rule.compare != "all" and model_column is None:
        raise BadRule(f"the rule has compare = {rule.compare!r}: say model_column.")

    def bind(columns: list[str]) -> Binding:
        named = rule.features or {}
        others = [name for name in columns if name in named or name not in beside]
        if rule.features is not None:
            bound = bind_features(rule, others, source="the stream", rule_name="the rule")
        else:
            bound = bind_vectors(
                rule,
                others,
                output_column or "",
                ignore=ignore,
                source="the stream",
                rule_name="the rule",
                named_by="output_column",
            )
        return bound.with_extra_columns(beside)

    return bind
