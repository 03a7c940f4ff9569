"""The contract of a monitor: all that watching, buffers, reports and commands may use.

`likewise.Monitor` keeps it in this process, with or without a ledger; a client (client/) keeps it
for a monitor behind a service. Whatever keeps it (`tests/contracts/test_monitors.py` runs over all
of them) can take another's place. Two more contracts are kept by some monitors only. Whoever needs
one of them asks `monitor.remote` or `monitor.accepting`, which answer the monitor with these calls,
or None; nobody looks at classes or signatures.

Invariants:
- Rows are numbered from 0 in the order in which decisions were taken; a number is never used again.
- `observe` one by one and `observe_many` give the same verdicts.
- `check` and `check_many` leave no trace; nor does what is refused, and it cannot be seen.
- A call that is cut off by an exception has been made wholly or not at all.
- Where a monitor is asked to (`Monitor(rule, comparable=True)`), `verdict.comparable` says whether
  an earlier remembered input, which could have been named, was near, whatever its output; so a
  decision with a witness is comparable. Elsewhere it is None.
- `model` says which model decided; where the rule's `compare` is "within" or "across", only pairs
  of one model, or of two, count. Decisions without a model count as one more model.
- Every call is one step of the history, whichever thread it comes from.
- `missing` never goes down while a history lasts. A verdict says what it was when it was judged
  (`verdict.missing`); losses that are told later change no earlier verdict.
"""

from collections.abc import Callable, Sequence
from threading import RLock
from typing import Any, NamedTuple, Protocol, Self, TypeAlias

from likewise.errors import LikewiseError
from likewise.explaining.past import Past
from likewise.monitor.readers.protocol import FROM_ROW
from likewise.rule.rule import Rule
from likewise.tables.positions import Position
from likewise.tables.printing import with_bounded_repr
from likewise.verdict.index_report import Explanation
from likewise.verdict.verdicts import Verdict, Verdicts

ForEach: TypeAlias = str | Sequence[str | None] | None
"""A name for all decisions of a call; or one, or None, for each."""


@with_bounded_repr
class Decision(NamedTuple):
    """What `observe` takes, in one value."""

    x: Any
    z: Any = FROM_ROW
    key: Any = None
    time: Any = None
    model: str | None = None
    source: str | None = None
    position: Any = None


class AnyMonitor(Protocol):
    """Is told of decisions, and names for each the past ones that it contradicts."""

    @property
    def rule(self) -> Rule: ...

    @property
    def comparable(self) -> bool:
        """Whether verdicts say if there was a near past input at all."""

    @property
    def durable(self) -> bool:
        """Whether its history outlives this process."""

    @property
    def closed(self) -> bool: ...

    @property
    def remote(self) -> "RemoteMonitor | None":
        """This monitor, if it is behind a service; None if it is in this process."""

    @property
    def call_lock(self) -> "RLock | None":
        """The lock that calls take, if a call waits for nothing else: no disk, service or embedder.

        Whoever must not wait tries it, and has another thread make the call if it is taken.
        """

    @property
    def accepting(self) -> "AcceptingMonitor | None":
        """This monitor, if it has a ledger here that accepts decisions before they are judged."""

    @property
    def rows(self) -> int:
        """Decisions ever taken: the row of the next one."""

    @property
    def past(self) -> Past:
        """The only way to look back."""

    @property
    def missing(self) -> int:
        """Decisions known to be missing from this history: the sum of what `lost` was told."""

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
        """The same verdicts as one by one; all are taken, or none.

        threads: how many cores of this machine may share the work; all of them unless given
        """

    def check(
        self, x: Any, z: Any = FROM_ROW, *, time: Any = None, model: str | None = None
    ) -> Verdict:
        """The verdict on a decision as if it came now; nothing is remembered."""

    def check_many(
        self, x: Any, z: Any = FROM_ROW, *, time: Any = None, models: ForEach = None
    ) -> Verdicts:
        """The verdicts of decisions, each as if it came now, alone."""

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
        """Remember decisions without judging them; their rows."""

    def forget(self, rows: Any) -> int:
        """Erase rows: never a witness again. How many of them were still remembered."""

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
        """So many decisions were made and will never be observed; every later verdict says so.

        reason          why, in a word or a few: "full", "timeout", "crash"
        first, last     the sender's own numbers of the first and the last of them
        since, until    when they were lost, as `time` of a decision
        """

    def row_of(self, key: Any) -> int | None:
        """The row of a key, if it is remembered."""

    def explain(self) -> Explanation:
        """What index is in use, why, and what it costs."""

    def close(self) -> None: ...

    def __len__(self) -> int:
        """Decisions remembered now."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...


class RemoteMonitor(AnyMonitor, Protocol):
    """A monitor behind a service, which may be away and which others may tell of decisions too.

    So its `rows` do not say what became of a call. A call that changes something takes an id
    (`request`), and is made once however often it is repeated under that id.
    """

    @property
    def known_rule(self) -> Rule | None:
        """The rule, if the service has been asked for it; this never asks."""

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


class AcceptingMonitor(AnyMonitor, Protocol):
    """A monitor whose ledger can have decisions on disk now, and judge them later."""

    @property
    def accepted_count(self) -> int:
        """Decisions that are accepted and not judged yet."""

    @property
    def rows_taken(self) -> int:
        """As `rows`, which has the accepted judged first; this does not."""

    def accept(
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
        """Have decisions on disk; all, or none. They are judged before any later call is made."""

    def judge_accepted(self, most: int = 1024) -> Verdicts | None:
        """Judge the next decisions that were accepted: their verdicts; None if there are none."""

    def observe_each(self, decisions: Sequence[Decision]) -> "list[Verdict | LikewiseError]":
        """Take decisions one after another in one transaction: each has its verdict or refusal."""

    def drain_before_close(self, drain: Callable[[float], object]) -> None:
        """Have a method called, with seconds, when this is closed; its object may go before."""

    def verdicts_of(self, rows: Sequence[int]) -> list[Verdict | None]:
        """The verdicts that the ledger has on these rows; None for a row without one."""

    def begin_buffer(self, name: str, most: int, *, drops: bool) -> None:
        """Chain that so many decisions may be lost if this process is killed; see Monitor."""

    def end_buffer(self, name: str) -> None:
        """Chain that nothing of that buffer waits any more."""
