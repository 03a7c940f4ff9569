"""A text of JSON has one meaning, whoever reads it, or is refused; at a cost that is linear."""

import itertools
import json
import random
import tracemalloc

import msgspec
import pytest

from likewise.service import body_types
from likewise.service.content_types import decode_json
from likewise.service.http_errors import Refusal
from likewise.tables import strict_json
from likewise.tables.strict_json import BadJson, TooManyParts, decode_strictly

decode = msgspec.json.Decoder().decode
TWICE = [
    '{"a":1,"a":1}',
    '{"a":null,"a":1}',
    '{"a":1,"a":null}',
    '{"a":1,"\\u0061":2}',
    '{"b":{"a":1,"a":2}}',
    '[{"c":[{"a":{},"a":{}}]}]',
    '{"a:":1,"a:":2}',
    '{"x":"\\\\","a":1,"a":2}',
]
ONCE = [
    '{"a":":","b":null}',
    '{"a":{"a":{"a":":\\":"}}}',
    '{"x":"\\\\","a":"\\\\\\""}',
    '[{"a":1},{"a":1}]',
    '"a:b"',
    '{"\\ud83d\\ude00":"\\ud83d\\ude00 \\\\ud800"}',
]
HALVES = ["\\ud800", "\\udc00", "\\ud83d\\ude00\\ude00", "\\ud83d\\ud83d\\ude00", "\\uD83Dx\\uDE00"]


@pytest.mark.parametrize("text", TWICE)
def test_name_that_is_there_twice_is_refused(text):
    with pytest.raises(BadJson):
        decode_strictly(decode, text.encode())


@pytest.mark.parametrize("text", ONCE)
def test_text_with_one_meaning_is_read_as_python_reads_it(text):
    assert decode_strictly(decode, text.encode()) == json.loads(text)


@pytest.mark.parametrize("half", HALVES)
def test_half_a_surrogate_pair_is_refused(half):
    for text in (f'"{half}"', f'{{"a":["{half}"]}}', f'{{"{half}":1}}'):
        with pytest.raises(BadJson):
            decode_strictly(decode, text.encode())


def test_names_are_counted_as_a_plain_reader_counts_them():
    random_ = random.Random(1)
    texts = ['"', ":", "\\", "{", "[", "a", "é", ",", " "]

    def value(depth):
        if depth == 0 or random_.random() < 0.3:
            return random_.choice([1, None, True, "".join(random_.choices(texts, k=4))])
        if random_.random() < 0.5:
            return [value(depth - 1) for _ in range(random_.randrange(4))]
        names = ("".join(random_.choices(texts, k=3)) for _ in range(random_.randrange(4)))
        return {name: value(depth - 1) for name in names}

    for _ in range(2000):
        made = value(5)
        text = json.dumps(made, ensure_ascii=random_.random() < 0.5).encode()
        assert decode_strictly(decode, text) == made


def test_deep_nesting_is_refused():
    for text in ("[" * 100_000, '{"a":' * 50_000, "[" * 5000 + "]" * 5000):
        with pytest.raises(BadJson):
            decode_strictly(decode, text.encode())


def test_more_parts_than_are_taken_are_refused_before_they_are_made(monkeypatch):
    monkeypatch.setattr(strict_json, "MOST_PARTS", 1000)
    with pytest.raises(TooManyParts):
        decode_strictly(decode, b"[" + b"[]," * 1000 + b"1]")
    many = json.dumps(["[[[[" * 1000]).encode()  # inside of a string they are none
    assert decode_strictly(decode, many) == json.loads(many)


def test_memory_is_a_small_multiple_of_the_text(monkeypatch):
    monkeypatch.setattr(strict_json, "MOST_PARTS", 1 << 16)  # a sixteenth, as the bodies are
    columns, rows = body_types.decode_decision, body_types.decode_rows
    for decoder, body in (
        (columns, b'{"x":[' + b"{}," * 620_000 + b'1],"z":1}'),
        (columns, b'{"x":[' + b'{"":0},' * 56_000 + b"0.1," * 370_000 + b'1],"z":null}'),
        (rows, b'{"decisions":[' + b'{"x":[1],"z":{"a":1},"key":null},' * 20_000 + b"{}]}"),
    ):
        tracemalloc.start()
        try:
            decode_json(decoder, body)
        except Refusal as error:
            assert error.status == 413
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 20 * len(body) + 300 * strict_json.MOST_PARTS, body[:40]


def test_every_way_to_say_a_field_twice_is_refused_in_bodies():
    fields = {"x": "[1.0]", "z": '"a"', "key": "null", "model": '"m"'}
    for first, again in itertools.product(fields, fields):
        written = [*fields.items(), (first, fields[again])]
        listed = ",".join(f'"{name}":{value}' for name, value in written)
        with pytest.raises(Refusal):
            decode_json(body_types.decode_decision, f"{{{listed}}}".encode())
