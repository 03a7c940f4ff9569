"""Bodies with exact values: each is answered or refused with a reason, and says what JSON says."""

import datetime
import json

import httpx2
import msgspec
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import likewise as lw
from likewise.service.app import App
from likewise.service.routes.past_lookups import LOOKUPS
from likewise.service.service import Service
from likewise.service.settings import MonitorSettings, ServiceSettings
from likewise.tables.exact_values import pack, unpack
from likewise.verdict.exact_body import EXACT_CONTENT_TYPE, verdict_of, verdicts_of
from likewise.verdict.verdict_body import write_body
from tests.support.served_monitors import connected, running

RULE = lw.Rule("linf", 0.15)
PEOPLE = lw.Rule(features={"job": lw.Feature("category")}, output_column="ok")
LONG = "x" * 2000
DAY = datetime.date(2026, 1, 31)
REFUSED = (400, 404, 409, 410, 413, 415, 422)
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=5),
    st.binary(max_size=3),
    st.dates(),
    st.decimals(),
)
ARRAYS = hnp.arrays(
    st.sampled_from(["f8", "f4", "i8", "u1", "?", "M8[us]"]),
    hnp.array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=3),
)
ANYTHING = st.recursive(
    st.one_of(SCALARS, ARRAYS),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(st.text(max_size=4), inner, max_size=3),
    ),
    max_leaves=6,
)
FIELDS = {
    "observe": ("x", "z", "values", "key", "time", "model", "source", "position"),
    "batch": ("x", "z", "values", "keys", "times", "models", "sources", "positions"),
    "batch/check": ("x", "z", "values", "time", "models"),
    "like": ("x", "values", "model", "time", "person", "limit"),
    "lost": ("count", "reason", "first", "last", "since", "until"),
    "erase": ("keys", "rows"),
    "forget": ("rows",),
    "supersede": ("key", "output", "why", "by"),
    "reviews": ("row", "witness", "disposition", "reason", "reviewer"),
    "truths": ("key", "value"),
    "verify": ("head",),
    "past": ("rows", "row", "key", "column", "first", "stop"),
}
FIELDS |= {"check": FIELDS["observe"], "batch/load": FIELDS["batch"], "flush": ()}
FIELDS |= {f"past/{look}": FIELDS["past"] for look in LOOKUPS} | {"past/secrets": ()}
del FIELDS["past"]
LIKELY = st.one_of(
    ANYTHING, st.just([0.5]), st.just([[0.5]]), st.just("a"), st.just(["a"]), st.just(0)
)


def served_routes():
    app = App(Service(ServiceSettings({"none": MonitorSettings(rule="none.toml")})))
    return {
        one.path.removeprefix("/v1/monitors/{name}").strip("/")
        for one in app.operations
        if one.exact and one.method == "POST"
    }


def test_the_fuzzed_routes_are_those_that_take_exact_values():
    assert {"past/{look}" if "past/" in one else one for one in FIELDS} == served_routes()


@pytest.fixture(scope="module")
def urls(tmp_path_factory):
    folder = tmp_path_factory.mktemp("exact")
    monitors = (
        lw.Monitor(RULE, support=True),
        lw.Monitor(PEOPLE),
        lw.open(folder / "vectors", RULE),
        lw.open(folder / "people", PEOPLE),
    )
    return [f"{running().url}/v1/monitors/{running().host(monitor)}" for monitor in monitors]


@pytest.fixture(scope="module")
def http():
    with httpx2.Client(
        headers={"content-type": EXACT_CONTENT_TYPE, "accept": EXACT_CONTENT_TYPE}, timeout=60
    ) as http:
        yield http


def known(answer, sent):
    assert answer.status_code == 200 or answer.status_code in REFUSED, (sent, answer.text)
    if answer.status_code != 200:
        assert answer.json()["message"]
        return
    assert answer.headers["content-type"] == EXACT_CONTENT_TYPE
    assert isinstance(unpack(answer.content), dict)


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_nothing_that_is_sent_breaks_it(urls, http, data):
    route = data.draw(st.sampled_from(sorted(FIELDS)))
    names = st.sampled_from(FIELDS[route]) if FIELDS[route] else st.text(max_size=3)
    if data.draw(st.integers(0, 9)) == 0:
        names = st.text(max_size=3)
    fields = data.draw(st.dictionaries(names, LIKELY))
    body = pack(fields)
    if data.draw(st.integers(0, 9)) == 0:
        body = body[: data.draw(st.integers(0, len(body)))]
    for url in urls:
        known(http.post(f"{url}/{route}", content=body), (route, fields))


def test_what_is_no_body_and_no_route(urls, http):
    url = urls[0]
    assert http.post(f"{url}/observe", content=b"{}").status_code == 422
    cut = http.post(f"{url}/observe", content=pack({"x": [0.5], "z": "a"})[:-1])
    assert cut.status_code == 400 and cut.json()["code"] == "refused"
    assert http.post(f"{url}/observe", content=pack([1])).status_code == 422
    assert http.post(f"{url}/observe", content=pack({"y": 1})).status_code == 422
    assert http.get(f"{url}/observe").status_code == 405
    bad = {"likewise-request": "short"}
    one = pack({"x": np.zeros(1), "z": "a"})
    for route in ("observe", "forget"):
        assert http.post(f"{url}/{route}", content=one, headers=bad).status_code == 400
    assert http.post(f"{url}/past/__init__", content=pack({"rows": [0]})).status_code == 404
    for x, z in ((np.zeros((100_001, 1)), ["a"] * 100_001), (np.zeros((10**12, 0)), None)):
        for route in ("batch", "batch/check", "batch/load"):
            sent = {"x": x} if z is None else {"x": x, "z": z}
            assert http.post(f"{url}/{route}", content=pack(sent)).status_code == 413
    rows = pack({"rows": [0] * 100_001})
    assert http.post(f"{url}/past/outputs", content=rows).status_code == 413
    assert http.post(f"{url}/forget", content=rows).status_code == 413
    nested = http.post(f"{url}/observe", content=b"\x81\xa1x" + b"\x91" * 100_000)
    assert nested.status_code == 400
    parts = b"\x81\xa1x\xdd" + (1 << 21).to_bytes(4, "big") + b"\x90" * (1 << 21)
    assert http.post(f"{url}/observe", content=parts).status_code == 413


@pytest.mark.parametrize(
    ("rule", "route", "fields"),
    [
        (RULE, "observe", {"x": np.zeros(1), "z": LONG}),
        (RULE, "observe", {"x": np.zeros(1), "z": LONG.encode()}),
        (RULE, "observe", {"x": np.zeros(1), "z": ("a", LONG)}),
        (RULE, "observe", {"x": np.zeros(1), "z": "a", "key": LONG}),
        (RULE, "observe", {"x": np.zeros(1), "z": "a", "model": LONG}),
        (RULE, "observe", {"x": np.zeros(1), "z": "a", "source": LONG, "position": 1}),
        (RULE, "batch", {"x": np.zeros((1, 1)), "z": [LONG]}),
        (RULE, "batch", {"x": np.zeros((1, 1)), "z": ["a"], "keys": [LONG]}),
        (RULE, "batch", {"x": np.zeros((1, 1)), "z": ["a"], "models": LONG}),
        (RULE, "batch/load", {"x": np.zeros((1, 1)), "z": np.array([LONG])}),
        (PEOPLE, "observe", {"values": {"job": LONG, "ok": "yes"}}),
        (PEOPLE, "batch", {"values": [{"job": LONG, "ok": "yes"}]}),
        (PEOPLE, "batch", {"values": {"job": [LONG], "ok": ["yes"]}}),
        (PEOPLE, "batch/load", {"values": {"job": ["cook", LONG], "ok": ["yes", "no"]}}),
    ],
)
def test_words_that_are_too_long_are_refused_in_every_form(http, rule, route, fields):
    name = running().host(lw.Monitor(rule))
    answer = http.post(f"{running().url}/v1/monitors/{name}/{route}", content=pack(fields))
    assert answer.status_code == 413 and "more than" in answer.json()["message"], answer.text
    served = running().service.monitors[name]
    assert served.monitor.rows == 0
    served.close()


@pytest.mark.parametrize("name", ["keys", "times", "models", "sources", "positions"])
def test_what_is_no_list_is_refused_beside_a_batch(http, name):
    served = running().host(lw.Monitor(RULE))
    url = f"{running().url}/v1/monitors/{served}"
    moment = msgspec.msgpack.Ext(3, msgspec.msgpack.encode(["<M8[s]", [], b"\0" * 8]))
    for value in (5, -1, 1.5, float("nan"), True, b"a", {"a": 1}, moment):
        for route in ("batch", "batch/load"):
            body = msgspec.msgpack.encode({"x": [[0.0], [0.0]], "z": ["a", "b"], name: value})
            answer = http.post(f"{url}/{route}", content=body)
            assert answer.status_code == 422, (route, value, answer.text)
    if name == "keys":
        body = pack({"x": np.zeros((2, 1)), "z": ["a", "b"], name: "ab"})
        assert http.post(f"{url}/batch", content=body).status_code == 422
    assert running().service.monitors[served].monitor.rows == 0


def test_long_keys_and_values_of_case_work_are_refused(urls, http):
    for route, fields in (
        ("truths", {"key": LONG, "value": "a"}),
        ("truths", {"key": "a", "value": LONG}),
        ("supersede", {"key": LONG, "output": "a", "why": "x", "by": "y"}),
        ("supersede", {"key": "a", "output": LONG, "why": "x", "by": "y"}),
        ("erase", {"keys": [LONG]}),
        ("past/row_of", {"key": LONG}),
    ):
        assert http.post(f"{urls[2]}/{route}", content=pack(fields)).status_code == 413, route


def test_rows_beyond_every_number_of_a_database_are_not_there(urls, http):
    said = {"disposition": "error", "reason": "x", "reviewer": "r"}
    for more in ({"row": 1 << 63}, {"row": 0, "witness": 1 << 63}):
        assert http.post(f"{urls[2]}/reviews", content=pack(said | more)).status_code == 404
        plain = {"content-type": "application/json"}
        answer = http.post(f"{urls[2]}/reviews", json=said | more, headers=plain)
        assert answer.status_code == 404
    for route, fields in (
        ("forget", {"rows": [1 << 63]}),
        ("erase", {"rows": [1 << 63]}),
        ("past/outputs", {"rows": [1 << 63]}),
    ):
        assert http.post(f"{urls[2]}/{route}", content=pack(fields)).status_code == 404, route


def ask(url, route, fields=None, *, sent=False, wanted=False):
    """A request in JSON or with exact values, and its answer in either."""
    headers = {"content-type": EXACT_CONTENT_TYPE if sent else "application/json"}
    headers["accept"] = EXACT_CONTENT_TYPE if wanted else "*/*"
    body = pack(fields) if sent else json.dumps(fields).encode()
    if fields is None:
        answer = httpx2.get(f"{url}/{route}".rstrip("/"), headers=headers)
    else:
        answer = httpx2.post(f"{url}/{route}", content=body, headers=headers)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == (EXACT_CONTENT_TYPE if wanted else "application/json")
    assert ("likewise-instance" in answer.headers) == wanted
    return unpack(answer.content) if wanted else answer.json()


@pytest.mark.parametrize("sent", [False, True])
@pytest.mark.parametrize("wanted", [False, True])
def test_every_route_takes_and_answers_both(tmp_path, sent, wanted):
    with connected(lw.open(tmp_path / "ledger", RULE)) as client:

        def told(route, fields=None):
            return ask(client.endpoint.monitor_url, route, fields, sent=sent, wanted=wanted)

        assert told("batch/load", {"x": [[0.5]], "z": ["a"], "keys": ["first"]}) == {
            "first_row": 0,
            "decisions": 1,
        }
        assert told("observe", {"x": [0.5], "z": "b", "key": "one"})["count"] == 1
        assert told("check", {"x": [0.5], "z": "c"})["count"] == 2
        checked = told("batch/check", {"x": [[0.5], [9.0]], "z": ["c", "a"]})
        assert checked["first_row"] == 2
        several = told("batch", {"x": [[0.5], [9.0]], "z": ["c", "a"]})
        if wanted:
            assert checked["offsets"].tolist() == several["offsets"].tolist() == [0, 2, 2]
        else:
            assert checked["violations"] == several["violations"] == 1
            assert checked["verdicts"][0]["row"] is None and several["verdicts"][0]["row"] == 2
        assert told("lost", {"count": 2, "reason": "full"}) == {"done": True}
        assert told("flush", {}) == {"done": True}
        assert told("")["missing_decisions"] == 2
        assert told("past/outputs", {"rows": [0, 1]}) == {"outputs": ["a", "b"]}
        assert told("past/row_of", {"key": "one"}) == {"row_of": 1}
        assert np.array(told("past/inputs", {"rows": [1]})["inputs"]).tolist() == [[0.5]]
        assert list(told("past/alive", {"rows": [0]})["alive"]) == [True]
        assert "live" in told("explain")["index"]
        review = {"row": 1, "witness": 0, "disposition": "error", "reason": "x", "reviewer": "r"}
        assert told("reviews", review) == {"done": True}
        assert told("truths", {"key": "one", "value": "a"}) == {"done": True}
        overruled = {"key": "one", "output": "a", "why": "x", "by": "y"}
        assert told("supersede", overruled)["row"] == 4
        counts = told("stats")
        assert (
            counts["decisions"],
            counts["comparability_known"],
            counts["missing_decisions"],
        ) == (5, 0, 2)
        assert told("positions") == {"positions": {}}
        walked = told("verify", {"head": told("head")["head"]})
        assert walked["ok"] and walked["head"] == told("head")["head"]
        assert told("forget", {"rows": [2]}) == {"forgotten": 1}
        assert told("erase", {"keys": ["first"]}) == {"rows": [0], "complete": True}


def test_json_has_objects_for_values_that_it_has_no_form_for(tmp_path):
    with connected(lw.open(tmp_path / "ledger", RULE)) as client:
        client.observe([0.5], "a", key="one")
        url, day = client.endpoint.monitor_url, {"date": "2026-01-31"}
        ask(url, "truths", {"key": "one", "value": day})
        overruled = {"key": "one", "output": day, "why": "x", "by": "y"}
        assert ask(url, "supersede", overruled)["row"] == 1
        assert client.past.outputs([1]) == [DAY]


def test_a_kept_answer_is_told_as_what_it_is(urls):
    body, again = pack({"x": np.zeros(1), "z": "a"}), {"likewise-request": "a-kept-answer"}
    first, other = (
        httpx2.post(
            f"{urls[0]}/observe",
            content=body,
            headers={"content-type": EXACT_CONTENT_TYPE, **more, **again},
        )
        for more in ({"accept": EXACT_CONTENT_TYPE}, {})
    )
    assert other.content == first.content and other.headers["content-type"] == EXACT_CONTENT_TYPE
    assert other.headers["likewise-instance"] == first.headers["likewise-instance"]


def test_json_requests_with_an_id_are_done_once(tmp_path):
    with connected(lw.open(tmp_path / "ledger", RULE)) as client:
        url, headers = client.endpoint.monitor_url, {"content-type": "application/json"}

        def sent(route, body, request):
            more = {"likewise-request": request}
            return httpx2.post(f"{url}/{route}", json=body, headers=headers | more)

        for route, body in (
            ("observe", {"x": [0.5], "z": "a"}),
            ("batch", {"x": [[0.5]], "z": ["b"]}),
            ("lost", {"count": 1, "reason": "full"}),
            ("forget", {"rows": [0]}),
        ):
            first, second = (sent(route, body, f"once-{route}") for _ in range(2))
            assert first.content == second.content and first.status_code == 200
        assert client.rows == 2 and client.missing_decisions == 1
        for route in ("observe", "lost", "reviews"):
            doubt = sent(route, {"x": [0.5], "z": "a"}, "another-id 1.0 another-process")
            assert (doubt.status_code, doubt.json()["code"]) == (409, "in-doubt"), route
        assert client.rows == 2


def monitors():
    rng = np.random.default_rng(7)
    x, z = rng.random((60, 1)), [str(one) for one in rng.integers(0, 3, 60)]
    burst = lw.Burst(last=20, alarm=5)
    yield lw.Monitor(RULE, support=True, burst=burst), x, z
    yield lw.Monitor(lw.Rule("linf", 0.15), slope=True, slope_limit=2.0), x, z
    yield lw.Monitor(lw.Rule("linf", 0.15, output="number"), slope=True), x, rng.random(60)


@pytest.mark.parametrize("most", [None, 2])
def test_an_exact_body_has_what_the_json_body_has(most):
    from likewise.verdict.exact_body import exact_body, exact_columns

    for monitor, x, z in monitors():
        models = ["a", "b", None] * 20
        verdicts = monitor.observe_many(x, z, keys=[*range(59), None], models=models)
        columns = unpack(pack(exact_columns(verdicts, most)))
        made = verdicts_of(columns, monitor.past)
        assert most is not None or made == verdicts
        for one, batched in zip(verdicts, made, strict=True):
            body = unpack(pack(exact_body(one, most)))
            expected = write_body(one, most)
            assert write_body(verdict_of(body, None)) == expected
            assert write_body(batched) == expected
            for name in (
                "row",
                "violation",
                "count",
                "omitted_witnesses",
                "key",
                "model",
                "missing_decisions",
            ):
                default = 0 if name in ("omitted_witnesses", "missing_decisions") else None
                assert body.get(name, default) == expected.get(name, default), name
