"""Judges messages: binds their rows to the rule, and stores them with their positions.

Lines of standard input have no position that a ledger could go on from. Under a rule without a key
column their numbers are their keys there, so a line that is sent again is recognized.
Invariant: one call of `judge` is one transaction. A message has one position, which its last
decision carries, and its decisions are stored together or not at all.
Not here: where messages come from (protocol.py), and what becomes of answers (sinks.py).
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, NamedTuple, TypeAlias

from likewise.errors import BadDecision, BadRule, BadTable
from likewise.ledger.ledger import Ledger
from likewise.monitor.monitor import Monitor
from likewise.rule.rule import Rule
from likewise.sources.binding import Binding, bind_features, bind_vectors, read_models
from likewise.sources.json_lines import STANDARD_INPUT, number_columns
from likewise.sources.protocol import Record
from likewise.tables.frames import ColumnTable
from likewise.tables.positions import Position
from likewise.verdict.verdicts import Verdicts

_BATCH_BYTES = 1 << 23


# Messages hold records and their decisions, on the way from a source to a monitor.
# Most messages are one JSON object each, all with the same names: their rows are held as columns.
# Invariant: a message has at least one row; the rows of all messages follow each other.


def next_poll_size(count: int, records: Sequence[Record], most: int) -> int:
    """Return how many records to ask for next: more than these, or fewer if these are large."""
    size = sum(len(record.body) for record in records)
    if size > _BATCH_BYTES:
        return max(1, count * _BATCH_BYTES // (2 * size))
    return min(most, 4 * count) if size < _BATCH_BYTES // 8 else count


class Message(NamedTuple):
    """Holds a record and the decisions in it."""

    record: Record
    rows: list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Messages:
    """Holds messages in order; a slice of it holds some of them (monitor/batching.py)."""

    records: Sequence[Record]
    table: ColumnTable | list[dict[str, Any]]
    """The rows of all of them."""
    counts: Sequence[int] | None = None
    """How many rows each message has; None: one each."""

    def __len__(self) -> int:
        return len(self.records)

    def __getitem__(self, part: slice) -> "Messages":
        if self.counts is None:
            return Messages(self.records[part], self.table[part])
        start, stop, _ = part.indices(len(self))
        stops = [0, *accumulate(self.counts)]
        rows = self.table[stops[start] : stops[stop]]
        return Messages(self.records[start:stop], rows, self.counts[start:stop])

    @property
    def first_row(self) -> dict[str, Any]:
        return self.table.row(0) if isinstance(self.table, ColumnTable) else self.table[0]

    @property
    def row_records(self) -> Sequence[Record]:
        """The record of each row."""
        if self.counts is None:
            return self.records
        pairs = zip(self.records, self.counts, strict=True)
        return [record for record, count in pairs for _ in range(count)]

    def sources_and_positions(self) -> tuple[str | list[str | None], list[Position | None]]:
        """Return source and position of each row, as a monitor takes them.

        The last row of a message carries its position.
        """
        sources: list[str | None] = []
        positions: list[Position | None] = []
        if self.counts is None:
            sources = [record.source for record in self.records]
            positions = [record.position for record in self.records]
            return self.records[0].source if len(set(sources)) == 1 else sources, positions
        for record, count in zip(self.records, self.counts, strict=True):
            nowhere = [None] * (count - 1)
            sources += [*nowhere, record.source]
            positions += [*nowhere, record.position]
        return sources, positions


BindColumns: TypeAlias = Callable[[list[str]], Binding]
"""Binds the rule to these columns; BadTable if they do not fit."""


class PassedLine(BadDecision):
    """Says that an earlier run stored later lines but not this one, which is not judged now."""

    code = "passed-line"


class LineNumbers:
    """Makes line numbers the keys of decisions, for a ledger whose rule has no key column.

    last     the last line that earlier runs stored
    resume   whether the input begins again at its first line; else it goes on behind the last one
    """

    def __init__(self, last: int = 0, *, resume: bool = False) -> None:
        self._last = last
        self.lines_before = 0 if resume else last
        """How many lines came before the first one of this input."""

    @classmethod
    def of(cls, monitor: Monitor, *, resume: bool = False) -> "LineNumbers":
        """Go on with the numbers in a monitor's ledger, if it has one."""
        if not monitor.durable or monitor.rule.key_column is not None:
            return cls()
        with closing(Ledger(monitor.ledger.path)) as ledger:
            last = ledger.entry(ledger.rows - 1).key if ledger.rows > ledger.first else None
        return cls(last if isinstance(last, int) else 0, resume=resume)

    def keys(self, monitor: Monitor, messages: Messages) -> dict[str, Any]:
        """Return the keys for `observe_many`; raise PassedLine if an earlier run passed a line."""
        if not monitor.durable or monitor.rule.key_column is not None:
            return {}
        numbers = [record.position for record in messages.records]
        for number in numbers:
            assert isinstance(number, int)
            if number <= self._last and monitor.row_of(number) is None:
                raise PassedLine("an earlier run could not judge this line, or it was erased since")
        return {"keys": numbers}


class StreamJudge:
    """Has a monitor judge messages.

    If the rule does not name the columns, the first message that can be judged does.

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
        """The columns that hold numbers."""
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
        """Return where earlier runs ended, by sequence."""
        if self._lines is not None:
            return {STANDARD_INPUT: self._lines.lines_before}
        return self.monitor.ledger.positions if self.monitor.durable else {}

    def judge(self, messages: Messages) -> Verdicts:
        """Judge messages and store them with their positions, or raise BadDecision."""
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
        """Bind the columns of a row, if a monitor accepts it; later rows must have them too."""
        try:
            binding = self._bind(list(row))
        except BadTable as error:  # a later message may have columns that fit
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
    """Return the columns that a rule names, its outputs last; None if it is about vectors."""
    return None if rule.features is None else [*rule.features, *rule.output_columns]


def make_binder(
    rule: Rule, *, output_column: str | None = None, model_column: str | None = None
) -> BindColumns:
    """Return a function that binds a rule to the columns of messages.

    output_column   for a rule about vectors: the field with the output
    model_column    the field that says which model decided
    """
    extra_columns = () if model_column is None else (model_column,)
    vectors = rule.features is None
    if vectors == (output_column is None):
        what = "is about vectors, and does not say" if vectors else "has features, and says"
        raise BadRule(f"the rule {what} which field is the output (output_column).")
    if rule.compare != "all" and model_column is None:
        raise BadRule(f"the rule has compare = {rule.compare!r}: say model_column.")

    def bind(columns: list[str]) -> Binding:
        features = rule.features or {}
        own_columns = [name for name in columns if name in features or name not in extra_columns]
        if rule.features is not None:
            binding = bind_features(rule, own_columns, source="the stream", rule_name="the rule")
        else:
            binding = bind_vectors(
                rule,
                own_columns,
                output_column or "",
                source="the stream",
                rule_name="the rule",
                named_by="output_column",
            )
        return binding.with_extra_columns(extra_columns)

    return bind
