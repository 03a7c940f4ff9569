"""Screens of a monitor of slopes say that they are about contradictions, and show none."""

import pytest

from tests.support.serving import serving, settings

RULE = 'metric = "l2"\nepsilon = 1.0\noutput = "number"\n'
MONITORS = """
[monitors.memory]
rule = "rule.toml"
kind = "slopes"
slope_limit = 3.0
[monitors.ledger]
rule = "rule.toml"
ledger = "ledger"
kind = "slopes"
slope_limit = 3.0
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    path = settings(tmp_path_factory.mktemp("slopes"), rule=RULE, monitors=MONITORS)
    with serving(path) as running:
        yield running


@pytest.mark.long
@pytest.mark.parametrize("name", ["memory", "ledger"])
def test_lists_of_contradictions_are_refused_and_the_rule_is_shown(server, name):
    for x, z in ((0.0, 0.0), (0.1, 5.0), (0.2, 0.0)):
        answer = server.ask("POST", f"/v1/monitors/{name}/observe", {"x": [x], "z": z})
        assert answer.status == 200, answer.body
    html = {"accept": "text/html"}
    for path in ("violations", "queue", "models", "pairs/1", "pairs/1/0"):
        answer = server.ask("GET", f"/m/{name}/{path}", headers=html)
        assert 400 <= answer.status < 500 and b"slopes" in answer.body, path
    rule = server.ask("GET", f"/m/{name}/rule", headers=html)
    assert rule.status == 200 and b"no epsilon" in rule.body
    assert server.ask("GET", f"/m/{name}/groups", headers=html).status == 200
    assert server.ask("GET", f"/m/{name}/people", headers=html).status == 200
