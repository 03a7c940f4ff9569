"""`likewise watch --from`: a stream or a file through a monitor, until it ends or is told to.

Thin: it opens the monitor, the source and the targets, and says how it went.
"""

import json
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from likewise.cli.endings import Stop
from likewise.cli.rules import Quick, read_rule, with_trusted_code
from likewise.cli.screen import print_json, say_aside
from likewise.cli.watch_counts import WatchCounts, lost_at_least
from likewise.ledger import folder
from likewise.ledger.ledger import Ledger
from likewise.monitors import opening
from likewise.monitors.monitor import Monitor
from likewise.rules.burst import Burst
from likewise.rules.rule import Rule
from likewise.streams.following import Follower, FollowSettings
from likewise.streams.judging import StreamJudge, binding_of
from likewise.streams.opening import source_of
from likewise.streams.policies import GAPS
from likewise.streams.targets import LineTarget, target_of


@dataclass(frozen=True)
class StreamOptions:
    """What the options say about a stream."""

    source: str
    to: str | None
    dead_letters: str | None
    gaps: str
    rule: Path | None
    quick: Quick
    ledger: Path | None
    durability: str
    window: str | None
    witnesses: int
    burst: Burst | None
    model_column: str | None
    trust_code: bool

    def __post_init__(self) -> None:
        if self.gaps not in GAPS:
            raise Stop(f"--gaps is {self.gaps!r}; expected {' or '.join(GAPS)}.")
        if self.window is not None and self.ledger is None:
            raise Stop("--window is about a ledger: say --ledger.")
        quick = self.quick
        if (quick.metric, quick.epsilon, quick.output, quick.delta) != (None,) * 4:
            raise Stop("--from needs a rule in a file, --rule, or a ledger that has one.")


class ScreenTarget:
    """Lines on standard output; what was written is not known afterwards."""

    name = "standard output"
    remembers = False

    def send(self, lines: Sequence[bytes]) -> None:
        for line in lines:
            print_json(json.loads(line))
        sys.stdout.flush()

    def last(self) -> bytes | None:
        return None

    def close(self) -> None:
        """Standard output stays open."""


def watch_stream(options: StreamOptions, until: Callable[[Callable[[], None]], Any]) -> WatchCounts:
    """Follow a stream; how it went.

    until: a context in which a signal calls what it is given
    """
    rule = _rule(options)
    bind = binding_of(  # before a ledger is begun, which would keep a rule that cannot be used
        rule,
        output_column=options.quick.output_column,
        model_column=options.model_column,
        ignore=options.quick.ignore,
    )
    with ExitStack() as opened:
        source, format = source_of(options.source)
        opened.enter_context(closing(source))
        target = _target(options.to, "verdict", opened)
        dead = _target(options.dead_letters, "dead_letter", opened)
        monitor = opened.enter_context(_monitor(options, rule))
        follower = Follower(
            source,
            StreamJudge(monitor, bind, options.model_column),
            FollowSettings(options.gaps, options.witnesses, format),
            target=target,
            dead=dead,
            tell=lambda line: say_aside(f"likewise: {line}"),
        )
        with until(follower.stop):
            follower.run()
        counts = follower.counts
        return WatchCounts(
            counts.rows,
            counts.flagged,
            counts.comparable,
            counts.alarms,
            counts.known,
            counts.bad,
            monitor.missing,
            counts.at_least or (monitor.durable and lost_at_least(monitor.path)),
        )


def _rule(options: StreamOptions) -> Rule:
    if options.rule is not None:
        return read_rule(options.rule, trust_code=options.trust_code)
    path = options.ledger
    if path is None or not folder.exists(path):
        raise Stop("what is near, and what is the output? Say --rule likewise.toml.")
    with closing(Ledger(path)) as ledger:
        return with_trusted_code(ledger.rule, f"the rule of the ledger {path}", options.trust_code)


def _monitor(options: StreamOptions, rule: Rule) -> Monitor:
    if options.ledger is None:
        return Monitor(rule, burst=options.burst, comparable=True)
    return opening.open(
        options.ledger,
        rule,
        durability=options.durability,  # type: ignore[arg-type]
        window=options.window,
        witnesses=options.witnesses,
        burst=options.burst,
        comparable=True,
    )


def _target(address: str | None, field: str, opened: ExitStack) -> LineTarget:
    if address is None or address == "-":
        return ScreenTarget()
    return opened.enter_context(closing(target_of(address, field)))
