"""Every metric: its name, its kind, its labels, and what it means (docs/reference/metrics.md).

No label has a value of a person, and none has more values than a deployment has monitors, models,
reasons and kinds; models beyond the first hundred of a monitor count together, as `(other)`.
"""

from dataclasses import dataclass

MODELS = 100
OTHER = "(other)"


@dataclass(frozen=True, slots=True)
class Metric:
    name: str
    kind: str
    """counter, gauge or histogram."""
    text: str
    labels: tuple[str, ...] = ()
    """Beside `monitor`."""
    of_monitor: bool = True
    """Whether it has the label `monitor`; else it is about the whole process."""

    @property
    def all_labels(self) -> tuple[str, ...]:
        return ("monitor", *self.labels) if self.of_monitor else self.labels


ALL = (
    Metric("likewise_monitor_up", "gauge", "1 if it can be asked, 0 while it cannot be opened."),
    Metric(
        "likewise_decisions_total", "counter", "Decisions that were judged.", ("model_version",)
    ),
    Metric(
        "likewise_violations_total",
        "counter",
        "Decisions that contradict an earlier one.",
        ("model_version",),
    ),
    Metric(
        "likewise_comparable_decisions_total",
        "counter",
        "Decisions with a near earlier input, whatever its output.",
    ),
    Metric("likewise_witness_pairs_total", "counter", "Pairs of contradicting decisions."),
    Metric("likewise_burst_alarms_total", "counter", "Decisions at which a burst was noticed."),
    Metric(
        "likewise_repeated_decisions_total",
        "counter",
        "Decisions that were sent again under their keys, and answered as before.",
    ),
    Metric(
        "likewise_refused_decisions_total",
        "counter",
        "Decisions, or requests with them, that were refused.",
        ("reason",),
    ),
    Metric(
        "likewise_dropped_decisions_total",
        "counter",
        "Decisions that were made and will never be judged, which the history was told.",
        ("reason",),
    ),
    Metric(
        "likewise_unpaired_events_total",
        "counter",
        "CloudEvents whose other half did not come in time.",
        ("kind",),
    ),
    Metric("likewise_repeated_events_total", "counter", "CloudEvents that came before.", ("kind",)),
    Metric("likewise_waiting_events", "gauge", "CloudEvents that wait for their other half."),
    Metric(
        "likewise_missing_decisions",
        "gauge",
        "Decisions known to be missing from the history, whoever told it, since it began.",
    ),
    Metric("likewise_stream_connected", "gauge", "1 if the stream that it follows can be read."),
    Metric(
        "likewise_stream_lag_seconds",
        "gauge",
        "Since the end of the stream was last reached; 0 while nothing waits there.",
    ),
    Metric(
        "likewise_stream_dead_letters_total",
        "counter",
        "Messages of the stream that could not be judged.",
    ),
    Metric("likewise_queue_decisions", "gauge", "Decisions that wait to be judged."),
    Metric("likewise_queue_capacity", "gauge", "Decisions that may wait."),
    Metric(
        "likewise_queue_oldest_age_seconds", "gauge", "How long the first in the queue has waited."
    ),
    Metric(
        "likewise_observe_duration_seconds",
        "histogram",
        "From a decision's arrival to its verdict; in a batch, its share of the whole.",
    ),
    Metric(
        "likewise_commit_duration_seconds",
        "histogram",
        "To judge and to write what was taken from the queue together.",
    ),
    Metric("likewise_history_rows", "gauge", "Decisions that are remembered."),
    Metric("likewise_history_bytes", "gauge", "Memory that they and their keys take."),
    Metric(
        "likewise_share_visited_ratio",
        "gauge",
        "Of the history, looked at by each of the last thousand decisions.",
    ),
    Metric(
        "likewise_last_decision_timestamp_seconds", "gauge", "When the last decision was judged."
    ),
    Metric(
        "likewise_ledger_head_timestamp_seconds",
        "gauge",
        "When the files of the ledger were last written.",
    ),
    Metric("likewise_disk_free_bytes", "gauge", "Free on the disk of the ledger."),
    Metric("likewise_disk_size_bytes", "gauge", "The size of the disk of the ledger."),
    Metric(
        "likewise_rule_info",
        "gauge",
        "Always 1; what the rule is.",
        ("fingerprint", "metric", "epsilon", "index", "exact"),
    ),
    Metric(
        "likewise_refused_requests_total",
        "counter",
        "Requests that were refused, or failed; of decisions, before a monitor was found.",
        ("status",),
        of_monitor=False,
    ),
    Metric(
        "likewise_request_duration_seconds",
        "histogram",
        "From the head of a request to the end of its answer.",
        ("route",),
        of_monitor=False,
    ),
    Metric(
        "likewise_build_info",
        "gauge",
        "Always 1; which version runs.",
        ("version",),
        of_monitor=False,
    ),
    Metric("process_cpu_seconds_total", "counter", "CPU time of the process.", of_monitor=False),
    Metric(
        "process_resident_memory_bytes",
        "gauge",
        "Memory of the process, all in all.",
        of_monitor=False,
    ),
    Metric("process_virtual_memory_bytes", "gauge", "Addresses that it has.", of_monitor=False),
    Metric("process_open_fds", "gauge", "Files and sockets that are open.", of_monitor=False),
    Metric("process_max_fds", "gauge", "Files and sockets that may be.", of_monitor=False),
    Metric(
        "process_start_time_seconds", "gauge", "When the process was started.", of_monitor=False
    ),
)
BY_NAME = {metric.name: metric for metric in ALL}
