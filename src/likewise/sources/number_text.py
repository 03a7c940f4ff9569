"""Numbers as people write them: 1.234,56 and 1,234.56 and 1 234,56 €, (12.5) and 12,5 %.

A column is read in one way or not at all. `examine` looks at the column's first values and finds
which decimal sign all of them allow; `settle` decides for all columns of a file together, because
"1,234" alone can be read with either sign, and another column may tell which one the file uses.

Invariant: a reading turns a text into the number that is written, or into nothing. A text that is
grouped otherwise (1,23) fits no reading with that group. A percent sign is dropped and the number
kept: 12,5 % is 12.5.
Cost: for `examine`, one look at each different value; a column of plain numbers costs one cast.
Not here: which columns are numbers. A rule says that, or value_types.py proposes it.
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
    """Text without spaces around it: bracket, sign, currency, sign, number, percent, and so on.

    The regular expressions of Polars know no look-ahead, so `_fits` checks what belongs together.
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
    """How the numbers of a column are written."""

    decimal: Decimal = "."
    group: str = ""
    """What stands between thousands: a comma, a dot, a space, an apostrophe or nothing."""
    currency: str = ""
    percent: bool = False
    signs: bool = False
    """Whether a minus may stand behind, or brackets around."""

    @property
    def is_plain(self) -> bool:
        """Whether it is what every program writes."""
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
        """The same numbers as every program writes them; null where the text does not fit."""
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
        made = frame.select(pl.when(pl.col("fits").fill_null(False)).then(sign + pl.col("number")))
        return made.to_series().alias(text.name)


PLAIN = NumberReading()


@dataclass(frozen=True, slots=True)
class Examination:
    """What the first values of a column allow."""

    readings: tuple[NumberReading, ...] = ()
    """That fit all of them: none, one, or two that make different numbers of them."""
    is_plain: bool = False
    """Whether all are numbers as every program writes them."""
    shown_decimal: Decimal | None = None
    """The decimal sign that the column shows beyond doubt."""
    example: str | None = None
    values: int = 0
    """How many were looked at."""
    fitting: int = 0
    """How many of them are numbers, in whatever way."""
    misfit: str | None = None
    """One that is none."""


@dataclass(frozen=True, slots=True)
class ColumnReading:
    """How a column is read if it holds numbers."""

    reading: NumberReading | None
    """None: its values fit no reading, or two."""
    remark: Remark | None = None
    examined: Examination = Examination()

    @property
    def is_ambiguous(self) -> bool:
        return self.reading is None and len(self.examined.readings) > 1


def examine(text: pl.Series, decimal: Decimal | None = None) -> Examination:
    """What the first values of a column allow.

    text     its values, without those that are missing
    decimal  the sign that the caller insists on
    """
    if decimal != "," and len(text) and text.cast(pl.Float64, strict=False).null_count() == 0:
        dotted = text.str.contains(".", literal=True)
        if not dotted.any() or not text.filter(dotted).str.contains(_THOUSANDS).all():
            tells: Decimal | None = "." if dotted.any() else None
            return Examination((PLAIN,), True, tells, text[0], len(text), len(text))
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
        found = {sign: _check_match(_ANY_NUMBER[sign].match(value)) for sign in signs}
        for sign, match in found.items():
            matches[sign].append(match)
        values += count
        if any(found.values()):
            fitting += count
        elif misfit is None:
            misfit = value
        if at == _LOOKED_AT and fitting < values / 2:
            return Examination((), False, None, value, values, fitting, misfit)
    readings = [_find_reading(sign, one) for sign, one in matches.items() if all(one)]
    fit = [reading for reading in readings if reading is not None]
    if not any("," in value or "." in value for value in counts):
        fit = fit[:1]  # both signs make the same numbers of them
    if is_plain and decimal is None:
        fit = [PLAIN, *(one for one in fit if one.decimal == ",")]
    tells: Decimal | None = None
    if len(fit) == 1 and (
        fit[0].group in (",", ".") or any(fit[0].decimal in value for value in counts)
    ):
        tells = fit[0].decimal
    example = next((value for value in counts if not value.isdigit()), next(iter(counts)))
    return Examination(tuple(fit), is_plain, tells, example, values, fitting, misfit)


def _check_match(match: re.Match[str] | None) -> re.Match[str] | None:
    """The match, if what belongs together is there together."""
    if match is None or (match[1] is None) != (match[9] is None) or (match[3] and match[7]):
        return None
    return match if sum(match[at] is not None for at in (1, 2, 4, 8)) <= 1 else None


def _find_reading(decimal: Decimal, matches: list[re.Match[str] | None]) -> NumberReading | None:
    """The one reading that fits all of these; None where they differ in more than their digits."""
    there = [match for match in matches if match is not None]
    groups = {
        _normalize_group(sign)
        for match in there
        for sign in match[5]
        if not _is_digit(sign, decimal)
    }
    currencies = {
        _CURRENCY_SIGNS.get(one, one) for match in there for one in (match[3], match[7]) if one
    }
    percents = {match[6] is not None for match in there}
    if len(groups) > 1 or len(currencies) > 1 or len(percents) > 1:
        return None
    signs = any(match[1] or match[8] for match in there)
    return NumberReading(
        decimal, "".join(groups), "".join(currencies), percents == {True}, bool(signs)
    )


def _is_digit(sign: str, decimal: str) -> bool:
    return sign.isdigit() or sign == decimal or sign in "eE+-"


def _normalize_group(sign: str) -> str:
    return "'" if sign in "'’" else sign if sign in ",." else " "


def looks_like_number(text: str) -> bool:
    """Whether a text is a number, in whatever way it is written."""
    text = text.strip()
    return any(_check_match(pattern.match(text)) for pattern in _ANY_NUMBER.values())


def settle_columns(columns: Mapping[str, Examination]) -> dict[str, ColumnReading]:
    """How each column is read; one that allows two readings follows what the others tell."""
    told = {one.shown_decimal for one in columns.values() if one.shown_decimal is not None}
    (sign,) = told if len(told) == 1 else (None,)
    teller = next((name for name, one in columns.items() if one.shown_decimal is not None), "")
    return {name: _settle_column(name, one, sign, teller) for name, one in columns.items()}


def _settle_column(
    name: str, column: Examination, sign: Decimal | None, teller: str
) -> ColumnReading:
    if len(column.readings) == 1:
        return ColumnReading(
            column.readings[0], _reading_remark(name, column, column.readings[0]), column
        )
    if not column.readings:
        return ColumnReading(None, None, column)
    by_sign = {reading.decimal: reading for reading in column.readings}
    example = shorten(column.example or "")
    if sign is not None:
        chosen = by_sign[sign]
        why = f", since column {shorten(teller)} has a decimal {_NAMES[sign]}"
        other = f"If that is not meant, say --decimal {'point' if sign == ',' else 'comma'}"
        words = chosen.description or f"a decimal {_NAMES[sign]}"
        remark = Remark(
            f"numbers are read with {words}{why}", name, column.example, column.values, other
        )
        return ColumnReading(chosen, remark, column)
    if column.is_plain:
        return ColumnReading(
            PLAIN,
            Remark(
                "every number with a dot has three digits behind it, and is read with a decimal"
                " point",
                name,
                column.example,
                column.values,
                "If the dots stand between thousands, say --decimal comma",
            ),
            column,
        )
    return ColumnReading(
        None,
        Remark(
            f"{example} may be a decimal comma or a comma between thousands"
            if "," in (column.example or "")
            else f"{example} may be a decimal point or a dot between thousands",
            name,
            None,
            column.values,
            "Say --decimal comma or --decimal point",
        ),
        column,
    )


def _reading_remark(name: str, column: Examination, reading: NumberReading) -> Remark | None:
    if not reading.description or (column.is_plain and column.shown_decimal is None):
        return None
    return Remark(
        f"numbers are read with {reading.description}",
        name,
        column.example,
        column.values,
        f"If that is not meant, say --decimal {'point' if reading.decimal == ',' else 'comma'}"
        if column.shown_decimal is not None
        else "",
    )
