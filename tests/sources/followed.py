"""The program that is killed: each line on standard input is one life of a follower."""

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import likewise as lw
from likewise.sources import follower as following
from likewise.sources.file_source import make_source, make_target
from likewise.sources.judge_messages import StreamJudge, make_binder
from likewise.sources.sinks import StreamSink
from tests.sources.streaming import KEPT, RULE
from tests.support.killing import say, serve

following._BATCH = 48  # many transactions in a life
following._PASSED_SECONDS = 0.05


class Speaking(StreamJudge):
    """Says when decisions are on disk."""

    def judge(self, messages):
        verdicts = super().judge(messages)
        say("done", self.monitor.rows)
        return verdicts


def life(order):
    monitor = lw.open(
        order["ledger"], lw.Rule.from_toml(RULE), witnesses=KEPT, comparable=True, wait=30
    )
    source, format = make_source(order["address"])
    follower = following.Follower(
        source,
        Speaking(monitor, make_binder(monitor.rule)),
        StreamSink(make_target(order["to"], "verdict"), make_target(order["dead"], "dead_letter")),
        tell=lambda line: say("told", line),
        gaps="stop",
        format=format,
    )
    if monitor.rows >= order["rows"]:
        say("finished", monitor.rows)
    follower._told_before, told = None, follower._report_verdicts

    def tell_all(messages, verdicts):
        told(messages, verdicts)
        if monitor.rows >= order["rows"]:
            say("finished", monitor.rows)

    follower._report_verdicts = tell_all
    follower.run()
    time.sleep(60)


if __name__ == "__main__":
    serve(life)
