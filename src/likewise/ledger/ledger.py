"""Read a ledger: a read-only view that is safe while another process writes it.

Not here: the tables and records themselves (reader.py), filters for contradictions
(violation_query.py), writing (store.py).
"""

import os
import time as clock
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from likewise.errors import BadFile, BadRow, BadRule
from likewise.ledger import folder
from likewise.ledger.heads import Head
from likewise.ledger.notes import Review, Supersession, Truth
from likewise.ledger.reader import LedgerReader, close_runs
from likewise.ledger.source_positions import Sources, last_positions
from likewise.ledger.stats import LedgerStats
from likewise.ledger.stored import NOT_JUDGED, Event, StoredDecisions
from likewise.ledger.verdict_facts import NO_FACTS, Facts, facts_of_many
from likewise.ledger.verification import Verification, verify
from likewise.ledger.violation_query import (
    PageCursor,
    RowPage,
    ViolationQuery,
    ViolationSearch,
    find_rows_naming,
    place_of,
    stretch,
)
from likewise.rule.rule import Rule
from likewise.tables import codec
from likewise.tables.codec import CODE, VECTOR, to_query_text
from likewise.tables.keys import Key
from likewise.tables.positions import Position, SourcePositions
from likewise.tables.times import iso_text
from likewise.verdict.context import ComparedRows, VerdictContext
from likewise.verdict.verdicts import Verdict
from likewise.verdict.witnesses import Witness, Witnesses

MISSING = -1
_OUTPUTS_AT_ONCE = 500  # rows whose outputs are compared together
_GAP, _LONGEST = 64, 1 << 14  # of rows that are read as one run


@dataclass(frozen=True)
class Entry:
    """A decision and its verdict, as they are stored."""

    row: int
    time: str
    key: Key
    output: Any
    """None if it was erased."""
    count: int | None
    """Witnesses that it had; None if it was not judged."""
    nearest: tuple[Witness, ...]
    """Witnesses; their distances are NaN if they were destroyed with a person's data."""
    compared_with: ComparedRows
    erased: bool
    model: str | None = None
    facts: Facts = NO_FACTS
    """What its verdict says beside its witnesses."""
    source: str | None = None
    """The sequence that it came from, if that is known."""
    position: Position | None = None
    """Its place there: a whole number, or a pair of them."""

    @property
    def missing_decisions(self) -> int:
        """Decisions that were known to be missing before it."""
        return self.facts.missing_decisions

    @property
    def comparable(self) -> bool | None:
        """Whether there was a similar case at all; None if that was not asked, or not judged."""
        return self.facts.comparable


@dataclass(frozen=True)
class StoredColumns:
    """A run of rows by column, as they came."""

    first: int
    inputs: dict[str, npt.NDArray[Any]]
    """The columns of a table by name; vectors under "input"."""
    outputs: list[Any]
    erased: npt.NDArray[np.bool_]
    decisions: StoredDecisions
    vectors: dict[str, npt.NDArray[Any]] = field(default_factory=dict)
    """The vectors of texts and pictures, by column."""
    models: list[str | None] | None = None
    """Which model made each; None if no model is known."""
    places: SourcePositions | None = None
    """Where each comes from; None if no source is known."""


class Ledger:
    """Reads a ledger; any number of processes may, while one writes.

    >>> import likewise as lw, tempfile
    >>> folder = tempfile.mkdtemp()
    >>> with lw.open(folder, lw.Rule("linf", 0.1)) as monitor:
    ...     for x, z in (([0.5], "yes"), ([0.45], "no")):
    ...         _ = monitor.observe(x, z, key=f"case {x[0]}")
    >>> with Ledger(folder) as ledger:
    ...     ledger.entry(1).output, ledger.entry(1).nearest[0].row
    ('no', 0)
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.reader = LedgerReader(
            self.path, folder.connect(self.path, write=False), looks_only=True
        )
        """For the parts of likewise that need more than this class offers."""
        try:
            with self.reader.snapshot():
                self._begin()
        except BaseException:
            self.close()
            raise

    def _begin(self) -> None:
        self.rule: Rule = self.reader.rule
        self.question = self.reader.question
        """What its verdicts answer: None for contradictions, a `SlopeQuestion` for slopes."""
        state = self.reader.state()
        self.first = state.first
        """The first row that is still there."""
        self.rows = state.rows
        """Rows that there were when it was opened, those dropped since included."""
        self.pending = state.rows - state.judged
        """Decisions that were accepted and are not judged yet."""
        self.head = Head(state.rows, state.events, state.link, self.reader.format.VERSION)
        self.window = self.reader.window
        self._erased = self.reader.erased_rows()
        self._models = self.reader.names("model")
        self._sources = Sources(self.reader)
        self._removed_rows = self._load_removed_rows()
        self._words: dict[str, list[Any]] = {}
        for _, column, _, value, *_ in self.reader.words():
            words = self._words.setdefault(column, [])
            words.append(None if value is None else codec.read_word(value))

    def _load_removed_rows(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Return rows that were erased or overruled, and how many rows there were at that time.

        Read once: what happens after the ledger was opened concerns no row that it shows.
        """
        pairs = [
            pair
            for event in self.reader.events("erased")
            for pair in event.erasure_totals().items()
        ]
        pairs += [
            (event.get_integer("row"), event.get_integer("by_row"))
            for event in self.reader.events("superseded")
        ]
        rows, since = np.array(pairs, np.int64).reshape(-1, 2).T
        return rows, since

    def close(self) -> None:
        self.reader.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __len__(self) -> int:
        return self.rows - self.first - int((self._erased >= self.first).sum())

    def require_contradictions(self) -> None:
        """Raise BadRule if its verdicts are slopes, which nearly every decision has."""
        if self.question is not None:
            raise BadRule(
                f"the ledger {str(self.path)!r} holds slopes, and contradictions were asked for."
                " Look at its entries, at `likewise show` or `likewise replay`."
            )

    def verify(self, head: Head | str | None = None, *, values: bool = True) -> Verification:
        """Walk the chain; name the first row that is not as it was written.

        values: whether inputs, outputs and keys are compared with their commitments, too. Without
            that, order, times, verdicts and the commitments themselves are verified.
        """
        head = Head.of(head) if isinstance(head, str) else head
        return verify(self.reader, head, values=values)

    def events(self) -> list[Event]:
        return self.reader.events()

    def erased_rows(self) -> npt.NDArray[np.int64]:
        """Return the rows that were erased, in order."""
        return self._erased

    @property
    def positions(self) -> dict[str, Position]:
        """The last stored position of each source, from which to continue; its row may be gone.

        Read again at each access, so it includes what came since the ledger was opened.
        """
        return last_positions(self.reader)[0]

    # Rows

    def row_of(self, key: Key) -> int | None:
        """Return the row of a key."""
        return self.reader.row_of(key)

    def _names_of(self, rows: list[int]) -> dict[int, tuple[Key, str | None]]:
        """Return keys and models by row, except of rows that were erased or are no longer there."""
        erased, keys = set(self._erased.tolist()), self.reader.has_keys()
        available = sorted({row for row in rows if self.first <= row < self.rows} - erased)
        names: dict[int, tuple[Key, str | None]] = {}
        for run in close_runs(available, _GAP, _LONGEST):
            chunk = self.reader.decisions(run[0], run[-1] + 1, keys=keys, witnesses=False)
            for row in run:
                i = row - run[0]
                key = None if chunk.keys is None else chunk.keys[i]
                names[row] = key, self._models.of(int(chunk.models[i]))
        return names

    def known_words(self, column: str) -> list[Any]:
        """Return the values seen in a column, by code; labels under "". None for erased ones."""
        return list(self._words.get(column, ()))

    def models(self) -> list[str]:
        """Return the models that decided, in the order in which they came."""
        return list(self._models.listed)

    def entry(self, row: int) -> Entry:
        """Return one decision and its verdict."""
        self._check_row(row)
        return next(self.entries(row, row + 1))

    def _check_row(self, row: int) -> None:
        has = f"rows {self.first} to {self.rows - 1}" if self.first < self.rows else "no rows"
        if not isinstance(row, int | np.integer):
            raise BadRow(f"the row is {row!r:.200}; expected one row number of {has}.")
        if not self.first <= row < self.rows:
            raise BadRow(f"row {row} is not in this ledger, which has {has}.", row=int(row))

    def entries(self, first: int | None = None, stop: int | None = None) -> Iterator[Entry]:
        """Yield decisions and verdicts, in order."""
        for columns in self.columns(first, stop):
            chunk = columns.decisions
            witnesses = chunk.witnesses.nearest_first()
            for i in range(len(chunk)):
                row, count = chunk.first + i, int(chunk.counts[i])
                since, source = int(chunk.firsts[i]), int(chunk.sources[i])
                yield Entry(
                    row,
                    iso_text(int(chunk.times[i])),
                    None if chunk.keys is None else chunk.keys[i],
                    columns.outputs[i],
                    None if count == NOT_JUDGED else count,
                    tuple(Witness(*record) for record in witnesses.of(i).tolist()),
                    ComparedRows(since, row, self._count_absent(since, row)),
                    bool(columns.erased[i]),
                    model=self._models.of(int(chunk.models[i])),
                    facts=Facts.of(chunk.facts[i]),
                    source=self._sources.names.of(source),
                    position=self._sources.position(source, chunk.positions[i]),
                )

    def verdict_of(self, entry: Entry) -> Verdict:
        """Return the verdict on a decision, with the stored witnesses, nearest first.

        Keys and models are missing of witnesses that were erased or have left the window since. A
        decision that was not judged was compared with nothing; `not_compared` says so.
        """
        rows = [witness.row for witness in entry.nearest]
        facts = entry.facts._asdict()
        if entry.count is None:
            facts["not_compared"] = max(1, entry.row)
        names = self._names_of(rows)
        keys_and_models = [names.get(row, (None, None)) for row in rows]
        context = VerdictContext(
            None,
            entry.compared_with,
            key=entry.key,
            witness_keys=tuple(key for key, _ in keys_and_models),
            model=None if entry.erased else entry.model,
            witness_models=tuple(model for _, model in keys_and_models),
            omitted_witnesses=(entry.count or 0) - len(rows),
            question=self.question,
        )
        witnesses = Witnesses(
            np.array(rows, np.int64),
            np.array([witness.input_distance for witness in entry.nearest]),
            np.array([witness.output_distance for witness in entry.nearest]),
        )
        return Verdict(entry.row, witnesses, context._replace(**facts))

    def violations(
        self,
        *,
        since: Any = None,
        until: Any = None,
        model: str | None = None,
        group: tuple[str, Any] | None = None,
        review: str | None = None,
        within: float | None = None,
        after: int | None = None,
    ) -> Iterator[Entry]:
        """Yield entries with witnesses, in order.

        since, until    only decisions from that time on, and before that time
        model           only decisions of that model
        group           only decisions with that value in a protected column: ("sex", "f")
        review          only those whose last review has that disposition; "open" if there is none
        within          only those with a witness at most that far away
        after           only those with a higher row than this
        """
        self.require_contradictions()
        query = ViolationQuery("oldest", since, until, model, group, review, within)
        first = self.first if after is None else max(self.first, after + 1)
        for row in ViolationSearch.of(self.reader, query, self._words).rows(first, self.rows):
            if self._filter_by_records([row], query):
                yield from self.entries(row, row + 1)

    def flagged_rows(self, after: int, last: int, *, alarms: bool) -> Iterator[int]:
        """Yield rows after `after` up to `last` that have witnesses.

        alarms: whether to include those that raised a burst's alarm, which only records say
        """
        first, stop = max(self.first, after + 1), min(self.rows, last + 1)
        if not alarms:
            yield from self.reader.find_flagged(first, stop)
            return
        for chunk in self.reader.all_decisions(first, stop):
            flagged = (chunk.counts > 0) | (chunk.facts["alarm"] > 0)
            yield from (chunk.first + np.flatnonzero(flagged)).tolist()

    def violations_page(
        self,
        query: ViolationQuery,
        *,
        behind: PageCursor | None = None,
        limit: int = 50,
        seconds: float = 0.15,
    ) -> RowPage:
        """Return a few rows with witnesses that match a query, and where the next page begins.

        behind    where the page before it ended
        seconds   after which the search stops: rows that pass the filters may be rare
        """
        self.require_contradictions()
        search = ViolationSearch.of(self.reader, query, self._words)
        until = clock.monotonic() + seconds
        rows: list[int] = []
        while True:
            batch = limit - len(rows) if query.output is None else _OUTPUTS_AT_ONCE
            left = max(0.0, until - clock.monotonic())
            page = search.page(
                query.order, self.first, self.rows, after=behind, limit=batch, seconds=left
            )
            passed = self._filter_by_records(page.rows, query)
            if len(rows) + len(passed) > limit:
                rows += passed[: limit - len(rows)]
                return RowPage(rows, place_of(self.reader, query.order, rows[-1]))
            rows += passed
            behind = page.next
            if behind is None or len(rows) == limit or clock.monotonic() >= until:
                return RowPage(rows, behind)

    def _filter_by_records(self, rows: list[int], query: ViolationQuery) -> list[int]:
        """Return the rows that pass the filters that need records: an output, a group."""
        if query.output is not None:
            ordered = sorted(rows)
            outputs = dict(zip(ordered, self.outputs_of(ordered), strict=True))
            rows = [row for row in rows if to_query_text(outputs[row]) == query.output]
        if query.group is not None:
            column, value = query.group
            rows = [row for row in rows if self._value(row, column) == value]
        return rows

    def _value(self, row: int, column: str) -> Any:
        """Return a value of a row; None if it was erased."""
        try:
            return self.values(row).get(column)
        except BadRow:
            return None

    def group_of_text(self, column: str, text: str) -> tuple[str, Any]:
        """Return a group for a query: the ledger's value for a text, which URLs are limited to."""
        feature: Any = (self.rule.features or {}).get(column)
        values: list[Any] = []
        if feature is not None:
            values = list(feature.order or feature.values or self.known_words(column))
        return column, next((value for value in values if to_query_text(value) == text), text)

    def find_rows_naming(
        self, row: int, *, after: int | None = None, limit: int = 50, seconds: float = 0.15
    ) -> RowPage:
        """Return later rows that have this one among their stored witnesses.

        after     where the search before it ended
        seconds   after which the search stops: no index covers witnesses
        """
        return find_rows_naming(self.reader, row, row if after is None else after, limit, seconds)

    def stats(
        self, *, last: str | None = None, since: Any = None, until: Any = None
    ) -> LedgerStats:
        """Count decisions, those that could be compared, and those that contradict another.

        last            only those of the last "1 hour", "7 days" before now
        since, until    only those from that time on, and before that time
        """
        self.require_contradictions()
        begin, end = stretch(last, since, until)
        stats = LedgerStats(since=begin, until=end)
        judged = self.reader.state().judged
        for start, stop in self.reader.runs_since(begin):
            for chunk in self.reader.all_decisions(start, min(stop, judged)):
                stats = stats.and_then(chunk)
        return stats

    # Reviews and corrections

    def reviews(self, row: int | None = None, *, first: int = 0) -> list[Review]:
        """Return the reviews of contradictions, in order; those of one row, or all.

        first: the lowest event number to return
        """
        reader = self.reader
        events = reader.events("review", first=first) if row is None else reader.reviews_of(row)
        return [
            Review(
                event.number,
                event.get_integer("row"),
                event.body.get("witness"),
                str(event.body.get("disposition")),
                self.reader.note_text(event),
                str(event.body.get("reviewer")),
                iso_text(event.time),
                event.body.get("verified") is True,
            )
            for event in events
            if event.number >= first
        ]

    def dispositions(self, rows: Sequence[int]) -> dict[int, str]:
        """Return the last disposition of each row that has one."""
        query = "SELECT row, review FROM verdict WHERE row = ? AND review IS NOT NULL"
        return dict(cells for row in rows for cells in self.reader.all(query, row))

    def supersessions(self) -> list[Supersession]:
        """Return the decisions that were overruled, in order."""
        return [
            Supersession(
                event.number,
                event.get_integer("row"),
                event.get_integer("by_row"),
                str(event.body.get("by")),
                self.reader.note_text(event),
                iso_text(event.time),
                event.body.get("verified") is True,
            )
            for event in self.reader.events("superseded")
        ]

    def truths(self) -> list[Truth]:
        """Return what turned out to be right, in order."""
        truths = []
        for event in self.reader.events("truth"):
            text = self.reader.note_text(event)
            value = None if text is None else codec.read_word(text)
            row, time = event.get_integer("row"), iso_text(event.time)
            truths.append(Truth(event.number, row, value, time))
        return truths

    def _count_absent(self, first: int, row: int) -> int:
        """Return how many rows from `first` up to `row` had been erased or overruled by then."""
        removed, since = self._removed_rows
        return int(((first <= removed) & (removed < row) & (since <= row)).sum())

    def outputs_of(self, rows: Sequence[int]) -> list[Any]:
        """Return the outputs of ascending rows; None where erased."""
        outputs: list[Any] = []
        for run in close_runs(rows, _GAP, _LONGEST):
            first = run[0]
            chunk = self.reader.decisions(first, run[-1] + 1, keys=False, witnesses=False)
            chunk_outputs = self._outputs(chunk)
            outputs += [chunk_outputs[row - first] for row in run]
        return outputs

    def values(self, row: int) -> dict[str, Any]:
        """Return the input of a row by column; a vector under "input"."""
        self._check_row(row)
        columns = next(self.columns(row, row + 1))
        if columns.erased[0]:
            raise BadRow(f"row {row} was erased.", row=row)
        return {name: _plain(column[0]) for name, column in columns.inputs.items()}

    def columns(self, first: int | None = None, stop: int | None = None) -> Iterator[StoredColumns]:
        """Yield rows in chunks, by column."""
        start = self.first if first is None else first
        end = self.rows if stop is None else stop
        keys = self.reader.has_keys()
        layout = self.reader.layout
        while start < end:
            assert layout is not None
            upto = min(end, start + (1 << 14))
            chunk = self.reader.decisions(start, upto, keys=keys)
            if self.pending:
                self._blank_unjudged(chunk)
            self.reader.check_window(start)  # rows may have left the window while being read
            packed = np.ascontiguousarray(chunk.records["input"]).view(layout.dtype.base)
            inputs: dict[str, npt.NDArray[Any]]
            vectors: dict[str, npt.NDArray[Any]] = {}
            if layout.shape is not None:
                inputs = {"input": packed.reshape(len(chunk), *layout.shape)}
            else:
                rows = packed.reshape(-1)
                embedded = [name for name, kind in layout.columns if rows[name].dtype.names]
                vectors = {name: rows[name][VECTOR] for name in embedded}
                inputs = {
                    name: self._column(name, rows[name][CODE] if name in vectors else rows[name])
                    for name, _ in layout.columns
                }
            erased = np.isnan(chunk.outputs[:, 0])
            models = self._models.all_of(chunk.models)
            places = self._sources.places(chunk.sources, chunk.positions)
            outputs = self._outputs(chunk)
            yield StoredColumns(start, inputs, outputs, erased, chunk, vectors, models, places)
            start = upto

    def _blank_unjudged(self, chunk: StoredDecisions) -> None:
        """Blank the verdicts of decisions that were accepted but not judged.

        Their records may hold some already, of a transaction that was interrupted or is not over.
        """
        waiting = slice(max(0, self.reader.state().judged - chunk.first), None)
        chunk.counts[waiting], chunk.firsts[waiting] = NOT_JUDGED, 0
        chunk.facts[waiting] = facts_of_many(None, len(chunk.facts[waiting]))

    def known_values(self, column: str) -> list[Any] | None:
        """Return the values of a column, seen or listed by the rule; None if it holds numbers.

        column: "" for the output
        """
        if not column:
            return list(self._words.get("", [])) if self.rule.output == "label" else None
        feature = (self.rule.features or {})[column]
        if feature.kind == "number":
            return None
        listed = feature.order or feature.values
        words = [word for word in self._words.get(column, []) if word is not None]  # None: erased
        return [*(words if listed is None else listed), *([None] * (feature.missing != "reject"))]

    def vector_types(self) -> dict[str, np.dtype[Any]]:
        """Return the type, with its length, of the vectors of texts and pictures, by column."""
        layout = self.reader.layout
        return {} if layout is None else layout.vector_types

    def _column(self, name: str, stored: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return numbers as they are, and codes as the words that they stand for."""
        feature: Any = (self.rule.features or {})[name]
        if feature.kind == "number":
            return stored
        listed = feature.order or feature.values
        words = [*(self._words.get(name, []) if listed is None else listed), None]  # -1: missing
        if len(stored) and (stored.min() < MISSING or stored.max() >= len(words) - 1):
            raise BadFile(f"the ledger has no word for a code of {name!r}: it was altered.")
        column = np.empty(len(stored), object)
        column[:] = [words[code] for code in stored.tolist()]
        return column

    def _outputs(self, chunk: StoredDecisions) -> list[Any]:
        """Return the outputs of a chunk; None where erased."""
        first = chunk.outputs[:, 0]
        erased = np.isnan(first)
        if self.rule.output == "label":
            labels = self._words.get("", [])
            codes = np.nan_to_num(first).astype(np.int64)
            valid = (codes >= 0) & (codes < len(labels)) & (codes == first)
            if not (valid | erased).all():
                raise BadFile("the ledger has no word for a label: it was altered.")
            outputs = [labels[code] if code < len(labels) else None for code in codes.tolist()]
        else:
            outputs = (first if self.rule.output == "number" else chunk.outputs).tolist()
        pairs = zip(outputs, erased.tolist(), strict=True)
        return [None if is_erased else output for output, is_erased in pairs]


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value
