"""The numbers as Prometheus reads them.

In OpenMetrics the newest violation stands beside their number, as an exemplar. It has the row and
no key: what Prometheus has stored cannot be erased with a person.
"""

from collections.abc import Iterable, Mapping
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
    """All that was read, family by family."""

    def __init__(self, seen: Iterable[MetricSample], more: Mapping[str, str]) -> None:
        self._seen, self._more = seen, more

    def collect(self) -> Iterable[Metric]:
        families: Mapping[str, Any] = {
            metric.name: _KINDS[metric.kind](
                metric.name, metric.text, labels=(*metric.all_labels, *self._more)
            )
            for metric in ALL_METRICS
        }
        for sample in self._seen:
            labels, value = (*sample.labels, *self._more.values()), sample.value
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
    """What a scrape is answered, and its content type.

    more: further labels of everything
    """
    encode, content_type = choose_encoder(accept)
    return encode(_Families(samples, extra_labels)), content_type


def _cumulate_buckets(durations: DurationHistogram) -> list[tuple[str, float]]:
    told, sofar = [], 0
    for edge, count in zip((*_EDGES, "+Inf"), list(durations.buckets), strict=True):
        sofar += count
        told.append((edge, float(sofar)))
    return told
