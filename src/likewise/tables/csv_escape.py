"""Escapes cells of a CSV file, so that no spreadsheet takes a text for a formula.

A spreadsheet reads a cell that begins with =, +, -, @, a tab or a line break as a formula, or as
several cells. Such a text gets a leading quotation mark ('); a text that already has one gets
another, so that the original can be recovered. A text that is a number, such as -1.5, stays.
"""

import re
from typing import Any

FORMULA = r"^(?:['\s]*[=+\-@＝＋－＠]|'*[\t\r\n])"
NUMBER = r"^[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?$"
_FORMULA, _NUMBER = re.compile(FORMULA), re.compile(NUMBER)


def escape_cell(value: Any) -> Any:
    """Return the value of a cell; text that looks like a formula gets a quotation mark.

    >>> [escape_cell(value) for value in ("=1+1", "-1.5", "p7", 3, None)]
    ["'=1+1", '-1.5', 'p7', 3, '']
    """
    if value is None:
        return ""
    if not isinstance(value, str):
        return value if isinstance(value, int | float) else escape_cell(str(value))
    plain = _FORMULA.match(value) is None or _NUMBER.fullmatch(value) is not None
    return value if plain else f"'{value}"
