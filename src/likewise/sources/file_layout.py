"""Detects the layout of a file: its delimiter, its header, and fields that are no columns.

The first LOOKED_AT records decide, and what was detected is remarked. The preferred delimiter stays
unless it makes no table, or one of fewer columns (a decimal comma), and another one does.
Invariant: `names` has one entry for each field of a record, None for those left out. A file that
seems to have no header, or has two columns of one name, is refused with its line.
Not here: records of another length, which are refused one by one (delimited.py).
"""

import csv
import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from likewise.errors import BadFile
from likewise.sources.byte_streams import RecordBlock
from likewise.sources.number_text import looks_like_number
from likewise.sources.remarks import Remark, is_missing_word, shorten

LOOKED_AT = 1_000
"""Records from which the layout is known."""
DELIMITERS = {",": "a comma", ";": "a semicolon", "\t": "a tab", "|": "a bar"}
_SEPARATOR = re.compile(rb"\"?sep=(.)\"?")  # as Excel writes it
_UNNAMED = re.compile(r"Unnamed: \d+")  # as pandas names an index
_SPACE = 32


@dataclass(frozen=True, slots=True)
class FileLayout:
    """Describes the records of a file."""

    delimiter: str
    names: tuple[str | None, ...]
    """The name of each field of a record; None where it is left out."""
    first: int
    """The record with which the decisions begin."""
    spaced: bool = False
    """Whether a space follows each delimiter, and is dropped."""
    empty: tuple[int, ...] = ()
    """Fields that are left out because they are always empty."""
    left_out: tuple[str, ...] = ()
    """Names of columns that count only if a rule names them."""
    remarks: tuple[Remark, ...] = ()

    @property
    def columns(self) -> list[str]:
        return [name for name in self.names if name is not None and name not in self.left_out]


def detect_layout(
    block: RecordBlock,
    *,
    source: str,
    preferred: str,
    delimiter: str | None = None,
    header: bool | None = None,
) -> FileLayout:
    """Detect the layout of a file that begins with this block; raise BadFile.

    preferred  what separates fields unless they show something else
    delimiter  what separates fields in any case
    header     whether the first record has names; None: detect it
    """
    remarks: list[Remark] = []
    separator = _SEPARATOR.fullmatch(block.record(0))
    start = 1 if separator and len(block) > 1 else 0
    sample = block.part(start, start + LOOKED_AT)
    if delimiter is None and separator and start:
        delimiter = separator[1].decode("latin-1")
    if delimiter is None:
        delimiter = _choose_delimiter(sample, preferred)
        if delimiter != preferred:
            what = DELIMITERS[delimiter]
            remarks.append(Remark(f"fields are separated by {what}", do="If not, say --delimiter"))
    spaced = is_spaced(sample, delimiter)
    if spaced:
        sample = without_spaces(sample, delimiter)
        remarks.append(Remark("the space behind each delimiter is left out"))
    where = f"line {int(sample.lines[0])}"
    layout = detect_layout_of_records(
        _split_records(sample, delimiter),
        source=source,
        where=where,
        header=header,
        split_at=delimiter,
    )
    return replace(
        layout,
        delimiter=delimiter,
        first=start + layout.first,
        spaced=spaced,
        remarks=(*remarks, *layout.remarks),
    )


def detect_layout_of_records(
    records: Sequence[Sequence[str]],
    *,
    source: str,
    where: str,
    header: bool | None = None,
    split_at: str = "",
) -> FileLayout:
    """Detect the layout of a table that begins with these records; raise BadFile.

    where  what messages call the place of the first record
    """
    if header is None and len(records) > 1:
        _check_header(records[0], records[1:], f"{source}, {where}")
    if header is False:
        count = len(records[0])
        names = tuple(f"column_{i + 1}" for i in range(count))
        remark = Remark(f"the columns are called column_1 to column_{count}, as there is no header")
        return FileLayout(split_at, names, 0, remarks=(remark,))
    return _layout_with_header(records[0], records[1:], f"{source}, {where}", split_at)


def _split_records(block: RecordBlock, delimiter: str) -> list[list[str]]:
    """Split each record; one that cannot be split has no fields."""
    records = []
    for record in block.records():
        text = record.decode(errors="replace")
        try:
            fields = next(csv.reader([text], delimiter=delimiter, strict=False), [])
        except csv.Error:  # a stray carriage return, or a field of many kilobytes
            fields = []
        records.append(fields)
    return records


# The delimiter


def _choose_delimiter(sample: RecordBlock, preferred: str) -> str:
    """Choose the preferred one, unless it makes no table, or a narrower one than another."""
    candidates = dict.fromkeys([preferred, *DELIMITERS])
    counts = {candidate: sample.fields(candidate.encode()) for candidate in candidates}
    tables = {
        candidate: int(fields[0])
        for candidate, fields in counts.items()
        if fields[0] > 1 and _have_equal_fields(fields)
    }
    most = max(tables, key=lambda candidate: tables[candidate], default=preferred)
    if preferred in tables:
        fields = counts[most]
        return most if len(fields) > 1 and bool((fields == fields[0]).all()) else preferred
    if tables:
        return most
    if counts[preferred][0] > 1:
        return preferred
    return max(counts, key=lambda candidate: int(counts[candidate][0]))


def _have_equal_fields(fields: "np.ndarray[tuple[int], np.dtype[np.int64]]") -> bool:
    """Tell whether nearly all records have as many fields as the header, or one more."""
    if len(fields) == 1:
        return True
    rest = fields[1:]
    return max(int((rest == fields[0] + more).sum()) for more in (0, 1)) > 0.8 * len(rest)


def is_spaced(block: RecordBlock, delimiter: str) -> bool:
    """Tell whether a space follows every delimiter."""
    if delimiter == " ":
        return False
    at = block.delimiters(delimiter.encode())
    data = np.frombuffer(block.data, np.uint8)
    return len(at) > 0 and bool((data[np.minimum(at + 1, len(data) - 1)] == _SPACE).all())


def without_spaces(block: RecordBlock, delimiter: str) -> RecordBlock:
    """Drop the space behind each delimiter."""
    at = block.delimiters(delimiter.encode()) + 1
    data = np.frombuffer(block.data, np.uint8)
    at = at[data[np.minimum(at, len(data) - 1)] == _SPACE]
    if len(at) == 0:
        return block
    keep = np.ones(len(data), dtype=np.bool_)
    keep[at] = False
    sizes = np.add.reduceat(keep, block.starts, dtype=np.int64)
    return block.with_data(data[keep].tobytes(), sizes)


# The header


def _check_header(header: Sequence[str], rest: Sequence[Sequence[str]], place: str) -> None:
    """Raise BadFile if the first record seems to be a decision.

    It does if it has a number wherever all values below are numbers (unless they count up, as the
    names of columns may: 0, 1, 2 or 2019, 2020), or if half of its words are repeated below.
    """
    if all(_has_letters(name) for name in header):
        numbers_below = any(looks_like_number(value) for value in rest[0])
        if numbers_below or not any(header[0] == record[0] for record in rest if record):
            return  # the usual case, at little cost
    whole = [record for record in rest if len(record) == len(header)]
    columns = list(zip(*whole, strict=True))
    numeric = [i for i, column in enumerate(columns) if _are_numbers(column)]
    numbers = [header[i] for i in numeric if looks_like_number(header[i])]
    words = [i for i in range(len(columns)) if i not in numeric]
    repeated = [i for i in words if header[i].strip() and header[i] in columns[i]]
    unique = all(len(set(columns[i])) == len(columns[i]) for i in words)
    by_numbers = (
        bool(numeric)
        and len(numbers) == len(numeric)
        and not _are_consecutive(numbers)
        and (bool(repeated) or unique)
    )
    by_words = not numeric and 2 * len(repeated) > len(words)
    if not by_numbers and not by_words:
        return
    shown = ", ".join(map(shorten, (numbers or [header[i] for i in repeated])[:3]))
    below = "numbers too" if numbers else "the same words"
    raise BadFile(
        f"{place}: the file seems to have no header: {shown}"
        f" {'stand' if ',' in shown else 'stands'} where names of columns are expected, and the"
        f" lines below have {below}. If so, say --no-header (the columns are then called column_1,"
        f" column_2, …) or write names on a line above; if these are names, say --header."
    )


def _are_numbers(values: Sequence[str]) -> bool:
    present = [value for value in values if value.strip() and not is_missing_word(value)]
    return bool(present) and all(map(looks_like_number, present))


def _has_letters(name: str) -> bool:
    return any(letter.isalpha() for letter in name) and not looks_like_number(name)


def _are_consecutive(numbers: Sequence[str]) -> bool:
    """Tell whether these are whole numbers that follow one another."""
    if not all(number.strip().isdigit() for number in numbers):
        return False
    return len(numbers) > 1 and all(b - a == 1 for a, b in itertools.pairwise(map(int, numbers)))


def _layout_with_header(
    header: Sequence[str], rest: Sequence[Sequence[str]], place: str, split_at: str
) -> FileLayout:
    remarks: list[Remark] = []
    names: list[str | None] = [*header]
    left_out: list[str] = []
    empty: list[int] = []
    wider = bool(rest) and all(len(record) == len(header) + 1 for record in rest)
    if wider and all(not record[-1].strip() for record in rest):
        names.append("")
    elif wider and _is_index([record[0] for record in rest]):
        names.insert(0, "")
    whole = [record for record in rest if len(record) == len(names)]
    for at in reversed(range(1, len(names))):
        if not whole or (names[at] or "").strip() or any(record[at].strip() for record in whole):
            break
        empty.append(at)
        names[at] = None
    if empty:
        what = "a delimiter" if len(empty) == 1 else f"{len(empty)} delimiters"
        remarks.append(Remark(f"{what} at the end of every line makes no column"))
    index = names[0] is not None and (not names[0].strip() or _UNNAMED.fullmatch(names[0]))
    if index and len(names) > 1 and _is_index([record[0] for record in whole]):
        unnamed = not (names[0] or "").strip()
        remarks.append(
            Remark(
                "the first column counts the lines: it is an index and is left out",
                None if unnamed else names[0],
                whole[0][0],
                None,
                "" if unnamed else "To have it read, name it in the rule",
            )
        )
        if unnamed:
            names[0] = None
        else:
            left_out.append(names[0] or "")
    _check_names(names, place, split_at)
    return FileLayout(
        split_at,
        tuple(names),
        1,
        empty=tuple(empty),
        left_out=tuple(left_out),
        remarks=tuple(remarks),
    )


def _is_index(values: Sequence[str]) -> bool:
    """Tell whether these count up from 0 or 1."""
    if not values or values[0] not in ("0", "1"):
        return False
    return list(values) == [str(i) for i in range(int(values[0]), int(values[0]) + len(values))]


def _check_names(names: Sequence[str | None], place: str, split_at: str) -> None:
    mine = DELIMITERS.get(split_at, repr(split_at))
    only = names[0] if len(names) == 1 else None
    for other, word in DELIMITERS.items():
        if only is not None and split_at and other != split_at and other in only:
            raise BadFile(
                f"{place}: the header is one column, {shorten(only)}. It is"
                f" split at {mine}, and it seems {word} is meant: say --delimiter"
                f" {'tab' if other == chr(9) else repr(other)}."
            )
    for at, column in enumerate(names):
        if column is None:
            continue
        if not column.strip():
            raise BadFile(f"{place}: column {at + 1} of the header has no name; give it one.")
        if column in names[:at]:
            raise BadFile(
                f"{place}: two columns are called {column!r}, columns"
                f" {names.index(column) + 1} and {at + 1}; rename one of them."
            )
