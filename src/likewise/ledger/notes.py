"""Define notes that people write about decisions: reviews, corrections, what turned out.

The chain says who wrote a note, when and about which rows, and has a salted commitment to its text;
the text itself is in a table, and is destroyed when one of the rows is erased.
"""

from dataclasses import dataclass
from typing import Any

from likewise.errors import BadRule
from likewise.tables.known_names import did_you_mean
from likewise.tables.normalize import is_unicode

DISPOSITIONS = ("justified", "error", "unfair", "duplicate", "unclear", "open")
"""What a review may say of a pair; "open" takes an earlier review back."""
_MOST_TEXT = 1 << 14


@dataclass(frozen=True)
class LedgerNote:
    """A note about rows that is to be chained, with text that can be destroyed."""

    kind: str
    body: dict[str, Any]
    text: str
    row: int
    other: int | None = None
    review: str | None = None
    """The mark for the verdict of `row`; only for reviews."""


@dataclass(frozen=True)
class Review:
    """A review of a contradiction."""

    event: int
    row: int
    witness: int | None
    disposition: str
    reason: str | None
    """None if one of the rows was erased."""
    reviewer: str
    time: str
    verified: bool
    """Whether a service has verified who it was; otherwise the caller chose the name."""


@dataclass(frozen=True)
class Supersession:
    """A decision that was overruled."""

    event: int
    row: int
    by_row: int
    """The decision that took its place."""
    by: str
    why: str | None
    """None if one of the rows was erased."""
    time: str
    verified: bool
    """Whether a service has verified who it was, as for a Review."""


@dataclass(frozen=True)
class Truth:
    """The output that turned out to be right."""

    event: int
    row: int
    value: Any
    """None if the row was erased."""
    time: str


def check_text(text: Any, what: str) -> str:
    """Return a text; raise BadRule if it is empty or too long."""
    if not isinstance(text, str) or not text.strip():
        raise BadRule(f"{what} is {text!r}; expected text that is not empty. Nothing was written.")
    if not is_unicode(text):
        raise BadRule(f"{what} is {text!r}, which is no text. Nothing was written.")
    if len(text) > _MOST_TEXT:
        raise BadRule(
            f"{what} has {len(text):,} characters; expected at most {_MOST_TEXT:,}. Nothing was"
            " written."
        )
    return text


def review_note(
    row: int, witness: int | None, disposition: Any, reason: Any, reviewer: Any, verified: bool
) -> LedgerNote:
    """Return the note of a review; raise BadRule if a part of it is invalid."""
    if disposition not in DISPOSITIONS:
        raise BadRule(
            f"the disposition is {disposition!r}; expected one of {', '.join(DISPOSITIONS)}"
            f"{did_you_mean(disposition, DISPOSITIONS) or '.'}"
            " Nothing was written."
        )
    body = {
        "row": row,
        "witness": witness,
        "disposition": disposition,
        "reviewer": check_text(reviewer, "the reviewer"),
        "verified": verified,
    }
    return LedgerNote("review", body, check_text(reason, "the reason"), row, witness, disposition)
