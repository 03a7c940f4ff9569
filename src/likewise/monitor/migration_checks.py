"""What a migration is asked for, checked before anything is written.

A name that fits nothing is refused: it would change nothing, and whoever asked would not know.

Cost: of names for values of a column of numbers, reading the ledger until all of them were seen.
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
    """The columns of which a ledger keeps values; none of a rule for vectors."""
    return [
        name
        for name, feature in (rule.features or {}).items()
        if feature.kind not in ("key", "ignore")
    ]


def _refuse_other_inputs(old: Rule, new: Rule) -> None:
    """Vectors cannot be judged by columns, nor rows of tables without them."""
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
                f" column; beside the output it keeps {_quote_values(columns)}"
                f"{did_you_mean(column, columns) or '.'} {_NOTHING}: name one of these."
            )


def _refuse_names(ledger: Ledger, column: str, names: Mapping[Any, Any]) -> None:
    """Each value that is renamed must be one that the ledger knows."""
    where = f"column {column!r}" if column else "the output"
    known = ledger.known_values(column)
    if known is None:
        unknown = _numbers_not_there(ledger, column, set(names))
        if unknown:
            raise BadRule(
                f"{unknown[0]!r} is to be renamed in {where}, which holds numbers, and none of them"
                f" is that. {_NOTHING}: name a number that occurs."
            )
        return
    there = set(known)
    for value in names:
        if value not in there:
            near = nearest_names(value, known, _NEAREST, cutoff=0)
            has = f"the nearest that it has are {_quote_values(near)}" if near else "it has none"
            raise BadRule(
                f"{value!r} is to be renamed in {where}, and no decision has that value; {has}."
                f" {_NOTHING}: name a value that occurs."
            )


def _numbers_not_there(ledger: Ledger, column: str, wanted: set[Any]) -> list[Any]:
    for columns in ledger.columns():
        if not wanted:
            break
        found = columns.inputs[column] if column else np.asarray(columns.outputs, dtype=float)
        if found.ndim > 1:
            break  # outputs of several numbers each have no names
        there = set(found.tolist())
        wanted = {value for value in wanted if value not in there}
    return sorted(wanted, key=repr)


def _quote_values(values: list[Any]) -> str:
    return join_names(map(repr, values)) if values else "none"
