"""The contracts of a monitor: all that watching, buffers, reports and commands may use.

`likewise.Monitor` implements them in this process; a client (client/) for a monitor behind a
service. `tests/contracts/test_monitors.py` runs over all implementations. Callers that need the
methods of some monitors only ask `monitor.remote` or `monitor.core`, never for classes.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol, Self

from likewise.explaining.past import Past
from likewise.ledger.heads import Head
from likewise.ledger.stats import LedgerStats
from likewise.ledger.verification import Verification
from likewise.monitor.readers.protocol import FROM_ROW, ForEach
from likewise.rule.rule import Rule
from likewise.tables.positions import Position
from likewise.verdict.losses import Explanation
from likewise.verdict.precedents import Precedents
from likewise.verdict.verdicts import Verdict, Verdicts

if TYPE_CHECKING:
    from likewise.monitor.core import MonitorCore  # loads the compiler


class AnyMonitor(Protocol):
    """Observes decisions, and names for each the past ones that it contradicts.

    - Rows are numbered from 0 in the order in which decisions were taken; no number is reused.
    - `observe` one by one and `observe_many` give the same verdicts.
    - `check`, `check_many` and refused decisions leave no trace.
    - A call that is interrupted by an exception has been made wholly or not at all.
    - If a monitor is asked to (`Monitor(rule, comparable=True)`), `verdict.comparable` says whether
      an earlier remembered input that could have been named was near, whatever its output; so a
      decision with a witness is comparable. Otherwise it is None.
    - With `Monitor(rule, support=True)`, `verdict.support` counts these inputs, and those of them
      that agree: all but the witnesses. Such a monitor says what is comparable, too.
    - `model` says which model decided; if the rule's `compare` is "within" or "across", only pairs
      of one model, or of two, count. Decisions without a model count as one more model.
    - Every call is one step of the history, whichever thread makes it.
    - `missing_decisions` never goes down while a history lasts. A verdict says what it was when it
      was judged (`verdict.missing_decisions`); later losses change no earlier verdict.
    """

    @property
    def rule(self) -> Rule: ...

    @property
    def comparable(self) -> bool:
        """Whether verdicts say if any past input was near, whatever its output."""

    @property
    def support(self) -> bool:
        """Whether verdicts say how many past inputs were near, and how many of those agree."""

    @property
    def durable(self) -> bool:
        """Whether the history outlives this process."""

    @property
    def closed(self) -> bool: ...

    @property
    def remote(self) -> "RemoteMonitor | None":
        """This monitor if it is behind a service; None if it is in this process."""

    @property
    def core(self) -> "MonitorCore | None":
        """The core of a monitor in this process; None for one behind a service."""

    @property
    def ledger(self) -> "AnyLedger":
        """The ledger; BadRule for a monitor in this process that has none."""

    @property
    def rows(self) -> int:
        """How many decisions were ever taken, which is the row of the next one."""

    @property
    def past(self) -> Past:
        """What is remembered of past decisions, by row."""

    @property
    def missing_decisions(self) -> int:
        """How many decisions are known to be missing: the sum of all `record_loss` calls."""

    def observe(
        self,
        x: Any,
        z: Any = FROM_ROW,
        *,
        key: Any = None,
        time: Any = None,
        model: str | None = None,
        source: str | None = None,
        position: Position | None = None,
    ) -> Verdict:
        """Compare a decision with the past, then make it part of the past.

        x       the input: a vector, a row of a table, or what the rule's embedder takes
        z       the output; may be left out where it is one of the row's columns
        key     the caller's own name for the decision, unique
        time    when it was made, if that is not now
        model   which model made it
        source, position    with a ledger: the sequence that it comes from, and its place there
        """

    def observe_many(
        self,
        x: Any,
        z: Any = FROM_ROW,
        *,
        keys: Sequence[Any] | None = None,
        times: Any = None,
        models: ForEach = None,
        sources: ForEach = None,
        positions: Sequence[Position | None] | None = None,
        threads: int | None = None,
    ) -> Verdicts:
        """Observe many decisions, all or none; the verdicts are those of `observe` one by one.

        threads: how many cores of this machine may share the work; all of them by default
        """

    def check(
        self, x: Any, z: Any = FROM_ROW, *, time: Any = None, model: str | None = None
    ) -> Verdict:
        """Judge a decision as if it came now; nothing is remembered."""

    def check_many(
        self, x: Any, z: Any = FROM_ROW, *, time: Any = None, models: ForEach = None
    ) -> Verdicts:
        """Judge each decision as if it alone came now; nothing is remembered."""

    def like(
        self,
        x: Any,
        *,
        limit: int | None = None,
        model: str | None = None,
        time: Any = None,
        person: Any = None,
    ) -> Precedents:
        """Find the past decisions near an input, whatever their outputs; nothing is remembered.

        limit   how many of them are listed, nearest first; all are counted
        person  whose decisions are left out
        """

    def load(
        self,
        x: Any,
        z: Any = FROM_ROW,
        *,
        keys: Sequence[Any] | None = None,
        times: Any = None,
        models: ForEach = None,
        sources: ForEach = None,
        positions: Sequence[Position | None] | None = None,
    ) -> range:
        """Remember decisions without judging them; return their rows."""

    def forget(self, rows: Any) -> int:
        """Erase rows, so that they are never witnesses again; return how many were remembered."""

    def record_loss(
        self,
        count: int,
        reason: str,
        *,
        first: int | None = None,
        last: int | None = None,
        since: Any = None,
        until: Any = None,
    ) -> None:
        """Record that decisions were made that will never be observed; every later verdict says so.

        reason          why, in a word or a few: "full", "timeout", "crash"
        first, last     the sender's own numbers of the first and the last of them
        since, until    when they were lost, as `time` of a decision
        """

    def row_of(self, key: Any) -> int | None:
        """Return the row of a key, or None if it is not remembered."""

    def explain(self) -> Explanation:
        """Say which index is in use, why, and what it costs."""

    def close(self) -> None: ...

    def __len__(self) -> int:
        """Return how many decisions are remembered now."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...


class RemoteMonitor(AnyMonitor, Protocol):
    """Is a monitor behind a service, which may be unreachable and which others may use too.

    So its `rows` do not tell whether a call succeeded. A call that changes something takes an id
    (`request`), and is made once however often it is repeated under that id.
    """

    @property
    def known_rule(self) -> Rule | None:
        """The rule if the service has been asked for it; this property never asks."""

    def observe(
        self,
        x: Any,
        z: Any = FROM_ROW,
        *,
        key: Any = None,
        time: Any = None,
        model: str | None = None,
        source: str | None = None,
        position: Position | None = None,
        request: str | None = None,
    ) -> Verdict: ...

    def observe_many(
        self,
        x: Any,
        z: Any = FROM_ROW,
        *,
        keys: Sequence[Any] | None = None,
        times: Any = None,
        models: ForEach = None,
        sources: ForEach = None,
        positions: Sequence[Position | None] | None = None,
        threads: int | None = None,
        request: str | None = None,
    ) -> Verdicts: ...

    def record_loss(
        self,
        count: int,
        reason: str,
        *,
        first: int | None = None,
        last: int | None = None,
        since: Any = None,
        until: Any = None,
        request: str | None = None,
    ) -> None: ...


class AnyLedger(Protocol):
    """Holds what a monitor answered, as evidence."""

    @property
    def positions(self) -> dict[str, Position]:
        """The last position on disk by source, which is where to go on after a restart."""

    def verify(self, head: Head | str | None = None) -> Verification:
        """Check the ledger's chain, and name the first row that is not as it was written."""

    def head(self) -> Head:
        """Return the end of the ledger's chain."""

    def stats(self, last: str | None = None) -> LedgerStats:
        """Count the decisions of the ledger: all, comparable ones and contradicting ones."""

    def truth(self, key: Any, value: Any) -> None:
        """Record what turned out to be right for a decision; no verdict changes."""
