"""Define every metric (name, labels, meaning), and collect samples for Prometheus and OTLP.

Invariant: no label has a value of a person, and none has more values than a deployment has
monitors, models, reasons and kinds; models beyond the first hundred of a monitor count together,
as `(other)`. Not here: formats (exporting.py), counting (monitor_counts.py).
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from prometheus_client import ProcessCollector

from likewise.errors import BY_CODE, BadDecision
from likewise.service.monitor_counts import OTHER, DurationHistogram
from likewise.service.monitor_readings import MonitorReading
from likewise.service.served_monitor import ServedMonitor
from likewise.service.service import Service
from likewise.version import __version__

MOST_MODELS = 100
_MONITOR_METRICS = {
    "likewise_monitor_up": "1 if the monitor is open, 0 if it is not.",
    "likewise_decisions_total{model_version}": "Decisions that were judged.",
    "likewise_violations_total{model_version}": "Decisions that contradict an earlier one.",
    "likewise_comparable_decisions_total": (
        "Decisions with a similar earlier input, whatever its output."
    ),
    "likewise_witness_pairs_total": "Pairs of contradicting decisions.",
    "likewise_burst_alarms_total": "Decisions at which a burst alarm was raised.",
    "likewise_repeated_decisions_total": (
        "Decisions that were sent again under their keys, and answered as before."
    ),
    "likewise_refused_decisions_total{reason}": (
        "Decisions, or requests with them, that were refused."
    ),
    "likewise_dropped_decisions_total{reason}": (
        "Decisions that were made and will never be judged, and were reported as lost."
    ),
    "likewise_unpaired_events_total{kind}": "CloudEvents whose other half did not come in time.",
    "likewise_repeated_events_total{kind}": "CloudEvents that came before.",
    "likewise_waiting_events": "CloudEvents that wait for their other half.",
    "likewise_missing_decisions": (
        "Decisions known to be missing from the history since it began, whoever reported them."
    ),
    "likewise_stream_connected": "1 if the stream that it follows can be read.",
    "likewise_stream_lag_seconds": (
        "Seconds since the end of the stream was last reached; 0 while no message waits there."
    ),
    "likewise_stream_dead_letters_total": "Messages of the stream that could not be judged.",
    "likewise_queue_decisions": "Decisions that wait to be judged.",
    "likewise_queue_capacity": "Decisions that may wait.",
    "likewise_queue_oldest_age_seconds": "How long the first in the queue has waited.",
    "likewise_observe_duration_seconds": (
        "From the arrival of a decision to its verdict; in a batch, its share of the time."
    ),
    "likewise_commit_duration_seconds": (
        "Time to judge and write the decisions that were taken from the queue together."
    ),
    "likewise_history_rows": "Decisions that are remembered.",
    "likewise_history_bytes": "Memory of those decisions and their keys.",
    "likewise_share_visited_ratio": (
        "Share of the history that each of the last thousand decisions was compared with."
    ),
    "likewise_last_decision_timestamp_seconds": "When the last decision was judged.",
    "likewise_ledger_head_timestamp_seconds": "When the files of the ledger were last written.",
    "likewise_disk_free_bytes": "Free bytes on the disk of the ledger.",
    "likewise_disk_size_bytes": "The size of the disk of the ledger.",
    "likewise_rule_info{fingerprint, metric, epsilon, index, exact}": (
        "Always 1; the labels describe the rule."
    ),
}
"""Help texts by name, with the labels besides `monitor`."""
_PROCESS_METRICS = {
    "likewise_refused_requests_total{status}": (
        "Requests that were refused or failed; those with decisions, if no monitor was found."
    ),
    "likewise_request_duration_seconds{route}": (
        "From the head of a request to the end of its answer."
    ),
    "likewise_reloads_total{result}": (
        "How often the settings were reloaded (SIGHUP), by result: applied or refused."
    ),
    "likewise_build_info{version}": "Always 1; the label is the version that runs.",
    "process_cpu_seconds_total": "CPU time of the process.",
    "process_resident_memory_bytes": "Resident memory of the process.",
    "process_virtual_memory_bytes": "Virtual memory of the process.",
    "process_open_fds": "Open files and sockets.",
    "process_max_fds": "Files and sockets that may be open.",
    "process_start_time_seconds": "When the process was started.",
}


@dataclass(frozen=True, slots=True)
class MetricDefinition:
    """Says what a metric is called, means and is labelled with."""

    name: str
    text: str
    all_labels: tuple[str, ...]

    @property
    def kind(self) -> str:
        """counter, gauge or histogram, by Prometheus's rules for names."""
        if self.name.endswith("_total"):
            return "counter"
        return "histogram" if self.name.endswith("_duration_seconds") else "gauge"


def _metrics(texts: dict[str, str], *labels: str) -> list[MetricDefinition]:
    """Parse names with labels; `labels` are common to all."""
    metrics = []
    for declaration, text in texts.items():
        name, *own = re.findall(r"\w+", declaration)
        metrics.append(MetricDefinition(name, text, (*labels, *own)))
    return metrics


ALL_METRICS = (*_metrics(_MONITOR_METRICS, "monitor"), *_metrics(_PROCESS_METRICS))
BY_NAME = {metric.name: metric for metric in ALL_METRICS}


Labels = tuple[str, ...]
"""Values in the order of the metric's labels."""
_KINDS = ("request", "response")
_INITIAL_LABELS: Mapping[str, Labels] = {
    "likewise_refused_decisions_total": (
        *("400", "408", "413", "422", "429", "503"),
        *(code for code, kind in BY_CODE.items() if issubclass(kind, BadDecision)),
    ),
    "likewise_dropped_decisions_total": ("unpaired request", "unpaired response"),
    "likewise_unpaired_events_total": _KINDS,
    "likewise_repeated_events_total": _KINDS,
    "likewise_reloads_total": ("applied", "refused"),
    "likewise_refused_requests_total": (
        *("400", "401", "403", "404", "405", "413", "422", "429", "500", "503"),
    ),
}
"""Labels that are reported from the start: a rate needs the 0 before the first count."""
_process = ProcessCollector(registry=None)


@dataclass(frozen=True, slots=True)
class MetricSample:
    name: str
    value: float | DurationHistogram
    labels: Labels = ()
    newest: tuple[int, float] | None = None
    """Row and time of the newest violation; None for other metrics."""


async def all_samples(service: Service, allows: Callable[[str], bool]) -> list[MetricSample]:
    """Collect the samples of the process, and of the monitors that the caller may see."""
    samples = [*process_samples(service)]
    for name in filter(allows, list(service.pending)):
        samples.append(MetricSample("likewise_monitor_up", 0, (name,)))
    for name, served in service.monitors.items():
        if allows(name):
            samples += monitor_samples(served, await service.readings.read(served))
    return samples


def process_samples(service: Service) -> Iterator[MetricSample]:
    """Yield samples that are not about one monitor."""
    yield from _by_label("likewise_refused_requests_total", service.refused)
    for route, durations in list(service.durations.items()):
        yield MetricSample("likewise_request_duration_seconds", durations, (route,))
    yield from _by_label("likewise_reloads_total", service.reloads)
    yield MetricSample("likewise_build_info", 1, (__version__,))
    for family in _process.collect():
        for one in family.samples:
            if one.name in BY_NAME:
                yield MetricSample(one.name, one.value)


def monitor_samples(
    served: ServedMonitor, reading: MonitorReading | None
) -> Iterator[MetricSample]:
    """Yield all samples of one monitor; those that are not known are left out."""
    for sample in _unlabelled_samples(served, reading):
        yield replace(sample, labels=(served.name, *sample.labels))


def _unlabelled_samples(
    served: ServedMonitor, reading: MonitorReading | None
) -> Iterator[MetricSample]:
    counts = served.counts
    yield MetricSample("likewise_monitor_up", 1)
    for name, by_model in (
        ("likewise_decisions_total", counts.decisions),
        ("likewise_violations_total", counts.violations),
    ):
        for model, count in _limit_models(by_model).items():
            newest = counts.newest_violations.get(model) if by_model is counts.violations else None
            yield MetricSample(name, count, (model,), newest)
    if served.monitor.comparable:
        yield MetricSample("likewise_comparable_decisions_total", counts.comparable)
    yield MetricSample("likewise_witness_pairs_total", counts.pairs)
    yield MetricSample("likewise_burst_alarms_total", counts.alarms)
    yield MetricSample("likewise_repeated_decisions_total", counts.repeated)
    for name, by_label in (
        ("likewise_refused_decisions_total", counts.refused),
        ("likewise_dropped_decisions_total", counts.dropped),
        ("likewise_unpaired_events_total", counts.unpaired),
        ("likewise_repeated_events_total", counts.repeated_events),
    ):
        yield from _by_label(name, by_label)
    yield MetricSample("likewise_waiting_events", counts.waiting_events)
    if served.stream is not None:
        yield MetricSample("likewise_stream_connected", int(served.stream.is_connected))
        yield MetricSample("likewise_stream_lag_seconds", served.stream.lag_seconds)
        yield MetricSample("likewise_stream_dead_letters_total", counts.refused["bad-message"])
    yield MetricSample("likewise_queue_decisions", served.waiting_rows)
    yield MetricSample("likewise_queue_capacity", served.limits.waiting_rows)
    yield MetricSample("likewise_queue_oldest_age_seconds", served.oldest_wait_seconds)
    yield MetricSample("likewise_observe_duration_seconds", counts.observe_durations)
    yield MetricSample("likewise_commit_duration_seconds", counts.commit_durations)
    if counts.last_decision:
        yield MetricSample("likewise_last_decision_timestamp_seconds", counts.last_decision)
    yield from _reading_samples(served, reading)


def _reading_samples(
    served: ServedMonitor, reading: MonitorReading | None
) -> Iterator[MetricSample]:
    if reading is None:
        return
    yield MetricSample("likewise_missing_decisions", reading.missing)
    yield MetricSample("likewise_history_rows", reading.rows)
    yield MetricSample("likewise_history_bytes", reading.bytes)
    yield MetricSample("likewise_share_visited_ratio", reading.share_visited)
    if reading.last_written is not None:
        yield MetricSample("likewise_ledger_head_timestamp_seconds", reading.last_written)
    if reading.disk is not None:
        yield MetricSample("likewise_disk_free_bytes", reading.disk.free)
        yield MetricSample("likewise_disk_size_bytes", reading.disk.size)
    rule = served.monitor.rule
    labels = (rule.fingerprint, rule.metric, repr(float(rule.epsilon)), reading.index, "true")
    yield MetricSample("likewise_rule_info", 1, labels)


def _by_label(name: str, counts: Mapping[str, int]) -> Iterator[MetricSample]:
    for label, count in (dict.fromkeys(_INITIAL_LABELS[name], 0) | dict(counts)).items():
        yield MetricSample(name, count, (label,))


def _limit_models(counts: Mapping[str, int]) -> dict[str, int]:
    """Return counts without a model first, even if 0, then the first hundred models, then OTHER."""
    limited = {"": counts.get("", 0)}
    for model, count in dict(counts).items():
        if model == "":
            continue
        name = model if len(limited) <= MOST_MODELS else OTHER
        limited[name] = limited.get(name, 0) + count
    return limited
