"""Golden files of every route of `likewise serve`: requests, statuses, promised headers, bodies.

One real server answers a script of requests in order. What needs other settings or another moment
(too many requests, a server that is not ready yet) is asked of an application in this process.

Left out, since a test would have to trick the server: 408 (a slow body), 500, 501 (no xlsxwriter),
503 of a full or broken disk, and of a second verification at once.
"""

import asyncio
import io
import json
import re
import time
from contextlib import contextmanager
from urllib.parse import urlencode

import pytest

from likewise.pages import page_router
from likewise.service.app import App
from likewise.service.service import Service
from likewise.service.settings import Limits, MonitorSettings, ServiceSettings, Token
from likewise.service.tokens import hash_of
from likewise.tables.exact_values import pack
from likewise.verdict.exact_body import EXACT_CONTENT_TYPE
from tests.golden.exchanges import Exchanges, file_of
from tests.service.asgi_calls import call
from tests.support import golden_files as golden
from tests.support.placeholders import Placeholders
from tests.support.rule_texts import rule_text
from tests.support.serving import Answer, serving

SECONDS = 20
LOANS_RULE = rule_text(
    {"id": "key", "who": "person", "age": 4, "job": "category", "sex": "protected"},
    metric="linf",
    output_column="approved",
    favourable="yes",
)
POINTS_RULE = 'metric = "linf"\nepsilon = 0.5\n'
SLOPES_RULE = POINTS_RULE + 'output = "number"\n'
SCOPES = {
    "chief": ["admin"],
    "sender": ["observe"],
    "reviewer": ["read", "review"],
    "second": ["read", "review"],
    "stranger": ["observe"],
}
TOKENS = {name: f"lw_{name}_{'0' * 32}" for name in SCOPES}
LIMITS = """
[limits]
body_bytes = 6000
line_bytes = 500
batch_rows = 20
label_bytes = 64
key_bytes = 32
witnesses = 2
recent = 4
skew_seconds = 1e10
disk_bytes = 1
"""
MONITORS = """
[monitors.loans]
rule = "loans.toml"
ledger = "loans.ledger"
[monitors.points]
rule = "points.toml"
ledger = "points.ledger"
[monitors.memory]
rule = "points.toml"
burst = { last = 10, alarm = 3 }
[monitors.slopes]
rule = "slopes.toml"
kind = "slopes"
slope_limit = 2.0
[monitors.events]
rule = "points.toml"
[alerts]
outbox = "alerts.sqlite"
every_seconds = 0.05
no_decisions_seconds = 0
stale_head_seconds = 0
[[alerts.receivers]]
name = "on-call"
kind = "webhook"
url = "http://127.0.0.1:9/"
secret_file = "secret"
monitors = ["events"]
"""
V1 = "/v1/monitors/{name}"
ARROW = "application/vnd.apache.arrow.stream"
FORM = "application/x-www-form-urlencoded"
BY_PATH = {"name": "loans", "row": "1", "witness": "0", "id": "none", "look": "outputs"}
OTHER_PATHS = {"file": "style.css"}


def filled(pattern, **more):
    return pattern.format(**(BY_PATH | OTHER_PATHS | more))


def loan(number, age, approved, *, sex="f", job="cook", model="v1"):
    """Decision number n of 2024, about person n."""
    values = {"id": f"loan-{number}", "who": f"person-{number}", "age": age, "job": job}
    return {
        "values": values | {"sex": sex, "approved": approved},
        "time": f"2024-03-01T09:00:{number:02}Z",
        "model": model,
    }


LOANS = [
    loan(0, 30.0, "yes"),
    loan(1, 32.0, "no", sex="m", model="v2"),
    loan(2, 31.0, "no"),
    loan(3, 32.0, "yes", sex="m"),
    loan(4, 31.0, "yes", sex="m", model="v2"),
    loan(5, 31.5, "no"),
    loan(6, 45.0, "yes", job="smith"),
    loan(7, 30.5, "no", model="v2"),
]


@contextmanager
def server(folder):
    """The real server with all its monitors."""
    (folder / "loans.toml").write_text(LOANS_RULE)
    (folder / "points.toml").write_text(POINTS_RULE)
    (folder / "slopes.toml").write_text(SLOPES_RULE)
    (folder / "secret").write_text("sixteen letters or more")
    tokens = "".join(
        f'[[tokens]]\nname = "{name}"\nhash = "{hash_of(TOKENS[name])}"\n'
        f"scopes = {json.dumps(scopes)}\n" + ('monitors = ["memory"]\n' * (name == "stranger"))
        for name, scopes in SCOPES.items()
    )
    path = folder / "settings.toml"
    path.write_text(LIMITS + tokens + MONITORS)
    with serving(path) as running:
        yield running


class Script:
    """Plays the requests; those of one subject are one method."""

    def __init__(self, running, folder):
        self.running = running
        self.placeholders = Placeholders()
        self.placeholders.know(str(folder), "folder")
        self.exchanges = Exchanges(self.ask, self.placeholders, TOKENS)
        self.play = self.exchanges.play

    def ask(self, method, path, body, headers):
        if method == "POST":  # none without a content type is taken
            headers = {"Content-Type": "application/json"} | headers
        connection = self.running.connection()
        try:
            connection.request(method, path, body or None, headers)
            response = connection.getresponse()
            named = {key.lower(): value for key, value in response.getheaders()}
            return Answer(response.status, named, response.read())
        finally:
            connection.close()

    def run(self):
        self.nothing_yet()
        self.decisions()
        self.batches()
        self.streams()
        self.cloudevents()
        self.looking_back()
        self.events()
        self.alerts()
        self.exact()
        self.pages()
        self.forms()
        self.case_work()
        self.routes_of_clients()
        self.refusals()

    # The service

    def nothing_yet(self):
        self.play("alive", "GET /healthz", token=None)
        self.play("ready", "GET /readyz", token=None)
        self.play("the description", "GET /openapi.json", token=None)
        self.play("all monitors", "GET /v1/monitors")
        self.play("no decision yet", f"GET {V1}/stats", "/v1/monitors/memory/stats")
        self.play("no decision yet", f"GET {V1}/positions", "/v1/monitors/points/positions")
        self.play("no route", "GET (no route)", "/v1/nowhere")

    def decisions(self):
        route = f"POST {V1}/observe"
        loans, points = "/v1/monitors/loans/observe", "/v1/monitors/points/observe"
        cases = [
            "first", "contradicts", "contradicts", "contradicts two", "contradicts two",
            "names two of three", "not comparable", "names two of three",
        ]  # fmt: skip
        for case, one in zip(cases, LOANS, strict=True):
            self.play(f"a table: {case}", route, loans, body=one)
        self.play("a table: sent again", route, loans, body=LOANS[1])
        self.play("a table: sent again, not comparable", route, loans, body=LOANS[6])
        other = loan(1, 32.0, "yes", sex="m", model="v2")
        self.play("another decision has the key", route, loans, body=other)
        place = {"source": "queue/0", "position": 7}
        said = {"time": 1709283600, "key": 17, **place}
        self.play("vectors: first", route, points, body={"x": [1.0, 2.0], "z": "a", **said})
        again = {"x": [1.25, 2.0], "z": "b", "source": "redis", "position": [8, 0]}
        self.play("vectors: contradicts", route, f"{points}?wait=durable", body=again)
        old = {"x": [1.0, 2.0], "z": "a", **place}
        self.play("vectors: an old position", route, points, body=old)
        same = {"x": [1.25, 2.0], "z": "c"}
        self.play("vectors: the same input", route, points, body=same)
        dated = {"x": [9.0, 9.0], "z": {"date": "2024-02-29"}, "key": "dated"}
        self.play("vectors: an output that JSON has no form for", route, points, body=dated)
        for place, z in enumerate(("a", "b", "a", "a")):
            body = {"x": [0.25 * place], "z": z, "model": "v1"}
            self.play("in memory, with a burst", route, "/v1/monitors/memory/observe", body=body)
        for x, z in ((0.0, 0.0), (1.0, 1.0), (1.5, 4.0), (1.5, 5.0)):
            body = {"x": [x], "z": z}
            self.play("slopes", route, "/v1/monitors/slopes/observe", body=body)
        bad = [
            ("an unknown choice", f"{points}?wait=never", {"x": [1.0, 2.0], "z": "a"}),
            ("no JSON", points, b"{"),
            ("an unknown field", points, {"x": [1.0], "z": "a", "y": 1}),
            ("a field twice", points, b'{"x": [1.0], "x": [2.0], "z": "a"}'),
            ("no output", points, {"x": [1.0, 2.0]}),
            ("values for vectors", points, {"values": {"a": 1}}),
            ("another dimension", points, {"x": [1.0], "z": "a"}),
            ("no number", points, {"x": ["one", 2.0], "z": "a"}),
            ("an output that is too long", points, {"x": [1.0, 2.0], "z": "a" * 65}),
            ("a key that is too long", points, {"x": [1.0, 2.0], "z": "a", "key": "k" * 33}),
            ("no value", loans, {"values": {"id": "bad"}}),
            ("a value of another kind", loans, loan(9, "old", "yes")),
            ("vectors for a table", loans, {"x": [1.0], "z": "a"}),
            ("a time that is none", loans, loan(9, 3, "no") | {"time": "soon"}),
        ]  # fmt: skip
        for case, path, body in bad:
            self.play(f"refused: {case}", route, path, body=body)
        route = f"POST {V1}/check"
        loans, points = "/v1/monitors/loans/check", "/v1/monitors/points/check"
        new = loan(9, 31.0, "yes", model="v9")
        self.play("a table", route, loans, body=new)
        unkeyed = {name: value for name, value in new["values"].items() if name != "id"}
        self.play("refused: a table without its key", route, loans, body={"values": unkeyed})
        self.play("vectors", route, points, body={"x": [1.0, 2.0], "z": "b"})
        self.play("vectors: not comparable", route, points, body={"x": [5.0, 5.0], "z": "b"})
        self.play("slopes", route, "/v1/monitors/slopes/check", body={"x": [1.25], "z": 4.0})
        keyed = {"x": [1.0, 2.0], "z": "b", "key": 1}
        self.play("refused: a key", route, points, body=keyed)
        self.play("refused: no JSON", route, points, body=b"")

    def batches(self):
        route, points = f"POST {V1}/batch", "/v1/monitors/points/batch"
        columns = {"x": [[1.0, 2.5], [6.0, 6.0], [1.0, 1.75]], "z": ["a", "a", "b"]}
        keys = {"keys": ["b1", None, "b3"], "models": ["v1", "v1", "v2"]}
        times = {"times": ["2024-03-02T10:00:00Z"] * 3}
        placed = {"sources": "columns", "positions": [1, 2, 3]}
        self.play("columns", route, points, body=columns | keys | times | placed)
        more = {"x": [[6.0, 6.25], [1.0, 1.75]], "z": ["b", "b"], "keys": ["b4", "b3"]}
        self.play("all verdicts, one was known", route, f"{points}?verdicts=all", body=more)
        rows = [{"x": [6.0, 6.0], "z": "a", "key": "r1"}, {"x": [3.0, 3.0], "z": "a"}]
        self.play("rows", route, f"{points}?wait=durable", body={"decisions": rows})
        small = {"x": [[1, 2], [6, 6]], "z": ["a", "a"], "type": "uint8"}
        self.play("of another type", route, "/v1/monitors/events/batch", body=small)
        arrow = {"x": [[1.0, 2.0], [6.0, 6.25]], "z": ["b", "a"], "key": ["w1", "w2"],
                 "source": ["arrow", "arrow"], "position": [1, 2]}  # fmt: skip
        self.play("Arrow", route, points, body=arrow_of(arrow), type=ARROW, sent=arrow)
        table = {name: [one["values"][name] for one in LOANS[:2]] for name in LOANS[0]["values"]}
        table["id"], table["model"] = ["arrow-1", "arrow-2"], ["v1", "v2"]
        table["time"] = ["2024-03-03T10:00:00Z"] * 2
        loans = "/v1/monitors/loans/batch"
        self.play("Arrow, a table", route, loans, body=arrow_of(table), type=ARROW, sent=table)
        values = {name: [value] for name, value in LOANS[0]["values"].items()}
        values |= {"id": ["column-1"]}
        said = {"models": "v1", "times": ["2024-03-03T10:00:01Z"]}
        self.play("columns of a table", route, loans, body={"values": values, **said})
        memory = "/v1/monitors/memory/batch"
        burst = {"x": [[0.5], [7.0]], "z": ["a", "b"], "models": "v1"}
        self.play("in memory, with a burst", route, f"{memory}?verdicts=all", body=burst)
        steep = {"x": [[2.0], [2.5]], "z": [1.0, 9.0]}
        self.play("slopes", route, "/v1/monitors/slopes/batch", body=steep)
        repeated = {"x": [[1.0, 2.0], [2.0, 2.0]], "z": ["a", "b"], "keys": ["n1", "b1"]}
        bad = [
            ("an unknown choice", f"{points}?verdicts=some", b"{}", None),
            ("another decision has a key", points, repeated, None),
            ("too many", points, {"x": [[0.0, 0.0]] * 21, "z": ["a"] * 21}, None),
            ("columns of different lengths", points, {"x": [[1.0, 2.0]], "z": []}, None),
            ("rows of different lengths", points, {"x": [[1.0, 2.0], [1.0]], "z": [1, 2]}, None),
            ("an unknown type", points, {"x": [[1, 2]], "z": ["a"], "type": "int7"}, None),
            ("some times", points, {"x": [[1.0, 2.0]] * 2, "z": [1, 1], "times": [None, 1]}, None),
            ("no Arrow", points, b"no arrow", ARROW),
            ("Arrow without an output", points, arrow_of({"x": [[1.0, 2.0]]}), ARROW),
            ("no table", loans, {"x": [[1.0]], "z": ["a"]}, None),
        ]  # fmt: skip
        for case, path, body, kind in bad:
            sent = "<Arrow: x>" if case.startswith("Arrow") else None
            self.play(f"refused: {case}", route, path, body=body, type=kind, sent=sent)

    def streams(self):
        route, points = f"POST {V1}/stream", "/v1/monitors/points/stream"
        lines = [
            {"x": [1.0, 2.0], "z": "b", "key": "s1"},
            {"x": [8.0, 8.0], "z": "b", "key": "s2", "model": "v1"},
            {"x": [8.0, 8.25], "z": "a", "key": "s3", "source": "lines", "position": 4},
            {"x": [8.0, 8.0], "z": "b", "key": "s2", "model": "v1"},
            {"x": [8.0, 8.0], "z": "c", "key": "s2"},
            {"x": [8.0, 8.0], "z": "c", "source": "lines", "position": 4},
            {"x": [8.0], "z": "c"},
            {"x": [8.0, 8.0]},
        ]
        texts = [json.dumps(one) for one in lines] + ["", "no JSON", '{"x": "' + "x" * 500 + '"}']
        sent = [*lines, "", "no JSON", "<a line of more than 500 bytes>"]
        body = "\n".join(texts).encode()
        self.play("lines", route, points, body=body, type="application/x-ndjson", sent=sent)
        body = {"x": [0.25], "z": "b", "model": "v2"}
        self.play("in memory, with a burst", route, "/v1/monitors/memory/stream", body=body)
        self.play("slopes", route, "/v1/monitors/slopes/stream", body={"x": [3.0], "z": 0.0})
        self.play("refused: an unknown choice", route, f"{points}?wait=never", body=b"")

    def cloudevents(self):
        route, path = f"POST {V1}/cloudevents", "/v1/monitors/events/cloudevents"

        def binary(kind, name, **more):
            kind = f"org.kubeflow.serving.inference.{kind}"
            return {
                "ce-specversion": "1.0", "ce-id": name, "ce-type": kind, "ce-source": "test",
                "ce-time": "2024-03-01T09:00:00Z", "ce-inferenceservicename": "iris",
            } | more  # fmt: skip

        def structured(kind, name, data):
            return {
                name.removeprefix("ce-"): value for name, value in binary(kind, name).items()
            } | {"data": data}

        asked, told = {"instances": [[1.0, 2.0], [4.0, 4.0]]}, {"predictions": ["b", "b"]}
        first, second = binary("request", "first"), binary("response", "first")
        play = self.play
        play("binary: a request waits", route, path, headers=first, body=asked)
        play("binary: sent again", route, path, headers=first, body=asked)
        play("binary: the response", route, path, headers=second, body=told)
        play("binary: another one", route, path, headers=second, body={"predictions": ["a", "b"]})
        one = "application/cloudevents+json"
        data = {"inputs": [{"name": "x", "shape": [1, 2], "datatype": "FP64", "data": [4, 4]}]}
        body = structured("request", "second", data)
        play("structured: a request of version 2", route, path, body=body, type=one)
        data = {
            "model_name": "iris", "model_version": "7",
            "outputs": [{"name": "z", "shape": [1], "datatype": "BYTES", "data": ["a"]}],
        }  # fmt: skip
        body = structured("response", "second", data)
        play("structured: the response", route, path, body=body, type=one)
        many = "application/cloudevents-batch+json"
        batch = [
            structured("request", "third", asked),
            structured("response", "third", {"predictions": ["a"]}),
            structured("request", "fourth", asked),
            structured("response", "fourth", told),
        ]
        play("a batch, of which one pair is refused", route, path, body=batch, type=many)
        play("refused: no event", route, path, body=asked)
        play("refused: no JSON", route, path, body=b"{", type=one)
        play("refused: an unknown parameter", route, f"{path}?names=x", headers=first, body=asked)
        play("refused: no prediction", route, path, headers=binary("request", "5"), body={})

    def looking_back(self):
        for name in ("loans", "points", "memory", "slopes"):
            path = f"/v1/monitors/{name}"
            self.play(name, f"GET {V1}", path)
            self.play(name, f"GET {V1}/stats", f"{path}/stats")
        self.play("the last hour", f"GET {V1}/stats", "/v1/monitors/loans/stats?last=1%20hour")
        self.play("refused: no time", f"GET {V1}/stats", "/v1/monitors/loans/stats?last=soon")
        self.play("refused: memory", f"GET {V1}/stats", "/v1/monitors/memory/stats?last=1%20hour")
        route, loans = f"GET {V1}/verdicts", "/v1/monitors/loans/verdicts"
        self.play("a ledger", route, f"{loans}?limit=3")
        self.play("the next page", route, f"{loans}?limit=2&after=3")
        query = "since=2024-03-01&until=2024-03-01T09:00:05Z&model=v1&group=sex:f&within=0.5"
        self.play("filters", route, f"{loans}?{query}&review=open&output=no")
        self.play("vectors", route, "/v1/monitors/points/verdicts?limit=3")
        self.play("memory", route, "/v1/monitors/memory/verdicts")
        self.play("memory: filters", route, "/v1/monitors/memory/verdicts?model=v1&within=0.25")
        self.play("refused: slopes", route, "/v1/monitors/slopes/verdicts")
        self.play("refused: memory", route, "/v1/monitors/memory/verdicts?review=open")
        for query in ("limit=0", "after=-1", "since=soon", "review=good", "group=sex", "within=x"):
            self.play("refused: a query", route, f"{loans}?{query}")
        route = f"GET {V1}/decisions/{{row}}"
        for name, row in (("loans", 5), ("loans", 6), ("points", 1), ("memory", 3), ("slopes", 2)):
            self.play(name, route, f"/v1/monitors/{name}/decisions/{row}")
        self.play("refused: no such row", route, "/v1/monitors/loans/decisions/999")
        self.play("refused: no such row", route, "/v1/monitors/memory/decisions/999")
        self.play("refused: no row", route, "/v1/monitors/loans/decisions/first")
        self.play("a ledger", f"GET {V1}/head", "/v1/monitors/loans/head")
        self.play("refused: memory", f"GET {V1}/head", "/v1/monitors/memory/head")
        self.play("sources", f"GET {V1}/positions", "/v1/monitors/points/positions")
        self.play("refused: memory", f"GET {V1}/positions", "/v1/monitors/memory/positions")
        route, path = f"POST {V1}/verify", "/v1/monitors/loans/verify"
        self.play("a ledger", route, path, body={})
        other = f"likewise-head 2 3 0 {'0' * 64}"
        self.play("against another head", route, path, body={"head": other})
        self.play("refused: no head", route, path, body={"head": "mine"})
        self.play("refused: memory", route, "/v1/monitors/memory/verify", body={})
        self.play("refused: no JSON", route, path, body=b"")

    # Streams of events

    def listen(self, case, route, path, events, headers=None, body=None):
        """Record the first events of an endless answer."""
        given = {"Authorization": f"Bearer {TOKENS['chief']}", **(headers or {})}
        connection = self.running.connection()
        try:
            connection.request("GET", path, None, given)
            response = connection.getresponse()
            text = b""
            while text.count(b"\n\n") < events:
                line = response.readline()
                assert line, text
                text += line
            named = {key.lower(): value for key, value in response.getheaders()}
            answer = Answer(response.status, named, text)
            shown = None if body is None else body(text.decode())
            self.exchanges.record(
                case, route, f"GET {path}", answer, "chief", headers or {}, None, shown
            )
        finally:
            connection.close()

    def events(self):
        route, path = f"GET {V1}/events", "/v1/monitors/loans/events"
        self.listen("from the ledger, then from memory", route, f"{path}?after=0", 10)
        self.listen("from memory", route, path, 4, {"Last-Event-ID": "7"})
        self.listen("a row that is not there yet", route, f"{path}?after=999", 2)
        memory = "/v1/monitors/memory/events"
        self.listen("memory", route, f"{memory}?after=0", 6)
        self.listen("slopes", route, "/v1/monitors/slopes/events?after=0", 6)
        self.play("refused: no row", route, f"{path}?after=x")

    def alerts(self):
        route, path = f"GET {V1}/alerts", "/v1/monitors/points/alerts"
        found = self.until(path, counted(4))
        self.play("the same input", route, path)
        self.until("/v1/monitors/memory/alerts", counted(2))
        self.play("a burst", route, "/v1/monitors/memory/alerts?status=firing&limit=1")
        self.play("none, and a receiver", route, "/v1/monitors/events/alerts?status=resolved")
        self.play("refused: a status", route, f"{path}?status=new")
        self.play("refused: a limit", route, f"{path}?limit=0")
        (alert,) = found["alerts"]
        self.placeholders.know(alert["id"], "identifier")
        route += "/{id}/acknowledge"
        route = route.replace("GET", "POST")
        self.play("seen", route, f"{path}/{alert['id']}/acknowledge", body={}, token="reviewer")
        self.play("refused: no such alert", route, f"{path}/none/acknowledge", body={})

    def until(self, path, there):
        """The JSON of a path, once it says what is expected."""
        end = time.monotonic() + SECONDS
        while True:
            body = self.ask("GET", path, b"", {"Authorization": f"Bearer {TOKENS['chief']}"})
            if there(body.json()):
                return body.json()
            assert time.monotonic() < end, body
            time.sleep(0.02)

    def routes_of_clients(self):
        """What senders say beside decisions, and what they look up."""
        memory, points = "/v1/monitors/memory", "/v1/monitors/points"
        route, path = f"POST {V1}/batch/check", f"{memory}/batch/check"
        columns = {"x": [[0.5], [90.0]], "z": ["c", "d"]}
        self.play("vectors", route, path, body=columns)
        self.play("few witnesses, all", route, f"{path}?witnesses=1&verdicts=all", body=columns)
        table = {"values": {"age": [31.0], "job": ["cook"], "sex": ["m"], "approved": ["yes"]}}
        self.play("a table", route, "/v1/monitors/loans/batch/check", body=table)
        self.play("refused: a key", route, path, body={**columns, "keys": ["k", "l"]})
        self.play("refused: no outputs", route, path, body={"x": [[0.5]]})
        self.play("refused: no vectors", route, path, body={"x": [["a"]], "z": ["c"]})
        self.play("refused: too many", route, path, body={"x": [[0.5]] * 21, "z": ["c"] * 21})
        route, path = f"POST {V1}/batch/load", f"{memory}/batch/load"
        self.play("vectors", route, path, body={"x": [[70.0], [71.0]], "z": ["c", "d"]})
        self.play("rows", route, path, body={"decisions": [{"x": [72.0], "z": "c"}]})
        self.play("refused: no outputs", route, path, body={"x": [[0.5]]})
        sent = {"x": [[80.0]], "z": ["c"]}
        exact = {
            "type": EXACT_CONTENT_TYPE,
            "headers": {"Accept": EXACT_CONTENT_TYPE},
            "sent": sent,
        }
        self.play("exact", f"POST {V1}/batch", f"{memory}/batch", body=pack(sent), **exact)
        self.play("exact", route, path, body=pack(sent), **exact)
        route, path = f"POST {V1}/lost", f"{memory}/lost"
        self.play("some", route, path, body={"count": 2, "reason": "full", "first": 7, "last": 8})
        self.play("refused: none", route, path, body={"count": 0, "reason": "full"})
        self.play("refused: no reason", route, path, body={"count": 1})
        again = {"likewise-request": "0123456789 5 another-process"}
        body = {"count": 1, "reason": "x"}
        self.play("in doubt", route, f"{points}/lost", body=body, headers=again)
        route = f"POST {V1}/like"
        case = {"values": {"age": 31.0, "job": "cook"}}
        self.play("a ledger", route, "/v1/monitors/loans/like", body=case)
        one = {**case, "limit": 1, "person": "person-0"}
        self.play("the nearest one", route, "/v1/monitors/loans/like", body=one)
        self.play("memory", route, f"{memory}/like", body={"x": [0.1]})
        case = {"x": [0.1]}
        exact = {
            "type": EXACT_CONTENT_TYPE,
            "headers": {"Accept": EXACT_CONTENT_TYPE},
            "sent": case,
        }
        self.play("exact", route, f"{memory}/like", body=pack(case), **exact)
        self.play("refused: no case", route, f"{memory}/like", body={})
        self.play("refused: too many", route, f"{memory}/like", body={"x": [0.1], "limit": 101})
        self.play("refused: no person", route, f"{memory}/like", body={"x": [0.1], "person": "p"})
        self.play(
            "refused: not allowed", route, f"{memory}/like", body={"x": [0.1]}, token="sender"
        )
        self.play("a ledger", f"POST {V1}/flush", f"{points}/flush", body={})
        self.play("memory", f"GET {V1}/explain", f"{memory}/explain")
        route = f"POST {V1}/past/{{look}}"
        rows = {"rows": [1, 2]}
        for look in ("inputs", "points", "outputs", "keys", "models", "model_codes", "alive",
                     "span"):  # fmt: skip
            self.play(look, route, f"{memory}/past/{look}", body=rows)
        loans = "/v1/monitors/loans/past"
        self.play("values", route, f"{loans}/values", body={"row": 1})
        self.play("codes", route, f"{loans}/codes", body={"column": "job", **rows})
        self.play("row_of", route, f"{loans}/row_of", body={"key": "loan-1"})
        self.play("like_models", route, f"{memory}/past/like_models", body={"first": 0, "stop": 3})
        numbers = "/v1/monitors/slopes/past/numbers"
        self.play("numbers", route, numbers, body={"rows": [0]})
        self.play("refused: no such look", route, f"{memory}/past/secrets", body=rows)
        self.play("refused: no such row", route, f"{memory}/past/outputs", body={"rows": [999]})
        self.play("refused: no rows", route, f"{memory}/past/outputs", body={})
        rows = {"rows": [0] * 21}
        self.play("refused: too many", route, f"{memory}/past/outputs", body=rows)

    def exact(self):
        """Bodies and answers with exact values."""
        import numpy as np

        memory = "/v1/monitors/memory"
        one = {"x": {"array": "float64", "values": [0.5]}, "z": "c", "key": "packed"}
        two = {"x": {"array": "float64", "values": [[0.5], [90.0]]}, "z": ["c", "d"]}
        cases = [
            ("observe", "?witnesses=2", {**one, "x": np.array([0.5])}, one),
            ("batch/check", "", {**two, "x": np.array([[0.5], [90.0]])}, two),
            ("observe", "", {"y": 1}, {"y": 1}),
        ]
        headers = {"Accept": EXACT_CONTENT_TYPE}
        for name, query, fields, sent in cases:
            self.play(
                "exact",
                f"POST {V1}/{name}",
                f"{memory}/{name}{query}",
                body=pack(fields),
                type=EXACT_CONTENT_TYPE,
                sent=sent,
                headers=headers,
            )
        self.play("refused: cut off", f"POST {V1}/observe", f"{memory}/observe", body=b"\x82",
                  type=EXACT_CONTENT_TYPE, headers=headers, sent="<bytes>")  # fmt: skip
        self.play("exact", f"GET {V1}", memory, headers=headers)
        self.play("exact", f"GET {V1}/head", "/v1/monitors/points/head", headers=headers)

    # Pages

    def pages(self):
        names = {
            "overview": "", "violations": "?order=newest&model=v1", "queue": "",
            "models": "", "people": "?key=loan-1", "health": "", "pairs/1": "", "pairs/5/3": "",
            "groups": "", "rule": "?epsilon=0.25", "look-up": "",
        }  # fmt: skip
        for name in ("groups", "rule", "overview"):  # computed aside
            for monitor in ("loans", "memory"):
                path = f"/m/{monitor}/{name}.json"
                self.until(path, lambda body: "computing" not in json.dumps(body))
        for monitor in ("loans", "memory", "slopes"):  # asked aside, and not waited for
            self.until(
                f"/m/{monitor}/overview.json", lambda body: body["missing_decisions"] is not None
            )
        for name, query in names.items():
            route = f"GET /m/{{name}}/{_pattern(name)}"
            for monitor in ("loans", "memory", "slopes"):
                if monitor != "loans" and name.startswith("pairs"):
                    continue
                path = f"/m/{monitor}/{name}.json{query}"
                self.play(f"as JSON: {monitor}", f"{route}.json", path, token="reviewer")
            self.play("a page", route, f"/m/loans/{name}{query}")
            if name == "overview":
                json_only = {"Accept": "application/json"}
                self.play("JSON by its header", route, f"/m/memory/{name}", headers=json_only)
        twin = "GET /m/{name}/violations.json"
        path = "/m/loans/violations.json"
        self.play("filters", twin, f"{path}?within=0.25&review=open&output=no&group=sex:f")
        self.play("refused: an order", twin, f"{path}?order=best")
        twin = "GET /m/{name}/pairs/{row}.json"
        self.play("memory", twin, "/m/memory/pairs/3.json")
        self.play("refused: it contradicts nothing", twin, "/m/loans/pairs/0.json")
        self.play("refused: no row", twin, "/m/loans/pairs/first.json")
        twin = "GET /m/{name}/pairs/{row}/{witness}.json"
        self.play("refused: no such witness", twin, "/m/loans/pairs/1/6.json")
        self.play("no key", "GET /m/{name}/people.json", "/m/loans/people.json")
        self.play("an unknown key", "GET /m/{name}/people.json", "/m/loans/people.json?key=nobody")
        self.play("refused: an epsilon", "GET /m/{name}/rule.json", "/m/loans/rule.json?epsilon=0")
        self.play("refused: a state", "GET /m/{name}/queue.json", "/m/loans/queue.json?state=done")
        for kind in ("csv", "xlsx"):
            route = f"GET /m/{{name}}/violations.{kind}"
            self.play("a ledger", route, f"/m/loans/violations.{kind}?order=newest")
            self.play("memory", route, f"/m/memory/violations.{kind}")
            self.play("refused: a filter", route, f"/m/loans/violations.{kind}?within=near")
        for name in ("overview", "health"):
            route, path = f"GET /m/{{name}}/{name}/live", f"/m/loans/{name}/live"
            self.listen("what changes", route, path, 2, body=_parts)
        self.play("several monitors", "GET /", "/")
        self.play("a monitor", "GET /m/{name}", "/m/loans")
        self.play("nobody is signed in", "GET /", "/", token=None)
        self.play("a style sheet", "GET /static/{file}", "/static/style.css", token=None)
        self.play("a script", "GET /static/{file}", "/static/likewise.js", token=None)
        self.play("refused: no such file", "GET /static/{file}", "/static/none.js", token=None)
        self.play(
            "nobody is signed in", "GET /m/{name}/rule", "/m/loans/rule?epsilon=1", token=None
        )
        self.play("refused: no such monitor", "GET /m/{name}/rule", "/m/nobody/rule")
        self.play("refused: not allowed", "GET /m/{name}/rule", "/m/loans/rule", token="stranger")
        unknown = "GET /m/{name}/{rest:path}"
        self.play("refused: no such page", unknown, "/m/loans/nowhere")
        self.play("as JSON: no such page", unknown, "/m/loans/nowhere.json")
        self.play("counts", "GET /metrics", "/metrics")

    def forms(self):
        ask = self.play("a form", "GET /sign-in", "/sign-in?next=/m/loans", token=None)
        cookie = ask.headers["set-cookie"].partition(";")[0]
        csrf = re.search(rb'name="csrf" value="([0-9a-f]+)"', ask.body)[1].decode()
        self.placeholders.know(csrf, "csrf")
        self.placeholders.know(cookie.partition("=")[2], "cookie")

        def send(case, form, fields, token="chief", cookie=cookie, type=FORM):
            route = f"POST /{form}" if "sign" in form else f"POST /m/{{name}}/{form}"
            path = f"/{form}?next=/m/loans" if "sign" in form else f"/m/loans/{form}"
            body = urlencode({"csrf": csrf, **fields}).encode()
            sent = {"csrf": csrf, **fields}
            headers = {} if cookie is None else {"Cookie": cookie}
            return self.play(
                case, route, path, body=body, type=type, sent=sent, token=token, headers=headers
            )

        send("an unknown token", "sign-in", {"token": "mine"}, token=None)
        done = send("a token", "sign-in", {"token": TOKENS["reviewer"]}, token=None)
        session = done.headers["set-cookie"].partition(";")[0]
        self.placeholders.know(session.partition("=")[2], "session")
        self.play("signed in", "GET /", "/", token=None, headers={"Cookie": session})
        send("from another page", "sign-out", {}, token=None, cookie=None)
        send("signed out", "sign-out", {}, token=None)
        review = {"row": "1", "witness": "0", "seen": "-1", "reason": "typed wrong"}
        send("the row is put aside", "queue/skip", {"row": "7"})
        send("all are taken back", "queue/back", {})
        send("reviewed", "queue/review", review | {"disposition": "error"})
        send("reviewed meanwhile", "queue/review", review | {"disposition": "unfair"})
        send("refused: a disposition", "queue/review", review | {"disposition": "fine"})
        send("refused: from another page", "queue/review", review, cookie=None)
        send("refused: no form", "queue/review", review, type="text/plain")
        send("refused: not allowed", "queue/review", review, token="sender")
        send("refused: not by its reviewer", "queue/undo", review, token="second")
        looked = self.ask("GET", "/m/loans/pairs/1/0.json", b"", _bearer("chief")).json()
        seen = str(looked["reviews"][-1]["event"])
        self.play("as JSON: reviewed", "GET /m/{name}/pairs/{row}/{witness}.json",
                  "/m/loans/pairs/1/0.json")  # fmt: skip
        second = "GET /m/{name}/queue.json"
        self.play(
            "as JSON: a second look", second, "/m/loans/queue.json?state=second", token="second"
        )
        self.play("as JSON: one's own last", second, "/m/loans/queue.json")
        send("refused: somebody works on it", "queue/undo", review | {"seen": seen})
        send("given back", "queue/skip", {"row": "1"}, token="second")
        send("taken back", "queue/undo", review | {"seen": seen, "state": "open"})
        send("a case", "look-up", {"column-age": "31", "column-job": "cook"})
        send("a case that was pasted", "look-up", {"case": "person-0,31,cook"})
        send("refused: no case", "look-up", {"column-age": " "})
        send("refused: from another page", "look-up", {"column-age": "31"}, cookie=None)
        send("computed again", "rule/again", {})
        send("computed again", "groups/again", {})
        send("begun", "health/verify", {})
        self.until("/m/loans/health.json", lambda body: (body["verification"] or {}).get("ended"))
        self.play("as JSON: verified", "GET /m/{name}/health.json", "/m/loans/health.json")
        send("refused: another key", "people/erase", {"key": "loan-7", "again": "loan-6"})
        send("erased", "people/erase", {"key": "loan-7", "again": "loan-7"})
        send("refused: no such key", "people/erase", {"key": "loan-7", "again": "loan-7"})

    def case_work(self):
        route, path = f"POST {V1}/reviews", "/v1/monitors/loans/reviews"
        body = {"row": 1, "witness": 0, "disposition": "unfair", "reason": "x"}
        self.play("of one witness", route, path, body=body, token="reviewer")
        self.play("of all", route, path, body={**body, "row": 3, "witness": None})
        other = {**body, "reviewer": "ana"}
        self.play("refused: another name than the token's", route, path, body=other)
        self.play("refused: a disposition", route, path, body={**body, "disposition": "fine"})
        self.play("refused: no such row", route, path, body={**body, "row": 999})
        self.play("refused: no witness of it", route, path, body={**body, "witness": 6})
        self.play("refused: a field is missing", route, path, body={"row": 1})
        self.play("refused: memory", route, "/v1/monitors/memory/reviews", body=body)
        self.play("refused: slopes", route, "/v1/monitors/slopes/reviews", body=body)
        decision = f"GET {V1}/decisions/{{row}}"
        self.play("reviewed", decision, "/v1/monitors/loans/decisions/1")
        self.play("reviewed", f"GET {V1}/verdicts", "/v1/monitors/loans/verdicts?review=unfair")
        route, path = f"POST {V1}/supersede", "/v1/monitors/loans/supersede"
        body = {"key": "loan-2", "output": "yes", "why": "typed wrong"}
        self.play("a decision", route, path, body=body, token="reviewer")
        other = {**body, "by": "ana"}
        self.play("refused: another name than the token's", route, path, body=other)
        self.play("refused: no such key", route, path, body={**body, "key": "nobody"})
        self.play("refused: a field is missing", route, path, body={"key": "loan-2"})
        truths = f"POST {V1}/truths"
        said = {"key": "loan-3", "value": "no"}
        self.play("a decision", truths, "/v1/monitors/loans/truths", body=said, token="reviewer")
        other = {**said, "key": "nobody"}
        self.play("refused: no such key", truths, "/v1/monitors/loans/truths", body=other)
        self.play("refused: memory", truths, "/v1/monitors/memory/truths", body=said)
        self.play("refused: an output is too long", route, path, body={**body, "output": "y" * 65})
        self.play("refused: memory", route, "/v1/monitors/memory/supersede", body=body)
        route, path = f"POST {V1}/erase", "/v1/monitors/loans/erase"
        self.play("by key", route, path, body={"keys": ["loan-0"]})
        self.play("by key, again", route, path, body={"keys": ["loan-0"]})
        self.play("by row", route, path, body={"rows": [5]})
        self.play("memory", route, "/v1/monitors/memory/erase", body={"rows": [0]})
        self.play("refused: no such row", route, path, body={"rows": [999]})
        forget = f"POST {V1}/forget"
        self.play("rows", forget, "/v1/monitors/loans/forget", body={"rows": [4]})
        self.play("no rows", forget, "/v1/monitors/loans/forget", body={"rows": []})
        self.play("refused: no such row", forget, "/v1/monitors/loans/forget", body={"rows": [999]})
        self.play("refused: nothing is named", route, path, body={})
        self.play("refused: none", route, path, body={"rows": []})
        self.play("refused: no JSON", route, path, body=b"x")
        self.play("erased", decision, "/v1/monitors/loans/decisions/0")
        self.play("a witness was erased", decision, "/v1/monitors/loans/decisions/1")
        observe = f"POST {V1}/observe"
        self.play("the key was erased", observe, "/v1/monitors/loans/observe", body=LOANS[0])
        self.play("as JSON: erased", "GET /m/{name}/pairs/{row}/{witness}.json",
                  "/m/loans/pairs/1/0.json")  # fmt: skip
        first = f"GET {V1}/events"
        self.listen("after erasing", first, "/v1/monitors/loans/events?after=0", 2)

    def refusals(self):
        """What every route answers to whoever may not, and to what makes no sense there."""
        document = self.ask("GET", "/openapi.json", b"", {}).json()
        for pattern, methods in document["paths"].items():
            path = filled(pattern)
            for method, about in methods.items():
                route = f"{method.upper()} {pattern}"
                if "x-scope" not in about:
                    continue
                media = next(iter(about.get("requestBody", {}).get("content", {})), None)
                body = None if media is None else b""
                for case, token in (("no token", None), ("not allowed", "stranger")):
                    self.play(f"refused: {case}", route, path, token=token, body=body, type=media)
                if "{name}" in pattern:
                    other = filled(pattern, name="nobody")
                    self.play("refused: no such monitor", route, other, body=body, type=media)
                if media is not None and not pattern.endswith("/stream"):
                    long, sent = b" " * 6001, "<6001 bytes>"
                    case = "refused: too large"
                    self.play(case, route, path, body=long, type=media, sent=sent)
            self.play("refused: another method", f"PATCH {pattern}", path, body=b"")
        observe, path = f"POST {V1}/observe", "/v1/monitors/loans/observe"
        self.play("refused: as a form is sent", observe, path, body=b"{}", type="text/plain")
        foreign = {"Sec-Fetch-Site": "cross-site"}
        self.play("refused: of another site", observe, path, body=LOANS[0], headers=foreign)


def counted(count):
    """Whether an alert has counted everything that the script has done so far."""
    return lambda body: body["alerts"] and body["alerts"][0]["details"]["count"] >= count


def _pattern(name):
    return {"pairs/1": "pairs/{row}", "pairs/5/3": "pairs/{row}/{witness}"}.get(name, name)


def _bearer(name):
    return {"Authorization": f"Bearer {TOKENS[name]}"}


def _parts(text):
    """A live page sends HTML by the id of the element; the ids are what its script relies on."""
    from tests.golden.exchanges import events_in

    first, parts = events_in(text)
    return [first, {**parts, "data": dict.fromkeys(parts["data"], "<html>")}]


def arrow_of(columns):
    import polars as pl

    buffer = io.BytesIO()
    # Views of text, which Polars writes unless told otherwise, are refused.
    oldest = pl.CompatLevel.oldest()
    pl.DataFrame(columns).write_ipc_stream(buffer, compat_level=oldest)
    return buffer.getvalue()


# Other settings, in this process


def in_process(folder, *, limits=None, opened=True, tokens=True):
    """An application with pages and one monitor in memory, `loans`."""
    (folder / "points.toml").write_text(POINTS_RULE)
    given = tuple(Token(name, hash_of(TOKENS[name]), ("admin",)) for name in ("chief",))
    settings = ServiceSettings(
        {"loans": MonitorSettings(rule=str(folder / "points.toml"))},
        limits=limits or Limits(),
        tokens=given if tokens else (),
    )
    service = Service(settings)
    app = App(service, [page_router])
    if opened:
        service.open()
    return app


async def play_limits(folder, placeholders):
    """What is answered when there is too much, or too early; by case and route."""
    headers = {"authorization": f"Bearer {TOKENS['chief']}"}

    async def asked(app, routes):
        found = {}
        for method, pattern in routes:
            answer = await asyncio.wait_for(
                call(app, method, filled(pattern), b"{}", headers), SECONDS
            )
            recorder, route = Exchanges(None, placeholders), f"{method} {pattern}"
            recorder.record("", route, "", answer, None, {}, None)
            told = recorder.by_route[route][0]["answer"]
            found[route] = {"status": 200} if answer.status == 200 else told
        return found

    closed = in_process(folder, opened=False)
    routes = [(one.method, one.path) for one in closed.operations]
    rated = in_process(folder, limits=Limits(rate=0.1))
    await call(rated, "GET", "/v1/monitors", b"", headers)
    busy = in_process(folder, limits=Limits(requests=1))
    busy.service.active_requests += 1  # as a request that lasts
    full = in_process(folder, limits=Limits(readers=1))
    full.service.readers += 1  # as somebody who listens
    listening = [("GET", "/v1/monitors/{name}/events")]
    found = {
        "the ledgers are not open yet": await asked(closed, routes),
        "the token has sent as many requests as it may": await asked(rated, routes),
        "as many requests are under way as may be": await asked(busy, routes),
        "as many readers listen as may": await asked(full, listening),
    }
    for app in (rated, busy, full):
        app.service.close()
    return found


def routes_of(app):
    """Every method and path that the application serves."""
    found = {f"{one.method} {one.path}" for one in app.operations}
    for route in (*app._router.routes, *page_router.routes(app)):
        for method in (route.methods or {"GET"}) - {"HEAD"}:
            found.add(f"{method} {route.path}")
    return found


@pytest.mark.early
def test_bodies_of_every_route_are_those_of_the_golden_files(tmp_path):
    """One script, in order; a new route without a case in it fails."""
    with server(tmp_path) as running:
        script = Script(running, tmp_path)
        script.run()
    by_route = script.exchanges.by_route
    limits = asyncio.run(play_limits(tmp_path, script.placeholders))
    patched = {route: by_route.pop(route) for route in list(by_route) if route.startswith("PATCH")}
    other = {"GET (no route)": by_route.pop("GET (no route)")} | patched
    served = routes_of(in_process(tmp_path, opened=False))
    assert served == by_route.keys()
    files = {file_of(route): {"route": route, "cases": cases} for route, cases in by_route.items()}
    assert len(files) == len(by_route)
    files["http/other-methods.json"] = other
    files["http/limits.json"] = limits
    golden.check_all(files)
