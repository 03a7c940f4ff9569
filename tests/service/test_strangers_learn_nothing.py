"""Who has no token learns no names and no paths; who is refused is counted and logged."""

import asyncio
import json
import logging
import os

import pytest

from likewise.errors import BadFile
from likewise.service.service import Service
from likewise.service.service_log import LogReporter
from likewise.service.settings import Limits, ServiceSettings
from tests.pages.asking import Asker, paging, token
from tests.service.asgi_calls import call, serving

ONE = "/v1/monitors/default"
DECISION = b'{"x": [0.5], "z": "a"}'


def run(coroutine):
    return asyncio.run(coroutine)


def bearer(text):
    return {"authorization": f"Bearer {text}"}


def test_health_names_monitors_to_readers_alone(tmp_path):
    reader, one = token("reader", "read")
    other, two = token("other", "read", monitors=())
    scoring, three = token("scoring", "observe")

    async def play(headers, tokens):
        limits = Limits(disk_bytes=1 << 62)
        async with serving(tmp_path, ledger=True, tokens=tokens, limits=limits) as app:
            alive = await call(app, "GET", "/healthz", b"", headers)
            ready = await call(app, "GET", "/readyz", b"", headers)
            assert (alive.status, ready.status) == (200, 503)
            return b"default" in alive.body, b"default" in ready.body

    tokens = [one, two, three]
    assert run(play({}, [])) == (True, True)
    assert run(play(bearer(reader), tokens)) == (True, True)
    for headers in ({}, bearer("lw_nobody"), bearer(other), bearer(scoring)):
        assert run(play(headers, tokens)) == (False, False)


def test_errors_tell_no_path_of_a_ledger(tmp_path, monkeypatch):
    text, line = token("scoring", "observe")

    async def play():
        async with serving(tmp_path, ledger=True, tokens=[line]) as app:
            monitor = app.service.monitors["default"].monitor
            assert (await call(app, "POST", f"{ONE}/observe", DECISION, bearer(text))).status == 200

            def fail(*_, **__):
                path = monitor.ledger.path / "rows" / "0.bin"
                raise BadFile(f"{str(path)!r} could not grow; look at {path.parent}.", path=path)

            monkeypatch.setattr(app.service.monitors["default"], "observe", fail)
            monkeypatch.setattr(app.service.monitors["default"], "observe_each", fail)
            verbs = ("observe", "stream")
            return [await call(app, "POST", f"{ONE}/{v}", DECISION, bearer(text)) for v in verbs]

    for answer in run(play()):
        assert b"could not grow" in answer.body
        assert str(tmp_path).encode() not in answer.body


def test_no_answer_is_stored_or_guessed_at(tmp_path):
    text, line = token("ana", "admin")
    paths = ["/", "/m/default/overview", "/m/default/overview.json", "/sign-in", "/healthz"]
    paths += ["/readyz", "/metrics", "/openapi.json", "/nowhere", "/v1/monitors", ONE]
    paths += [f"{ONE}/decisions/0", f"{ONE}/verdicts", f"{ONE}/decisions/99"]
    posts = ["observe", "batch", "check", "stream", "verify", "past/outputs", "cloudevents"]

    async def play(headers):
        async with paging(tmp_path, tokens=[line]) as app:
            answers = [await call(app, "GET", path, b"", headers) for path in paths]
            for verb in posts:
                answers.append(await call(app, "POST", f"{ONE}/{verb}", DECISION, headers))
            return answers

    for headers in ({}, bearer(text)):
        for answer in run(play(headers)):
            assert answer.headers["cache-control"] == "no-store"
            assert answer.headers["x-content-type-options"] == "nosniff"
            assert ("www-authenticate" in answer.headers) == (answer.status == 401)


def test_static_files_may_be_stored(tmp_path):
    async def play():
        async with paging(tmp_path) as app:
            page = (await Asker(app).get("/m/default/overview")).body.decode()
            path = page.partition('<link rel="stylesheet" href="')[2].partition('"')[0]
            return await call(app, "GET", path)

    answer = run(play())
    assert answer.status == 200 and "no-store" not in answer.headers["cache-control"]


def test_refused_callers_are_counted_and_logged_within_bounds(tmp_path, caplog):
    text, line = token("scoring", "observe")
    reader, other = token("reader", "read")

    async def play():
        async with serving(tmp_path, ledger=True, tokens=[line, other]) as app:
            reporter = LogReporter(app.service)
            for verb in ("observe", "batch", "stream", "erase", "past/outputs", "cloudevents"):
                await call(app, "POST", f"{ONE}/{verb}", DECISION, bearer("lw_wrong"))
            await call(app, "POST", f"{ONE}/erase", b"{}", bearer(text))
            await call(app, "POST", f"{ONE}/forget", b"{}", bearer(text))
            for i in range(1000):
                await call(app, "GET", f"/v1/monitors/{i}", b"", bearer("lw_wrong"))
            with caplog.at_level(logging.WARNING, logger="likewise"):
                reporter.report_changes()
            first = [one.fields for one in caplog.records if one.fields["event"] == "denied"]
            caplog.clear()
            for i in range(1000):
                await call(app, "GET", "/metrics", client=(f"10.0.{i // 256}.{i % 256}", 1))
            with caplog.at_level(logging.WARNING, logger="likewise"):
                reporter.report_changes()
            second = [one.fields for one in caplog.records if one.fields["event"] == "denied"]
            metrics = await call(app, "GET", "/metrics", b"", bearer(reader))
            return first, second, metrics.body.decode()

    first, second, metrics = run(play())
    counts = {(one["status"], one["route"]): one["count"] for one in first}
    assert counts[401, "POST /v1/monitors/{name}/observe"] == 1
    assert counts[401, "POST /v1/monitors/{name}/past/{look}"] == 1
    assert counts[403, "POST /v1/monitors/{name}/forget"] == 1
    assert counts[403, "POST /v1/monitors/{name}/erase"] == 1
    assert counts[401, "GET /v1/monitors/{name}"] == 1000
    assert {one["peer"] for one in first} == {"127.0.0.1"}
    assert "lw_wrong" not in json.dumps(first + second)
    assert len(second) <= 21 and sum(one["count"] for one in second) == 1000
    assert 'likewise_refused_requests_total{status="401"} 2006.0' in metrics
    assert 'likewise_refused_requests_total{status="403"} 2.0' in metrics


def test_failed_sign_in_is_counted(tmp_path):
    _, line = token("ana", "read")

    async def play():
        async with paging(tmp_path, tokens=[line]) as app:
            assert (await Asker(app).sign_in("lw_nobody")).status == 401
            return dict(app.service.refused), dict(app.service.denied)

    refused, denied = run(play())
    assert refused == {"401": 1}
    assert denied == {("401", "127.0.0.1", "POST /sign-in"): 1}


def test_query_survives_signing_in(tmp_path):
    text, line = token("ana", "read")
    wanted = "/m/default/violations?model=v%262&order=near&output=a%2Bb"

    async def play(to):
        async with paging(tmp_path, tokens=[line]) as app:
            asker = Asker(app)
            form = (await asker.get(to)).body.decode()
            action = form.partition('<form method="post" action="')[2].partition('"')[0]
            csrf = await asker.csrf("/sign-in")
            return await asker.send(action.replace("&amp;", "&"), {"csrf": csrf, "token": text})

    async def led():
        async with paging(tmp_path, tokens=[line]) as app:
            return (await Asker(app).get(wanted)).headers["location"]

    assert run(play(run(led()))).headers["location"] == wanted
    for evil in ("//evil.example", "https://evil.example", "/\\evil.example", "/%09/evil.example"):
        assert run(play(f"/sign-in?next={evil}")).headers["location"] == "/"


@pytest.mark.skipif(os.name != "posix", reason="modes of files")
def test_secrets_that_everybody_can_read_are_told(tmp_path):
    rule = tmp_path / "rule.toml"
    rule.write_text('metric = "linf"\nepsilon = 0.1\n')
    (tmp_path / "secret").write_text("x" * 40)
    (tmp_path / "key").write_text("k")
    (tmp_path / "password").write_text("p")
    address = f"redis://127.0.0.1?stream=s&password_file={tmp_path / 'password'}"
    told = {
        "server": {"certificate": "crt", "key": "key"},
        "monitors": {"default": {"rule": "rule.toml", "source": {"from": address}}},
        "alerts": {
            "outbox": "outbox",
            "receivers": [
                {
                    "name": "a",
                    "kind": "webhook",
                    "url": "http://127.0.0.1:1",
                    "secret_file": "secret",
                }
            ],
        },
    }

    async def lines():
        said = []
        Service(ServiceSettings.from_tables(told, tmp_path), said.append)
        return said

    names = ("key", "password", "secret")
    for mode, expected in ((0o644, 3), (0o640, 0), (0o602, 3), (0o600, 0)):
        for name in names:
            (tmp_path / name).chmod(mode)
        said = run(lines())
        assert len(said) == expected
        for name, one in zip(names, sorted(said), strict=False):
            assert str(tmp_path / name) in one
