"""The ledger behind `likewise watch`: what was written before, and what is not to be written twice.

A line is known again by the rule's key. Under a rule without one, the number of a line is its key:
a run goes on counting where the last one stopped, unless the input begins again at its first line
(`--resume`), which then must be the same input.

Invariant: no line is stored twice, however often a run was killed in between.
"""

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from likewise.burst import Burst
from likewise.cli.endings import DATA, Stop
from likewise.cli.rules import Asked, with_trusted_code
from likewise.errors import BadFile
from likewise.history.ledger import folder
from likewise.history.ledger.look import Ledger
from likewise.history.ledger.reader import Reader
from likewise.monitors.difference import difference
from likewise.monitors.ledgered import LedgerMonitor
from likewise.monitors.tables import TableMonitor
from likewise.rule import Rule
from likewise.types import Witness

_CLOSE = 4  # rows for each that is wanted, up to which a run of them is read together
LINE = "\x00line"
"""The name under which a row carries the number of its line; no column of a file has it."""


class Written:
    """A ledger that lines are written to."""

    def __init__(
        self,
        path: Path,
        rule: Rule | None,
        *,
        durability: str,
        window: str | None,
        burst: Burst | None,
        resume: bool,
        trust_code: bool,
    ) -> None:
        self._path = path
        self._settings = {"durability": durability, "window": window, "burst": burst}
        self._resume = resume
        self._asked: Asked | None = None
        self._monitor: LedgerMonitor | None = None
        self._look: Ledger | None = None
        self._read: dict[int, Any] = {}
        self.rule: Rule | None = None
        """The rule of a ledger that is there."""
        self.last_line = 0
        """Of those stored under the numbers of their lines."""
        if rule is None and folder.exists(path):
            rule = self._stored_rule(trust_code)
        if rule is not None:
            self._monitor = LedgerMonitor(path, rule, **self._settings)  # type: ignore[arg-type]
            self.rule = self._monitor.rule
            if self._monitor.rows and self._key_column() is None:
                last = self._entry(self._monitor.rows - 1).key
                self.last_line = last if isinstance(last, int) else 0

    def _stored_rule(self, trust_code: bool) -> Rule:
        """The rule of the ledger, for which alone its models are loaded, if it may be used."""
        with closing(folder.connect(self._path, write=False)) as database:
            rule = Reader(self._path, database).rule
        return with_trusted_code(rule, f"the rule of the ledger {self._path}", trust_code)

    @property
    def lines_before(self) -> int:
        return 0 if self._resume else self.last_line

    def begin(self, asked: Asked) -> LedgerMonitor:
        """The monitor, now that the rule is settled."""
        self._asked = asked
        if self.rule is not None and asked.rule.fingerprint != self.rule.fingerprint:
            raise Stop(
                f"the ledger {self._path} was begun under another rule:\n"
                f"{difference(self.rule, asked.rule)}\nLeave out what says the rule, or begin"
                " another ledger."
            )
        if self._monitor is None:
            self._monitor = LedgerMonitor(self._path, asked.rule, **self._settings)  # type: ignore[arg-type]
            self.rule = self._monitor.rule
        return self._monitor

    def settings(self, table: Any) -> dict[str, Any]:
        """Beside a table: the numbers of lines as keys, where the rule has no key."""
        if self._key_column() is not None:
            return {}
        return {"keys": [row[LINE] for row in table]}

    def prepare(self, rows: list[dict[str, Any]]) -> None:
        """Read together what is stored of lines that came together."""
        found = [place for place in map(self._place, rows) if place is not None]
        self._read = {}
        if found and max(found) - min(found) < _CLOSE * len(found):
            self._entry(max(found))  # so that the look is recent enough
            assert self._look is not None
            self._read = {one.row: one for one in self._look.entries(min(found), max(found) + 1)}

    def _place(self, row: dict[str, Any]) -> int | None:
        """The row of a line that is stored already."""
        assert self._monitor is not None
        column = self._key_column()
        key = row.get(column) if column is not None else row[LINE]
        known = isinstance(key, str | int) and not isinstance(key, bool)
        return self._monitor.row_of(key) if known else None

    def answer(self, row: dict[str, Any], most: int) -> dict[str, Any] | None:
        """What was answered to a line that is stored already; None if it is not."""
        column, place = self._key_column(), self._place(row)
        if place is None:
            seen = column is None and row[LINE] <= self.last_line
            why = "an earlier run could not judge this line, or it was erased since"
            return {"known": True, "error": why} if seen else None
        if not self._same(place, row):
            if column is not None:
                return None  # the monitor says that the key was given already
            raise Stop(
                f"standard input, line {row[LINE]} is not what the ledger {self._path} has for that"
                " line: this is other input. Leave out --resume to go on with it.",
                DATA,
            )
        entry = self._entry(place)
        named = {} if column is None else {"key": entry.key}
        nearest = entry.nearest[:most]
        told = answer(place, named, entry.count or 0, nearest, self._named)
        return {"known": True, **told}

    def _named(self, row: int) -> dict[str, Any]:
        assert self._monitor is not None
        memory = self._monitor.memory
        if self._key_column() is None or not isinstance(memory, TableMonitor):
            return {}
        return {"key": memory.keys([row])[0]}

    def _key_column(self) -> str | None:
        return None if self.rule is None else self.rule.key_column

    def _same(self, place: int, row: dict[str, Any]) -> bool:
        """Whether a line says what is stored."""
        assert self._monitor is not None and self._asked is not None
        memory, asked = self._monitor.memory, self._asked
        if isinstance(memory, TableMonitor):
            stored = memory.values(place)
            return all(_alike(stored[name], row.get(name)) for name in stored)
        given = [row.get(name) for name in asked.inputs]
        output = row.get(asked.output_column or "")
        stored = memory.inputs([place])[0].tolist()
        return bool(given == stored and output == self._entry(place).output)

    def _entry(self, row: int) -> Any:
        """A stored decision with its verdict."""
        if row in self._read:
            return self._read[row]
        if self._look is None or row >= self._look.rows:
            if self._look is not None:
                self._look.close()
            self._look = Ledger(self._path)
        return self._look.entry(row)

    def close(self) -> None:
        if self._look is not None:
            self._look.close()
        if self._monitor is not None:
            self._monitor.close()


def answer(
    row: int, key: dict[str, Any], count: int, nearest: Sequence[Witness], key_of: Any
) -> dict[str, Any]:
    """A verdict as an object."""
    witnesses = [
        {
            "row": one.row,
            **key_of(one.row),
            "input_distance": one.input_distance,
            "output_distance": one.output_distance,
        }
        for one in nearest
    ]
    told = {"violation": count > 0, "count": count, "witnesses": witnesses}
    return {"row": row, **key, **told}


def _alike(stored: Any, given: Any) -> bool:
    missing = given is None or given != given  # noqa: PLR0124 - NaN
    return bool(stored is None if missing else stored == given)


def open_written(
    path: Path | None,
    rule: Rule | None,
    *,
    durability: str,
    window: str | None,
    burst: Burst | None,
    resume: bool,
    trust_code: bool,
) -> Written | None:
    """The ledger that is asked for, if one is."""
    if path is None:
        if resume or window is not None:
            raise Stop("--resume and --window are about a ledger: say --ledger.")
        return None
    try:
        return Written(
            path,
            rule,
            durability=durability,
            window=window,
            burst=burst,
            resume=resume,
            trust_code=trust_code,
        )
    except BadFile as error:
        raise Stop(f"the ledger {path}: {error}", DATA) from None
