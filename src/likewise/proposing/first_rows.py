"""Reads the first rows of a file for a proposal; text columns become numbers if all values are.

Audits do not guess types (sources/delimited.py says why); proposals do, and a person reads the
result. A column that is text only because of a few values gets a remark.
Not here: proposals for tables in memory, which need no Polars (proposal.py).
"""

from dataclasses import dataclass

import polars as pl

from likewise.errors import BadFile
from likewise.proposing.profile import SAMPLE_ROWS
from likewise.sources.file_source import DecisionFile
from likewise.sources.protocol import Chunk, RefusedRow, Table, join_chunks
from likewise.sources.remarks import Remark, find_missing_words
from likewise.sources.text_columns import (
    SAMPLE,
    TextColumns,
    find_rounded,
    parse_numbers,
    remark_on_words,
)


@dataclass(frozen=True)
class FileSample:
    """Holds the first rows of a file, and what to say about reading it."""

    name: str
    table: Table
    unreadable: str
    """What to say about rows that could not be read, if there are any."""
    remarks: tuple[Remark, ...]
    """Remarks on how the file was read."""


def read_sample(source: DecisionFile) -> FileSample:
    """Read the first rows of a file for a proposal; raise BadFile if it has none."""
    name = source.name
    table, refused = first_rows(source, SAMPLE_ROWS)
    first = f"{source.describe_place(refused[0].place)}: {refused[0].why}" if refused else ""
    if len(table) == 0:
        none = f"{name} has a header and no rows; a rule is proposed from values."
        raise BadFile(first or none, path=name)
    unreadable = f"{len(refused):,} rows could not be read. The first: {first}" if refused else ""
    return FileSample(name, table, unreadable, tuple(source.remarks))


def first_rows(source: DecisionFile, most: int) -> tuple[Table, list[RefusedRow]]:
    """Read the first rows of a file, with text that is all numbers as numbers; and rejected rows.

    All rows have all columns: what a line of JSON leaves out is missing.
    """
    parts: list[Chunk] = []
    refused: list[RefusedRow] = []
    count = 0
    for chunk in source.chunks({}, source.columns, most):
        parts.append(chunk[: most - count])
        refused += chunk.refused
        count += len(parts[-1])
        if count >= most:
            break
    whole = join_chunks(parts).table
    if isinstance(whole, list):
        names = dict.fromkeys([*source.columns, *(name for row in whole for name in row)])
        return [{name: row.get(name) for name in names} for row in whole], refused
    text = source.text
    if text is None:
        return whole, refused
    return whole.with_columns(
        [_guess_numbers(whole[name], text) for name in whole.columns]
    ), refused


def _guess_numbers(values: pl.Series, text: TextColumns) -> pl.Series:
    """Convert a column to numbers if all values are; else add a remark if it looks like numbers."""
    if values.dtype != pl.String:
        return values
    name, settled = values.name, text.get_column_reading(values.name)
    if settled.reading is None:
        text.remark(name, remark_on_words(name, settled, whole_too=True))
        text.words.add_kept_words(name, values)
        return values
    bare, numbers = parse_numbers(values, settled.reading)
    if numbers.null_count() > values.null_count() or numbers.is_nan().any():
        nothing = find_missing_words(values)
        unfit = numbers.is_null() & values.is_not_null() & ~nothing
        unfit = unfit & (values.str.strip_chars() != "")
        if unfit.any():
            text.remark(name, _remark_late_word(values, unfit))
            text.words.add_kept_words(name, values)
            return values
        if nothing.any():
            text.words.add_missing(name, values.filter(nothing))
            numbers = numbers.to_frame().select(pl.when(~nothing).then(pl.col(name))).to_series()
    whole = bare.str.strip_chars().cast(pl.Int64, strict=False)
    if whole.null_count() > numbers.null_count():
        many_digits = next(find_rounded(bare, numbers), None)
        if many_digits is not None:
            text.remark(name, _remark_long_number(values, many_digits))
            return values
    text.remark(name, settled.remark)
    return whole if whole.null_count() == numbers.null_count() else numbers


def _remark_late_word(values: pl.Series, unfit: pl.Series) -> Remark:
    count = int(unfit.sum())
    return Remark(
        f"the first {SAMPLE:,} values are numbers, and all are read as words, since {count:,} of"
        f" {len(values):,} {'is' if count == 1 else 'are'} none",
        values.name,
        values.filter(unfit)[0],
        count,
        "If it means a missing value, name it with --missing; else correct it",
    )


def _remark_long_number(values: pl.Series, at: int) -> Remark:
    """Remark that numbers of many digits stay text, since float64 would change them."""
    return Remark(
        "whole numbers of many digits are read as words, since float64 would round them",
        values.name,
        values[at],
    )
