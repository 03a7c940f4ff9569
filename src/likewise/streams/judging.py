"""Messages to verdicts: rows bound to the rule's columns, judged and stored with their positions.

Invariant: what `judge` is given is one transaction. A message has one position; of several
decisions in it the last one carries it, and they are stored together or not at all.
Not here: where messages come from, and what becomes of those that are refused (following.py).
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from likewise.intake.binding import Binding, bind_features, bind_vectors
from likewise.intake.models import models_in
from likewise.monitors.monitor import Monitor
from likewise.rules.rule import Rule
from likewise.sources.json_lines import numbers_in
from likewise.streams.messages import Messages
from likewise.values.errors import BadRule
from likewise.values.verdicts import Verdicts

Bind: TypeAlias = Callable[[list[str]], Binding]
"""Binds the rule to these columns; BadDecision if they do not fit."""


class StreamJudge:
    """A monitor that takes messages.

    Where the rule does not name the columns, the first message that can be judged does.
    """

    def __init__(self, monitor: Monitor, bind: Bind, model_column: str | None = None) -> None:
        self.monitor = monitor
        self._bind = bind
        self._model_column = model_column
        self._binding: Binding | None = None
        self.numbers: list[str] = []
        """Columns that hold numbers."""
        columns = columns_of(monitor.rule)
        if columns is not None:
            self._settle(bind(columns))

    @property
    def keyed(self) -> bool:
        return self.monitor.rule.key_column is not None

    def judge(self, messages: Messages) -> Verdicts:
        """Judge all of them and store them with their positions, or raise BadDecision."""
        binding = self._binding or self._settled_by(messages.first_row)
        rows = messages.table
        settings: dict[str, Any] = {}
        column = self._model_column
        if column is not None:
            settings["models"] = models_in(rows, column)
        if self.monitor.durable:
            settings["sources"], settings["positions"] = messages.places()
        return self.monitor.observe_many(*binding.arguments(rows), **settings)

    def _settled_by(self, row: dict[str, Any]) -> Binding:
        """Begin with the columns of a row, if the monitor takes it."""
        binding = self._bind(list(row))
        self.monitor.check(*binding.arguments_of_row(row))
        return self._settle(binding)

    def _settle(self, binding: Binding) -> Binding:
        self._binding = binding
        self.numbers = numbers_in(binding.types)
        return binding


def columns_of(rule: Rule) -> list[str] | None:
    """The columns that a rule names, its outputs last; None where it is about vectors."""
    if rule.features is None:
        return None
    outputs = rule.output_column or ()
    return [*rule.features, *([outputs] if isinstance(outputs, str) else outputs)]


def binding_of(
    rule: Rule,
    *,
    output_column: str | None = None,
    model_column: str | None = None,
    ignore: Sequence[str] = (),
) -> Bind:
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
        return bound.with_beside(beside)

    return bind
