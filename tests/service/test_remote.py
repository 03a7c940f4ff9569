"""The route of clients: whatever is sent is answered with a reason; ids are kept in bounds."""

import asyncio

import httpx2
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import likewise as lw
from likewise.intake.packed import CONTENT_TYPE, pack, unpack
from likewise.service import requests as kept
from likewise.service.remote.verbs import VERBS
from likewise.service.requests import InDoubt, MaybeDone, Repeat, Requests
from likewise.values.frames import ColumnTable
from tests.served_monitors import running

RULE = lw.Rule("linf", 0.15)
ANYTHING = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=6,
)
NAMES = ["x", "z", "key", "keys", "time", "times", "model", "models", "witnesses", "rows", "look"]


@pytest.fixture(scope="module")
def url():
    return f"{running().url}/v1/monitors/{running().host(lw.Monitor(RULE))}/remote/"


@pytest.fixture(scope="module")
def http():
    with httpx2.Client(headers={"content-type": CONTENT_TYPE}) as http:
        yield http


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    verb=st.sampled_from(sorted(VERBS)),
    fields=st.dictionaries(st.one_of(st.sampled_from(NAMES), st.text(max_size=3)), ANYTHING),
)
def test_nothing_that_is_sent_breaks_it(url, http, verb, fields):
    try:
        body = pack(fields)
    except lw.BadDecision:
        body = b"\x00" * 20
    answer = http.post(url + verb, content=body)
    assert answer.status_code in (200, 400, 404, 409, 413, 422), (verb, fields, answer.text)
    if answer.status_code != 200:
        assert answer.json()["message"]


def test_what_is_no_body_and_no_verb(url, http):
    assert http.post(url + "observe", content=b"{}").json()["code"] == "bad-decision"
    assert http.post(url + "__class__", content=b"").status_code == 404
    assert http.get(url + "observe").status_code == 405
    bad = {"likewise-request": "short"}
    assert http.post(url + "observe", content=pack({}), headers=bad).status_code == 400
    look = pack({"look": "__init__", "rows": [0]})
    assert http.post(url + "past", content=look).status_code == 404
    several = pack({"x": np.zeros((100_001, 1)), "z": ["a"] * 100_001})
    assert http.post(url + "observe_many", content=several).status_code == 413
    assert unpack(http.post(url + "state", content=pack({})).content)["durable"] is False


PEOPLE = lw.Rule(features={"job": lw.Feature("category")}, output_column="ok")
LONG = "x" * 2000


@pytest.mark.parametrize(
    ("rule", "verb", "fields"),
    [
        (RULE, "observe", {"x": np.zeros(1), "z": LONG}),
        (RULE, "observe", {"x": np.zeros(1), "z": LONG.encode()}),
        (RULE, "observe", {"x": np.zeros(1), "z": ("a", LONG)}),
        (RULE, "observe", {"x": np.zeros(1), "z": "a", "key": LONG}),
        (RULE, "observe", {"x": np.zeros(1), "z": "a", "model": LONG}),
        (RULE, "observe", {"x": np.zeros(1), "z": "a", "source": LONG, "position": 1}),
        (RULE, "observe_many", {"x": np.zeros((1, 1)), "z": [LONG]}),
        (RULE, "observe_many", {"x": np.zeros((1, 1)), "z": ["a"], "keys": [LONG]}),
        (RULE, "observe_many", {"x": np.zeros((1, 1)), "z": ["a"], "models": LONG}),
        (RULE, "load", {"x": np.zeros((1, 1)), "z": np.array([LONG])}),
        (PEOPLE, "observe", {"x": {"job": LONG, "ok": "yes"}}),
        (PEOPLE, "observe_many", {"x": [{"job": LONG, "ok": "yes"}]}),
        (PEOPLE, "observe_many", {"x": ColumnTable({"job": [LONG], "ok": ["yes"]})}),
        (PEOPLE, "load", {"x": {"job": ["cook", LONG], "ok": ["yes", "no"]}}),
    ],
)
def test_words_that_are_too_long_are_refused_in_every_form(http, rule, verb, fields):
    name = running().host(lw.Monitor(rule))
    answer = http.post(f"{running().url}/v1/monitors/{name}/remote/{verb}", content=pack(fields))
    assert answer.status_code == 413 and "more than" in answer.json()["message"], answer.text
    hosted = running().service.monitors[name]
    assert hosted.monitor.rows == 0
    hosted.close()


def test_an_id_is_done_once_and_in_doubt_when_it_is_forgotten(monkeypatch):
    monkeypatch.setattr(kept, "_IDS", 3)
    monkeypatch.setattr(kept, "_BYTES", 100)
    done = []

    async def do():
        await asyncio.sleep(0.01)
        done.append(1)
        return b"%040d" % len(done)

    async def fail():
        raise lw.BadDecision("no")

    async def maybe():
        raise MaybeDone(lw.BadFile("the disk is full"))

    async def told():
        requests = Requests()

        def once(id, age=None, instance=None, do=do, if_unknown=None):
            repeat = Repeat(id, age, instance or requests.instance)
            return requests.once("m", repeat, do, if_unknown=if_unknown)

        both = await asyncio.gather(once("first"), once("first", 0.0))
        assert both[0] == both[1] == await once("first", 1.0) and len(done) == 1
        for error in (lw.BadDecision, lw.BadDecision):  # refused: done anew, and refused again
            with pytest.raises(error):
                await once("refused", do=fail)
        assert await once("refused", 0.1) and len(done) == 2
        with pytest.raises(MaybeDone):
            await once("maybe", do=maybe)
        with pytest.raises(InDoubt):
            await once("maybe", 0.1)
        with pytest.raises(InDoubt):  # of an earlier process, with a ledger and without a key
            await once("unknown", 0.1, "another process")
        assert await once("unknown", 0.1, "another process", if_unknown=do) and len(done) == 3
        with pytest.raises(InDoubt):  # its answer has left: three of 40 bytes do not fit
            await once("first", 2.0)
        assert await once("next")
        with pytest.raises(InDoubt):  # its id has left
            await once("first", 2.0)
        assert requests._bytes <= 100 and len(requests._kept) <= 3
        assert len(done) == 4

    asyncio.run(told())


def test_answers_of_a_monitor_are_dropped_when_something_is_erased():
    async def run():
        requests = Requests()

        async def once(monitor, id, do):
            return await requests.once(monitor, Repeat(id), do, if_unknown=None)

        async def observe():
            return b"a verdict"

        async def erase():
            requests.forget("m")
            return b"erased"

        for monitor in ("m", "other"):
            await once(monitor, "first", observe)
        assert await once("m", "erase", erase) == b"erased"
        with pytest.raises(InDoubt):
            await once("m", "first", observe)
        assert await once("other", "first", erase) == b"a verdict"
        assert await once("m", "erase", observe) == b"erased"
        assert requests._bytes == len(b"a verdict" + b"erased")

    asyncio.run(run())


def test_a_header_that_makes_no_sense_is_refused():
    assert Repeat.of(None) is None and Repeat.of("12345678") == Repeat("12345678")
    assert Repeat.of("12345678 1.5 abc") == Repeat("12345678", 1.5, "abc")
    for header in ("", "short", "12345678 1", "12345678 x y", "x" * 65, "12345678 nan y"):
        with pytest.raises(ValueError):
            Repeat.of(header)
