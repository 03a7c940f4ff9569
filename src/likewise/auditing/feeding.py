"""Feeds the decisions of a file to a monitor, chunk by chunk, in the order they are judged in.

Invariant: the rows judged are the good rows of the file, in its order or in order of time; every
other row is counted, by the kind of its reason.
Cost: a chunk with a bad row is judged about twice; with many, once more for each halving.
Not here: which rows of a chunk are bad (monitor/batching.py).
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeVar

import numpy as np

from likewise.auditing.favourable import OutputsSeen
from likewise.auditing.job import AuditOptions
from likewise.errors import BadFile
from likewise.monitor.batching import JudgedRows, RejectedRow, describe_refusal, isolate_bad_rows
from likewise.reports.evidence import Evidence, JudgingOrder, SkippedRows
from likewise.runtime.machine import MachineLoad
from likewise.sources.binding import Binding, read_models
from likewise.sources.file_source import DecisionFile
from likewise.sources.memory_table import NAME as IN_MEMORY
from likewise.sources.protocol import Chunk, ColumnTypes, Places, RefusedRow
from likewise.sources.remarks import Remark
from likewise.sources.time_columns import AS_IT_IS, Arrangement, TimeOrderedSource

_MAX_BAD_ROWS = 100  # give up after this many bad rows without a good one
AnswerT = TypeVar("AnswerT")
Reopen = Callable[[], AbstractContextManager[DecisionFile]]
"""Opens the same file again."""


class NamedSource(Protocol):
    """Names a file, or several, in messages."""

    @property
    def name(self) -> str: ...

    @property
    def unit(self) -> str: ...

    @property
    def remarks(self) -> Sequence[Remark]: ...


class ChunkSource(Protocol):
    """Reads rows of a file: all of them or some, in some order."""

    def chunks(self, types: ColumnTypes, columns: Sequence[str]) -> Iterator[Chunk]: ...


_SHOWN = 10  # bad rows that are shown one by one
_KINDS = 20  # kinds of reasons that are counted apart


@dataclass
class RefusedRows:
    """Counts rows that could not be read or judged: all of them, the first few, and each kind.

    Every row that is added is counted; reasons with one code about one column are one kind.
    """

    count: int = 0
    first: list[RefusedRow] = field(default_factory=list)
    by_kind: dict[str, tuple[RefusedRow, int]] = field(default_factory=dict)
    """By code and column, the first row, and how many there are."""

    def add(self, row: RefusedRow, many: int = 1) -> None:
        """Add a row, or the first of `many` that are refused for one kind of reason."""
        self.count += many
        if len(self.first) < _SHOWN:
            self.first.append(row)
        self._add_kind(row, many)

    def _add_kind(self, row: RefusedRow, many: int) -> None:
        kind = f"{row.code} {row.column}"
        if kind in self.by_kind or len(self.by_kind) < _KINDS:
            first, before = self.by_kind.get(kind, (row, 0))
            self.by_kind[kind] = first, before + many

    def kinds(self) -> list[tuple[RefusedRow, int]]:
        """Return the first row of each kind of reason, and how many; the most frequent first."""
        return sorted(self.by_kind.values(), key=lambda one: (-one[1], one[0].place))

    def to_dicts(self, unit: str) -> list[dict[str, Any]]:
        """Return the first rows for JSON; `unit` is what a place counts."""
        return [{unit: row.place, "code": row.code, "reason": row.why} for row in self.first]

    def merge(self, later: "RefusedRows") -> None:
        """Add those of a later file, or part of one."""
        self.count += later.count
        self.first += later.first[: _SHOWN - len(self.first)]
        for row, many in later.by_kind.values():
            self._add_kind(row, many)


class BadRowPolicy:
    """Counts the bad rows of a source; the first one ends the audit, unless they are skipped."""

    def __init__(self, source: NamedSource, skip: bool) -> None:
        self._source = source
        self._skip = skip
        self.rows = RefusedRows()

    def add(self, row: RefusedRow) -> None:
        """Count the row, or raise BadFile."""
        if not self._skip:
            raise bad_row_error(self._source.name, self._source.unit, row)
        self.rows.add(row)

    def add_rejected(self, row: RejectedRow[Chunk]) -> None:
        """Count a row that the monitor rejected, or raise BadFile."""
        error, place = row.error, int(row.rows.places[0])
        self.add(RefusedRow(place, describe_refusal(error), error.code, error.column or ""))


def bad_row_error(name: str, unit: str, row: RefusedRow) -> BadFile:
    """Return the error about a bad row of a file."""
    option = "skip_bad_rows=True" if name == IN_MEMORY else "--on-bad-row skip"
    return BadFile(
        f"{name}, {unit} {row.place:,}: {row.why.rstrip('.')}. To leave out such rows: {option}.",
        path=name,
    )


def judge_chunks(
    source: DecisionFile,
    binding: Binding,
    judge: Callable[[Chunk], AnswerT],
    bad: BadRowPolicy,
    rows: ChunkSource | None = None,
) -> Iterator[JudgedRows[Chunk, AnswerT]]:
    """Judge a file, or only `rows` of it, and yield the parts that were judged together."""
    good, total = 0, 0
    for chunk in (rows or source).chunks(binding.types, binding.columns):
        for row in chunk.refused:
            bad.add(row)
        total += len(chunk.refused)
        # Begin with few rows: a file that does not fit the rule is given up before all are tried.
        few = _MAX_BAD_ROWS if good == 0 else 0
        for part in (slice(0, few), slice(few, None)):
            for outcome in isolate_bad_rows(chunk[part], judge):
                if isinstance(outcome, RejectedRow):
                    bad.add_rejected(outcome)
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
    """Reads the decisions of a file in the order they are judged in, and notes what it notices.

    reopen  opens the file again, to find out whether it is in order of time
    model   a column and a model: only decisions of this model are judged
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
        """Judge all decisions, part by part; raise BadFile or BadTable."""
        source = self._source
        rows: ChunkSource = self._in_order or source
        if self._model is not None:
            rows = _ModelChunks(rows, *self._model)
        for part in judge_chunks(source, self._binding, judge, self._refusals, rows):
            times = part.rows.times
            if times is not None and len(times):
                self._ties += count_ties(times, self._last)
                self._last = times[-1]
            self._outputs.add(part.rows.table)
            self.places.add(part.rows.places)
            yield part
        self._outputs.check(source.name)

    def add_remarks(self) -> None:
        """Add the format of the times to the remarks on the file."""
        if self._in_order is not None and self._in_order.form is not None:
            self._source.add_remarks(self._in_order.form.remarks)

    def evidence(self, head: str | None = None) -> Evidence:
        """Return what is known of the decisions, once all are judged."""
        done = AS_IT_IS if self._in_order is None else self._in_order.arrangement
        digest = self._source.digest()
        return build_evidence(
            self._source,
            (None, None) if digest is None else (digest.sha256, digest.size),
            (done, self._ties),
            self.refused,
            self._load,
            self._options,
            head=head,
        )


def count_ties(times: Any, last: Any) -> int:
    """Count decisions with the time of the one before, whose order is that of their lines.

    last: the time before the first of these; None if there is none
    """
    return int((times[1:] == times[:-1]).sum()) + bool(times[0] == last)


def build_evidence(
    read: NamedSource,
    digest: tuple[str | None, int | None],
    order: tuple[Arrangement, int],
    refused: RefusedRows,
    load: MachineLoad,
    options: AuditOptions,
    *,
    head: str | None = None,
) -> Evidence:
    """Return what someone needs to repeat the audit; rows left out are counted by reason.

    order: what was done with the file, and how many decisions have the time of the one before
    """
    kinds = tuple(SkippedRows(first.why, first.place, many) for first, many in refused.kinds())
    return Evidence(
        read.name,
        JudgingOrder(options.time_column, *order, True, options.within),
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
    """Reads the rows of one model; rows without a model are refused."""

    def __init__(self, rows: ChunkSource, column: str, model: str) -> None:
        self._rows, self._column, self._model = rows, column, model

    def chunks(self, types: ColumnTypes, columns: Sequence[str]) -> Iterator[Chunk]:
        for chunk in self._rows.chunks(types, columns):
            models = read_models(chunk.table, self._column)
            why = f"{self._column!r} is missing, so no model decided it"
            unknown = [
                RefusedRow(place, why, "missing-value", self._column)
                for place, model in zip(chunk.places.tolist(), models, strict=True)
                if model is None
            ]
            mine = np.array([model == self._model for model in models], np.bool_)
            chosen = chunk.take(np.flatnonzero(mine))
            yield replace(chosen, refused=(*chunk.refused, *unknown))


class RowPlaces:
    """Remembers where each row of the history stood in the file, as stretches without gaps.

    Cost: sixteen bytes for each stretch; rows that were sorted are stretches of one row.
    """

    def __init__(self) -> None:
        self._starts: Places = np.zeros(64, np.int64)
        self._gaps: Places = np.zeros(64, np.int64)
        self._stretches = self._rows = 0

    def add(self, places: Places) -> None:
        """Add the next rows, in their order."""
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

    def find(self, rows: Places) -> Places:
        starts, gaps = self._starts[: self._stretches], self._gaps[: self._stretches]
        return np.asarray(rows + gaps[np.searchsorted(starts, rows, side="right") - 1])
