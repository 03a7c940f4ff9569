"""Watchers and servers killed at random while decisions stream: nothing is lost or judged twice."""

import json
import os
import random
import subprocess
import threading
import time
from contextlib import closing
from pathlib import Path

import pytest

import likewise as lw
from tests.sources.streaming import RULE, bodies, check_ledger, check_lines, decisions
from tests.support.brokers import KINDS, broker, to_address, wait_for
from tests.support.commands import COMMAND
from tests.support.killing import Life, program

PROGRAM = Path(__file__).with_name("followed.py")
BAD = b"no decision at all"


def publish_until_kept(running, some, stopped=lambda: False):
    """Send decisions until the server has said that it keeps them; some may be there twice."""
    waiting = list(some)
    while waiting and not stopped():
        try:
            running.publish(waiting[:100])
            del waiting[:100]
        except Exception:  # it is away; what came through comes again
            time.sleep(0.02)


def killed_watchers(kind, folder, count, kills, seed):
    draw = random.Random(seed)
    published = decisions(count)
    share = count // (kills + 1)
    parts = [published[i * share : (i + 1) * share] for i in range(kills)]
    parts.append(published[kills * share :])
    acknowledged = 0
    with broker(kind, folder) as running, program(PROGRAM) as process:
        order = {
            "ledger": str(folder / "ledger"),
            "address": running.address(),
            "to": to_address(running, "verdicts"),
            "dead": to_address(running, "dead"),
        }
        for i, part in enumerate(parts):
            sent = bodies(part)
            sent.insert(draw.randrange(len(sent)), BAD)
            sender = threading.Thread(target=publish_until_kept, args=(running, sent))
            sender.start()
            last = i == kills
            if last:
                life = Life(process, {**order, "rows": count}, 0.0, after="finished")
                assert life.met, life.said[-3:]
            else:
                nth = draw.randint(1, max(1, share // 60))
                delay = draw.choice([0.0, draw.uniform(0, 0.003), draw.uniform(0, 0.05)])
                life = Life(process, {**order, "rows": count}, delay, after="done", nth=nth)
                assert life.met, life.said[-3:]
                rows = max(rows for (rows,) in life.told("done"))
                assert rows > acknowledged, "nothing was done between two kills"
                acknowledged = rows
            sender.join(60)
        entries = check_ledger(folder / "ledger", published)
        lines = map(json.loads, running.read("verdicts", "verdict"))
        # The mock of Kafka keeps 5 MB of a partition, about 10,000 lines.
        check_lines(lines, entries, all_kept=kind != "kafka" or count < 5_000)
        letters = list(map(json.loads, running.read("dead", "dead_letter")))
        places = {(one["source"], str(one["position"])) for one in letters}
        assert len(places) == kills + 1
        assert all(one["body"].encode() == BAD for one in letters)
    with closing(lw.Ledger(folder / "ledger")) as ledger:
        assert ledger.rows == count
        assert all(entry.missing_decisions == 0 for entry in ledger.entries())


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_killed_watcher_leaves_each_verdict_once(kind, tmp_path):
    killed_watchers(kind, tmp_path, 400, 3, seed=1)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_watcher_killed_a_hundred_times_leaves_each_verdict_once(kind, tmp_path):
    killed_watchers(kind, tmp_path, 20_000, 100, seed=2)


def killed_servers(kind, folder, count, kills, seed):
    """The command itself watches; the server is killed and started again."""
    draw = random.Random(seed)
    published = decisions(count)
    share = count // (kills + 1)
    (folder / "rule.toml").write_text(RULE)
    ledger = folder / "ledger"

    def rows():
        try:
            with closing(lw.Ledger(ledger)) as one:
                return one.rows
        except lw.errors.BadFile:  # it is being made
            return 0

    with broker(kind, folder) as running:
        watcher = subprocess.Popen(
            [
                *COMMAND, "watch", "--from", running.address(), "--rule", folder / "rule.toml",
                "--ledger", ledger, "--to", to_address(running, "verdicts"),
                "--dead-letters", to_address(running, "dead"), "--gaps", "stop", "--json",
            ],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
            env=os.environ | {"OMP_NUM_THREADS": "1"},
        )  # fmt: skip
        said = []
        reader = threading.Thread(target=lambda: said.extend(watcher.stderr))
        reader.start()
        try:
            before = 0
            for i in range(kills):
                part = bodies(published[i * share : (i + 1) * share])
                sender = threading.Thread(target=publish_until_kept, args=(running, part))
                sender.start()
                wait_for(lambda before=before: rows() > before, "work between two kills")
                before = rows()
                time.sleep(draw.uniform(0, 0.03))
                running.kill()
                running.start()
                sender.join(60)
                assert not sender.is_alive()
            publish_until_kept(running, bodies(published[kills * share :]))
            wait_for(lambda: rows() == count, f"{count} rows", 300)
            wait_for(
                lambda: count - 1 in {json.loads(one)["row"] for one in _last(running)},
                "the last line",
            )
            watcher.terminate()
            assert watcher.wait(60) == 0, said
        finally:
            watcher.kill()
            watcher.wait(60)
            reader.join(60)
            watcher.stderr.close()
        summary = json.loads(said[-1])
        assert (summary["rows"], summary["bad_rows"], summary["missing_decisions"]) == (count, 0, 0)
        entries = check_ledger(ledger, published)
        check_lines(map(json.loads, running.read("verdicts", "verdict")), entries)


def _last(running):
    from likewise.sources.file_source import make_target

    with closing(make_target(to_address(running, "verdicts"), "verdict")) as target:
        last = target.read_last_line()
    return [] if last is None else [last]


@pytest.mark.long
@pytest.mark.parametrize("kind", ["redis", "nats"])
def test_killed_server_costs_nothing(kind, tmp_path):
    killed_servers(kind, tmp_path, 400, 3, seed=3)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["redis", "nats"])
def test_server_killed_a_hundred_times_costs_nothing(kind, tmp_path):
    killed_servers(kind, tmp_path, 20_000, 100, seed=4)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_server_that_is_away_for_a_minute_is_waited_for(kind, tmp_path):
    from tests.sources.streaming import following, opened

    published = decisions(40)
    with broker(kind, tmp_path) as running:
        running.publish(bodies(published[:20]))
        with opened(tmp_path / "ledger") as monitor, following(monitor, running.address()):
            wait_for(lambda: monitor.rows == 20, "the first half")
            running.go_away()
            time.sleep(60)
            running.come_back()
            running.publish(bodies(published[20:]))
            wait_for(lambda: monitor.rows == 40, "the second half", 120)
    check_ledger(tmp_path / "ledger", published)
