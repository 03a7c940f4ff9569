"""The numbers of one monitor, by metric and labels, whoever carries them away."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from likewise.service.counts import Durations
from likewise.service.hosted import Hosted
from likewise.service.metrics.names import MODELS, OTHER
from likewise.service.metrics.reading import MetricsReading

Labels = tuple[str, ...]
"""Values in the order of the metric's labels, without the monitor's name."""


@dataclass(frozen=True, slots=True)
class Sample:
    name: str
    value: float | Durations
    labels: Labels = ()


def samples(hosted: Hosted, reading: MetricsReading | None) -> Iterator[Sample]:
    """All of them; those that are not known are left out."""
    counts = hosted.counts
    for name, by_model in (
        ("likewise_decisions_total", counts.decisions),
        ("likewise_violations_total", counts.violations),
    ):
        for model, count in _few_models(by_model).items():
            yield Sample(name, count, (model,))
    if hosted.monitor.comparable:
        yield Sample("likewise_comparable_decisions_total", counts.comparable)
    yield Sample("likewise_witness_pairs_total", counts.pairs)
    yield Sample("likewise_burst_alarms_total", counts.alarms)
    yield Sample("likewise_repeated_decisions_total", counts.known)
    for name, by_label in (
        ("likewise_refused_decisions_total", counts.refused),
        ("likewise_dropped_decisions_total", counts.dropped),
        ("likewise_unpaired_events_total", counts.unpaired),
        ("likewise_repeated_events_total", counts.repeated_events),
    ):
        for label, count in dict(by_label).items():
            yield Sample(name, count, (label,))
    yield Sample("likewise_waiting_events", counts.waiting_events)
    yield Sample("likewise_queue_decisions", hosted.waiting_rows)
    yield Sample("likewise_queue_capacity", hosted.limits.waiting_rows)
    yield Sample("likewise_queue_oldest_age_seconds", hosted.oldest_age)
    yield Sample("likewise_observe_duration_seconds", counts.observing)
    yield Sample("likewise_commit_duration_seconds", counts.committing)
    if counts.last_decision:
        yield Sample("likewise_last_decision_timestamp_seconds", counts.last_decision)
    yield from _of_reading(hosted, reading)


def refused_requests(refused: Mapping[str, int]) -> dict[str, int]:
    """By status; those that say that somebody may not are there from the start."""
    return {"401": 0, "403": 0} | dict(refused)


def _of_reading(hosted: Hosted, reading: MetricsReading | None) -> Iterator[Sample]:
    if reading is None:
        return
    yield Sample("likewise_missing_decisions", reading.missing)
    yield Sample("likewise_history_rows", reading.rows)
    yield Sample("likewise_history_bytes", reading.bytes)
    yield Sample("likewise_share_visited_ratio", reading.share_visited)
    if reading.written is not None:
        yield Sample("likewise_ledger_head_timestamp_seconds", reading.written)
    if reading.disk is not None:
        yield Sample("likewise_disk_free_bytes", reading.disk.free)
        yield Sample("likewise_disk_size_bytes", reading.disk.size)
    rule = hosted.monitor.rule
    labels = (rule.fingerprint, rule.metric, repr(float(rule.epsilon)), reading.index, "true")
    yield Sample("likewise_rule_info", 1, labels)


def _few_models(counts: Mapping[str, int]) -> dict[str, int]:
    """Those without a model first, even if there are none; then the first hundred models."""
    few = {"": counts.get("", 0)}
    for model, count in dict(counts).items():
        if model == "":
            continue
        name = model if len(few) <= MODELS else OTHER
        few[name] = few.get(name, 0) + count
    return few
