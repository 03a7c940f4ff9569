"""Requests are done once, whatever is cut between a client and a service."""

import contextlib
import random
import threading
import time

import numpy as np
import pytest

import likewise as lw
from likewise.service.settings import Limits
from tests.support.cutting import Cut, Proxy
from tests.support.refusals import raises
from tests.support.served_monitors import Serving

RULE = lw.Rule("linf", 0.15)

pytestmark = pytest.mark.usefixtures("no_pauses")


def cuts(seed: int):
    """Most connections end somewhere: in the request, before the answer, or within it."""
    rng = random.Random(seed)
    while True:
        yield rng.choice(
            [
                Cut(request=rng.randint(0, 900)),
                Cut(answer=rng.randint(0, 1200)),
                Cut(answer=0),
                Cut(request=rng.randint(900, 4000), answer=rng.randint(1, 4000)),
                Cut(),
            ]
        )


def decisions(count: int, seed: int = 3):
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 2, (count, 3)) + rng.normal(0, 0.06, (count, 3))
    return x, [str(z) for z in rng.integers(0, 3, count)]


@pytest.mark.parametrize("kept", ["memory", "ledger"])
def test_each_decision_is_taken_once_and_answered_however_connections_are_cut(
    serving, tmp_path, kept
):
    monitor = lw.Monitor(RULE) if kept == "memory" else lw.open(tmp_path / "ledger", RULE)
    proxy = Proxy(serving.port, cuts(1))
    x, z = decisions(160)
    answers = {}

    def tell(places):
        for i in places:
            answers[i] = client.observe(x[i], z[i])

    with lw.connect(proxy.url, serving.host(monitor), retries=200, timeout=20) as client:
        tell(range(40))
        threads = [threading.Thread(target=tell, args=(range(i, 120, 2),)) for i in (40, 41)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        verdicts = client.observe_many(x[120:], z[120:])
        client.record_loss(3, "full")
        assert client.missing_decisions == 3
    assert proxy.cut > 20, "a test on nothing"
    assert sorted(verdict.row for verdict in answers.values()) == list(range(120))
    assert monitor.rows == 160 and verdicts.first_row == 120
    order = sorted(answers, key=lambda i: answers[i].row)
    order += range(120, 160)
    alone = lw.Monitor(RULE)
    for row, i in enumerate(order):
        expected = alone.observe(x[i], z[i])
        given = answers[i] if i < 120 else verdicts[i - 120]
        assert given == expected and given.row == row
        assert monitor.past.outputs([row]) == [z[i]]
    proxy.close()


def test_without_retries_it_says_whether_anything_may_be_stored(serving):
    name = serving.host(lw.Monitor(RULE))
    with lw.connect("http://127.0.0.1:9", name, retries=0) as nobody:
        with pytest.raises(lw.errors.Unreachable) as refused:
            nobody.observe([0.5], "a")
        assert not refused.value.in_doubt and isinstance(refused.value, ConnectionError)
    proxy = Proxy(serving.port, iter([Cut(), Cut(answer=300)]))
    with lw.connect(proxy.url, name, retries=0) as client:
        assert client.rows == 0  # over a connection that ends with it
        proxy.close()
    proxy = Proxy(serving.port, iter([Cut(answer=10_000)]))
    with lw.connect(proxy.url, name, retries=0) as client:
        with contextlib.suppress(lw.errors.Unreachable):
            for i in range(500):
                client.observe([float(i)], "a")
        assert 0 < client.rows - i <= 1
    proxy.close()


def test_a_request_with_an_id_of_ones_own_is_the_same_one_later(serving):
    name = serving.host(lw.Monitor(RULE))
    with lw.connect(serving.url, name) as client:
        first = client.observe([0.5], "a", request="my-request")
        assert client.observe([0.5], "a", request="my-request") == first
        assert client.observe([0.5], "b", request="my-other") == lw.Verdict(
            1, lw.Witnesses(np.array([0]), np.zeros(1), np.ones(1))
        )
        assert client.rows == 2
        client.record_loss(2, "full", request="a-loss-of-2")
        client.record_loss(2, "full", request="a-loss-of-2")
        assert client.missing_decisions == 2
        with raises(lw.errors.UnexpectedValue):
            client.observe([0.5], "a", request="two words")


class Restarted:
    """A service that is killed and started again, with its ledger, behind one address."""

    def __init__(self, folder):
        self.folder = folder
        self.proxy = None
        self.start()

    def start(self):
        self.serving = Serving()
        self.monitor = lw.open(self.folder, RULE)
        self.serving.service.monitors = {}
        name = self.serving.host(self.monitor)
        served = self.serving.service.monitors.pop(name)
        served.name = "default"
        self.serving.service.monitors = {"default": served}
        if self.proxy is not None:
            self.proxy.target = self.serving.port

    def restart(self):
        self.serving.close()
        self.start()


@pytest.fixture
def restarted(tmp_path):
    service = Restarted(tmp_path / "ledger")
    yield service
    service.serving.close()


def cut_and_restarted(service, client, call):
    """Make a call whose answer is cut; restart the service; make it again."""
    client.rows  # noqa: B018 - so that it knows the process
    service.proxy = Proxy(service.serving.port, iter([Cut(answer=1)]), hold=True)
    with lw.connect(service.proxy.url, retries=20, make_keys=client.place.make_keys) as another:
        another._state = client._state
        another._request_log.instance = client._request_log.instance
        begun = service.serving

        def restart():
            while service.proxy.gate.is_set():
                time.sleep(0.001)
            service.restart()
            service.proxy.gate.set()

        thread = threading.Thread(target=restart)
        thread.start()
        try:
            return call(another)
        finally:
            thread.join()
            assert service.serving is not begun
            service.proxy.close()


@pytest.mark.slow
def test_after_a_restart_keys_tell_and_without_keys_it_is_in_doubt(restarted):
    x, z = decisions(12)
    with lw.connect(restarted.serving.url) as client:
        client.load(x[:6], z[:6])
        verdict = cut_and_restarted(restarted, client, lambda c: c.observe(x[6], z[6], key="six"))
    assert verdict.repeated and verdict.row == 6 and restarted.monitor.rows == 7
    with lw.connect(restarted.serving.url, make_keys=True) as client:
        several = cut_and_restarted(restarted, client, lambda c: c.observe_many(x[7:10], z[7:10]))
    assert several.repeated.all() and several.rows.tolist() == [7, 8, 9]
    assert restarted.monitor.rows == 10
    assert all(str(key).startswith("lw-") for key in several.keys)
    alone = lw.Monitor(RULE)
    alone.load(x[:7], z[:7])
    assert several.counts.tolist() == alone.observe_many(x[7:10], z[7:10]).counts.tolist()
    with lw.connect(restarted.serving.url) as client, pytest.raises(lw.errors.Unreachable) as doubt:
        cut_and_restarted(restarted, client, lambda c: c.observe(x[10], z[10]))
    assert doubt.value.in_doubt and doubt.value.lasting
    assert restarted.monitor.rows == 11


def test_a_full_service_is_asked_again_and_a_wrong_token_is_not(serving):
    limits = Limits(skew_seconds=1e10, waiting_rows=1)
    name = serving.host(lw.Monitor(RULE), limits)
    x, z = decisions(40)
    with lw.connect(serving.url, name, retries=200) as client:
        threads = [
            threading.Thread(target=client.observe_many, args=(x[i : i + 4], z[i : i + 4]))
            for i in range(0, 40, 4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert client.rows == 40
    nobody = lw.connect(serving.url, "nobody", retries=200)
    with nobody, raises(lw.errors.Unreachable):
        nobody.rows  # noqa: B018
