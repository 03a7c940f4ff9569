"""Records losses: decisions that were made but never reached a history.

A loss weakens every later verdict, since a missing decision cannot contradict anything.

>>> full = Loss(2, "full", first=7, last=8)
>>> full.merge(Loss(1, "full", first=11, last=11)).to_dict()
{'count': 3, 'reason': 'full', 'first': 7, 'last': 11}
"""

from dataclasses import asdict, dataclass
from typing import Any

from likewise.errors import UnexpectedValue


@dataclass(frozen=True)
class Explanation:
    """The index that a monitor uses, why, and what its decisions cost.

    The defaults describe a monitor before its first decision.
    """

    index: str = "none"
    shape: str = "none"
    reason: str = "nothing observed yet"
    remembered: int = 0
    forgotten: int = 0
    width: int | None = None
    storage: str = "auto"
    slack: float | None = None
    reach: float | None = None
    coordinates: int = 0
    leaves: int = 0
    depth: int = 0
    form: str = "none"
    """The current form of the index, in one line."""
    tau: int | None = None
    """Rows between two builds, for a periodic index."""
    predicted_us: float | None = None
    """The paper's T(tau) for that tau: microseconds per decision."""
    share_visited: float = 0.0
    """The share of the history that each of the last thousand decisions visited, on average."""
    rows_read: float = 0.0
    """The rows that each of them read in full, on average."""
    changes: int = 0
    planes_lifted: int = 0
    subtrees_rebuilt: int = 0
    bytes_per_decision: float = 0.0
    bytes_on_disk: float = 0.0
    """Bytes per decision; 0 where rows are kept in memory."""
    burst: str | None = None
    """What is counted for a burst, and its cost; None without a burst."""

    def __str__(self) -> str:
        if self.width is None:
            return "index            none yet: the first decision determines the shape of inputs"
        disk = f", {self.bytes_on_disk:,.0f} on disk" if self.bytes_on_disk else ""
        burst = () if self.burst is None else (f"burst            {self.burst}",)
        return "\n".join(
            (
                f"index            {self.shape}: {self.reason}",
                f"history          {self.remembered:,} decisions remembered,"
                f" {self.forgotten:,} forgotten, {self.width:,} coordinates kept as {self.storage}",
                f"near             distance <= {self.reach:.12g} (slack {self.slack:g} of epsilon)",
                f"form             {self.form}",
                f"a decision       looks at {self.share_visited:.2%} of the history and reads"
                f" {self.rows_read:.1f} rows in full (mean of the last thousand)",
                f"changes          {self.changes:,} times to another index or sketch",
                f"memory           {self.bytes_per_decision:,.1f} bytes per decision{disk}",
                *burst,
            )
        )


AT_LEAST = ", at least or about so many"
"""Ends the reason of a loss of unknown size: its count is a lower bound."""
AT_MOST = ", at most so many"
"""Ends the reason of a loss of unknown size: its count is an upper bound."""

_MOST = 1 << 62
_LONGEST = 200  # letters of a reason


def reason_at_least(words: str) -> str:
    """Return the reason of a loss whose count is a lower bound; cut long words."""
    return words[: _LONGEST - len(AT_LEAST)] + AT_LEAST


@dataclass(frozen=True, slots=True)
class Loss:
    """A number of decisions that were lost for one reason.

    first, last     the sender's numbers of the first and the last of them, if it numbers them
    since, until    the time during which they were lost, in microseconds since 1970
    """

    count: int
    reason: str
    first: int | None = None
    last: int | None = None
    since: int | None = None
    until: int | None = None

    def __post_init__(self) -> None:
        if not _fits_ledger(self.count) or self.count < 1:
            raise UnexpectedValue(
                f"the count of a loss is {self.count!r}; expected a whole number from 1."
            )
        if not isinstance(self.reason, str) or not 0 < len(self.reason) <= _LONGEST:
            raise UnexpectedValue(
                f"the reason of a loss is {self.reason!r:.80}; expected a text of 1 to {_LONGEST}"
                " letters."
            )
        for name in ("first", "last", "since", "until"):
            value = getattr(self, name)
            if value is not None and not _fits_ledger(value):
                raise UnexpectedValue(
                    f"`{name}` of a loss is {value!r}; expected a whole number, or None."
                )

    def merge(self, other: "Loss") -> "Loss":
        """Return the sum of this loss and another one with the same reason."""
        return Loss(
            self.count + other.count,
            self.reason,
            _choose(min, self.first, other.first),
            _choose(max, self.last, other.last),
            _choose(min, self.since, other.since),
            _choose(max, self.until, other.until),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the fields that are known, for JSON."""
        return {name: value for name, value in asdict(self).items() if value is not None}


def _choose(choose: Any, one: int | None, other: int | None) -> int | None:
    known = [value for value in (one, other) if value is not None]
    return choose(known) if known else None


def _fits_ledger(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and -_MOST < value < _MOST
