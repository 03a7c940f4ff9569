"""Streams through a monitor: each message judged once, a dead letter, or told as lost."""

import base64
import json
from contextlib import closing

import pytest

import likewise as lw
from likewise.errors import BadFile
from likewise.ledger.loss_events import is_at_least
from likewise.sources.follower import GapFound
from tests.sources.streaming import (
    bodies,
    check_ledger,
    check_lines,
    decisions,
    follow_until,
    following,
    opened,
    rule,
)
from tests.support.brokers import KINDS, broker, to_address, wait_for
from tests.support.lazily import polars as pl
from tests.support.refusals import raises

pytestmark = pytest.mark.early


@pytest.fixture(params=KINDS)
def running(request, tmp_path):
    with broker(request.param, tmp_path) as one:
        yield one


def test_restart_goes_on_where_the_ledger_ends(running, tmp_path):
    published = decisions(300)
    running.publish(bodies(published[:200]))
    for rows in (150, 200, 300):  # the first run is stopped on the way
        if rows == 300:
            running.publish(bodies(published[200:]))
        with opened(tmp_path / "ledger") as monitor:
            follow_until(monitor, running.address(), rows, to=to_address(running, "verdicts"))
    entries = check_ledger(tmp_path / "ledger", published)
    lines = [json.loads(one) for one in running.read("verdicts", "verdict")]
    check_lines(lines, entries)
    if running.kind != "kafka":  # which has several partitions
        assert [entry.key for entry in entries] == [one["id"] for one in published]


def test_lines_that_a_crash_kept_back_are_sent_by_the_next_run(running, tmp_path):
    published = decisions(60)
    running.publish(bodies(published))
    with opened(tmp_path / "ledger") as monitor:  # as if killed before a line was sent
        follow_until(monitor, running.address(), 60)
    assert running.read("verdicts", "verdict") == []
    with (
        opened(tmp_path / "ledger") as monitor,
        following(monitor, running.address(), to=to_address(running, "verdicts")),
    ):
        wait_for(lambda: len(running.read("verdicts", "verdict")) >= 60, "all lines")
    lines = [json.loads(one) for one in running.read("verdicts", "verdict")]
    check_lines(lines, check_ledger(tmp_path / "ledger", published))
    assert [line["row"] for line in lines] == list(range(60))


def test_bad_message_is_a_dead_letter_and_nothing_stops(running, tmp_path):
    published = decisions(40)
    good = bodies(published)
    bad = {
        b"no json": "not JSON",
        b"[1, 2]": "no object",
        b"\xff\xfe": "not UTF-8",
        b'{"id": "x", "a": true, "b": 1, "z": "yes"}': "expected a number",
        b'{"id": "y", "a": 1, "z": "yes"}': "'b'",
        b'{"id": "z", "a": 1, "b": {}, "z": "yes"}': "plain value",
        good[3].replace(b'"yes"', b'"no"') if b'"yes"' in good[3] else good[3].replace(
            b'"no"', b'"yes"'
        ): "given to row",
        b"": "not JSON",
    }  # fmt: skip
    # One partition: the repeated key is to come behind its first time.
    where = {"partition": 2} if running.kind == "kafka" else {}
    running.publish(good[:20] + list(bad) + good[20:], **where)
    with opened(tmp_path / "ledger") as monitor:
        follower = follow_until(monitor, running.address(), 40)
        wait_for(lambda: follower.counts.bad == len(bad), "all dead letters", 1)
    letters = {}
    for one in follower.dead:
        body = base64.b64decode(one["body_base64"]) if "body_base64" in one else one["body"]
        letters[body if isinstance(body, bytes) else body.encode()] = one
    assert letters.keys() == bad.keys()
    for body, word in bad.items():
        assert word in letters[body]["error"], letters[body]
        assert letters[body]["source"].startswith("decisions")
    check_ledger(tmp_path / "ledger", published)


def test_dead_letters_go_to_their_own_stream(running, tmp_path):
    from likewise.sources.file_source import make_target

    running.publish([b"no json", *bodies(decisions(5))])
    dead = make_target(to_address(running, "dead"), "dead_letter")
    with closing(dead), opened(tmp_path / "ledger") as monitor:
        follow_until(monitor, running.address(), 5, dead=dead)
    (letter,) = map(json.loads, running.read("dead", "dead_letter"))
    assert letter["body"] == "no json"
    assert "not JSON" in letter["error"]


def test_bad_messages_are_not_read_again_after_an_orderly_end(running, tmp_path):
    running.publish([*bodies(decisions(3)), b"bad", b"worse"])
    with opened(tmp_path / "ledger") as monitor:
        with following(monitor, running.address()) as follower:
            wait_for(lambda: follower.counts.bad == 2 and monitor.rows == 3, "all of them")
        at = dict(monitor.ledger.positions)
    with opened(tmp_path / "ledger") as monitor:
        assert monitor.ledger.positions == at
        with following(monitor, running.address()) as follower:
            running.publish(bodies(decisions(1, first=3)))
            wait_for(lambda: monitor.rows == 4, "the next one")
        assert follower.counts.bad == 0


def test_decision_of_a_second_producer_is_stored_once(running, tmp_path):
    published = decisions(100)
    where = {"partition": 0} if running.kind == "kafka" else {}
    running.publish(bodies(published[:60]), **where)
    running.publish(bodies(published[30:]), **where)  # as a producer does that was not answered
    with opened(tmp_path / "ledger") as monitor:
        follower = follow_until(monitor, running.address(), 100)
        assert follower.counts.repeated == 30
    check_ledger(tmp_path / "ledger", published)


def test_formats_are_told_apart_by_their_bytes(running, tmp_path):
    published = decisions(12)
    import io

    buffer = io.BytesIO()
    pl.DataFrame(published[4:8]).write_ipc_stream(buffer)
    event = {"specversion": "1.0", "id": "1", "source": "/loans", "type": "decided"}
    inside = {**event, "data_base64": base64.b64encode(bodies(published)[8]).decode()}
    where = {"partition": 1} if running.kind == "kafka" else {}
    running.publish(
        [
            *bodies(published[:4]),
            buffer.getvalue(),
            json.dumps(inside).encode(),
            *(json.dumps({**event, "data": one}).encode() for one in published[9:11]),
        ],
        **where,
    )
    if running.kind == "redis":  # which has no headers
        running.publish(bodies(published[11:]))
    else:
        separator = "_" if running.kind == "kafka" else "-"
        headers = {f"ce{separator}{name}": value for name, value in event.items()}
        running.publish(bodies(published[11:]), headers=headers, **where)
    with opened(tmp_path / "ledger") as monitor:
        follow_until(monitor, running.address(), 12)
    with closing(lw.Ledger(tmp_path / "ledger")) as ledger:
        entries = list(ledger.entries())
        assert [entry.key for entry in entries] == [one["id"] for one in published]
        # The rows of one message have one position, which the last of them carries.
        assert [entry.source is None for entry in entries] == [4 <= i < 7 for i in range(12)]


def trim(running, keep):
    """Have the server forget all but the last messages; how many are gone, if that is known."""
    if running.kind == "redis":
        with running.client() as client:
            client.xtrim("decisions", maxlen=keep, approximate=False)
        return None

    async def purge(jetstream):
        await jetstream.purge_stream("decisions", keep=keep)

    running.ask(purge)
    return True


@pytest.mark.parametrize("kind", ["redis", "nats"])
def test_trimmed_messages_are_lost_once_and_every_later_verdict_says_so(kind, tmp_path):
    published = decisions(100)
    with broker(kind, tmp_path) as running:
        running.publish(bodies(published[:20]))
        with opened(tmp_path / "ledger") as monitor:
            follow_until(monitor, running.address(), 20)
        running.publish(bodies(published[20:]))
        counted = trim(running, 30)  # 50 are gone
        missing = 50 if counted else 1
        told = []
        with opened(tmp_path / "ledger") as monitor:
            follow_until(monitor, running.address(), 50, tell=told.append)
            assert monitor.missing_decisions == missing
        (line,) = [line for line in told if "decisions" in line and "lost" in line]
        if kind == "redis":
            with running.client() as client:
                counts = "entries-added" in client.xinfo_stream("decisions")  # since Redis 7
            assert ("has removed 70 entries, read or not" in line) == counts
        with opened(tmp_path / "ledger") as monitor:  # not told a second time
            running.publish(bodies(decisions(1, first=100)))
            follow_until(monitor, running.address(), 51)
            assert monitor.missing_decisions == missing
    with closing(lw.Ledger(tmp_path / "ledger")) as ledger:
        entries = list(ledger.entries())
        assert [entry.missing_decisions for entry in entries] == [0] * 20 + [missing] * 31
        assert ledger.verify().ok
        assert is_at_least(ledger.events()) is (not counted)
        assert [entry.key for entry in entries[20:22]] == ["d70", "d71"]


@pytest.mark.parametrize("kind", ["redis", "nats"])
def test_gap_stops_where_the_policy_says_so(kind, tmp_path):
    published = decisions(60)
    with broker(kind, tmp_path) as running:
        running.publish(bodies(published[:20]))
        with opened(tmp_path / "ledger") as monitor:
            follow_until(monitor, running.address(), 20)
            running.publish(bodies(published[20:]))
            trim(running, 10)
            with raises(GapFound, text=False):
                follow_until(monitor, running.address(), 30, gaps="stop")
            assert (monitor.rows, monitor.missing_decisions) == (20, 0)


@pytest.mark.parametrize("kind", ["redis", "nats"])
def test_trimming_behind_the_reader_is_no_gap(kind, tmp_path):
    published = decisions(60)
    with broker(kind, tmp_path) as running:
        running.publish(bodies(published[:30]))
        with opened(tmp_path / "ledger") as monitor:
            follow_until(monitor, running.address(), 30)
        trim(running, 1)
        running.publish(bodies(published[30:]))
        with opened(tmp_path / "ledger") as monitor:
            follow_until(monitor, running.address(), 60, gaps="stop")
            assert monitor.missing_decisions == 0
    check_ledger(tmp_path / "ledger", published)


def test_expired_offsets_are_lost_and_counted(tmp_path):
    """The mock cluster keeps some 5 MB of a partition."""
    from confluent_kafka import Consumer, TopicPartition

    first, later = decisions(10), decisions(400, first=10)
    with broker("kafka", tmp_path) as running:
        running.publish(bodies(first), partition=3)
        with opened(tmp_path / "ledger") as monitor:
            follow_until(monitor, running.address(), 10)
        padded = [one + b" " * 20_000 for one in bodies(later)]
        running.publish(padded, partition=3)
        consumer = Consumer({"bootstrap.servers": running.brokers, "group.id": "tests"})
        low, high = consumer.get_watermark_offsets(TopicPartition("decisions", 3), timeout=30)
        consumer.close()
        assert (low > 10, high) == (True, 410)
        with lw.open(tmp_path / "ledger", rule()) as monitor:
            with raises(GapFound, text=False):
                follow_until(monitor, running.address(), high - low + 10, gaps="stop")
            follow_until(monitor, running.address(), high - low + 10)
            assert monitor.missing_decisions == low - 10
    with closing(lw.Ledger(tmp_path / "ledger")) as ledger:
        assert [entry.position for entry in ledger.entries()][:12] == [*range(10), low, low + 1]


def test_order_of_partitions_is_frozen_by_the_ledger(tmp_path):
    published = decisions(200)
    with broker("kafka", tmp_path) as running:
        for i in range(4):
            running.publish(bodies(published[i::4]), partition=i)
        for rows in (60, 130, 200):
            with opened(tmp_path / "ledger") as monitor:
                follow_until(monitor, running.address(), rows)
    entries = check_ledger(tmp_path / "ledger", published)
    for i in range(4):
        mine = [entry for entry in entries if entry.source == f"decisions/{i}"]
        assert [entry.position for entry in mine] == list(range(50))
        assert [entry.key for entry in mine] == [one["id"] for one in published[i::4]]


def test_streams_of_one_server_are_read_together(tmp_path):
    published = decisions(100)
    with broker("redis", tmp_path) as running:
        for one, body in zip(range(100), bodies(published), strict=True):
            running.publish([body], stream="ab"[one % 2])
        address = running.address("a") + "&stream=b"
        for rows in (40, 100):
            with opened(tmp_path / "ledger") as monitor:
                follow_until(monitor, address, rows)
    entries = check_ledger(tmp_path / "ledger", published)
    assert {entry.source for entry in entries} == {"a", "b"}


@pytest.mark.parametrize("kind", ["redis", "nats"])
def test_stream_that_begins_anew_does_not_go_unnoticed(kind, tmp_path):
    with broker(kind, tmp_path) as running:
        running.publish(bodies(decisions(20)))
        with opened(tmp_path / "ledger") as monitor:
            follow_until(monitor, running.address(), 20)
        if kind == "redis":
            with running.client() as client:
                client.delete("decisions")
            running.publish(bodies(decisions(5, first=20)))
            with opened(tmp_path / "ledger") as monitor:
                follow_until(monitor, running.address(), 25)
                assert monitor.missing_decisions == 1
            return

        async def again(jetstream):
            await jetstream.delete_stream("decisions")
            await jetstream.add_stream(name="decisions", subjects=["decisions"])

        running.ask(again)
        refused = raises(BadFile)
        with opened(tmp_path / "ledger") as monitor, refused:
            follow_until(monitor, running.address(), 25)


def test_new_messages_only_where_the_address_says_so(running, tmp_path):
    running.publish(bodies(decisions(10)))
    with opened(tmp_path / "ledger") as monitor:
        with following(monitor, running.address(start="new")) as follower:
            wait_for(
                lambda: follower.failed or monitor.ledger.positions, "it knows where it begins"
            )
            running.publish(bodies(decisions(5, first=10)))
            wait_for(lambda: monitor.rows >= 5, "the new ones")
        assert sorted(monitor.past.keys(range(5))) == [f"d{i}" for i in range(10, 15)]


def test_target_of_another_ledger_is_refused(running, tmp_path):
    running.publish(bodies(decisions(10)))
    to = to_address(running, "verdicts")
    with opened(tmp_path / "ledger") as monitor:
        follow_until(monitor, running.address(), 10, to=to)
        wait_for(lambda: len(running.read("verdicts", "verdict")) == 10, "all lines")
    with opened(tmp_path / "other") as monitor, raises(BadFile):
        follow_until(monitor, running.address(), 10, to=to)


def test_memory_alone_can_follow(running, tmp_path):
    running.publish(bodies(decisions(10)))
    with lw.Monitor(rule()) as monitor:
        follow_until(monitor, running.address(), 10)


def test_server_that_is_away_is_waited_for(running, tmp_path):
    """A minute in the slow tests (test_crashes.py)."""
    published = decisions(40)
    running.publish(bodies(published[:20]))
    told = []
    follower = following(
        monitor := lw.open(tmp_path / "ledger", rule(), witnesses=3),
        running.address(),
        tell=told.append,
    )
    with monitor, follower:
        wait_for(lambda: monitor.rows == 20, "the first half")
        running.go_away()
        wait_for(lambda: told or running.kind == "kafka", "it says so")
        running.come_back()
        running.publish(bodies(published[20:]))
        wait_for(lambda: monitor.rows == 40, "the second half")
    check_ledger(tmp_path / "ledger", published)
