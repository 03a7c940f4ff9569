"""Cells of a CSV file that a spreadsheet takes for what they are.

A spreadsheet takes a cell that begins with =, +, -, @, a tab or a line's end for a formula, or for
more cells. Such a text gets a quotation mark (') before it, which makes it text; one that has such
a mark before such a character gets another, so that the text can still be told. A text that is a
number, such as -1.5, stays as it is.
"""

import re
from typing import Any

FORMULA = r"^(?:['\s]*[=+\-@＝＋－＠]|'*[\t\r\n])"
NUMBER = r"^[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?$"
_FORMULA, _NUMBER = re.compile(FORMULA), re.compile(NUMBER)


def escape_cell(value: Any) -> Any:
    """A value for a cell; text that looks like a formula is marked.

    >>> [cell_of(value) for value in ("=1+1", "-1.5", "p7", 3, None)]
    ["'=1+1", '-1.5', 'p7', 3, '']
    """
    if value is None:
        return ""
    if not isinstance(value, str):
        return value if isinstance(value, int | float) else escape_cell(str(value))
    plain = _FORMULA.match(value) is None or _NUMBER.fullmatch(value) is not None
    return value if plain else f"'{value}"
