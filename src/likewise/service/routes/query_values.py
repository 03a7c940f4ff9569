"""Parses values of queries and paths: numbers, times and filters, or Refusal."""

import re
from collections.abc import Mapping

from likewise.errors import BadDecision
from likewise.ledger.notes import DISPOSITIONS
from likewise.ledger.violation_query import ViolationQuery
from likewise.service.http_errors import Refusal
from likewise.tables.times import to_microseconds

_MOST_ROW = 1 << 62
_NUMBER = re.compile(r"-?[0-9]{1,400}(\.[0-9]{1,400})?([eE][+-]?[0-9]{1,9})?")


def parse_whole(name: str, text: str) -> int:
    """Parse a whole number from 0 on."""
    if not (text.isascii() and text.isdigit() and len(text) <= 19 and int(text) < _MOST_ROW):
        raise Refusal(400, f"{name} is {text[:100]!r}; expected a whole number from 0 on.")
    return int(text)


def parse_limit(query: Mapping[str, str], default: int, most: int) -> int:
    """Parse the parameter `limit`."""
    limit = parse_whole("limit", query["limit"]) if "limit" in query else default
    if not 1 <= limit <= most:
        raise Refusal(400, f"limit is {limit}; expected 1 to {most}.")
    return limit


def parse_number(name: str, text: str) -> float:
    """Parse a finite number from 0 on."""
    value = _number_or_text(text)
    if not isinstance(value, float) or not 0 <= value < float("inf"):
        raise Refusal(400, f"{name} is {text[:100]!r}; expected a number from 0 on.")
    return value


def parse_time(name: str, text: str) -> float:
    """Parse a number or ISO text to seconds since 1970."""
    try:
        return to_microseconds(_number_or_text(text)) / 1e6
    except BadDecision:
        raise Refusal(
            400, f"{name} is {text[:100]!r}; expected seconds since 1970, or ISO text."
        ) from None


def _number_or_text(text: str) -> float | str:
    """Parse what is a number in JSON; Python would also read 1_0, nan and other digits."""
    return float(text) if _NUMBER.fullmatch(text) else text


def parse_violation_query(query: Mapping[str, str]) -> ViolationQuery:
    """Parse the filters of a query; the value of a group stays text. Refusal if one is wrong."""
    review = query.get("review")
    if review is not None and review not in DISPOSITIONS:
        raise Refusal(400, f"review: expected one of {', '.join(DISPOSITIONS)}.")
    column, colon, value = query.get("group", "").partition(":")
    if "group" in query and not colon:
        raise Refusal(400, "group: expected column:value.")
    return ViolationQuery(
        since=parse_time("since", query["since"]) if "since" in query else None,
        until=parse_time("until", query["until"]) if "until" in query else None,
        model=query.get("model"),
        group=(column, value) if colon else None,
        within=parse_number("within", query["within"]) if "within" in query else None,
        review=review,
        output=query.get("output"),
    )
