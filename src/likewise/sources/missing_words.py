"""Words for a missing value: NA, N/A, NaN, null, k.A., ? and similar ones.

In a column of numbers, or of true and false, such a word is missing, and is counted. In a column of
words it may be a value (NA is Namibia, "none" a kind of collateral): there it stays a word until
the caller lists it with --missing, and is counted as well.
Not here: the empty field, which is missing everywhere.
"""

from collections import Counter

import polars as pl

from likewise.sources.remarks import Remark

_WORDS = (
    "NA", "N/A", "#N/A", "#NA", "<NA>", "NaN", "NaT", "null", "(null)", "nil", "none", "missing",
    "n.a.", "n. a.", "k.A.", "k. A.", "-", "--", "–", "—", "?", "??",
)  # fmt: skip
_ORDINARY = ("none", "nil")  # ordinary words, too
_ALL = {form for word in _WORDS for form in (word, word.lower(), word.upper(), word.capitalize())}
_IN_WORDS = pl.Series(sorted(word for word in _ALL if word.lower() not in _ORDINARY))
_IN_NUMBERS = pl.Series(sorted(_ALL))


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
