"""Decisions that are accepted and not judged yet are pending on pages, and clean nowhere."""

import asyncio
import json

import likewise as lw
from likewise.verdict.verdict_body import write_body
from tests.pages.asking import Asker, paging


def test_pages_count_accepted_decisions_as_pending_and_call_none_of_them_clean(tmp_path):
    async def look():
        async with paging(tmp_path) as app:
            monitor, asker = app.service.monitors["default"].monitor, Asker(app)
            monitor.observe([0.1, 0.1], "yes", key="first")

            async def ask(path, key):
                """Something on the pages may look at the history, and have it judged."""
                monitor.ledger.accept([[0.1, 0.1]], ["no"], keys=[key])
                with lw.Ledger(monitor.ledger.path) as ledger:
                    (entry,) = ledger.entries(ledger.rows - 1)
                    assert ledger.pending == 1 and entry.count is None
                    verdict = ledger.verdict_of(entry)
                    assert not verdict.clean
                    assert write_body(verdict)["not_compared"] == entry.row
                return (await asker.get(f"/m/default/{path}")).body.decode()

            told = json.loads(await ask("health.json", "a"))
            page, people = await ask("health", "b"), await ask("people?key=c", "c")
            assert monitor.ledger.accepted_count == 0, "whoever asks for a key has it judged"
            monitor.ledger.judge_accepted()
            after = json.loads((await asker.get("/m/default/health.json")).body)
            return told["accepted"], page, people, after["accepted"]

    accepted, page, people, after = asyncio.run(look())
    assert (accepted, after) == (1, 0)
    assert "Accepted, not yet judged" in page
    assert "pairs/3" in people
