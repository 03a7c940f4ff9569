"""Single decisions over real connections: every request is answered once, in order, and counted."""

import asyncio
import json
import re
import socket
import time
from contextlib import contextmanager

import pytest

from likewise.service.service import UnopenedMonitor
from likewise.service.settings import Limits, Token
from likewise.service.tokens import new_token
from tests.service.asgi_calls import call
from tests.service.asgi_calls import serving as in_process
from tests.support.serving import SECONDS, serving, settings

OBSERVE = "/v1/monitors/default/observe"
BODIES = {
    b'{"x":[0.1,0.2],"z":"a"}': 200,
    b'{"x":[0.1,0.25],"z":"b"}': 200,
    b'{"x":[0,1],"z":"b"}': 200,
    b'{"x":[0.1,0.2],"z":"b","key":"k1"}': 200,
    b'{"x":[0.1,0.2], "z":"b","key":"k1"}': 409,
    b'{"x":[0.1,0.2],"z":"a","model":"m"}': 200,
    b'{"x":[0.1,0.2],"z":"a","key":"k2","model":"n"}': 200,
    b'{"x":[0.1,0.2,0.3],"z":"a"}': 422,
    b'{"x":[0.1,"b"],"z":"a"}': 422,
    b'{"x":[0.1,18014398509481985],"z":"a"}': 422,
    b'{"x":[0.1,NaN],"z":"a"}': 400,
    b'{"x":[0.1,1e400],"z":"a"}': 422,
    b'{"x":"text","z":"a"}': 422,
    b'{"x":[],"z":"a"}': 422,
    b'{"x":[0.1,0.2]}': 422,
    b'{"x":[0.1,0.2],"z":"a","z":"b"}': 400,
    b'{"x":[0.1,0.2],"z":"a","y":1}': 422,
    b'{"x":[0.1,0.2],"z":"\\ud800"}': 400,
    b'{"x":[0.1,0.2],"z":"a","time":5}': 422,
    b'{"x":[0.1,0.2],"z":"' + b"a" * 2000 + b'"}': 413,
    b'{"x":[0.1,0.2],"z":"' + b"a" * 70_000 + b'"}': 413,
    b'{"values":{"a":1}}': 422,
    b"[]": 422,
    b"{": 400,
    b"": 400,
}
"""What is sent to a monitor of vectors of two numbers, and the status of the answer."""


@contextmanager
def serving_with_tokens(folder):
    token, hashed = new_token()
    _, unused = new_token()
    tokens = "".join(
        f'[[tokens]]\nname = "{name}"\nhash = "{made}"\nscopes = ["{scope}", "read"]\n'
        for name, made, scope in (("one", hashed, "observe"), ("two", unused, "review"))
    )
    monitors = '[monitors.default]\nrule = "rule.toml"\n'
    limits = "[limits]\nrate = 1e9\nlabels = 4\nbody_seconds = 1.0\n"
    with serving(settings(folder, limits + tokens, monitors=monitors)) as running:
        running.token = token
        yield running


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with serving_with_tokens(tmp_path_factory.mktemp("single")) as running:
        yield running


@pytest.fixture
def own_server(tmp_path):
    """A service whose counts are those of one test."""
    with serving_with_tokens(tmp_path) as running:
        yield running


def sent(server, *pieces, pause=0.0, answers=1):
    """What is answered to bytes that are sent piece by piece, as (status line, headers, body)."""
    with socket.create_connection((server.host, server.port), timeout=SECONDS) as connection:
        for piece in pieces:
            connection.sendall(piece)
            time.sleep(pause)
        file = connection.makefile("rb")
        found = []
        for _ in range(answers):
            status, headers = file.readline(), {}
            while status.startswith(b"HTTP/1.1 100"):
                assert file.readline() == b"\r\n"
                status = file.readline()
            while (line := file.readline().rstrip()) != b"":
                name, _, value = line.partition(b": ")
                headers[name] = value
            found.append((status, headers, file.read(int(headers.get(b"content-length", 0)))))
        return found


def request(server, body, *more, path=OBSERVE, token=None, version=b"1.1"):
    token = server.token if token is None else token
    lines = [
        b"POST %b HTTP/%b" % (path.encode(), version),
        b"Host: here",
        b"Content-Type: application/json",
        b"Content-Length: %d" % len(body),
        *([b"Authorization: Bearer " + token.encode()] if token else []),
        *more,
    ]
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


def test_every_body_is_answered_and_counted(own_server):
    for body, expected in BODIES.items():
        ((status, headers, answer),) = sent(own_server, request(own_server, body))
        assert int(status.split()[1]) == expected, (body[:100], answer)
        assert headers[b"content-type"] == b"application/json"
        assert ("code" in json.loads(answer)) == (expected != 200)
    taken = sum(status == 200 for status in BODIES.values())
    stats = own_server.get("stats").json()
    assert stats["decisions"] == own_server.get().json()["rows"] == taken
    assert stats["violations"] > 2
    page = own_server.ask("GET", "/metrics").body.decode()
    refused = re.findall(r"^likewise_refused_decisions_total\{.*\} ([0-9.]+)$", page, re.MULTILINE)
    assert sum(map(float, refused)) == len(BODIES) - taken
    flagged = own_server.get("verdicts").json()["verdicts"]
    assert len(flagged) == stats["violations"]


def test_a_time_that_cannot_be_read_is_refused(server):
    rows = server.get().json()["rows"]
    body = b'{"x":[0.1,0.2],"z":"a","time":"soon"}'
    ((status, _, answer),) = sent(server, request(server, body))
    assert status.startswith(b"HTTP/1.1 422") and json.loads(answer)["code"] == "unexpected-value"
    assert server.get().json()["rows"] == rows


@pytest.mark.parametrize("token", ["", "lw_unknown"])
def test_whoever_has_no_known_token_is_refused(server, token):
    for body in list(BODIES)[:3]:
        ((status, _, _),) = sent(server, request(server, body, token=token))
        assert status.startswith(b"HTTP/1.1 401")


def test_requests_in_one_piece_in_several_and_one_behind_the_other_are_all_answered(server):
    body = b'{"x":[5.0,5.0],"z":"a"}'
    whole = request(server, body)
    row = json.loads(sent(server, whole)[0][2])["row"]
    several = sent(server, whole * 5, answers=5)
    assert [json.loads(answer[2])["row"] for answer in several] == list(range(row + 1, row + 6))
    cut = len(whole) - len(body)
    for at in (3, cut - 2, cut, cut + 5, len(whole) - 1):
        ((status, _, answer),) = sent(server, whole[:at], whole[at:], pause=0.05)
        row += 1
        assert status == b"HTTP/1.1 200 OK\r\n" and json.loads(answer)["row"] == row + 5
    mixed = whole + request(server, body, path="/v1/monitors/default/check") + whole
    rows = [json.loads(answer[2])["row"] for answer in sent(server, mixed, answers=3)]
    assert rows == [row + 6, None, row + 7]
    half = sent(server, whole + whole[:-3], whole[-3:] + whole, pause=0.05, answers=3)
    assert [json.loads(answer[2])["row"] for answer in half] == [row + 8, row + 9, row + 10]


def test_requests_with_the_same_first_lines_are_each_judged_by_their_own_body(server):
    bodies = [b'{"x":[7.0,7.0],"z":"a"}', b'{"x":[7.0,7.5],"z":"a"}', b'{"x":[7.0],"z":"abcde"}']
    end = b'{"x":[7.0,7.0],\r\n\r\n"z":"a"}'
    pieces = [request(server, body) for body in (*bodies, end) * 3]
    assert len({len(piece) for piece in pieces[:3]}) == 1, "the same first lines"
    joined = [pieces[0] + pieces[1], pieces[0][:-5], pieces[0][-5:] + pieces[1], pieces[1]]
    other = request(server, bodies[0], path="/v1/monitors/default/check")
    mixed = [other, pieces[0], pieces[0] + other, b"\r\n" + pieces[0], b"\r\n", pieces[0]]
    found = sent(server, *pieces, *joined, *mixed, pause=0.03, answers=len(pieces) + 11)
    kinds = [(status[9:12], json.loads(answer).get("row")) for status, _, answer in found]
    rows = [row for _, row in kinds if row is not None]
    assert rows == list(range(rows[0], rows[0] + 18)), "each once, in order"
    refused = [i for i, (status, _) in enumerate(kinds) if status != b"200"]
    assert refused == [2, 6, 10], "of another shape"
    checked = [i for i, (_, row) in enumerate(kinds) if row is None and i not in refused]
    assert checked == [17, 20]
    unknown = pieces[0].replace(server.token.encode(), b"lw_" + b"a" * (len(server.token) - 3))
    assert len(unknown) == len(pieces[0])
    assert sent(server, unknown)[0][0].startswith(b"HTTP/1.1 401")


def test_other_ways_of_asking_work(server):
    body = b'{"x":[6.0,6.0],"z":"a"}'
    for more, version in (
        ([b"Connection: close"], b"1.1"),
        ([], b"1.0"),
        ([b"Expect: 100-continue"], b"1.1"),
    ):
        ((status, headers, answer),) = sent(server, request(server, body, *more, version=version))
        assert status.endswith(b" 200 OK\r\n") and json.loads(answer)["row"] >= 0
        closes = b"close" in b"".join(more) or version == b"1.0"
        assert (headers.get(b"connection") == b"close") == closes
    head = request(server, b"").replace(b"Content-Length: 0", b"Transfer-Encoding: chunked")
    chunks = b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
    ((status, _, answer),) = sent(server, head + chunks)
    assert status == b"HTTP/1.1 200 OK\r\n" and json.loads(answer)["row"] >= 0


def test_a_body_that_never_ends_or_never_begins_is_answered_in_time(server):
    whole = request(server, b'{"x":[6.0,6.0],"z":"a"}')
    for part in (whole[:-1], whole.partition(b"{")[0]):
        ((status, _, _),) = sent(server, part)
        assert status.startswith(b"HTTP/1.1 408")


def test_a_head_that_is_too_long_is_answered(server):
    ((status, headers, body),) = sent(server, b"GET /" + b"a" * 70_000)
    assert status.startswith(b"HTTP/1.1 431") and headers[b"connection"] == b"close"
    assert json.loads(body)["code"] == "refused"


def test_what_is_refused_leaves_no_trace_but_its_count(tmp_path):
    token, hashed = new_token()
    known = {"authorization": f"Bearer {token}"}
    good = b'{"x":[1.0],"z":"a"}'

    async def run():
        limits, tokens = Limits(rate=2.0), [Token("one", hashed, ("observe",))]
        async with in_process(tmp_path, limits=limits, tokens=tokens) as app:
            served, service = app.service.monitors["default"], app.service

            async def status(body, headers=known):
                return (await call(app, "POST", OBSERVE, body, headers)).status

            assert await status(good) == 200
            assert [await status(good, {}), await status(b"{")] == [401, 400]
            assert await status(b'{"x":[1.0]}') == 422
            assert await status(b'{"x":[1.0, 2.0],"z":"a"}') == 422
            assert service.refused == {"401": 1}
            assert served.counts.refused == {"400": 1, "422": 1, "wrong-shape": 1}
            service.active_requests = service.settings.limits.requests
            assert await status(good) == 503, "too many are under way"
            service.active_requests = 0
            monitors, service.monitors = service.monitors, {}
            service.pending["default"] = UnopenedMonitor()
            assert await status(good) == 503, "the ledger is not open"
            service.monitors = monitors
            assert [await status(good) for _ in range(20)] == [200] * 15 + [429] * 5
            assert served.monitor.rows == 16

    asyncio.run(run())


def test_a_fault_is_answered_with_500_and_counted(tmp_path, monkeypatch):
    async def run():
        async with in_process(tmp_path) as app:
            served = app.service.monitors["default"]
            monkeypatch.setattr(served, "observe", lambda *_, **__: 1 / 0)
            answer = await call(app, "POST", OBSERVE, b'{"x":[1.0],"z":"a"}')
            assert answer.status == 500 and "ZeroDivisionError" in answer.json["message"]
            assert app.service.refused == {"500": 1} and served.monitor.rows == 0

    asyncio.run(run())
