"""Binds a rule to the columns of a table: which are read, how, and what a monitor gets of them.

Invariant: a table whose columns do not fit the rule is refused before its first row is read.
BadRule says that the rule cannot be used for tables, BadTable that these columns do not fit it.
Not here: where a rule comes from.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from likewise.errors import BadRule, BadTable, WrongShape
from likewise.monitor.readers.table_reader import output_column
from likewise.rule.feature import Feature
from likewise.rule.rule import Rule
from likewise.sources.protocol import Chunk, ColumnType, Table, column_values
from likewise.tables.frames import ColumnTable, columns_of, read_number_column
from likewise.tables.known_names import did_you_mean


def read_models(table: "Table | ColumnTable", column: str) -> list[str | None]:
    """Return the models of rows; None for a row without one."""
    if isinstance(table, ColumnTable):
        values: Any = table.columns.get(column, [None] * len(table))
    else:
        values = column_values(table, column)
    return [None if value is None or value == "" else str(value) for value in values]


_MAX_NAMES = 12  # names of columns in a message


@dataclass(frozen=True)
class Binding:
    """Holds a rule, and the columns of a table that it takes."""

    rule: Rule
    columns: tuple[str, ...]
    """The columns that are read, outputs included."""
    types: dict[str, ColumnType]
    inputs: tuple[str, ...] = ()
    """For a rule without features: the columns that are the input, in their order."""
    output_column: str | None = None
    """For a rule without features: the column that is the output."""
    extra_columns: tuple[str, ...] = ()
    """Columns that are read although the rule does not know them."""

    @property
    def key(self) -> str | None:
        """The column that names decisions."""
        return self.rule.key_column

    @property
    def remembered_columns(self) -> tuple[str, ...]:
        """The columns that a monitor stores: compared and protected ones, the key, outputs."""
        if self.rule.features is None:
            return tuple(name for name in self.columns if name not in self.extra_columns)
        ignored = {name for name, one in self.rule.features.items() if _kind(one) == "ignore"}
        return tuple(name for name in self.columns if name not in ignored.union(self.extra_columns))

    def with_extra_columns(self, columns: Iterable[str]) -> "Binding":
        """Return a binding that reads these columns as well, whether the rule knows them or not."""
        more = [name for name in dict.fromkeys(columns) if name not in self.columns]
        unknown = [name for name in more if name not in (self.rule.features or {})]
        return replace(
            self,
            columns=(*self.columns, *more),
            types={name: one for name, one in self.types.items() if name not in more},
            extra_columns=(*self.extra_columns, *unknown),
        )

    def arguments(self, table: "Table | ColumnTable") -> tuple[Any, ...]:
        """Return what `observe_many` and `calibrate` take: the table, or inputs and outputs."""
        if self.output_column is None:
            return (self._drop_extra_columns(table),)
        names = [*self.inputs, self.output_column]
        columns = columns_of(self._drop_extra_columns(table), names, self.remembered_columns)
        inputs = np.stack([read_number_column(name, columns[name]) for name in self.inputs], axis=1)
        outputs = columns[self.output_column]
        return inputs, output_column(self.output_column, outputs, self.rule.output)

    def arguments_of_row(self, row: dict[str, Any]) -> tuple[Any, ...]:
        """Return what `observe` and `check` take of a row."""
        return tuple(argument[0] for argument in self.arguments([row]))

    def _drop_extra_columns(self, table: "Table | ColumnTable") -> "Table | ColumnTable":
        """Return a table without the columns that the rule does not know."""
        if not self.extra_columns:
            return table
        if isinstance(table, list):
            return [
                {name: row[name] for name in row if name not in self.extra_columns} for row in table
            ]
        return table.drop(self.extra_columns)


def make_judge(
    monitor: Any, binding: Binding, settings: Callable[[Chunk], dict[str, Any]]
) -> Callable[[Chunk], Any]:
    """Return a function that has a monitor judge rows.

    settings    makes further arguments of `observe_many` for rows, such as their times
    """

    def judge(rows: Chunk) -> Any:
        return monitor.observe_many(*binding.arguments(rows.table), **settings(rows))

    return judge


def bind_features(rule: Rule, columns: Sequence[str], *, source: str, rule_name: str) -> Binding:
    """Bind a rule that names its columns to those of a table.

    source, rule_name   what messages call the table and the rule
    """
    assert rule.features is not None and rule.output_column is not None
    outputs = rule.output_columns
    used = [name for name, feature in rule.features.items() if _kind(feature) != "ignore"]
    check_columns(columns, [*used, *outputs], source=source, named_by=rule_name)
    unknown = [name for name in columns if name not in rule.features and name not in outputs]
    if unknown and rule.extra == "reject":
        raise BadTable(
            f"{source} has columns that {rule_name} does not know: {_list_names(unknown)}. Say what"
            f" each means; for one that says nothing: [features.{_toml_key(unknown[0])}] and"
            ' kind = "ignore".',
            path=source,
            columns=unknown,
        )
    return Binding(rule, (*used, *outputs), types_of(rule))


def bind_vectors(
    rule: Rule,
    columns: Sequence[str],
    output_column: str,
    *,
    ignore: Sequence[str] = (),
    source: str,
    rule_name: str,
    named_by: str,
) -> Binding:
    """Bind a rule without features: all columns but the output and those ignored are the input.

    source, rule_name, named_by     what messages call the table, the rule, and whoever says which
                                    column is the output and which are ignored
    """
    if rule.embed is not None:
        raise BadRule(
            f"{rule_name} embeds an input, and a file has columns: say which one it is, with"
            ' [features.NAME], kind = "text" or "image", embed and tolerance.'
        )
    if rule.output == "probabilities":
        raise BadRule(
            "the output is probabilities, which take several columns: use a rule with features, and"
            " with output_column = [...] in it."
        )
    inputs = inputs_among(columns, output_column, ignore, source=source, named_by=named_by)
    if rule.weights is not None and len(rule.weights) != len(inputs):
        raise WrongShape(
            f"{source} has {len(inputs)} columns besides the output, but the rule has"
            f" {len(rule.weights)} weights: one for each column, in the order of the file."
        )
    types: dict[str, ColumnType] = dict.fromkeys(inputs, "number")
    types[output_column] = "number" if rule.output == "number" else "text"
    return Binding(rule, (*inputs, output_column), types, tuple(inputs), output_column)


def inputs_among(
    columns: Sequence[str],
    output_column: str,
    ignore: Sequence[str] = (),
    *,
    source: str,
    named_by: str,
) -> list[str]:
    """Return the columns that are neither the output nor ignored."""
    check_columns(columns, [output_column, *ignore], source=source, named_by=named_by)
    inputs = [name for name in columns if name != output_column and name not in ignore]
    if not inputs:
        raise BadTable(
            f"{source} has no column but the output; nothing is left to compare.", path=source
        )
    return inputs


def check_columns(
    columns: Sequence[str], names: Iterable[str], *, source: str, named_by: str
) -> None:
    """Raise BadTable if one of the names is no column of the table."""
    missing = [name for name in names if name not in columns]
    if missing:
        columns_are = "a column that is" if len(missing) == 1 else "columns that are"
        raise BadTable(
            f"{named_by} names {columns_are} not in {source}: {_list_names(missing)}. The file has"
            f" {_list_names(columns)}{did_you_mean(missing[0], columns) or '.'}",
            path=source,
            columns=missing,
        )


def types_of(rule: Rule) -> dict[str, ColumnType]:
    """Say how text is read: what the rule calls a number, or lists as numbers, is one."""
    types: dict[str, ColumnType] = {}
    for name, feature in (rule.features or {}).items():
        assert isinstance(feature, Feature)
        listed = _type_of_values(feature.order or feature.values)
        types[name] = "number" if feature.kind == "number" else listed
    for name in rule.output_columns:
        types[name] = "number"
        if rule.output == "label":
            types[name] = _type_of_values(None if rule.favourable is None else [rule.favourable])
    return types


def _type_of_values(values: Sequence[object] | None) -> ColumnType:
    if not values:
        return "text"
    if all(isinstance(value, bool) for value in values):
        return "flag"
    return "listed" if all(isinstance(value, int | float) for value in values) else "text"


def _list_names(names: Sequence[str]) -> str:
    text = ", ".join(map(repr, names[:_MAX_NAMES]))
    return text if len(names) <= _MAX_NAMES else f"{text} and {len(names) - _MAX_NAMES:,} more"


def _toml_key(name: str) -> str:
    plain = name.isascii() and name.replace("_", "").replace("-", "").isalnum()
    return name if plain else repr(name)


def _kind(feature: object) -> str:
    return str(getattr(feature, "kind", ""))
