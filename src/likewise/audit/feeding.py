"""The decisions of a file, chunk by chunk, in the order in which they are judged.

Invariant: the rows judged are the good rows of the file, in its order or in order of time; every
other row is counted, by the kind of its reason.
Cost: a chunk with a bad row is read about twice; with many, once more for each halving.
Not here: which rows of a chunk are bad (monitor/bad_rows.py).
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol, TypeVar

import numpy as np

from likewise.audit.audit_options import AuditOptions, RowOptions
from likewise.audit.favourable import OutputsSeen
from likewise.audit.refused_rows import RefusedRows, refused_row
from likewise.errors import BadFile
from likewise.monitor.bad_rows import Judged, Unfit, sifted
from likewise.reports.evidence import Evidence, Order, Skipped
from likewise.runtime.machine import Load
from likewise.sources.binding import Binding, models_in
from likewise.sources.chunk import Chunk, Places, Refused, Types
from likewise.sources.file_source import DecisionFile
from likewise.sources.remarks import Remark
from likewise.sources.time_order import AS_IT_IS, Arrangement, InTimeOrder

_HOPELESS = 100  # give up after this many bad rows without a good one
AnswerT = TypeVar("AnswerT")
OpenAgain = Callable[[], AbstractContextManager[DecisionFile]]
"""Opens the same file once more."""


class ReadFrom(Protocol):
    """A file, or several, as messages speak of them."""

    @property
    def name(self) -> str: ...

    @property
    def unit(self) -> str: ...

    @property
    def remarks(self) -> Sequence[Remark]: ...


class Chunks(Protocol):
    """Rows of a file: all of them or some, in some order."""

    def chunks(self, types: Types, wanted: Sequence[str]) -> Iterator[Chunk]: ...


class Refusals:
    """Bad rows of a source: the first one ends the audit, unless they are skipped."""

    def __init__(self, source: ReadFrom, skip: bool) -> None:
        self._source = source
        self._skip = skip
        self.rows = RefusedRows()

    def add(self, row: Refused) -> None:
        """Count it, or raise BadFile."""
        if not self._skip:
            raise refusal(self._source.name, self._source.unit, row)
        self.rows.add(row)


def refusal(name: str, unit: str, row: Refused) -> BadFile:
    """Return the error about a bad row of a file."""
    return BadFile(
        f"{name}, {unit} {row.place:,}: {row.why.rstrip('.')}. To leave out such rows:"
        " --on-bad-row skip.",
        path=name,
    )


def feed(
    source: DecisionFile,
    binding: Binding,
    judge: Callable[[Chunk], AnswerT],
    bad: Refusals,
    rows: Chunks | None = None,
) -> Iterator[Judged[Chunk, AnswerT]]:
    """The parts of a file that were judged together: `rows`, or all of them as its lines stand."""
    good, total = 0, 0
    for chunk in (rows or source).chunks(binding.types, binding.wanted):
        for row in chunk.refused:
            bad.add(row)
        total += len(chunk.refused)
        few = _HOPELESS if good == 0 else 0  # lest every row is tried of a file that does not fit
        for part in (slice(0, few), slice(few, None)):
            for outcome in sifted(chunk[part], judge):
                if isinstance(outcome, Unfit):
                    bad.add(refused_row(outcome))
                else:
                    good += len(outcome.rows)
                    yield outcome
            total += len(chunk[part])
            if good == 0 and total >= _HOPELESS:
                break
        if good == 0 and total >= _HOPELESS:
            break
    if good == 0 and total:
        first = bad.rows.first[0]
        raise BadFile(
            f"{source.name}: none of the first {total:,} rows can be used. The first,"
            f" {source.unit} {first.place:,}: {first.why}",
            path=source.name,
        )
    if total == 0:
        raise BadFile(
            f"{source.name} has a header and no rows; expected decisions.", path=source.name
        )


class Decisions:
    """The decisions of a file in the order in which they are judged, and what is noticed in them.

    again   opens the file once more, to look whether it is in order of time
    model   a column and a model: only those of this model, the others are left aside
    """

    def __init__(
        self,
        source: DecisionFile,
        binding: Binding,
        options: AuditOptions,
        again: OpenAgain,
        model: tuple[str, str] | None = None,
    ) -> None:
        self._refusals = Refusals(source, options.skip)
        self.refused = self._refusals.rows
        self.places = PlaceOf()
        self._source, self._binding, self._options, self._model = source, binding, options, model
        self._load = Load()
        self._outputs = OutputsSeen(binding.rule)
        self._ties = 0
        self._last: Any = None
        self._in_order: InTimeOrder | None = None
        if options.time_column is not None:
            self._in_order = InTimeOrder(
                source, options.time_column, again=again, dates=options.dates
            )

    def judged(self, judge: Callable[[Chunk], AnswerT]) -> Iterator[Judged[Chunk, AnswerT]]:
        """All of them, judged part by part; raise BadFile or BadTable."""
        source = self._source
        rows: Chunks = self._in_order or source
        if self._model is not None:
            rows = _OfModel(rows, *self._model)
        for part in feed(source, self._binding, judge, self._refusals, rows):
            self._count_ties(part.rows.times)
            self._outputs.add(part.rows.table)
            self.places.add(part.rows.places)
            yield part
        self._outputs.check(source.name)

    def add_remarks(self) -> None:
        """Add how times are written to the remarks on the file."""
        if self._in_order is not None and self._in_order.form is not None:
            self._source.add_remarks(self._in_order.form.remarks)

    def _count_ties(self, times: Any) -> None:
        """Count decisions with the time of the one before: their order is that of their lines."""
        if times is not None and len(times):
            self._ties += int((times[1:] == times[:-1]).sum()) + bool(times[0] == self._last)
            self._last = times[-1]

    def evidence(self, head: str | None = None) -> Evidence:
        """Return what is known of them, once all are judged."""
        done = AS_IT_IS if self._in_order is None else self._in_order.arrangement
        digest = self._source.digest()
        return evidence_of(
            self._source,
            (digest.sha256, digest.size),
            order_of(self._options, done, self._ties),
            self.refused,
            self._load,
            self._options,
            head=head,
        )


def order_of(options: RowOptions, arrangement: Arrangement, ties: int) -> Order:
    """Return in which order decisions were judged."""
    if options.time_column is None:
        return Order(lines=True)
    return Order(options.time_column, arrangement, ties, True, options.within)


def evidence_of(
    read: ReadFrom,
    digest: tuple[str, int],
    order: Order,
    refused: RefusedRows,
    load: Load,
    options: AuditOptions,
    *,
    head: str | None = None,
) -> Evidence:
    """Return what whoever wants to do it again has to know; rows left out by kind of reason."""
    kinds = tuple(Skipped(first.why, first.place, many) for first, many in refused.kinds())
    return Evidence(
        read.name,
        order,
        *digest,
        options.command,
        read.unit,
        tuple(map(str, read.remarks)),
        kinds,
        refused.count - sum(one.rows for one in kinds),
        head,
        load.seconds,
        load.so_far(),
        model_column=options.model_column,
    )


class _OfModel:
    """Rows of one model; those without a model are refused."""

    def __init__(self, rows: Chunks, column: str, model: str) -> None:
        self._rows, self._column, self._model = rows, column, model

    def chunks(self, types: Types, wanted: Sequence[str]) -> Iterator[Chunk]:
        for chunk in self._rows.chunks(types, wanted):
            models = models_in(chunk.table, self._column)
            why = f"{self._column!r} is missing, so no model decided it"
            unknown = [
                Refused(place, why, "missing-value", self._column)
                for place, model in zip(chunk.places.tolist(), models, strict=True)
                if model is None
            ]
            mine = np.array([model == self._model for model in models], np.bool_)
            table = chunk.table
            yield Chunk(
                [row for row, one in zip(table, mine, strict=True) if one]
                if isinstance(table, list)
                else table.filter(mine),
                chunk.places[mine],
                (*chunk.refused, *unknown),
                None if chunk.times is None else chunk.times[mine],
            )


class PlaceOf:
    """Where each row of the history stood in the file, kept as stretches without gaps.

    Cost: sixteen bytes for each stretch; rows that were sorted are stretches of one row.
    """

    def __init__(self) -> None:
        self._starts: Places = np.zeros(64, np.int64)
        self._gaps: Places = np.zeros(64, np.int64)
        self._stretches = self._rows = 0

    def add(self, places: Places) -> None:
        """The next rows, in their order."""
        gaps = places - np.arange(self._rows, self._rows + len(places))
        before = self._gaps[self._stretches - 1] if self._stretches else gaps[:1] - 1
        at = np.flatnonzero(np.diff(gaps, prepend=before))
        stop = self._stretches + len(at)
        while stop > len(self._starts):
            self._starts = np.concatenate([self._starts, np.zeros_like(self._starts)])
            self._gaps = np.concatenate([self._gaps, np.zeros_like(self._gaps)])
        self._starts[self._stretches : stop] = self._rows + at
        self._gaps[self._stretches : stop] = gaps[at]
        self._stretches = stop
        self._rows += len(places)

    def __call__(self, rows: Places) -> Places:
        starts, gaps = self._starts[: self._stretches], self._gaps[: self._stretches]
        return np.asarray(rows + gaps[np.searchsorted(starts, rows, side="right") - 1])
