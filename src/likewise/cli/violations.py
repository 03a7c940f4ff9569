"""`--out`: every violating pair as a line of CSV, JSON lines or Parquet.

    row, line, key                          the later decision
    witness_row, witness_line, witness_key  the earlier one that it contradicts
    input_distance, output_distance         how near, and how different

`line` is the line in a text file, else the row of the file, from 1; keys are there where the rule
has a key. Rows count decisions from 0, bad rows left out.

A spreadsheet takes a cell of a CSV file that begins with =, +, -, @, a tab or a line's end for a
formula, or for more cells. Such a key gets a quotation mark (') before it, which makes it text; one
that has such a mark before such a character gets another, so that the key can still be told. A
key that is a number, such as -1.5, stays as it is. JSON lines and Parquet hold keys as they are.

Cost: pairs go to disk as they come; memory holds those of one piece.
"""

import shutil
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

import numpy as np
import polars as pl

from likewise.cli.feeding import PlaceOf
from likewise.cli.places import replacing, told
from likewise.values.verdicts import Verdicts

SUFFIXES = (".csv", ".jsonl", ".parquet")
_TOGETHER = 1 << 18  # pairs in a part of a Parquet file, at least
_FORMULA = r"^(?:['\s]*[=+\-@＝＋－＠]|'*[\t\r\n])"
_NUMBER = r"^[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?$"


def no_formulas(cells: pl.Series) -> pl.Series:
    """Cells that a spreadsheet takes for what they are: text that looks like a formula is marked.

    >>> no_formulas(pl.Series(["=1+1", "-1.5", "p7"])).to_list()
    ["'=1+1", '-1.5', 'p7']
    """
    if cells.dtype != pl.String:
        return cells
    formula = cells.str.contains(_FORMULA) & ~cells.str.contains(_NUMBER)
    return pl.select(pl.when(formula).then("'" + cells).otherwise(cells)).to_series()


class Violations:
    """Writes pairs to a file, which is there once all are."""

    def __init__(self, path: Path, monitor: Any, keyed: bool) -> None:
        self._path = path
        self._monitor = monitor
        self._keyed = keyed
        self._stack = ExitStack()
        self._held: list[pl.DataFrame] = []
        self._parts = 0
        self.pairs = 0

    def __enter__(self) -> Self:
        self._file = self._stack.enter_context(replacing(self._path))
        if self._path.suffix == ".parquet":
            folder = tempfile.mkdtemp(prefix=".likewise-", dir=self._path.parent)
            self._stack.callback(shutil.rmtree, folder, ignore_errors=True)
            self._folder = Path(folder)
        return self

    def __exit__(self, *failure: Any) -> bool | None:
        try:
            if failure[0] is None:
                with told(self._path):
                    self._finish()
        except BaseException as error:
            self._stack.__exit__(type(error), error, error.__traceback__)
            raise
        return self._stack.__exit__(*failure)

    def add(self, verdicts: Verdicts, place_of: PlaceOf) -> None:
        """The pairs of a batch that the monitor has just judged."""
        with told(self._path):
            self._add(verdicts, place_of)

    def _add(self, verdicts: Verdicts, place_of: PlaceOf) -> None:
        rows = np.repeat(verdicts.rows, verdicts.counts)
        frame = self._frame(rows, verdicts, place_of)
        if self._path.suffix == ".csv":
            frame.write_csv(self._file, include_header=self._parts == 0)
        elif self._path.suffix == ".jsonl":
            frame.write_ndjson(self._file)
        else:
            self._held.append(frame)
            if sum(one.height for one in self._held) >= _TOGETHER:
                self._spill()
        self._parts += 1
        self.pairs += len(rows)

    def _frame(self, rows: Any, verdicts: Verdicts, place_of: PlaceOf) -> pl.DataFrame:
        found = verdicts.witnesses
        columns: dict[str, Any] = {"row": rows, "line": place_of(rows)}
        others: dict[str, Any] = {"witness_row": found.rows, "witness_line": place_of(found.rows)}
        if self._keyed:
            columns["key"] = self._keys(rows)
            others["witness_key"] = self._keys(found.rows)
            if self._path.suffix == ".csv":
                columns["key"] = no_formulas(columns["key"])
                others["witness_key"] = no_formulas(others["witness_key"])
        distances = {
            "input_distance": found.input_distances,
            "output_distance": found.output_distances,
        }
        return pl.DataFrame({**columns, **others, **distances})

    def _keys(self, rows: Any) -> pl.Series:
        keys = self._monitor.keys(rows)
        whole = all(type(key) is int for key in keys)
        return pl.Series(
            keys if whole else [str(key) for key in keys], dtype=pl.Int64 if whole else pl.String
        )

    def _spill(self) -> None:
        if self._held:
            pl.concat(self._held, how="vertical_relaxed").write_parquet(
                self._folder / f"{self._parts:09}.parquet"
            )
            self._held = []

    def _finish(self) -> None:
        if self._path.suffix == ".parquet":
            self._spill()
            pl.scan_parquet(sorted(self._folder.iterdir())).sink_parquet(self._file)
