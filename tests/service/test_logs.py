"""The log says what happens, in lines that a machine can read, and nothing about people."""

import asyncio
import gzip
import io
import json
import logging
import urllib.error
import urllib.request
from dataclasses import replace

import pytest
import uvicorn

from likewise.service.service_log import JsonLogLines, LogReporter, TextLogLines
from likewise.service.settings import Limits, Token
from likewise.service.tokens import new_token
from tests.service.asgi_calls import call, serving
from tests.service.cloudevents.payloads import headers, structured
from tests.support.programs import run_python
from tests.support.serving import command, reached_end, settings, started

MARK = "geheim"
NUMBER = 4242.4242
MONITOR = "/v1/monitors/default"


@pytest.fixture
def written():
    """Everything that is logged, at every level, as text and as JSON."""
    streams = {TextLogLines: io.StringIO(), JsonLogLines: io.StringIO()}
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    handlers = []
    for formatter, stream in streams.items():
        handler = logging.StreamHandler(stream)
        handler.setFormatter(formatter())
        handlers.append(handler)
    root.handlers[:] = handlers
    root.setLevel(logging.DEBUG)
    try:
        yield streams
    finally:
        root.handlers[:] = before
        root.setLevel(level)


def objects(streams):
    return [json.loads(line) for line in streams[JsonLogLines].getvalue().splitlines()]


REFUSED = [
    ("/observe", {"x": [1, NUMBER, 3], "z": MARK}),
    ("/observe", {"x": [NUMBER, MARK], "z": 1}),
    ("/observe", {"x": MARK, "z": 1}),
    ("/observe", {"x": [1, 2], "z": MARK, MARK: 1}),
    ("/observe", {"x": [1, 2], "z": MARK * 1000}),
    ("/observe", {"x": [1, 2], "z": {MARK: NUMBER}}),
    ("/observe", {"x": [1, 2], "z": 1, "key": MARK * 1000}),
    ("/observe", {"x": [1, 2], "z": 1, "key": [MARK]}),
    ("/observe", {"x": [1, 2], "z": 1, "time": MARK}),
    ("/observe", {"x": [1, 2], "z": 1, "time": NUMBER}),
    ("/observe", {"x": [1, 2], "z": 1, "model": MARK * 1000}),
    ("/observe", {"values": {MARK: NUMBER}}),
    ("/observe", {"x": [1, NUMBER], "z": "other", "key": MARK}),  # repeated, and different
    ("/observe?wait=" + MARK, {"x": [1, 2], "z": 1}),
    ("/check", {"x": [1, 2], "z": 1, "key": MARK}),
    ("/batch", {"x": [[1, 2], [NUMBER]], "z": [1, MARK]}),
    ("/batch", {"x": [[1, 2]], "z": [1, MARK]}),
    ("/batch", {"x": [[1, 2]], "z": [MARK], "type": MARK}),
    ("/batch", {"decisions": [{"x": [NUMBER], "z": MARK}]}),
    ("/" + MARK, {}),
    ("/../" + MARK, {}),
]
EVENTS = [
    (headers("request", "a"), json.dumps({"instances": [[NUMBER], MARK]}).encode()),
    (headers("request", "b"), MARK.encode()),
    (headers("request", "c"), gzip.compress(MARK.encode())[:-3]),
    (headers("response", MARK), json.dumps({"predictions": [MARK]}).encode()),
    (headers("request", MARK), json.dumps({"instances": [[NUMBER], [NUMBER]]}).encode()),
    (headers("request", MARK), json.dumps({"instances": [[NUMBER, 1]]}).encode()),
    (headers("request", MARK * 200), b"{}"),
    (headers("request", "d") | {"Ce-Type": MARK}, b"{}"),
    (headers("request", "e", time=MARK), json.dumps({"instances": [[NUMBER, 1]]}).encode()),
    (headers("response", "e", time=MARK), json.dumps({"predictions": [MARK]}).encode()),
    (headers("request", "f") | {"Ce-Namespace": MARK * 1000}, b"{}"),
    (
        {"Content-Type": "application/cloudevents+json"},
        json.dumps(structured("request", {"inputs": MARK}, MARK)).encode(),
    ),
]


def test_no_line_has_a_value_of_a_person(tmp_path, written):
    """Over a real server, through every refusal and an error that nobody foresaw."""

    def post(port, path, body, told):
        url = f"http://127.0.0.1:{port}{path}"
        request = urllib.request.Request(url, body, {"content-type": "application/json"} | told)
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as error:
            return error.code, error.read()

    async def quoting(call):
        raise ValueError(f"no such number: {call.body!r}")

    async def scenario():
        token, hashed = new_token()
        tokens = (Token("t", hashed, ("observe",)),)
        limits = Limits(body_bytes=20_000, pair_seconds=1)
        async with serving(tmp_path, ledger=True, tokens=tokens, limits=limits) as app:
            reporter = LogReporter(app.service)
            config = uvicorn.Config(app, port=0, log_config=None, lifespan="off", access_log=False)
            server = uvicorn.Server(config)
            serve = asyncio.create_task(server.serve())
            while not server.started:
                await asyncio.sleep(0.01)
            port = server.servers[0].sockets[0].getsockname()[1]
            bearer = {"authorization": f"Bearer {token}"}

            async def sent(path, body, told=bearer):
                return await asyncio.to_thread(post, port, path, body, told)

            first = {"x": [1, 2], "z": MARK, "key": MARK}
            assert (await sent(MONITOR + "/observe", json.dumps(first).encode()))[0] == 200
            statuses, told_back = [], b""
            for path, body in REFUSED:
                status, told = await sent(MONITOR + path, json.dumps(body).encode())
                statuses.append(status)
                told_back += told
            status, _ = await sent(MONITOR + "/observe", b'{"x": ["' + MARK.encode())
            statuses.append(status)
            statuses.append((await sent(MONITOR + "/batch", MARK.encode() * 9000))[0])
            wrong = {"authorization": f"Bearer {MARK}"}
            statuses.append((await sent(MONITOR + "/observe", b"{}", wrong))[0])
            other = f"/v1/monitors/{MARK}/observe"
            statuses.append((await sent(other, json.dumps(first).encode()))[0])
            assert all(400 <= status < 500 for status in statuses), statuses
            assert MARK.encode() in told_back, "whoever sends it is told what is wrong with it"
            events = [
                (await sent(f"{MONITOR}/cloudevents", body, bearer | told))[0]
                for told, body in EVENTS
            ]
            assert {200, 400, 409, 413, 422} >= set(events) > {200, 422}
            # an error that nobody foresaw, which quotes what was sent
            app._hot_routes["check"] = replace(app._hot_routes["check"], call=quoting)
            status, _ = await sent(MONITOR + "/check", f"{MARK} {NUMBER}".encode())
            assert status == 500
            await asyncio.sleep(1.1)
            reporter.report_changes()
            server.should_exit = True
            await serve
        reporter.report_end()

    asyncio.run(scenario())
    for stream in written.values():
        text = stream.getvalue()
        assert MARK not in text, [line for line in text.splitlines() if MARK in line]
        assert str(NUMBER) not in text
    lines = objects(written)
    refused = {line["reason"]: line["count"] for line in lines if line.get("event") == "refused"}
    assert {"422", "400", "413", "unexpected-value", "repeated-key", "mismatch"} <= refused.keys()
    assert any(line.get("event") == "dropped" for line in lines)
    assert any("ValueError" in json.dumps(line) for line in lines)


def test_service_tells_its_start_its_losses_and_its_end(tmp_path, written):
    async def scenario():
        limits = Limits(pairs=1)
        async with serving(tmp_path, ledger=True, limits=limits) as app:
            served = app.service.monitors["default"]
            reporter = LogReporter(app.service)
            for told in app.service.on_open:
                told(served)
            reporter.report_ready()
            for i in range(3):
                body = b'{"predictions": [1, 2]}'
                path = f"{MONITOR}/cloudevents"
                await call(app, "POST", path, body, headers("response", f"id{i}"))
            served.counts.commit_durations.add(3.0)
            served.counts.commit_durations.add(1.0)
            reporter.report_changes()
            reporter.report_changes()
            served.counts.dropped["unpaired response"] += 5
            reporter.report_end()

    asyncio.run(scenario())
    lines = [line for line in objects(written) if "event" in line]
    known = {"time", "level", "logger", "message"}
    told = [{name: value for name, value in line.items() if name not in known} for line in lines]
    here = {"monitor": "default"}
    assert told == [
        {"event": "started", "monitors": 1, "tokens": 0},
        {"event": "opened", **here, "rows": 0, "missing_decisions": 0, "durable": True},
        {"event": "ready", "monitors": 1},
        {"event": "dropped", **here, "count": 4, "reason": "unpaired response"},
        {"event": "slow commits", **here, "count": 1, "seconds": 1.0},
        {"event": "dropped", **here, "count": 5, "reason": "unpaired response"},
        {"event": "drained", **here, "decisions": 0, "violations": 0},
    ]
    assert all(line["logger"] == "likewise" for line in lines)


def test_error_is_told_by_its_type_and_place_and_not_by_its_text(written):
    try:
        int(MARK)
    except ValueError:
        logging.getLogger("other").exception("failed")
    for stream in written.values():
        assert MARK not in stream.getvalue()
        assert "ValueError" in stream.getvalue()
        assert "test_logs.py:" in stream.getvalue()
    (line,) = objects(written)
    assert line["raised"] == "ValueError"


def test_line_is_one_line_whatever_is_in_it(written):
    logging.getLogger("other").warning("two\nlines %s", "\r\n{")
    assert written[TextLogLines].getvalue().count("\n") == 1
    (line,) = objects(written)
    assert line["message"] == "two\nlines \r\n{"
    assert line["level"] == "warning"
    assert line["time"].endswith("Z")


NOT_FORESEEN = """
import threading, warnings
from likewise.service.service_log import write_log
write_log("json")
warnings.warn("a warning")
thread = threading.Thread(target=lambda: 1 / 0)
thread.start()
thread.join()
class Bad:
    def __del__(self):
        raise ValueError("geheim")
Bad()
"""


def test_what_python_itself_writes_is_json_too():
    done = run_python("-c", NOT_FORESEEN)
    warned, *raised = [json.loads(line) for line in done.stderr.splitlines()]
    assert warned["logger"] == "py.warnings"
    assert [line["raised"] for line in raised] == ["ZeroDivisionError", "ValueError"]
    assert MARK not in done.stderr


def test_every_line_of_a_server_is_json(tmp_path):
    server = started(settings(tmp_path), "--log-format", "json")
    try:
        assert server.end() == 0
        server.reader.join(60)
        while (line := server.lines.get(timeout=60)) is not None:
            server.told.append(line)
    finally:
        server.kill()
    lines = [json.loads(line) for line in server.told]
    assert {"started", "opened", "ready", "drained"} <= {line.get("event") for line in lines}


def test_why_a_server_does_not_start_is_json(tmp_path):
    path = settings(tmp_path, monitors='[monitors.a]\nrule = "nowhere.toml"\n')
    code, said = reached_end(command(path, "--port", 0, "--log-format", "json"))
    assert code == 2
    lines = [json.loads(line) for line in said.splitlines()]
    assert lines[-1]["level"] == "error"
    assert "nowhere.toml" in lines[-1]["message"]
