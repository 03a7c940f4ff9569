"""Says what findings do not show, from the data at hand.

A page that says "no difference" is read as a clearance. These sentences stand beside the headline,
in print and in JSON, so that nobody has to know them. Not here: the headline (headline.py).
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from likewise.explaining.agreement import Agreement
from likewise.explaining.compare_groups import protected_columns
from likewise.explaining.past import Past
from likewise.reports.evidence import JudgingOrder
from likewise.reports.headline import format_index, is_counted
from likewise.reports.totals import Words, mix_words, stable_column, to_words
from likewise.rule.rule import Rule
from likewise.sources.protocol import Table, column_values
from likewise.tables.printing import join_names, percent

DETECTABLE = 2.8
"""Standard deviations of the null that an index exceeds in 80 % of files, if it is that large."""
_NAMED = 4  # columns in a sentence
_SPEAKS_FROM = 0.01  # a smaller share of repeated rows is not mentioned
_BIRTH = re.compile(
    "birth[ _-]?da(te|y)|date[ _-]?(of|de)?[ _-]?(birth|naissance)|geburts(datum|tag)"
    "|fecha[ _-]?(de)?[ _-]?nac|data[ _-]?(di|de)?[ _-]?nasc|(^|[^a-z])dob($|[^a-z])",
    re.IGNORECASE,
)


class Caveat(NamedTuple):
    """Says one thing that findings do not show."""

    code: str
    sentence: str


@dataclass(frozen=True)
class RepeatedRows:
    """Holds the share of rows that may be further decisions about the same person."""

    share: float
    """Rows that have the same compared values as another row, and the same birth date."""
    by_chance: float
    """That share if birth dates were dealt at random; 0 without any."""
    birth_columns: tuple[str, ...] = ()


def is_birth_date(column: str) -> bool:
    """Tell whether a column is called as dates of birth are."""
    return _BIRTH.search(column) is not None


class BirthDates:
    """Numbers the values of columns with birth dates, chunk by chunk."""

    def __init__(self, columns: Iterable[str]) -> None:
        self._words = {one: [np.empty(0, np.int64)] for one in columns if is_birth_date(one)}

    def add(self, table: Table) -> None:
        """Add the next rows of a file."""
        for name, words in self._words.items():
            words.append(stable_column(column_values(table, name)))

    @property
    def words(self) -> dict[str, Words]:
        """A number for each value, by column; -1 where one is missing."""
        return {name: np.concatenate(words) for name, words in self._words.items()}


def find_repeated(
    past: Past, rows: range, births: Mapping[str, Words] | None = None
) -> RepeatedRows | None:
    """Find rows with the same compared values; None if persons are known, or no row is left.

    births: numbers for the values of columns with birth dates, one for each row; -1 if missing
    """
    every = np.asarray(rows, np.int64)
    alive = past.alive(every) if len(every) else every.astype(np.bool_)
    if past.rule.person_column is not None or not alive.any():
        return None
    inputs = mix_words(to_words(past.points(every[alive]).vectors))
    known = {name: words[alive] for name, words in (births or {}).items() if (words >= 0).any()}
    if not known:
        return RepeatedRows(_share_repeated(inputs), 0.0)
    dates = np.column_stack(list(known.values()))
    dealt = np.random.default_rng(0).permutation(dates)
    share, by_chance = (_share_repeated(inputs, one) for one in (dates, dealt))
    return RepeatedRows(share, by_chance, tuple(known))


def _share_repeated(inputs: npt.NDArray[np.uint64], dates: Words | None = None) -> float:
    """Return the share of rows that have the input and the known dates of another row."""
    numbers = inputs
    if dates is not None:
        known = (dates >= 0).all(axis=1)
        numbers = mix_words(np.column_stack([inputs.view(np.int64), dates])[known])
    counts = np.unique(numbers, return_counts=True)[1]
    return float(counts[counts > 1].sum()) / len(inputs)


def list_caveats(
    rule: Rule,
    rows: int,
    agreement: Agreement | None,
    order: JudgingOrder,
    repeated: RepeatedRows | None,
    differing: Sequence[str] = (),
) -> tuple[Caveat, ...]:
    """List what findings about so many rows do not show.

    differing: protected columns with a difference beyond chance
    """
    features: Mapping[str, Any] = rule.features or {}
    ignored = [name for name, one in features.items() if one.kind == "ignore"]
    near = [name for name, one in features.items() if one.is_compared and one.kind != "category"]
    return (
        Caveat(
            "cause",
            "No cause: these numbers do not say why similar cases were answered differently, nor"
            " which of two answers is the wrong one.",
        ),
        Caveat("clearance", _describe_clearance(rows, agreement)),
        *_describe_smallest_index(agreement),
        Caveat("balance", _describe_balance(rule, near)),
        Caveat("order", _describe_order(order)),
        Caveat("unrecorded", _describe_unrecorded(ignored)),
        Caveat("groups", _describe_groups(protected_columns(rule), differing)),
        *_describe_persons(rule, repeated),
    )


def _describe_clearance(rows: int, agreement: Agreement | None) -> str:
    alone = 0
    if agreement is not None and is_counted(agreement):
        alone = rows - agreement.comparable
    left = f" Nothing follows about the {alone:,} of {rows:,} decisions without a similar case."
    return (
        "No clearance: answers can agree with each other and all be wrong, or unfair."
        + left * bool(alone)
    )


def _describe_smallest_index(agreement: Agreement | None) -> list[Caveat]:
    if agreement is None or agreement.index is None:
        return []
    if agreement.null_sd is None:
        return [Caveat("smallest-index", f"Smallest index: {agreement.how.sentence}")]
    least = DETECTABLE * agreement.null_sd
    return [
        Caveat(
            "smallest-index",
            f"Smallest index: with {agreement.comparable:,} decisions that have a similar case, an"
            f" index below about {format_index(least)} could not be told reliably from chance.",
        )
    ]


def _describe_balance(rule: Rule, near: Sequence[str]) -> str:
    within = "within epsilon" if rule.features is None else f"in {join_names(near, _NAMED)}"
    if rule.features is not None and not near:
        return (
            "Balance: similar cases have the same values in all compared columns; whether they are"
            " alike in other respects was not looked at."
        )
    return (
        f"Balance: similar cases may still differ {within}, by what the rule allows. If one group"
        " or model mostly has the better values, that alone can explain different answers."
    )


def _describe_order(order: JudgingOrder) -> str:
    if order.column is None:
        return (
            'Order: no time column is named, so "earlier" is the order of lines, or of arrival.'
            " Shares of decisions that contradict an earlier one depend on it; the index does not."
        )
    ties = f" {order.ties:,} have the same time as the one before." * bool(order.ties)
    return (
        "Order: shares of decisions that contradict an earlier one grow with the length of the"
        f" past; the index does not depend on order.{ties}"
    )


def _describe_unrecorded(ignored: Sequence[str]) -> str:
    such = f", such as {join_names(ignored, _NAMED)}," if ignored else ""
    return (
        f"Unrecorded reasons: what the rule does not compare{such} can be a good reason for"
        " different answers, or hide unequal treatment behind equal ones."
    )


def _describe_groups(protected: Sequence[str], differing: Sequence[str]) -> str:
    if not protected:
        return "Groups: no protected column is declared, so who got less was not looked at."
    rest = [name for name in protected if name not in differing]
    sentences = []
    if differing:
        sentences.append(
            f"a difference by {join_names(differing, _NAMED)} was found; it shows no cause, and"
            " says nothing about people without a similar case in another group."
        )
    if rest:
        sentences.append(
            f"no difference by {join_names(rest, _NAMED)} was found; a smaller one may be there"
            " all the same."
        )
    return f"Groups: {' And '.join(sentences)}"


def _describe_persons(rule: Rule, repeated: RepeatedRows | None) -> list[Caveat]:
    if rule.person_column is not None or repeated is None:
        return []
    share, births = repeated.share, repeated.birth_columns
    if births and share - repeated.by_chance >= _SPEAKS_FROM:
        return [
            Caveat(
                "repeated-persons",
                f"Repeated persons: {percent(share)} of rows share all compared columns and"
                f" {join_names(births)} with another row (by chance {percent(repeated.by_chance)}):"
                " declare a person column, or these numbers compare persons with themselves.",
            )
        ]
    same = (
        ""
        if births or share < _SPEAKS_FROM
        else (f" {percent(share)} of rows are the same as another in all compared columns.")
    )
    return [
        Caveat(
            "persons",
            f"Persons: no person column is declared.{same} If persons come more than once, their"
            " own cases count as similar ones, and intervals are too narrow.",
        )
    ]
