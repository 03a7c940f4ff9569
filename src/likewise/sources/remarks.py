"""Remarks say what a reader noticed in a file, such as words where numbers seem to be meant.

A source collects remarks while it reads (`source.remarks`); a command shows them once, on standard
error and as "remarks" in JSON.
Invariant: a remark is frozen, and everything that is read differently from its text has one.
"""

from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any

import polars as pl

_SHOWN = 40


@dataclass(frozen=True, slots=True)
class Remark:
    """Says one thing that was noticed in a file."""

    what: str
    """What was noticed, or how the column is read."""
    column: str | None = None
    """The column it is about; None: the whole file."""
    example: str | None = None
    """A value as it stands in the file."""
    count: int | None = None
    """How many of the values read so far it is about."""
    do: str = ""
    """What to do if that is wrong."""

    def __str__(self) -> str:
        about = "" if self.column is None else f"column {shorten(self.column)}: "
        facts = [] if self.example is None else [f"such as {shorten(self.example)}"]
        facts += [] if self.count is None else [f"{self.count:,} value{'s' * (self.count != 1)}"]
        brackets = f" ({', '.join(facts)})" if facts else ""
        return f"{about}{self.what}{brackets}.{f' {self.do}.' if self.do else ''}"

    def to_dict(self) -> dict[str, Any]:
        """Return the fields, for JSON."""
        return asdict(self)


def shorten(value: str, most: int = _SHOWN) -> str:
    """Quote a name or a value, shortened to `most` characters."""
    return repr(value if len(value) <= most else value[: most - 1] + "…")


_WORDS = (
    "NA", "N/A", "#N/A", "#NA", "<NA>", "NaN", "NaT", "null", "(null)", "nil", "none", "missing",
    "n.a.", "n. a.", "k.A.", "k. A.", "-", "--", "–", "—", "?", "??",
)  # fmt: skip
_ORDINARY = ("none", "nil")  # ordinary words, too
_ALL = {form for word in _WORDS for form in (word, word.lower(), word.upper(), word.capitalize())}
_IN_WORDS = pl.Series(sorted(word for word in _ALL if word.lower() not in _ORDINARY))
_IN_NUMBERS = pl.Series(sorted(_ALL))


# Words for a missing value: NA, N/A, NaN, null, k.A., ? and similar ones. In a column of numbers,
# or of true and false, such a word is missing, and is counted. In a column of words it may be a
# value (NA is Namibia, "none" a kind of collateral): there it stays a word until the caller lists
# it with --missing, and is counted as well.
# Not here: the empty field, which is missing everywhere.


def find_missing_words(text: pl.Series) -> pl.Series:
    """Say where a column of numbers or flags has a word for a missing value."""
    return text.str.strip_chars().is_in(_IN_NUMBERS.implode()).fill_null(False)


def is_missing_word(text: str) -> bool:
    """Tell whether a text means a missing value in a column of numbers."""
    return text.strip() in _ALL


class MissingWords:
    """Counts words for missing values, by column."""

    def __init__(self) -> None:
        self._missing: dict[str, Counter[str]] = {}
        self._kept_words: dict[str, Counter[str]] = {}

    def add_missing(self, column: str, words: pl.Series) -> None:
        """Count words that were taken as missing."""
        self._missing.setdefault(column, Counter()).update(words.str.strip_chars().to_list())

    def add_kept_words(self, column: str, text: pl.Series) -> None:
        """Count the words of a column that stay words, but may mean a missing value."""
        words = text.filter(text.is_in(_IN_WORDS.implode()).fill_null(False))
        if len(words):
            self._kept_words.setdefault(column, Counter()).update(words.to_list())

    @property
    def remarks(self) -> tuple[Remark, ...]:
        """A remark for each column with such words."""
        missing = [
            Remark(
                f"{_list_words(words)} {'stands' if len(words) == 1 else 'stand'} among numbers and"
                f" {'is' if len(words) == 1 else 'are'} taken as missing",
                column,
                None,
                words.total(),
            )
            for column, words in self._missing.items()
        ]
        kept_words = [
            Remark(
                f"{_list_words(words)} stays a word like any other",
                column,
                None,
                words.total(),
                f"If it means that nothing is known, say --missing {words.most_common(1)[0][0]!r}",
            )
            for column, words in self._kept_words.items()
        ]
        return (*missing, *kept_words)


def _list_words(words: Counter[str]) -> str:
    return ", ".join(repr(word) for word, _ in words.most_common(5))
