"""Which line of the rule does the work: a small table for pages and terminals, and its words.

The rule as it is comes first, then each column's changes, the columns with the largest effect
first. A column whose changes make no difference to either count is named in a sentence instead.

Invariant: every count stands beside the decisions it rests on, which are said above the table.
Not here: counting (monitor/sensitivity.py); making text safe for a terminal (cli/terminal.py).
"""

from dataclasses import dataclass

from likewise.monitor.sensitivity_table import SensitivityTable, Variant, VariantCounts
from likewise.rule.rule import Rule
from likewise.rule.variation import Tolerance
from likewise.tables.printing import format_number, join_names, percent
from likewise.verdict.html import render, shorten

TITLE = "Which line of the rule does the work"
AS_IT_IS = "the rule as it is"
_FOLD = 24  # lines of the table before the rest is folded away
_NAMES = 20  # of columns in a sentence
_NAME = 60  # letters of a column's name on a terminal


@dataclass(frozen=True)
class SensitivityLine:
    """A line of the table: a rule, and what it comes to."""

    before: str
    name: str
    """Of what was changed, as it stands in the data: to be made safe. Empty for none."""
    after: str
    outcome: VariantCounts

    @property
    def text(self) -> str:
        """What was changed, in words."""
        return f"{self.before}{shorten(self.name, _NAME)}{self.after}"


def lines_of(varied: SensitivityTable) -> list[SensitivityLine]:
    """The rule as it is, then each change of a column that has an effect."""
    some = [one for one in varied.variants if _part(one) not in _without_effect(varied)]
    return [
        SensitivityLine(AS_IT_IS, "", "", varied.baseline),
        *(SensitivityLine(*_words(one, varied.rule), one.outcome) for one in some),
    ]


def describe_omitted(varied: SensitivityTable) -> list[str]:
    """What the table leaves out; values from the data stand in it as they are."""
    return [
        f"{why}: {join_names([shorten(one, _NAME) for one in names], _NAMES)}."
        for why, names in left_out(varied)
    ]


def describe_basis(varied: SensitivityTable, decisions: int) -> str:
    """From which of so many decisions everything was computed."""
    if varied.decisions == decisions:
        return f"Computed from all {decisions:,} decisions"
    return f"Computed from a part: the first {varied.decisions:,} of {decisions:,} decisions"


def find_most_work(varied: SensitivityTable) -> list[tuple[str, str, str]]:
    """The column without which most would change, in a sentence; none if nothing would.

    Words before the column's name, the name as it stands in the data, and words behind it.
    """
    ignored = [one for one in varied.variants if one.how == "ignored"]
    most = max(ignored, key=varied.effect, default=None)
    if most is None or most.column is None or varied.effect(most) == 0:
        return []
    base = varied.baseline
    return [
        (
            "Most is done by ",
            most.column,
            f": without it {most.comparable:,} instead of {base.comparable:,} of"
            f" {base.decisions:,} decisions would be comparable, and {most.contradicting:,} instead"
            f" of {base.contradicting:,} would contradict an earlier one.",
        )
    ]


def left_out(varied: SensitivityTable) -> list[tuple[str, list[str]]]:
    """What the table leaves out: why, and which columns."""
    idle = list(_without_effect(varied).values())
    both = [
        ("No change of these makes a difference to either count", idle),
        ("Not tried, since there are too many columns", list(varied.unchanged)),
    ]
    return [(why, names) for why, names in both if names]


def varied_table(varied: SensitivityTable, decisions: int) -> str:
    """As HTML, with what it rests on; `decisions`: of which those looked at are the first."""
    return render(
        "reports/varied_table.html",
        most_work=find_most_work(varied),
        lines=[(one, share_of(one.outcome)) for one in lines_of(varied)],
        most=1 + _FOLD,
        rests_on=describe_basis(varied, decisions),
        left_out=left_out(varied),
        names=_NAMES,
        as_it_is=AS_IT_IS,
    )


def share_of(outcome: VariantCounts) -> str:
    """Of the comparable decisions, those that contradict an earlier one."""
    return "–" if outcome.rate is None else percent(outcome.rate)


def _part(variant: Variant) -> tuple[str, ...]:
    return variant.change.columns


def _without_effect(varied: SensitivityTable) -> dict[tuple[str, ...], str]:
    """Columns none of whose changes makes a difference, with their names; not epsilon."""
    effects: dict[tuple[str, ...], int] = {}
    for one in varied.variants:
        effect = varied.effect(one) + one.outcome.without_direction
        effects[_part(one)] = max(effects.get(_part(one), 0), effect)
    names = {_part(one): one.column for one in varied.variants}
    return {part: name for part, name in names.items() if name is not None and effects[part] == 0}


def _words(variant: Variant, rule: Rule) -> tuple[str, str, str]:
    """What was changed: words before the column's name, the name, and words behind it."""
    change = variant.change
    if change.column is None:
        return (
            f"epsilon {_format_tolerance(change.tolerance)} instead of"
            f" {_format_tolerance(change.instead_of)}",
            "",
            "",
        )
    if change.how == "ignored":
        gone = variant.outcome.without_direction
        are = f"{gone:,} decisions are" if gone > 1 else "1 decision is"
        return "without ", change.column, f" ({are} zero then and left out)" if gone else ""
    if change.tolerance is None:
        return "", change.column, f" {'half' if change.how == 'halved' else 'twice'} as wide"
    feature = (rule.features or {}).get(change.columns[0])
    if feature is not None and feature.mismatch is not None:
        then, before = (
            format_number(float(one or 0)) for one in (change.tolerance, change.instead_of)
        )
        return "", change.column, f": a mismatch costs {then} instead of {before}"
    # As the page words a rule: where each column counts alone, epsilon is part of its tolerance.
    scale = rule.epsilon if feature is not None and rule.metric == "linf" else 1.0
    then, before = (_format_tolerance(one, scale) for one in (change.tolerance, change.instead_of))
    steps = " steps" if feature is not None and feature.kind == "ordinal" else ""
    return "", change.column, f": {then}{steps} instead of {before}"


def _format_tolerance(tolerance: Tolerance, scale: float = 1.0) -> str:
    """A tolerance as a person would write it."""
    if isinstance(tolerance, str):
        ratio = 1.0 + float(tolerance.removesuffix("%")) / 100.0
        return f"{format_number(round(100 * (ratio**scale - 1), 6))}%"
    return format_number((tolerance or 0.0) * scale)
