"""Who got less, by protected group: the newest decisions, in both directions, with base rates.

Bound: `MOST_ROWS` of the newest decisions and `MOST_PAIRS` like pairs, computed aside.
"""

from likewise.explaining.compare_groups import compare_groups, protected_columns, why_no_groups
from likewise.pages.computations import Computation
from likewise.pages.page_state import Visit
from likewise.pages.screen import Fields, Form, PageData, PagePart, Screen
from likewise.reports.group_section import group_section
from likewise.service.served_monitor import ServedMonitor
from likewise.tables.codec import to_query_text
from likewise.verdict.group_effects import OTHERS, GroupEffects

MOST_ROWS = 50_000
MOST_PAIRS = 5_000_000


async def load(visit: Visit) -> PageData:
    hosted = visit.hosted
    none = _why_none(hosted)
    asked = None if none else await _request_computation(visit)
    answer: tuple[int, tuple[GroupEffects, ...]] | None = asked.value if asked else None
    decisions, columns = answer or (None, ())
    data = {
        "monitor": hosted.name,
        "none": none,
        "computed": None if asked is None else asked.to_dict(),
        "rows": hosted.next_row,
        "decisions": decisions,
        "columns": None if answer is None else [one.to_dict() for one in columns],
    }
    return PageData(
        data,
        lambda: {
            "columns": columns,
            "compared": group_section(columns, none),
            "others": OTHERS,
            "as_text": to_query_text,
        },
    )


def _why_none(hosted: ServedMonitor) -> str | None:
    """Why nothing is compared, if so."""
    rule = hosted.monitor.rule
    if not protected_columns(rule):
        return "the rule has no protected column"
    return why_no_groups(rule) or (None if hosted.next_row else "there are no decisions yet")


async def _request_computation(visit: Visit, *, recompute: bool = False) -> Computation:
    hosted = visit.hosted
    return await visit.computations.ask(
        hosted, "groups", lambda: _compute(hosted), recompute=recompute
    )


def _compute(hosted: ServedMonitor) -> tuple[int, tuple[GroupEffects, ...]]:
    """How many decisions were looked at, and what was found."""
    past, rows = hosted.monitor.past, hosted.monitor.rows
    first = max(0, rows - MOST_ROWS)
    return rows - first, compare_groups(past, range(first, rows), most_pairs=MOST_PAIRS)


async def recompute(visit: Visit, _: Fields) -> str:
    if _why_none(visit.hosted) is None:
        await _request_computation(visit, recompute=True)
    return visit.url("groups")


PARTS: tuple[PagePart, ...] = (
    Screen("groups", "read", "Groups", load, "pages/groups.html"),
    Form("groups/again", "read", recompute),
)
