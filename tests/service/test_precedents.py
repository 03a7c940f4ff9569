"""POST …/like over HTTP: who may ask, what is answered, bounded, logged and erased."""

import asyncio
import json
import logging

import likewise as lw
from likewise.service.settings import Limits
from likewise.tables.exact_values import pack, unpack
from likewise.verdict.exact_body import EXACT_CONTENT_TYPE
from likewise.verdict.precedents import precedents_of
from tests.pages.asking import token
from tests.service.asgi_calls import call, serving

ONE = "/v1/monitors/default"
SECRET = 0.5432109876


def run(coroutine):
    return asyncio.run(coroutine)


def bearer(text):
    return {"authorization": f"Bearer {text}"}


def serve(tmp_path, play, tokens=(), limits=None):
    """Run `play(app)` with five decisions, one of them reviewed and one overruled."""

    async def playing():
        options = {"ledger": True, "tokens": list(tokens)}
        async with serving(tmp_path, limits=limits or Limits(), **options) as app:
            monitor = app.service.monitors["default"].monitor
            for row, (x, z) in enumerate(((0.5, "a"), (0.52, "b"), (0.54, "a"), (0.9, "b"))):
                monitor.observe([x], z, key=f"key-{row}")
            monitor.ledger.review(1, None, "error", reason="why-reviewed", reviewer="rita")
            monitor.ledger.supersede("key-2", "b", by="otto", why="why-overruled")
            return await play(app, monitor)

    return run(playing())


async def ask(app, text=None, **fields):
    headers = {} if text is None else bearer(text)
    return await call(app, "POST", f"{ONE}/like", json.dumps(fields).encode(), headers)


def test_the_answer_is_that_of_the_monitor(tmp_path):
    async def play(app, monitor):
        here = monitor.like([SECRET])
        assert here.near == 3
        assert (await ask(app, x=[SECRET])).json == here.to_dict()
        headers = {"content-type": EXACT_CONTENT_TYPE, "accept": EXACT_CONTENT_TYPE}
        answer = await call(app, "POST", f"{ONE}/like", pack({"x": [SECRET]}), headers)
        there = precedents_of(unpack(answer.body))
        assert there.to_dict() == here.to_dict() and there.counts == here.counts
        assert there.input_distances.tobytes() == here.input_distances.tobytes()
        assert (there.times == here.times).all() and there.reviews == here.reviews
        assert monitor.rows == 5

    serve(tmp_path, play)


def test_who_may_not_review_sees_no_key_no_name_and_no_reason(tmp_path):
    reader, one = token("reader", "read")
    reviewer, two = token("reviewer", "read", "review")

    async def play(app, _):
        short = await ask(app, reader, x=[SECRET])
        for word in (b"key-", b"rita", b"otto", b"why-"):
            assert word not in short.body
        cases = short.json["cases"]
        assert len(cases) == 3 and cases[1]["reviews"][0]["disposition"] == "error"
        exact = {"accept": EXACT_CONTENT_TYPE, **bearer(reader)}
        body = json.dumps({"x": [SECRET]}).encode()
        packed = await call(app, "POST", f"{ONE}/like", body, exact)
        for word in (b"key-", b"rita", b"otto", b"why-"):
            assert word not in packed.body
        whole = (await ask(app, reviewer, x=[SECRET])).body
        assert all(word in whole for word in (b"key-0", b"rita", b"why-reviewed", b"otto"))

    serve(tmp_path, play, [one, two])


def test_who_may_only_observe_gets_neither_precedents_nor_support(tmp_path, monkeypatch):
    sender, one = token("sender", "observe")
    both, two = token("both", "observe", "read")
    body = json.dumps({"x": [SECRET], "z": "a"}).encode()
    many = json.dumps({"x": [[SECRET]], "z": ["a"]}).encode()

    async def play(app, monitor):
        assert (await ask(app, sender, x=[SECRET])).status == 403
        engine = monitor.core.engine
        monkeypatch.setattr(engine, "support", True)
        for path, sent in (("check", body), ("batch/check?verdicts=all", many)):
            for text, told in ((sender, False), (both, True)):
                answer = await call(app, "POST", f"{ONE}/{path}", sent, bearer(text))
                assert answer.status == 200 and (b"support" in answer.body) == told
                accept = bearer(text) | {"accept": EXACT_CONTENT_TYPE}
                exact = unpack((await call(app, "POST", f"{ONE}/{path}", sent, accept)).body)
                assert (exact.get("support", exact.get("near")) is not None) == told
        assert monitor.check([SECRET], "a").support.near == 3

    serve(tmp_path, play, [one, two])


def test_a_limit_has_a_maximum_and_near_counts_all(tmp_path):
    async def play(app, _):
        body = (await ask(app, x=[SECRET])).json
        assert (body["near"], len(body["cases"])) == (3, 2)
        body = (await ask(app, x=[SECRET], limit=1)).json
        assert (body["near"], len(body["cases"])) == (3, 1)
        assert (await ask(app, x=[SECRET], limit=0)).json["cases"] == []
        for limit in (3, 10**30, -1, 1.5, "all"):
            answer = await ask(app, x=[SECRET], limit=limit)
            assert answer.status in (400, 422), limit

    serve(tmp_path, play, limits=Limits(precedents=2))


def test_lookups_are_rate_limited(tmp_path):
    reader, one = token("reader", "read")

    async def play(app, _):
        statuses = [(await ask(app, reader, x=[SECRET])).status for _ in range(15)]
        assert statuses[:10] == [200] * 10 and set(statuses[10:]) == {429}

    serve(tmp_path, play, [one], Limits(rate=1.0))


def test_the_log_says_who_asked_and_nothing_of_the_case(tmp_path, caplog):
    reader, one = token("reader", "read")

    async def play(app, _):
        with caplog.at_level(logging.DEBUG):
            await ask(app, reader, x=[SECRET], person=None)
            await ask(app, reader, x=["SECRET-WORD"])
        lines = [record for record in caplog.records if getattr(record, "fields", {})]
        told = [one.fields for one in lines if one.fields["event"] == "like"]
        assert told == [{"event": "like", "monitor": "default", "by": "reader"}]
        assert str(SECRET)[:6] not in caplog.text and "SECRET-WORD" not in caplog.text
        assert "key-" not in caplog.text

    serve(tmp_path, play, [one])


def test_an_erased_decision_is_in_no_answer(tmp_path):
    async def play(app, _):
        before = await ask(app, x=[SECRET])
        assert b"key-0" in before.body
        erased = await call(app, "POST", f"{ONE}/erase", b'{"keys": ["key-0"]}')
        assert erased.status == 200
        after = await ask(app, x=[SECRET])
        assert after.json["near"] == before.json["near"] - 1
        assert b"key-0" not in after.body
        assert 0 not in [case["row"] for case in after.json["cases"]]

    serve(tmp_path, play)


def test_a_refused_question_counts_as_no_refused_decision(tmp_path):
    async def play(app, _):
        counts = app.service.monitors["default"].counts
        for fields in ({"x": ["no"]}, {"x": [1.0, 2.0]}, {"values": {"a": 1}}, {}, {"x": "text"}):
            answer = await ask(app, **fields)
            assert answer.status in (400, 422), fields
        assert counts.refused.total() == 0

    serve(tmp_path, play)


def test_the_client_for_event_loops_asks_the_same(tmp_path):
    from tests.support.served_monitors import connected

    monitor = lw.Monitor(lw.Rule("linf", 0.1))
    monitor.observe_many([[0.5], [0.54]], ["a", "b"])
    with connected(monitor) as client:
        endpoint = client.endpoint

        async def play():
            async with lw.client.AsyncClient(endpoint.url, endpoint.monitor) as there:
                return await there.like([0.5], limit=1)

        assert run(play()).to_dict() == client.like([0.5], limit=1).to_dict()
        assert client.like([0.5]).near == 2
