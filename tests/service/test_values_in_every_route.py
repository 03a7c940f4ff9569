"""A value means the same in every route, or is refused in all of them, and never is a fault."""

import asyncio
import io
import json
import threading
import warnings

import pytest

import likewise as lw
from likewise.service.app import App
from likewise.service.http_errors import Refusal
from likewise.service.routes.query_values import parse_number, parse_time
from likewise.service.served_monitor import ServedMonitor
from likewise.service.service import Service
from likewise.service.settings import Limits, MonitorSettings, ServiceSettings
from tests.service.asgi_calls import call

VALUES = [
    *("0.5", "1", "-0.0", "true", "null", '"0.5"', '"1_0"', "[0.5]", "[true]", '["0.5"]'),
    *("{}", '{"a":1}', '{"decimal":"0.5"}', '{"decimal":"NaN"}', '{"decimal":"sNaN"}', "[[0.5]]"),
    *('{"float":"inf"}', "9007199254740992", "9007199254740993", "-9007199254740993", "1e400"),
    *('["a",["b"]]', "18446744073709551616", "9" * 400, "9" * 5000, "NaN"),
]
LIMITS = Limits(skew_seconds=1e10)
VECTORS = {"label": {}, "number": {"output": "number", "delta": 0.1}}
TABLE = {"epsilon": 1, "output_column": "z", "features": {"a": lw.Feature("number", tolerance=1)}}


def asked(rule, verb, body, kind="application/json", *, meanwhile=None):
    """The status of an answer, and the monitor, which is served for this one request."""

    async def run():
        service = Service(
            ServiceSettings({"none": MonitorSettings(rule="none.toml")}, limits=LIMITS)
        )
        monitor = lw.Monitor(rule)
        served = ServedMonitor("m", monitor, MonitorSettings(rule="none.toml"), LIMITS)
        service.ready, service.pending, service.monitors = True, {}, {"m": served}
        if meanwhile is not None:
            meanwhile(monitor)
        body_ = body if isinstance(body, bytes) else body.encode()
        answer = await call(
            App(service), "POST", f"/v1/monitors/m/{verb}", body_, {"content-type": kind}
        )
        first = json.loads(answer.body.splitlines()[0])
        return first.get("status", answer.status), monitor, answer

    return asyncio.run(run())


def ways(fields, columns):
    """Bodies of one decision, by route; how many decisions are remembered then."""
    yield "observe", f"{{{fields}}}", 1
    yield "check", f"{{{fields}}}", 0
    yield "stream", f"{{{fields}}}\n", 1
    yield "batch", f'{{"decisions":[{{{fields}}}]}}', 1
    yield "batch", f"{{{columns}}}", 1


@pytest.mark.parametrize("output", VECTORS)
@pytest.mark.parametrize("place", ["input", "output", "column", "output column"])
def test_value_is_taken_or_refused_in_every_route_alike(output, place):
    in_table = place.endswith("column")
    rule = (
        lw.Rule(**TABLE, **VECTORS[output]) if in_table else lw.Rule("linf", 1, **VECTORS[output])
    )
    for value in VALUES:
        fields, columns = {
            "input": (f'"x":[0,{value}],"z":1', f'"x":[[0,{value}]],"z":[1]'),
            "output": (f'"x":[0,1],"z":{value}', f'"x":[[0,1]],"z":[{value}]'),
            "column": (f'"values":{{"a":{value},"z":1}}', f'"values":{{"a":[{value}],"z":[1]}}'),
            "output column": (
                f'"values":{{"a":1,"z":{value}}}',
                f'"values":{{"a":[1],"z":[{value}]}}',
            ),
        }[place]
        found = {}
        for verb, body, rows in ways(fields, columns):
            status, monitor, _ = asked(rule, verb, body)
            assert status in (200, 400, 422) and monitor.rows == (status == 200) * rows
            found[verb, body] = status == 200
            if monitor.rows and "output" in place:
                found["kept", repr(monitor.past.outputs([0]))] = True
        taken = {kept for kept in found if kept[0] == "kept"}
        assert len(set(found.values())) == 1 and len(taken) <= 1, found


def test_number_that_the_type_of_a_batch_has_not_is_refused():
    for kind, taken, refused in (
        ("uint8", ("0", "255", "7.0"), ("1.5", "-1", "256", "1e300", "9" * 400)),
        ("int32", ("-2147483648", "2147483647"), ("0.5", "2147483648", "-2147483649")),
        ("float32", ("0.1", "16777217"), ("1e300",)),
    ):
        for one in (*taken, *refused):
            body = f'{{"x":[[0],[{one}]],"z":[1,1],"type":"{kind}"}}'
            for verb in ("batch", "batch/check", "batch/load"):
                with warnings.catch_warnings():
                    warnings.simplefilter("error")
                    status = asked(lw.Rule("linf", 1), verb, body)[0]
                assert status == (200 if one in taken else 422), (verb, body)


@pytest.mark.parametrize("place", ["input", "output", "column", "output column"])
def test_value_of_many_parts_has_the_bound_of_a_text(place):
    in_table = place.endswith("column")
    features = {"a": lw.Feature("category")}
    rule = lw.Rule(**{**TABLE, "features": features}) if in_table else lw.Rule("linf", 1)
    long = json.dumps([1] * LIMITS.label_bytes)
    fields, columns = {
        "input": (f'"x":[0,{long}],"z":1', f'"x":[[0,{long}]],"z":[1]'),
        "output": (f'"x":[0,1],"z":{long}', f'"x":[[0,1]],"z":[{long}]'),
        "column": (f'"values":{{"a":{long},"z":1}}', f'"values":{{"a":[{long}],"z":[1]}}'),
        "output column": (f'"values":{{"a":1,"z":{long}}}', f'"values":{{"a":[1],"z":[{long}]}}'),
    }[place]
    for verb, body, _ in ways(fields, columns):
        status, monitor, _ = asked(rule, verb, body)
        assert status == (422 if place == "input" else 413) and monitor.rows == 0


def test_times_that_are_all_null_are_no_times():
    for body in (
        '{"x":[[0,1]],"z":[1],"times":[null]}',
        '{"decisions":[{"x":[0,1],"z":1,"time":null}]}',
    ):
        assert asked(lw.Rule("linf", 1), "batch", body)[0] == 200
    body = '{"x":[[0,1],[0,1]],"z":[1,1],"times":[null,1.7e9]}'
    assert asked(lw.Rule("linf", 1), "batch", body)[0] == 422


def test_arrow_column_of_lists_is_no_number():
    pa = pytest.importorskip("pyarrow")
    table, stream = pa.table({"a": [[0.5, 0.5]], "z": [1]}), io.BytesIO()
    with pa.ipc.new_stream(stream, table.schema) as writer:
        writer.write_table(table)
    kind = "application/vnd.apache.arrow.stream"
    assert asked(lw.Rule(**TABLE), "batch", stream.getvalue(), kind)[0] == 422


def test_decision_of_more_columns_than_are_taken_is_refused_in_a_few_words():
    names = range(10_001)
    for verb, body in (
        ("observe", json.dumps({"values": dict.fromkeys(map(str, names), 1)})),
        ("batch", json.dumps({"values": {str(i): [1] for i in names}})),
    ):
        status, _, answer = asked(lw.Rule(**TABLE), verb, body)
        assert status == 413 and len(answer.body) < 1000


def test_long_input_is_judged_beside_the_event_loop():
    threads = []

    def noted(monitor):
        of, each = monitor.observe, monitor.core.observe_each

        def observe(*given, **named):
            threads.append(threading.current_thread())
            return of(*given, **named)

        def observe_each(decisions):
            threads.append(threading.current_thread())
            return each(decisions)

        monitor.observe, monitor.core.observe_each = observe, observe_each

    for width, on_the_loop in ((10, True), (10_000, False)):
        body = json.dumps({"x": [1.0] * width, "z": 1})
        assert asked(lw.Rule("linf", 1), "observe", body, meanwhile=noted)[0] == 200
        assert (threads.pop() is threading.main_thread()) == on_the_loop


@pytest.mark.parametrize("text", ["1_0", "٣", "nan", "inf", " 5", "0x10", "1e999", "--5", "²", ""])
def test_text_that_is_no_number_to_others_is_none_in_a_query(text):
    for read in (parse_number, parse_time):
        with pytest.raises(Refusal):
            read("since", text)
    assert parse_number("level", "1.5e1") == 15 and parse_time("since", "1.7e9") == 1.7e9
