"""A ledger as those see it who only look: while it is being written, or from a read-only disk."""

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
from likewise.ledger.reader import LedgerReader
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
from likewise.tables.codec import to_query_text
from likewise.tables.keys import Key
from likewise.tables.packing import CODE, VECTOR
from likewise.tables.positions import Position, SourcePositions
from likewise.tables.times import iso_text
from likewise.verdict.context import ComparedRows, VerdictContext
from likewise.verdict.verdicts import Verdict
from likewise.verdict.witnesses import Witness, Witnesses

MISSING = -1
_OUTPUTS_AT_ONCE = 500  # rows of which outputs are looked at together
_GAP, _LONGEST = 64, 1 << 14  # of rows that are read as one run


@dataclass(frozen=True)
class Entry:
    """A decision and its verdict, as they are kept."""

    row: int
    time: str
    key: Key
    output: Any
    """None if it was erased."""
    count: int | None
    """Witnesses that it had; None if it was not judged."""
    nearest: tuple[Witness, ...]
    """Of those whose distances were destroyed with a person's data, distances are NaN."""
    over: ComparedRows
    erased: bool
    model: str | None = None
    facts: Facts = NO_FACTS
    """What its verdict says beside its witnesses."""
    source: str | None = None
    """The sequence that it came from, if that was said."""
    position: Position | None = None
    """Its place there: a whole number, or a pair of them."""

    @property
    def missing(self) -> int:
        """Decisions that were known to be missing before it."""
        return self.facts.missing

    @property
    def comparable(self) -> bool | None:
        """Whether there was a like case at all; None if that was not asked, or not judged."""
        return self.facts.comparable


@dataclass(frozen=True)
class StoredColumns:
    """A run of rows by column, as they came."""

    first: int
    inputs: dict[str, npt.NDArray[Any]]
    """Of a table by name; of vectors one, "input"."""
    outputs: list[Any]
    erased: npt.NDArray[np.bool_]
    decisions: StoredDecisions
    vectors: dict[str, npt.NDArray[Any]] = field(default_factory=dict)
    """Those of texts and pictures, by column."""
    models: list[str | None] | None = None
    """Which model made each; None if none is known of any."""
    places: SourcePositions | None = None
    """Where each comes from; None if that is known of none."""


class Ledger:
    """Reads a ledger; any number of these may, while one process writes.

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
        """For the parts of likewise that look closer than this class does."""
        try:
            with self.reader.snapshot():
                self._begin()
        except BaseException:
            self.close()
            raise

    def _begin(self) -> None:
        self.rule: Rule = self.reader.rule
        self.question = self.reader.question
        """What its verdicts answer: None for contradictions, a `Steepest` for slopes."""
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
            known = self._words.setdefault(column, [])
            known.append(None if value is None else codec.read_word(value))

    def _load_removed_rows(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Rows that were erased or overruled, and how many rows there were when that happened.

        Read once: what happens after the ledger was opened is about no row that it shows.
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
        gone, since = np.array(pairs, np.int64).reshape(-1, 2).T
        return gone, since

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
            that, order, times, verdicts and the commitments themselves are what was written.
        """
        wanted = Head.of(head) if isinstance(head, str) else head
        return verify(self.reader, wanted, values=values)

    def events(self) -> list[Event]:
        return self.reader.events()

    def erased_rows(self) -> npt.NDArray[np.int64]:
        """Rows that were erased, in order."""
        return self._erased

    @property
    def positions(self) -> dict[str, Position]:
        """By source the last position that is stored, its row still there or not: where to go on.

        Read anew each time it is asked for: what has come since the ledger was opened is in it.
        """
        return last_positions(self.reader)[0]

    # Rows

    def row_of(self, key: Key) -> int | None:
        """The row of a key."""
        return self.reader.row_of(key)

    def row_by_index(self, key: Key) -> int | None:
        """The same by the database's index alone: one that says no is believed."""
        return self.reader.row_by_index(key)

    def _names_of(self, rows: list[int]) -> dict[int, tuple[Key, str | None]]:
        """Return keys and models by row, but for rows that were erased or are no longer there."""
        gone, keys = set(self._erased.tolist()), self.reader.has_keys()
        there = sorted({row for row in rows if self.first <= row < self.rows} - gone)
        names: dict[int, tuple[Key, str | None]] = {}
        for run in _runs(there):
            some = self.reader.decisions(run[0], run[-1] + 1, keys=keys, witnesses=False)
            for row in run:
                i = row - run[0]
                key = None if some.keys is None else some.keys[i]
                names[row] = key, self._models.of(int(some.models[i]))
        return names

    def known_words(self, column: str) -> list[Any]:
        """The values that were seen in a column, by code; labels under "". None for erased ones."""
        return list(self._words.get(column, ()))

    def models(self) -> list[str]:
        """The models that decided, in the order in which they came."""
        return list(self._models.listed)

    def entry(self, row: int) -> Entry:
        """One decision and its verdict."""
        self._check_row(row)
        return next(self.entries(row, row + 1))

    def _check_row(self, row: int) -> None:
        has = f"rows {self.first} to {self.rows - 1}" if self.first < self.rows else "no rows"
        if not isinstance(row, int | np.integer):
            raise BadRow(f"the row is {row!r:.200}; expected one row number of {has}.")
        if not self.first <= row < self.rows:
            raise BadRow(f"row {row} is not in this ledger, which has {has}.", row=int(row))

    def entries(self, first: int | None = None, stop: int | None = None) -> Iterator[Entry]:
        """Decisions and verdicts, in order."""
        for columns in self.columns(first, stop):
            some = columns.decisions
            witnesses = some.witnesses.nearest_first()
            for i in range(len(some)):
                row, count = some.first + i, int(some.counts[i])
                nearest = witnesses.of(i).tolist()
                since = int(some.firsts[i])
                yield Entry(
                    row,
                    iso_text(int(some.times[i])),
                    None if some.keys is None else some.keys[i],
                    columns.outputs[i],
                    None if count == NOT_JUDGED else count,
                    tuple(Witness(*one) for one in nearest),
                    ComparedRows(since, row, self._count_absent(since, row)),
                    bool(columns.erased[i]),
                    **self._verdict_context(some, i),
                )

    def _verdict_context(self, some: StoredDecisions, i: int) -> dict[str, Any]:
        """What is kept beside a verdict."""
        code = int(some.sources[i])
        return {
            "model": self._models.of(int(some.models[i])),
            "facts": Facts.of(some.facts[i]),
            "source": self._sources.names.of(code),
            "position": self._sources.position(code, some.positions[i]),
        }

    def verdict_of(self, entry: Entry) -> Verdict:
        """Return the verdict on a decision, with the witnesses that are kept, nearest first.

        Of those that were erased or have left the window since, keys and models are gone. A
        decision that was not judged was compared with nothing, so its verdict is `incomplete`.
        """
        found = [witness.row for witness in entry.nearest]
        facts = entry.facts._asdict()
        if entry.count is None:
            facts["incomplete"] = max(1, entry.row)
        names = self._names_of(found)
        named = [names.get(row, (None, None)) for row in found]
        beside = VerdictContext(
            None,
            entry.over,
            key=entry.key,
            witness_keys=tuple(key for key, _ in named),
            model=None if entry.erased else entry.model,
            witness_models=tuple(model for _, model in named),
            omitted=(entry.count or 0) - len(found),
            question=self.question,
        )
        witnesses = Witnesses(
            np.array(found, np.int64),
            np.array([witness.input_distance for witness in entry.nearest]),
            np.array([witness.output_distance for witness in entry.nearest]),
        )
        return Verdict(entry.row, witnesses, beside._replace(**facts))

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
        """Entries with witnesses, in order.

        since, until    of decisions from that time on, and before that time
        model           of decisions of that model
        group           of decisions with that value in a protected column: ("sex", "f")
        review          with that disposition as the last one; "open" for those with none
        within          with a witness at most that far away
        after           with a higher row than this
        """
        self.require_contradictions()
        query = ViolationQuery("oldest", since, until, model, group, review, within)
        first = self.first if after is None else max(self.first, after + 1)
        for row in ViolationSearch.of(self.reader, query, self._words).rows(first, self.rows):
            if self._filter_by_records([row], query):
                yield from self.entries(row, row + 1)

    def flagged_rows(self, after: int, last: int, *, alarms: bool) -> Iterator[int]:
        """Rows behind `after` up to `last` that have witnesses.

        alarms: whether also those that raised a burst's alarm, which only records tell
        """
        first, stop = max(self.first, after + 1), min(self.rows, last + 1)
        if not alarms:
            yield from self.reader.find_flagged_where("", (), first, stop)
            return
        for some in self.reader.all_decisions(first, stop):
            flagged = (some.counts > 0) | (some.facts["alarm"] > 0)
            yield from (some.first + np.flatnonzero(flagged)).tolist()

    def violations_page(
        self,
        query: ViolationQuery,
        *,
        behind: PageCursor | None = None,
        limit: int = 50,
        seconds: float = 0.15,
    ) -> RowPage:
        """A few rows with witnesses that a query asks for, and where to go on.

        behind    where the page before it ended
        seconds   after which it looks no further: rows that pass the filters may be rare
        """
        self.require_contradictions()
        search = ViolationSearch.of(self.reader, query, self._words)
        until = clock.monotonic() + seconds
        rows: list[int] = []
        while True:
            some = limit - len(rows) if query.output is None else _OUTPUTS_AT_ONCE
            left = max(0.0, until - clock.monotonic())
            page = search.page(
                query.order, self.first, self.rows, after=behind, limit=some, seconds=left
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
        """Those that also pass what their records alone tell: an output, a group."""
        if query.output is not None:
            ordered = sorted(rows)
            outputs = dict(zip(ordered, self.outputs_of(ordered), strict=True))
            rows = [row for row in rows if to_query_text(outputs[row]) == query.output]
        if query.group is not None:
            column, value = query.group
            rows = [row for row in rows if self._value(row, column) == value]
        return rows

    def _value(self, row: int, column: str) -> Any:
        """A value of a row; None if it was erased."""
        try:
            return self.values(row).get(column)
        except BadRow:
            return None

    def group_of_text(self, column: str, text: str) -> tuple[str, Any]:
        """A group for a query, its value as the ledger has it: an address can only say text."""
        feature: Any = (self.rule.features or {}).get(column)
        known: list[Any] = []
        if feature is not None:
            known = list(feature.order or feature.values or self.known_words(column))
        return column, next((value for value in known if to_query_text(value) == text), text)

    def find_rows_naming(
        self, row: int, *, after: int | None = None, limit: int = 50, seconds: float = 0.15
    ) -> RowPage:
        """Later rows that have this one among the witnesses that are kept, and where to go on.

        after     where the search before it ended
        seconds   after which it looks no further: no index knows who names whom
        """
        return find_rows_naming(self.reader, row, row if after is None else after, limit, seconds)

    def stats(
        self, *, last: str | None = None, since: Any = None, until: Any = None
    ) -> LedgerStats:
        """How many decisions there were, how many could be compared, how many contradict.

        last            only those of the last "1 hour", "7 days" before now
        since, until    only those from that time on, and before that time
        """
        self.require_contradictions()
        begin, end = stretch(last, since, until)
        found = LedgerStats(since=begin, until=end)
        judged = self.reader.state().judged
        for start, stop in self.reader.runs_since(begin):
            for some in self.reader.all_decisions(start, min(stop, judged)):
                found = found.and_then(some)
        return found

    # What people said

    def reviews(self, row: int | None = None, *, first: int = 0) -> list[Review]:
        """What was said of contradictions, in order; of one row's, or of all.

        first: the lowest number of an event that is wanted
        """
        events = (
            self.reader.events("review", first=first)
            if row is None
            else self.reader.noted_events("review", row)
        )
        return [
            Review(
                event.number,
                event.get_integer("row"),
                event.body.get("witness"),
                str(event.body.get("disposition")),
                self._note_text(event),
                str(event.body.get("reviewer")),
                iso_text(event.time),
                event.body.get("verified") is True,
            )
            for event in events
            if event.number >= first
        ]

    def dispositions(self, rows: Sequence[int]) -> dict[int, str]:
        """The last disposition of those rows that have one."""
        query = "SELECT row, review FROM verdict WHERE row = ? AND review IS NOT NULL"
        return dict(found for row in rows for found in self.reader.all(query, row))

    def supersessions(self) -> list[Supersession]:
        """Decisions that were overruled, in order."""
        return [
            Supersession(
                event.number,
                event.get_integer("row"),
                event.get_integer("by_row"),
                str(event.body.get("by")),
                self._note_text(event),
                iso_text(event.time),
                event.body.get("verified") is True,
            )
            for event in self.reader.events("superseded")
        ]

    def truths(self) -> list[Truth]:
        """What turned out to be right, in order."""
        found = []
        for event in self.reader.events("truth"):
            text = self._note_text(event)
            value = None if text is None else codec.read_word(text)
            found.append(Truth(event.number, event.get_integer("row"), value, iso_text(event.time)))
        return found

    def _note_text(self, event: Event) -> str | None:
        rows = self.reader.all("SELECT text FROM note WHERE event = ?", event.number)
        return rows[0][0] if rows else None

    def _count_absent(self, first: int, row: int) -> int:
        """Rows in between that had been erased, or overruled, by then."""
        gone, since = self._removed_rows
        return int(((first <= gone) & (gone < row) & (since <= row)).sum())

    def outputs_of(self, rows: Sequence[int]) -> list[Any]:
        """The outputs of ascending rows; None where erased. Near rows are read as one."""
        outputs: list[Any] = []
        for run in _runs(rows):
            first = run[0]
            some = self.reader.decisions(first, run[-1] + 1, keys=False, witnesses=False)
            read = self._outputs(some)
            outputs += [read[row - first] for row in run]
        return outputs

    def values(self, row: int) -> dict[str, Any]:
        """What a row's input was, by column; a vector under "input"."""
        self._check_row(row)
        columns = next(self.columns(row, row + 1))
        if columns.erased[0]:
            raise BadRow(f"row {row} was erased.", row=row)
        return {name: _plain(column[0]) for name, column in columns.inputs.items()}

    def columns(self, first: int | None = None, stop: int | None = None) -> Iterator[StoredColumns]:
        """Rows in chunks, by column."""
        start = self.first if first is None else first
        end = self.rows if stop is None else stop
        keys = self.reader.has_keys()
        layout = self.reader.layout
        while start < end:
            assert layout is not None
            upto = min(end, start + (1 << 14))
            some = self.reader.decisions(start, upto, keys=keys)
            if self.pending:
                self._blank_unjudged(some)
            self.reader.check_window(start)  # what was read of rows that have left is not whole
            packed = np.ascontiguousarray(some.records["input"]).view(layout.dtype.base)
            inputs: dict[str, npt.NDArray[Any]]
            vectors: dict[str, npt.NDArray[Any]] = {}
            if layout.shape is not None:
                inputs = {"input": packed.reshape(len(some), *layout.shape)}
            else:
                rows = packed.reshape(-1)
                embedded = [name for name, kind in layout.columns if rows[name].dtype.names]
                vectors = {name: rows[name][VECTOR] for name in embedded}
                inputs = {
                    name: self._column(name, rows[name][CODE] if name in vectors else rows[name])
                    for name, _ in layout.columns
                }
            erased = np.isnan(some.outputs[:, 0])
            models = self._models.all_of(some.models)
            places = self._sources.places(some.sources, some.positions)
            outputs = self._outputs(some)
            yield StoredColumns(start, inputs, outputs, erased, some, vectors, models, places)
            start = upto

    def _blank_unjudged(self, some: StoredDecisions) -> None:
        """Have decisions that were accepted say nothing of verdicts.

        Their records may hold some already, of a transaction that was cut off or is not over.
        """
        waiting = slice(max(0, self.reader.state().judged - some.first), None)
        some.counts[waiting], some.firsts[waiting] = NOT_JUDGED, 0
        some.facts[waiting] = facts_of_many(None, len(some.facts[waiting]))

    def known_values(self, column: str) -> list[Any] | None:
        """What a column has had, or may have where the rule lists it; None if it holds numbers.

        column: "" for the output
        """
        if not column:
            return list(self._words.get("", [])) if self.rule.output == "label" else None
        feature = (self.rule.features or {})[column]
        if feature.kind == "number":
            return None
        listed = feature.order or feature.values
        known = [one for one in self._words.get(column, []) if one is not None]  # None: erased
        return [*(known if listed is None else listed), *([None] * (feature.missing != "reject"))]

    def vector_types(self) -> dict[str, np.dtype[Any]]:
        """The type, with its length, of the vectors of texts and pictures, by column."""
        layout = self.reader.layout
        return {} if layout is None else layout.vector_types

    def _column(self, name: str, kept: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Numbers as they are, codes as what they stand for."""
        feature: Any = (self.rule.features or {})[name]
        if feature.kind == "number":
            return kept
        listed = feature.order or feature.values
        known = [*(self._words.get(name, []) if listed is None else listed), None]  # -1: missing
        if len(kept) and (kept.min() < MISSING or kept.max() >= len(known) - 1):
            raise BadFile(f"the ledger has no word for a code of {name!r}: it was altered.")
        column = np.empty(len(kept), object)
        column[:] = [known[code] for code in kept.tolist()]
        return column

    def _outputs(self, some: StoredDecisions) -> list[Any]:
        erased = np.isnan(some.outputs[:, 0])
        gone = erased.tolist()
        if self.rule.output == "label":
            labels = self._words.get("", [])
            codes = np.nan_to_num(some.outputs[:, 0]).astype(np.int64)
            known = (codes >= 0) & (codes < len(labels)) & (codes == some.outputs[:, 0])
            if not (known | erased).all():
                raise BadFile("the ledger has no word for a label: it was altered.")
            return [
                None if empty else labels[code]
                for code, empty in zip(codes.tolist(), gone, strict=True)
            ]
        rows = some.outputs[:, 0] if self.rule.output == "number" else some.outputs
        return [None if empty else row for row, empty in zip(rows.tolist(), gone, strict=True)]


def _runs(rows: Sequence[int]) -> Iterator[list[int]]:
    """Ascending rows in runs: a gap of a few rows is read faster than it is jumped over."""
    run: list[int] = []
    for row in rows:
        if run and (row - run[-1] > _GAP or row - run[0] >= _LONGEST):
            yield run
            run = []
        run.append(row)
    if run:
        yield run


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value
