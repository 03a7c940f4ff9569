"""What the values of a column tell: times, row counters, keys, text that hardly repeats, codes.

Invariant: each answer comes with what it rests on; with fewer than ROWS rows values tell nothing.
Cost: one look at the different values.
Not here: what a column is in the end, which its name has a part in (proposal.py).
"""

import datetime
import math
import re
from typing import Any

from likewise.rules import naming
from likewise.rules.profile import Profile

ROWS = 20
"""With fewer, values say too little about what a column is."""
FEW = 3
"""Different numbers that are codes whatever they are called."""
CODES = 10
"""Different whole numbers that are codes unless their name counts something."""
_REPEATS = 5  # how often a code comes at least, on average
_DIFFERENT = 0.9  # the share of different values from which text hardly repeats
_FREE = 0.5  # the same for text of several words
_BY_CHANCE = 7.0  # numbers without a repeat, although about exp(-7) of such columns have none
_MANY = 50  # values of an identifier that several rows share
_TIME = re.compile(
    r"\s*(\d{4}-\d\d?-\d\d?|\d\d?\.\d\d?\.\d{4}|\d\d?/\d\d?/\d{4}|\d{4}/\d\d?/\d\d?)([T\s].*)?\s*"
)


def is_time(profile: Profile) -> bool:
    """Whether all values are times, text that begins like one, or numbers that are called so."""
    if all(isinstance(one, datetime.date | datetime.time) for one in profile.different):
        return True
    if all(isinstance(one, str) and _TIME.fullmatch(one) for one in profile.different):
        return True
    large = profile.whole and min(profile.different) >= 1e7
    return large and naming.is_time(profile.name)


def counts_rows(profile: Profile) -> bool:
    """Whether each row has the number after that of the row before, or is called an index."""
    if not profile.whole or not profile.unique or naming.is_identifier(profile.name):
        return False
    if naming.is_index(profile.name):
        return True
    first = int(profile.values[0])
    return any(
        all(int(value) == first + step * i for i, value in enumerate(profile.values))
        for step in (1, -1)
    )


def key_rank(profile: Profile) -> int | None:
    """How sure it is that a column names decisions, 0 the surest; None if it does not."""
    if not profile.unique or len(profile) <= FEW or (profile.numeric and not profile.whole):
        return None
    if naming.is_identifier(profile.name):
        return 0
    if not profile.numeric:
        return 1 if all(map(_like_a_key, profile.different)) else None
    if len(profile) < ROWS or profile.rounded:
        return None
    expected = len(profile) ** 2 / (2.0 * _span(profile))  # repeats among numbers drawn by chance
    return 2 if expected > _BY_CHANCE else None


def _span(profile: Profile) -> float:
    """How many whole numbers there are from the smallest to the largest."""
    try:
        return float(max(profile.different) - min(profile.different)) + 1.0
    except OverflowError:
        return math.inf


def _like_a_key(value: Any) -> bool:
    text = str(value)
    return not re.search(r"\s", text) and re.search(r"\d", text) is not None


def hardly_repeats(profile: Profile) -> str | None:
    """Of text, and of what is called an identifier."""
    share = len(profile.different) / len(profile.known)
    if naming.is_identifier(profile.name) and not profile.unique:
        if len(profile.different) > _MANY or share > _FREE:
            return (
                "By its name it names a person or a thing, which several decisions share. If it"
                ' tells people apart: kind = "person", so that nobody is compared with themselves.'
            )
        return None
    if profile.numeric or key_rank(profile) is not None:
        return None
    words = sum(len(str(one).split()) for one in profile.different) / len(profile.different)
    if share >= _DIFFERENT or (share >= _FREE and words >= FEW):
        return f"{share:.0%} of its values are different: nothing would be like another."
    return None


def codes_why(profile: Profile) -> str | None:
    """Why numbers are taken for codes, if they are."""
    if not profile.whole or naming.is_score(profile.name):
        return None
    if naming.is_code(profile.name) or naming.is_identifier(profile.name):
        return "By its name its numbers are codes, which must be the same"
    count = len(profile.different)
    dense = _span(profile) <= 2 * count
    repeats = len(profile.known) >= max(ROWS, _REPEATS * count)
    if count <= CODES and dense and repeats and not naming.is_count(profile.name):
        return "Few different whole numbers: codes, which must be the same"
    return None
