"""Make a new ledger from an existing one, under another rule.

If the new rule gives the same verdicts, decisions and verdicts are copied, else judged again. The
first link of the new ledger names the head of the old one, which is verified and not changed.
Invariant: under its name there is a whole new ledger, or none.
Cost: reading the old ledger once to verify it and once to copy it, and writing the new one.
"""

import functools
import os
import shutil
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from likewise.errors import BadFile, BadRule
from likewise.ledger import folder
from likewise.ledger.backups import copy_history
from likewise.ledger.create import rule_body
from likewise.ledger.ledger import Ledger, StoredColumns
from likewise.ledger.record_files import sync_folder
from likewise.ledger.store import Store
from likewise.monitor import opening
from likewise.monitor.best_match import check_best_match_rule
from likewise.rule.feature import Feature
from likewise.rule.rule import Extra, Rule
from likewise.search.engine.engine import Engine
from likewise.tables.frames import ColumnTable
from likewise.tables.known_names import did_you_mean, nearest_names
from likewise.tables.positions import SourcePositions, position_of
from likewise.tables.printing import join_names

_NOTHING = "Nothing was written"
_NEAREST = 3  # known values that are named where another one was meant


# Check what a migration is asked for before anything is written.
# A name that fits nothing is refused: it would change nothing, and the user would not notice.
# Cost: for renamed values of a column of numbers, reading the ledger until all of them were seen.


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


def _list_kept_features(rule: Rule) -> list[tuple[str, Feature]] | None:
    """List the columns that a ledger stores under a rule, in order."""
    if rule.features is None:
        return None
    return [
        (name, replace(feature, labels=None))
        for name, feature in rule.features.items()
        if feature.is_kept
    ]


def _drop_unmeasured(rule: Rule) -> Rule:
    """Remove from a rule what changes no verdict."""
    features = rule.features
    if features is not None:
        features = {
            name: replace(feature, labels=None) if feature.labels is not None else feature
            for name, feature in features.items()
            if feature.is_compared
            or feature.kind == "person"
            or (feature.kind == "protected" and rule.protected_must_differ)
        }
    extra: Extra = "reject" if features is None else "ignore"
    return replace(rule, favourable=None, output_labels=None, features=features, extra=extra)


@dataclass(frozen=True)
class Migration:
    """Says what a migration did."""

    rows: int
    """How many decisions the new ledger has."""
    judged_again: bool
    """Whether decisions were judged again, because the new rule gives other verdicts."""
    head: str
    """The head of the ledger that was migrated."""
    omitted_records: Mapping[str, int] = field(default_factory=dict)
    """How many records of each kind the new ledger does not have."""

    def __str__(self) -> str:
        how = "judged again under the new rule" if self.judged_again else "copied as they are"
        gone = "".join(
            f"; {count:,} {what} left out" for what, count in self.omitted_records.items()
        )
        return f"{self.rows:,} decisions {how}{gone}; made of {self.head}"


def migrate(
    old: str | os.PathLike[str],
    new: str | os.PathLike[str] | None = None,
    *,
    rule: Rule | None = None,
    rename: Mapping[str, Mapping[Any, Any]] | None = None,
    add: Mapping[str, Any] | None = None,
) -> Migration:
    """Make a new ledger from an existing one, under another rule.

    old     the folder of a ledger; it is verified first, and not changed
    new     the folder of the new one. Without it the rule of the old one is changed, which is an
            event of its chain; the changed rule must give the same verdicts
    rule    the rule of the new one; by default that of the old one
    rename  by column, values of the past and their new names; "" for outputs
    add     by column, the value that decisions of the past have in a new column

    Raises BadRule, before anything is written, for a column or a value that fits nothing.

    >>> import likewise as lw, tempfile
    >>> folder = tempfile.mkdtemp()
    >>> with lw.open(folder + "/old", lw.Rule("linf", 0.1)) as monitor:
    ...     for x, z in (([0.5], "yes"), ([0.7], "no")):
    ...         _ = monitor.observe(x, z)
    >>> done = migrate(folder + "/old", folder + "/new", rule=lw.Rule("linf", 0.3))
    >>> done.rows, done.judged_again
    (2, True)
    >>> with lw.Ledger(folder + "/new") as ledger:
    ...     [entry.count for entry in ledger.entries()]
    [0, 1]
    """
    with Ledger(old) as ledger:
        new_rule = ledger.rule if rule is None else rule
        check_migration(ledger, new_rule, rename or {}, add or {})
        before, after = _drop_unmeasured(ledger.rule), _drop_unmeasured(new_rule)
        same = not rename and not add and before.fingerprint == after.fingerprint
        copied = same and _list_kept_features(ledger.rule) == _list_kept_features(new_rule)
        if new is None:
            return _change_rule(ledger, rule, copied)
        verified = ledger.verify()
        if not verified.ok or verified.head is None:
            raise BadFile(f"{str(old)!r} is {verified}. Nothing was written.", path=old)
        partial = _make_partial_folder(Path(new))
        origin = {
            "head": str(verified.head),
            "rows": ledger.rows,
            "first": ledger.first,
            "judged_again": not copied,
        }
        try:
            left_out: Mapping[str, int] = {}
            if copied:
                store = Store(
                    partial,
                    new_rule,
                    sync=True,
                    origin=origin,
                    marks=ledger.rule,
                    question=ledger.question,
                )
                with closing(store):
                    copy_history(ledger, store)
            else:
                left_out = _judge_again(ledger, partial, new_rule, origin, rename or {}, add or {})
            with Ledger(partial) as new_ledger:
                rows = len(new_ledger)
            partial.rename(new)
            sync_folder(Path(new).parent)
        except OSError as error:
            raise BadFile(f"{str(new)!r} cannot be made: {error.strerror}.", path=new) from None
        finally:
            shutil.rmtree(partial, ignore_errors=True)
        return Migration(rows, not copied, str(verified.head), left_out)


def _change_rule(ledger: Ledger, rule: Rule | None, copied: bool) -> Migration:
    if rule is None:
        raise BadRule("say where the new ledger goes, or which rule the ledger is to have.")
    if not copied:
        raise BadRule(
            "this rule gives other verdicts, or keeps other columns, so the history has to be"
            " judged again: name a new folder. Nothing was changed."
        )
    with closing(Store(ledger.path, None, sync=True)) as store:
        store.event("rule", rule_body(rule, store.reader.format.VERSION, question=ledger.question))
        return Migration(store.rows - store.first, judged_again=False, head=str(ledger.head))


def _make_partial_folder(new: Path) -> Path:
    """Name the folder to write to, next to the new one; remove what an interruption left there."""
    if new.exists() and (not new.is_dir() or any(new.iterdir())):
        raise BadFile(
            f"{str(new)!r} is there already. Nothing was written: name a new folder.", path=new
        )
    partial = new.with_name(f"{new.name}.partial")
    if partial.exists():
        if not partial.is_dir() or folder.foreign_files(partial):
            raise BadFile(
                f"{str(partial)!r} is in the way, and is no ledger. Nothing was written.",
                path=partial,
            )
        shutil.rmtree(partial)
    return partial


def _judge_again(
    ledger: Ledger,
    partial: Path,
    rule: Rule,
    origin: dict[str, Any],
    rename: Mapping[str, Mapping[Any, Any]],
    add: Mapping[str, Any],
) -> dict[str, int]:
    """Observe the history in a new ledger under the new rule; count what it does not have."""
    Store(partial, rule, sync=True, origin=origin, question=ledger.question).close()
    overruled = {event.row for event in ledger.supersessions()}
    left_out = {
        "erased": len(ledger.erased_rows()),
        "overruled": len(overruled),
        "reviews": len(ledger.reviews()),
        "truths": len(ledger.truths()),
    }
    first_rows = ledger.entries(ledger.first, min(ledger.rows, ledger.first + 1))
    facts = [entry.facts for entry in first_rows]
    options = opening.LedgerOptions(window=ledger.window, max_ahead="any")
    engine = functools.partial(
        Engine,
        comparable=any(one.comparable is not None for one in facts),
        support=any(one.near is not None for one in facts),
    )
    with opening.open_ledger(partial, rule, options, any_question=True, engine=engine) as monitor:
        for columns in ledger.columns():
            rows = columns.first + np.arange(len(columns.erased))
            places = np.flatnonzero(~columns.erased & ~np.isin(rows, list(overruled)))
            if len(places):
                table, outputs, more = _build_table(columns, places, rename, add, monitor.rule)
                times = columns.decisions.times[places].astype("datetime64[us]")
                models = columns.models and [columns.models[i] for i in places.tolist()]
                if columns.places is not None:
                    more |= _read_positions(columns.places.select(places.tolist()))
                monitor.observe_many(table, outputs, times=times, models=models, **more)
    with closing(Store(partial, None, sync=True)) as store:
        store.tell_positions(ledger.positions)  # also those of rows that were left out
    return {what: count for what, count in left_out.items() if count}


def _read_positions(places: SourcePositions) -> dict[str, Any]:
    """Return sources and positions as arguments of `observe_many`."""
    positions = [
        None if name is None else position_of(numbers, name in places.pairs)
        for name, numbers in zip(places.sources, places.numbers.tolist(), strict=True)
    ]
    return {"sources": places.sources, "positions": positions}


def _build_table(
    columns: StoredColumns,
    places: Any,
    rename: Mapping[str, Mapping[Any, Any]],
    add: Mapping[str, Any],
    rule: Rule,
) -> tuple[Any, list[Any], dict[str, Any]]:
    """Return past decisions as `observe_many` takes them: inputs, outputs, and perhaps keys."""
    outputs = [columns.outputs[i] for i in places.tolist()]
    if new_names := rename.get(""):  # never for probabilities (migration.py)
        outputs = [new_names.get(one, one) for one in outputs]
    all_keys = columns.decisions.keys
    keys = None if all_keys is None else [all_keys[i] for i in places.tolist()]
    if rule.features is None:
        return columns.inputs["input"][places], outputs, {} if keys is None else {"keys": keys}
    table: dict[str, Any] = {}
    for name, feature in rule.features.items():
        if feature.kind == "key":
            if keys is None:
                raise BadRule(
                    f"column {name!r} holds keys, and decisions of the past have none. Nothing was"
                    " written: leave it out."
                )
            table[name] = keys
        elif name in columns.inputs:
            values, new_names = columns.inputs[name][places], rename.get(name)
            if new_names:
                values = [new_names.get(value, value) for value in values]
            table[name] = values if feature.kind == "number" else list(values)
        elif name in add:
            table[name] = [add[name]] * len(places)
        elif feature.kind != "ignore":
            raise BadRule(
                f"column {name!r} is new, and nothing says which value decisions of the past have"
                " in it. Nothing was written: say so with `add`, or leave it out."
            )
    more = {"keys": keys} if rule.key_column is None and keys is not None else {}
    return ColumnTable(table), outputs, more
