"""Values of a query or a path: text that is a number or a time, or refused."""

from likewise.ledger.times import microseconds
from likewise.service.refusals import Refusal
from likewise.values.errors import BadDecision

_MOST_ROW = 1 << 62


def whole(name: str, text: str) -> int:
    """A whole number from 0 on."""
    if not (text.isascii() and text.isdigit() and len(text) <= 19 and int(text) < _MOST_ROW):
        raise Refusal(400, f"{name} is {text[:100]!r}; expected a whole number from 0 on.")
    return int(text)


def number(name: str, text: str) -> float:
    """A finite number from 0 on."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise Refusal(400, f"{name} is {text[:100]!r}; expected a number from 0 on.")
    return value


def moment(name: str, text: str) -> float:
    """Seconds since 1970, from a number or ISO text."""
    try:
        return microseconds(_as_number(text)) / 1e6
    except BadDecision:
        raise Refusal(
            400, f"{name} is {text[:100]!r}; expected seconds since 1970, or ISO text."
        ) from None


def _as_number(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text
