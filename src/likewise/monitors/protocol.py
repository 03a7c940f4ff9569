"""The contract of a monitor: all that watching, intake, reports and commands may use.

`likewise.Monitor` keeps it in this process, with or without a ledger; so does `SlopeMonitor`, whose
verdicts say something else. Whatever keeps it (`tests/contracts/test_monitors.py` runs over all of
them) can take another's place.

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

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol, Self

from likewise.reading.protocol import FROM_ROW
from likewise.rules.rule import Rule
from likewise.values.explanation import Explanation
from likewise.values.past import Past
from likewise.values.printing import with_bounded_repr


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
    """Told of decisions, names for each the past ones that it contradicts."""

    @property
    def rule(self) -> Rule: ...

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
    ) -> Any:
        """Compare a decision with the past, then make it part of the past.

        x       the input: a vector, a row of a table, or what the rule's embedder takes
        z       the output; may be left out where it is one of the row's columns
        key     the caller's own name for the decision, unique
        time    when it was made, if that is not now
        model   which model made it
        """

    def observe_many(
        self,
        x: Any,
        z: Any = FROM_ROW,
        *,
        keys: Sequence[Any] | None = None,
        times: Any = None,
        models: Any = None,
    ) -> Any:
        """The same verdicts as one by one; all are taken, or none.

        models: a name for all of them, or a sequence with a name or None for each
        """

    def check(
        self, x: Any, z: Any = FROM_ROW, *, time: Any = None, model: str | None = None
    ) -> Any:
        """The verdict on a decision as if it came now; nothing is remembered."""

    def check_many(self, x: Any, z: Any = FROM_ROW, *, time: Any = None, models: Any = None) -> Any:
        """The verdicts of decisions, each as if it came now, alone."""

    def load(
        self,
        x: Any,
        z: Any = FROM_ROW,
        *,
        keys: Sequence[Any] | None = None,
        times: Any = None,
        models: Any = None,
    ) -> range:
        """Remember decisions without judging them; their rows."""

    def forget(self, rows: Any) -> int:
        """Erase rows: never a witness again. How many of them were still remembered."""

    def lost(
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

    def explain(self) -> Explanation:
        """What index is in use, why, and what it costs."""

    def close(self) -> None: ...

    def __len__(self) -> int:
        """Decisions remembered now."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...
