"""How a monitor is doing, now: the rate of contradictions against what is usual."""

from typing import Any

from likewise.pages.screen import Part, Screen
from likewise.pages.visit import Visit


async def known(visit: Visit) -> dict[str, Any]:
    return {"monitor": visit.hosted.name, "rows": visit.hosted.next_row}


def shown(overview: dict[str, Any], _: Visit) -> str:
    return f"<p>{overview['rows']:,} decisions.</p>"


PARTS: tuple[Part, ...] = (Screen("overview", "read", "Overview", known, shown),)
