"""Open a monitor whose history is a folder: what it answers is on disk, and survives.

A decision is judged in memory, then written with its verdict (journal.py), then answered.
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
from likewise.ledger.retention import RetentionWindow
from likewise.ledger.store import Store
from likewise.ledger.verification import blame_alteration
from likewise.monitor.factory import make_reader, read_slope_options
from likewise.monitor.journal import Journal
from likewise.monitor.monitor import Monitor, assemble_monitor
from likewise.monitor.monitor_ledger import MonitorLedger
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
"""How many decisions, and seconds, may pass until answers are on disk."""


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
    support: bool = False,
    check: bool = True,
    models: bool | None = None,
    inputs: Literal["memory", "disk"] = "memory",
    wait: float = 0.0,
    slope: bool = False,
    slope_limit: float | None = None,
    input_exponent: float | None = None,
) -> Monitor:
    """Open a monitor whose history is a ledger, that is a folder; a new folder begins a new ledger.

    >>> import likewise as lw, tempfile
    >>> folder = tempfile.mkdtemp()
    >>> with lw.open(folder, lw.Rule("linf", 0.1)) as monitor:
    ...     monitor.observe([0.50, 0.20], "yes", key="case 17").violation
    False
    >>> with lw.open(folder) as monitor:  # in another process, another year
    ...     verdict = monitor.observe([0.45, 0.25], "no", key="case 18")
    ...     verdict.witnesses.rows, monitor.ledger.verify().ok
    (array([0]), True)

    path        the folder: new, empty, or with a ledger
    rule        required for a new ledger; for an existing one it may be left out, and must be the
                same
    durability  "commit": a verdict is answered when its decision is on disk; "batch": decisions are
                on disk after `batch_rows` of them or `batch_seconds`, whichever comes first; "off":
                the same, but without asking the system to sync the disk, so a crash of the machine,
                not of the process, may lose some or damage the ledger
    window      how much to keep: "all", "100000 rows", "24 hours"; unchanged by default
    witnesses   how many of the nearest are written for each decision; all are counted
    max_ahead   how far given times may be ahead of the clock: "5 minutes", seconds, "any"
    index       as for Monitor
    burst       as for Monitor; need not be the same next time
    comparable, support     as for Monitor
    check       whether the whole chain is verified first
    models      whether embedders are loaded, and compared with those of the ledger. By default
                those of a rule that is passed here are, and those that the ledger's own rule names
                are not: that rule may be somebody else's, and may name code. Without models, texts
                and pictures cannot be observed, but everything else works
    inputs      "disk": inputs are kept in a file without a name, beside the ledger's own, and only
                candidates are read from it: for long inputs, such as pictures
    wait        seconds to wait for another process to release the ledger, as in a rolling restart
    slope       as for Monitor. A ledger records in its chain that it holds slopes, and has to be
                opened with `slope=True` from then on
    slope_limit     unchanged by default; with math.inf nothing is a violation from now on
    input_exponent  for a new ledger; for an existing one it must be the same

    Everything else is as for a `Monitor`. Methods may be called from several threads.
    """
    options = LedgerOptions(
        durability, batch_rows, batch_seconds, window, witnesses, max_ahead, check, wait
    )
    check_one_of("inputs", inputs, ("memory", "disk"))
    slope_options = read_slope_options(
        slope,
        slope_limit,
        input_exponent,
        inputs=inputs if inputs == "disk" else None,
        index=index,
        burst=burst,
        comparable=comparable,
        support=support,
    )
    return open_ledger(
        path,
        rule,
        options,
        slope_options=slope_options,
        models=models,
        inputs=inputs,
        engine=partial(Engine, index=index, burst=burst, comparable=comparable, support=support),
    )


@dataclass(frozen=True)
class LedgerOptions:
    """Holds settings of a ledger; `open` explains each."""

    durability: Durability = "commit"
    batch_rows: int | None = None
    batch_seconds: float | None = None
    window: str | None = None
    witnesses: int = 3
    max_ahead: str | float = "5 minutes"
    check: bool = True
    wait: float = 0.0
    progress: Callable[[int, int], None] | None = None
    """Called from time to time while rows are read, with their number so far and the total."""

    def __post_init__(self) -> None:
        check_one_of("durability", self.durability, DURABILITIES)
        most, seconds = self.batch_limits
        if most < 1 or not 0 <= seconds < math.inf or self.witnesses < 0:
            raise BadRule("batch_rows is at least 1, batch_seconds and witnesses at least 0")

    @property
    def batch_limits(self) -> tuple[int, float]:
        """How many decisions, and seconds, may pass until answers are on disk."""
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
    inputs: str = "memory",
    engine: Callable[..., Engine] = Engine,
    index: Callable[[Store], Any] | None = None,
) -> Monitor:
    """Make the monitor of a ledger.

    slope_options   for a ledger of slopes: the settings to change; None to find contradictions
    any_question    whether a ledger of slopes may be opened without `slope_options`
    engine          makes the engine of a ledger of contradictions
    index           makes the index of that engine from the store, for indexes that write to it
    """
    if rule is not None and not isinstance(rule, Rule):
        raise BadRule(f"the rule is {rule!r}; expected a likewise.Rule")
    path = Path(path)
    models = rule is not None if models is None else models
    if rule is not None and (models or not folder.exists(path)):
        require_check_vectors(rule)
    new_window = None if options.window is None else RetentionWindow.of(options.window)
    ahead = MaxAhead.of(options.max_ahead)
    question = None if slope_options is None else SlopeQuestion(**slope_options)
    if question is not None and rule is not None:
        from likewise.monitor.best_match import check_best_match_rule

        check_best_match_rule(rule)
    sync = options.durability != "off"
    store = Store(path, rule, sync=sync, wait=options.wait, question=question)
    try:
        if not any_question:
            _check_question(store, slope_options)
        question = _resolve_question(store, slope_options)
        rule = require_same_rule(store.reader.rule, rule, path, models=models)
        window = _resolve_window(store, new_window)
        if question != store.reader.question:
            body = rule_body(store.reader.rule, store.reader.format.VERSION, question=question)
            store.event("rule", body)
        reader = make_reader(_without_models(store, rule) if not models else rule)
        reader.rule = rule
        if question is not None:
            # Imported here, so that other monitors start without it.
            from likewise.monitor.best_match import make_slope_engine

            own_engine = make_slope_engine(reader.vector_rule, question)
        else:
            more = {} if index is None else {"index": index(store)}
            plans = stored_plans(store) if index is None else None
            if plans is not None:  # shards of a cluster will not have what comes now
                begin_epoch(store, plans)
            with _make_unnamed_file(path, inputs) as scratch:
                own_engine = engine(reader.vector_rule, rows=scratch, **more)
        monitor = assemble_monitor(reader, own_engine, Keys(normalize_key))
        most, seconds = options.batch_limits
        core = monitor.core
        journal = Journal(
            store,
            core.memory,
            core.keys,
            window=window,
            ahead=ahead,
            batch_rows=most,
            batch_seconds=seconds,
            witnesses=options.witnesses if question is None else 1,
            check=options.check,
            progress=options.progress,
        )
        flush_seconds = None if options.durability == "commit" else seconds
        core.attach_ledger(MonitorLedger(core, journal, path, options.durability, flush_seconds))
        return monitor
    except BaseException as error:
        with closing(store):
            blame_alteration(store.reader, error)
        raise


def _check_question(store: Store, slope_options: Mapping[str, float] | None) -> None:
    """Raise BadRule if a ledger of slopes is opened for contradictions, or the other way round."""
    slopes = store.reader.question is not None
    if slopes == (slope_options is not None):
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


def _resolve_question(
    store: Store, slope_options: Mapping[str, float] | None
) -> SlopeQuestion | None:
    """Return the question from now on: with the given limit, else with the ledger's own."""
    stored = store.reader.question
    if stored is None or not slope_options:
        return stored
    question = replace(stored, **slope_options)
    if question.input_exponent != stored.input_exponent:
        raise BadRule(
            f"input_exponent is {question.input_exponent:g}, and the ledger {str(store.path)!r} was"
            f" begun with {stored.input_exponent:g}: slopes of both cannot stand beside each other."
            " Leave it out, or begin another ledger. Nothing was changed.",
            setting="input_exponent",
        )
    return question


@contextmanager
def _make_unnamed_file(folder: Path, inputs: str) -> Iterator[Path | None]:
    """Name a file for inputs, and remove the name at the end: the file goes with the process."""
    if inputs == "memory":
        yield None
        return
    path = folder / f"inputs.{os.getpid()}"
    path.unlink(missing_ok=True)  # left by a process with this number that was killed right here
    try:
        yield path
    finally:
        path.unlink(missing_ok=True)


def _without_models(store: Store, rule: Rule) -> Rule:
    """Return the rule to work with if no model may be loaded."""
    if not rule.embedders():
        return rule
    layout = store.reader.layout
    types = {} if layout is None else layout.vector_types
    return without_models(rule, types, of_vectors=False)


def _resolve_window(store: Store, new_window: RetentionWindow | None) -> RetentionWindow:
    """Return the ledger's window, after recording the new one if there is any."""
    stored = store.reader.window
    if new_window is not None and new_window.text != stored:
        store.event("window", {"keep": new_window.text})
    return RetentionWindow.of(stored) if new_window is None else new_window
