"""Settings of the service: what is refused names its key, what came and what was expected."""

import pytest

from likewise.errors import BadRule
from likewise.service.settings import Limits, ServiceSettings, Token
from tests.support.refusals import raises

HASH = "sha256:" + "0" * 64
MONITOR = {"rule": "r.toml"}
SOURCE = {"from": "redis://127.0.0.1:6379/0?stream=decisions"}


def of(tmp_path, **tables):
    return ServiceSettings.from_tables({"monitors": {"loans": MONITOR}, **tables}, tmp_path)


def test_paths_are_relative_to_the_file_and_everything_else_has_its_default(tmp_path):
    (tmp_path / "service.toml").write_text(
        '[server]\nuds = "s"\n[limits]\nrate = 5\n[monitors.loans]\nrule = "r"\nledger = "/l"\n'
        f'[[tokens]]\nname = "t"\nhash = "{HASH}"\n[monitors.loans.burst]\nlast = 9\n'
    )
    found = ServiceSettings.read(tmp_path / "service.toml")
    served = found.monitors["loans"]
    assert (served.rule, str(served.ledger)) == (tmp_path / "r", "/l")
    assert found.server.uds == tmp_path / "s" and found.server.port == 8800
    assert found.limits == Limits(rate=5.0) and found.tokens == (Token("t", HASH),)
    assert served.burst.make_burst().last == 9 and served.burst.alarm is None


@pytest.mark.parametrize(
    ("tables", "setting"),
    [
        ({"limit": {}}, "limit"),
        ({"limits": {"body_byte": 1}}, "body_byte"),
        ({"limits": {"body_bytes": 0}}, "body_bytes"),
        ({"limits": {"body_bytes": 1.5}}, "body_bytes"),
        ({"limits": {"body_bytes": True}}, "body_bytes"),
        ({"limits": {"rate": float("nan")}}, "rate"),
        ({"limits": []}, "limits"),
        ({"server": {"uds": 3}}, "uds"),
        ({"server": {"hosts": "likewise.local"}}, "hosts"),
        ({"tokens": {"name": "t"}}, "tokens"),
        ({"tokens": [{"name": "t", "hash": HASH}, {"name": "u"}]}, "hash"),
        ({"tokens": [{"name": "t", "hash": "md5:0"}]}, "hash"),
        ({"tokens": [{"name": "t", "hash": HASH, "scopes": ["reed"]}]}, None),
        ({"monitors": {"a": MONITOR, "b": {"ledger": "l", "window": 90}}}, "window"),
        ({"monitors": {"a": MONITOR, "b": MONITOR | {"burst": {"last": 0}}}}, "last"),
        ({"monitors": {"a": MONITOR | {"burst": {"last": 9, "alrm": 1}}}}, "alrm"),
        ({"monitors": {"a": MONITOR | {"source": SOURCE | {"gaps": "skip"}}}}, "gaps"),
        ({"monitors": {"a": MONITOR | {"source": {}}}}, "from"),
        ({"monitors": {"a": MONITOR | {"durability": "most"}}}, "durability"),
        ({"monitors": {"a": {}}}, None),
        ({"monitors": {"A": MONITOR}}, None),
        ({"monitors": {}}, None),
        ({"labels": {"environment": 3}}, "environment"),
        ({"limits": {"rate": float("inf")}}, "rate"),
        ({"limits": {"recent": 1 << 63}}, "recent"),
        ({"limits": {"body_bytes": 10**400}}, "body_bytes"),
        ({"server": {"port": 65_536}}, "port"),
        ({"server": {"port": -1}}, "port"),
        ({"server": {"drain_seconds": float("nan")}}, "drain_seconds"),
        ({"server": {"drain_seconds": -1}}, "drain_seconds"),
        ({"server": {"certificate": "a\0b", "key": "k"}}, "certificate"),
        ({"alerts": {"every_seconds": float("inf")}}, "every_seconds"),
        ({"tokens": [{"name": "t", "hash": HASH, "monitors": ["none"]}]}, "monitors"),
        ({"monitors": {"a": MONITOR | {"source": {"from": "http://x"}}}}, "from"),
        ({"monitors": {"a": MONITOR | {"source": SOURCE | {"to": "x"}}}}, "to"),
    ],
)
def test_what_is_refused_is_named_by_its_key(tmp_path, tables, setting):
    with raises(BadRule, setting=setting):
        of(tmp_path, **tables)


def test_a_long_value_that_is_refused_is_told_in_a_few_words(tmp_path):
    with raises(BadRule, setting="port") as refused:
        of(tmp_path, server={"port": "x" * 100_000})
    assert len(str(refused.value)) < 300
