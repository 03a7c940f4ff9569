"""Decisions over HTTP say where they come from; the ledger keeps it, and says where to go on."""

import asyncio
import json

import numpy as np
import pytest

import likewise as lw
from likewise.service.settings import Limits
from tests.service.asgi_calls import call, serving
from tests.support.refusals import raises
from tests.support.served_monitors import connected, running

RULE = lw.Rule("linf", 0.1)
ARROW = {"content-type": "application/vnd.apache.arrow.stream"}


def run(folder, do, **settings):
    """Call `do(ask)` with a service of one monitor; `ask` makes a request."""

    async def main():
        async with serving(folder, **{"ledger": True, **settings}) as app:

            async def ask(verb, body=None, headers=()):
                method = "GET" if body is None else "POST"
                sent = body if isinstance(body, bytes | None) else json.dumps(body).encode()
                return await call(app, method, f"/v1/monitors/default/{verb}", sent or b"", headers)

            await do(ask)

    asyncio.run(main())


def stream_of(columns):
    pa = pytest.importorskip("pyarrow")
    table, sink = pa.table(columns), pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def test_every_way_in_carries_source_and_position(tmp_path):
    pa = pytest.importorskip("pyarrow")
    lines = [{"x": [1.0], "z": "a", "source": "lines", "position": i} for i in (3, 4)]
    pairs = pa.FixedSizeListArray.from_arrays(pa.array([9, 0, 9, 1]), 2)
    arrow = {"f": [1.0, 1.0], "z": ["a", "a"], "source": ["redis"] * 2, "position": pairs}

    async def do(ask):
        one = {"x": [1.0], "z": "a", "source": "one", "position": 2**64 - 1}
        assert (await ask("observe", one)).status == 200
        columns = {"x": [[1.0]] * 2, "z": ["a"] * 2, "sources": "columns", "positions": [0, 7]}
        assert (await ask("batch", columns)).status == 200
        said = {"source": "rows", "position": [5, 6]}
        rows = [{"x": [1.0], "z": "a"}, {"x": [1.0], "z": "a", **said}]
        assert (await ask("batch", {"decisions": rows})).status == 200
        assert (await ask("batch", stream_of(arrow), ARROW)).status == 200
        body = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
        assert b"error" not in (await ask("stream", body)).body
        assert (await ask("positions")).json == {
            "positions": {
                "one": 2**64 - 1,
                "columns": 7,
                "rows": [5, 6],
                "redis": [9, 1],
                "lines": 4,
            }
        }
        side = (await ask("decisions/4")).json["decision"]
        assert (side["source"], side["position"]) == ("rows", [5, 6])
        side = (await ask("decisions/3")).json["decision"]
        assert (side["source"], side["position"]) == (None, None)

    run(tmp_path, do)
    with lw.Ledger(tmp_path / "ledger") as ledger:
        entries = [(entry.source, entry.position) for entry in ledger.entries()]
    assert entries[:3] == [("one", 2**64 - 1), ("columns", 0), ("columns", 7)]
    assert entries[3:7] == [(None, None), ("rows", (5, 6)), ("redis", (9, 0)), ("redis", (9, 1))]
    assert entries[7:] == [("lines", 3), ("lines", 4)]


def test_an_old_position_is_409_and_says_where_its_source_is(tmp_path):
    async def do(ask):
        one = {"x": [1.0], "z": "a", "source": "s", "position": 5}
        assert (await ask("observe", one)).status == 200
        for verb, body in (
            ("observe", one),
            ("batch", {"x": [[1.0]], "z": ["a"], "sources": ["s"], "positions": [5]}),
            ("batch", {"decisions": [one]}),
        ):
            refused = await ask(verb, body)
            assert refused.status == 409, refused
            told = refused.json
            assert (told["code"], told["source"], told["position"], told["last"]) == (
                "old-position",
                "s",
                5,
                5,
            )
        told = (await ask("stream", json.dumps(one).encode())).json
        assert (told["status"], told["code"], told["last"]) == (409, "old-position", 5)
        assert (await ask("observe", {**one, "position": 6})).json["row"] == 1

    run(tmp_path, do)


@pytest.mark.parametrize(
    ("more", "status", "words"),
    [
        ({"source": "s"}, 422, "no position"),
        ({"position": 3}, 422, "no source"),
        ({"source": "s", "position": -1}, 422, "expected"),
        ({"source": "s", "position": 1.5}, 422, "expected"),
        ({"source": "s", "position": True}, 422, "expected"),
        ({"source": "s", "position": [1, 2, 3]}, 422, "expected"),
        ({"source": "s", "position": [1]}, 422, "expected"),
        ({"source": "s", "position": 2**64}, 422, "2**64 - 1"),
        ({"source": "s" * 2000, "position": 1}, 413, "1024 bytes"),
        ({"source": "", "position": 1}, 422, "the source is ''"),
        ({"source": 5, "position": 1}, 422, "expected"),
    ],
)
def test_what_is_no_position_is_refused_and_leaves_no_trace(tmp_path, more, status, words):
    async def do(ask):
        refused = await ask("observe", {"x": [1.0], "z": "a", **more})
        assert refused.status == status, refused
        assert words.lower() in refused.json["message"].lower()
        line = await ask("stream", json.dumps({"x": [1.0], "z": "a", **more}).encode())
        assert line.json["status"] == status
        columns = {f"{name}s": [value] for name, value in more.items()}
        assert (await ask("batch", {"x": [[1.0]], "z": ["a"], **columns})).status == status
        assert (await ask("positions")).json == {"positions": {}}
        assert (await ask("observe", {"x": [1.0], "z": "a"})).json["row"] == 0

    run(tmp_path, do)


def test_a_monitor_in_memory_keeps_no_position_and_says_so(tmp_path):
    async def do(ask):
        more = {"source": "s", "position": 1}
        for verb, body in (
            ("observe", {"x": [1.0], "z": "a", **more}),
            ("batch", {"x": [[1.0]], "z": ["a"], "sources": "s", "positions": [1]}),
        ):
            refused = await ask(verb, body)
            assert refused.status == 400 and "in memory only" in refused.json["message"]
        assert (await ask("positions")).status == 400
        check = await ask("check", {"x": [1.0], "z": "a", **more})
        assert check.status == 422 and "only checked" in check.json["message"]
        assert (await ask("observe", {"x": [1.0], "z": "a"})).json["row"] == 0

    run(tmp_path, do, ledger=False)


def test_distinct_sources_are_limited(tmp_path):
    async def do(ask):
        one = {"x": [1.0], "z": "a", "position": 1}
        for name in ("a", "b"):
            assert (await ask("observe", {**one, "source": name})).status == 200
        refused = await ask("observe", {**one, "source": "c"})
        assert refused.status == 422 and "2 sources" in refused.json["message"]
        batch = {"x": [[1.0]] * 2, "z": ["a"] * 2, "sources": ["a", "d"], "positions": [2, 2]}
        assert (await ask("batch", batch)).status == 422
        assert (await ask("observe", {**one, "source": "a", "position": 2})).json["row"] == 2
        assert (await ask("positions")).json == {"positions": {"a": 2, "b": 1}}

    async def go_on(ask):  # with the sources of the ledger
        more = {"x": [1.0], "z": "a", "position": 9}
        assert (await ask("observe", {**more, "source": "c"})).status == 422
        assert (await ask("observe", {**more, "source": "b"})).status == 200

    run(tmp_path, do, limits=Limits(labels=2))
    run(tmp_path, go_on, limits=Limits(labels=2))


def test_a_column_of_the_rule_may_be_called_like_what_stands_beside_decisions(tmp_path):
    rule = (
        'output_column = "position"\n[features.key]\nkind = "key"\n'
        '[features.source]\nkind = "category"\n[features.age]\nkind = "number"\ntolerance = 5\n'
    )
    columns = {
        "key": ["k1", "k2"],
        "source": ["web", "web"],
        "age": [40.0, 41.0],
        "position": ["clerk", "head"],
    }

    async def do(ask):
        told = await ask("batch", stream_of(columns), ARROW)
        assert told.status == 200, told
        assert [verdict["key"] for verdict in told.json["verdicts"]] == ["k2"]
        assert (await ask("positions")).json == {"positions": {}}

    run(tmp_path, do, rule=rule)


# Clients


def test_a_client_carries_positions_and_knows_where_to_go_on(tmp_path):
    with connected(lw.open(tmp_path / "ledger", RULE)) as client:
        assert client.ledger.positions == {}
        client.observe([1.0], "a", source="decisions/0", position=17)
        client.observe_many(
            [[1.0]] * 2, ["a"] * 2, sources=[None, "redis"], positions=[None, (1700, 3)]
        )
        client.load([[1.0]] * 2, ["a"] * 2, sources="decisions/0", positions=np.array([18, 19]))
        assert client.ledger.positions == {"decisions/0": 19, "redis": (1700, 3)}
        with raises(lw.errors.OldPosition, source="redis") as refused:
            client.observe([1.0], "a", source="redis", position=(1700, 2))
        error = refused.value
        assert (error.source, error.position, error.last) == ("redis", (1700, 2), (1700, 3))
        with raises(lw.errors.BadDecision):
            client.observe([1.0], "a", source="redis")
        assert client.rows == 5

        async def awaited():
            place = client.endpoint
            async with lw.client.AsyncClient(place.url, place.monitor) as other:
                await other.observe([1.0], "a", source="decisions/0", position=20)
                await other.observe_many([[1.0]], ["a"], sources="redis", positions=[(1701, 0)])
                await other.load([[1.0]], ["a"], sources="new", positions=[0])
                return await other.ledger.positions()

        last = {"decisions/0": 20, "redis": (1701, 0), "new": 0}
        assert asyncio.run(awaited()) == last
    with lw.Ledger(tmp_path / "ledger") as ledger:
        assert ledger.positions == last
        assert [entry.position for entry in ledger.entries()][:3] == [17, None, (1700, 3)]


def test_a_client_of_a_monitor_in_memory_is_told_that_it_keeps_none():
    with connected(lw.Monitor(RULE)) as client:
        with raises(lw.errors.BadRule):
            client.observe([1.0], "a", source="s", position=1)
        with raises(lw.errors.BadRule):
            _ = client.ledger.positions
        assert client.rows == 0


def test_a_request_sent_again_to_another_process_is_told_by_its_position(tmp_path):
    import httpx2

    from likewise.tables.exact_values import pack, unpack
    from likewise.verdict.exact_body import EXACT_CONTENT_TYPE

    name = running().host(lw.open(tmp_path / "ledger", RULE))
    url = f"{running().url}/v1/monitors/{name}"
    again = {"likewise-request": "an-id-of-ours 1.0 another-process"}
    one = pack({"x": np.array([1.0]), "z": "a", "source": "s", "position": 4})
    several = {"x": np.ones((2, 1)), "z": ["a"] * 2, "sources": "s"}
    with httpx2.Client(
        headers={"content-type": EXACT_CONTENT_TYPE, "accept": EXACT_CONTENT_TYPE}
    ) as http:
        first = http.post(f"{url}/observe", content=one, headers=again)
        assert unpack(first.content)["row"] == 0  # the other process had not done it
        later = {"likewise-request": "another-id-of-ours 1.0 another-process"}
        assert http.post(f"{url}/observe", content=one, headers=later).json()["last"] == 4
        for positions, error in (([4, 5], "old-position"), ([6, None], "in-doubt")):
            body = pack({**several, "positions": positions})
            refused = http.post(f"{url}/batch", content=body, headers=later)
            assert (refused.status_code, refused.json()["code"]) == (409, error)
        rows = unpack(http.get(url).content)["rows"]
    assert rows == 1
    running().service.monitors[name].close()
