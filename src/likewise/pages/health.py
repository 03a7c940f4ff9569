"""Is the service well: queue, disk, memory, index, and whether the ledger is what it was."""

from typing import Any

from likewise.pages.screen import Part, Screen
from likewise.pages.visit import Visit


async def known(visit: Visit) -> dict[str, Any]:
    return {"monitor": visit.hosted.name, "waiting": visit.hosted.waiting_rows}


def shown(health: dict[str, Any], _: Visit) -> str:
    return f"<p>{health['waiting']:,} decisions wait.</p>"


PARTS: tuple[Part, ...] = (Screen("health", "read", "Health", known, shown),)
