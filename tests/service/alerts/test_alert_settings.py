"""The table [alerts]: what it means, what is refused, what is never shown."""

import dataclasses
import re
from pathlib import Path

import pytest

from likewise.service.alerts import settings as module
from likewise.service.alerts.conditions import KINDS
from likewise.service.alerts.settings import alert_settings
from likewise.service.settings import ServiceSettings
from likewise.values.errors import BadRule

HOOK = {"name": "hook", "kind": "webhook", "url": "https://example.org/", "secret_env": "S"}
ENVIRONMENT = {"S": "a secret of some length", "URL": "json://user:password@localhost"}


def read(tmp_path, alerts, *, ledger="loans.ledger", environment=ENVIRONMENT):
    monitor = {"rule": "rule.toml"} | ({"ledger": ledger} if ledger else {})
    settings = ServiceSettings.of({"monitors": {"loans": monitor}, "alerts": alerts}, tmp_path)
    return alert_settings(settings, environment)


def test_without_a_table_there_are_no_alerts(tmp_path):
    assert (
        alert_settings(ServiceSettings.of({"monitors": {"a": {"rule": "r"}}}, tmp_path), {}) is None
    )


def test_the_outbox_is_beside_the_ledger_or_where_it_is_said_to_be(tmp_path):
    assert read(tmp_path, {"keys": False}).outbox == tmp_path / "likewise-alerts.sqlite"
    assert read(tmp_path, {"outbox": "a/b"}).outbox == tmp_path / "a" / "b"
    with pytest.raises(BadRule, match="Say where: outbox"):
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
    ("alerts", "why"),
    [
        ({"windws": 3}, "'windws' is no setting"),
        ({"window_seconds": 0}, "expected more than 0"),
        ({"quiet_seconds": -1}, "expected 0 or more"),
        ({"kinds": ["bursts"]}, "'bursts' is no kind"),
        ({"least_windows": 1}, "at least 2"),
        ({"receivers": {}}, r"\[\[alerts.receivers\]\]"),
        ({"receivers": [HOOK, HOOK]}, "the same name"),
        ({"receivers": [{**HOOK, "kind": "pager"}]}, "expected one of webhook"),
        ({"receivers": [{**HOOK, "secret_env": "NONE"}]}, "NONE of secret_env is not set"),
        ({"receivers": [{**HOOK, "secret_file": "x"}]}, "not several"),
        ({"receivers": [{**HOOK, "monitors": ["other"]}]}, "no monitor 'other'"),
        ({"receivers": [{**HOOK, "url": "ftp://example.org"}]}, "no address of http"),
        ({"receivers": [{**HOOK, "url": "https://a:b@example.org"}]}, "a password in it"),
        ({"receivers": [{**HOOK, "pause_seconds": 0}]}, "expected more than 0"),
        (
            {"receivers": [{**HOOK, "kind": "alertmanager", "url": "http://example.org"}]},
            "in the clear",
        ),
        ({"receivers": [{"name": "x", "kind": "webhook", "url": "https://a.b"}]}, "is signed"),
        ({"receivers": [{"name": "x", "kind": "apprise"}]}, "expected a url"),
    ],
)
def test_what_makes_no_sense_is_refused_with_the_reason(tmp_path, alerts, why):
    with pytest.raises(BadRule, match=why) as refused:
        read(tmp_path, alerts)
    assert "a secret of" not in str(refused.value)


def test_every_setting_and_kind_is_on_the_page_about_alerts():
    page = Path(__file__).parents[3] / "docs" / "how-to" / "serve-alerts.md"
    rows = re.findall(r"^\| (`[^|]+`) \|", page.read_text(encoding="utf-8"), re.MULTILINE)
    named = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    settings = {
        field.name for kind in (module._Table, module._Told) for field in dataclasses.fields(kind)
    }
    assert named == settings | set(KINDS)
