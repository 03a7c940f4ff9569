"""The part of the report about groups: a picture of what was tested, a table of all comparisons.

Every value from the data is made safe (safe.py).
Not here: the words (group_words.py), the picture (group_plot.py).
"""

from collections.abc import Sequence

from likewise.explaining.groups import GroupComparison, Groups, GroupSide
from likewise.reports.document import section
from likewise.reports.group_plot import COMPARED, drawn_of, group_plot
from likewise.reports.group_words import chance, counted, difference, left_out, outcome, p_value
from likewise.values.safe import folded, safe, safe_name, shown

_TABLE = 8  # comparisons in the table before the rest is folded away
_LEAD = (
    "Two groups can be compared where their members are alike. How many of each group have a like"
    " case in the other, earlier or later, and how did they fare? The picture shows how much less"
    " the first of two groups got than the second among like cases. The band is what comes about by"
    " chance: groups were shuffled among like cases, and 95% of the differences lie in it."
)


def group_section(
    columns: Sequence[Groups], no_groups: str | None, name: str = "groups", of: str = ""
) -> str:
    """All protected columns; no_groups: why nothing is compared, if so.

    name, of: what the part of the page is called, and whose decisions it is about, as HTML
    """
    if no_groups:
        lead = f"Nothing is counted by group: {safe(no_groups, 400)}."
        return section(name, "By protected group", lead, "")
    shown_columns = [groups for groups in columns if groups.groups]
    if not shown_columns:
        return ""
    return section(name, f"Who got less{of}", _LEAD, "".join(map(_column, shown_columns)))


def _column(groups: Groups) -> str:
    parts = [f"<h3>By {safe_name(groups.column)}</h3>\n"]
    drawn = drawn_of(groups)
    if drawn:
        parts.append(f"<figure>{group_plot(groups)}<figcaption>{_caption(groups)}")
        parts.append("</figcaption></figure>\n")
    if len(groups.groups) == 1:
        name = safe(shown(groups.groups[0].name), 60)
        parts.append(f"<p>All decisions are <bdi>{name}</bdi>: there is nothing to compare.</p>\n")
    elif not any(one.pairs for one in groups.comparisons):
        parts.append("<p>No decision has a like case in another group: nothing follows.</p>\n")
    elif not drawn:
        parts.append("<p>There are too few like cases to conclude anything.</p>\n")
    some, rest = groups.comparisons[:_TABLE], groups.comparisons[_TABLE:]
    if some:
        parts.append(_table(groups, some))
    if rest:
        more = f"{len(rest):,} more comparison{'s' * (len(rest) != 1)}"
        on_paper = f"{more} of {safe_name(groups.column)} are in the page and not printed."
        parts.append(folded(more, _table(groups, rest), on_paper))
    parts += [f'<p class="small">{safe(note, 400)}</p>\n' for note in left_out(groups)]
    return "".join(parts)


def _caption(groups: Groups) -> str:
    tested = sum(one.test is not None for one in groups.comparisons)
    of = f"The first {COMPARED} of {tested:,} tested comparisons. " if tested > COMPARED else ""
    what = "the share of favourable answers" if groups.outcome == "share" else "the mean output"
    return (
        f"{of}Difference in {what} between like cases of the two groups. Filled: beyond chance,"
        " corrected for all comparisons on this page. In the table, a decision can be in many"
        " pairs: decisions say more about how many are concerned."
    )


def _table(groups: Groups, comparisons: Sequence[GroupComparison]) -> str:
    good = "favourable answer" if groups.outcome == "share" else "mean output"
    heads = (
        "decisions",
        good,
        "have a like case in the other group",
        f"{good} among these",
        f"{good} of their like cases",
        "got less than some like case",
    )
    top = "".join(f'<th scope="col" class="number">{head}</th>' for head in heads)
    bodies = "".join(_comparison(groups, one, heads) for one in comparisons)
    return (
        '<div class="scroll groups" tabindex="0" role="region" aria-label="Comparisons by'
        f' {safe(groups.column, 80)}"><table class="sortable"><thead><tr><th scope="col">group</th>'
        f"{top}</tr></thead>{bodies}</table></div>\n"
    )


def _comparison(groups: Groups, comparison: GroupComparison, heads: Sequence[str]) -> str:
    one, other = (
        f"<bdi>{safe(shown(side.group.name), 60)}</bdi>"
        for side in (comparison.one, comparison.other)
    )
    said = f"<b>{one} and {other}</b>: "
    if comparison.pairs == 0:
        said += "no like pair, so nothing follows."
    else:
        said += (
            f"{comparison.pairs:,} like pair{'s' * (comparison.pairs != 1)}. {one} got less in"
            f" {comparison.one_less:,}, {other} in {comparison.other_less:,}, neither in"
            f" {comparison.neither_less:,}. {_tested(groups, comparison)}"
        )
    rows = "".join(_row(groups, side, heads) for side in (comparison.one, comparison.other))
    return f'<tbody><tr class="said"><td colspan="{1 + len(heads)}">{said}</td></tr>{rows}</tbody>'


def _tested(groups: Groups, comparison: GroupComparison) -> str:
    test = comparison.test
    conclusion = safe(comparison.conclusion)
    if test is None:
        return f"{conclusion[:1].upper()}{conclusion[1:]}."
    return (
        f"Difference {difference(groups, test.difference)}, by chance"
        f" {chance(groups, comparison)}; p&nbsp;=&nbsp;{p_value(test.p)}, corrected"
        f" {p_value(test.p_corrected)}: {conclusion}."
    )


def _row(groups: Groups, side: GroupSide, heads: Sequence[str]) -> str:
    cells = (
        counted(groups, side.group.decisions, side.group.people),
        outcome(groups, side.group.favourable),
        counted(groups, side.comparable, side.comparable_people),
        outcome(groups, side.favourable),
        outcome(groups, side.like_favourable),
        counted(groups, side.got_less, side.got_less_people),
    )
    numbers = "".join(
        f'<td class="number" data-label="{head}">{cell}</td>'
        for head, cell in zip(heads, cells, strict=True)
    )
    name = f"<bdi>{safe(shown(side.group.name), 60)}</bdi>"
    return f'<tr><th scope="row">{name}</th>{numbers}</tr>'
