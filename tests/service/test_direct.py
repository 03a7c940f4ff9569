"""Requests that are answered as they are read are answered as all others are."""

import asyncio
import json
import socket
import time
from contextlib import contextmanager

import pytest

from likewise.service.settings import Limits, Token
from likewise.service.tokens import new_token
from tests.service.asgi_calls import serving as in_process
from tests.serving import SECONDS, serving, settings

direct = pytest.importorskip("likewise.service.direct")

DIRECT, OTHER = "/v1/monitors/direct/observe", "/v1/monitors/other/observe?wait=judged"
BODIES = [
    b'{"x":[0.1,0.2],"z":"a"}',
    b'{"x":[0.1,0.25],"z":"b"}',
    b'{"x":[0,1],"z":"b"}',
    b'{"x":[0.1,0.2],"z":"b","key":"k1"}',
    b'{"x":[0.1,0.2],"z":"b","key":"k1"}',
    b'{"x":[0.1,0.2],"z":"a","model":"m"}',
    b'{"x":[0.1,0.2],"z":"a","key":"k2","model":"n"}',
    b'{"x":[0.1,0.2,0.3],"z":"a"}',
    b'{"x":[0.1,"b"],"z":"a"}',
    b'{"x":[0.1,18014398509481985],"z":"a"}',
    b'{"x":"text","z":"a"}',
    b'{"x":[],"z":"a"}',
    b'{"x":[0.1,0.2]}',
    b'{"x":[0.1,0.2],"z":"a","z":"b"}',
    b'{"x":[0.1,0.2],"z":"a","y":1}',
    b'{"x":[0.1,0.2],"z":"\\ud800"}',
    b'{"x":[0.1,0.2],"z":"a","time":5}',
    b'{"x":[0.1,0.2],"z":"a","time":"soon"}',
    b'{"x":[0.1,0.2],"z":"' + b"a" * 2000 + b'"}',
    b'{"x":[0.1,0.2],"z":"' + b"a" * 70_000 + b'"}',
    b'{"values":{"a":1}}',
    b"[]",
    b"{",
    b"",
]


@contextmanager
def serving_both(folder):
    token, hashed = new_token()
    _, unused = new_token()
    tokens = "".join(
        f'[[tokens]]\nname = "{name}"\nhash = "{made}"\nscopes = ["{scope}", "read"]\n'
        for name, made, scope in (("one", hashed, "observe"), ("two", unused, "review"))
    )
    monitors = "".join(f'[monitors.{name}]\nrule = "rule.toml"\n' for name in ("direct", "other"))
    limits = "[limits]\nrate = 1e9\nlabels = 4\nbody_seconds = 1.0\n"
    with serving(settings(folder, limits + tokens, monitors=monitors)) as running:
        running.token = token
        yield running


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with serving_both(tmp_path_factory.mktemp("direct")) as running:
        yield running


@pytest.fixture
def own_server(tmp_path):
    """A service whose counts are those of one test."""
    with serving_both(tmp_path) as running:
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


def request(server, path, body, *more, token=None, version=b"1.1"):
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


def test_every_body_is_answered_and_counted_as_on_the_other_way(own_server):
    for body in BODIES:
        (mine,) = sent(own_server, request(own_server, DIRECT, body))
        (other,) = sent(own_server, request(own_server, OTHER, body))
        assert mine == other, body
    stats = [
        own_server.ask("GET", f"/v1/monitors/{name}/stats").json() for name in ("direct", "other")
    ]
    assert stats[0] == stats[1] and stats[0]["violations"] > 2
    page = own_server.ask("GET", "/metrics").body.decode()
    counts = [
        sorted(
            line.replace(name, "")
            for line in page.splitlines()
            if f'monitor="{name}"' in line and ("_total" in line or "_count" in line)
        )
        for name in ("direct", "other")
    ]
    assert counts[0] == counts[1] and any("refused" in line for line in counts[0])
    found = [
        own_server.ask("GET", f"/v1/monitors/{name}/verdicts").json()["verdicts"]
        for name in ("direct", "other")
    ]
    assert found[0] == found[1] and found[0]


@pytest.mark.parametrize("token", ["", "lw_unknown"])
def test_whoever_may_not_is_refused_on_both_ways(server, token):
    for body in BODIES[:3]:
        answers = [
            sent(server, request(server, path, body, token=token)) for path in (DIRECT, OTHER)
        ]
        assert answers[0] == answers[1]
        assert answers[0][0][0].startswith(b"HTTP/1.1 401")


def test_requests_in_one_piece_in_several_and_one_behind_the_other_are_all_answered(server):
    body = b'{"x":[5.0,5.0],"z":"a"}'
    whole = request(server, DIRECT, body)
    row = json.loads(sent(server, whole)[0][2])["row"]
    several = sent(server, whole * 5, answers=5)
    assert [json.loads(answer[2])["row"] for answer in several] == list(range(row + 1, row + 6))
    cut = len(whole) - len(body)
    for at in (3, cut - 2, cut, cut + 5, len(whole) - 1):
        ((status, _, answer),) = sent(server, whole[:at], whole[at:], pause=0.05)
        row += 1
        assert status == b"HTTP/1.1 200 OK\r\n" and json.loads(answer)["row"] == row + 5
    mixed = whole + request(server, "/v1/monitors/direct/check", body) + whole
    rows = [json.loads(answer[2])["row"] for answer in sent(server, mixed, answers=3)]
    assert rows == [row + 6, None, row + 7]
    half = sent(server, whole + whole[:-3], whole[-3:] + whole, pause=0.05, answers=3)
    assert [json.loads(answer[2])["row"] for answer in half] == [row + 8, row + 9, row + 10]


def test_first_lines_that_are_known_mean_the_same_again(server):
    bodies = [b'{"x":[7.0,7.0],"z":"a"}', b'{"x":[7.0,7.5],"z":"a"}', b'{"x":[7.0],"z":"abcde"}']
    end = b'{"x":[7.0,7.0],\r\n\r\n"z":"a"}'
    pieces = [request(server, DIRECT, body) for body in (*bodies, end) * 3]
    assert len({len(piece) for piece in pieces[:3]}) == 1, "the same first lines"
    joined = [pieces[0] + pieces[1], pieces[0][:-5], pieces[0][-5:] + pieces[1], pieces[1]]
    other = request(server, "/v1/monitors/direct/check", bodies[0])
    mixed = [other, pieces[0], pieces[0] + other, b"\r\n" + pieces[0], b"\r\n", pieces[0]]
    found = sent(server, *pieces, *joined, *mixed, pause=0.03, answers=len(pieces) + 11)
    kinds = [(status[9:12], json.loads(answer)["row"]) for status, _, answer in found]
    rows = [row for _, row in kinds if row is not None]
    assert rows == list(range(rows[0], rows[0] + 18)), "each once, in order"
    refused = [i for i, (status, _) in enumerate(kinds) if status != b"200"]
    assert refused == [2, 6, 10], "of another shape"
    checked = [i for i, (_, row) in enumerate(kinds) if row is None and i not in refused]
    assert checked == [17, 20]
    unknown = pieces[0].replace(server.token.encode(), b"lw_" + b"a" * (len(server.token) - 3))
    assert len(unknown) == len(pieces[0])
    assert sent(server, unknown)[0][0].startswith(b"HTTP/1.1 401")


def test_so_many_first_lines_are_remembered_and_no_more(tmp_path):
    async def run():
        async with in_process(tmp_path) as app:
            answers = direct.DirectAnswers(app)
            head = direct.RequestHead("default", None, 3)
            for i in range(direct._HEADS):
                answers.remember(b"%d\r\n\r\nabc" % i, head)
            assert answers.known(b"0\r\n\r\n") == head
            for unlike in (b"a" * direct._HEAD_BYTES + b"\r\n\r\nabc", b"a\r\n\r\nab", b"abc"):
                answers.remember(unlike, head)
            assert answers.known(b"0\r\n\r\n") == head, "nothing was added"
            answers.remember(b"one more\r\n\r\nabc", head)
            assert answers.known(b"0\r\n\r\n") is None
            assert answers.known(b"one more\r\n\r\n") == head

    asyncio.run(run())


def test_other_ways_of_asking_still_work(server):
    body = b'{"x":[6.0,6.0],"z":"a"}'
    for more, version in (
        ([b"Connection: close"], b"1.1"),
        ([], b"1.0"),
        ([b"Expect: 100-continue"], b"1.1"),
    ):
        ((status, headers, answer),) = sent(
            server, request(server, DIRECT, body, *more, version=version)
        )
        assert status.endswith(b" 200 OK\r\n") and json.loads(answer)["row"] >= 0
        closes = b"close" in b"".join(more) or version == b"1.0"
        assert (headers.get(b"connection") == b"close") == closes
    head = request(server, DIRECT, b"").replace(b"Content-Length: 0", b"Transfer-Encoding: chunked")
    chunks = b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
    ((status, _, answer),) = sent(server, head + chunks)
    assert status == b"HTTP/1.1 200 OK\r\n" and json.loads(answer)["row"] >= 0


def test_a_body_that_never_ends_is_answered_in_time(server):
    whole = request(server, DIRECT, b'{"x":[6.0,6.0],"z":"a"}')
    ((status, _, _),) = sent(server, whole[:-1])
    assert status.startswith(b"HTTP/1.1 408")


def answers_in_process(folder, script, **more):
    """Have a script play with direct answers of an application in this process."""

    async def run():
        async with in_process(folder, **more) as app:
            answers = direct.DirectAnswers(app)
            url = b"/v1/monitors/default/observe"

            def ask(body, headers):
                given = {b"content-length": b"%d" % len(body), **headers}
                head = answers.head(url, given)
                return None if head is None else answers.answer(head, body)

            await script(app, ask)
            if app.service.tokens:
                return
            assert answers.head(url, {b"content-length": b"5"}) == ("default", None, 5)
            assert answers.head(url + b"?wait=judged", {b"content-length": b"5"}) is None
            assert answers.head(url, {b"content-length": b"70000"}) is None
            assert answers.head(url, {}) is None

    asyncio.run(run())


def test_what_is_refused_before_a_monitor_is_asked_leaves_no_trace_here(tmp_path):
    token, hashed = new_token()
    headers = {b"authorization": b"Bearer " + token.encode()}

    async def script(app, ask):
        hosted = app.service.monitors["default"]
        good = b'{"x":[1.0],"z":"a"}'
        assert ask(good, headers).startswith(b"HTTP/1.1 200 OK\r\n")
        for body, given in ((good, {}), (b"{", headers), (b'{"x":[1.0]}', headers)):
            assert ask(body, given) is None
        assert hosted.monitor.rows == 1 and not hosted.counts.refused and not app.service.refused
        assert ask(b'{"x":[1.0, 2.0],"z":"a"}', headers).startswith(b"HTTP/1.1 422 ")
        assert hosted.counts.refused == {"BadDecision": 1}
        assert sum(ask(good, headers) is not None for _ in range(30)) == 18, "the rate is limited"
        app.service.under_way = app.service.settings.limits.requests
        assert ask(good, headers) is None
        app.service.under_way, app.service.ready = 0, False
        assert ask(good, headers) is None
        app.service.ready = True

    answers_in_process(
        tmp_path, script, limits=Limits(rate=2.0), tokens=[Token("one", hashed, ("observe",))]
    )


def test_a_fault_is_told_and_counted(tmp_path, monkeypatch):
    async def script(app, ask):
        hosted = app.service.monitors["default"]
        monkeypatch.setattr(hosted, "observe_now", lambda _: 1 / 0)
        assert ask(b'{"x":[1.0],"z":"a"}', {}).startswith(b"HTTP/1.1 500 ")
        assert app.service.refused["500"] == 1

    answers_in_process(tmp_path, script)


@pytest.mark.long
def test_a_ledger_is_waited_for(tmp_path):
    async def script(app, ask):
        assert ask(b'{"x":[1.0],"z":"a"}', {}) is None
        assert app.service.monitors["default"].monitor.rows == 0

    answers_in_process(tmp_path, script, ledger=True)
