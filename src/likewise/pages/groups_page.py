"""The page of groups: which protected group got less, in both directions, with base rates.

Bound: the newest `MOST_ROWS` decisions and `MOST_PAIRS` similar pairs, computed in the background.
"""

from likewise.explaining.compare_groups import compare_groups, protected_columns, why_no_groups
from likewise.pages.frame import PageData, PagePart, Screen, recompute_form
from likewise.pages.page_state import Visit
from likewise.pages.running_tally import Computation
from likewise.reports.group_section import group_section
from likewise.service.served_monitor import ServedMonitor
from likewise.tables.codec import to_query_text
from likewise.verdict.group_effects import OTHERS, GroupEffects

MOST_ROWS = 50_000
MOST_PAIRS = 5_000_000


async def load(visit: Visit) -> PageData:
    served = visit.served
    none = _why_none(served)
    computation = await _request_computation(visit)
    decisions, columns = (computation and computation.value) or (None, None)
    data = {
        "monitor": served.name,
        "no_groups_reason": none,
        "computed": computation and computation.to_dict(),
        "rows": served.next_row,
        "decisions": decisions,
        "columns": None if columns is None else [column.to_dict() for column in columns],
    }
    return PageData(
        data,
        lambda: {
            "columns": columns or (),
            "compared": group_section(columns or (), none),
            "others": OTHERS,
            "as_text": to_query_text,
        },
    )


def _why_none(served: ServedMonitor) -> str | None:
    """Return why nothing is compared; None if groups are compared."""
    rule = served.monitor.rule
    if not protected_columns(rule):
        return "the rule has no protected column"
    return why_no_groups(rule) or (None if served.next_row else "there are no decisions yet")


async def _request_computation(visit: Visit, recompute: bool = False) -> Computation | None:
    served = visit.served
    if _why_none(served):
        return None
    return await visit.computations.ask(served, "groups", lambda: _compute(served), recompute)


def _compute(served: ServedMonitor) -> tuple[int, tuple[GroupEffects, ...]]:
    """Return how many decisions were compared, and the effects."""
    past, rows = served.monitor.past, served.monitor.rows
    first = max(0, rows - MOST_ROWS)
    return rows - first, compare_groups(past, range(first, rows), most_pairs=MOST_PAIRS)


PARTS: tuple[PagePart, ...] = (
    Screen("groups", "read", "Groups", load, "pages/groups.html"),
    recompute_form("groups", _request_computation),
)
