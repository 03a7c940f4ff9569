"""Streams, events, history and administration of the running server."""

import http.client
import json
import socket
import threading
import time

import pytest

import likewise as lw
from likewise.service.tokens import new_token
from tests.support.rule_texts import rule_text
from tests.support.serving import serving, settings

pytestmark = pytest.mark.early

MONITORS = """
[monitors.default]
rule = "rule.toml"
ledger = "ledger"

[monitors.memory]
rule = "rule.toml"

[monitors.loans]
rule = "loans.toml"
ledger = "loans"

[monitors.paged]
rule = "loans.toml"
ledger = "paged"
"""
LOANS = rule_text({"id": "key", "age": 5, "sex": "protected"}, output_column="approved")


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("looking")
    (folder / "loans.toml").write_text(LOANS)
    secret, hashed = new_token()
    text = (
        "[limits]\nrecent = 5\nreaders = 2\nline_bytes = 300\nbody_seconds = 2\n"
        f'[[tokens]]\nname = "auditor"\nhash = "{hashed}"\nscopes = ["admin"]\n'
    )
    path = settings(folder, text, monitors=MONITORS)
    with serving(path, token=secret) as running:
        running.folder = folder
        yield running


def rows_of(server):
    return server.get().json()["rows"]


# Streams


class Stream:
    """A connection on which lines are sent and read as one likes."""

    def __init__(self, server, name="default", query="", room=None):
        self.socket = socket.socket()
        self.socket.settimeout(20)
        if room is not None:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, room)
        self.socket.connect((server.host, server.port))
        self.file = self.socket.makefile("rb")
        head = (
            f"POST /v1/monitors/{name}/stream{query} HTTP/1.1\r\nhost: x\r\n"
            "content-type: application/x-ndjson\r\n"
            f"authorization: Bearer {server.token}\r\ntransfer-encoding: chunked\r\n\r\n"
        )
        self.socket.sendall(head.encode())

    def send(self, body):
        self.socket.sendall(b"%x\r\n%s\r\n" % (len(body), body))

    def end(self):
        self.socket.sendall(b"0\r\n\r\n")

    def head(self):
        lines = []
        while (line := self.file.readline().strip()) != b"":
            lines.append(line)
        return lines

    def chunk(self):
        size = int(self.file.readline(), 16)
        body = self.file.read(size)
        self.file.readline()
        return body

    def close(self):
        self.file.close()
        self.socket.close()


def line(x, z, **more):
    return json.dumps({"x": [x], "z": z, **more}).encode() + b"\n"


@pytest.mark.parametrize("name", ["default", "memory"])
def test_a_line_is_answered_before_the_next_is_sent(server, name):
    stream = Stream(server, name)
    try:
        stream.send(line(1.0, "a"))
        assert b"200" in stream.head()[0]
        first = json.loads(stream.chunk())
        stream.send(line(1.05, "b")[:10])
        stream.send(line(1.05, "b")[10:])
        second = json.loads(stream.chunk())
        assert second["row"] == first["row"] + 1 and second["violation"]
        stream.send(line(1.0, "a") + line(1.0, "a")[:-1])  # the last one has no line end
        assert json.loads(stream.chunk())["row"] == first["row"] + 2
        stream.end()
        assert json.loads(stream.chunk())["row"] == first["row"] + 3
        assert stream.chunk() == b""
    finally:
        stream.close()


def test_bad_lines_are_answered_with_their_errors_and_the_stream_goes_on(server):
    lines = [
        line(5.0, "a", key="s1"),
        b"nonsense\n",
        b"\n",
        line(5.0, "b", key="s1"),
        b'{"x": [1], "z": "' + b"a" * 400 + b'"}\n',
        b'{"x": [1], "x": [2], "z": "a"}\n',
        line(5.0, "b", key="s2"),
    ]
    before = rows_of(server)
    answer = server.post("stream?wait=durable", b"".join(lines))
    told = [json.loads(one) for one in answer.body.splitlines()]
    assert [one.get("status", 200) for one in told] == [200, 400, 409, 413, 400, 200]
    assert [one["line"] for one in told if "line" in one] == [2, 4, 5, 6]
    assert told[-1]["row"] == before + 1 == rows_of(server) - 1
    assert told[-1]["witnesses"][0]["row"] == before


def test_a_long_stream_in_pieces_of_any_size_is_answered_in_order(server):
    lines = b"".join(line(10.0 + i % 7, "ab"[i % 2], key=f"long {i}") for i in range(900))
    before = rows_of(server)
    stream = Stream(server)

    def write():
        for begin in range(0, len(lines), 1013):
            stream.send(lines[begin : begin + 1013])
        stream.end()

    writer = threading.Thread(target=write)
    writer.start()
    try:
        stream.head()
        told = b""
        while piece := stream.chunk():
            told += piece
    finally:
        writer.join()
        stream.close()
    rows = [json.loads(one)["row"] for one in told.splitlines()]
    assert rows == list(range(before, before + 900))


def test_a_client_that_does_not_read_its_answers_is_stopped_and_let_go_of(server):
    stream = Stream(server, "memory", room=4096)
    many = b"nonsense\n" * 5000  # whose answers are longer than they are
    sent = 0
    with pytest.raises(OSError):  # it stops taking them, and then lets go
        for _ in range(4000):
            stream.send(many)
            sent += 1
    stream.close()
    assert 0 < sent < 4000
    assert server.get().status == 200


def test_a_stream_cut_off_in_a_line_takes_no_half_of_it(server):
    before = rows_of(server)
    stream = Stream(server)
    stream.send(line(20.0, "a") + line(20.0, "b")[:-5])
    stream.head()
    assert json.loads(stream.chunk())["row"] == before
    stream.close()
    time.sleep(0.2)
    assert rows_of(server) == before + 1


# Events


class Events:
    """A reader of events."""

    def __init__(self, server, name="default", **headers):
        self.connection = server.connection()
        headers = {"authorization": f"Bearer {server.token}", **headers}
        self.connection.request("GET", f"/v1/monitors/{name}/events", headers=headers)
        self.response = self.connection.getresponse()
        if self.response.status != 200:
            self.close()
            raise AssertionError(self.response.status)
        assert self.next() == {"retry": "1000"}

    def next(self):
        fields = {}
        while (line := self.response.readline().rstrip(b"\n")) != b"":
            name, _, value = line.decode().partition(": ")
            fields[name] = value
        return fields

    def close(self):
        self.response.close()
        self.connection.close()


@pytest.mark.parametrize("name", ["default", "memory"])
def test_events_come_as_they_happen_and_resume_where_a_reader_was(server, name):
    server.name = name
    events = Events(server, name)
    try:
        server.post("observe", {"x": [100.0], "z": "a"})
        row = server.post("observe", {"x": [100.0], "z": "b"}).json()["row"]
        event = events.next()
        assert (event["event"], event["id"]) == ("verdict", str(row))
        assert json.loads(event["data"])["witnesses"][0]["row"] == row - 1
    finally:
        events.close()
    server.post("batch", {"x": [[100.0]] * 3, "z": ["a", "b", "a"]})
    again = Events(server, name, **{"Last-Event-ID": str(row)})
    try:
        assert [int(again.next()["id"]) for _ in range(3)] == [row + 1, row + 2, row + 3]
    finally:
        again.close()
        server.name = "default"


def test_what_has_left_the_ring_comes_from_the_ledger_or_is_said_to_be_gone(server):
    for name in ("default", "memory"):
        server.name = name
        first = server.post("batch", {"x": [[200.0]] * 12, "z": ["a", "b"] * 6}).json()["first_row"]
        events = Events(server, name, **{"Last-Event-ID": str(first)})
        try:
            if name == "memory":
                gap = events.next()
                assert gap["event"] == "gap" and int(gap["id"]) == first + 6
                wanted = range(first + 7, first + 12)
            else:
                wanted = range(first + 1, first + 12)
            assert [int(events.next()["id"]) for _ in wanted] == list(wanted)
        finally:
            events.close()
    server.name = "default"
    events = Events(server, **{"Last-Event-ID": str(10**9)})
    assert events.next()["event"] == "gap"
    events.close()


def test_only_so_many_readers_listen_at_once(server):
    readers = [listening(server) for _ in range(2)]
    try:
        refused = server.get("events")
        assert refused.status == 503 and "retry-after" in refused.headers
    finally:
        for reader in readers:
            reader.close()
    listening(server).close()


def test_a_reader_of_events_that_does_not_read_is_let_go_of(server):
    """Its place is free again, and nobody waits for it meanwhile."""
    stuck = []
    try:
        for _ in range(2):
            one = socket.socket()
            one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
            one.connect((server.host, server.port))
            head = (
                "GET /v1/monitors/memory/events HTTP/1.1\r\nhost: x\r\n"
                f"authorization: Bearer {server.token}\r\n\r\n"
            )
            one.sendall(head.encode())
            assert one.recv(12) == b"HTTP/1.1 200"
            stuck.append(one)
        server.name = "memory"
        batch = {"x": [[7000.0]] * 5, "z": ["a", "b"] * 2 + ["a"], "models": "m" * 100}
        end = time.monotonic() + 60
        while not has_place(server):
            for _ in range(20):
                assert server.post("batch", batch).status == 200
            assert time.monotonic() < end
    finally:
        server.name = "default"
        for one in stuck:
            one.close()


def has_place(server):
    try:
        Events(server).close()
    except AssertionError:
        return False
    return True


def listening(server):
    """A reader, as soon as the server has seen others go."""
    end = time.monotonic() + 20
    while True:
        try:
            return Events(server)
        except AssertionError:
            assert time.monotonic() < end
            time.sleep(0.05)


# History


def test_a_monitor_says_what_it_is(server):
    told = server.get().json()
    assert lw.Rule.from_toml(told["rule"]).fingerprint == told["fingerprint"]
    assert told["durable"] and told["durability"] == "commit" and told["exact"]
    assert (
        told["window"] == "all"
        and told["missing_decisions"] == 0
        and told["rows"] >= told["remembered"]
    )


def test_verdicts_come_in_pages_and_by_what_is_asked(server):
    server.name = "paged"
    try:
        rows = [
            {
                "id": f"v{i}",
                "age": 40 + i,
                "sex": "fm"[i % 2],
                "approved": ["yes", "no"][i % 3 == 0],
            }
            for i in range(6)
        ]
        for i, row in enumerate(rows):
            server.post("observe", {"values": row, "model": f"m{i % 2}"})
        whole = server.get("verdicts").json()
        assert whole["next"] is None and whole["source"] == "ledger"
        found = [one["row"] for one in whole["verdicts"]]
        assert len(found) >= 4 and whole["verdicts"][0]["time"].endswith("Z")
        pages, after = [], -1
        while after is not None:
            page = server.get(f"verdicts?after={after}&limit=2").json() if after >= 0 else None
            page = page or server.get("verdicts?limit=2").json()
            pages += [one["row"] for one in page["verdicts"]]
            after = page["next"]
        assert pages == found
        for query, holds in (
            ("group=sex:f", lambda one: one["row"] % 2 == 0),
            ("model=m1", lambda one: one["row"] % 2 == 1),
            ("output=no", lambda one: one["output"] == "no"),
            ("within=0.2", lambda one: one["witnesses"][0]["input_distance"] <= 0.2),
            ("since=2100-01-01", lambda one: False),
            ("review=justified", lambda one: False),
        ):
            some = server.get(f"verdicts?{query}").json()["verdicts"]
            assert some == [one for one in whole["verdicts"] if holds(one)], query
        for bad in ("limit=0", "limit=x", "after=-1", "group=sex", "since=soon", "within=nan"):
            assert server.get(f"verdicts?{bad}").status == 400, bad
        assert server.get("verdicts?group=age:4").status == 400
    finally:
        server.name = "default"


def test_a_decision_stands_beside_what_it_contradicts_and_is_reviewed_overruled_and_erased(server):
    server.name = "loans"
    try:
        one = {"id": "case 1", "age": 20, "sex": "f", "approved": "no"}
        other = {**one, "id": "case 2", "age": 21, "approved": "yes"}
        first = server.post("observe", {"values": one}).json()["row"]
        second = server.post("observe", {"values": other}).json()["row"]
        review = {
            "row": second,
            "witness": first,
            "disposition": "error",
            "reason": "typed wrongly",
            "reviewer": "auditor",
        }
        assert server.post("reviews", review).json() == {"done": True}
        assert server.post("reviews", {**review, "row": first, "witness": None}).status == 404
        assert server.post("reviews", {**review, "disposition": "fine"}).status == 400
        look = server.get(f"decisions/{second}").json()
        assert look["decision"]["values"]["age"] == 21 and look["count"] == 1
        assert look["witnesses"][0]["values"]["age"] == 20
        assert look["witnesses"][0]["input_distance"] == pytest.approx(0.2)
        assert look["reviews"][0]["reason"] == "typed wrongly"
        after = {"key": "case 2", "output": "no", "by": "auditor", "why": "typed wrongly"}
        assert server.post("supersede", after).json()["violation"] is False
        assert server.post("supersede", after).status == 404
        assert server.post("erase", {"keys": ["case 1"]}).json()["rows"] == [first]
        gone = server.get(f"decisions/{first}").json()["decision"]
        assert gone["erased"] and gone["values"] is None and gone["key"] is None
        assert server.post("erase", {"rows": [10**9]}).status == 404
        assert server.post("erase", {}).status == 422
        assert server.get(f"decisions/{10**9}").status == 404
        assert server.get("decisions/x").status == 400
        with lw.Ledger(server.folder / "loans") as ledger:
            said = [event.body for event in ledger.events() if event.kind == "administration"]
        assert [one["what"] for one in said][:1] == ["review"]
        assert {"erase", "supersede", "review"} <= {one["what"] for one in said}
        assert {one["who"] for one in said} == {"auditor"}
        assert "case 1" not in json.dumps(said) and "R. Case" not in json.dumps(said)
    finally:
        server.name = "default"


def test_head_verify_and_stats_agree_with_the_ledger(server):
    server.post("observe", {"x": [300.0], "z": "a"})
    head = server.get("head").json()
    assert server.post("verify", {"head": head["head"]}).json()["ok"] is True
    assert server.post("verify", {}).json()["ok"] is True
    assert server.post("verify", {"head": "likewise-head 2 5 3 " + 64 * "0"}).json()["problem"]
    assert server.post("verify", {"head": "nonsense"}).status == 422
    told = server.get("stats?last=1%20hour").json()
    assert told["decisions"] == head["rows"] == told["judged"] and told["source"] == "ledger"
    with lw.Ledger(server.folder / "ledger") as ledger:
        assert told["violations"] == ledger.stats().violations
    assert server.get("stats?last=soon").status == 400


def test_a_monitor_in_memory_says_what_it_cannot_know(server):
    server.name = "memory"
    try:
        assert server.get("stats").json()["source"] == "process"
        for i in range(7):  # more contradictions than are kept
            assert server.post("observe", {"x": [900.0], "z": "ab"[i % 2]}).status == 200
        page = server.get("verdicts").json()
        assert page["source"] == "memory" and page["earlier_unavailable"]
        for verb in ("head", "stats?last=1%20hour", "verdicts?since=1"):
            answer = server.get(verb)
            assert answer.status == 400 and "ledger" in answer.json()["message"]
        body = {"key": "k", "output": "a", "by": "b", "why": "c"}
        assert server.post("supersede", body).status == 400
        assert server.post("verify", {}).status == 400
    finally:
        server.name = "default"


# Connections


def test_half_a_request_is_let_go_of_in_time_and_others_are_served(server):
    half = [socket.create_connection((server.host, server.port), 30) for _ in range(20)]
    for i, one in enumerate(half):
        if i % 2:
            one.sendall(b"POST /v1/monitors/default/observe HTTP/1.1\r\nhost: x\r\n")
    slow = server.connection()
    slow.putrequest("POST", "/v1/monitors/default/observe")
    slow.putheader("authorization", f"Bearer {server.token}")
    slow.putheader("content-type", "application/json")
    slow.putheader("content-length", "1000")
    slow.endheaders(b'{"x":')
    assert server.get().status == 200
    assert slow.getresponse().status == 408
    slow.close()
    for one in half:
        assert one.recv(1000) == b""
        one.close()


def test_a_client_that_goes_in_mid_batch_has_sent_nothing(server):
    before = rows_of(server)
    body = json.dumps({"x": [[400.0]] * 1000, "z": ["a"] * 1000}).encode()
    connection = server.connection()
    connection.putrequest("POST", "/v1/monitors/default/batch")
    connection.putheader("authorization", f"Bearer {server.token}")
    connection.putheader("content-type", "application/json")
    connection.putheader("content-length", str(len(body)))
    connection.endheaders(body[:-10])
    connection.close()
    time.sleep(0.2)
    assert rows_of(server) == before


@pytest.mark.long
def test_http_client_errors_do_not_end_the_server(server):
    for raw in (b"\x00\xff\x00\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"GET " + b"/" * 70_000):
        with socket.create_connection((server.host, server.port), 10) as one:
            one.sendall(raw)
            one.shutdown(socket.SHUT_WR)
            one.recv(100)
    assert server.get().status == 200
    assert isinstance(server.connection(), http.client.HTTPConnection)
