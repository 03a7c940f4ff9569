"""Nothing that a client sends is answered with 500: every route, with values meant to break it.

The routes are those of the OpenAPI document, pages included. A body is made of the fields that the
document names, one of them replaced by a hostile value.
"""

import asyncio
import contextlib
import itertools
import json
from urllib.parse import quote

import msgspec
import pytest

from likewise.pages import page_router
from likewise.service.alerts.settings import AlertsTable
from likewise.service.app import App
from likewise.service.service import Service
from likewise.service.settings import Limits, MonitorSettings, ServiceSettings
from tests.service.asgi_calls import RULE, call
from tests.support.rule_texts import rule_text

TABLE = rule_text(
    {"id": "key", "age": 5, "job": "category", "sex": "protected"},
    metric="linf",
    epsilon=1,
    output_column="ok",
)
RULES = {
    "labels": RULE,
    "numbers": f'{RULE}output = "number"\ndelta = 0.1\n',
    "chances": f'{RULE}output = "probabilities"\ndelta = 0.1\noutput_metric = "tv"\n',
    "table": TABLE,
    "slopes": f'{RULE}output = "number"\n',
}
TEXTS = [
    *("", " ", "--5", "²", "٣", "-1", "1e999", "nan", "0x10", "1_0", "5 ", "9" * 19, "9" * 309),
    *("true", "null", "[]", "%00", "\x00", "é", "../x", "a:b", ":", "'", '"', "open", "x" * 5000),
    *("2026-99-99", "2026-01-01T00:00:00Z", "0001-01-01", "9999-12-31T23:59:59+23:59", "1e300"),
]
LONGEST_REFUSAL = 4000  # bytes, whatever was sent
DEEP = "[" * 400 + "]" * 400
VALUES = [
    *("null", "true", "[]", "{}", "[[]]", '""', '"a"', '"0.5"', '"1_0"', "0", "-1", "1.5", "1e308"),
    *("9" * 19, "9" * 309, "9" * 5000, "-9223372036854775808", "9007199254740993", '"\\u0000"'),
    *('"\\ud800"', DEEP, '{"a":' * 400 + "1" + "}" * 400, "[1,2]", "[[1],[1,2]]", "[null]"),
    *('{"date":"x"}', '{"date":"2026-01-31"}', '{"float":"nan"}', '{"decimal":"1e999999"}'),
    *('{"decimal":"NaN"}', '{"decimal":"sNaN"}'),
    *('{"bytes":"zz"}', '{"a":1,"a":2}', '{"tuple":[]}', '["a",["b"]]', '[{"a":1}]', '{"":null}'),
    *(
        '{"datetime":"9999-12-31T23:59:59.999999"}',
        '{"time":"25:00"}',
        "NaN",
        "1e400",
        '"' + "x" * 5000 + '"',
    ),
]
GOOD = {
    "observe": {
        "table": '{"values":{"id":"%d","age":30,"job":"a","sex":"f","ok":"y"}}',
        "chances": '{"x":[0.5,0.25],"z":[0.5,0.5]}',
        "": '{"x":[0.5,0.25],"z":1}',
    }
}


@contextlib.asynccontextmanager
async def serving_all(folder):
    """An application with a monitor of every kind, with pages and alerts."""
    served = {}
    for name, rule in RULES.items():
        path = folder / f"{name}.toml"
        path.write_text(rule)
        more = {"kind": "slopes", "slope_limit": 3.0} if name == "slopes" else {}
        place = None if name == "labels" else str(folder / f"{name}.ledger")
        served[name] = MonitorSettings(rule=str(path), ledger=place, **more)
    alerts = AlertsTable(outbox=folder / "alerts.db")
    service = Service(ServiceSettings(served, limits=Limits(batch_rows=100), alerts=alerts))
    app = App(service, [page_router])
    await asyncio.to_thread(service.open)
    try:
        for name in RULES:
            body = GOOD["observe"].get(name, GOOD["observe"][""])
            for i in range(3):
                sent = (body % i if "%d" in body else body).encode()
                answer = await call(app, "POST", f"/v1/monitors/{name}/observe", sent)
                assert answer.status == 200, answer.body
        yield app
    finally:
        await service.drain(30)
        service.close()


def paths_of(operation, monitor):
    """The path of an operation: as it should be, and with hostile values."""
    path = operation.path.replace("{name}", monitor)
    _, braced, _ = path.partition("{")
    if not braced:
        return [path]
    begin, end = path.index("{"), path.index("}") + 1
    return [path[:begin] + quote(text, safe="") + path[end:] for text in ("0", *TEXTS) if text]


def queries_of(operation):
    yield ""
    names = [query.name for query in operation.queries] or ["key", "after", "row"]
    for name in (*names, "unknown"):
        for text in TEXTS:
            yield f"?{name}={quote(text)}"


def bodies_of(operation, monitor):
    for kind, types in operation.takes.items():
        yield from (
            (kind, body) for body in (b"", b"\xff\xff\xff\xff", b"{", b"[1]", b"\xc3(", b'""')
        )
        yield kind, DEEP.encode()
        yield kind, b"[" * 100_000
        for value in VALUES:
            yield kind, value.encode()
        for one in types or ():
            names = [field.encode_name for field in msgspec.structs.fields(one)]
            usual = usual_of(one.__name__, monitor)
            for name, value in itertools.product(names, VALUES):
                fields = {**usual, name: value}
                if name in ("x", "z"):
                    fields.pop("values", None)
                written = ",".join(f'"{each}":{said}' for each, said in fields.items())
                yield kind, f"{{{written}}}".encode()
                yield kind, f'{{"{name}":{value}}}'.encode()
            if "values" in names or one.__name__ == "RowsBody":
                yield from ((kind, body) for body in nested(one.__name__, monitor))


def usual_of(body, monitor):
    """The fields of a body that is taken, as JSON."""
    if body in ("EraseBody", "VerifyBody", "RowsBody"):
        return {}
    if body == "SupersedeBody":
        return {"key": '"0"', "output": '"n"', "why": '"w"', "by": '"b"'}
    if body == "ReviewBody":
        return {"row": "0", "disposition": '"error"', "reason": '"r"', "reviewer": '"v"'}
    if monitor == "table":
        return {"values": json.dumps({"id": "new", "age": 30, "job": "a", "sex": "f", "ok": "y"})}
    return {"x": "[0.5,0.25]", "z": "[0.5,0.5]" if monitor == "chances" else "1"}


def nested(body, monitor):
    """Hostile values where outputs, inputs and columns of a body stand."""
    for value in VALUES:
        if monitor == "table":
            for name in ("id", "age", "job", "sex", "ok"):
                row = {"id": '"n"', "age": "30", "job": '"a"', "sex": '"f"', "ok": '"y"'}
                each = ",".join(f'"{n}":{value if n == name else v}' for n, v in row.items())
                if body == "DecisionBody":
                    yield f'{{"values":{{{each}}}}}'.encode()
                elif body == "RowsBody":
                    yield f'{{"decisions":[{{"values":{{{each}}}}}]}}'.encode()
                else:
                    each = ",".join(f'"{n}":[{value if n == name else v}]' for n, v in row.items())
                    yield f'{{"values":{{{each}}}}}'.encode()
        elif body == "RowsBody":
            for x, z in ((f"[{value},1]", "1"), (value, "1"), ("[0.5,0.25]", value)):
                yield f'{{"decisions":[{{"x":{x},"z":{z}}}]}}'.encode()
        elif body == "ColumnsBody":
            for x, z in (
                (f"[[{value},1]]", "[1]"),
                (f"[{value}]", "[1]"),
                ("[[0.5,1]]", f"[{value}]"),
            ):
                yield f'{{"x":{x},"z":{z}}}'.encode()


@pytest.mark.parametrize(
    "monitor",
    [
        "labels",
        "slopes",
        *(pytest.param(one, marks=pytest.mark.long) for one in ("numbers", "chances", "table")),
    ],
)
def test_no_hostile_value_in_any_route_is_a_fault(tmp_path, monitor):
    async def run():
        faults = {}
        async with serving_all(tmp_path) as app:

            async def ask(method, path, body=b"", kind="application/json"):
                headers = {"content-type": kind, "host": "127.0.0.1"}
                answer = await call(app, method, path, body, headers)
                long = answer.status >= 400 and len(answer.body) > LONGEST_REFUSAL
                if answer.status == 500 or long:
                    route = path.partition("?")[0]
                    faults.setdefault((method, route, answer.body[:200]), (path[:200], body[:200]))

            for operation in app.operations:
                if operation.path.endswith("/events"):  # which goes on until the client leaves
                    continue
                for path in paths_of(operation, monitor):
                    await ask(operation.method, path)
                path = operation.path.replace("{name}", monitor).replace("{row}", "0")
                for query in queries_of(operation):
                    await ask(operation.method, path + query)
                for kind, body in bodies_of(operation, monitor):
                    await ask(operation.method, path, body, kind)
        assert not faults, "\n".join(map(str, faults.items()))

    asyncio.run(asyncio.wait_for(run(), 300))


@pytest.mark.parametrize("monitor", ["labels", "numbers", "table"])
def test_stream_answers_every_hostile_line_and_goes_on(tmp_path, monitor):
    async def run():
        async with serving_all(tmp_path) as app:
            operation = next(one for one in app.operations if one.path.endswith("/observe"))
            lines = [body for _, body in bodies_of(operation, monitor) if body.strip()]
            good = GOOD["observe"].get(monitor, GOOD["observe"][""])
            lines.append((good % 77 if "%d" in good else good).encode())
            path = f"/v1/monitors/{monitor}/stream"
            answer = await call(app, "POST", path, b"\n".join(lines))
            answers = [json.loads(line) for line in answer.body.splitlines()]
            assert len(answers) == len(lines)
            assert not [one for one in answers if one.get("status") == 500]
            assert "row" in answers[-1] and "code" not in answers[-1]

    asyncio.run(asyncio.wait_for(run(), 120))
