"""What a server answers with is not the same as no answer: what waiting does not mend ends it."""

from contextlib import closing

import pytest

import likewise as lw
from likewise.errors import BadRule, Unreachable
from likewise.sources import follower as module
from likewise.sources.file_source import make_source, make_target
from likewise.sources.follower import Follower
from likewise.sources.judge_messages import StreamJudge, make_binder
from likewise.sources.sinks import StreamSink
from tests.sources.streaming import follow_until, rule
from tests.support.brokers import broker, to_address
from tests.support.looping import each
from tests.support.refusals import raises


@pytest.fixture
def redis(tmp_path):
    with broker("redis", tmp_path) as running:
        yield running


@pytest.mark.parametrize("start", ["first", "new"])
def test_a_key_that_is_no_stream_ends_it(redis, start):
    with redis.client() as client:
        client.set("plain", "text")
    told = []
    with lw.Monitor(rule()) as monitor, raises(BadRule):
        follow_until(monitor, redis.address("plain", start=start), 1, tell=told.append)
    assert told == []


def test_verdicts_for_a_key_that_is_no_stream_end_it(redis):
    with redis.client() as client:
        client.set("plain", "text")
    with closing(make_target(redis.address("plain"), "verdict")) as target:
        with raises(BadRule):
            target.read_last_line()
        with raises(BadRule):
            target.send([b"{}"])


def test_a_server_without_room_is_waited_for(redis):
    with closing(make_target(redis.address("verdicts"), "verdict")) as target:
        target.send([b"{}"])
        with redis.client() as client:
            client.config_set("maxmemory", 1)
            with raises(Unreachable):
                target.send([b"{}"])
            client.config_set("maxmemory", 0)
        target.send([b"{}"])


def test_a_command_that_the_server_does_not_have_ends_it(tmp_path):
    with broker("redis", tmp_path, "--rename-command", "XRANGE", "") as running:
        source, _ = make_source(running.address())
        with closing(source):
            source.seek({})
            with raises(BadRule):
                source.poll(10, 0.0)


def test_a_nats_stream_whose_messages_go_once_they_are_read_ends_it(tmp_path):
    async def make(jetstream):
        await jetstream.add_stream(name="work", subjects=["work"], retention="workqueue")

    with broker("nats", tmp_path) as running:
        running.ask(make)
        source, _ = make_source(running.address("work"))
        with closing(source), raises(BadRule):
            source.seek({})
        source, _ = make_source(running.address("nowhere"))
        with closing(source), raises(BadRule):
            source.seek({})


def test_a_nats_stream_without_the_subject_ends_it(tmp_path):
    with broker("nats", tmp_path) as running:
        wrong = to_address(running, "verdicts").replace("subject=verdicts", "subject=other.one")
        with closing(make_target(wrong, "verdict")) as target:
            assert target.read_last_line() is None
            with raises(BadRule):
                target.send([b"{}"])


@each(
    ("pattern", "subject", "expected"),
    [
        ("a", "a", True),
        ("a", "b", False),
        ("a.*", "a.b", True),
        ("a.*", "a", False),
        ("a.*", "a.b.c", False),
        ("a.>", "a.b.c", True),
        ("a.>", "a", False),
        (">", "a", True),
    ],
)
def test_subjects_match_as_nats_says(pattern, subject, expected):
    from likewise.sources.nats import _is_match

    assert _is_match(pattern, subject) is expected


def test_kafka_errors_that_stay_end_it():
    kafka = pytest.importorskip("confluent_kafka")
    from likewise.sources.address import parse_address
    from likewise.sources.kafka import _translate_errors

    address = parse_address("kafka://localhost:9092?topic=decisions")
    for code, expected in (
        (kafka.KafkaError.TOPIC_AUTHORIZATION_FAILED, BadRule),
        (kafka.KafkaError.TOPIC_EXCEPTION, BadRule),
        (kafka.KafkaError._TRANSPORT, Unreachable),
    ):
        with pytest.raises(expected), _translate_errors(address, kafka):
            raise kafka.KafkaException(kafka.KafkaError(code))


class Failing:
    """A source that can be sought, and gives nothing."""

    name = "failing"

    def owns(self, source):
        return False

    def seek(self, positions):
        """Works."""

    def poll(self, most, seconds):
        raise Unreachable("it does not answer.")

    def close(self):
        """Nothing to let go of."""


def test_pauses_grow_while_a_source_fails_as_soon_as_it_is_back(monkeypatch):
    pauses, told = [], []
    with lw.Monitor(rule()) as monitor:
        follower = Follower(
            Failing(),
            StreamJudge(monitor, make_binder(monitor.rule)),
            StreamSink(None, None),
            tell=told.append,
        )

        def sleep(seconds):
            pauses.append(seconds)
            if len(pauses) == 12:
                follower.stop()

        monkeypatch.setattr(module.clock, "sleep", sleep)
        follower.run()
    assert pauses == sorted(pauses)
    assert pauses[0] < 0.1
    assert pauses[-1] >= 5.0
    assert len(told) <= 2 * len(pauses)
