"""The table [alerts]: what it means, what is refused, what is never shown."""

import re
from pathlib import Path

import pytest

from likewise.errors import BadRule
from likewise.service.alerts.conditions import KINDS
from likewise.service.alerts.settings import AlertsTable, ReceiverTable
from likewise.service.settings import ServiceSettings
from tests.support.refusals import raises

HOOK = {"name": "hook", "kind": "webhook", "url": "https://example.org/", "secret_env": "S"}
TOKEN = {"name": "x", "kind": "alertmanager", "url": "https://example.org/"}
ENVIRONMENT = {"S": "a secret of some length", "URL": "json://user:password@localhost"}


def read(tmp_path, alerts, *, ledger="loans.ledger", environment=ENVIRONMENT):
    monitor = {"rule": "rule.toml"} | ({"ledger": ledger} if ledger else {})
    settings = ServiceSettings.from_tables(
        {"monitors": {"loans": monitor}, "alerts": alerts}, tmp_path
    )
    return settings.resolve_alerts(environment)


def test_without_a_table_there_are_no_alerts(tmp_path):
    settings = ServiceSettings.from_tables({"monitors": {"a": {"rule": "r"}}}, tmp_path)
    assert settings.resolve_alerts({}) is None


def test_the_outbox_is_beside_the_ledger_or_where_it_is_said_to_be(tmp_path):
    assert read(tmp_path, {"keys": False}).outbox == tmp_path / "likewise-alerts.sqlite"
    assert read(tmp_path, {"outbox": "a/b"}).outbox == tmp_path / "a" / "b"
    with raises(BadRule):
        read(tmp_path, {"keys": False}, ledger=None)


def test_secrets_come_from_the_environment_or_files_and_are_not_shown(tmp_path):
    (tmp_path / "secret").write_text("another secret of a length\n")
    told = read(
        tmp_path,
        {
            "receivers": [
                HOOK,
                {
                    "name": "file",
                    "kind": "webhook",
                    "url": "https://example.org/",
                    "secret_file": "secret",
                },
                {"name": "people", "kind": "apprise", "url_env": "URL"},
            ]
        },
    )
    assert [one.secret for one in told.receivers] == [
        "a secret of some length",
        "another secret of a length",
        "",
    ]
    for word in ("secret of", "password", "example.org"):
        assert word not in repr(told)


@pytest.mark.parametrize(
    "alerts",
    [
        {"windws": 3},
        {"window_seconds": 0},
        {"quiet_seconds": -1},
        {"kinds": ["bursts"]},
        {"least_windows": 1},
        {"receivers": {}},
        {"receivers": [HOOK, HOOK]},
        {"receivers": [{**HOOK, "kind": "pager"}]},
        {"receivers": [{**HOOK, "secret_env": "NONE"}]},
        {"receivers": [{**HOOK, "secret_file": "x"}]},
        {"receivers": [{**HOOK, "monitors": ["other"]}]},
        {"receivers": [{**HOOK, "url": "ftp://example.org"}]},
        {"receivers": [{**HOOK, "url": "https://a:b@example.org"}]},
        {"receivers": [{**HOOK, "pause_seconds": 0}]},
        {"receivers": [{**HOOK, "kind": "alertmanager", "url": "http://example.org"}]},
        {"receivers": [{"name": "x", "kind": "webhook", "url": "https://a.b"}]},
        {"receivers": [TOKEN | {"secret_file": "/dev/null"}]},
        {"receivers": [{"name": "x", "kind": "apprise"}]},
    ],
)
def test_what_makes_no_sense_is_refused_with_the_reason(tmp_path, alerts):
    with raises(BadRule) as refused:
        read(tmp_path, alerts)
    assert "a secret of" not in str(refused.value)


def test_every_setting_and_kind_is_on_the_page_about_alerts():
    page = Path(__file__).parents[3] / "docs" / "how-to" / "serve-alerts.md"
    rows = re.findall(r"^\| (`[^|]+`) \|", page.read_text(encoding="utf-8"), re.MULTILINE)
    named = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    settings = {*AlertsTable.__struct_fields__, *ReceiverTable.__struct_fields__} - {"receivers"}
    assert named == settings | set(KINDS)
