"""Check what a migration is asked for before anything is written.

A name that fits nothing is refused: it would change nothing, and the user would not notice.
Cost: for renamed values of a column of numbers, reading the ledger until all of them were seen.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from likewise.errors import BadRule
from likewise.ledger.ledger import Ledger
from likewise.monitor.best_match import check_best_match_rule
from likewise.rule.rule import Rule
from likewise.tables.known_names import did_you_mean, nearest_names
from likewise.tables.printing import join_names

_NOTHING = "Nothing was written"
_NEAREST = 3  # known values that are named where another one was meant


def check_migration(
    ledger: Ledger,
    rule: Rule,
    rename: Mapping[str, Mapping[Any, Any]],
    add: Mapping[str, Any],
) -> None:
    """Raise BadRule if the rule, a name or a new column fits nothing in the ledger."""
    if ledger.question is not None:
        check_best_match_rule(rule)
    _refuse_other_inputs(ledger.rule, rule)
    before, after = kept_columns(ledger.rule), kept_columns(rule)
    for column in add:
        _refuse_add(column, before, after)
    for column, names in rename.items():
        if column:
            _refuse_column(column, before, after)
        _refuse_names(ledger, column, names)


def kept_columns(rule: Rule) -> list[str]:
    """List the columns whose values a ledger stores; none under a rule for vectors."""
    return [name for name, feature in (rule.features or {}).items() if feature.is_kept]


def _refuse_other_inputs(old: Rule, new: Rule) -> None:
    """Raise BadRule if one rule is for vectors and the other for rows of tables."""
    if (old.features is None) == (new.features is None):
        return
    kinds = "vectors", "rows of tables"
    holds, takes = kinds if old.features is None else kinds[::-1]
    raise BadRule(
        f"the ledger holds {holds}, and the new rule is for {takes}; expected a rule for {holds}."
        f" {_NOTHING}: begin a new ledger under that rule, with lw.open."
    )


def _refuse_add(column: str, before: list[str], after: list[str]) -> None:
    if column not in after:
        raise BadRule(
            f"a value for column {column!r} is to be added, and the rule of the new ledger keeps no"
            f" such column; it keeps {_quote_values(after)}{did_you_mean(column, after) or '.'}"
            f" {_NOTHING}: name a column of that rule, or"
            " give a rule that has this one."
        )
    if column in before:
        raise BadRule(
            f"a value for column {column!r} is to be added, and decisions of the past have values"
            f" in it already. {_NOTHING}: to call a value otherwise, use `rename`."
        )


def _refuse_column(column: str, before: list[str], after: list[str]) -> None:
    for columns, whose in ((before, "ledger"), (after, "new rule")):
        if column not in columns:
            raise BadRule(
                f"values of column {column!r} are to be renamed, and the {whose} keeps no such"
                f" column; apart from the output it keeps {_quote_values(columns)}"
                f"{did_you_mean(column, columns) or '.'} {_NOTHING}: name one of these."
            )


def _refuse_names(ledger: Ledger, column: str, names: Mapping[Any, Any]) -> None:
    """Raise BadRule if a value to be renamed does not occur in the ledger."""
    where = f"column {column!r}" if column else "the output"
    values = ledger.known_values(column)
    if values is None:
        missing = _find_missing_numbers(ledger, column, set(names))
        if missing:
            raise BadRule(
                f"{missing[0]!r} is to be renamed in {where}, which holds numbers, and none of them"
                f" is that. {_NOTHING}: name a number that occurs."
            )
        return
    occurring = set(values)
    for value in names:
        if value not in occurring:
            near = nearest_names(value, values, _NEAREST, cutoff=0)
            has = f"the nearest that it has are {_quote_values(near)}" if near else "it has none"
            raise BadRule(
                f"{value!r} is to be renamed in {where}, and no decision has that value; {has}."
                f" {_NOTHING}: name a value that occurs."
            )


def _find_missing_numbers(ledger: Ledger, column: str, values: set[Any]) -> list[Any]:
    """Return the values that do not occur in a column of numbers."""
    for columns in ledger.columns():
        if not values:
            break
        stored = columns.inputs[column] if column else np.asarray(columns.outputs, dtype=float)
        if stored.ndim > 1:
            break  # outputs of several numbers each have no names
        values = values - set(stored.tolist())
    return sorted(values, key=repr)


def _quote_values(values: list[Any]) -> str:
    return join_names(map(repr, values)) if values else "none"
