"""Pages are under the limits of the service: how many listen, and how often somebody asks."""

import asyncio
import json
from types import SimpleNamespace

import pytest

from likewise.pages.frame import Answer, Download, Form, Screen
from likewise.pages.page_router import PARTS
from likewise.service import request_guard
from likewise.service.settings import Limits
from tests.pages.asking import Asker, paging, token
from tests.service.asgi_calls import call

LIVE = [
    "/v1/monitors/default/events",
    *(f"/m/default/{part.path}" for part in PARTS if part.path.endswith("live")),
]


async def listen(app, path, ended):
    """Listen until the event is set; the status, as soon as it is known."""
    status = asyncio.get_running_loop().create_future()

    async def receive():
        await ended.wait()
        return {"type": "http.disconnect"}

    async def send(message):
        if message["type"] == "http.response.start":
            status.set_result(message["status"])

    scope = {
        "type": "http",
        "method": "GET",
        "path": path,
        "query_string": b"",
        "headers": [(b"host", b"127.0.0.1")],
    }
    task = asyncio.create_task(app(scope, receive, send))
    return await status, task


def test_every_live_connection_counts_as_a_reader(tmp_path):
    assert len(LIVE) == 3

    async def run():
        limits = Limits(readers=4)
        async with paging(tmp_path, limits=limits) as app:
            for path in LIVE:
                ended = asyncio.Event()
                some = [await listen(app, LIVE[i % 3], ended) for i in range(4)]
                assert [status for status, _ in some] == [200] * 4
                refused = await call(app, "GET", path, headers={"host": "127.0.0.1"})
                assert (refused.status, refused.headers["retry-after"]) == (503, "10")
                assert app.service.readers == 4
                ended.set()
                await asyncio.gather(*(task for _, task in some))
                assert app.service.readers == 0

    asyncio.run(run())


def asked(part):
    """A request for a part of the pages: method and address."""
    path = f"/m/default/{part.path}".replace("{row}", "0").replace("{witness}", "0")
    return ("POST" if isinstance(part, Form | Answer) else "GET"), path


@pytest.mark.parametrize("way", ["token", "session", "proxy"])
def test_every_page_counts_as_a_request(tmp_path, monkeypatch, way):
    monkeypatch.setattr(request_guard, "clock", SimpleNamespace(monotonic=lambda: 1000.0))
    text, line = token("ana", "admin")
    pages, headers = {}, {}
    if way == "token":
        headers = {"authorization": f"Bearer {text}"}
    if way == "proxy":
        pages = {"proxy_header": "X-User", "roles": {"*": ["admin"]}}
        headers = {"x-user": "ben"}

    async def run():
        ways = [("GET", "/"), *map(asked, PARTS)]
        twins = [f"{asked(part)[1]}.json" for part in PARTS if isinstance(part, Screen)]
        assert {type(part) for part in PARTS} == {Screen, Answer, Form, Download}
        limits = Limits(rate=0.3)
        tokens = () if way == "proxy" else [line]
        async with paging(tmp_path, limits=limits, tokens=tokens, pages=pages) as app:
            asker = Asker(app, **headers)
            if way == "session":
                assert (await asker.sign_in(text)).status == 303
            overview = "/m/default/overview"
            for path in (overview, f"{overview}.json", overview):
                assert (await asker.get(path)).status == 200
            for method, path in [*ways, *(("GET", path) for path in twins)]:
                send = asker.get(path) if method == "GET" else asker.send(path, {})
                answer = await send
                assert answer.status == 429, (method, path)
                assert int(answer.headers["retry-after"]) >= 1
            refused = await asker.get(f"{overview}.json")
            assert json.loads(refused.body)["code"] == "refused"

    asyncio.run(run())


def test_names_of_callers_that_are_counted_are_forgotten(tmp_path, monkeypatch):
    now = 1000.0
    monkeypatch.setattr(request_guard, "clock", SimpleNamespace(monotonic=lambda: now))
    pages = {"proxy_header": "X-User", "roles": {"*": ["read"]}}

    async def run():
        nonlocal now
        async with paging(tmp_path, limits=Limits(rate=0.1), pages=pages) as app:
            for i in range(3_000):
                now += 1.0
                app.guard.count_request(f"user {i}")
            assert len(app.guard._allowance) <= 1_001
            app.guard.count_request("again")
            with pytest.raises(request_guard.Refusal):
                app.guard.count_request("again")

    asyncio.run(run())
