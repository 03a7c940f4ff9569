"""Tells what the name of a column says: protected, age, proxy, identifier, score, truth, decision.

A name is split into words (snake_case, camelCase, spaces, signs), and whole words are looked up in
column_words.py: `sex` is a word of `applicant_sex` but not of `sussex`.

Invariant: a name alone never says what the values are; callers look at those too.
"""

import re
import unicodedata
from collections.abc import Collection, Sequence
from functools import lru_cache

from likewise.proposing import column_words as words

_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")

_OF_CLASS = re.compile(r"\s*[pP]_?\d{1,3}\s*([(\[=:].*)?", re.DOTALL)


@lru_cache(maxsize=4096)
def words_of(name: str) -> tuple[str, ...]:
    """Split a name into words, in lower case and without accents."""
    folded = unicodedata.normalize("NFKD", name.replace("ß", "ss"))
    bare = "".join(one for one in folded if not unicodedata.combining(one))
    parts = re.findall(r"[^\W_]+", _CAMEL.sub(" ", bare))
    return tuple(part.lower() for part in parts)


def is_protected(name: str) -> bool:
    """Tell whether the name is that of a group that laws protect."""
    parts = words_of(name)
    if is_identifier(name):
        return False
    return _has_word(parts, words.PROTECTED, words.PROTECTED_STEMS) or _has_all_words(
        parts, words.PROTECTED_TOGETHER
    )


def is_age(name: str) -> bool:
    """Tell whether it is the age of a person, or when they were born."""
    parts = words_of(name)
    about_age = _has_word(parts, words.AGE) or _has_all_words(parts, words.AGE_TOGETHER)
    return about_age and not _has_word(parts, words.NOT_OF_A_PERSON)


def is_proxy(name: str) -> bool:
    """Tell whether the column may stand for a protected group: a place, a name, a language."""
    parts = words_of(name)
    return _has_word(parts, words.PROXY) or _has_all_words(parts, words.PROXY_TOGETHER)


def is_identifier(name: str) -> bool:
    """Tell whether the name is that of a number that names a person or a thing."""
    parts = words_of(name)
    if not parts:
        return False
    if parts[0] in words.IDENTIFIER or parts[-1] in words.IDENTIFIER:
        return True
    if len(parts) > 1 and parts[-1] in words.NUMBERED:
        return True
    return any(
        part.endswith(end) and len(part) > len(end) + 2
        for part in parts
        for end in words.IDENTIFIER_ENDS
    )


def is_index(name: str) -> bool:
    """Tell whether the name is that of a column which counts the lines of a file."""
    parts = words_of(name)
    return "_".join(parts) in words.INDEX or (len(parts) == 2 and parts[0] == "unnamed")


def is_score(name: str) -> bool:
    """Tell whether the name has a word for a score or a probability, of a model or not."""
    return _has_word(words_of(name), words.SCORE) or is_probability_of_class(name)


def is_score_of_a_model(name: str) -> bool:
    """Tell whether the name says that a model made the score: `score`, `model_score`, `p1`."""
    parts = words_of(name)
    if not is_score(name):
        return False
    rest = [part for part in parts if part not in words.SCORE and not part.isdigit()]
    return is_probability_of_class(name) or all(part in words.OF_A_MODEL for part in rest)


def is_probability_of_class(name: str) -> bool:
    """Tell whether it is called p0, p1, p_2 or p0(<=50K)."""
    return _OF_CLASS.fullmatch(name) is not None


def is_truth(name: str) -> bool:
    """Tell whether the name says the true answer, known later, and not what was decided."""
    parts = words_of(name)
    return "_".join(parts) in words.TRUTH_NAMES or _has_word(parts, words.TRUTH)


def is_class(name: str) -> bool:
    """Tell whether the name is just "class", which may be the truth or a decision."""
    return words_of(name) in {("class",), ("klasse",), ("classe",), ("clase",)}


def is_answer(name: str) -> bool:
    """Tell whether the name says what a model predicted."""
    return _ends_in_word(words_of(name), words.ANSWER)


def is_decision(name: str) -> bool:
    """Tell whether the name says what was decided, by a model or by people."""
    return _ends_in_word(words_of(name), words.DECISION)


def is_refusal(name: str) -> bool:
    """Tell whether it says who was refused."""
    return _has_word(words_of(name), words.REFUSED)


def is_adverse(name: str) -> bool:
    """Tell whether it says something that nobody wants: refused, defaulted, at risk."""
    return _has_word(words_of(name), words.ADVERSE) or is_refusal(name)


def is_good(value: object, *, adverse: bool = False) -> bool:
    """Tell whether a value is the answer that everyone wants; for something adverse, no or 0."""
    if isinstance(value, int | float):
        return float(value) == (0.0 if adverse else 1.0)
    return " ".join(words_of(str(value))) in (words.BAD if adverse else words.GOOD)


def may_be_output(name: str) -> bool:
    """Tell whether the name may mean the output, or something known later: outcome, result."""
    return _ends_in_word(words_of(name), words.PERHAPS)


def is_count(name: str) -> bool:
    """Tell whether the name has a word for something that is counted."""
    return _has_word(words_of(name), words.COUNT)


def is_code(name: str) -> bool:
    """Tell whether the name says that its numbers are codes: branch_code, product_type."""
    parts = words_of(name)
    return bool(parts) and (parts[-1] in words.CODE or parts[0] in ("code", "type", "plz", "zip"))


def is_survey_weight(name: str) -> bool:
    """Tell whether it says how many people a row of a survey stands for."""
    parts = words_of(name)
    return _has_word(parts, words.WEIGHT) or _has_all_words(parts, words.WEIGHT_TOGETHER)


def is_time(name: str) -> bool:
    """Tell whether the name says that its numbers are times."""
    parts = words_of(name)
    return bool(parts) and (_has_word(parts, words.TIME) or parts[-1] == "at")


def _ends_in_word(parts: Sequence[str], vocabulary: Collection[str]) -> bool:
    """Tell whether the name ends in one of these words, apart from words that may follow it."""
    if any(part in words.EARLIER for part in parts):
        return False
    for part in reversed(parts):
        if part in vocabulary:
            return True
        if part not in words.SPOKEN and not part.isdigit():
            return False
    return False


def _has_word(
    parts: Sequence[str], vocabulary: Collection[str], stems: Collection[str] = ()
) -> bool:
    return any(part in vocabulary or part.startswith(tuple(stems)) for part in parts)


def _has_all_words(parts: Sequence[str], groups: Sequence[tuple[str, ...]]) -> bool:
    return any(all(one in parts for one in group) for group in groups)
