"""Bodies that nobody meant: whatever comes, no fault, and no trace of what was refused."""

import asyncio
import json
import random
from collections import Counter

import numpy as np
import pytest

import likewise as lw
from likewise.service.app import App
from likewise.service.served_monitor import ServedMonitor
from likewise.service.service import Service
from likewise.service.settings import Limits, MonitorSettings, ServiceSettings
from tests.service.oracle_counts import counts_of

ARROW = b"application/vnd.apache.arrow.stream"
LIMITS = Limits(
    line_bytes=500, batch_rows=50, labels=20, label_bytes=64, key_bytes=32, body_bytes=20_000
)
_ROUND = 1000  # bodies
RULES = {
    "default": lw.Rule("linf", 0.1),
    "table": lw.Rule(
        features={"age": lw.Feature("number", tolerance=5), "job": lw.Feature("category")},
        output_column="ok",
    ),
}


def an_app():
    """The application in this process, without a socket."""
    service = Service(
        ServiceSettings({name: MonitorSettings(rule="-") for name in RULES}, limits=LIMITS)
    )
    service.monitors = {}
    for name, rule in RULES.items():
        monitor = lw.Monitor(rule, comparable=True)
        monitor.core.limit_words(LIMITS.labels)
        service.monitors[name] = ServedMonitor(name, monitor, MonitorSettings(rule="-"), LIMITS)
    service.ready = True
    service.pending = {}
    return App(service)


async def asked(app, path, body, kind=b"application/json"):
    """One request; its status and its body."""
    pieces = [body[i : i + 4096] for i in range(0, len(body), 4096)] or [b""]
    coming = [
        {"type": "http.request", "body": piece, "more_body": i + 1 < len(pieces)}
        for i, piece in enumerate(pieces)
    ]
    told = []

    async def receive():
        return coming.pop(0) if coming else {"type": "http.disconnect"}

    async def send(message):
        told.append(message)

    path, _, query = path.partition("?")
    scope = {
        "type": "http",
        "method": "POST",
        "path": path,
        "query_string": query.encode(),
        "headers": [(b"content-type", kind)],
    }
    await app(scope, receive, send)
    return told[0]["status"], b"".join(one.get("body", b"") for one in told[1:])


def mutated(body, random_):
    """A body with a few bytes changed, cut out, doubled or put in."""
    body = bytearray(body)
    for _ in range(random_.choice((0, 1, 1, 2, 5))):
        at, length = random_.randrange(len(body) + 1), random_.choice((1, 1, 2, 4, 8, 30))
        what = random_.randrange(5)
        if what == 0:
            body[at : at + length] = random_.randbytes(length)
        elif what == 1:
            del body[at : at + length]
        elif what == 2:
            body[at:at] = body[at : at + length]
        elif what == 3:
            body[at : at + 1] = random_.choice(
                (b'"', b"{", b"}", b"[", b"]", b":", b",", b"\\", b"\n", b"null", b"1e400", b"-")
            )
        elif len(body) >= 8:
            at = random_.randrange(0, len(body) - 7) & ~3
            value = random_.choice((0, 1, 0x7FFFFFFF, 0xFFFFFFFF, 1 << 31, len(body)))
            body[at : at + 4] = value.to_bytes(4, "little")
        if not body:
            body = bytearray(b"{}")
    return bytes(body)


def json_bodies():
    one = {"x": [0.5, 0.25], "z": "a", "key": "k1", "time": None, "model": "m"}
    return [
        ("default/observe", json.dumps(one).encode()),
        ("default/check", b'{"x":[0.1,0.2],"z":{"date":"2026-01-31"}}'),
        ("default/batch", b'{"x":[[0.1,0.2],[0.1,0.25]],"z":["a","b"],"keys":["p",7]}'),
        ("default/batch?verdicts=all", b'{"decisions":[{"x":[0.1,0.2],"z":["a",1]}]}'),
        ("default/batch", b'{"x":[[1,2]],"z":["a"],"type":"float32","models":"m"}'),
        ("default/observe", b'{"x":[0.1,0.2],"z":"a","source":"s","position":[1,2]}'),
        ("default/batch", b'{"x":[[1,2]],"z":["a"],"sources":["s"],"positions":[3]}'),
        ("table/observe", b'{"values":{"age":40,"job":"nurse","ok":true}}'),
        ("table/batch", b'{"values":{"age":[40,41],"job":["nurse",null],"ok":[true,false]}}'),
    ]


def ndjson_bodies():
    lines = [b'{"x":[0.5,%d.25],"z":"%c","key":"s%d"}' % (i, 97 + i % 2, i) for i in range(8)]
    return [
        ("default/stream", b"\n".join(lines) + b"\n"),
        ("default/stream?wait=durable", b"\r\n\n".join(lines)),
        ("default/stream", b'{"x":[1,2],"z":1}\n{"x":[1,2],"z":"b","source":"s","position":4}\n'),
        ("table/stream", b'{"values":{"age":4,"job":"a","ok":1}}\n' * 3),
    ]


def arrow_bodies():
    pa = pytest.importorskip("pyarrow")
    x = np.linspace(0, 1, 8)
    tables = [
        ("default", {"x": pa.FixedSizeListArray.from_arrays(pa.array(x), 2), "z": list("abab")}),
        ("default", {"f": x[:4], "g": x[4:], "z": list("aabb"), "key": ["q", None, "r", "s"]}),
        (
            "table",
            {"age": [1.0, 2.0], "job": pa.array(["a", "b"]).dictionary_encode(), "ok": [1, 0]},
        ),
        ("default", {"x": pa.array([[1.0, 2.0], [3.0, 4.0]]), "z": [1, 2]}),
    ]
    found = []
    for name, columns in tables:
        table = pa.table(columns)
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        found.append((f"{name}/batch", sink.getvalue().to_pybytes()))
    return found


def fuzzed(bodies, kind, count, seed):
    """So many bodies that began as good ones; how often each status was answered.

    A history that has seen a thousand begins again: bodies are much alike, and every decision would
    contradict tens of thousands.
    """
    random_, statuses = random.Random(seed), Counter()
    for begin in range(0, count, _ROUND):
        statuses += bombarded(bodies, kind, min(_ROUND, count - begin), random_)
    return statuses


def bombarded(bodies, kind, count, random_):
    """Every history must be what was answered with 200, and its contradictions those of NumPy."""
    app, statuses = an_app(), Counter()

    async def run():
        for _ in range(count):
            path, body = random_.choice(bodies)
            name = path.partition("/")[0]
            served = app.service.monitors[name]
            before = served.monitor.rows
            sent = mutated(body, random_)
            status, answer = await asked(app, f"/v1/monitors/{path}", sent, kind)
            statuses[status] += 1
            assert status < 500, (status, path, sent, answer[:300])
            grown = served.monitor.rows - before
            if "stream" in path:
                told = [json.loads(line) for line in answer.splitlines()]
                assert all(one.get("status", 200) < 500 for one in told), (sent, answer)
                taken = sum("violation" in one for one in told)
            else:
                told = json.loads(answer)
                taken = 0
                if status == 200 and "check" not in path:
                    taken = told.get("decisions", 1)
            assert grown == taken, (status, path, sent, answer[:300])

    asyncio.run(run())
    assert app.service.refused["500"] == 0
    for served in app.service.monitors.values():
        words = served.monitor.core.memory.words()
        assert all(len(values) <= LIMITS.labels for values in words.values())
        assert counts_of(served.monitor) == served.counts.pairs
        served.close()
    return statuses


KINDS = {
    "json": (json_bodies, b"application/json"),
    "ndjson": (ndjson_bodies, b"application/x-ndjson"),
    "arrow": (arrow_bodies, ARROW),
}


@pytest.mark.parametrize("name", KINDS)
def test_mutated_bodies_cause_no_fault_and_leave_no_trace(name):
    make, kind = KINDS[name]
    statuses = fuzzed(make(), kind, 600, seed=1)
    assert statuses[200] > 20
    assert name == "ndjson" or sum(statuses.values()) - statuses[200] > 100


@pytest.mark.slow
@pytest.mark.parametrize("name", KINDS)
def test_a_hundred_thousand_mutated_bodies_cause_no_fault(name):
    make, kind = KINDS[name]
    fuzzed(make(), kind, 100_000, seed=2)


def test_a_monitor_under_hostile_labels_does_not_grow():
    app = an_app()
    served = app.service.monitors["default"]

    async def run():
        for i in range(3000):
            body = json.dumps({"x": [0.0, 0.0], "z": f"hostile {i}", "model": f"m{i}"}).encode()
            status, _ = await asked(app, "/v1/monitors/default/observe", body)
            assert status == (200 if i < LIMITS.labels else 422)

    asyncio.run(run())
    assert served.monitor.rows == LIMITS.labels
    assert len(served.recent.after(-1)) <= LIMITS.recent
    assert served.counts.refused["too-many-names"] == 3000 - LIMITS.labels
    assert len(served.counts.decisions) <= LIMITS.labels + 1
    served.close()
