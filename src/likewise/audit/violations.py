"""`--out`: every violating pair as a line to work on, with the values of both sides.

    pair                            counts pairs from 1
    later_line, earlier_line        where both stood: lines of a text file, else rows, from 1
    later_time_utc, earlier_time_utc    when they were made, with a column of times
    later_row, earlier_row          their rows in the history, as --json has them; from 0
    input_distance, output_distance how near, and how different
    favoured                        "later" or "earlier": who got the favourable answer, where the
                                    rule knows that and one of the two did
    groups_differ_in                the protected columns in which both are known and differ
    later_group: C, earlier_group: C    what a group is called, where the rule has labels for C
    later: C, earlier: C            the values of every column C of the file
    reviewer, disposition, reason   empty, for whoever works on the pair

Columns of the file have "later: " or "earlier: " before their names and no others have that, so no
two have one name, whatever the file calls them.

Cost: pairs go to disk as they come, _TOGETHER at a time; kept_rows.py holds the rows of the file.
Not here: how each format is written, and what becomes of text that looks like a formula
(pair_files.py, reports/workbook.py).
"""

from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

import numpy as np
import polars as pl

from likewise.audit.kept_rows import LINE, ROW, TIME, KeptRows
from likewise.audit.pair_files import PairFile, pair_file
from likewise.explaining.comparing import check_favourable, protected_columns, scores_of
from likewise.reports.whole import naming, replacing
from likewise.rules.labels import named
from likewise.rules.rule import Rule
from likewise.values.errors import BadRule
from likewise.values.verdicts import Verdicts
from likewise.values.witnesses import Rows

TO_FILL_IN = ("reviewer", "disposition", "reason")
_TOGETHER = 1 << 16  # pairs that are put together at once


class Violations:
    """Writes pairs to a file, which is there once all are."""

    def __init__(self, path: Path, monitor: Any, rows: KeptRows, about: str = "") -> None:
        self._path = path
        self._past = monitor.past
        self._kept = rows
        self._about = about
        self._columns = _ordered(monitor.rule, rows.columns)
        self._knows_better = _knows_better(monitor.rule)
        self._stack = ExitStack()
        self.pairs = 0

    def __enter__(self) -> Self:
        file = self._stack.enter_context(replacing(self._path))
        self._file: PairFile = self._stack.enter_context(pair_file(self._path, file, self._about))
        return self

    def __exit__(self, *failure: Any) -> bool | None:
        try:
            if failure[0] is None:
                with naming(self._path):
                    if self.pairs == 0:
                        self._add(np.empty(0, np.int64), np.empty(0, np.int64), np.empty((2, 0)))
                    self._file.finish()
        except BaseException as error:
            self._stack.__exit__(type(error), error, error.__traceback__)
            raise
        return self._stack.__exit__(*failure)

    @property
    def left_out(self) -> int:
        """Pairs that the file has no room for."""
        return self._file.left_out

    def add(self, verdicts: Verdicts) -> None:
        """The pairs of a batch that the monitor has just judged, and whose rows are kept."""
        found = verdicts.witnesses
        rows = verdicts.first_row + verdicts.owners
        distances = np.stack([found.input_distances, found.output_distances])
        with naming(self._path):
            for start in range(0, len(rows), _TOGETHER):
                part = slice(start, start + _TOGETHER)
                self._add(rows[part], found.rows[part], distances[:, part])

    def _add(self, later: Rows, earlier: Rows, distances: Any) -> None:
        self._file.add(self._frame(later, earlier, distances))
        self.pairs += len(later)

    def _frame(self, later: Rows, earlier: Rows, distances: Any) -> pl.DataFrame:
        sides = {"later": self._kept.take(later), "earlier": self._kept.take(earlier)}
        columns = [
            pl.Series("pair", np.arange(self.pairs + 1, self.pairs + 1 + len(later))),
            *_of_both(sides, [LINE, TIME, ROW]),
            pl.Series("input_distance", distances[0], dtype=pl.Float64),
            pl.Series("output_distance", distances[1], dtype=pl.Float64),
            *self._favoured(later, earlier),
            *self._groups(later, earlier),
            *_of_both(sides, [f": {name}" for name in self._columns]),
            *(pl.Series(name, [None] * len(later), dtype=pl.String) for name in TO_FILL_IN),
        ]
        return pl.DataFrame(columns)

    def _favoured(self, later: Rows, earlier: Rows) -> list[pl.Series]:
        if not self._knows_better:
            return []
        mine, theirs = scores_of(self._past, later), scores_of(self._past, earlier)
        codes = np.where(mine > theirs, 1, np.where(mine < theirs, 2, 0))
        names = pl.Series("favoured", [None, "later", "earlier"], dtype=pl.String)
        return [names[codes]]

    def _groups(self, later: Rows, earlier: Rows) -> list[pl.Series]:
        """In which protected columns they differ, and what their groups are called."""
        rule = self._past.rule
        protected = protected_columns(rule)
        if not protected:
            return []
        differ, called = [], []
        for name in protected:
            mine, theirs = self._past.codes(name, later), self._past.codes(name, earlier)
            apart = (mine.codes != theirs.codes) & (mine.codes >= 0) & (theirs.codes >= 0)
            differ.append(pl.Series(["", name], dtype=pl.String)[apart.astype(np.int64)])
            labels = rule.features[name].labels
            for side, codes in (("later", mine), ("earlier", theirs)) if labels else ():
                names = [None, *(str(named(labels, value)) for value in codes.values)]
                known = pl.Series(f"{side}_group: {name}", names, dtype=pl.String)
                called.append(known[codes.codes + 1])
        return [_joined(differ), *called]


def _joined(names: list[pl.Series]) -> pl.Series:
    """Names side by side, with commas between those that are not empty."""
    columns = [one.alias(str(i)).replace("", None) for i, one in enumerate(names)]
    together = pl.concat_str(pl.all(), separator=", ", ignore_nulls=True)
    return pl.DataFrame(columns).select(together).to_series().alias("groups_differ_in")


def _of_both(sides: dict[str, pl.DataFrame], names: list[str]) -> list[pl.Series]:
    return [
        frame[name].alias(f"{side}{name}")
        for name in names
        for side, frame in sides.items()
        if name in frame.columns
    ]


def _ordered(rule: Rule, columns: tuple[str, ...]) -> list[str]:
    """The key, outputs, protected columns, others that are compared, and then the rest."""
    first = dict.fromkeys(rule.output_columns, 1)
    kinds = {"key": 0, "protected": 2, "ignore": 4}
    features = rule.features or {}
    for name, feature in features.items():
        first.setdefault(name, kinds.get(feature.kind, 3))
    return sorted(columns, key=lambda name: first.get(name, 4 if features else 3))


def _knows_better(rule: Rule) -> bool:
    try:
        check_favourable(rule)
    except BadRule:
        return False
    return True
