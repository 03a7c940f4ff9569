"""A served monitor of slopes tells those of a monitor in Python; what asks for more is refused."""

import asyncio
import json
import math

import numpy as np
import pytest

import likewise as lw
from likewise.service.settings import MonitorSettings, ServiceSettings
from tests.service.asgi_calls import call, serving
from tests.support.refusals import raises
from tests.support.slopes import distances_of, open_slopes, slope_monitor, witness_of

RULE = 'metric = "l2"\nepsilon = 1.0\noutput = "number"\n'
SLOPES = {"rule": RULE, "kind": "slopes", "slope_limit": 3.0}


def decisions(count):
    rng = np.random.default_rng(3)
    x = rng.integers(0, 6, (count, 2)) / 4
    return x.tolist(), (rng.integers(0, 5, count) / 4).tolist()


async def asked(app, verb, body=None):
    method = "GET" if body is None else "POST"
    sent = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
    return await call(app, method, f"/v1/monitors/default/{verb}".rstrip("/"), sent)


def slope_of(told):
    """The slope that an answer tells: null where the inputs are the same."""
    if told["slope"] is not None:
        return told["slope"]
    assert told["witnesses"][0]["input_distance"] == 0.0
    return math.inf


@pytest.mark.parametrize("ledger", [False, True], ids=["memory", "ledger"])
def test_slopes_over_http_are_those_of_a_slope_monitor(tmp_path, ledger):
    x, z = decisions(90)
    wanted = list(slope_monitor(lw.Rule.from_toml(RULE), slope_limit=3.0).observe_many(x, z))

    async def main():
        async with serving(tmp_path, ledger=ledger, **SLOPES) as app:
            told = [(await asked(app, "observe", {"x": x[i], "z": z[i]})).json for i in range(30)]
            batch = {"x": x[30:60], "z": z[30:60]}
            told += (await asked(app, "batch?verdicts=all", batch)).json["verdicts"]
            lines = [json.dumps({"x": x[i], "z": z[i]}) for i in range(60, 90)]
            answer = await asked(app, "stream", "\n".join(lines).encode())
            told += [json.loads(line) for line in answer.body.splitlines()]
            check = (await asked(app, "check", {"x": x[0], "z": 9.0})).json
            assert check["violation"] and check["row"] is None
            stats = (await asked(app, "stats")).json
            described = (await asked(app, "")).json
        return told, stats, described

    told, stats, described = asyncio.run(main())
    assert (described["kind"], described["slope_limit"]) == ("slopes", 3.0)
    violations = 0
    for verdict, mine in zip(wanted, told, strict=True):
        assert mine["row"] == verdict.row and mine["violation"] is verdict.violation
        violations += verdict.violation
        if witness_of(verdict) is None:
            assert mine["witnesses"] == [] and mine["slope"] == 0.0
            continue
        (witness,) = mine["witnesses"]
        assert (witness["row"], slope_of(mine)) == (witness_of(verdict), verdict.slope)
        assert witness["input_distance"] == distances_of(verdict)[0]
    assert 5 < violations < 85
    assert (stats["decisions"], stats["violations"], stats["source"]) == (90, violations, "process")
    if ledger:
        with open_slopes(tmp_path / "ledger") as monitor:
            assert monitor.rows == 90 and monitor.slope.limit == 3.0 and monitor.ledger.verify().ok


def test_a_batch_tells_only_what_is_above_the_limit(tmp_path):
    async def main():
        async with serving(tmp_path, **SLOPES) as app:
            body = {"x": [[0.0], [1.0], [1.1]], "z": [0.0, 1.0, 9.0]}
            told = (await asked(app, "batch", body)).json
            assert told["violations"] == 1
            assert [verdict["row"] for verdict in told["verdicts"]] == [2]
            assert told["verdicts"][0]["slope"] == pytest.approx(80.0)
            served = app.service.monitors["default"]
            assert served.counts.violations.total() == 1
            assert [verdict.row for verdict in served.recent.after(-1)] == [2]

    asyncio.run(main())


def test_what_is_about_contradictions_refuses_with_the_reason(tmp_path):
    async def main():
        async with serving(tmp_path, ledger=True, **SLOPES) as app:
            for position, z in enumerate((0.0, 9.0)):
                said = {"source": "s", "position": position}
                await asked(app, "observe", {"x": [0.0], "z": z, "key": f"k{z}", **said})
            review = {"row": 1, "disposition": "error", "reason": "r", "reviewer": "R"}
            overruled = {"key": "k9.0", "output": 0.0, "by": "b", "why": "w"}
            for verb, body in (
                ("verdicts", None),
                ("reviews", review),
                ("supersede", overruled),
            ):
                refused = await asked(app, verb, body)
                assert refused.status == 400, (verb, refused)
                assert "names slopes" in refused.json["message"]
            assert (await asked(app, "stats?last=1%20hour")).status == 400
            look = (await asked(app, "decisions/1")).json
            assert look["witnesses"][0]["row"] == 0 and look["decision"]["output"] == 9.0
            assert (await asked(app, "positions")).json == {"positions": {"s": 1}}
            assert (await asked(app, "verify", {})).json["ok"]
            assert (await asked(app, "erase", {"keys": ["k9.0"]})).json["rows"] == [1]
            assert (await asked(app, "head")).json["rows"] == 2

    asyncio.run(main())


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ({"kind": "slope"}, "expected contradictions or slopes"),
        ({"slope_limit": 3.0}, 'say kind = "slopes"'),
        ({"kind": "slopes", "burst": {"last": 10}}, "leave it out"),
    ],
)
def test_settings_that_make_no_sense_are_refused(tmp_path, table, words):
    with raises(lw.errors.BadRule):
        ServiceSettings.from_tables({"monitors": {"m": {"rule": "r.toml", **table}}}, tmp_path)


def test_a_rule_or_a_ledger_that_has_no_slopes_is_refused(tmp_path):
    async def serve(**more):
        async with serving(tmp_path, **more):
            pass

    table = 'output_column = "ok"\n[features.age]\nkind = "number"\ntolerance = 5\n'
    with raises(lw.errors.BadRule):
        asyncio.run(serve(rule=table, kind="slopes"))
    with raises(lw.errors.BadRule):
        asyncio.run(serve(rule=RULE, kind="slopes", slope_limit=-1.0))
    with lw.open(tmp_path / "ledger", lw.Rule.from_toml(RULE)) as monitor:
        monitor.observe([0.0], 1.0)
    with raises(lw.errors.BadRule):
        asyncio.run(serve(rule=RULE, kind="slopes", ledger=True))
    assert MonitorSettings(rule="r", kind="slopes").slope_limit is None
