"""`likewise serve` with shards: a table of its settings."""

import os
from pathlib import Path

import numpy as np
import pytest

import likewise as lw
from likewise.service.service import monitor_of
from likewise.service.settings import Limits, ServiceSettings
from likewise.sharding.settings import ClusterSettings
from tests.ray_cluster import cluster_address, joined

RULE = lw.Rule("linf", 0.1)


def told(cluster: dict, **more) -> dict:
    table = {"rule": "rule.toml", "ledger": "a.ledger", "cluster": cluster, **more}
    return {"monitors": {"loans": table}}


def test_settings_of_a_cluster_are_read():
    settings = ServiceSettings.of(told({"shards": 8, "address": "auto"}), Path("folder"))
    assert settings.monitors["loans"].cluster == ClusterSettings(address="auto", shards=8)


@pytest.mark.parametrize(
    ("cluster", "text"),
    [
        ({"shard": 8}, "monitor 'loans', cluster: 'shard' is no setting"),
        ({"shards": "8"}, "monitor 'loans', cluster: shards is '8', which is no whole number"),
        ({"when_down": "hope"}, "when_down is 'hope'"),
    ],
)
def test_settings_that_make_no_sense_are_refused(cluster, text):
    with pytest.raises(lw.BadRule, match=text):
        ServiceSettings.of(told(cluster), Path("folder"))


def test_a_cluster_without_a_ledger_is_refused():
    table = {"rule": "rule.toml", "cluster": {"shards": 2}}
    with pytest.raises(lw.BadRule, match="a cluster needs a ledger"):
        ServiceSettings.of({"monitors": {"loans": table}}, Path("folder"))


def test_a_served_monitor_is_searched_by_shards(tmp_path):
    joined()
    (tmp_path / "rule.toml").write_text(RULE.to_toml())
    cluster = {
        "shards": 2,
        "segment_rows": 16,
        "address": cluster_address(),
        "name": f"served-{os.getpid()}",
    }
    settings = ServiceSettings.of(told(cluster, comparable=False), tmp_path)
    rng = np.random.default_rng(1)
    X, Z = rng.integers(0, 5, (100, 3)) * 0.1, rng.integers(0, 3, 100)
    with monitor_of("loans", settings.monitors["loans"], Limits())[0] as monitor:
        assert isinstance(monitor, lw.ClusterMonitor)
        mine, theirs = monitor.observe_many(X, Z), lw.Monitor(RULE).observe_many(X, Z)
        assert mine.witnesses == theirs.witnesses and theirs.pairs > 100
        assert "2 shards on Ray" in monitor.explain().form
