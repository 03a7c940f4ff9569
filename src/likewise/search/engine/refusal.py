"""Word the errors for what cannot be accepted: what came, what was expected, what to do now.

Invariant: nothing here changes anything; callers that raise these errors have changed nothing.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from likewise.errors import BadDecision, BadRow, UnexpectedValue, WrongShape
from likewise.rule.rule import Rule
from likewise.search.kernels import table as t
from likewise.tables.normalize import short_repr


def rows_of(rows: Any, total: int, otherwise: str) -> npt.NDArray[np.int64]:
    """Return row numbers as an array; raise BadRow unless a history of `total` rows has them."""
    numbers = np.atleast_1d(np.asarray(rows))
    if numbers.size == 0:
        return np.empty(0, dtype=np.int64)
    if numbers.ndim != 1 or numbers.dtype.kind not in "iu":
        raise BadRow(
            f"rows are {short_repr(rows)}; expected a row number or a list of them. {otherwise}"
        )
    outside = numbers[(numbers < 0) | (numbers >= total)]
    if len(outside):
        raise BadRow(
            f"there is no row {outside[0]}: this history has rows 0 to {total - 1}. {otherwise}"
            if total
            else f"there is no row {outside[0]}: this history is empty.",
            row=int(outside[0]),
        )
    return numbers.astype(np.int64)


def row_of(row: Any, total: int, otherwise: str) -> int:
    """Return one row number; raise BadRow unless a history of `total` rows has it."""
    if np.ndim(row) != 0:
        raise BadRow(f"the row is {short_repr(row)}; expected one row number. {otherwise}")
    return int(rows_of(row, total, otherwise)[0])


def wrong_shape(shape: tuple[int, ...], expected: tuple[int, ...] | None) -> BadDecision:
    """Return the error for an input that has another shape than the first."""
    sent, stored = (
        f"{one[0]} features" if len(one) == 1 else f"the shape {one}"
        for one in (shape, expected or ())
    )
    return WrongShape(
        f"the input has {sent}, but this history holds {stored}, set by decision 0.",
        advice="Send the same columns, or start a new monitor.",
    )


def refusal(code: int, at: int, storage: str, rule: Rule, x: Any, z: Any) -> BadDecision:
    """Return the error for a kernel's code, which found something wrong at position `at`."""
    if code == t.BAD_SUM:
        return UnexpectedValue(
            f"the output is {short_repr(z)}, which adds up to {float(np.sum(z)):g};"
            " expected probabilities that add up to 1."
        )
    if code == t.BAD_OUTPUT:
        part = np.asarray(z, dtype=np.float64).reshape(-1)[at]
        expected = "a finite number"
        if rule.output == "probabilities":
            expected = "probabilities, finite and none below 0"
        return UnexpectedValue(
            f"the output is {short_repr(z)}, with {part:g} at position {at}; expected {expected}."
        )
    if code == t.BAD_NORM:
        return UnexpectedValue(
            f"the input is {short_repr(x)}, whose squared norm is 0 or beyond 1e150;"
            " expected a vector with a direction for the cosine metric."
        )
    value = np.asarray(x).reshape(-1)[at]
    expected = {
        t.NOT_FINITE: "a finite number; say what a missing value means before sending it",
        t.NOT_INTEGER: f"a whole number, since this history stores inputs as {storage}",
        t.OUT_OF_RANGE: f"a value that {storage} can hold",
    }.get(code, "")
    return UnexpectedValue(
        f"feature {at} of the input is {short_repr(value)}; expected {expected}."
    )
