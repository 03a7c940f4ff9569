"""The overview shows how well similar cases agree: computed aside, dated, and again in time."""

import asyncio
import json

import numpy as np

from likewise.explaining.agreement import measure_agreement
from tests.pages.asking import Asker, paging
from tests.support.looping import each


@each("ledger", [False, True])
def test_the_agreement_is_that_of_all_decisions_so_far_and_is_dated(tmp_path, ledger):
    drawn = np.random.default_rng(0)

    async def read(asker, rows):
        for _ in range(200):
            found = json.loads((await asker.get("/m/default/overview.json")).body)["agreement"]
            if found["computed"] == "done" and found["rows"] == rows:
                return found
            await asyncio.sleep(0.05)
        raise AssertionError(f"it is not computed: {found}")

    async def play():
        folder = tmp_path / str(ledger)
        folder.mkdir()
        async with paging(folder, ledger=ledger) as app:
            asker, monitor = Asker(app), app.service.get_monitor("default").monitor
            empty = json.loads((await asker.get("/m/default/overview.json")).body)
            assert empty["agreement"] is None
            for count, rows in ((200, 200), (10, 200), (40, 250)):  # a tenth more: again
                x = drawn.integers(0, 20, (count, 1)) / 2
                z = np.where(drawn.random(count) < 0.3, "yes", "no").tolist()
                await app.service.get_monitor("default").observe_many(
                    count, lambda x=x, z=z: monitor.observe_many(x, z)
                )
                found = await read(asker, rows)
            expected = measure_agreement(monitor.past, range(250)).to_dict()
            assert expected["index"] is not None
            assert {name: found[name] for name in expected} == expected
            page = (await asker.get("/m/default/overview")).body.decode()
            assert f"Agreement index {round(expected['index'], 2)} " in page
            assert "Up to row 249, computed" in page and found["computed_at"].endswith("Z")

    asyncio.run(play())
