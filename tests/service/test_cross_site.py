"""A page of another site can do nothing here and read nothing, whatever a browser sends for it."""

import asyncio
import json

import pytest

from likewise.errors import BadRule
from likewise.service.settings import ServerSettings, Token
from likewise.service.tokens import new_token
from tests.service.asgi_calls import call, serving
from tests.support.refusals import raises

ONE = "/v1/monitors/default"
DECISION = json.dumps({"x": [0.5], "z": "a"}).encode()
JSON = {"content-type": "application/json"}
CHANGES = [
    (f"{ONE}/observe", DECISION),
    (f"{ONE}/batch", b'{"x": [[0.5]], "z": ["a"]}'),
    (f"{ONE}/check", DECISION),
    (f"{ONE}/stream", DECISION),
    (f"{ONE}/erase", b'{"rows": [0]}'),
    (f"{ONE}/reviews", b'{"row": 0, "disposition": "error", "reason": "r", "reviewer": "x"}'),
    (f"{ONE}/supersede", b'{"key": "k", "output": "b", "by": "x", "why": "y"}'),
    (f"{ONE}/verify", b"{}"),
    (f"{ONE}/cloudevents", b"{}"),
    (f"{ONE}/forget", b"{}"),
    (f"{ONE}/alerts/0123456789abcdef/acknowledge", b""),
]
READS = [ONE, "/v1/monitors", f"{ONE}/decisions/0", f"{ONE}/events", "/metrics", "/openapi.json"]
READS += ["/healthz", "/readyz"]
CROSS_SITE = {
    "host": "127.0.0.1:8800",
    "origin": "http://evil.example",
    "sec-fetch-site": "cross-site",
}


def asked(folder, requests, **settings):
    """The statuses of some requests, and how many rows the history has then."""

    async def play():
        async with serving(folder, ledger=True, **settings) as app:
            served = app.service.monitors["default"]
            served.monitor.observe([0.1], "a")
            statuses = [(await call(app, *one)).status for one in requests]
            left = await served.read_ledger(lambda ledger: ledger.entry(0).erased)
            return statuses, served.monitor.rows, left

    return asyncio.run(play())


@pytest.mark.parametrize(
    "headers",
    [
        CROSS_SITE,
        CROSS_SITE | {"sec-fetch-site": "same-site", "origin": "http://127.0.0.1:3000"},
        {"host": "127.0.0.1:8800", "origin": "http://evil.example"},
        {"host": "127.0.0.1:8800", "origin": "null"},
        {"host": "localhost:8800", "origin": "http://localhost:3000"},
        {"host": "evil.example:8800", "origin": "http://evil.example:8800"},
        {"host": "evil.example:8800"},
        {"host": "0.0.0.0:8800"},
        {"host": "[::]:8800"},
        {"host": "127.0.0.1.evil.example"},
        {"host": "["},
    ],
    ids=str,
)
def test_page_of_another_site_neither_acts_nor_reads(tmp_path, headers):
    requests = [("POST", path, body, JSON | headers) for path, body in CHANGES]
    requests += [("GET", path, b"", headers) for path in READS]
    statuses, rows, erased = asked(tmp_path, requests)
    assert set(statuses) == {403}
    assert (rows, erased) == (1, False)


@pytest.mark.parametrize(
    "kind",
    [
        None,
        "",
        "text/plain",
        "TEXT/plain;charset=utf-8",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "text/plain; application/json",
    ],
)
def test_content_types_that_a_browser_sends_unasked_are_refused(tmp_path, kind):
    headers = {"host": "127.0.0.1", "content-type": kind}
    requests = [("POST", path, body, headers) for path, body in CHANGES]
    statuses, rows, erased = asked(tmp_path, requests)
    assert set(statuses) == {415}
    assert (rows, erased) == (1, False)


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"host": "127.0.0.1:8800"},
        {"host": "127.0.0.9"},
        {"host": "LocalHost"},
        {"host": "[::1]:8800"},
        {"host": "likewise.example.org"},
        {"host": "127.0.0.1:8800", "origin": "http://127.0.0.1:8800"},
        {"host": "127.0.0.1:8800", "origin": "https://likewise.example.org"},
        {"host": "127.0.0.1:8800", "sec-fetch-site": "same-origin"},
        {"host": "127.0.0.1:8800", "sec-fetch-site": "none"},
    ],
    ids=str,
)
def test_programs_and_own_pages_are_answered(tmp_path, headers):
    requests = [
        ("POST", f"{ONE}/observe", DECISION, JSON | headers),
        ("POST", f"{ONE}/verify", b"{}", JSON | headers),
        ("GET", ONE, b"", headers),
        ("GET", "/metrics", b"", headers),
        ("GET", "/healthz", b"", headers),
    ]
    server = ServerSettings(hosts=("likewise.example.org",))
    statuses, rows, _ = asked(tmp_path, requests, server=server)
    assert (set(statuses), rows) == ({200}, 2)


def test_link_from_another_site_opens_and_a_frame_does_not(tmp_path):
    link = CROSS_SITE | {"sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}
    del link["origin"]
    frame = link | {"sec-fetch-dest": "iframe"}
    requests = [("GET", ONE, b"", link), ("GET", ONE, b"", frame)]
    requests += [("POST", f"{ONE}/observe", DECISION, JSON | link)]
    assert asked(tmp_path, requests)[0] == [200, 403, 403]


@pytest.mark.parametrize("kind", ["tokens", "socket"])
def test_server_with_tokens_or_a_socket_is_reached_by_any_name(tmp_path, kind):
    """As probes and proxies do; a page of another site is still refused."""
    text, hashed = new_token()
    settings = {
        "tokens": {"tokens": [Token("scoring", hashed, ("admin",))]},
        "socket": {"server": ServerSettings(uds=str(tmp_path / "socket"))},
    }[kind]
    named = {"host": "10.1.2.3:8800", "authorization": f"Bearer {text}"}
    requests = [
        ("GET", "/healthz", b"", named),
        ("POST", f"{ONE}/observe", DECISION, JSON | named),
        ("POST", f"{ONE}/observe", DECISION, JSON | named | {"sec-fetch-site": "cross-site"}),
        ("GET", ONE, b"", named | {"origin": "http://evil.example"}),
    ]
    assert asked(tmp_path, requests, **settings)[0] == [200, 200, 403, 403]


@pytest.mark.parametrize("name", ["https://likewise.example.org", "likewise.example.org:443", ""])
def test_hosts_are_names_alone(name):
    with raises(BadRule, setting="hosts"):
        ServerSettings(hosts=(name,))
