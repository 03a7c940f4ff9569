"""Addresses of streams: what they mean, and that they give nothing secret away."""

import pytest

from likewise.errors import BadRule
from likewise.sources.address import parse_address
from tests.support.looping import each
from tests.support.refusals import raises


@pytest.mark.parametrize(
    ("text", "kind", "hosts", "streams", "tls"),
    [
        ("redis://h/2?stream=a&stream=b", "redis", (("h", 6379),), ("a", "b"), False),
        ("rediss://h:1?stream=a", "redis", (("h", 1),), ("a",), True),
        ("redis://[::1]:7/0?stream=a", "redis", (("::1", 7),), ("a",), False),
        ("nats://h?stream=S&subject=s.%3E", "nats", (("h", 4222),), ("S",), False),
        ("tls://h?stream=S", "nats", (("h", 4222),), ("S",), True),
        ("nats://h?stream=S&tls=true", "nats", (("h", 4222),), ("S",), True),
        ("kafka://h,i:9?topic=t", "kafka", (("h", 9092), ("i", 9)), ("t",), False),
    ],
)
def test_address_says_where_and_what(text, kind, hosts, streams, tls):
    address = parse_address(text)
    assert (address.kind, address.hosts, address.streams) == (kind, hosts, streams)
    assert address.tls == tls


@each(
    "text",
    [
        "http://h?stream=a",
        "redis://",
        "redis://h",
        "redis://h?stream=",
        "kafka://h?topic=a&topic=b",
        "redis://h?stream=a&stream=a",
        "redis://h?stream=a&gap=lost",
        "redis://h?stream=a&format=xml",
        "redis://h?stream=a&start=middle",
        "redis://h?stream=a&maxlen=-1",
        "redis://h:x?stream=a",
        "kafka://h/0?topic=a",
    ],
)
def test_address_that_makes_no_sense_is_refused(text):
    with raises(BadRule):
        parse_address(text)


@pytest.mark.parametrize("scheme", ["redis", "nats", "kafka"])
def test_password_in_an_address_is_refused_and_not_repeated(scheme):
    with raises(BadRule) as refused:
        parse_address(f"{scheme}://ann:hunter2@h?stream=a&topic=a")
    assert "hunter2" not in str(refused.value)


def test_password_comes_from_a_file_or_the_environment_and_is_never_shown(tmp_path, monkeypatch):
    (tmp_path / "secret").write_text("hunter2\n")
    of_file = parse_address(f"redis://h?stream=a&user=ann&password_file={tmp_path / 'secret'}")
    assert of_file.read_password() == "hunter2"
    monkeypatch.setenv("STREAM_PASSWORD", "hunter3")
    of_environment = parse_address("redis://h?stream=a&password_env=STREAM_PASSWORD")
    assert of_environment.read_password() == "hunter3"
    for one in (of_file, of_environment):
        assert "hunter" not in str(one)
        assert "hunter" not in repr(one)
    assert str(of_file) == "redis://h?stream=a"
    with raises(BadRule):
        parse_address("redis://h?stream=a&password_env=NO_SUCH").read_password()
    with raises(BadRule):
        parse_address(f"redis://h?stream=a&password_file={tmp_path / 'none'}").read_password()
