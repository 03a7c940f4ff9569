"""A first rule for a table, to be edited by someone who knows what the columns mean.

A column of text is a category, one of two or three different numbers too; a number gets a
tolerance of a tenth of its usual spread, rounded to a plain figure; a column of text that never
repeats, or an integer column that never repeats and is called like an identifier, is the key. What
cannot be compared (lists, whole numbers that float64 rounds) is ignored. Which columns are
protected only the analyst knows.

Cost: one look at every value.
"""

import math
import re
from collections.abc import Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np

from likewise.rules.feature import TOLERANCES, Feature, Missing
from likewise.values.errors import BadRule
from likewise.values.frames import Column, is_missing, numbers_of, table_columns, values_of
from likewise.values.plain import is_rounded

if TYPE_CHECKING:
    from likewise.rules.rule import Output

_FEW = 3  # different numbers that are rather codes of categories
_SPREAD = 0.1  # of the range between the 10th and the 90th hundredth
_KEY = re.compile(r"(^|[_\W])(id|key|uuid|guid)$|^(id|key|uuid|guid)([_\W]|$)", re.IGNORECASE)


def propose(
    table: Any, output: str | Sequence[str], protected: Sequence[str]
) -> tuple[dict[str, Feature], "Output"]:
    """Features for a table's columns, and what kind of output it has."""
    columns = table_columns(table)
    protected = [protected] if isinstance(protected, str) else list(protected)
    outputs = [output] if isinstance(output, str) else list(output)
    for name in (*outputs, *protected):
        if name not in columns:
            raise BadRule(
                f"there is no column {name!r}; the table has {', '.join(map(repr, columns))}"
            )
    for name in (*outputs, *protected):
        if not comparable(columns[name]):
            raise BadRule(
                f"the column {name!r} holds values such as lists; expected numbers, text or the"
                " like, since a list can neither be an output nor protected"
            )
    features = {
        name: _feature(name, column, name in protected)
        for name, column in columns.items()
        if name not in outputs
    }
    keys = [name for name, feature in features.items() if feature.kind == "key"]
    for name in keys[1:]:
        features[name] = Feature("ignore")
    return features, _output(outputs, columns)


def _output(outputs: list[str], columns: dict[str, Column]) -> "Output":
    if len(outputs) > 1:
        return "probabilities"
    values = {value for value in values_of(columns[outputs[0]]) if not is_missing(value)}
    fractions = any(isinstance(value, float) and not value.is_integer() for value in values)
    return "number" if fractions else "label"


def _feature(name: str, column: Column, protected: bool) -> Feature:
    values = values_of(column)
    there = [value for value in values if not is_missing(value)]
    missing: Missing = "mismatch" if len(there) < len(values) else "reject"
    if protected:
        return Feature("protected", missing=missing)
    if not there or not comparable(column):
        return Feature("ignore")
    different = set(there)
    unique = len(different) == len(there) == len(values) > _FEW
    numeric = all(
        isinstance(one, int | float | Decimal) and not isinstance(one, bool) for one in different
    )
    if unique and (not numeric or (_KEY.search(name) and all(map(_whole, different)))):
        return Feature("key")
    if not numeric or len(different) <= _FEW:
        return Feature("category", missing=missing)
    if mostly_rounded(column):
        return Feature("ignore")
    exact = [None if is_rounded(value) else value for value in values]
    numbers = numbers_of(name, exact)
    return Feature("number", tolerance=_tolerance(numbers[~np.isnan(numbers)]), missing=missing)


def comparable(column: Column) -> bool:
    """Whether its values can be told apart: each can be hashed, as text or a number, not a list."""
    if isinstance(column, np.ndarray) and column.dtype.kind != "O":
        return True
    try:
        set(values_of(column))
    except TypeError:
        return False
    return True


def mostly_rounded(column: Column) -> bool:
    """Whether most of its values are whole numbers beyond 2**53, which float64 rounds."""
    there = [value for value in values_of(column) if not is_missing(value)]
    return 2 * sum(map(is_rounded, there)) > len(there)


def _whole(value: Any) -> bool:
    return isinstance(value, int) or float(value).is_integer()


def _tolerance(numbers: np.ndarray) -> float:
    """A tenth of the usual spread, or of the whole: 1, 2 or 5 times a power of ten."""
    least, most = TOLERANCES
    small = numbers / 16.0 if np.abs(numbers).max() > 1e300 else numbers  # lest it overflow
    low, high = np.quantile(small, (0.1, 0.9))
    spread = _SPREAD * float(high - low or np.ptp(small))
    if not least <= spread <= most:
        return least if spread < least else most
    power = 10.0 ** math.floor(math.log10(spread))
    return max(step * power for step in (1.0, 2.0, 5.0) if step * power <= spread * (1 + 1e-9))
