"""What holds of every page: its policy, its weight, its twin; and of the files that it loads."""

import asyncio
import hashlib
import re
from importlib.resources import files

import pytest

from likewise.monitor.readers.protocol import Decision
from likewise.pages import page_router
from likewise.pages.frame import NAVIGATION, Screen, static_file
from tests.pages.asking import Asker, paging
from tests.support.strict_html import read_strictly

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:;"
    " connect-src 'self'; font-src 'self'; base-uri 'none'; form-action 'self';"
    " frame-ancestors 'none'"
)
MORE = ("a", "nav", "form", "input", "button", "label", "select", "option", "textarea")
MORE += ("fieldset", "legend", "script", "time", "br")
PLAIN = [
    part.path for part in page_router.PARTS if isinstance(part, Screen) and "{" not in part.path
]


async def filled(app):
    served = app.service.get_monitor("default")
    for i in range(20):
        await served.observe(Decision([i % 4 / 100.0], "ja" if i % 3 else "nein"))


@pytest.mark.parametrize("path", PLAIN)
def test_page_has_the_policy_and_nothing_inline(tmp_path, path):
    async def play():
        async with paging(tmp_path) as app:
            answer = await Asker(app).get(f"/m/default/{path}")
            assert answer.status == 200
            assert answer.headers["content-security-policy"] == POLICY
            assert answer.headers["cache-control"] == "no-store"
            assert answer.headers["x-content-type-options"] == "nosniff"
            assert answer.headers["referrer-policy"] == "same-origin"
            text = answer.body.decode()
            read_strictly(text, MORE)
            assert not re.search(r"<script(?![^>]* src=)|<style|\sstyle=|\son[a-z]+=", text)

    asyncio.run(play())


@pytest.mark.parametrize("path", PLAIN)
def test_twin_is_what_is_answered_to_whoever_wants_json(tmp_path, path):
    async def play():
        async with paging(tmp_path) as app:
            asker = Asker(app)
            twin = await asker.get(f"/m/default/{path}.json")
            same = await asker.get(f"/m/default/{path}", accept="application/json")
            for answer in (twin, same):
                assert answer.status == 200
                assert answer.headers["content-type"] == "application/json"
            assert twin.json.keys() == same.json.keys()

    asyncio.run(play())


def test_page_with_everything_that_it_loads_is_light(tmp_path):
    async def play():
        async with paging(tmp_path) as app:
            asker = Asker(app)
            for path in PLAIN:
                answer = await asker.get(f"/m/default/{path}")
                loaded = re.findall(rb'(?:href|src)="/static/([^?"]+)', answer.body)
                weight = len(answer.body) + sum(len(static_file(one.decode())) for one in loaded)
                assert weight <= 150_000

    asyncio.run(play())


def test_files_that_we_did_not_write_are_as_they_were(tmp_path):
    folder = files("likewise.pages") / "static"
    lines = (folder / "SHA256SUMS").read_text().splitlines()
    listed = {name: digest for digest, name in (line.split() for line in lines)}
    own = {"SHA256SUMS", "likewise.js", "pages.css", "work.css"}
    assert listed.keys() == {one.name for one in folder.iterdir()} - own
    for name, digest in listed.items():
        assert hashlib.sha256((folder / name).read_bytes()).hexdigest() == digest, name
    assert any("LICENSE" in name for name in listed)


def test_every_screen_of_the_navigation_is_there():
    served = {part.section for part in page_router.PARTS if isinstance(part, Screen)}
    assert {path for path, _ in NAVIGATION} <= served


@pytest.mark.parametrize("path", ["/m/nobody/overview", "/m/default/nowhere", "/static/secret"])
def test_what_is_not_there_is_refused(tmp_path, path):
    async def play():
        async with paging(tmp_path) as app:
            assert (await Asker(app).get(path)).status == 404

    asyncio.run(play())


def test_next_leads_nowhere_else(tmp_path):
    async def play():
        async with paging(tmp_path) as app:
            asker = Asker(app)
            for path in ("//evil.example/", "https://evil.example", "/\\evil.example", "/\t/x"):
                page = await asker.get(f"/sign-in?next={path}".replace("\t", "%09"))
                assert b'action="/sign-in?next=/"' in page.body

    asyncio.run(play())


def test_pages_can_be_turned_off(tmp_path):
    async def play():
        async with paging(tmp_path, pages={"enabled": False}) as app:
            assert (await Asker(app).get("/")).status == 404

    asyncio.run(play())


def test_looks_at_people_are_events_where_the_settings_say_so(tmp_path):
    async def play():
        async with paging(tmp_path, pages={"record_looks": True}) as app:
            await filled(app)
            served = app.service.get_monitor("default")
            await Asker(app).get("/m/default/overview")
            events = await served.read_ledger(lambda ledger: ledger.reader.events("administration"))
            assert events == []
            await Asker(app).get("/m/default/violations")
            events = await served.read_ledger(lambda ledger: ledger.reader.events("administration"))
            assert [event.body["what"] for event in events] == ["look"]
            assert events[0].body["who"] == "local"

    asyncio.run(play())
