"""What a column of text holds, for a first look at a file: numbers, if every value is one.

Audits do not guess (delimited.py says why); proposals do, and a person looks at what comes out.
"""

import polars as pl

from likewise.sources.chunk import Refused, Table, joined
from likewise.sources.delimited import rounded
from likewise.sources.files import Source


def first_rows(source: Source, most: int) -> tuple[Table, list[Refused]]:
    """The first rows of a file, text that is all numbers as numbers; and those it could not read.

    All rows have all columns: what a line of JSON leaves out is missing.
    """
    tables: list[Table] = []
    refused: list[Refused] = []
    count = 0
    for chunk in source.chunks({}, source.columns, most):
        tables.append(chunk.table[: most - count])
        refused += chunk.refused
        count += len(tables[-1])
        if count >= most:
            break
    whole = joined(tables)
    if isinstance(whole, list):
        names = dict.fromkeys([*source.columns, *(name for row in whole for name in row)])
        return [{name: row.get(name) for name in names} for row in whole], refused
    if source.format not in ("csv", "tsv"):
        return whole, refused
    return whole.with_columns([_guessed(whole[name]) for name in whole.columns]), refused


def _guessed(text: pl.Series) -> pl.Series:
    bare = text.str.strip_chars()
    known = text.len() - text.null_count()
    for kind in (pl.Int64, pl.Float64):
        numbers = bare.cast(kind, strict=False)
        if known and numbers.len() - numbers.null_count() == known:
            # Identifiers of many digits stay text, since other floats would be made of them.
            many_digits = kind == pl.Float64 and any(rounded(text, numbers))
            return text if many_digits else numbers
    return text
