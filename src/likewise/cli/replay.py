"""A file through a monitor, chunk by chunk; rows that cannot be judged are found and counted.

A chunk that a monitor refuses has left no trace, so its halves are tried, and theirs: good rows are
judged in large pieces, in their order, and what is left over is the rows that are bad.

Invariant: the rows judged are the good rows of the file, in its order; every other row is counted.
Cost: a chunk with a bad row is read about twice; with many, once more for each halving.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import numpy as np

from likewise.cli.endings import DATA, Stop
from likewise.cli.rules import Asked
from likewise.errors import BadDecision
from likewise.sources.chunk import Places, Refused, Table
from likewise.sources.files import Source
from likewise.tables import columns_of, numbers_of, values_of

SHOWN = 10
_LONGEST = 500  # characters of what is said of a row; values in it may be of any length
_HOPELESS = 100  # rows, all of them bad, after which it is the file and not its rows
Judged = TypeVar("Judged")


@dataclass(frozen=True)
class Piece(Generic[Judged]):
    """Rows that were judged together."""

    answer: Judged
    table: Table
    places: Places


@dataclass
class Refusals:
    """Bad rows: how many, and the first few."""

    source: Source
    skip: bool
    count: int = 0
    first: list[Refused] = field(default_factory=list)

    def add(self, one: Refused) -> None:
        """Count it, or end here."""
        if not self.skip:
            raise Stop(
                f"{self.source.place(one.place)}: {one.why.rstrip('.')}. To leave out such rows:"
                " --on-bad-row skip.",
                DATA,
            )
        self.count += 1
        if len(self.first) < SHOWN:
            self.first.append(one)


def replay(
    source: Source, asked: Asked, judge: Callable[[Table], Judged], bad: Refusals
) -> Iterator[Piece[Judged]]:
    """The judged pieces of a file."""
    good, total = 0, 0
    for chunk in source.chunks(asked.types, asked.wanted):
        for one in chunk.refused:
            bad.add(one)
        total += len(chunk.refused)
        for part in _parts(len(chunk), few_first=good == 0):
            some = Piece(None, chunk.table[part], chunk.places[part])
            for piece in sifted(some, judge, bad.add):
                good += len(piece.places)
                yield piece
            total += len(some.places)
            if good == 0 and total >= _HOPELESS:
                break
        if good == 0 and total >= _HOPELESS:
            break
    if good == 0 and total:
        first = bad.first[0]
        raise Stop(
            f"{source.name}: none of the first {total:,} rows can be used. The first,"
            f" {source.unit} {first.place:,}: {first.why}",
            DATA,
        )
    if total == 0:
        raise Stop(f"{source.name} has a header and no rows; expected decisions.", DATA)


def _parts(count: int, few_first: bool) -> list[slice]:
    """All at once; or a few first, lest every row of a file is tried that does not fit at all."""
    few = min(count, _HOPELESS) if few_first else 0
    return [part for part in (slice(0, few), slice(few, count)) if part.stop > part.start]


def sifted(
    piece: Piece[None], judge: Callable[[Table], Judged], refuse: Callable[[Refused], None]
) -> Iterator[Piece[Judged]]:
    """The good rows of a piece, judged in as few parts as there have to be."""
    count = len(piece.places)
    if count == 0:
        return
    try:
        yield Piece(judge(piece.table), piece.table, piece.places)
        return
    except BadDecision as error:
        if count == 1:
            refuse(Refused(int(piece.places[0]), about_the_row(error)))
            return
    half = count // 2
    for part in (slice(0, half), slice(half, count)):
        yield from sifted(Piece(None, piece.table[part], piece.places[part]), judge, refuse)


def about_the_row(error: BadDecision) -> str:
    """The message without the number that the row has among those judged with it."""
    told = str(error)
    if len(told) > _LONGEST:
        told = f"{told[: _LONGEST // 2]} … {told[-_LONGEST // 2 :]}"
    told = told.removeprefix("row 0: ").replace("Nothing was stored: ", "")
    return told.replace(" Nothing was stored.", "")


def _nothing(table: Table) -> dict[str, Any]:
    return {}


def judge_with(monitor: Any, asked: Asked, more: Callable[[Table], Any] = _nothing) -> Any:
    """How a monitor judges a table under its rule; `more` are further settings for a table."""

    def judge(table: Table) -> Any:
        if asked.output_column is None:
            return monitor.observe_many(known(table, asked), **more(table))
        return monitor.observe_many(*vectors(table, asked), **more(table))

    return judge


def check_with(monitor: Any, asked: Asked, row: dict[str, Any]) -> None:
    """Raise BadDecision if a monitor would refuse a row; nothing is remembered."""
    if asked.output_column is None:
        monitor.check(*known([row], asked))
    else:
        inputs, outputs = vectors([row], asked)
        monitor.check(inputs[0], outputs[0])


def known(table: Table, asked: Asked) -> Table:
    """The table without what the rule does not know."""
    if asked.beside is None:
        return table
    if isinstance(table, list):
        return [{key: row[key] for key in row if key != asked.beside} for row in table]
    return table.drop(asked.beside)


def vectors(table: Table, asked: Asked) -> tuple[Any, Any]:
    """Inputs and outputs of a table, under a rule without features."""
    assert asked.output_column is not None
    names = [*asked.inputs, asked.output_column]
    columns = columns_of(known(table, asked), names, asked.wanted)
    inputs = np.stack([numbers_of(name, columns[name]) for name in asked.inputs], axis=1)
    outputs = columns[asked.output_column]
    if asked.rule.output == "number":
        return inputs, numbers_of(asked.output_column, outputs)
    return inputs, values_of(outputs)


class PlaceOf:
    """Where each row of the history stood in the file, kept as stretches without gaps."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._gaps: list[int] = []
        self._rows = 0

    def add(self, places: Places) -> None:
        """The next rows, in their order."""
        gaps = places - np.arange(self._rows, self._rows + len(places))
        before = self._gaps[-1] if self._gaps else None
        changes = np.flatnonzero(np.diff(gaps, prepend=gaps[:1] - 1)).tolist()
        for at in changes:
            if at or int(gaps[at]) != before:
                self._starts.append(self._rows + at)
                self._gaps.append(int(gaps[at]))
        self._rows += len(places)

    def __call__(self, rows: Places) -> Places:
        which = np.searchsorted(np.array(self._starts), rows, side="right") - 1
        return np.asarray(rows + np.array(self._gaps, dtype=np.int64)[which])
