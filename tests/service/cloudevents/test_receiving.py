"""Events come over HTTP and become decisions; what does not become one is counted and told."""

import asyncio
import base64
import gzip
import json
import tracemalloc
import zlib

import numpy as np
import pytest
from cloudevents.core.bindings.http import to_binary_event, to_structured_event
from cloudevents.core.v1.event import CloudEvent

import likewise as lw
from likewise.service.settings import Limits
from tests.service.asgi_calls import call, serving
from tests.service.cloudevents.payloads import (
    ID,
    PATH,
    V1_REQUEST,
    V1_RESPONSE,
    V2_REQUEST,
    V2_RESPONSE,
    headers,
    now,
    structured,
    with_raw,
)
from tests.support.rule_texts import rule_text

TABLE = rule_text(
    {"age": 5, "income": 200}, output={"column": "approved"}, metric="linf", epsilon=1.0
)


def run(coroutine):
    return asyncio.run(coroutine)


async def post(app, kind, body, id_=ID, path=PATH, **more):
    return await call(app, "POST", path, body, headers(kind, id_, **more))


async def both(app, request, response, id_=ID, path=PATH):
    """A request and its response; the second answer."""
    first = await post(app, "request", request, id_, path)
    assert first.status == 200, first.body
    assert first.json["waiting"] == 1
    return await post(app, "response", response, id_, path)


def served_monitor(app):
    return app.service.monitors["default"]


@pytest.mark.parametrize("ledger", [False, True])
@pytest.mark.parametrize("order", [("request", "response"), ("response", "request")])
def test_pair_becomes_decisions_in_either_order(tmp_path, order, ledger):
    async def scenario():
        bodies = {"request": V1_REQUEST, "response": V1_RESPONSE}
        async with serving(tmp_path, ledger=ledger) as app:
            monitor = served_monitor(app).monitor
            answers = [await post(app, kind, bodies[kind]) for kind in order]
            assert [one.status for one in answers] == [200, 200]
            assert [one.json["decisions"] for one in answers] == [0, 2]
            assert monitor.past.keys([0, 1]) == [f"{ID}/0", f"{ID}/1"]
            assert monitor.past.inputs([0]).tolist() == [[6.8, 2.8, 4.8, 1.4]]
            # again, near the first and decided differently: two violations, of this model
            other = V1_RESPONSE.replace(b"1, 1", b"1, 2")
            answer = await both(app, V1_REQUEST, other, "second")
            assert answer.json["violations"] == 1
            assert served_monitor(app).counts.violations == {"sklearn-iris": 1}
            assert monitor.missing_decisions == 0

    run(scenario())


def test_trailing_slashes_are_no_other_address(tmp_path):
    async def scenario():
        async with serving(tmp_path) as app:
            answer = await post(app, "request", V1_REQUEST, path=PATH + "//")
            assert (answer.status, answer.json["waiting"]) == (200, 1)
            assert (await post(app, "response", V1_RESPONSE, path=PATH + "/")).json["decisions"]
            assert (await post(app, "request", V1_REQUEST, path=PATH + "/x")).status == 404
            nobody = "/v1/monitors/nobody/cloudevents"
            assert (await post(app, "request", V1_REQUEST, path=nobody)).status == 404
            assert (await call(app, "GET", PATH)).status == 405

    run(scenario())


def test_structured_and_batch_mode_are_read(tmp_path):
    async def scenario():
        kind = {"Content-Type": "application/cloudevents+json; charset=utf-8"}
        batch = {"Content-Type": "application/cloudevents-batch+json"}
        async with serving(tmp_path) as app:
            one = structured("request", json.loads(V1_REQUEST))
            packed = structured(
                "response", None, data_base64=base64.b64encode(V1_RESPONSE).decode()
            )
            assert (await call(app, "POST", PATH, json.dumps(one).encode(), kind)).status == 200
            answer = await call(app, "POST", PATH, json.dumps(packed).encode(), kind)
            assert answer.json["decisions"] == 2
            as_text = structured("request", V1_REQUEST.decode(), "b")
            events = [as_text, structured("response", json.loads(V1_RESPONSE), "b"), one]
            answer = await call(app, "POST", PATH, json.dumps(events).encode(), batch)
            assert answer.status == 200
            told = answer.json
            assert (told["events"], told["decisions"], told["repeated"]) == (3, 2, 1)
            # one of them is bad: the others are taken, and the answer says which
            events = [
                structured("request", {"what": 1}, "c"),
                structured("request", json.loads(V1_REQUEST), "d"),
                structured("response", json.loads(V1_RESPONSE), "d"),
            ]
            answer = await call(app, "POST", PATH, json.dumps(events).encode(), batch)
            assert answer.status == 422
            assert answer.json["decisions"] == 2
            assert [one["event"] for one in answer.json["refused"]] == [0]

    run(scenario())


def test_events_of_the_cloudevents_package_are_read(tmp_path):
    def event(kind, id_, data):
        attributes = {
            "specversion": "1.0",
            "id": id_,
            "type": f"org.kubeflow.serving.inference.{kind}",
            "source": "http://localhost:9081/",
            "datacontenttype": "application/json",
            "inferenceservicename": "größe 7",
            "namespace": "default",
        }
        return CloudEvent(attributes, data)

    async def scenario():
        async with serving(tmp_path) as app:
            sent = []
            for i, make in enumerate((to_binary_event, to_structured_event)):
                sent.append(make(event("request", f"e {i}%", json.loads(V1_REQUEST))))
                sent.append(make(event("response", f"e {i}%", json.loads(V1_RESPONSE))))
            halves = [("request", V1_REQUEST), ("response", V1_RESPONSE)]
            texts = [
                to_structured_event(event(kind, "e 2%", json.loads(body))).body.decode()
                for kind, body in halves
            ]
            for message in sent:
                answer = await call(app, "POST", PATH, message.body, message.headers)
                assert answer.status == 200, answer.body
            kind = {"content-type": "application/cloudevents-batch+json"}
            answer = await call(app, "POST", PATH, f"[{','.join(texts)}]".encode(), kind)
            assert answer.status == 200, answer.body
            assert served_monitor(app).counts.decisions == {"größe 7": 6}
            assert served_monitor(app).monitor.past.keys([0, 3, 5]) == [
                "e 0%/0",
                "e 1%/1",
                "e 2%/1",
            ]

    run(scenario())


def test_gzip_is_inflated_without_a_header_and_up_to_a_bound(tmp_path):
    async def scenario():
        limits = Limits(body_bytes=100_000)
        async with serving(tmp_path, limits=limits) as app:
            answer = await both(app, gzip.compress(V1_REQUEST), gzip.compress(V1_RESPONSE))
            assert answer.json["decisions"] == 2
            packed = base64.b64encode(gzip.compress(V1_REQUEST)).decode()
            body = json.dumps(structured("request", None, "s", data_base64=packed)).encode()
            kind = {"content-type": "application/cloudevents+json"}
            answer = await call(app, "POST", PATH, gzip.compress(body), kind)
            assert (answer.status, answer.json["waiting"]) == (200, 1)
            bomb = gzip.compress(bytes(50_000_000))
            assert len(bomb) < limits.body_bytes
            for body, status in (
                (bomb, 413),
                (gzip.compress(V1_REQUEST)[:-9], 400),
                (gzip.compress(V1_REQUEST) + b"more", 400),
                (b"\x1f\x8bnot gzip", 400),
                (zlib.compress(V1_REQUEST), 400),
            ):
                assert (await post(app, "request", body, "bad")).status == status
            assert served_monitor(app).monitor.rows == 2
            assert served_monitor(app).counts.waiting_events == 1

    run(scenario())


def packed(count, size):
    """A batch of requests, each gzipped, and each of so many bytes when it is inflated."""
    body = V1_REQUEST + b" " * (size - len(V1_REQUEST))
    data = base64.b64encode(gzip.compress(body)).decode()
    return json.dumps(
        [structured("request", None, f"e{i}", data_base64=data) for i in range(count)]
    ).encode()


@pytest.mark.parametrize("outside", [bytes, gzip.compress], ids=["plain", "gzipped"])
def test_all_that_a_request_inflates_shares_one_bound(tmp_path, outside):
    async def scenario():
        async with serving(tmp_path, limits=Limits(body_bytes=1_000_000)) as app:
            kind = {"content-type": "application/cloudevents-batch+json"}
            for count, status in ((1_000, 413), (11, 413), (9, 200)):
                body = outside(packed(count, 100_000))
                tracemalloc.start()
                try:
                    answer = await call(app, "POST", PATH, body, kind)
                    most = tracemalloc.get_traced_memory()[1]
                finally:
                    tracemalloc.stop()
                assert answer.status == status
                assert most < 8_000_000  # of 100 MB
                assert served_monitor(app).counts.waiting_events == (9 if status == 200 else 0)

    run(scenario())


def test_outer_and_inner_gzip_share_one_bound(tmp_path):
    async def scenario():
        async with serving(tmp_path, limits=Limits(body_bytes=100_000)) as app:
            inner = gzip.compress(V1_REQUEST + b" " * 60_000)
            data = base64.b64encode(inner).decode()
            one = structured("request", None, data_base64=data)
            kind = {"content-type": "application/cloudevents+json"}
            for padding, status in ((60_000, 413), (30_000, 200)):
                body = gzip.compress(json.dumps(one).encode() + b" " * padding)
                assert (await call(app, "POST", PATH, body, kind)).status == status

    run(scenario())


def test_large_batch_of_events_lets_other_requests_in(tmp_path):
    async def scenario():
        async with serving(tmp_path) as app:
            turns = 0

            async def take_turns():
                nonlocal turns
                while True:
                    await asyncio.sleep(0)
                    turns += 1

            other = asyncio.create_task(take_turns())
            kind = {"content-type": "application/cloudevents-batch+json"}
            answer = await call(app, "POST", PATH, packed(50, 1_000), kind)
            other.cancel()
            assert answer.json["waiting"] == 50
            assert turns >= 49

    run(scenario())


def test_decisions_of_v2_on_vectors_are_those_of_a_monitor(tmp_path):
    """In JSON and raw, a tensor for each column or one for all: the same verdicts as directly."""
    rng = np.random.default_rng(3)
    X = rng.integers(0, 10, (40, 3)).astype(np.float32) / 20
    Z = rng.integers(0, 3, 40).tolist()
    expected = lw.Monitor(lw.Rule("linf", 0.1)).observe_many(X, Z)
    assert 5 < expected.violations.sum() < 40

    def outputs(chosen):
        one = {"name": "y", "shape": [len(chosen)], "datatype": "INT64", "data": chosen}
        return json.dumps({"outputs": [one]}).encode()

    def as_one(x):
        return with_raw("inputs", [("x", list(x.shape), "FP32", x.ravel().tolist())])

    def by_column(x):
        columns = [
            {"name": f"c{j}", "shape": [len(x), 1], "datatype": "FP32", "data": column.tolist()}
            for j, column in enumerate(x.T)
        ]
        return json.dumps({"inputs": columns}).encode()

    async def scenario(make):
        async with serving(tmp_path) as app:
            rows = []
            served_monitor(app).listeners.append(lambda _, verdict: rows.append(verdict))
            for begin in range(0, 40, 8):
                part = slice(begin, begin + 8)
                answer = await both(app, make(X[part]), outputs(Z[part]), f"id{begin}")
                assert answer.status == 200, answer.body
            assert {one.row: one.witnesses.rows.tolist() for one in rows} == {
                one.row: one.witnesses.rows.tolist() for one in expected if one.violation
            }

    run(scenario(as_one))
    run(scenario(by_column))


def test_decisions_of_a_table_come_as_objects_columns_or_named_lists(tmp_path):
    objects = b'{"instances": [{"age": 41, "income": 3100}, {"age": 44, "income": 3000}]}'
    lists = b'{"instances": [[41, 3100], [44, 3000]]}'
    merged = b'{"predictions": [{"approved": "no"}, {"approved": "yes"}]}'
    named = PATH + "?columns=age,income"

    async def scenario():
        async with serving(tmp_path, TABLE) as app:
            monitor = served_monitor(app).monitor
            v1 = b'{"predictions": ["no", "yes"]}'
            for i, (request, response, path) in enumerate(
                [
                    (V2_REQUEST, V2_RESPONSE, PATH),
                    (objects, v1, PATH),
                    (objects, merged, PATH),
                    (lists, v1, named),
                ]
            ):
                answer = await both(app, request, response, f"id{i}", path)
                assert (answer.status, answer.json["decisions"]) == (200, 2), answer.body
                told = monitor.past.values(2 * i)
                assert told == {"age": 41, "income": 3100, "approved": "no"}, told
            assert served_monitor(app).counts.decisions == {"loans:7": 2, "sklearn-iris": 6}
            assert served_monitor(app).counts.violations.total() == 7, (
                "all but the first contradict"
            )
            answer = await both(app, lists, v1, "unnamed")
            assert answer.status == 422
            assert "?columns=" in answer.body.decode()
            assert monitor.rows == 8

    run(scenario())


def test_output_among_several_is_named_in_the_address(tmp_path):
    body = with_raw(
        "outputs", [("p", [2, 2], "FP64", [0.1, 0.9, 1, 0]), ("y", [2], "INT8", [1, 0])]
    )

    async def scenario():
        async with serving(tmp_path) as app:
            assert (await both(app, V1_REQUEST, body, "a")).status == 422
            answer = await both(app, V1_REQUEST, body, "b", PATH + "?output=y")
            assert answer.json["decisions"] == 2
            assert (await both(app, V1_REQUEST, body, "c", PATH + "?output=z")).status == 422
            assert (await post(app, "request", V1_REQUEST, "d", PATH + "?outpt=y")).status == 400

    run(scenario())


def test_different_numbers_of_rows_are_refused_and_counted(tmp_path):
    async def scenario():
        async with serving(tmp_path) as app:
            answer = await both(app, V1_REQUEST, b'{"predictions": [1]}')
            assert answer.status == 422
            assert "2 rows, the response 1" in answer.body.decode()
            assert served_monitor(app).counts.refused == {"mismatch": 2}
            assert served_monitor(app).monitor.rows == 0

    run(scenario())


def test_one_bad_row_does_not_take_the_others_with_it(tmp_path):
    async def scenario():
        async with serving(tmp_path, ledger=True) as app:
            first = b'{"instances": [[1, 2], [3], [5, 6]]}'
            answer = await both(app, first, b'{"predictions": [1, 1, 1]}')
            assert answer.status == 422
            assert answer.json["decisions"] == 2
            assert served_monitor(app).counts.refused == {"wrong-shape": 1}
            assert served_monitor(app).monitor.rows == 2

    run(scenario())


def test_repeated_halves_change_nothing_and_other_content_is_refused(tmp_path):
    async def scenario():
        async with serving(tmp_path, ledger=True) as app:
            await post(app, "request", V1_REQUEST)
            again = await post(app, "request", V1_REQUEST)
            assert (again.status, again.json["repeated"]) == (200, 1)
            changed = await post(app, "request", V1_REQUEST.replace(b"6.8", b"6.9"))
            assert changed.status == 409
            assert (await post(app, "response", V1_RESPONSE)).json["decisions"] == 2
            for kind, body in (("request", V1_REQUEST), ("response", V1_RESPONSE)):
                again = await post(app, kind, body)
                assert (again.status, again.json["repeated"]) == (200, 1)
                assert (await post(app, kind, body + b" ")).status == 409
            assert served_monitor(app).monitor.rows == 2
            assert served_monitor(app).counts.repeated_events == {"request": 2, "response": 1}

    run(scenario())


def test_pair_that_comes_again_after_all_is_forgotten_is_answered_from_the_ledger(tmp_path):
    async def scenario():
        async with serving(tmp_path, ledger=True, limits=Limits(pairs=1)) as app:
            await both(app, V1_REQUEST, V1_RESPONSE)
            await both(app, b'{"instances": [[1, 2, 3, 4]]}', b'{"predictions": [1]}', "other")
            again = await both(app, V1_REQUEST, V1_RESPONSE)
            assert again.json["decisions"] == 2
            assert served_monitor(app).monitor.rows == 3
            assert served_monitor(app).counts.repeated == 2

    run(scenario())


@pytest.mark.parametrize("unpaired", ["lost", "counted"])
def test_lost_halves_are_counted_and_chained(tmp_path, unpaired):
    async def scenario():
        limits = Limits(pair_seconds=1)
        async with serving(tmp_path, ledger=True, limits=limits, unpaired_requests=unpaired) as app:
            served, chained = served_monitor(app), 3 if unpaired == "lost" else 1
            await post(app, "request", V1_REQUEST, "no response")
            await post(app, "response", b'{"predictions": [7]}', "no request")
            for _ in range(200):
                await asyncio.sleep(0.05)
                if served.monitor.missing_decisions == chained:
                    break
            assert served.monitor.missing_decisions == chained
            assert served.counts.unpaired == {"request": 1, "response": 1}
            assert served.counts.dropped == (
                {"unpaired request": 2, "unpaired response": 1}
                if unpaired == "lost"
                else {"unpaired response": 1}
            )
            # the other half comes after all: it is not counted as lost a second time
            late = await post(app, "response", V1_RESPONSE, "no response")
            assert (late.status, late.json["late"]) == (200, 1)
            assert served.counts.unpaired == {"request": 1, "response": 2}
            assert served.monitor.missing_decisions == chained
            # and what waits when the service ends is lost then
            await post(app, "response", V1_RESPONSE, "at the end")
        with lw.open(tmp_path / "ledger") as monitor:
            assert monitor.missing_decisions == chained + 2
            assert monitor.ledger.verify().rows == 0

    run(scenario())


def test_halves_that_find_no_room_are_lost_oldest_first(tmp_path):
    async def scenario():
        async with serving(tmp_path, limits=Limits(pairs=5)) as app:
            for i in range(20):
                assert (await post(app, "request", V1_REQUEST, f"id{i}")).status == 200
            served = served_monitor(app)
            async with asyncio.timeout(30):
                while served.monitor.missing_decisions < 30:
                    await asyncio.sleep(0.01)
            assert served.counts.waiting_events == 5
            assert served.counts.unpaired == {"request": 15}
            assert served.monitor.missing_decisions == 30
            assert (await post(app, "response", V1_RESPONSE, "id19")).json["decisions"] == 2

    run(scenario())


def test_pair_that_finds_no_room_in_the_queue_may_be_sent_again(tmp_path):
    async def scenario():
        async with serving(tmp_path, ledger=True, limits=Limits(waiting_rows=2)) as app:
            served = served_monitor(app)
            await post(app, "request", V1_REQUEST)
            entered, leave = asyncio.Event(), asyncio.Event()
            loop = asyncio.get_running_loop()

            def slow():
                loop.call_soon_threadsafe(entered.set)
                asyncio.run_coroutine_threadsafe(leave.wait(), loop).result(30)

            busy = asyncio.create_task(served.run_in_turn(slow))
            await entered.wait()
            full = await post(app, "response", V1_RESPONSE)
            assert full.status == 429
            assert full.headers["retry-after"] == "1"
            leave.set()
            await busy
            assert served.monitor.rows == 0
            again = await post(app, "response", V1_RESPONSE)
            assert (again.status, again.json["decisions"]) == (200, 2)
            assert served.monitor.missing_decisions == 0

    run(scenario())


def test_time_is_the_response_s_within_the_servers_skew(tmp_path):
    async def scenario():
        async with serving(tmp_path, ledger=True) as app:
            await post(app, "request", V1_REQUEST, time="2026-11-16T11:00:00.078952900Z")
            when = now()
            answer = await post(app, "response", V1_RESPONSE, time=when)
            assert answer.status == 200, answer.body
            times = await served_monitor(app).read_ledger(
                lambda ledger: [one.time for one in ledger.entries()]
            )
            assert [time[:26] for time in times] == [when[:26]] * 2
            await post(app, "request", V1_REQUEST, "old")
            old = await post(app, "response", V1_RESPONSE, "old", time="2020-01-01T00:00:00Z")
            assert old.status == 422
            await post(app, "request", V1_REQUEST, "no time")
            bad = await post(app, "response", V1_RESPONSE, "no time", time="yesterday")
            assert bad.status == 422
            assert served_monitor(app).monitor.rows == 2
        async with serving(tmp_path / "..", limits=Limits(skew_seconds=0)) as app:
            await post(app, "request", V1_REQUEST)
            answer = await post(app, "response", V1_RESPONSE, time="2020-01-01T00:00:00Z")
            assert answer.json["decisions"] == 2, "the server's own time counts"

    run(scenario())


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"Ce-Specversion": "0.3"}, 400),
        ({"Ce-Type": "org.example.other"}, 422),
        ({"Ce-Id": ""}, 422),
        ({"Ce-Id": "x" * 510}, 422),
        ({"Ce-Id": "%ff"}, 400),
        ({"Ce-Namespace": "x" * 2000}, 413),
        ({"Content-Type": "application/cloudevents+json"}, 422),
        ({"Content-Type": "application/cloudevents-batch+json"}, 422),
    ],
)
def test_event_that_is_none_is_refused(tmp_path, change, status):
    async def scenario():
        async with serving(tmp_path) as app:
            answer = await call(app, "POST", PATH, V1_REQUEST, headers("request") | change)
            assert answer.status == status, answer.body
            for name in ("Ce-Specversion", "Ce-Id", "Ce-Type", "Ce-Source"):
                without = {k: v for k, v in headers("request").items() if k != name}
                assert (await call(app, "POST", PATH, V1_REQUEST, without)).status == 400
            assert (await call(app, "POST", PATH, V1_REQUEST)).status == 400
            assert (await post(app, "request", b"")).status == 422
            assert served_monitor(app).counts.waiting_events == 0
            assert served_monitor(app).counts.refused.total() == 7

    run(scenario())
