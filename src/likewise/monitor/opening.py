"""A monitor whose history is a folder: what it answers is on disk, and survives.

A decision is judged in memory, then written with its verdict (monitor/journal.py), then answered.
Memory is a copy of the disk: if writing fails, the decision is refused and memory is made again
from what was written.

Invariant: with durability "commit", whatever was answered is on disk; with "batch", all but the
last few; what is on disk is a prefix of what was answered, each decision once and in order.
Cost: two waits for the disk for each transaction; memory as any monitor's.
"""

import math
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeAlias

from likewise.errors import BadRule
from likewise.ledger import folder
from likewise.ledger.create import rule_body
from likewise.ledger.epochs import begin_epoch, stored_plans
from likewise.ledger.store import Store
from likewise.ledger.verification import blame_alteration
from likewise.ledger.window import RetentionWindow
from likewise.monitor.factory import make_reader, read_slope_options
from likewise.monitor.journal import Journal
from likewise.monitor.monitor import Monitor
from likewise.rule.burst import Burst
from likewise.rule.difference import require_check_vectors, require_same_rule
from likewise.rule.rule import Rule
from likewise.rule.without_models import without_models
from likewise.search.engine.engine import Engine
from likewise.tables.keys import Keys, normalize_key
from likewise.tables.known_names import check_one_of
from likewise.tables.times import MaxAhead
from likewise.verdict.slope import SlopeQuestion

Durability: TypeAlias = Literal["commit", "batch", "off"]
DURABILITIES: dict[str, tuple[int, float]] = {
    "commit": (1, 0.0),
    "batch": (1024, 0.1),
    "off": (8192, 1.0),
}
"""Decisions, and seconds, after which what was answered is on disk at the latest."""


def open(
    path: str | os.PathLike[str],
    rule: Rule | None = None,
    *,
    durability: Durability = "commit",
    batch_rows: int | None = None,
    batch_seconds: float | None = None,
    window: str | None = None,
    witnesses: int = 3,
    max_ahead: str | float = "5 minutes",
    index: Any = "auto",
    burst: Burst | None = None,
    comparable: bool = False,
    check: bool = True,
    models: bool | None = None,
    rows: Literal["memory", "disk"] = "memory",
    wait: float = 0.0,
    slope: bool = False,
    slope_limit: float | None = None,
    input_exponent: float | None = None,
) -> Monitor:
    """A monitor whose history is a ledger: a folder, begun or gone on with.

    >>> import likewise as lw, tempfile
    >>> folder = tempfile.mkdtemp()
    >>> with lw.open(folder, lw.Rule("linf", 0.1)) as monitor:
    ...     monitor.observe([0.50, 0.20], "yes", key="case 17").violation
    False
    >>> with lw.open(folder) as monitor:  # in another process, another year
    ...     verdict = monitor.observe([0.45, 0.25], "no", key="case 18")
    ...     verdict.witnesses.rows, monitor.verify().ok
    (array([0]), True)

    path        the folder, new or empty or with a ledger
    rule        of a new ledger; for one that is there it may be left out, and must be the same
    durability  "commit": a verdict is answered when its decision is on disk; "batch": decisions are
                on disk after `batch_rows` of them or `batch_seconds`, whichever comes first; "off":
                the same, but the system is not asked to have them on disk, so a crash of the
                machine, not of the process, may lose some or damage the ledger
    window      "all", or how much to keep: "100000 rows", "24 hours"; as it was unless given
    witnesses   how many of the nearest are written for each decision; all are counted
    max_ahead   how far a time that is given may be ahead of the clock: "5 minutes", seconds, "any"
    index       as for Monitor
    burst       as for Monitor; need not be the same next time
    comparable  as for Monitor; answered, not written
    check       whether the whole chain is verified first
    models      whether embedders are loaded, and compared with those of the ledger. If not given,
                those of a rule that is passed here are, and those that the ledger's own rule names
                are not: that rule may be somebody else's, and may name code. Without models texts
                and pictures cannot be observed, but all else can be done
    rows        "disk": inputs are kept in a file without a name, beside the ledger's own, and only
                candidates are read from it: for long inputs, such as pictures
    wait        seconds to wait for another process to let go of the ledger, as in a rolling restart
    slope       as for Monitor. A ledger says in its chain that it holds slopes, and is opened with
                `slope=True` from then on
    slope_limit     as it was unless given; math.inf: nothing is a violation from now on
    input_exponent  of a new ledger; for one that is there it must be the same

    All else is as with a `Monitor`. Methods may be called from several threads.
    """
    keeping = LedgerOptions(
        durability, batch_rows, batch_seconds, window, witnesses, max_ahead, check, wait
    )
    if rows not in ("memory", "disk"):
        raise BadRule(f'rows is {rows!r}; expected "memory" or "disk"', setting="rows")
    chosen = None if isinstance(index, str) and index == "auto" else index
    others = {"index": chosen, "burst": burst, "comparable": comparable}
    asked = read_slope_options(
        slope, slope_limit, input_exponent, rows=rows if rows == "disk" else None, **others
    )
    return open_ledger(
        path,
        rule,
        keeping,
        slope_options=asked,
        models=models,
        rows=rows,
        engine=partial(Engine, index=index, burst=burst, comparable=comparable),
    )


@dataclass(frozen=True)
class LedgerOptions:
    """How a ledger is kept: what `open` says of each."""

    durability: Durability = "commit"
    batch_rows: int | None = None
    batch_seconds: float | None = None
    window: str | None = None
    witnesses: int = 3
    max_ahead: str | float = "5 minutes"
    check: bool = True
    wait: float = 0.0
    progress: Callable[[int, int], None] | None = None
    """Called now and then while rows are read: how many were, of how many."""

    def __post_init__(self) -> None:
        check_one_of("durability", self.durability, DURABILITIES)
        most, seconds = self.batch_limits
        if most < 1 or not 0 <= seconds < math.inf or self.witnesses < 0:
            raise BadRule("batch_rows is at least 1, batch_seconds and witnesses at least 0")

    @property
    def batch_limits(self) -> tuple[int, float]:
        """Decisions, and seconds, after which what was answered is on disk at the latest."""
        rows, seconds = DURABILITIES[self.durability]
        if self.durability != "commit":
            rows = rows if self.batch_rows is None else self.batch_rows
            seconds = seconds if self.batch_seconds is None else self.batch_seconds
        return rows, seconds


def open_ledger(
    path: str | os.PathLike[str],
    rule: Rule | None,
    options: LedgerOptions,
    *,
    slope_options: Mapping[str, float] | None = None,
    any_question: bool = False,
    models: bool | None = None,
    rows: str = "memory",
    engine: Callable[..., Engine] = Engine,
    index: Callable[[Store], Any] | None = None,
) -> Monitor:
    """Make the monitor of a ledger.

    steepest    for a ledger of slopes: what is to be as given, and not as it was
    as_it_is    whether the ledger may answer either question
    engine      makes the engine that judges, of a ledger of contradictions
    index       makes the index of that engine, where it is written into the ledger whose it is
    """
    if rule is not None and not isinstance(rule, Rule):
        raise BadRule(f"the rule is {rule!r}; expected a likewise.Rule")
    path = Path(path)
    models = rule is not None if models is None else models
    if rule is not None and (models or not folder.exists(path)):
        require_check_vectors(rule)
    wanted = None if options.window is None else RetentionWindow.of(options.window)
    ahead = MaxAhead.of(options.max_ahead)
    asked = None if slope_options is None else SlopeQuestion(**slope_options)
    if asked is not None and rule is not None:
        from likewise.monitor.best_match import check_best_match_rule

        check_best_match_rule(rule)
    sync = options.durability != "off"
    store = Store(path, rule, sync=sync, wait=options.wait, question=asked)
    try:
        if not any_question:
            _check_question(store, slope_options)
        question = _question(store, slope_options)
        rule = require_same_rule(store.reader.rule, rule, path, models=models)
        kept = _window(store, wanted)
        if question != store.reader.question:
            body = rule_body(store.reader.rule, store.reader.format.VERSION, question=question)
            store.event("rule", body)
        reader = make_reader(_without_models(store, rule) if not models else rule)
        reader.rule = rule
        if question is not None:
            from likewise.monitor.best_match import make_slope_engine  # which others need not load

            judging = make_slope_engine(reader.vector_rule, question)
        else:
            more = {} if index is None else {"index": index(store)}
            plans = stored_plans(store) if index is None else None
            if plans is not None:  # shards of a cluster will not have what comes now
                begin_epoch(store, plans)
            with _make_unnamed_file(path, rows) as scratch:
                judging = engine(reader.vector_rule, rows=scratch, **more)
        monitor = Monitor.from_parts(reader, judging, Keys(normalize_key))
        most, seconds = options.batch_limits
        journal = Journal(
            store,
            monitor.memory,
            monitor.known_keys,
            window=kept,
            ahead=ahead,
            batch_rows=most,
            batch_seconds=seconds,
            witnesses=options.witnesses if question is None else 1,
            check=options.check,
            progress=options.progress,
        )
        durability = options.durability
        monitor.attach_journal(
            journal, path, durability, None if durability == "commit" else seconds
        )
        return monitor
    except BaseException as error:
        with closing(store):
            blame_alteration(store.reader, error)
        raise


def _check_question(store: Store, steepest: Mapping[str, float] | None) -> None:
    """Raise BadRule if a ledger of slopes is to be one of contradictions, or the other way."""
    slopes = store.reader.question is not None
    if slopes == (steepest is not None):
        return
    named = f"the ledger {str(store.path)!r}"
    if slopes:
        raise BadRule(
            f"{named} holds slopes, and was to be opened for contradictions. Open it with"
            " lw.open(folder, slope=True), or begin another ledger. Nothing was changed.",
            setting="slope",
        )
    raise BadRule(
        f"{named} holds contradictions, and was to be opened for slopes. Open it with"
        " lw.open(folder), or begin another ledger. Nothing was changed.",
        setting="slope",
    )


def _question(store: Store, steepest: Mapping[str, float] | None) -> SlopeQuestion | None:
    """What is asked from now on: with the limit that is given, else with the ledger's own."""
    stored = store.reader.question
    if stored is None or not steepest:
        return stored
    wanted = replace(stored, **steepest)
    if wanted.input_exponent != stored.input_exponent:
        raise BadRule(
            f"input_exponent is {wanted.input_exponent:g}, and the ledger {str(store.path)!r} was"
            f" begun with {stored.input_exponent:g}: slopes of both cannot stand beside each other."
            " Leave it out, or begin another ledger. Nothing was changed.",
            setting="input_exponent",
        )
    return wanted


@contextmanager
def _make_unnamed_file(folder: Path, rows: str) -> Iterator[Path | None]:
    """A file for inputs that has lost its name by the end: it goes with the process."""
    if rows == "memory":
        yield None
        return
    path = folder / f"inputs.{os.getpid()}"
    path.unlink(missing_ok=True)  # of a process with this number that was killed right here
    try:
        yield path
    finally:
        path.unlink(missing_ok=True)


def _without_models(store: Store, rule: Rule) -> Rule:
    """The rule to work with where no model may be loaded."""
    if not rule.embedders():
        return rule
    layout = store.reader.layout
    types = {} if layout is None else layout.vector_types
    return without_models(rule, types, of_vectors=False)


def _window(store: Store, wanted: RetentionWindow | None) -> RetentionWindow:
    """The window that is asked for, from now on the ledger's; else the one it has."""
    stored = store.reader.window
    if wanted is not None and wanted.text != stored:
        store.event("window", {"keep": wanted.text})
    return RetentionWindow.of(stored) if wanted is None else wanted
