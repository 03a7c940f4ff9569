"""Who got less, by protected group: the newest decisions, in both directions, with base rates.

Bound: `MOST_ROWS` of the newest decisions and `MOST_PAIRS` like pairs, computed aside.
"""

from dataclasses import dataclass
from typing import Any

from likewise.explaining.comparing import check_groups, compare_groups, protected_columns
from likewise.explaining.groups import OTHERS, Groups
from likewise.pages import parts
from likewise.pages.computing import Computation, waiting
from likewise.pages.screen import Form, Part, Screen
from likewise.pages.visit import Visit
from likewise.reports.document import section
from likewise.reports.group_section import group_section
from likewise.service.hosted import Hosted
from likewise.service.looking_back.plain_values import as_text
from likewise.values.errors import BadRule
from likewise.values.printing import percent
from likewise.values.safe import safe, safe_name

MOST_ROWS = 50_000
MOST_PAIRS = 5_000_000
_QUESTION = "groups"


@dataclass(frozen=True)
class GroupsLook:
    """What is known of groups."""

    monitor: str
    none: str | None
    """Why nothing is compared, if so."""
    asked: Computation | None
    rows: int

    @property
    def answer(self) -> tuple[int, tuple[Groups, ...]] | None:
        """How many decisions were looked at, and what was found."""
        found: tuple[int, tuple[Groups, ...]] | None = self.asked.value if self.asked else None
        return found

    def to_dict(self) -> dict[str, Any]:
        answer = self.answer
        return {
            "monitor": self.monitor,
            "none": self.none,
            "computed": None if self.asked is None else self.asked.to_dict(),
            "rows": self.rows,
            "decisions": None if answer is None else answer[0],
            "columns": None if answer is None else [one.to_dict() for one in answer[1]],
        }


def _why_none(hosted: Hosted) -> str | None:
    rule = hosted.monitor.rule
    if not protected_columns(rule):
        return "the rule has no protected column"
    try:
        check_groups(rule)
    except BadRule as error:
        return str(error)
    return None


def _compute(hosted: Hosted) -> tuple[int, tuple[Groups, ...]]:
    past, rows = hosted.monitor.past, hosted.monitor.rows
    first = max(0, rows - MOST_ROWS)
    return rows - first, compare_groups(past, range(first, rows), most_pairs=MOST_PAIRS)


async def known(visit: Visit) -> GroupsLook:
    hosted = visit.hosted
    none = _why_none(hosted)
    asked = None
    if none is None and hosted.next_row:
        asked = await visit.computing.ask(hosted, _QUESTION, lambda: _compute(hosted))
    elif none is None:
        none = "there are no decisions yet"
    return GroupsLook(hosted.name, none, asked, hosted.next_row)


def shown(told: GroupsLook, visit: Visit) -> str:
    if told.none is not None:
        return group_section((), told.none)
    asked = told.asked
    assert asked is not None
    if asked.problem is not None:
        return f"<p>It could not be computed: {safe(asked.problem, 400)}</p>{_again(visit)}"
    if told.answer is None:
        return waiting(asked)
    decisions, columns = told.answer
    all_of = f"all {decisions:,} decisions"
    if decisions < asked.rows:
        all_of = f"the newest {decisions:,} of {asked.rows:,} decisions"
    since = told.rows - asked.rows
    newer = f" {since:,} have come since." if since else ""
    about = (
        f'<p class="lead">Computed from {all_of} that are remembered.{newer}</p>\n{_again(visit)}'
    )
    return about + _base_rates(columns, visit) + group_section(columns, None)


def _base_rates(columns: tuple[Groups, ...], visit: Visit) -> str:
    inside = []
    for groups in columns:
        share = groups.outcome == "share"
        rows = [
            [
                parts.value(one.name)
                if one.value is OTHERS
                else parts.link(
                    visit,
                    parts.value(one.name),
                    "violations",
                    group=f"{groups.column}:{as_text(one.value)}",
                ),
                f"{one.decisions:,}",
                f"{one.people:,}",
                percent(one.favourable) if share else f"{one.favourable:,.4g}",
            ]
            for one in groups.groups
        ]
        good = "favourable answer" if share else "mean output"
        heads = ("group", "decisions", "people", good)
        label = f"Base rates by {groups.column}"
        inside.append(
            f"<h3>By {safe_name(groups.column)}</h3>"
            + parts.table(heads, rows, label, numbers=(1, 2, 3))
        )
    lead = "How each group fared in all, whether or not its members have like cases elsewhere."
    return section("base", "Base rates", lead, "".join(inside))


def _again(visit: Visit) -> str:
    return visit.form("groups/again", '<button class="plain">Compute it again</button>')


async def again(visit: Visit, _: Any) -> str:
    hosted = visit.hosted
    if _why_none(hosted) is None and hosted.next_row:
        await visit.computing.ask(hosted, _QUESTION, lambda: _compute(hosted), anew=True)
    return visit.url("groups")


PARTS: tuple[Part, ...] = (
    Screen("groups", "read", "Groups", known, shown),
    Form("groups/again", "read", again),
)
