"""Golden files of metrics: names, types and labels, for Prometheus and for OTLP."""

import asyncio
import json
from types import SimpleNamespace

from prometheus_client.openmetrics.parser import (
    text_string_to_metric_families as openmetrics_families,
)
from prometheus_client.parser import text_string_to_metric_families

from likewise.service.app import App
from likewise.service.metrics import samples as metric_names
from likewise.service.metrics.exporting import OtlpExporter
from likewise.service.service import Service
from likewise.service.settings import Limits, MonitorSettings, OtlpSettings, ServiceSettings
from tests.service.asgi_calls import call
from tests.service.metrics.test_otlp import attributes, collector
from tests.support import golden_files as golden

RULE = 'metric = "linf"\nepsilon = 0.5\n'
MONITOR = "/v1/monitors/default"
OPENMETRICS = "application/openmetrics-text; version=1.0.0"
__all__ = ["collector"]  # a fixture


async def busy(app):
    """Have everything happen that is counted."""

    async def post(path, body, headers=()):
        return await call(app, "POST", f"{MONITOR}/{path}", json.dumps(body).encode(), headers)

    for z in ("a", "b"):
        decision = {"x": [1.0], "z": z, "key": z, "model": "v1"}
        await post("observe", decision)
    await post("observe", decision)  # known
    await post("observe", {"x": "none"})  # refused
    for name in ("one", "one", "two"):  # repeated; then the first is given up for the second
        request = {
            "ce-specversion": "1.0", "ce-id": name, "ce-source": "test",
            "ce-type": "org.kubeflow.serving.inference.request",
        }  # fmt: skip
        await post("cloudevents", {"instances": [[1.0]]}, request)
    served = app.service.monitors["default"]
    served.stream = SimpleNamespace(is_connected=True, lag_seconds=0.0)
    for _ in range(200):
        if served.monitor.missing_decisions:
            return
        await asyncio.sleep(0.02)
    raise AssertionError("the request without a response was not given up")


def labels_of(samples):
    return sorted({name for sample in samples for name in sample.labels})


def scraped(text, parse):
    return {
        family.name: {
            "type": family.type,
            "samples": sorted({sample.name for sample in family.samples}),
            "labels": labels_of(family.samples),
        }
        for family in parse(text)
    }


def exemplars(text):
    """Labels of exemplars, by sample."""
    return {
        sample.name: sorted(sample.exemplar.labels)
        for family in openmetrics_families(text)
        for sample in family.samples
        if sample.exemplar is not None
    }


def sent(messages):
    """Names, kinds and attributes of what a collector got."""
    return {
        metric.name: {
            "kind": metric.WhichOneof("data"),
            "monotonic": metric.sum.is_monotonic if metric.WhichOneof("data") == "sum" else None,
            "attributes": sorted(
                {
                    name
                    for point in getattr(metric, metric.WhichOneof("data")).data_points
                    for name in attributes(point.attributes)
                }
            ),
        }
        for message in messages
        for resource in message.resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
    }


def events(messages):
    return sorted(
        {
            (record.event_name, record.severity_text, *sorted(attributes(record.attributes)))
            for message in messages
            for resource in message.resource_logs
            for scope in resource.scope_logs
            for record in scope.log_records
        }
    )


def test_metrics_are_those_of_the_golden_files(tmp_path, collector):
    url, got = collector
    (tmp_path / "rule.toml").write_text(RULE)

    async def scenario():
        settings = MonitorSettings(
            rule=str(tmp_path / "rule.toml"), ledger=str(tmp_path / "ledger")
        )
        limits = Limits(pairs=1)
        service = Service(ServiceSettings({"default": settings}, limits=limits))
        app = App(service)
        otlp = OtlpExporter(service, OtlpSettings(url))
        await asyncio.to_thread(service.open)
        await busy(app)
        texts = []
        for accept in ("text/plain", OPENMETRICS):
            page = await call(app, "GET", "/metrics", b"", {"accept": accept})
            texts.append((page.headers["content-type"], page.body.decode()))
        await otlp.close()
        await service.drain(10)
        service.close()
        return texts

    (plain, page), (newer, newer_page) = asyncio.run(scenario())
    families = scraped(page, text_string_to_metric_families)
    samples = {name for family in families.values() for name in family["samples"]}
    for metric in metric_names.ALL_METRICS:
        there = f"{metric.name}_count" if metric.kind == "histogram" else metric.name
        assert there in samples, f"{metric.name}: everything that is counted is in the golden file"
    prometheus = {
        "content_types": [plain, newer],
        "families": dict(sorted(families.items())),
        "exemplars": exemplars(newer_page),
    }
    openmetrics = scraped(newer_page, openmetrics_families)
    assert {one["type"] for one in openmetrics.values()} == {"counter", "gauge", "histogram"}
    resource = got["/v1/metrics"][0].resource_metrics[0].resource
    otlp = {
        "resource": sorted(
            name for name in attributes(resource.attributes) if name.startswith("service.")
        ),
        "metrics": dict(sorted(sent(got["/v1/metrics"]).items())),
        "events": events(got["/v1/logs"]),
    }
    golden.check_all({"metrics/prometheus.json": prometheus, "metrics/otlp.json": otlp})
