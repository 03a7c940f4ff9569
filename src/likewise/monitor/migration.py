"""Make a ledger of another one, under another rule.

Where the rule gives the same verdicts, decisions and verdicts are copied as they are. Where it does
not, the whole history is judged again. The first link of the new ledger names the head of the old
one, which is verified before, and stays as it is.

Invariant: under its name there is a whole new ledger, or none.
Cost: reading the old ledger once to verify it and once to copy it, and writing the new one.
"""

import functools
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from likewise.errors import BadFile, BadRule
from likewise.ledger import folder
from likewise.ledger.copying import copy_history
from likewise.ledger.create import rule_body
from likewise.ledger.ledger import Ledger, StoredColumns
from likewise.ledger.record_files import sync_folder
from likewise.ledger.store import Store
from likewise.monitor import opening
from likewise.monitor.migration_checks import check_migration
from likewise.rule.feature import Feature
from likewise.rule.rule import Extra, Rule
from likewise.search.engine.engine import Engine
from likewise.tables.frames import ColumnTable
from likewise.tables.positions import SourcePositions, position_of


def gives_same_verdicts(one: Rule, other: Rule) -> bool:
    return _drop_unmeasured(one).fingerprint == _drop_unmeasured(other).fingerprint


def keeps_same_columns(one: Rule, other: Rule) -> bool:
    """Whether a ledger keeps the same of each decision under both, in the same order."""
    return _list_kept_features(one) == _list_kept_features(other)


def _list_kept_features(rule: Rule) -> list[tuple[str, Feature]] | None:
    if rule.features is None:
        return None
    return [
        (name, replace(feature, labels=None))
        for name, feature in rule.features.items()
        if feature.kind not in ("key", "ignore")
    ]


def _drop_unmeasured(rule: Rule) -> Rule:
    """The rule without what changes no verdict."""
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
    """What was done."""

    rows: int
    """Decisions in the new ledger."""
    judged_again: bool
    """Whether verdicts were made again, because the rule gives others."""
    head: str
    """Of the ledger that was migrated."""
    left_out: Mapping[str, int] = field(default_factory=dict)
    """How many things of each kind the new ledger does not have."""

    def __str__(self) -> str:
        how = "judged again under the new rule" if self.judged_again else "copied as they are"
        gone = "".join(f"; {count:,} {what} left out" for what, count in self.left_out.items())
        return f"{self.rows:,} decisions {how}{gone}; made of {self.head}"


def migrate(
    old: str | os.PathLike[str],
    new: str | os.PathLike[str] | None = None,
    *,
    rule: Rule | None = None,
    rename: Mapping[str, Mapping[Any, Any]] | None = None,
    add: Mapping[str, Any] | None = None,
) -> Migration:
    """Make a ledger of another one, under another rule.

    old     the folder of a ledger; it is verified first, and not changed
    new     the folder of the new one. Without it the rule of the old one is changed, which is an
            event of its chain; only a rule that gives the same verdicts can be changed so
    rule    of the new one; the old one's unless given
    rename  by column, values of the past and what they are called now; "" for outputs
    add     by column, which value decisions of the past have in a column that is new

    A column or a value that fits nothing is a BadRule, before anything is written.

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
        wanted = ledger.rule if rule is None else rule
        check_migration(ledger, wanted, rename or {}, add or {})
        same = not rename and not add and gives_same_verdicts(ledger.rule, wanted)
        copied = same and keeps_same_columns(ledger.rule, wanted)
        if new is None:
            return _change_rule(ledger, rule, copied)
        verified = ledger.verify()
        if not verified.ok or verified.head is None:
            raise BadFile(f"{str(old)!r} is {verified}. Nothing was written.", path=old)
        partial = _partial(Path(new))
        origin = {
            "head": str(verified.head),
            "rows": ledger.rows,
            "first": ledger.first,
            "judged_again": not copied,
        }
        try:
            left_out: Mapping[str, int] = {}
            if copied:
                _copy(ledger, partial, wanted, origin)
            else:
                left_out = _judge_again(ledger, partial, wanted, origin, rename or {}, add or {})
            with Ledger(partial) as made:
                rows = len(made)
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
    store = Store(ledger.path, None, sync=True)
    try:
        store.event("rule", rule_body(rule, store.reader.format.VERSION, question=ledger.question))
        return Migration(store.rows - store.first, judged_again=False, head=str(ledger.head))
    finally:
        store.close()


def _partial(new: Path) -> Path:
    """A folder beside the new one, empty; what an interrupted migration left there goes."""
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


def _copy(ledger: Ledger, partial: Path, rule: Rule, origin: dict[str, Any]) -> None:
    store = Store(
        partial, rule, sync=True, origin=origin, marks=ledger.rule, question=ledger.question
    )
    try:
        copy_history(ledger, store)
    finally:
        store.close()


def _judge_again(
    ledger: Ledger,
    partial: Path,
    rule: Rule,
    origin: dict[str, Any],
    rename: Mapping[str, Mapping[Any, Any]],
    add: Mapping[str, Any],
) -> dict[str, int]:
    Store(partial, rule, sync=True, origin=origin, question=ledger.question).close()
    overruled = {event.row for event in ledger.supersessions()}
    left_out = {
        "erased": len(ledger.erased_rows()),
        "overruled": len(overruled),
        "reviews": len(ledger.reviews()),
        "truths": len(ledger.truths()),
    }
    comparable = any(entry.comparable is not None for entry in _first_rows(ledger))
    keeping = opening.LedgerOptions(window=ledger.window, max_ahead="any")
    engine = functools.partial(Engine, comparable=comparable)
    with opening.open_ledger(partial, rule, keeping, any_question=True, engine=engine) as monitor:
        for columns in ledger.columns():
            there = ~columns.erased
            there[[row - columns.first for row in overruled if _is_in(columns, row)]] = False
            places = np.flatnonzero(there)
            if len(places):
                table, outputs, named = _table(ledger, columns, places, rename, add, monitor.rule)
                times = columns.decisions.times[places].astype("datetime64[us]")
                models = columns.models and [columns.models[i] for i in places.tolist()]
                if columns.places is not None:
                    named |= _places(columns.places.select(places.tolist()))
                monitor.observe_many(table, outputs, times=times, models=models, **named)
    store = Store(partial, None, sync=True)
    try:
        store.tell_positions(ledger.positions)  # of rows that were left out, too
    finally:
        store.close()
    return {what: count for what, count in left_out.items() if count}


def _places(places: SourcePositions) -> dict[str, Any]:
    """Sources and positions as a monitor takes them."""
    positions = [
        None if name is None else position_of(numbers, name in places.pairs)
        for name, numbers in zip(places.sources, places.numbers.tolist(), strict=True)
    ]
    return {"sources": places.sources, "positions": positions}


def _first_rows(ledger: Ledger) -> list[Any]:
    return list(ledger.entries(ledger.first, min(ledger.rows, ledger.first + 1)))


def _is_in(columns: StoredColumns, row: int) -> bool:
    return columns.first <= row < columns.first + len(columns.decisions)


def _table(
    ledger: Ledger,
    columns: StoredColumns,
    places: Any,
    rename: Mapping[str, Mapping[Any, Any]],
    add: Mapping[str, Any],
    rule: Rule,
) -> tuple[Any, list[Any], dict[str, Any]]:
    """Rows of the past as a monitor under the new rule takes them: inputs, outputs, keys."""
    outputs = [columns.outputs[i] for i in places.tolist()]
    if calls := rename.get(""):  # of probabilities none is renamed (migration_checks.py)
        outputs = [calls.get(one, one) for one in outputs]
    keys = columns.decisions.keys
    mine = None if keys is None else [keys[i] for i in places.tolist()]
    if rule.features is None:
        named = {} if mine is None else {"keys": mine}
        return columns.inputs["input"][places], outputs, named
    table: dict[str, Any] = {}
    for name, feature in rule.features.items():
        if feature.kind == "key":
            if mine is None:
                raise BadRule(
                    f"column {name!r} holds keys, and decisions of the past have none. Nothing was"
                    " written: leave it out."
                )
            table[name] = mine
        elif name in columns.inputs:
            given, renamed = columns.inputs[name][places], rename.get(name, {})
            values = [renamed.get(value, value) for value in given] if renamed else given
            table[name] = values if feature.kind == "number" else list(values)
        elif name in add:
            table[name] = [add[name]] * len(places)
        elif feature.kind != "ignore":
            raise BadRule(
                f"column {name!r} is new, and nothing says which value decisions of the past have"
                " in it. Nothing was written: say so with `add`, or leave it out."
            )
    named = {"keys": mine} if rule.key_column is None and mine is not None else {}
    return ColumnTable(table), outputs, named
