"""`likewise serve` follows a stream, beside decisions over HTTP: one history."""

import asyncio
import json
import re

import pytest

from likewise.errors import BadRule
from likewise.service.service import Service
from likewise.service.settings import MonitorSettings, ServiceSettings, StreamSource
from tests.service import asgi_calls as asgi
from tests.sources.streaming import RULE, bodies, check_ledger, check_lines, decisions
from tests.support.brokers import broker, to_address, wait_for
from tests.support.refusals import raises
from tests.support.serving import serving
from tests.support.serving import settings as written

MONITOR = """
[monitors.default]
rule = "rule.toml"
ledger = "ledger"

[monitors.default.source]
from = "{source}"
to = "{to}"
dead_letters = "{dead}"
"""


def stream_metrics(page):
    found = re.findall(rb"^likewise_stream_(\w+)\{[^}]*\} (\S+)$", page, re.MULTILINE)
    return {name.decode(): float(value) for name, value in found}


def test_stream_that_is_away_is_not_connected_and_behind(tmp_path):
    async def scenario():
        source = StreamSource("redis://127.0.0.1:1/0?stream=decisions", output_column="z")
        async with asgi.serving(tmp_path, source=source) as app:
            app.service.start_background(app.service.monitors["default"])
            for _ in range(100):
                page = (await asgi.call(app, "GET", "/metrics")).body
                told = stream_metrics(page)
                assert (told["connected"], told["dead_letters_total"]) == (0, 0)
                if told["lag_seconds"] > 0:
                    return
                await asyncio.sleep(0.01)
            raise AssertionError("it is never behind")

    asyncio.run(scenario())


@pytest.mark.long
@pytest.mark.parametrize("kind", ["redis", "nats"])
def test_served_monitor_follows_its_stream(kind, tmp_path):
    published = decisions(120)
    with broker(kind, tmp_path) as running:
        running.publish([b"bad", *bodies(published[:60])])
        monitors = MONITOR.format(
            source=running.address(),
            to=to_address(running, "verdicts"),
            dead=to_address(running, "dead"),
        )
        path = written(tmp_path, rule=RULE, monitors=monitors)
        for part, kills in ((published[60:90], True), (published[90:], False)):
            with serving(path) as server:
                rows = 120 - len(published) + published.index(part[-1]) + 1
                wait_for(lambda s=server: s.get().json()["rows"] >= 60, "what was there")
                running.publish(bodies(part[:-1]))
                wait_for(
                    lambda s=server, r=rows: s.get().json()["rows"] >= r - 1, "what was streamed"
                )
                streams = stream_metrics(server.ask("GET", "/metrics").body)
                assert streams["connected"] == 1
                assert streams["dead_letters_total"] == (1 if kills else 0)
                wait_for(
                    lambda s=server: (
                        stream_metrics(s.ask("GET", "/metrics").body)["lag_seconds"] == 0
                    ),
                    "the end of the stream",
                )
                answer = server.post("observe", {"values": part[-1]})  # the same history
                assert answer.status == 200, answer.body
                assert answer.json()["row"] == rows - 1
                if not kills:
                    assert server.end() == 0
        letters = list(map(json.loads, running.read("dead", "dead_letter")))
        assert {one["body"] for one in letters} == {"bad"}
        lines = list(map(json.loads, running.read("verdicts", "verdict")))
    entries = check_ledger(tmp_path / "ledger", published)
    streamed = [entry for entry in entries if entry.source is not None]
    assert len(streamed) == 118
    check_lines([one for one in lines if "source" in one], streamed)


@pytest.mark.long
@pytest.mark.parametrize(
    ("source", "word"),
    [
        ('from = "redis://h"', "names its stream"),
        ('from = "redis://ann:secret@h?stream=a"', "password_file"),
        ('from = "redis://h?stream=a"\ngaps = "skip"', "gaps is 'skip'"),
        ('to = "redis://h?stream=a"', "'from' is missing"),
        ('from = "redis://h?stream=a"\noutput_column = "z"', "output_column"),
    ],
)
def test_settings_of_a_source_that_make_no_sense_are_refused(source, word, tmp_path):
    from tests.support.serving import command, reached_end

    monitor = '[monitors.default]\nrule = "rule.toml"\nledger = "l"\n'
    monitors = f"{monitor}[monitors.default.source]\n{source}\n"
    path = written(tmp_path, rule=RULE, monitors=monitors)
    code, told = reached_end(command(path, "--port", 0))
    assert code == 2, told
    assert word in told
    assert "secret" not in told


def test_rule_without_an_output_column_leaves_no_ledger(tmp_path):
    rule = tmp_path / "rule.toml"
    rule.write_text('metric = "linf"\nepsilon = 0.1\n')
    source = StreamSource("redis://127.0.0.1:1/0?stream=decisions")
    served = MonitorSettings(rule=str(rule), ledger=str(tmp_path / "ledger"), source=source)
    with raises(BadRule):
        Service(ServiceSettings({"default": served})).open()
    assert not (tmp_path / "ledger").exists()
