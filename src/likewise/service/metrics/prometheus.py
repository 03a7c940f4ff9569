"""Writes metrics in the formats of Prometheus.

In OpenMetrics the counter of violations has the newest one as an exemplar, with its row but no key:
what Prometheus has stored cannot be erased with a person.
"""

from collections.abc import Iterable, Mapping
from itertools import accumulate
from typing import Any

from prometheus_client.core import (
    CounterMetricFamily,
    Exemplar,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from likewise.service.metrics.metric_names import ALL_METRICS
from likewise.service.metrics.samples import MetricSample
from likewise.service.monitor_counts import BUCKET_SECONDS, DurationHistogram

_EDGES = tuple(repr(edge) for edge in BUCKET_SECONDS)


class _Families(Collector):
    """Converts samples to the families of the Prometheus client."""

    def __init__(self, samples: Iterable[MetricSample], extra_labels: Mapping[str, str]) -> None:
        self._samples, self._extra_labels = samples, extra_labels

    def collect(self) -> Iterable[Metric]:
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
                family.add_metric(labels, value, exemplar=Exemplar({"row": str(row)}, 1.0, time))
            else:
                family.add_metric(labels, value)
        return [family for family in families.values() if family.samples]


_KINDS = {
    "counter": CounterMetricFamily,
    "gauge": GaugeMetricFamily,
    "histogram": HistogramMetricFamily,
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
