"""Health knows the ledgers, the queue and the disk, and says why."""

import asyncio
import json
import os
import sys
from pathlib import Path

from likewise.service.app import App
from likewise.service.service import Service
from likewise.service.settings import Limits, MonitorSettings, ServiceSettings
from likewise.version import __version__
from tests.service.asgi_calls import RULE, call, serving
from tests.support.small_disk import on_small_disk, skip_without

ROOT = Path(__file__).resolve().parents[2]


async def ready(app):
    answer = await call(app, "GET", "/readyz")
    reasons = [(one["monitor"], one["reason"]) for one in answer.json.get("reasons", [])]
    assert answer.json["ready"] == (answer.status == 200) == (not reasons)
    return answer.status, reasons


def test_service_is_alive_before_it_is_ready_and_after(tmp_path):
    async def scenario():
        path = tmp_path / "rule.toml"
        path.write_text(RULE)
        ledger = str(tmp_path / "ledger")
        app = App(
            Service(ServiceSettings({"loans": MonitorSettings(rule=str(path), ledger=ledger)}))
        )
        assert (await call(app, "GET", "/healthz")).status == 200
        assert await ready(app) == (503, [("loans", "opening")])
        await asyncio.to_thread(app.service.open)
        assert await ready(app) == (200, [])
        alive = await call(app, "GET", "/healthz")
        assert alive.json == {
            "alive": True,
            "version": __version__,
            "disk_writable": {"loans": True},
        }
        await app.service.drain(10)
        assert await ready(app) == (503, [(None, "closed")])
        assert (await call(app, "GET", "/healthz")).status == 200
        app.service.close()

    asyncio.run(scenario())


def test_full_queue_is_not_ready_until_it_has_room(tmp_path):
    async def scenario():
        async with serving(tmp_path, ledger=True, limits=Limits(waiting_rows=3)) as app:
            served = app.service.monitors["default"]
            entered, leave = asyncio.Event(), asyncio.Event()
            loop = asyncio.get_running_loop()

            def slow():
                loop.call_soon_threadsafe(entered.set)
                asyncio.run_coroutine_threadsafe(leave.wait(), loop).result(30)

            waiting = [asyncio.create_task(served.run_in_turn(slow))]
            await entered.wait()
            assert await ready(app) == (200, [])
            waiting += [asyncio.create_task(served.run_in_turn(lambda: None)) for _ in range(2)]
            await asyncio.sleep(0)
            assert await ready(app) == (503, [("default", "queue")])
            assert (await call(app, "GET", "/healthz")).status == 200
            leave.set()
            await asyncio.gather(*waiting)
            assert await ready(app) == (200, [])

    asyncio.run(scenario())


def test_threshold_of_the_disk_is_a_setting(tmp_path):
    async def scenario():
        free = os.statvfs(tmp_path).f_bavail * os.statvfs(tmp_path).f_frsize
        async with serving(tmp_path, ledger=True, limits=Limits(disk_bytes=2 * free)) as app:
            assert await ready(app) == (503, [("default", "disk")])
        async with serving(tmp_path, ledger=True, limits=Limits(disk_bytes=0)) as app:
            assert await ready(app) == (200, [])
        async with serving(tmp_path, limits=Limits(disk_bytes=2 * free)) as app:
            assert await ready(app) == (200, []), "in memory there is no disk to fill"

    asyncio.run(scenario())


PROGRAM = """
import asyncio, contextlib, os, sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from likewise.service.settings import Limits
from tests.service.asgi_calls import call, serving

async def main(folder):
    async with serving(folder, ledger=True, limits=Limits(disk_bytes=300_000)) as app:
        told = []
        free = os.statvfs(folder).f_bavail * os.statvfs(folder).f_frsize
        for filler in (0, free - 200_000, 0):
            (folder / "filler").write_bytes(bytes(filler))
            told.append((await call(app, "GET", "/readyz")).body.decode())
        with contextlib.suppress(OSError):
            (folder / "filler").write_bytes(bytes(2 * free))  # as much as there is room for
        told.append((await call(app, "GET", "/healthz")).body.decode())
        (folder / "filler").unlink()
        told.append((await call(app, "GET", "/healthz")).body.decode())
        print("\\n".join(told))

asyncio.run(main(Path(sys.argv[1])))
"""


def test_disk_that_is_nearly_full_is_not_ready(tmp_path):
    skip_without(tmp_path)
    done = on_small_disk(tmp_path, sys.executable, "-c", PROGRAM, tmp_path, ROOT)
    assert done.returncode == 0, done.stderr
    before, full, after, *alive = done.stdout.splitlines()
    assert before == after == '{"ready":true}'
    written = [json.loads(one)["disk_writable"]["default"] for one in alive]
    assert written == [False, True]
    assert '"reason":"disk"' in full
    assert "expected at least 300000" in full
