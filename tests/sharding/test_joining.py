"""Ray that is not there is told at once, and no ledger is left behind."""

import socket
import sys

import pytest

import likewise as lw
from likewise.auditing.job import RayRunner
from likewise.errors import BadRule
from likewise.runtime.machine import explain_unreachable
from tests.support.brokers import free_port
from tests.support.ray_cluster import cluster_address
from tests.support.refusals import raises

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("ray")]

RULE = lw.Rule("linf", 0.1)


@pytest.mark.parametrize("scheme", ["", "ray://"])
def test_an_address_where_nobody_listens_is_told_at_once(scheme, tmp_path, monkeypatch):
    cluster_address()  # Ray reads its settings when it is loaded, and later tests join that one
    ray = pytest.importorskip("ray")
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "init", lambda **_: pytest.fail("Ray would try for minutes"))
    address = f"{scheme}127.0.0.1:{free_port()}"
    with raises(lw.errors.Unreachable):
        lw.cluster(tmp_path / "ledger", RULE, address=address)
    assert not (tmp_path / "ledger").exists()
    with raises(BadRule):
        list(RayRunner(address).run(print, [()]))
    monkeypatch.setenv("RAY_ADDRESS", address)
    with raises(lw.errors.Unreachable):
        lw.cluster(tmp_path / "ledger", RULE, address="auto")


def test_without_ray_no_ledger_is_left_behind(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with raises(BadRule):
        lw.cluster(tmp_path / "ledger", RULE)
    assert not (tmp_path / "ledger").exists()
    lw.open(tmp_path / "ledger", lw.Rule("l2", 0.2)).close()  # under any rule


def test_somebody_who_listens_is_found():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        for address in (f"127.0.0.1:{port}", f"ray://127.0.0.1:{port}", "auto", "local"):
            assert explain_unreachable(address) is None
    assert explain_unreachable(f"127.0.0.1:{port}") is not None
