"""The numbers as Prometheus reads them.

In OpenMetrics the newest violation stands beside their number, as an exemplar. It has the row and
no key: what Prometheus has stored cannot be erased with a person.
"""

from collections.abc import Iterable, Mapping, Sequence
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

from likewise.service.counts import EDGES, Durations
from likewise.service.hosted import Hosted
from likewise.service.metrics.names import ALL, REFUSED_REQUESTS
from likewise.service.metrics.reading import MetricsReading
from likewise.service.metrics.samples import refused_requests, samples

_EDGES = tuple(repr(edge) for edge in EDGES)
_VIOLATIONS = "likewise_violations_total"


class _Families(Collector):
    """All that was read, family by family."""

    def __init__(
        self, hosted: Sequence[tuple[Hosted, MetricsReading | None]], refused: Mapping[str, int]
    ) -> None:
        self._hosted = hosted
        self._refused = refused

    def collect(self) -> Iterable[Metric]:
        families: Mapping[str, Any] = {
            metric.name: _KINDS[metric.kind](
                metric.name, metric.text, labels=("monitor", *metric.labels)
            )
            for metric in ALL
        }
        for one, reading in self._hosted:
            for sample in samples(one, reading):
                labels, value = (one.name, *sample.labels), sample.value
                family = families[sample.name]
                if isinstance(value, Durations):
                    family.add_metric(labels, _buckets(value), value.total)
                elif sample.name == _VIOLATIONS:
                    family.add_metric(labels, value, exemplar=_newest(one, *sample.labels))
                else:
                    family.add_metric(labels, value)
        about = REFUSED_REQUESTS
        refused = CounterMetricFamily(about.name, about.text, labels=about.labels)
        for status, count in refused_requests(self._refused).items():
            refused.add_metric((status,), count)
        return [*(family for family in families.values() if family.samples), refused]


_KINDS = {
    "counter": CounterMetricFamily,
    "gauge": GaugeMetricFamily,
    "histogram": HistogramMetricFamily,
}


def page(
    hosted: Sequence[tuple[Hosted, MetricsReading | None]], refused: Mapping[str, int], accept: str
) -> tuple[bytes, str]:
    """What a scrape is answered, and its content type."""
    encode, content_type = choose_encoder(accept)
    return encode(_Families(hosted, refused)), content_type


def _newest(hosted: Hosted, model: str) -> Exemplar | None:
    """The newest violation of a model."""
    newest = hosted.counts.newest.get(model)
    return None if newest is None else Exemplar({"row": str(newest[0])}, 1.0, newest[1])


def _buckets(durations: Durations) -> list[tuple[str, float]]:
    told, sofar = [], 0
    for edge, count in zip((*_EDGES, "+Inf"), list(durations.buckets), strict=True):
        sofar += count
        told.append((edge, float(sofar)))
    return told
