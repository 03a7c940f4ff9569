"""Writes `--out`: one line for each contradicting pair, with the values of both sides, to review.

    pair                            number of the pair, from 1
    later_line, earlier_line        where both stood: lines of a text file, else rows, from 1
    later_time_utc, earlier_time_utc    when they were made, with a column of times
    later_row, earlier_row          their rows in the history, as in --json; from 0
    input_distance, output_distance how near, and how different
    similar_cases, disagree         how many earlier similar cases the later one has, and how many
                                    of them got a different output
    favoured                        "later" or "earlier": who got the favourable answer, where the
                                    rule says which that is and one of the two did
    groups_differ_in                the protected columns in which both are known and differ
    later_group: C, earlier_group: C    the name of the group, where the rule has labels for C
    later: C, earlier: C            the values of every column C of the file
    reviewer, disposition, reason   empty, for the reviewer

Invariant: only columns of the file begin with "later: " or "earlier: ", so no two have one name.
Cost: pairs go to disk as they come, _TOGETHER at a time; kept_rows.py holds the rows of the file.
Not here: Excel (reports/workbook.py).
"""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Protocol

import numpy as np
import polars as pl

from likewise.auditing.kept_rows import LINE, ROW, TIME, KeptRows, common_types, stack_frames
from likewise.errors import BadFile, BadRule
from likewise.explaining.compare_groups import check_favourable, compute_scores, protected_columns
from likewise.explaining.past import Past
from likewise.reports.clearest import compare_pair_groups, support_of
from likewise.rule.rule import Rule
from likewise.rule.value_names import name_value
from likewise.runtime.private_files import name_write_errors, replace_file
from likewise.tables.array_types import Floats, Rows
from likewise.tables.printing import FORMULA, NUMBER
from likewise.verdict.verdicts import Verdicts

if TYPE_CHECKING:
    from likewise.reports.workbook import Workbook


_PART = 1 << 18  # the fewest pairs in a part of a Parquet file


class PairWriter(Protocol):
    """Writes a file of pairs; the defaults are those of files that have room for all of them."""

    @property
    def left_out(self) -> int:
        """How many pairs the file has no room for."""
        return 0

    def add(self, pairs: pl.DataFrame) -> None: ...

    def finish(self) -> None:
        """Write what is left, if there is anything."""
        return


@contextmanager
def open_pair_writer(path: Path, file: IO[bytes], about: str) -> Iterator[PairWriter]:
    """Open a writer of the kind that the file's name says; a workbook contains the text `about`.

    Temporary files are beside the file, readable for their owner alone, and removed afterwards.
    """
    suffix = path.suffix.lower()
    if suffix == ".csv":
        yield CsvWriter(file)
    elif suffix == ".jsonl":
        yield JsonLinesWriter(file)
    else:
        folder = tempfile.mkdtemp(prefix=".likewise-", dir=path.parent)
        try:
            if suffix == ".parquet":
                yield ParquetWriter(file, Path(folder))
            else:
                from likewise.reports.workbook import Workbook

                with closing(Workbook(file, Path(folder), about)) as book:
                    yield ExcelWriter(book, path)
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def mark_formulas(cells: pl.Series) -> pl.Series:
    """Mark text that a spreadsheet would take for a formula.

    >>> mark_formulas(pl.Series(["=1+1", "-1.5", "p7"])).to_list()
    ["'=1+1", '-1.5', 'p7']
    """
    if cells.dtype != pl.String:
        return cells
    formula = cells.str.contains(FORMULA) & ~cells.str.contains(NUMBER)
    marked = pl.select(pl.when(formula).then("'" + cells).otherwise(cells)).to_series()
    return marked.alias(cells.name)


def flatten(cells: pl.Series) -> pl.Series:
    """Write cells as text where they are neither text, numbers, flags nor times, such as lists."""
    kind = cells.dtype
    if kind in (pl.String, pl.Boolean, pl.Null) or kind.is_numeric() or kind.is_temporal():
        return cells
    texts = [None if value is None else str(value) for value in cells.to_list()]
    return pl.Series(cells.name, texts, dtype=pl.String)


class CsvWriter(PairWriter):
    """Writes comma-separated values with a header."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._has_header = False

    def add(self, pairs: pl.DataFrame) -> None:
        cells = pl.DataFrame([mark_formulas(flatten(column)) for column in pairs.iter_columns()])
        cells.write_csv(self._file, include_header=not self._has_header)
        self._has_header = True


class ExcelWriter(PairWriter):
    """Writes a workbook."""

    def __init__(self, book: "Workbook", path: Path) -> None:
        self._book = book
        self._path = path

    @property
    def left_out(self) -> int:
        return self._book.left_out

    def add(self, pairs: pl.DataFrame) -> None:
        cells = pl.DataFrame([flatten(column) for column in pairs.iter_columns()])
        try:
            self._book.add(cells.columns, cells.iter_rows())
        except BadFile as error:  # a sheet has fewer columns than that
            raise BadFile(str(error), path=self._path) from None

    def finish(self) -> None:
        self._book.finish()


class JsonLinesWriter(PairWriter):
    """Writes a JSON object for each pair."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    def add(self, pairs: pl.DataFrame) -> None:
        raw = [flatten(one) for one in pairs.iter_columns() if "Binary" in str(one.dtype)]
        pairs.with_columns(raw).write_ndjson(self._file)


class ParquetWriter(PairWriter):
    """Writes parts into a folder, and one file from these at the end."""

    def __init__(self, file: IO[bytes], folder: Path) -> None:
        self._file = file
        self._folder = folder
        self._held: list[pl.DataFrame] = []
        self._schemas: list[Any] = []

    def add(self, pairs: pl.DataFrame) -> None:
        self._held.append(pairs)
        if sum(one.height for one in self._held) >= _PART:
            self._spill()

    def _spill(self) -> None:
        if self._held:
            part = stack_frames(self._held)
            part.write_parquet(self._folder / f"{len(self._schemas):09}.parquet")
            self._schemas.append(part.schema)
            self._held = []

    def finish(self) -> None:
        self._spill()
        types: Any = common_types(self._schemas)
        parts = [pl.scan_parquet(part).cast(types) for part in sorted(self._folder.iterdir())]
        pl.concat(parts).sink_parquet(self._file)


REVIEW_COLUMNS = ("reviewer", "disposition", "reason")
_TOGETHER = 1 << 16  # pairs that are written at once


@contextmanager
def open_violation_file(
    path: Path, monitor: Any, rows: KeptRows, about: str
) -> Iterator["ViolationFile"]:
    """Open a file for pairs, which appears once all are written."""
    with replace_file(path) as file, open_pair_writer(path, file, about) as writer:
        violations = ViolationFile(path, monitor, rows, writer)
        yield violations
        violations.finish()


class ViolationFile:
    """Writes pairs to a file."""

    def __init__(self, path: Path, monitor: Any, rows: KeptRows, writer: PairWriter) -> None:
        self._path = path
        self._frames = PairFrames(monitor.past, rows)
        self._file = writer
        self.pairs = 0

    def finish(self) -> None:
        """Write what is left; at least the names of the columns."""
        with name_write_errors(self._path):
            if self.pairs == 0:
                self._file.add(self._frames.make_empty())
            self._file.finish()

    @property
    def left_out(self) -> int:
        """How many pairs the file has no room for."""
        return self._file.left_out

    def add(self, verdicts: Verdicts) -> None:
        """Add the pairs of a batch that the monitor has just judged, and whose rows are kept."""
        with name_write_errors(self._path):
            for frame in self._frames.make(verdicts, self.pairs):
                self._file.add(frame)
                self.pairs += frame.height


class PairFrames:
    """Makes frames of pairs, with the values of both sides."""

    def __init__(self, past: Past, rows: KeptRows) -> None:
        self._past = past
        self._rows = rows
        self._columns = _order_columns(past.rule, rows.columns)
        self._has_favourable = _has_favourable(past.rule)

    def make(self, verdicts: Verdicts, before: int) -> Iterator[pl.DataFrame]:
        """Yield the pairs of a batch, _TOGETHER at a time; `before`: how many came earlier."""
        witnesses = verdicts.witnesses
        rows = verdicts.first_row + verdicts.owners
        support = (one[verdicts.owners] for one in (support_of(verdicts)[0], verdicts.counts))
        numbers = np.stack([witnesses.input_distances, witnesses.output_distances, *support])
        for start in range(0, len(rows), _TOGETHER):
            part = slice(start, start + _TOGETHER)
            yield self._make(rows[part], witnesses.rows[part], numbers[:, part], before + start)

    def make_empty(self) -> pl.DataFrame:
        """Return a frame without pairs, which has the names of the columns."""
        return self._make(np.empty(0, np.int64), np.empty(0, np.int64), np.empty((4, 0)), 0)

    def _make(self, later: Rows, earlier: Rows, numbers: Floats, before: int) -> pl.DataFrame:
        sides = {"later": self._rows.take(later), "earlier": self._rows.take(earlier)}
        columns = [
            pl.Series("pair", np.arange(before + 1, before + 1 + len(later))),
            *_both_sides(sides, [LINE, TIME, ROW]),
            pl.Series("input_distance", numbers[0], dtype=pl.Float64),
            pl.Series("output_distance", numbers[1], dtype=pl.Float64),
            *(
                pl.Series(name, counts.astype(np.int64)).replace(-1, None)
                for name, counts in zip(("similar_cases", "disagree"), numbers[2:], strict=True)
            ),
            *self._build_favoured(later, earlier),
            *self._build_groups(later, earlier),
            *_both_sides(sides, [f": {name}" for name in self._columns]),
            *(pl.Series(name, [None] * len(later), dtype=pl.String) for name in REVIEW_COLUMNS),
        ]
        return pl.DataFrame(columns)

    def _build_favoured(self, later: Rows, earlier: Rows) -> list[pl.Series]:
        if not self._has_favourable:
            return []
        mine, theirs = compute_scores(self._past, later), compute_scores(self._past, earlier)
        codes = np.where(mine > theirs, 1, np.where(mine < theirs, 2, 0))
        names = pl.Series("favoured", [None, "later", "earlier"], dtype=pl.String)
        return [names[codes]]

    def _build_groups(self, later: Rows, earlier: Rows) -> list[pl.Series]:
        """Name the protected columns in which both differ, and their groups."""
        rule = self._past.rule
        protected = protected_columns(rule)
        if not protected:
            return []
        differ, groups = [], []
        for name in protected:
            mine, theirs, apart = compare_pair_groups(self._past, name, later, earlier)
            differ.append(pl.Series(["", name], dtype=pl.String)[apart.astype(np.int64)])
            labels = (rule.features or {})[name].labels
            for side, codes in (("later", mine), ("earlier", theirs)) if labels else ():
                names = [None, *(str(name_value(labels, value)) for value in codes.values)]
                by_code = pl.Series(f"{side}_group: {name}", names, dtype=pl.String)
                groups.append(by_code[codes.codes + 1])
        return [_join_names(differ), *groups]


def _join_names(names: list[pl.Series]) -> pl.Series:
    """Join the names that are not empty by commas, row by row."""
    columns = [one.alias(str(i)).replace("", None) for i, one in enumerate(names)]
    joined = pl.concat_str(pl.all(), separator=", ", ignore_nulls=True)
    return pl.DataFrame(columns).select(joined).to_series().alias("groups_differ_in")


def _both_sides(sides: dict[str, pl.DataFrame], names: list[str]) -> list[pl.Series]:
    return [
        frame[name].alias(f"{side}{name}")
        for name in names
        for side, frame in sides.items()
        if name in frame.columns
    ]


def _order_columns(rule: Rule, columns: tuple[str, ...]) -> list[str]:
    """Sort columns: the key, outputs, protected ones, others that are compared, and the rest."""
    ranks = dict.fromkeys(rule.output_columns, 1)
    kinds = {"key": 0, "protected": 2, "ignore": 4}
    features = rule.features or {}
    for name, feature in features.items():
        ranks.setdefault(name, kinds.get(feature.kind, 3))
    return sorted(columns, key=lambda name: ranks.get(name, 4 if features else 3))


def _has_favourable(rule: Rule) -> bool:
    try:
        check_favourable(rule)
    except BadRule:
        return False
    return True
