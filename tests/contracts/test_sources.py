"""The contract of a source (sources/protocol.py), over everything that keeps it."""

import os
from contextlib import contextmanager

import pytest

from likewise.sources.file_source import make_source
from likewise.sources.json_lines import LineFile, PipeLines
from likewise.sources.protocol import PollResult
from likewise.tables.positions import to_position_numbers
from tests.support.brokers import KINDS, broker, wait_for
from tests.support.refusals import raises

BODIES = [b'{"n": %d}' % n for n in range(120)]


class OfFile:
    """Lines that are added to a file."""

    can_seek = True

    def __init__(self, folder):
        self.path = folder / "decisions.jsonl"
        self.path.touch()

    def publish(self, bodies):
        with self.path.open("ab") as file:
            file.writelines(body + b"\n" for body in bodies)

    def source(self):
        return LineFile(self.path)

    def close(self):
        """Nothing to end."""


class OfPipe:
    """Lines that are written to a pipe."""

    can_seek = False

    def __init__(self, folder):
        self.end, self.begin = os.pipe()

    def publish(self, bodies):
        os.write(self.begin, b"".join(body + b"\n" for body in bodies))

    def source(self):
        return PipeLines(self.end)

    def close(self):
        os.close(self.begin)
        os.close(self.end)


class OfBroker:
    """Messages of a server."""

    can_seek = True

    def __init__(self, running):
        self._running = running

    def publish(self, bodies):
        self._running.publish(bodies)

    def source(self):
        return make_source(self._running.address())[0]


@contextmanager
def made(kind, folder):
    if kind in KINDS:
        with broker(kind, folder) as running:
            yield OfBroker(running)
        return
    one = {"file": OfFile, "pipe": OfPipe}[kind](folder)
    try:
        yield one
    finally:
        one.close()


@pytest.fixture(params=["file", "pipe", *KINDS])
def stream(request, tmp_path):
    with made(request.param, tmp_path) as one:
        yield one


def collected(source, count, most=1000):
    """So many records, in as many polls as it takes."""
    records = []

    def more():
        records.extend(source.poll(most, 0.2).records)
        return len(records) >= count

    wait_for(more, f"{count} records")
    return records


class TestSource:
    def test_every_record_comes_once_with_growing_positions(self, stream):
        stream.publish(BODIES)
        source = stream.source()
        source.seek({})
        records = collected(source, len(BODIES))
        assert sorted(one.body for one in records) == sorted(BODIES)
        last = {}
        for one in records:
            assert source.owns(one.source)
            assert one.source not in last or to_position_numbers(one.position) > last[one.source]
            last[one.source] = to_position_numbers(one.position)
        assert source.poll(10, 0.0).records == []
        source.close()

    def test_records_of_one_sequence_come_in_their_order(self, stream):
        stream.publish(BODIES[:50])
        stream.publish(BODIES[50:])
        source = stream.source()
        source.seek({})
        records = collected(source, len(BODIES))
        for name in {one.source for one in records}:
            mine = [BODIES.index(one.body) for one in records if one.source == name]
            if len({one.source for one in records}) == 1:
                assert mine == sorted(mine)
        source.close()

    def test_poll_gives_no_more_than_asked_and_says_where_it_stands(self, stream):
        stream.publish(BODIES[:20])
        source = stream.source()
        source.seek({})
        given = []

        def polled():
            some = source.poll(3, 0.2)
            assert len(some.records) <= 3
            assert some.positions == {one.source: one.position for one in some.records}
            given.extend(some.records)
            return len(given) == 20

        wait_for(polled, "all of them")
        source.close()

    def test_empty_poll_comes_back_in_time(self, stream):
        stream.publish(BODIES[:1])
        source = stream.source()
        source.seek({})
        collected(source, 1)
        some = source.poll(10, 0.05)
        assert isinstance(some, PollResult)
        assert not some.records and not some.gaps
        source.close()

    def test_record_that_comes_later_is_seen(self, stream):
        stream.publish(BODIES[:2])
        source = stream.source()
        source.seek({})
        collected(source, 2)
        stream.publish(BODIES[2:5])
        assert sorted(one.body for one in collected(source, 3)) == BODIES[2:5]
        source.close()

    def test_seek_goes_on_behind_the_positions(self, stream):
        if not stream.can_seek:
            pytest.skip("a pipe cannot be read again")
        stream.publish(BODIES)
        source = stream.source()
        source.seek({})
        records = collected(source, len(BODIES))
        source.close()
        for cut in (1, 59, 119):
            positions = {one.source: one.position for one in records[:cut]}
            again = stream.source()
            again.seek(positions)
            rest = collected(again, len(BODIES) - cut)
            assert sorted(one.body for one in rest) == sorted(one.body for one in records[cut:])
            again.seek(positions)  # once more, with the same source
            assert len(collected(again, len(rest))) == len(rest)
            again.close()


def test_counting_of_a_pipe_goes_on_from_earlier_lines(tmp_path):
    with made("pipe", tmp_path) as stream:
        stream.publish(BODIES[:2])
        source = stream.source()
        source.seek({source.name: 7})
        assert [one.position for one in collected(source, 2)] == [8, 9]
        source.close()


def test_file_that_was_cut_or_changed_is_refused(tmp_path):
    from likewise.errors import BadFile

    with made("file", tmp_path) as stream:
        stream.publish(BODIES[:3])
        source = stream.source()
        source.seek({})
        at = {one.source: one.position for one in collected(source, 3)}
        stream.path.write_bytes(b"\n".join(BODIES[:2]))
        for content in (BODIES[0] + b"\n", b"x" * 200):
            stream.path.write_bytes(content)
            with raises(BadFile):
                source.seek(at)
        source.close()
