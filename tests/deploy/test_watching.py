"""The rules and the board that are shipped: they parse, and ask for metrics that there are."""

import json
import re
from pathlib import Path

import pytest

from likewise.service.metrics.samples import ALL_METRICS
from tests.service.promtool import promtool
from tests.support.looping import each

ROOT = Path(__file__).resolve().parents[2]
PROMETHEUS = ROOT / "deploy" / "prometheus"
BOARD = json.loads((ROOT / "deploy" / "grafana" / "likewise.json").read_text())
KNOWN = {metric.name for metric in ALL_METRICS if metric.kind != "histogram"} | {
    f"{metric.name}_{end}"
    for metric in ALL_METRICS
    if metric.kind == "histogram"
    for end in ("bucket", "sum", "count")
}
LABELS = {"le"} | {label for metric in ALL_METRICS for label in metric.all_labels}
EXPRESSIONS = [
    (panel["title"], target["expr"]) for panel in BOARD["panels"] for target in panel["targets"]
]


@pytest.mark.long
def test_rules_of_prometheus_parse_and_ring_as_their_tests_say():
    assert "9 rules found" in promtool("check", "rules", "alerts.yml", cwd=PROMETHEUS)
    told = promtool("test", "rules", "alerts_test.yml", "alerts_week_test.yml", cwd=PROMETHEUS)
    assert told.count("SUCCESS") == 2


def test_every_alert_has_a_test_that_rings():
    alerts = set(re.findall(r"- alert: (\w+)", (PROMETHEUS / "alerts.yml").read_text()))
    rung = set()
    for name in ("alerts_test.yml", "alerts_week_test.yml"):
        rung |= set(
            re.findall(r"alertname: (\w+)\n +exp_alerts:\n", (PROMETHEUS / name).read_text())
        )
    assert alerts == rung


def test_rules_ask_for_metrics_that_there_are():
    asked = set(re.findall(r"\blikewise_\w+", (PROMETHEUS / "alerts.yml").read_text()))
    assert asked
    assert asked <= KNOWN


def test_board_asks_for_metrics_and_labels_that_there_are():
    for title, expression in EXPRESSIONS:
        asked = set(re.findall(r"\blikewise_\w+", expression))
        assert asked, title
        assert asked <= KNOWN, title
        for named in re.findall(r"\bby \(([^)]*)\)", expression):
            assert set(named.split(", ")) <= LABELS, title
    (variable,) = BOARD["templating"]["list"]
    assert variable["name"] == "monitor"
    (asked,) = re.findall(r"label_values\((\w+), monitor\)", variable["definition"])
    assert asked in KNOWN


@each("name", sorted({metric.name for metric in ALL_METRICS if metric.kind != "gauge"}))
def test_counter_is_on_the_board_or_known_to_be_left_out(name):
    left_out = {
        "likewise_witness_pairs_total",
        "likewise_burst_alarms_total",
        "likewise_repeated_events_total",
        "likewise_refused_requests_total",
        "likewise_reloads_total",
        "likewise_request_duration_seconds",
        "likewise_stream_dead_letters_total",
        "process_cpu_seconds_total",
    }
    shown = any(name in expression for _, expression in EXPRESSIONS)
    assert shown != (name in left_out)


def test_expressions_of_the_board_parse(tmp_path):
    rules = []
    for i, (_, expression) in enumerate(EXPRESSIONS):
        plain = expression.replace("$__rate_interval", "5m").replace("$monitor", ".*")
        assert "$" not in plain
        rules.append({"record": f"board:{i}", "expr": plain})
    path = tmp_path / "board.yml"
    path.write_text(json.dumps({"groups": [{"name": "board", "rules": rules}]}))
    assert f"{len(rules)} rules found" in promtool("check", "rules", path)


def test_board_can_be_imported_elsewhere():
    assert BOARD["uid"] == "likewise-service"
    assert BOARD["id"] is None
    (source,) = BOARD["__inputs"]
    assert source["name"] == "DS_PROMETHEUS"
    text = json.dumps(BOARD)
    assert set(re.findall(r'"uid": "([^"]*)"', text)) == {"likewise-service", "${DS_PROMETHEUS}"}
    places = [tuple(panel["gridPos"].values()) for panel in BOARD["panels"]]
    cells = [
        (x + i, y + j)
        for height, width, x, y in places
        for i in range(width)
        for j in range(height)
    ]
    assert len(cells) == len(set(cells)), "two panels lie on each other"
    assert max(x for x, _ in cells) < 24
    assert len({panel["id"] for panel in BOARD["panels"]}) == len(BOARD["panels"])


def test_two_rates_stand_beside_each_other_with_their_denominators():
    first, second = BOARD["panels"][:2]
    assert "likewise_comparable_decisions_total" in first["targets"][0]["expr"]
    assert "likewise_decisions_total" in second["targets"][0]["expr"]
    assert first["gridPos"]["y"] == second["gridPos"]["y"]
