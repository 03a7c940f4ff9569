"""A middleware that watches a prediction service: bodies pass untouched, decisions arrive."""

import asyncio
import json

import httpx2
import numpy as np
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, StreamingResponse
from starlette.routing import Route

import likewise as lw
from likewise.watching.asgi_middleware import Exchanged, RequestCounts
from tests.support.cutting import Proxy
from tests.support.served_monitors import connected, running

RULE = lw.Rule("linf", 0.15)
PEOPLE = lw.Rule(
    features={"age": lw.Feature("number", tolerance=5), "job": lw.Feature("category")},
    output_column="approved",
)


def approve(x: list[float]) -> str:
    return "yes" if x[0] > 0.5 else "no"


async def predict(request: Request):
    sent = await request.json()
    return JSONResponse({"output": approve(sent["x"]), "id": sent.get("id")})


async def stream(request: Request):
    async for _ in request.stream():
        pass

    async def pieces():
        for piece in (b'{"out', b'put": ', b'"yes"}'):
            yield piece
            await asyncio.sleep(0)

    return StreamingResponse(pieces(), media_type="application/json")


async def person(request: Request):
    sent = await request.json()
    if "age" not in sent:
        return JSONResponse({"error": "no age"}, 400)
    return JSONResponse("yes" if sent["age"] > 40 else "no")


def starlette():
    return Starlette(
        routes=[
            Route("/predict", predict, methods=["POST"]),
            Route("/stream", stream, methods=["POST"]),
            Route("/person", person, methods=["POST"]),
        ]
    )


def asked(app, *requests):
    """The responses of an application."""

    async def ask():
        transport = httpx2.ASGITransport(app)
        async with httpx2.AsyncClient(transport=transport, base_url="http://model") as client:
            return [await client.post(path, **given) for path, given in requests]

    return asyncio.run(ask())


def test_decisions_arrive_and_responses_are_those_of_the_application():
    monitor = lw.Monitor(RULE)
    with connected(monitor) as client:
        app = lw.WatchRequests(starlette(), client, path="/predict", key="id", model="credit-7")
        told = [
            ("/predict", {"json": {"x": [x, 0.3], "id": f"k{i}"}})
            for i, x in enumerate([0.52, 0.48, 0.1])
        ]
        watched = asked(app, *told, ("/person", {"json": {"age": 50}}))
        plain = asked(starlette(), *told, ("/person", {"json": {"age": 50}}))
        assert [one.content for one in watched] == [one.content for one in plain]
        assert app.flush()
        assert app.counts.submitted == 3
        assert monitor.past.outputs(range(3)) == ["yes", "no", "no"]
        assert monitor.past.keys(range(3)) == ["k0", "k1", "k2"]
        assert monitor.past.models([0]) == ["credit-7"]
        assert [one.verdict.violation for one in app.buffer.results()] == [False, True, False]
        app.close()


def test_pieces_pass_one_by_one_and_none_is_read_twice():
    received, sent = [], []
    pieces = [b'{"x": [0.5', b", 0.2]", b"}"]

    async def receive():
        if len(received) == len(pieces):
            await asyncio.sleep(60)  # the client stays
        received.append(len(received))
        number = len(received) - 1
        return {"type": "http.request", "body": pieces[number], "more_body": number < 2}

    async def send(message):
        sent.append(message)

    monitor = lw.Monitor(RULE)
    app = lw.WatchRequests(starlette(), monitor, path="/stream")
    scope = {
        "type": "http",
        "method": "POST",
        "path": "/stream",
        "headers": [],
        "query_string": b"",
    }
    asyncio.run(app({**scope, "root_path": "", "asgi": {"version": "3.0"}}, receive, send))
    assert len(received) == 3
    assert [one["body"] for one in sent[1:4]] == [b'{"out', b'put": ', b'"yes"}']
    assert app.flush() and monitor.past.outputs([0]) == ["yes"]
    assert np.array_equal(monitor.past.inputs([0]), [[0.5, 0.2]])
    app.close()


def test_rows_of_a_table_and_refusals_of_the_model():
    monitor = lw.Monitor(PEOPLE)
    app = lw.WatchRequests(starlette(), monitor, path="/person")
    asked(
        app,
        ("/person", {"json": {"age": 50, "job": "cook"}}),
        ("/person", {"json": {"job": "cook"}}),
        ("/person", {"json": {"age": 38, "job": "cook"}}),
    )
    assert app.flush() and app.counts == RequestCounts(submitted=2)
    assert monitor.past.values(1) == {"age": 38, "job": "cook", "approved": "no"}
    app.close()


def test_what_cannot_be_watched_is_counted_and_told_as_lost(caplog):
    monitor = lw.Monitor(RULE)
    app = lw.WatchRequests(starlette(), monitor, path="/predict", output="score", max_bytes=200)
    given = {"x": [0.5, 0.3], "secret": "s3cret"}
    many = {"x": [0.5] * 500}
    responses = asked(app, ("/predict", {"json": given}), ("/predict", {"json": many}))
    assert [one.status_code for one in responses] == [200, 200]
    assert app.flush() and app.counts == RequestCounts(unread=1, too_large=1)
    assert monitor.rows == 0 and monitor.missing_decisions == 2
    assert "s3cret" not in caplog.text and "KeyError" in caplog.text
    app.close()


def test_several_decisions_of_one_request():
    def read(exchanged: Exchanged):
        rows = json.loads(exchanged.request)["x"]
        return [lw.Decision(row, "even" if i % 2 == 0 else "odd") for i, row in enumerate(rows)]

    async def batch(request: Request):
        await request.json()
        return JSONResponse([])

    monitor = lw.Monitor(RULE)
    inner = Starlette(routes=[Route("/batch", batch, methods=["POST"])])
    app = lw.WatchRequests(inner, monitor, path=lambda path: path.startswith("/b"), read=read)
    asked(app, ("/batch", {"json": {"x": [[0.1], [0.2], [0.3]]}}))
    assert app.flush() and monitor.past.outputs(range(3)) == ["even", "odd", "even"]
    app.close()


def test_a_service_that_is_away_breaks_no_response(monkeypatch):
    monkeypatch.setattr("likewise.client.exchange._PAUSE", 0.001)
    monitor = lw.Monitor(RULE)
    name = running().host(monitor)
    proxy = Proxy(9, iter(()))  # where nobody listens
    with lw.connect(proxy.url, name, retries=1) as client:
        app = lw.WatchRequests(starlette(), client, path="/predict")
        away = [("/predict", {"json": {"x": [0.5, i / 10]}}) for i in range(4)]
        assert {one.status_code for one in asked(app, *away)} == {200}
        assert not app.flush(0.2)
        assert app.counts == RequestCounts(submitted=4)
        proxy.target = running().port
        asked(app, *away)
        assert app.flush() and app.counts.submitted == 8
        assert monitor.rows == 8 and monitor.missing_decisions == 0
        app.close()
    proxy.close()


@pytest.mark.slow
def test_it_works_in_fastapi_and_a_handler_can_be_watched_by_itself():
    fastapi = pytest.importorskip("fastapi")

    monitor = lw.Monitor(RULE)
    app = fastapi.FastAPI()
    with connected(monitor) as client:

        @app.post("/predict")
        async def predict_there(sent: dict) -> dict:
            return {"output": approve(sent["x"])}

        @app.post("/alone")
        @lw.watch(rule=client, input=lambda sent: sent["x"], output=lambda a: a["output"])
        async def alone(sent: dict) -> dict:
            return {"output": approve(sent["x"])}

        app.add_middleware(lw.WatchRequests, monitor=client, path="/predict")
        given = {"json": {"x": [0.52, 0.3]}}
        for path in ("/predict", "/alone"):
            assert asked(app, (path, given))[0].json() == {"output": "yes"}
        middleware = app.middleware_stack
        while not isinstance(middleware, lw.WatchRequests):
            middleware = middleware.app
        assert middleware.flush() and alone.flush()
        assert monitor.past.outputs(range(2)) == ["yes", "yes"]
        assert alone.counts.decisions == 1
        middleware.close()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_it_works_in_litestar():
    litestar = pytest.importorskip("litestar")
    from litestar.middleware import DefineMiddleware

    monitor = lw.Monitor(RULE)
    made = []

    class Kept(lw.WatchRequests):
        def __init__(self, app, **settings):
            super().__init__(app, **settings)
            made.append(self)

    @litestar.post("/predict")
    async def predict_there(data: dict[str, list[float]]) -> dict[str, str]:
        return {"output": approve(data["x"])}

    with connected(monitor) as client:
        watching = DefineMiddleware(Kept, monitor=client, path="/predict")
        app = litestar.Litestar([predict_there], middleware=[watching])
        response = asked(app, ("/predict", {"json": {"x": [0.52, 0.3]}}))[0]
        assert response.json() == {"output": "yes"}
        assert any([one.flush() for one in made])
        assert monitor.past.outputs([0]) == ["yes"]
        for one in made:
            one.close()
