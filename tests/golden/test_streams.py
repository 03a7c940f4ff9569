"""Golden files of what is written to streams: verdict lines, dead letters, and their envelopes.

Decisions are read from a stream of each kind and their verdicts written to others, as `likewise
watch --from --to --dead-letters` does; the brokers are those of tests/support/brokers.py.
"""

import json
from contextlib import chdir, closing

import pytest

from likewise.sources.file_source import make_target
from tests.golden.loan_files import DECISIONS, as_lines, write_files
from tests.sources.streaming import following, opened
from tests.support import golden_files as golden
from tests.support.brokers import KINDS, SECONDS, broker, to_address, wait_for
from tests.support.commands import likewise
from tests.support.placeholders import Placeholders

BAD = [b"no JSON", b"\xff\xfe", b'{"id": "x"}', b'{"id": "d0", "a": 9, "b": 9, "z": "no"}']
GOOD = [
    {"id": "d0", "a": 1.0, "b": 1.0, "z": "yes"},
    {"id": "d1", "a": 1.5, "b": 1.0, "z": "no"},
    {"id": "d2", "a": 9.0, "b": 1.0, "z": "no"},
    {"id": "d3", "a": 1.5, "b": 1.5, "z": "yes"},
]


def publish(running, bodies):
    """Publish messages at positions that are always the same."""
    if running.kind == "redis":
        with running.client() as client:
            for number, body in enumerate(bodies, 1):
                client.xadd("decisions", {"decision": body}, id=f"{number}-0")
    elif running.kind == "kafka":
        running.publish(bodies, partition=0)
    else:
        running.publish(bodies)


def read(running, stream):
    """Every message of a stream with its envelope."""
    if running.kind == "redis":
        with running.client() as client:
            entries = [fields for _, fields in client.xrange(stream)]
        return [
            {"fields": {name.decode(): json.loads(value) for name, value in fields.items()}}
            for fields in entries
        ]
    if running.kind == "nats":
        return read_nats(running, stream)
    return read_kafka(running, stream)


def read_nats(running, stream):
    async def look(jetstream):
        state = (await jetstream.stream_info(stream)).state
        numbers = range(max(1, state.first_seq), state.last_seq + 1)
        messages = [await jetstream.get_msg(stream, number) for number in numbers]
        return [
            {"subject": one.subject, "headers": one.headers, "data": json.loads(one.data)}
            for one in messages
        ]

    return running.ask(look)


def read_kafka(running, stream):
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": running.brokers, "group.id": "golden"})
    try:
        low, high = consumer.get_watermark_offsets(TopicPartition(stream, 0), timeout=SECONDS)
        consumer.assign([TopicPartition(stream, 0, low)])
        found = []
        while len(found) < high - low:
            message = consumer.poll(SECONDS)
            assert message is not None and message.error() is None
            key = message.key()
            found.append(
                {
                    "partition": message.partition(),
                    "key": None if key is None else key.decode(),
                    "headers": message.headers(),
                    "value": json.loads(message.value()),
                }
            )
        return found
    finally:
        consumer.close()


def written(running, stream):
    return [golden.sorted_by_name(one) for one in read(running, stream)]


@pytest.mark.parametrize("kind", KINDS)
def test_messages_in_streams_are_those_of_the_golden_file(kind, tmp_path):
    bodies = [json.dumps(one).encode() for one in GOOD]
    with broker(kind, tmp_path) as running:
        publish(running, [*bodies[:3], *BAD, bodies[0], bodies[3]])
        told = to_address(running, "verdicts")
        with (
            closing(make_target(to_address(running, "dead"), "dead_letter")) as dead,
            opened(tmp_path / "ledger") as monitor,
            following(monitor, running.address(), to=told, dead=dead) as follower,
        ):
            wait_for(lambda: follower.failed or monitor.rows == 4, "all decisions")
            wait_for(lambda: follower.failed or follower.counts.repeated == 1, "the one sent again")
        found = {"in": [*GOOD[:3], *(one.decode("latin-1") for one in BAD), GOOD[0], GOOD[3]]}
        found["verdicts"] = written(running, "verdicts")
        found["dead_letters"] = written(running, "dead")
        golden.check(f"streams/{kind}.json", found)


def test_messages_of_the_command_are_those_of_the_golden_files(tmp_path):
    """A file is the source; targets are standard output, and streams of Redis.

    A second run finds its target empty, and sends the lines again from the ledger.
    """
    placeholders = Placeholders()
    placeholders.know(str(tmp_path.resolve()), "folder")
    lines = as_lines(DECISIONS[:4]) + "no JSON\n" + as_lines(DECISIONS[4:])
    watch = ("watch", "--from", "decisions.jsonl", "--rule", "rule.toml", "--model-column", "model")
    with chdir(tmp_path), broker("redis", tmp_path) as running:
        write_files(tmp_path)
        (tmp_path / "decisions.jsonl").write_text(lines)
        done = likewise(*watch)
        out = [golden.sorted_by_name(json.loads(line)) for line in done.stdout.splitlines()]
        found = {"in": [*DECISIONS[:4], "no JSON", *DECISIONS[4:]], "standard_output": out}
        for name in ("first", "second"):
            dead = ("--dead-letters", running.address(f"{name}-dead"))
            likewise(*watch, "--ledger", "ledger", "--to", running.address(name), *dead)
            found[f"{name}_run"] = written(running, name)
            found[f"{name}_run_dead_letters"] = written(running, f"{name}-dead")
    golden.check("streams/command.json", placeholders.replaced(found))
