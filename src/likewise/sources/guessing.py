"""What a column of text holds, for a first look at a file: numbers, if every value is one.

Audits do not guess (delimited.py says why); proposals do, and a person looks at what comes out.
"""

from typing import Any

import polars as pl

from likewise.sources.chunk import Table
from likewise.sources.files import Source


def first_rows(source: Source, most: int) -> Table:
    """The first rows of a file, text that is all numbers as numbers."""
    tables: list[Any] = []
    count = 0
    for chunk in source.chunks({}, source.columns, most):
        tables.append(chunk.table[: most - count])
        count += len(tables[-1])
        if count >= most:
            break
    if not tables or isinstance(tables[0], list):
        return [row for table in tables for row in table]
    whole: pl.DataFrame = pl.concat(tables, how="vertical_relaxed")
    if source.format not in ("csv", "tsv"):
        return whole
    return whole.with_columns([_guessed(whole[name]) for name in whole.columns])


def _guessed(text: pl.Series) -> pl.Series:
    bare = text.str.strip_chars()
    known = text.len() - text.null_count()
    for kind in (pl.Int64, pl.Float64):
        numbers = bare.cast(kind, strict=False)
        if known and numbers.len() - numbers.null_count() == known:
            return numbers
    return text
