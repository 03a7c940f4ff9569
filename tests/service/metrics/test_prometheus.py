"""What a scrape reads is what was counted."""

import asyncio
import re
import time as clock
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from msgspec.structs import replace
from prometheus_client.openmetrics.parser import text_string_to_metric_families as open_metrics
from prometheus_client.parser import text_string_to_metric_families as plain

import likewise as lw
from likewise.errors import BadRule
from likewise.service.body_types import encode
from likewise.service.metrics.samples import ALL_METRICS, BY_NAME, MOST_MODELS, monitor_samples
from likewise.service.service import UnopenedMonitor
from likewise.service.settings import RESERVED_LABELS, Limits, ServiceSettings, Token
from likewise.service.tokens import new_token
from likewise.version import __version__
from tests.service.asgi_calls import call, serving
from tests.service.cloudevents.payloads import PATH, V1_REQUEST, headers
from tests.service.promtool import promtool
from tests.support.oracle import Oracle
from tests.support.programs import run_python
from tests.support.refusals import raises

REFERENCE = Path(__file__).resolve().parents[3] / "docs" / "reference" / "metrics.md"
OPEN = {"accept": "application/openmetrics-text; version=1.0.0"}
MONITOR = "/v1/monitors/default"


def values(body, parse=plain):
    """Every sample by its name and labels."""
    return {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in parse(body.decode())
        for sample in family.samples
    }


async def post(app, path, body):
    answer = await call(app, "POST", MONITOR + path, encode(body))
    return answer.status


async def busy(app):
    """Decisions one by one and in a batch, with two models, some refused and one sent again."""
    rng = np.random.default_rng(5)
    X = rng.integers(0, 8, (60, 2)) / 20
    Z = rng.integers(0, 3, 60).tolist()
    for i in range(20):
        body = {"x": X[i].tolist(), "z": Z[i], "key": f"k{i}", "model": "a"}
        assert await post(app, "/observe", body) == 200
    batch = {
        "x": X[20:].tolist(),
        "z": Z[20:],
        "models": ["a" if i % 2 else "b" for i in range(40)],
    }
    assert await post(app, "/batch", batch) == 200
    assert await post(app, "/observe", {"x": [1, 2, 3], "z": 1}) == 422
    assert await post(app, "/observe", {"x": [1, 2], "z": 1, "extra": 1}) == 422
    again = {"x": X[0].tolist(), "z": Z[0], "key": "k0", "model": "a"}
    durable = app.service.monitors["default"].monitor.durable
    assert await post(app, "/observe", again) == (200 if durable else 409)
    return X, Z


def test_scrape_says_what_the_oracle_counts(tmp_path):
    async def scenario():
        async with serving(tmp_path, ledger=True) as app:
            X, Z = await busy(app)
            for _ in range(3):
                await call(app, "POST", PATH, V1_REQUEST, headers("request", "alone"))
            answer = await call(app, "GET", "/metrics")
        expected = Oracle(lw.Rule("linf", 0.1)).observe_many(X, Z)
        models = ["a"] * 20 + ["a" if i % 2 else "b" for i in range(40)]
        told = values(answer.body)
        violating = [model for model, one in zip(models, expected, strict=True) if len(one.rows)]
        assert 10 < len(violating) < 60
        near = np.abs(X[:, None] - X[None]).max(axis=2) <= 0.1 * (1 + 1e-9)
        comparable = sum(near[i, :i].any() for i in range(60))
        here = ("monitor", "default")
        for model in ("a", "b"):
            label = ("model_version", model)
            assert told["likewise_decisions_total", label, here] == models.count(model)
            assert told["likewise_violations_total", label, here] == violating.count(model)
        assert told["likewise_decisions_total", ("model_version", ""), here] == 0
        pairs = sum(len(one.rows) for one in expected)
        assert told["likewise_witness_pairs_total", here] == pairs
        assert told["likewise_comparable_decisions_total", here] == comparable
        assert told["likewise_repeated_decisions_total", here] == 1
        assert told["likewise_refused_decisions_total", here, ("reason", "wrong-shape")] == 1
        assert told["likewise_refused_decisions_total", here, ("reason", "422")] == 1
        assert told["likewise_repeated_events_total", ("kind", "request"), here] == 2
        assert told["likewise_waiting_events", here] == 1
        assert told["likewise_history_rows", here] == 60
        assert told["likewise_history_bytes", here] > 60 * 16
        assert told["likewise_missing_decisions", here] == 0
        assert told["likewise_queue_decisions", here] == 0
        assert told["likewise_queue_capacity", here] == 65_536
        assert told["likewise_observe_duration_seconds_count", here] == 61
        assert told["likewise_observe_duration_seconds_bucket", ("le", "+Inf"), here] == 61
        assert ("likewise_observe_duration_seconds_bucket", ("le", "0.0025"), here) in told
        for name in ("last_decision", "ledger_head"):
            assert abs(told[f"likewise_{name}_timestamp_seconds", here] - clock.time()) < 600
        free, size = (told[f"likewise_disk_{name}_bytes", here] for name in ("free", "size"))
        assert 0 < free < size
        (rule,) = [dict(key[1:]) for key in told if key[0] == "likewise_rule_info"]
        assert rule["fingerprint"] == lw.Rule("linf", 0.1).fingerprint
        assert (rule["metric"], rule["epsilon"], rule["exact"]) == ("linf", "0.1", "true")
        counted = {key[0] for key in told}
        named = {name for name in BY_NAME if name in counted or f"{name}_count" in counted}
        assert named == {name for name in BY_NAME if "_stream_" not in name}
        assert told["likewise_dropped_decisions_total", here, ("reason", "unpaired request")] == 0
        assert told["likewise_unpaired_events_total", ("kind", "response"), here] == 0
        assert told["likewise_refused_decisions_total", here, ("reason", "repeated-key")] == 0
        assert told["likewise_monitor_up", here] == 1
        assert told["likewise_build_info", ("version", __version__)] == 1
        name = "likewise_request_duration_seconds_count"
        assert told[name, ("route", "/v1/monitors/{name}/observe")] == 23
        assert told[name, ("route", "/v1/monitors/{name}/cloudevents")] == 3
        assert told["process_resident_memory_bytes",] > 1 << 20
        assert told["process_cpu_seconds_total",] > 0
        assert abs(told["process_start_time_seconds",] - clock.time()) < 86_400
        assert 0 < told["process_open_fds",] < told["process_max_fds",]
        for key, value in told.items():
            if key[0].endswith("_bucket"):
                assert re.fullmatch(r"[0-9.e-]{3,6}|\+Inf", dict(key[1:])["le"]), "a literal"
                assert value >= 0

    asyncio.run(scenario())


def test_open_metrics_have_the_newest_violation_as_an_exemplar(tmp_path):
    async def scenario():
        async with serving(tmp_path) as app:
            await busy(app)
            answer = await call(app, "GET", "/metrics", headers=OPEN)
            assert answer.headers["content-type"].startswith("application/openmetrics-text")
            (family,) = [
                family
                for family in open_metrics(answer.body.decode())
                if family.name == "likewise_violations"
            ]
            seen = {one.labels["model_version"]: one.exemplar for one in family.samples}
            assert seen["a"].labels.keys() == {"row"}, "no key, which could not be erased"
            rows = {int(one.labels["row"]) for one in seen.values() if one is not None}
            assert rows <= set(range(60))
            assert max(rows) >= 50
            text = (await call(app, "GET", "/metrics")).body
            assert b"# {" not in text
            assert {k: v for k, v in values(text).items() if "decisions_total" in k[0]} == {
                k: v
                for k, v in values(answer.body, open_metrics).items()
                if "decisions_total" in k[0]
            }

    asyncio.run(scenario())


def test_promtool_finds_nothing_to_say(tmp_path):
    async def scenario():
        limits = Limits(pair_seconds=1)
        async with serving(tmp_path, ledger=True, limits=limits) as app:
            await busy(app)
            for _ in range(2):
                await call(app, "POST", PATH, V1_REQUEST, headers("request", "alone"))
            await asyncio.sleep(1.2)
            stream = SimpleNamespace(is_connected=True, lag_seconds=0.0)
            app.service.monitors["default"].stream = stream
            text = (await call(app, "GET", "/metrics")).body.decode()
        for metric in ALL_METRICS:
            assert f"# TYPE {metric.name} {metric.kind}" in text
        return text

    assert promtool("check", "metrics", stdin=asyncio.run(scenario())) == ""


def test_scrape_needs_a_token_that_may_read_and_sees_its_monitors(tmp_path):
    async def scenario():
        (reads, reading), (sends, sending) = new_token(), new_token()
        tokens = (Token("r", reading, ("read",)), Token("s", sending, ("observe",)))
        async with serving(tmp_path, tokens=tokens) as app:
            assert (await call(app, "GET", "/metrics")).status == 401
            for token, status in ((sends, 403), (reads, 200)):
                bearer = {"authorization": f"Bearer {token}"}
                assert (await call(app, "GET", "/metrics", headers=bearer)).status == status

    asyncio.run(scenario())


def test_scrape_does_not_wait_for_a_busy_monitor(tmp_path):
    async def scenario():
        async with serving(tmp_path) as app:
            await busy(app)
            await call(app, "GET", "/metrics")  # whose time is in the next one
            first = values((await call(app, "GET", "/metrics")).body)
            with app.service.monitors["default"].monitor.core.lock:  # as a long batch would hold it
                begin = clock.monotonic()
                second = values((await call(app, "GET", "/metrics")).body)
                assert clock.monotonic() - begin < 30
            assert second.keys() == first.keys(), "the size of the history is the one of before"

    asyncio.run(scenario())


def test_models_beyond_the_first_hundred_count_together(tmp_path):
    async def scenario():
        async with serving(tmp_path) as app:
            served = app.service.monitors["default"]
            served.counts.decisions.update({f"m{i}": 2 for i in range(MOST_MODELS + 50)})
            told = [
                one
                for one in monitor_samples(served, None)
                if one.name == "likewise_decisions_total"
            ]
            assert len(told) == MOST_MODELS + 2
            assert sum(one.value for one in told) == 2 * (MOST_MODELS + 50)
            before = {one.labels: one.value for one in told}
            served.counts.decisions.update({f"m{i}": 5 for i in range(MOST_MODELS + 90)})
            after = {
                one.labels: one.value
                for one in monitor_samples(served, None)
                if one.name == "likewise_decisions_total"
            }
            assert all(after[labels] >= value for labels, value in before.items())

    asyncio.run(scenario())


def test_every_metric_is_in_its_reference():
    page = REFERENCE.read_text()
    row = r"^\| `((?:likewise|process)_\w+)` \| (\w+) \|([^|]*)\|"
    listed = re.findall(row, page, re.MULTILINE)
    assert [(name, kind) for name, kind, _ in listed] == [
        (one.name, one.kind) for one in ALL_METRICS
    ]
    for (_, _, labels), metric in zip(listed, ALL_METRICS, strict=True):
        assert tuple(re.findall(r"`(\w+)`", labels)) == metric.all_labels
    assert {label for metric in ALL_METRICS for label in metric.all_labels} <= RESERVED_LABELS


def test_whoever_may_not_is_counted_from_zero_on(tmp_path):
    async def scenario():
        token, hashed = new_token()
        reader, other = new_token()
        tokens = (Token("t", hashed, ("observe",)), Token("r", other, ("read",)))
        async with serving(tmp_path, tokens=tokens) as app:
            name, told = "likewise_refused_requests_total", []
            for _ in range(2):
                headers = {"authorization": f"Bearer {reader}"}
                page = values((await call(app, "GET", "/metrics", headers=headers)).body)
                told.append([page[name, ("status", status)] for status in ("401", "403")])
                await call(app, "POST", f"{MONITOR}/observe", b"{}")
                await call(app, "GET", f"{MONITOR}/verdicts")
                headers = {"authorization": f"Bearer {token}"}
                await call(app, "GET", f"{MONITOR}/verdicts", headers=headers)
            assert told == [[0, 0], [2, 1]]

    asyncio.run(scenario())


def test_labels_of_the_settings_are_on_every_sample(tmp_path):
    async def scenario():
        async with serving(tmp_path) as app:
            app.service.settings = replace(app.service.settings, labels={"environment": "test"})
            await post(app, "/observe", {"x": [1, 2], "z": 1})
            told = values((await call(app, "GET", "/metrics")).body)
            assert all(("environment", "test") in key for key in told)

    asyncio.run(scenario())


@pytest.mark.parametrize("labels", [{"monitor": "x"}, {"__x": "x"}, {"a-b": "x"}, {"a": 1}])
def test_labels_that_are_taken_or_none_are_refused(labels, tmp_path):
    with raises(BadRule):
        ServiceSettings.from_tables({"monitors": {"a": {"rule": "r"}}, "labels": labels}, tmp_path)


def test_monitor_that_is_not_open_is_not_up(tmp_path):
    async def scenario():
        async with serving(tmp_path) as app:
            app.service.pending["other"] = UnopenedMonitor(error_code="altered")
            told = values((await call(app, "GET", "/metrics")).body)
            up = {key[1][1]: told[key] for key in told if key[0] == "likewise_monitor_up"}
            assert up == {"default": 1, "other": 0}

    asyncio.run(scenario())


GROWTH = """
import gc, sys
import numpy as np
import likewise as lw
from likewise.service.monitor_readings import read_monitor

def resident():
    gc.collect()
    with open("/proc/self/statm") as told:
        return int(told.read().split()[1]) * 4096

rng = np.random.default_rng(0)
monitor = lw.Monitor(lw.Rule("linf", 0.01))
monitor.observe_many(rng.random((100, 4)), ["a"] * 100)
before = resident()
for i in range(20):
    keys = [f"case-{i:04}-{j:04}" for j in range(5000)]
    monitor.observe_many(rng.random((5000, 4)), ["a"] * 5000, keys=keys)
print((resident() - before) / read_monitor(monitor).bytes)
"""


@pytest.mark.long
def test_bytes_of_a_history_are_about_what_the_process_grew_by():
    done = run_python("-c", GROWTH)
    assert 0.6 < float(done.stdout) < 1.6
