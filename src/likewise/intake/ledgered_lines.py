"""A ledger to which the lines of an input are written, each of them once.

A line is known again by the rule's key. Under a rule without one its number in the input is its
key, which grows. The monitor itself answers what is sent again as it was answered before; here
stands what follows from numbers: another decision under the number of an earlier one shows that
this is other input, and a number that was passed without a decision is not judged later.

Invariant: no decision is stored twice, however often a run was killed in between.
Not here: judging (sifting.py), repeated keys (monitors/repeats.py), and where counting begins,
which is up to whoever reads the input.
"""

from contextlib import closing
from pathlib import Path
from typing import Any

from likewise.intake.binding import Binding
from likewise.ledger import folder
from likewise.ledger.ledger import Ledger
from likewise.ledger.reader import LedgerReader
from likewise.monitors import opening
from likewise.monitors.monitor import Monitor
from likewise.rules.burst import Burst
from likewise.rules.difference import difference
from likewise.rules.rule import Rule
from likewise.sources.chunk import Chunk
from likewise.values.errors import BadDecision, BadRule, RepeatedKey

_PASSED = "an earlier run could not judge this line, or it was erased since"


class OtherInput(BadDecision):
    """What came at a line is not what the ledger has for it, so this is other input."""

    code = "other-input"


def stored_rule(path: Path) -> Rule | None:
    """The rule of a ledger, whose models are not loaded for it; None if no ledger is there."""
    if not folder.exists(path):
        return None
    with closing(folder.connect(path, write=False)) as database:
        return LedgerReader(path, database).rule


class LedgeredLines:
    """A ledger that lines are written to.

    Where the rule is known, the ledger is opened at once, else by `begin`.
    """

    def __init__(
        self,
        path: Path,
        rule: Rule | None,
        *,
        durability: str = "commit",
        window: str | None = None,
        burst: Burst | None = None,
        comparable: bool = False,
    ) -> None:
        self._path = path
        self._settings = {
            "durability": durability,
            "window": window,
            "burst": burst,
            "comparable": comparable,
        }
        self._monitor: Monitor | None = None
        self.rule: Rule | None = None
        """The rule of the ledger, once it is open."""
        self.last_number = 0
        """Of the lines that earlier runs have stored under their numbers."""
        if rule is not None:
            self._open(rule)
            self.last_number = self._last_number()

    def _open(self, rule: Rule) -> Monitor:
        monitor = opening.open(self._path, rule, **self._settings)  # type: ignore[arg-type]
        self._monitor, self.rule = monitor, monitor.rule
        return monitor

    def _last_number(self) -> int:
        if self._keyed:
            return 0
        with Ledger(self._path) as ledger:
            last = ledger.entry(ledger.rows - 1).key if ledger.rows > ledger.first else None
        return last if isinstance(last, int) else 0

    def begin(self, binding: Binding) -> Monitor:
        """The monitor, now that the rule is bound to columns."""
        if self.rule is not None and binding.rule.fingerprint != self.rule.fingerprint:
            raise BadRule(
                f"the ledger {self._path} was begun under another rule:\n"
                f"{difference(self.rule, binding.rule)}\nLeave out what says the rule, or begin"
                " another ledger."
            )
        return self._open(binding.rule) if self._monitor is None else self._monitor

    @property
    def _keyed(self) -> bool:
        return self.rule is not None and self.rule.key_column is not None

    def keys(self, rows: Chunk) -> dict[str, Any]:
        """For `observe_many`: the numbers of lines as keys, where the rule has no key."""
        return {} if self._keyed else {"keys": rows.places.tolist()}

    def why_passed(self, number: int) -> str | None:
        """Why a line is not judged: an earlier run has passed it, and has no decision for it."""
        if self._keyed or number > self.last_number:
            return None
        assert self._monitor is not None
        return _PASSED if self._monitor.row_of(number) is None else None

    def other_input(self, error: BadDecision, number: int) -> OtherInput | None:
        """What the refusal of a line means, if it is that another one is stored in its place."""
        if self._keyed or not isinstance(error, RepeatedKey):
            return None
        return OtherInput(
            f"line {number} is not what the ledger {self._path} has for that line: this is other"
            " input."
        )

    def close(self) -> None:
        if self._monitor is not None:
            self._monitor.close()
