"""A collector gets the numbers of a scrape, and an event for each violation."""

import asyncio
import gzip
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)

import likewise as lw
from likewise.service.app import App
from likewise.service.metrics.exporting import OtlpExporter
from likewise.service.service import Service
from likewise.service.settings import MonitorSettings, OtlpSettings, ServiceSettings
from tests.service.asgi_calls import RULE, call
from tests.service.metrics.test_prometheus import busy, values
from tests.support.refusals import raises


@pytest.fixture
def collector():
    """A real server; what it was sent, by path, as messages."""
    kinds = {"/v1/metrics": ExportMetricsServiceRequest, "/v1/logs": ExportLogsServiceRequest}
    got = {path: [] for path in kinds}

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["content-length"]))
            if self.headers.get("content-encoding") == "gzip":
                body = gzip.decompress(body)
            got[self.path].append(kinds[self.path].FromString(body))
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", got
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def attributes(those):
    return {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in those}


def numbers(message):
    """Every number that was sent, as a scrape would have it."""
    found = {}
    for resource in message.resource_metrics:
        assert attributes(resource.resource.attributes)["service.name"] == "likewise"
        for scope in resource.scope_metrics:
            for metric in scope.metrics:
                data = getattr(metric, metric.WhichOneof("data"))
                for point in data.data_points:
                    labels = sorted(attributes(point.attributes).items())
                    value = getattr(point, point.WhichOneof("value"))
                    found[(metric.name, *labels)] = value
    return found


def test_collector_gets_what_a_scrape_says_and_every_violation(tmp_path, collector):
    url, got = collector
    (tmp_path / "rule.toml").write_text(RULE)

    async def scenario():
        settings = MonitorSettings(
            rule=str(tmp_path / "rule.toml"), ledger=str(tmp_path / "ledger")
        )
        service = Service(ServiceSettings({"default": settings}))
        app = App(service)
        otlp = OtlpExporter(service, OtlpSettings(url))
        await asyncio.to_thread(service.open)
        X, Z = await busy(app)
        scraped = values((await call(app, "GET", "/metrics")).body)
        await otlp.close()
        await service.drain(10)
        service.close()
        return X, Z, scraped

    X, Z, scraped = asyncio.run(scenario())
    sent = numbers(got["/v1/metrics"][0])
    moving = ("likewise_queue_oldest_age_seconds", "likewise_disk_free_bytes")
    expected = {
        key: value
        for key, value in scraped.items()
        if not key[0].endswith("_bucket") and key[0] not in moving
    }
    assert expected.keys() <= sent.keys()
    expected = {key: value for key, value in expected.items() if not key[0].startswith("process_")}
    assert {key: pytest.approx(sent[key]) for key in expected} == expected
    events = [
        record
        for message in got["/v1/logs"]
        for resource in message.resource_logs
        for scope in resource.scope_logs
        for record in scope.log_records
    ]
    verdicts = lw.Monitor(lw.Rule("linf", 0.1)).observe_many(X, Z)
    violations = [one for one in verdicts if one.violation]
    assert len(violations) > 10
    assert {record.event_name for record in events} == {"likewise.violation"}
    told = [attributes(record.attributes) for record in events]
    assert [one["likewise.row"] for one in told] == [one.row for one in violations]
    assert [one["likewise.witnesses"] for one in told] == [one.count for one in violations]
    assert {name for one in told for name in one} == {
        "likewise.monitor",
        "likewise.row",
        "likewise.witnesses",
        "likewise.nearest_distance",
        "likewise.model_version",
    }
    assert not any(record.body.WhichOneof("value") for record in events), "no text, no values"


def test_collector_that_is_away_does_not_hold_up_the_end(tmp_path):
    (tmp_path / "rule.toml").write_text(RULE)

    async def scenario():
        service = Service(
            ServiceSettings({"default": MonitorSettings(rule=str(tmp_path / "rule.toml"))})
        )
        app = App(service)
        with socket.socket() as nobody:  # bound, and nobody listens
            nobody.bind(("127.0.0.1", 0))
            address = f"http://127.0.0.1:{nobody.getsockname()[1]}"
            otlp = OtlpExporter(service, OtlpSettings(address))
            await asyncio.to_thread(service.open)
            await busy(app)
            await asyncio.wait_for(otlp.close(), 60)
        assert service.monitors["default"].counts.decisions.total() == 60
        await service.drain(10)
        service.close()

    asyncio.run(scenario())


def test_settings_have_a_table_for_it(tmp_path):
    told = {"monitors": {"a": {"rule": "r"}}, "otlp": {"endpoint": "http://a", "every_seconds": 5}}
    assert ServiceSettings.from_tables(told, tmp_path).otlp == OtlpSettings("http://a", 5.0)
    assert ServiceSettings.from_tables({"monitors": {"a": {"rule": "r"}}}, tmp_path).otlp is None
    with raises(lw.errors.BadRule):
        ServiceSettings.from_tables(told | {"otlp": {}}, tmp_path)


def test_endpoint_and_interval_are_checked(tmp_path):
    told = {"monitors": {"a": {"rule": "r"}}}
    with raises(lw.errors.BadRule, setting="endpoint"):
        ServiceSettings.from_tables(told | {"otlp": {"endpoint": "collector:4318"}}, tmp_path)
    with raises(lw.errors.BadRule, setting="every_seconds"):
        table = {"endpoint": "http://a", "every_seconds": 0}
        ServiceSettings.from_tables(told | {"otlp": table}, tmp_path)
