"""Events from strangers: never a server error, and nothing is stored of what is refused."""

import asyncio
import gzip
import json
import random
from collections import Counter

import pytest

from likewise.service.settings import Limits
from tests.service.asgi_calls import call, serving
from tests.service.cloudevents.payloads import (
    PATH,
    V1_REQUEST,
    V1_RESPONSE,
    V2_REQUEST,
    V2_RESPONSE,
    headers,
    structured,
    with_raw,
)
from tests.service.cloudevents.test_receiving import TABLE, served_monitor

REQUESTS = [
    b'{"instances": [[0.5, 0.25], [0.5, 0.3]]}',
    b'{"instances": [{"age": 41, "income": 3100}, {"age": 44, "income": 3000}]}',
    V1_REQUEST,
    V2_REQUEST,
    with_raw("inputs", [("x", [2, 2], "FP32", [0.1, 0.2, 0.3, 0.4])]),
    with_raw("inputs", [("age", [2], "INT32", [40, 44]), ("income", [2], "BF16", [3000, 3100])]),
]
RESPONSES = [
    V1_RESPONSE,
    V2_RESPONSE,
    b'{"predictions": [{"approved": "no"}, {"approved": "yes"}]}',
    with_raw("outputs", [("approved", [2], "BYTES", ["no", "yes"])]),
    with_raw("outputs", [("approved", [2, 1], "FP64", [0.5, 1.5])], model_name="m"),
]
PLACES = [None, True, [], {}, "", 0, -1, 1e308, 2**70, "x" * 3000, [[]], {"a": 1}, "\ud800", 1.5]
QUERIES = ["", "", "", "?output=approved", "?columns=age,income", "?columns=", "?output=", "?a=%ff"]


def changed(rng, value):
    """JSON with one place changed."""
    if isinstance(value, dict) and value and rng.random() < 0.9:
        name = rng.choice(list(value))
        if rng.random() < 0.1:
            return {key: one for key, one in value.items() if key != name}
        return value | {name: changed(rng, value[name])}
    if isinstance(value, list) and value and rng.random() < 0.9:
        place = rng.randrange(len(value))
        if rng.random() < 0.1:
            return value[:place] + value[place:] * 2
        return [*value[:place], changed(rng, value[place]), *value[place + 1 :]]
    return rng.choice(PLACES)


def damaged(rng, body):
    """Bytes with a few of them changed, cut, doubled or put elsewhere."""
    for _ in range(rng.choice((1, 1, 2, 5))):
        at = rng.randrange(len(body) + 1)
        what = rng.randrange(5)
        if what == 0:
            body = body[:at] + rng.randbytes(rng.randrange(4)) + body[at + 1 :]
        elif what == 1:
            body = body[:at]
        elif what == 2:
            body = body[at:] + body[:at]
        elif what == 3:
            body = body[:at] + bytes([rng.choice(b'"{}[]\\,:0-9eE.')]) + body[at:]
        else:
            body = body[:at] + body[at : at + 9] * 3 + body[at + 9 :]
    return body


def message(rng, times):
    """A path, headers and a body, of an event that may be right."""
    kind = rng.choice(("request", "response"))
    body = rng.choice(REQUESTS if kind == "request" else RESPONSES)
    how = rng.random()
    if 0.3 < how < 0.6:
        body = damaged(rng, body)
    elif how >= 0.6 and body.endswith(b"}"):
        body = json.dumps(changed(rng, json.loads(body))).encode()
    id_ = f"id{rng.randrange(times // 3 + 1)}"
    if rng.random() < 0.7:
        told = headers(kind, id_)
        if rng.random() < 0.2:
            told[rng.choice(list(told))] = rng.choice(
                ["", "%", "%ff", "\xff", "x" * 2000, "1.0", "application/cloudevents+json"]
            )
        if rng.random() < 0.1:
            del told[rng.choice(list(told))]
    else:
        try:
            events = [structured(kind, json.loads(body), id_)]
        except ValueError:
            events = [structured(kind, body.decode("latin-1"), id_)]
        if rng.random() < 0.5:
            events = changed(rng, events)
        if isinstance(events, list) and len(events) == 1 and rng.random() < 0.5:
            body = json.dumps(events[0]).encode()
            told = {"content-type": "application/cloudevents+json"}
        else:
            body = json.dumps(events).encode()
            told = {"content-type": "application/cloudevents-batch+json"}
        if rng.random() < 0.2:
            body = damaged(rng, body)
    if rng.random() < 0.1:
        body = gzip.compress(body, 1)
        if rng.random() < 0.5:
            body = damaged(rng, body)
    return PATH + rng.choice(QUERIES), told, body


async def bombard(folder, rule, times, seed):
    """So many messages; how often each status was answered."""
    rng, seen, taken = random.Random(seed), Counter(), 0
    limits = Limits(pairs=50, body_bytes=100_000, batch_rows=100)
    async with serving(folder, rule, limits=limits) as app:
        served = served_monitor(app)
        for i in range(times):
            path, told, body = message(rng, times)
            answer = await call(app, "POST", path, body, told)
            assert answer.status < 500, (seed, i, path, told, body, answer.body)
            seen[answer.status] += 1
            taken += answer.json.get("decisions", 0)
            assert served.monitor.rows == taken - served.counts.repeated, (seed, i, body)
            assert served.counts.waiting_events <= 50
        assert taken > 0
        await app.service.drain(30)  # which also gives up what waits
        assert served.monitor.missing_decisions == served.counts.dropped.total()
    return seen


@pytest.mark.parametrize("rule", ['metric = "linf"\nepsilon = 0.1\n', TABLE], ids=["x", "table"])
def test_stranger_gets_no_server_error_and_leaves_nothing(tmp_path, rule):
    seen = asyncio.run(bombard(tmp_path, rule, 1_500, 7))
    assert {200, 400, 409, 413, 422} <= seen.keys(), seen


@pytest.mark.slow
@pytest.mark.parametrize("rule", ['metric = "linf"\nepsilon = 0.1\n', TABLE], ids=["x", "table"])
def test_strangers_in_great_numbers_get_no_server_error(tmp_path, rule):
    asyncio.run(bombard(tmp_path, rule, 50_000, 8))
