"""Decisions for streams, watchers of them, and what a ledger has to hold in the end."""

import json
import threading
from collections import Counter
from contextlib import closing, contextmanager

import numpy as np

import likewise as lw
from likewise.sources import follower as follow_loop
from likewise.sources.file_source import make_source, make_target
from likewise.sources.follower import Follower
from likewise.sources.judge_messages import StreamJudge, make_binder
from likewise.sources.sinks import StreamSink
from tests.support.brokers import wait_for
from tests.support.rule_texts import rule_text
from tests.support.uninterrupted import Uninterrupted

RULE = rule_text({"id": "key", "a": 1, "b": 1}, output={"column": "z"}, metric="linf")
follow_loop._IDLE_SECONDS = 0.05  # tests stop followers often, and do not wait a second for each
KEPT = 3
"""Witnesses that are written for each decision."""


def decisions(count, seed=7, first=0):
    """Decisions of which each has a few like ones before it."""
    draw = np.random.default_rng([seed, first])
    wide = max(4.0, 0.7 * np.sqrt(count))
    values = draw.uniform(0, wide, (count, 2)).tolist()
    labels = draw.integers(0, 2, count).tolist()
    return [
        {"id": f"d{first + i}", "a": a, "b": b, "z": "yes" if z else "no"}
        for i, ((a, b), z) in enumerate(zip(values, labels, strict=True))
    ]


def bodies(some):
    return [json.dumps(one).encode() for one in some]


def rule():
    return lw.Rule.from_toml(RULE)


class Told(list):
    """A target in memory."""

    name = "memory"
    knows_last_line = False

    def send(self, lines):
        self.extend(map(json.loads, lines))

    def read_last_line(self):
        return None

    def close(self):
        """Nothing to let go of."""


@contextmanager
def opened(folder, **more):
    with lw.open(folder, rule(), witnesses=KEPT, comparable=True, **more) as monitor:
        yield monitor


@contextmanager
def following(monitor, address, *, to=None, dead=None, gaps="lost", tell=None):
    """A follower in a thread; at the end it is stopped. What it raised is raised here."""
    source, format = make_source(address)
    target = Told() if to is None else make_target(to, "verdict")
    dead = Told() if dead is None else dead
    follower = Follower(
        source,
        StreamJudge(monitor, make_binder(monitor.rule)),
        StreamSink(target, dead),
        tell=(lambda line: None) if tell is None else tell,
        gaps=gaps,
        format=format,
    )
    failed = []

    def run():
        try:
            follower.run()
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=run)
    follower.verdicts, follower.dead, follower.thread, follower.failed = (
        target, dead, thread, failed,
    )  # fmt: skip
    thread.start()
    try:
        yield follower
    finally:
        follower.stop()
        thread.join(60)
        source.close()
        target.close()
        assert not thread.is_alive()
    if failed:
        raise failed[0]


def follow_until(monitor, address, rows, **more):
    """Follow until the ledger has so many rows; the follower."""
    with following(monitor, address, **more) as follower:
        wait_for(lambda: follower.failed or monitor.rows >= rows, f"{rows} rows")
    return follower


def check_ledger(folder, published):
    """Each decision once, and with every row the verdict of a run that nobody interrupted.

    published: the decisions; where partitions are several, in any order
    """
    with closing(lw.Ledger(folder)) as ledger:
        assert ledger.verify().ok
        entries = list(ledger.entries())
        counted = Counter(entry.key for entry in entries)
        by_key = {one["id"]: one for one in published}
        assert set(counted) == set(by_key)
        assert set(counted.values()) == {1}
        oracle = Uninterrupted(1.0)
        flagged = 0
        for entry in entries:
            one = by_key[entry.key]
            expected = oracle.take((one["a"], one["b"]), one["z"], one["id"])
            assert entry.output == one["z"]
            assert entry.count == len(expected.rows)
            assert [w.row for w in entry.nearest][:KEPT] == [row for row, _ in expected.nearest]
            flagged += bool(entry.count)
        assert flagged > len(entries) // 20, "too few contradictions to prove anything"
        return entries


def check_lines(lines, entries, *, all_kept=True):
    """Verdict lines: one for each row at least, and all of a row say what the ledger says.

    all_kept: whether the target keeps all of them, and not only the last
    """
    told = {}
    for line in lines:
        row = line["row"]
        same = {name: line[name] for name in ("source", "position", "key", "violation", "count")}
        assert told.setdefault(row, same) == same
    if not all_kept:
        entries = entries[min(told) :]
        assert len(entries) > 1000
    assert sorted(told) == [entry.row for entry in entries]
    for entry in entries:
        line = told[entry.row]
        position = list(entry.position) if isinstance(entry.position, tuple) else entry.position
        assert (line["source"], line["position"]) == (entry.source, position)
        assert (line["key"], line["count"]) == (entry.key, entry.count)
