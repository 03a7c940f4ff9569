"""Opens what an audit or a comparison from Python is about, and binds its rule to the columns."""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

from likewise.errors import BadRule
from likewise.ledger.ledger import Ledger
from likewise.monitor import opening
from likewise.monitor.monitor import Monitor
from likewise.rule.burst import Burst
from likewise.rule.rule import Rule
from likewise.sources.binding import Binding, bind_features, bind_vectors, check_columns
from likewise.sources.file_source import DecisionFile, open_source
from likewise.sources.memory_table import open_table

AnyPath = str | os.PathLike[str]


def open_ledger(data: Any) -> AbstractContextManager[Ledger] | None:
    """Return a ledger, given open or by its folder; None if the data are something else."""
    if isinstance(data, Ledger):
        return nullcontext(data)
    if isinstance(data, str | os.PathLike) and Path(data).is_dir():
        return Ledger(data)
    return None


@contextmanager
def open_data(data: Any, reading: Mapping[str, Any]) -> Iterator[DecisionFile]:
    """Open a file, or a table in memory.

    reading: how a file is read, the settings of `open_source`
    """
    if isinstance(data, str | os.PathLike):
        source = open_source(os.fspath(data), **reading)
    elif reading:
        raise BadRule(f"{', '.join(reading)}: settings for reading a file; expected its path")
    else:
        source = open_table(data)
    try:
        yield source
    finally:
        source.close()


def list_paths(data: Any) -> list[str]:
    """Return the paths of one file or several."""
    paths = [data] if isinstance(data, str | os.PathLike) else list(data)
    return [os.fspath(path) for path in paths]


def load_rule(rule: Rule | AnyPath | None) -> Rule:
    """Return a rule, given as such or by its file."""
    if rule is None:
        raise BadRule("what is similar? Expected a rule; lw.propose_rule(data) proposes one")
    return rule if isinstance(rule, Rule) else Rule.load(rule)


def bind_columns(
    rule: Rule,
    source: DecisionFile,
    output_column: str | None,
    ignore: Sequence[str],
    extra: Sequence[str],
) -> Binding:
    """Bind a rule to the columns of a source.

    output_column, ignore   for a rule without features: the output, and columns to leave out
    extra                   columns that are read, whether the rule names them or not
    """
    features = rule.features or {}
    named = {*features, *extra, *ignore, output_column}
    columns = [*source.columns, *(name for name in source.left_out if name in named)]
    check_columns(columns, extra, source=source.name, named_by="the call")
    columns = [name for name in columns if name in features or name not in extra]
    if rule.features is not None:
        if output_column is not None or ignore:
            raise BadRule("the rule has features, which say what output_column and ignore say")
        binding = bind_features(rule, columns, source=source.name, rule_name="the rule")
    elif output_column is None and rule.embed is None:
        raise BadRule("the rule has no features; expected output_column, the column of the output")
    else:
        binding = bind_vectors(
            rule,
            columns,
            output_column or "",
            ignore=ignore,
            source=source.name,
            rule_name="the rule",
            named_by="the call",
        )
    return binding.with_extra_columns(extra)


def open_new_ledger(
    path: Path, rule: Rule, burst: Burst | None, max_ahead: str | None = None
) -> Monitor:
    """Open a monitor whose ledger has no decisions yet; raise BadRule if it has some."""
    settings: dict[str, Any] = {} if max_ahead is None else {"max_ahead": max_ahead}
    monitor = opening.open(
        path, rule, durability="batch", burst=burst, comparable=True, support=True, **settings
    )
    if monitor.rows:
        with monitor:
            raise BadRule(
                f"the ledger {path} has {monitor.rows:,} decisions already. An audit begins a"
                " ledger: name a new folder; to go on with one: likewise watch --ledger."
            )
    return monitor
