"""Shows which column of the rule matters most, as a table for pages and terminals and in sentences.

The rule as it is comes first, then each column's changes, the columns with the largest effect
first. A column whose changes make no difference to either count is named in a sentence instead.

Invariant: the page says how many decisions the counts were computed from.
Not here: counting (monitor/sensitivity.py); escaping text for a terminal (cli/terminal.py).
"""

from dataclasses import dataclass

from likewise.monitor.sensitivity import SensitivityTable, Variant, VariantCounts
from likewise.rule.rule import Rule
from likewise.rule.variation import Tolerance
from likewise.tables.printing import format_number, join_names, percent, shorten
from likewise.verdict.html import render

TITLE = "Which column of the rule matters most"
AS_IT_IS = "the rule as it is"
_FOLD = 24  # lines of the table before the rest is folded away
_NAMES = 20  # columns in a sentence
_NAME = 60  # characters of a column's name on a terminal


@dataclass(frozen=True)
class SensitivityLine:
    """Holds a line of the table: a rule, and the counts that it gives."""

    before: str
    name: str
    """The name of what was changed, not escaped; empty for none."""
    after: str
    outcome: VariantCounts

    @property
    def text(self) -> str:
        """What was changed, in words."""
        return f"{self.before}{shorten(self.name, _NAME)}{self.after}"


def lines_of(varied: SensitivityTable) -> list[SensitivityLine]:
    """List the rule as it is, then each change of a column that has an effect."""
    idle = _without_effect(varied)
    return [
        SensitivityLine(AS_IT_IS, "", "", varied.baseline),
        *(
            SensitivityLine(*_words(one, varied.rule), one.outcome)
            for one in varied.variants
            if one.change.columns not in idle
        ),
    ]


def describe_omitted(varied: SensitivityTable) -> list[str]:
    """Say what the table leaves out; values from the data are not escaped."""
    return [
        f"{why}: {join_names([shorten(one, _NAME) for one in names], _NAMES)}."
        for why, names in left_out(varied)
    ]


def describe_basis(varied: SensitivityTable, decisions: int) -> str:
    """Say which of the decisions everything was computed from."""
    if varied.decisions == decisions:
        return f"Computed from all {decisions:,} decisions"
    return f"Computed from a part: the first {varied.decisions:,} of {decisions:,} decisions"


def find_most_work(varied: SensitivityTable) -> list[tuple[str, str, str]]:
    """Name the column without which most would change; nothing if no column matters.

    A sentence in three parts: words before the column's name, the name, not escaped, and the rest.
    """
    ignored = [one for one in varied.variants if one.how == "ignored"]
    most = max(ignored, key=varied.effect, default=None)
    if most is None or most.column is None or varied.effect(most) == 0:
        return []
    base = varied.baseline
    return [
        (
            "The most important column is ",
            most.column,
            f": without it {most.comparable:,} instead of {base.comparable:,} of"
            f" {base.decisions:,} decisions would be comparable, and {most.violations:,} instead"
            f" of {base.violations:,} would contradict an earlier one.",
        )
    ]


def left_out(varied: SensitivityTable) -> list[tuple[str, list[str]]]:
    """List what the table leaves out: why, and which columns."""
    idle = list(_without_effect(varied).values())
    reasons = [
        ("No change to these columns affects either count", idle),
        ("Not tried, since there are too many columns", list(varied.unchanged)),
    ]
    return [(why, names) for why, names in reasons if names]


def varied_table(varied: SensitivityTable, decisions: int) -> str:
    """Render the table; it was computed from the first of `decisions` decisions."""
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
    """Format the share of comparable decisions that contradict an earlier one."""
    return "–" if outcome.rate_among_comparable is None else percent(outcome.rate_among_comparable)


def _without_effect(varied: SensitivityTable) -> dict[tuple[str, ...], str]:
    """Return columns none of whose changes makes a difference, with their names; not epsilon."""
    effects: dict[tuple[str, ...], int] = {}
    for one in varied.variants:
        columns, effect = one.change.columns, varied.effect(one) + one.outcome.without_direction
        effects[columns] = max(effects.get(columns, 0), effect)
    names = {one.change.columns: one.column for one in varied.variants}
    return {part: name for part, name in names.items() if name is not None and effects[part] == 0}


def _words(variant: Variant, rule: Rule) -> tuple[str, str, str]:
    """Say what was changed: words before the column's name, the name, and words behind it."""
    change = variant.change
    if change.column is None:
        new, old = map(_format_tolerance, (change.tolerance, change.original))
        return f"epsilon {new} instead of {old}", "", ""
    if change.how == "ignored":
        zero = variant.outcome.without_direction
        are = f"{zero:,} decisions are" if zero > 1 else "1 decision is"
        return "without ", change.column, f" ({are} zero then and left out)" if zero else ""
    if change.tolerance is None:
        return "", change.column, f" {'half' if change.how == 'halved' else 'twice'} as wide"
    feature = (rule.features or {}).get(change.columns[0])
    if feature is not None and feature.mismatch is not None:
        new, old = (format_number(float(one or 0)) for one in (change.tolerance, change.original))
        return "", change.column, f": a mismatch costs {new} instead of {old}"
    # The page words a rule in this way, too: where each column counts alone, epsilon is part of
    # its tolerance.
    scale = rule.epsilon if feature is not None and rule.metric == "linf" else 1.0
    new, old = (_format_tolerance(one, scale) for one in (change.tolerance, change.original))
    steps = " steps" if feature is not None and feature.kind == "ordinal" else ""
    return "", change.column, f": {new}{steps} instead of {old}"


def _format_tolerance(tolerance: Tolerance, scale: float = 1.0) -> str:
    """Format a tolerance as a person would write it."""
    if isinstance(tolerance, str):
        ratio = 1.0 + float(tolerance.removesuffix("%")) / 100.0
        return f"{format_number(round(100 * (ratio**scale - 1), 6))}%"
    return format_number((tolerance or 0.0) * scale)
