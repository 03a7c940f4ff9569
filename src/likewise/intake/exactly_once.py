"""Decisions that may be sent again are stored once, and answered as they were the first time.

A decision is known again by the rule's key. Under a rule without one its position in the input is
its key: a number from 1, which grows. Whoever sends a decision again under a position must send the
same one.

Invariant: no decision is stored twice, however often a run was killed in between.
Cost: a look at the keys for each decision; those stored already are read from the disk, together
where they lie close.
Not here: judging (sifting.py), and where counting begins, which is up to whoever reads the input.
"""

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from likewise.intake.binding import Binding
from likewise.intake.verdict_json import stored_answer
from likewise.ledger import folder
from likewise.ledger.ledger import Entry, Ledger
from likewise.ledger.reader import LedgerReader
from likewise.monitors import opening
from likewise.monitors.monitor import Monitor
from likewise.rules.burst import Burst
from likewise.rules.difference import difference
from likewise.rules.rule import Rule
from likewise.sources.chunk import Chunk
from likewise.values.errors import BadDecision, BadRule

_CLOSE = 4  # rows for each that is wanted, up to which a run of them is read together


class OtherInput(BadDecision):
    """What came at a position is not what the ledger has for it, so this is other input."""


def stored_rule(path: Path) -> Rule | None:
    """The rule of a ledger, whose models are not loaded for it; None if no ledger is there."""
    if not folder.exists(path):
        return None
    with closing(folder.connect(path, write=False)) as database:
        return LedgerReader(path, database).rule


class ExactlyOnce:
    """A ledger to which decisions are written once.

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
        self._binding: Binding | None = None
        self._monitor: Monitor | None = None
        self._ledger: Ledger | None = None
        self._entries: dict[int, Entry] = {}
        self.rule: Rule | None = None
        """The rule of the ledger, once it is open."""
        self.last_position = 0
        """Of the decisions that were stored under their positions."""
        if rule is not None:
            self._open(rule)
            assert self._monitor is not None
            if self._monitor.rows and self._key_column is None:
                last = self._entry(self._monitor.rows - 1).key
                self.last_position = last if isinstance(last, int) else 0

    def _open(self, rule: Rule) -> None:
        self._monitor = opening.open(self._path, rule, **self._settings)  # type: ignore[arg-type]
        self.rule = self._monitor.rule

    def begin(self, binding: Binding) -> Monitor:
        """The monitor, now that the rule is bound to columns."""
        self._binding = binding
        if self.rule is not None and binding.rule.fingerprint != self.rule.fingerprint:
            raise BadRule(
                f"the ledger {self._path} was begun under another rule:\n"
                f"{difference(self.rule, binding.rule)}\nLeave out what says the rule, or begin"
                " another ledger."
            )
        if self._monitor is None:
            self._open(binding.rule)
        assert self._monitor is not None
        return self._monitor

    @property
    def _key_column(self) -> str | None:
        return None if self.rule is None else self.rule.key_column

    def keys(self, rows: Chunk) -> dict[str, Any]:
        """For `observe_many`: positions as keys, where the rule has no key."""
        return {} if self._key_column is not None else {"keys": rows.places.tolist()}

    def prepare(self, rows: Sequence[dict[str, Any]], positions: Sequence[int]) -> None:
        """Read together what is stored of decisions that came together."""
        each = map(self._row_of, rows, positions)
        stored = [row for row in each if row is not None]
        self._entries = {}
        if stored and max(stored) - min(stored) < _CLOSE * len(stored):
            self._entry(max(stored))  # so that the ledger was opened after it was written
            assert self._ledger is not None
            entries = self._ledger.entries(min(stored), max(stored) + 1)
            self._entries = {entry.row: entry for entry in entries}

    def answer(
        self, row: dict[str, Any], position: int, witnesses: int | None = None
    ) -> dict[str, Any] | None:
        """What was answered to a decision that is stored already; None if it is not.

        Raises OtherInput if another one is stored under its position. If another one has its key,
        the answer is None, since the monitor refuses it.
        """
        column, stored = self._key_column, self._row_of(row, position)
        if stored is None:
            seen = column is None and position <= self.last_position
            why = "an earlier run could not judge this line, or it was erased since"
            return {"known": True, "error": why} if seen else None
        if not self._same(stored, row):
            if column is not None:
                return None
            raise OtherInput(
                f"line {position} is not what the ledger {self._path} has for that line: this is"
                " other input."
            )
        assert self._monitor is not None
        keys_of = None if column is None else self._monitor.past.keys
        entry = self._entry(stored)
        return {"known": True, **stored_answer(entry, witnesses, keys_of)}

    def _row_of(self, row: dict[str, Any], position: int) -> int | None:
        """The row of a decision that is stored already."""
        assert self._monitor is not None
        column = self._key_column
        key = position if column is None else row.get(column)
        if not isinstance(key, str | int) or isinstance(key, bool):
            return None
        try:
            return self._monitor.row_of(key)
        except BadDecision:  # it cannot be a key, so it is not stored; the monitor says why
            return None

    def _same(self, stored: int, row: dict[str, Any]) -> bool:
        """Whether a decision says what is stored."""
        assert self._monitor is not None and self._binding is not None
        past, binding = self._monitor.past, self._binding
        if past.rule.features is not None:
            values = past.values(stored)
            return all(_alike(values[name], row.get(name)) for name in values)
        given = [row.get(name) for name in binding.inputs]
        output = row.get(binding.output_column or "")
        inputs = past.inputs([stored])[0].tolist()
        return bool(given == inputs and output == self._entry(stored).output)

    def _entry(self, row: int) -> Entry:
        """A stored decision with its verdict."""
        if row in self._entries:
            return self._entries[row]
        if self._ledger is None or row >= self._ledger.rows:
            if self._ledger is not None:
                self._ledger.close()
            self._ledger = Ledger(self._path)
        return self._ledger.entry(row)

    def close(self) -> None:
        if self._ledger is not None:
            self._ledger.close()
        if self._monitor is not None:
            self._monitor.close()


def _alike(stored: Any, given: Any) -> bool:
    missing = given is None or given != given  # noqa: PLR0124 - NaN
    return bool(stored is None if missing else stored == given)
