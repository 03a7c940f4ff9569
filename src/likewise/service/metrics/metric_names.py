"""Defines every metric: its name, kind, labels and meaning (docs/reference/metrics.md).

No label has a value of a person, and none has more values than a deployment has monitors, models,
reasons and kinds; models beyond the first hundred of a monitor count together, as `(other)`.
"""

import re
from dataclasses import dataclass

MOST_MODELS = 100
_OF_MONITORS = {
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
_OF_PROCESS = {
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


ALL_METRICS = (*_metrics(_OF_MONITORS, "monitor"), *_metrics(_OF_PROCESS))
BY_NAME = {metric.name: metric for metric in ALL_METRICS}
