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
from likewise.monitor.bad_rows import JudgedRows, RejectedRow, isolate_bad_rows
from likewise.reports.evidence import Evidence, JudgingOrder, SkippedRows
from likewise.runtime.machine import MachineLoad
from likewise.sources.binding import Binding, read_models
from likewise.sources.chunk import Chunk, ColumnTypes, Places, RefusedRow
from likewise.sources.file_source import DecisionFile
from likewise.sources.remarks import Remark
from likewise.sources.time_order import AS_IT_IS, Arrangement, TimeOrderedSource

_MAX_BAD_ROWS = 100  # give up after this many bad rows without a good one
AnswerT = TypeVar("AnswerT")
Reopen = Callable[[], AbstractContextManager[DecisionFile]]
"""Opens the same file once more."""


class NamedSource(Protocol):
    """A file, or several, as messages speak of them."""

    @property
    def name(self) -> str: ...

    @property
    def unit(self) -> str: ...

    @property
    def remarks(self) -> Sequence[Remark]: ...


class ChunkSource(Protocol):
    """Rows of a file: all of them or some, in some order."""

    def chunks(self, types: ColumnTypes, columns: Sequence[str]) -> Iterator[Chunk]: ...


class BadRowPolicy:
    """Bad rows of a source: the first one ends the audit, unless they are skipped."""

    def __init__(self, source: NamedSource, skip: bool) -> None:
        self._source = source
        self._skip = skip
        self.rows = RefusedRows()

    def add(self, row: RefusedRow) -> None:
        """Count it, or raise BadFile."""
        if not self._skip:
            raise bad_row_error(self._source.name, self._source.unit, row)
        self.rows.add(row)


def bad_row_error(name: str, unit: str, row: RefusedRow) -> BadFile:
    """Return the error about a bad row of a file."""
    return BadFile(
        f"{name}, {unit} {row.place:,}: {row.why.rstrip('.')}. To leave out such rows:"
        " --on-bad-row skip.",
        path=name,
    )


def judge_chunks(
    source: DecisionFile,
    binding: Binding,
    judge: Callable[[Chunk], AnswerT],
    bad: BadRowPolicy,
    rows: ChunkSource | None = None,
) -> Iterator[JudgedRows[Chunk, AnswerT]]:
    """The parts of a file that were judged together: `rows`, or all of them as its lines stand."""
    good, total = 0, 0
    for chunk in (rows or source).chunks(binding.types, binding.columns):
        for row in chunk.refused:
            bad.add(row)
        total += len(chunk.refused)
        few = (
            _MAX_BAD_ROWS if good == 0 else 0
        )  # lest every row is tried of a file that does not fit
        for part in (slice(0, few), slice(few, None)):
            for outcome in isolate_bad_rows(chunk[part], judge):
                if isinstance(outcome, RejectedRow):
                    bad.add(refused_row(outcome))
                else:
                    good += len(outcome.rows)
                    yield outcome
            total += len(chunk[part])
            if good == 0 and total >= _MAX_BAD_ROWS:
                break
        if good == 0 and total >= _MAX_BAD_ROWS:
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


class FileDecisions:
    """The decisions of a file in the order in which they are judged, and what is noticed in them.

    again   opens the file once more, to look whether it is in order of time
    model   a column and a model: only those of this model, the others are left aside
    """

    def __init__(
        self,
        source: DecisionFile,
        binding: Binding,
        options: AuditOptions,
        reopen: Reopen,
        model: tuple[str, str] | None = None,
    ) -> None:
        self._refusals = BadRowPolicy(source, options.skip)
        self.refused = self._refusals.rows
        self.places = RowPlaces()
        self._source, self._binding, self._options, self._model = source, binding, options, model
        self._load = MachineLoad()
        self._outputs = OutputsSeen(binding.rule)
        self._ties = 0
        self._last: Any = None
        self._in_order: TimeOrderedSource | None = None
        if options.time_column is not None:
            self._in_order = TimeOrderedSource(
                source, options.time_column, reopen=reopen, dates=options.dates
            )

    def judge_parts(
        self, judge: Callable[[Chunk], AnswerT]
    ) -> Iterator[JudgedRows[Chunk, AnswerT]]:
        """All of them, judged part by part; raise BadFile or BadTable."""
        source = self._source
        rows: ChunkSource = self._in_order or source
        if self._model is not None:
            rows = _ModelChunks(rows, *self._model)
        for part in judge_chunks(source, self._binding, judge, self._refusals, rows):
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
        return build_evidence(
            self._source,
            (digest.sha256, digest.size),
            describe_order(self._options, done, self._ties),
            self.refused,
            self._load,
            self._options,
            head=head,
        )


def describe_order(options: RowOptions, arrangement: Arrangement, ties: int) -> JudgingOrder:
    """Return in which order decisions were judged."""
    if options.time_column is None:
        return JudgingOrder(lines=True)
    return JudgingOrder(options.time_column, arrangement, ties, True, options.within)


def build_evidence(
    read: NamedSource,
    digest: tuple[str, int],
    order: JudgingOrder,
    refused: RefusedRows,
    load: MachineLoad,
    options: AuditOptions,
    *,
    head: str | None = None,
) -> Evidence:
    """Return what whoever wants to do it again has to know; rows left out by kind of reason."""
    kinds = tuple(SkippedRows(first.why, first.place, many) for first, many in refused.kinds())
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
        load.measure(),
        model_column=options.model_column,
    )


class _ModelChunks:
    """Rows of one model; those without a model are refused."""

    def __init__(self, rows: ChunkSource, column: str, model: str) -> None:
        self._rows, self._column, self._model = rows, column, model

    def chunks(self, types: ColumnTypes, wanted: Sequence[str]) -> Iterator[Chunk]:
        for chunk in self._rows.chunks(types, wanted):
            models = read_models(chunk.table, self._column)
            why = f"{self._column!r} is missing, so no model decided it"
            unknown = [
                RefusedRow(place, why, "missing-value", self._column)
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


class RowPlaces:
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
