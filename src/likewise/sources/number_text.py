"""Reads numbers as people write them: 1.234,56 and 1,234.56 and 1 234,56 €, (12.5) and 12,5 %.

`examine` finds the decimal signs that a column's first values allow; `settle_columns` decides for
all columns together, since "1,234" alone allows both and another column may show which is used.
Invariant: a reading turns a text into the number that is written, or into null; one with another
grouping (1,23) does not fit. A percent sign is dropped: 12,5 % is 12.5.
Cost: one match for each different value; a column of plain numbers costs one cast.
"""

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

import polars as pl

from likewise.sources.remarks import Remark, shorten

Decimal: TypeAlias = Literal[".", ","]
DECIMALS: tuple[Decimal, ...] = (".", ",")
_SPACES = "[ \u00a0\u2009\u202f]"
_GROUPS = {",": ",", ".": r"\.", " ": _SPACES, "'": "['’]"}
_CURRENCY_SIGNS = {
    "€": "EUR", "Euro": "EUR", "$": "USD", "US$": "USD", "£": "GBP", "¥": "JPY", "₹": "INR",
    "Fr.": "CHF", "zł": "PLN", "Kč": "CZK",
}  # fmt: skip
_CODES = (
    "EUR", "USD", "GBP", "CHF", "JPY", "CNY", "INR", "CAD", "AUD", "NZD", "SEK", "NOK", "DKK",
    "PLN", "CZK", "HUF", "BRL", "MXN", "ZAR", "TRY",
)  # fmt: skip
_CURRENCY = "|".join(map(re.escape, sorted([*_CURRENCY_SIGNS, *_CODES], key=len, reverse=True)))
_LOOKED_AT = 200  # values of a column of words, after which it is known to be one
_NAMES = {".": "point", ",": "comma"}
_GROUP_NAMES = {",": "commas", ".": "dots", " ": "spaces", "'": "apostrophes"}


def _pattern(decimal: str, group: str) -> str:
    """Return a pattern for bracket, sign, currency, sign, number, percent, and so on.

    The regular expressions of Polars know no look-ahead, so callers check what belongs together.
    """
    grouped = f"[1-9][0-9]{{0,2}}(?:{group}[0-9]{{3}})+|" if group else ""
    point = re.escape(decimal)
    number = f"(?:(?:{grouped}[0-9]+)(?:{point}[0-9]+)?|{point}[0-9]+)(?:[eE][-+]?[0-9]+)?"
    before = rf"(\()?([-+])?\s*({_CURRENCY})?\s*([-+])?\s*"
    return rf"^{before}({number})\s*(%)?\s*({_CURRENCY})?\s*(-)?(\))?$"


def _every_group(decimal: Decimal) -> str:
    signs = "".join(sign for sign in (",", r"\.") if sign != _GROUPS.get(decimal))
    return f"(?:[{signs}'’]|{_SPACES})"


_ANY_NUMBER = {
    decimal: re.compile(_pattern(decimal, _every_group(decimal))) for decimal in DECIMALS
}


@dataclass(frozen=True, slots=True)
class NumberReading:
    """Says how the numbers of a column are written, and reads them."""

    decimal: Decimal = "."
    group: str = ""
    """What separates thousands: a comma, a dot, a space, an apostrophe or nothing."""
    currency: str = ""
    percent: bool = False
    signs: bool = False
    """Whether a minus may follow the number, or brackets enclose it."""

    @property
    def is_plain(self) -> bool:
        """Whether numbers are written as programs write them."""
        return self == NumberReading()

    @property
    def description(self) -> str:
        """What is special about it."""
        parts = [f"a decimal {_NAMES[self.decimal]}"] if self.decimal == "," else []
        parts += [f"{_GROUP_NAMES[self.group]} between thousands"] if self.group else []
        parts += [f"{self.currency} left out"] if self.currency else []
        parts += ["the percent sign left out (12 % is 12)"] if self.percent else []
        parts += ["brackets or a minus at the end for less than zero"] if self.signs else []
        return ", ".join(parts)

    def normalize(self, text: pl.Series) -> pl.Series:
        """Rewrite numbers as programs write them; null where the text does not fit."""
        pattern = _pattern(self.decimal, _GROUPS.get(self.group, ""))
        parts = text.str.strip_chars().str.extract_groups(pattern).struct.unnest()
        opened, first, before, second, number, percent, after, last, closed = parts.get_columns()
        signs = sum(one.is_not_null().cast(pl.Int8) for one in (opened, first, second, last))
        fits = (
            number.is_not_null()
            & (opened.is_not_null() == closed.is_not_null())
            & (signs <= 1)
            & ~(before.is_not_null() & after.is_not_null())
            & (percent.is_not_null() == self.percent)
        )
        for currency in (before, after):
            named = currency.replace(_CURRENCY_SIGNS)
            fits = fits & (named.is_null() | (named == self.currency))
        if not self.signs:
            fits = fits & opened.is_null() & last.is_null()
        if self.group:
            number = number.str.replace_all(_GROUPS[self.group], "")
        number = number.str.replace(",", ".", literal=True) if self.decimal == "," else number
        less = opened.is_not_null() | last.is_not_null()
        less = less | (first == "-").fill_null(False) | (second == "-").fill_null(False)
        frame = pl.DataFrame({"fits": fits, "less": less, "number": number})
        sign = pl.when("less").then(pl.lit("-")).otherwise(pl.lit(""))
        fitting = pl.when(pl.col("fits").fill_null(False)).then(sign + pl.col("number"))
        return frame.select(fitting).to_series().alias(text.name)


PLAIN = NumberReading()


@dataclass(frozen=True, slots=True)
class Examination:
    """Says which readings the first values of a column allow."""

    readings: tuple[NumberReading, ...] = ()
    """The readings that fit all values: none, one, or two that make different numbers of them."""
    is_plain: bool = False
    """Whether all are numbers as programs write them."""
    shown_decimal: Decimal | None = None
    """The decimal sign that the column shows beyond doubt."""
    example: str | None = None
    values: int = 0
    """How many values were examined."""
    fitting: int = 0
    """How many of them are numbers, however they are written."""
    misfit: str | None = None
    """A value that is not a number."""


@dataclass(frozen=True, slots=True)
class ColumnReading:
    """Says how a column is read if it holds numbers."""

    reading: NumberReading | None
    """None: its values fit no reading, or two."""
    remark: Remark | None = None
    examined: Examination = Examination()

    @property
    def is_ambiguous(self) -> bool:
        return self.reading is None and len(self.examined.readings) > 1


def examine(text: pl.Series, decimal: Decimal | None = None) -> Examination:
    """Find the readings that the first values of a column allow.

    text     its values, without those that are missing
    decimal  the decimal sign, if the caller says it
    """
    if decimal != "," and len(text) and text.cast(pl.Float64, strict=False).null_count() == 0:
        dotted = text.str.contains(".", literal=True)
        if not dotted.any() or not text.filter(dotted).str.contains(_THOUSANDS).all():
            shown: Decimal | None = "." if dotted.any() else None
            return Examination((PLAIN,), True, shown, text[0], len(text), len(text))
    bare = text.str.strip_chars()
    bare = bare.filter(bare.str.len_bytes() > 0)
    if len(bare) == 0:
        return Examination()
    different = bare.unique(maintain_order=True)
    is_plain = different.cast(pl.Float64, strict=False).null_count() == 0
    return _examine_values(dict(Counter(bare.to_list())), is_plain, decimal)


_THOUSANDS = r"^[-+]?[1-9][0-9]{0,2}(?:\.[0-9]{3})+$"


def _examine_values(counts: dict[str, int], is_plain: bool, decimal: Decimal | None) -> Examination:
    signs = DECIMALS if decimal is None else (decimal,)
    matches: dict[Decimal, list[re.Match[str] | None]] = {sign: [] for sign in signs}
    values = fitting = 0
    misfit = None
    for at, (value, count) in enumerate(counts.items()):
        by_sign = {sign: _check_match(_ANY_NUMBER[sign].match(value)) for sign in signs}
        for sign, match in by_sign.items():
            matches[sign].append(match)
        values += count
        if any(by_sign.values()):
            fitting += count
        elif misfit is None:
            misfit = value
        if at == _LOOKED_AT and fitting < values / 2:
            return Examination((), False, None, value, values, fitting, misfit)
    readings = [_find_reading(sign, column) for sign, column in matches.items() if all(column)]
    fit = [reading for reading in readings if reading is not None]
    if not any("," in value or "." in value for value in counts):
        fit = fit[:1]  # both signs make the same numbers of them
    if is_plain and decimal is None:
        fit = [PLAIN, *(reading for reading in fit if reading.decimal == ",")]
    shown: Decimal | None = None
    if len(fit) == 1 and (
        fit[0].group in (",", ".") or any(fit[0].decimal in value for value in counts)
    ):
        shown = fit[0].decimal
    example = next((value for value in counts if not value.isdigit()), next(iter(counts)))
    return Examination(tuple(fit), is_plain, shown, example, values, fitting, misfit)


def _check_match(match: re.Match[str] | None) -> re.Match[str] | None:
    """Return a match whose brackets close and which has one sign and one currency; else None."""
    if match is None or (match[1] is None) != (match[9] is None) or (match[3] and match[7]):
        return None
    return match if sum(match[at] is not None for at in (1, 2, 4, 8)) <= 1 else None


def _find_reading(decimal: Decimal, matches: list[re.Match[str] | None]) -> NumberReading | None:
    """Return the reading of all matches; None where they differ in more than their digits."""
    present = [match for match in matches if match is not None]
    groups = {
        _normalize_group(sign)
        for match in present
        for sign in match[5]
        if not _is_digit(sign, decimal)
    }
    currencies = {
        _CURRENCY_SIGNS.get(name, name) for match in present for name in match.group(3, 7) if name
    }
    percents = {match[6] is not None for match in present}
    if len(groups) > 1 or len(currencies) > 1 or len(percents) > 1:
        return None
    signs = any(match[1] or match[8] for match in present)
    return NumberReading(
        decimal, "".join(groups), "".join(currencies), percents == {True}, bool(signs)
    )


def _is_digit(sign: str, decimal: str) -> bool:
    return sign.isdigit() or sign == decimal or sign in "eE+-"


def _normalize_group(sign: str) -> str:
    return "'" if sign in "'’" else sign if sign in ",." else " "


def looks_like_number(text: str) -> bool:
    """Tell whether a text is a number, however it is written."""
    text = text.strip()
    return any(_check_match(pattern.match(text)) for pattern in _ANY_NUMBER.values())


def settle_columns(columns: Mapping[str, Examination]) -> dict[str, ColumnReading]:
    """Decide how each column is read; one with two readings follows what others show."""
    shown = {name: one.shown_decimal for name, one in columns.items() if one.shown_decimal}
    signs = set(shown.values())
    (sign,) = signs if len(signs) == 1 else (None,)
    example = next(iter(shown), "")
    return {name: _settle_column(name, one, sign, example) for name, one in columns.items()}


def _settle_column(
    name: str, column: Examination, sign: Decimal | None, example_column: str
) -> ColumnReading:
    if len(column.readings) == 1:
        (reading,) = column.readings
        return ColumnReading(reading, _reading_remark(name, column, reading), column)
    if not column.readings:
        return ColumnReading(None, None, column)
    by_sign = {reading.decimal: reading for reading in column.readings}
    example = shorten(column.example or "")
    if sign is not None:
        chosen = by_sign[sign]
        why = f", since column {shorten(example_column)} has a decimal {_NAMES[sign]}"
        other = f"If that is not meant, say --decimal {'point' if sign == ',' else 'comma'}"
        words = chosen.description or f"a decimal {_NAMES[sign]}"
        remark = Remark(
            f"numbers are read with {words}{why}", name, column.example, column.values, other
        )
        return ColumnReading(chosen, remark, column)
    if column.is_plain:
        remark = Remark(
            "every number with a dot has three digits behind it, and is read with a decimal point",
            name,
            column.example,
            column.values,
            "If the dots stand between thousands, say --decimal comma",
        )
        return ColumnReading(PLAIN, remark, column)
    comma = "," in (column.example or "")
    either = "a decimal comma or a comma" if comma else "a decimal point or a dot"
    what = f"{example} may be {either} between thousands"
    do = "Say --decimal comma or --decimal point"
    return ColumnReading(None, Remark(what, name, None, column.values, do), column)


def _reading_remark(name: str, column: Examination, reading: NumberReading) -> Remark | None:
    if not reading.description or (column.is_plain and column.shown_decimal is None):
        return None
    do = f"If that is not meant, say --decimal {'point' if reading.decimal == ',' else 'comma'}"
    do = "" if column.shown_decimal is None else do
    what = f"numbers are read with {reading.description}"
    return Remark(what, name, column.example, column.values, do)
