"""`likewise demo --serve`: the demo's decisions arrive in a service, and pages show them.

They arrive over two minutes. A little after half of that the second model takes over, as on the day
in April in the report, and the rate rises above its usual band.
Invariant: nothing stays; the ledger is in a temporary folder that is removed with the command.
"""

import asyncio
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from likewise.cli.exit_codes import CommandError
from likewise.cli.terminal import say_lines, say_on_stderr

if TYPE_CHECKING:
    from likewise.cli.demo_loans import Row

SECONDS = 120.0
MONITOR = "loans"
MODELS = ("2026-01", "2026-04")
_A_STEP = 0.1  # seconds between decisions that come together


class ArrivingDecisions:
    """Sends decisions to a service; it is a module of `App` without routes."""

    OPERATIONS = ()

    def __init__(self, rows: "Sequence[Row]", updated: int, seconds: float = SECONDS) -> None:
        """updated: the row from which the second model answers"""
        self._rows, self._updated, self._seconds = rows, updated, seconds

    def routes(self, app: Any) -> list[Any]:
        self._service = app.service
        app.service.background_tasks.append(self.run)
        return []

    async def run(self) -> None:
        """Send all decisions, as evenly as the machine allows."""
        while not self._service.ready:
            await asyncio.sleep(_A_STEP)
        served = self._service.get_monitor(MONITOR)
        loop, rows = asyncio.get_running_loop(), self._rows
        begun, sent = loop.time(), 0
        while sent < len(rows) and not self._service.stopping:
            share = (loop.time() - begun) / self._seconds if self._seconds else 1.0
            due = min(len(rows), int(len(rows) * share))
            if due > sent:
                await served.observe_each([self._decision(i) for i in range(sent, due)])
                sent = due
            await asyncio.sleep(_A_STEP)
        say_on_stderr(
            "likewise: all decisions have arrived; the pages stay until you press Ctrl-C."
        )

    def _decision(self, i: int) -> Any:
        from likewise.monitor.protocol import Decision

        return Decision(self._rows[i], model=MODELS[i >= self._updated])


def serve_demo(port: int, *, seconds: float = SECONDS) -> int:
    """Serve the demo until the process is stopped."""
    try:
        from likewise.pages import page_router
        from likewise.service.running import serve
    except ModuleNotFoundError as error:
        raise CommandError(
            f"{error.name} is missing: pip install '.[serve]' in the clone of likewise."
        ) from None
    from likewise.cli.demo_loans import DECISIONS, RULE, UPDATED, UPDATED_ON, generate_decisions
    from likewise.service.settings import MonitorSettings, ServerSettings, ServiceSettings

    rows = generate_decisions()
    say_lines(
        f"{DECISIONS:,} loan decisions will arrive within {seconds:g} seconds. From row {UPDATED:,}"
        f" on, which was decided on {UPDATED_ON}, another model decides: watch the rate."
    )
    with tempfile.TemporaryDirectory(prefix="likewise-demo-") as folder:
        rule = Path(folder) / "loans.toml"
        rule.write_text(RULE, encoding="utf-8")
        monitor_settings = MonitorSettings(rule=rule, ledger=Path(folder) / "loans.ledger")
        settings = ServiceSettings({MONITOR: monitor_settings}, server=ServerSettings(port=port))

        def tell(line: str) -> None:
            where = line.partition("listening on ")[2]
            say_on_stderr(f"likewise: open {where}/ in a browser" if where else f"likewise: {line}")

        serve(settings, tell, [page_router, ArrivingDecisions(rows, UPDATED, seconds)])
    return 0
