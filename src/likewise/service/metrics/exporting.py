"""Send metrics by OTLP, and write them in the formats of Prometheus.

In OpenMetrics the counter of violations has the newest one as an exemplar, with its row but no key:
what Prometheus has stored cannot be erased with a person.
"""

import asyncio
import math
import time as clock
from collections.abc import Callable, Iterable, Mapping
from itertools import accumulate
from typing import Any

from prometheus_client import core
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from likewise.errors import BadRule
from likewise.service.metrics.samples import (
    ALL_METRICS,
    MetricDefinition,
    MetricSample,
    all_samples,
)
from likewise.service.monitor_counts import BUCKET_SECONDS, DurationHistogram
from likewise.service.served_monitor import ServedMonitor
from likewise.service.service import Service
from likewise.service.settings import OtlpSettings
from likewise.verdict.verdicts import Verdict
from likewise.version import __version__

_WAIT_MILLISECONDS = 5_000
_TIMEOUT_SECONDS = 2.0  # for one request: a collector that is away must not hold up the end


# Sends metrics, and an event for each violation, to an OpenTelemetry collector (OTLP).
# Metrics are read on the event loop and sent from a thread, under the names of Prometheus; of a
# histogram only sum and count, as counters, since OpenTelemetry has no observable histogram. An
# event has monitor, row, model, number and distance of witnesses, but no input, output or key.
# While the collector is away, the SDK buffers a few thousand events; the ledger is the record.


class OtlpExporter:
    """Sends the metrics of a service; made before its monitors are opened."""

    def __init__(self, service: Service, settings: OtlpSettings) -> None:
        try:
            from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
            from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
            from opentelemetry.sdk._logs import LoggerProvider
            from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
            from opentelemetry.sdk.metrics import MeterProvider
            from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
            from opentelemetry.sdk.resources import Resource
        except ImportError:
            raise BadRule(
                "[otlp] needs OpenTelemetry: pip install '.[otlp]' in the clone of likewise."
            ) from None
        self._service = service
        self._every = settings.every_seconds
        self._snapshot: dict[str, list[MetricSample]] = {}
        base = settings.endpoint.rstrip("/")
        about = Resource.create({"service.name": "likewise", "service.version": __version__})
        reader = PeriodicExportingMetricReader(
            OTLPMetricExporter(endpoint=f"{base}/v1/metrics", timeout=_TIMEOUT_SECONDS),
            export_interval_millis=math.inf,
        )
        self._meters = MeterProvider([reader], resource=about, shutdown_on_exit=False)
        meter = self._meters.get_meter("likewise", __version__)
        for metric in ALL_METRICS:
            is_gauge = metric.kind == "gauge"
            make = meter.create_observable_gauge if is_gauge else meter.create_observable_counter
            for end, take in _PARTS[metric.kind].items():
                make(metric.name + end, [self._make_reader(metric, take)], description=metric.text)
        self._logs = LoggerProvider(resource=about, shutdown_on_exit=False)
        self._logs.add_log_record_processor(
            BatchLogRecordProcessor(
                OTLPLogExporter(endpoint=f"{base}/v1/logs", timeout=_TIMEOUT_SECONDS)
            )
        )
        self._events = self._logs.get_logger("likewise", __version__)
        if settings.violations:
            service.on_open.append(lambda served: served.listeners.append(self._emit_violation))

    async def run(self) -> None:
        """Send every few seconds, until cancelled."""
        while True:
            await asyncio.sleep(self._every)
            await self.send()

    async def send(self) -> None:
        """Read the metrics now, and send them."""
        snapshot: dict[str, list[MetricSample]] = {}
        for sample in await all_samples(self._service, lambda _: True):
            snapshot.setdefault(sample.name, []).append(_copy_durations(sample))
        self._snapshot = snapshot
        await asyncio.to_thread(self._meters.force_flush, _WAIT_MILLISECONDS)

    async def close(self) -> None:
        """Send for the last time, and end the SDK's threads."""
        await self.send()
        await asyncio.to_thread(self._logs.force_flush, _WAIT_MILLISECONDS)
        await asyncio.to_thread(self._meters.shutdown)
        await asyncio.to_thread(self._logs.shutdown)

    def _make_reader(
        self, metric: MetricDefinition, take: Callable[[Any], float]
    ) -> Callable[[Any], Any]:
        from opentelemetry.metrics import Observation

        def read(_: Any) -> Iterable[Any]:
            for sample in self._snapshot.get(metric.name, ()):
                labels = dict(zip(metric.all_labels, sample.labels, strict=True))
                yield Observation(take(sample.value), {**labels, **self._service.settings.labels})

        return read

    def _emit_violation(self, served: ServedMonitor, verdict: Verdict) -> None:
        from opentelemetry._logs import LogRecord, SeverityNumber

        if not verdict.violation:
            return
        attributes: dict[str, Any] = {
            "likewise.monitor": served.name,
            "likewise.row": verdict.row,
            "likewise.witnesses": verdict.count,
        }
        nearest = verdict.witnesses.nearest(1)
        if nearest:
            attributes["likewise.nearest_distance"] = nearest[0].input_distance
        if verdict.model is not None:
            attributes["likewise.model_version"] = verdict.model
        self._events.emit(
            LogRecord(
                timestamp=clock.time_ns(),
                severity_number=SeverityNumber.WARN,
                severity_text="WARN",
                event_name="likewise.violation",
                attributes=attributes,
            )
        )


def _copy_durations(sample: MetricSample) -> MetricSample:
    """Copy durations, which the event loop goes on changing while a thread sends them."""
    if isinstance(sample.value, DurationHistogram):
        copy = DurationHistogram(list(sample.value.buckets), sample.value.total)
        return MetricSample(sample.name, copy, sample.labels)
    return sample


_PARTS: Mapping[str, Mapping[str, Callable[[Any], float]]] = {
    "counter": {"": float},
    "gauge": {"": float},
    "histogram": {
        "_sum": lambda durations: durations.total,
        "_count": lambda durations: sum(durations.buckets),
    },
}
"""What is sent for each kind of metric: the suffix of the name, and how to get the value."""


_EDGES = tuple(repr(edge) for edge in BUCKET_SECONDS)


class _Families(Collector):
    """Converts samples to the families of the Prometheus client."""

    def __init__(self, samples: Iterable[MetricSample], extra_labels: Mapping[str, str]) -> None:
        self._samples, self._extra_labels = samples, extra_labels

    def collect(self) -> Iterable[core.Metric]:
        families: Mapping[str, Any] = {
            metric.name: _KINDS[metric.kind](
                metric.name, metric.text, labels=(*metric.all_labels, *self._extra_labels)
            )
            for metric in ALL_METRICS
        }
        for sample in self._samples:
            labels, value = (*sample.labels, *self._extra_labels.values()), sample.value
            family = families[sample.name]
            if isinstance(value, DurationHistogram):
                family.add_metric(labels, _cumulate_buckets(value), value.total)
            elif sample.newest is not None:
                row, time = sample.newest
                family.add_metric(
                    labels, value, exemplar=core.Exemplar({"row": str(row)}, 1.0, time)
                )
            else:
                family.add_metric(labels, value)
        return [family for family in families.values() if family.samples]


_KINDS = {
    "counter": core.CounterMetricFamily,
    "gauge": core.GaugeMetricFamily,
    "histogram": core.HistogramMetricFamily,
}


def write_metrics(
    samples: Iterable[MetricSample], extra_labels: Mapping[str, str], accept: str
) -> tuple[bytes, str]:
    """Return the body of the answer to a scrape, and its content type.

    extra_labels: further labels of every metric
    """
    encode, content_type = choose_encoder(accept)
    return encode(_Families(samples, extra_labels)), content_type


def _cumulate_buckets(durations: DurationHistogram) -> list[tuple[str, float]]:
    totals = accumulate(list(durations.buckets))
    return [(edge, float(total)) for edge, total in zip((*_EDGES, "+Inf"), totals, strict=True)]
