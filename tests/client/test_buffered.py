"""A buffer before a client: the service is away for a while, and nothing is lost silently."""

import random
import threading
import time
from itertools import chain

import numpy as np
import pytest

import likewise as lw
from likewise.service.settings import Token
from likewise.service.tokens import Tokens, new_token
from tests.client.test_retries import RULE, Restarted, decisions
from tests.support.cutting import Cut, Proxy
from tests.support.refusals import raises

pytestmark = pytest.mark.usefixtures("no_pauses")


def test_everything_is_answered_or_lost_and_the_service_knows_while_it_is_away(serving):
    monitor = lw.Monitor(RULE)
    name = serving.host(monitor)
    proxy = Proxy(serving.port, iter(()))
    x, z = decisions(400)
    with lw.connect(proxy.url, name, retries=1) as client:
        with lw.buffered(client, capacity=100, when_full="drop_newest", batch_rows=16) as buffer:
            for i in range(50):
                buffer.submit(x[i], z[i])
            assert buffer.flush(30)
            proxy.gate.clear()  # the service is away: connections are taken, and not answered
            proxy.end_all()
            for i in range(50, 350):
                buffer.submit(x[i], z[i])
            assert buffer.stats.lost["full"] >= 100
            proxy.gate.set()
            for i in range(350, 400):
                buffer.submit(x[i], z[i])
                time.sleep(0.001)
            assert buffer.flush(60)
            stats = buffer.stats
            assert stats.submitted == 400 == stats.answered + stats.total_lost and not stats.refused
            assert monitor.rows == stats.answered and monitor.missing_decisions == stats.total_lost
            receipts = list(buffer.results())
        assert [one.row for one in receipts] == list(range(stats.answered))
        assert receipts[-1].verdict.missing_decisions == stats.total_lost
    alone = lw.Monitor(RULE)
    for one in receipts:
        assert alone.observe(x[one.number], z[one.number]) == one.verdict
    proxy.close()


def test_decisions_wait_while_the_token_is_refused(serving):
    monitor = lw.Monitor(RULE)
    name = serving.host(monitor)
    secret, digest = new_token()
    x, z = decisions(20)
    client = lw.connect(serving.url, name, token=secret)
    with client, lw.buffered(client, batch_rows=4) as buffer:
        serving.service.tokens = Tokens([Token("other", new_token()[1], ("observe",))])
        for i in range(20):
            buffer.submit(x[i], z[i])
        assert not buffer.flush(0.1)
        assert monitor.rows == 0 and "refused the token (401)" in buffer.stats.failing
        serving.service.tokens = Tokens([Token("mine", digest, ("observe",))])
        assert buffer.flush(60)
        assert buffer.stats.answered == 20 == monitor.rows and not buffer.stats.total_lost
    assert monitor.past.outputs(range(20)) == z


def all_cut(seed: int):
    """Every connection ends sometime; some last long enough for the longest answer."""
    rng = random.Random(seed)
    while True:
        yield rng.choice([Cut(request=rng.randint(0, 4000)), Cut(answer=rng.randint(0, 40_000))])


def test_batches_are_told_once_through_connections_that_are_cut(serving):
    """Others observe there too, so the rows of the service say nothing about ours."""
    monitor = lw.Monitor(RULE)
    name = serving.host(monitor)
    proxy = Proxy(serving.port, chain([Cut()], all_cut(5)))
    x, z = decisions(300)
    done = threading.Event()
    others = 0

    def others_observe():
        nonlocal others
        with lw.connect(serving.url, name) as other:
            while not done.is_set():
                other.observe([50.0, 50.0, 50.0], "other")
                others += 1

    thread = threading.Thread(target=others_observe)
    thread.start()
    rng = random.Random(1)
    client = lw.connect(proxy.url, name, retries=0, timeout=20)
    assert client.rule == RULE
    proxy.end_all()
    with client, lw.buffered(client, batch_rows=16, batch_seconds=0.001) as buffer:
        for i in range(300):
            if i % 50 == 7:
                buffer.submit([np.nan, 0, 0], "bad")
            buffer.submit(x[i], z[i])
            if rng.random() < 0.2:
                time.sleep(0.002)
        flushed = buffer.flush(60)
        stats = buffer.stats
    done.set()
    thread.join()
    assert flushed and proxy.cut > 5, "a test on nothing"
    assert (stats.answered, stats.refused, stats.total_lost) == (300, 6, 0)
    assert monitor.rows == 300 + others and monitor.missing_decisions == 0
    ours = [one for one in monitor.past.outputs(range(monitor.rows)) if one != "other"]
    assert ours == z
    proxy.close()


@pytest.mark.slow
def test_what_nobody_can_tell_after_a_restart_counts_as_lost(tmp_path):
    service = Restarted(tmp_path / "ledger")
    x, z = decisions(30)
    service.proxy = Proxy(service.serving.port, iter([Cut(), Cut(answer=1)]), hold=True)
    with lw.connect(service.proxy.url, retries=3) as client:
        assert client.rows == 0
        service.proxy.end_all()
        with lw.buffered(client, batch_rows=10, batch_seconds=0.05) as buffer:
            for i in range(30):
                buffer.submit(x[i], z[i])
            while service.proxy.gate.is_set():
                time.sleep(0.001)
            service.restart()
            service.proxy.gate.set()
            assert buffer.flush(60)
            stats = buffer.stats
    assert stats.submitted == stats.answered + stats.total_lost == 30
    (lost,) = stats.lost.items()
    assert lost[0] == "in doubt" and 1 <= lost[1] <= 10
    assert service.monitor.missing_decisions == lost[1] and service.monitor.rows == 30
    service.proxy.close()
    service.serving.close()


def test_a_buffer_before_a_service_accepts_nothing_before_it_is_judged(serving):
    with (
        lw.connect(serving.url, serving.host(lw.Monitor(RULE))) as client,
        raises(lw.errors.BadRule),
    ):
        lw.buffered(client, when_full="accept")
