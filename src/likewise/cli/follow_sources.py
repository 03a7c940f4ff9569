"""What `likewise watch` follows: standard input, a file or a stream, through a monitor, to its end.

Of standard input every line has an answer. As many answers as lines, in their order; a blank line
has none. No line ends the stream, but for one that shows that this is other input than the ledger's
(`--resume`). With a ledger, a verdict is answered once it is on disk, and a decision that is there
already is answered as it was the first time.
"""

import json
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, ExitStack, closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from likewise.cli.exit_codes import DATA, CommandError
from likewise.cli.options import RuleOptions, require_model_column
from likewise.cli.rule_options import apply_options, bind_rule, check_trusted_code, read_rule
from likewise.cli.terminal import print_json, say_on_stderr
from likewise.errors import RepeatedKey
from likewise.ledger import folder
from likewise.ledger.ledger import Ledger
from likewise.ledger.loss_events import is_at_least
from likewise.monitor import opening
from likewise.monitor.monitor import Monitor
from likewise.rule.burst import Burst
from likewise.rule.difference import require_same_rule
from likewise.rule.rule import Rule
from likewise.sources.address import GAPS
from likewise.sources.binding import Binding
from likewise.sources.follower import Follower, FollowerCounts
from likewise.sources.judge_messages import LineNumbers, StreamJudge, columns_of_rule
from likewise.sources.line_source import STANDARD_INPUT, PipeLines
from likewise.sources.open_source import make_source, make_target
from likewise.sources.protocol import Record
from likewise.sources.sinks import CallMonitor, LineTarget, Retry, StreamSink
from likewise.sources.stream_messages import Messages
from likewise.tables.printing import missing_in_words, percent
from likewise.verdict.verdict_body import write_bodies
from likewise.verdict.verdicts import Verdicts


@dataclass(frozen=True)
class WatchOptions:
    """What the options say."""

    source: str | None
    """An address or a file; None: standard input."""
    to: str | None
    dead_letters: str | None
    gaps: str | None
    rule: Path | None
    quick: RuleOptions
    ledger: Path | None
    resume: bool
    """Whether standard input begins again at its first line."""
    durability: str
    window: str | None
    witnesses: int
    """Named in an answer, and kept in a ledger."""
    skip: bool
    """Whether to go on after a line that cannot be judged."""
    burst: Burst | None
    model_column: str | None
    trust_code: bool

    def __post_init__(self) -> None:
        quick = self.quick
        if self.ledger is None and (self.resume or self.window is not None):
            raise CommandError("--resume and --window are about a ledger: say --ledger.")
        if self.source is None:
            if (self.to, self.dead_letters, self.gaps) != (None, None, None):
                raise CommandError(
                    "--to, --dead-letters and --gaps are about a stream: say --from."
                )
        elif self.resume or not self.skip:
            raise CommandError(
                "--resume and --on-bad-row are about standard input, and --from is given."
            )
        elif self.gaps not in (None, *GAPS):
            raise CommandError(f"--gaps is {self.gaps!r}; expected {' or '.join(GAPS)}.")
        elif (quick.metric, quick.epsilon, quick.output, quick.delta) != (None,) * 4:
            raise CommandError("--from needs a rule in a file, --rule, or a ledger that has one.")


@dataclass(frozen=True)
class WatchResult:
    """How it went, for people and as JSON."""

    counts: FollowerCounts
    missing: int
    at_least: bool
    """Whether more may be missing than is known."""

    @property
    def has_only_bad(self) -> bool:
        """Whether something came, and nothing of it had a verdict."""
        return self.counts.bad > 0 and not self.counts.rows + self.counts.known

    def in_words(self, unit: str) -> str:
        """Say it in a sentence; `unit` is what could not be judged."""
        counts = self.counts
        alarms = f", {counts.alarms:,} raise an alarm" if counts.alarms else ""
        known = f", {counts.known:,} that the ledger had already" if counts.known else ""
        units = unit if counts.bad == 1 else f"{unit}s"
        bad = f", {counts.bad:,} {units} that could not be judged" if counts.bad else ""
        decisions = f"{counts.rows:,} decision{'s' * (counts.rows != 1)}"
        missing = missing_in_words(self.missing, at_least=self.at_least)
        return f"{decisions}{self._describe_compared()}{alarms}{known}{bad}{missing}"

    def _describe_compared(self) -> str:
        """How many could be compared, and how many of these contradict."""
        rows, comparable, flagged = self.counts.rows, self.counts.comparable, self.counts.flagged
        if rows and not comparable:
            return (
                ": none had an earlier like case, so nothing could be compared, and nothing follows"
            )
        share = f" ({percent(flagged / comparable)})" if comparable else ""
        return (
            f", {comparable:,} with an earlier like case, {flagged:,} of them{share}"
            " contradict an earlier one"
        )

    def to_dict(self) -> dict[str, Any]:
        counts = self.counts
        return {
            "rows": counts.rows,
            "comparable": counts.comparable,
            "flagged": counts.flagged,
            "alarms": counts.alarms,
            "known": counts.known,
            "bad_rows": counts.bad,
            "missing": self.missing,
        }


class LineSink:
    """Prints an answer for each line, in their order, once all lines of a poll have one."""

    def __init__(self, options: WatchOptions, lines: PipeLines) -> None:
        self._options = options
        self._lines = lines
        self._answers: dict[int, dict[str, Any]] = {}
        self.in_order = not options.skip

    def begin(self, judge: StreamJudge, retry: Retry, call: CallMonitor) -> None:
        self._judge = judge

    def take(self, messages: Messages, verdicts: Verdicts) -> None:
        places = np.arange(len(verdicts))
        bodies = write_bodies(
            verdicts, self._options.witnesses, places, keys=self._judge.has_key_column
        )
        for record, body in zip(messages.records, bodies, strict=True):
            self._answer(record, body)

    def refuse(self, record: Record, why: str, code: str) -> None:
        """Answer with the reason; end there if that is wished, or if this is other input."""
        stop = None if self._options.skip else f"{STANDARD_INPUT}, line {record.position}: {why}"
        if code == RepeatedKey.code and not self._judge.has_key_column:
            code = "other-input"
            stop = why = (
                f"{STANDARD_INPUT}, line {record.position} is not what the ledger"
                f" {self._options.ledger} has for that line: this is other input. Nothing was"
                " stored. Leave out --resume to go on with it."
            )
        number = self._answer(record, {"code": code, "error": why})
        if stop is not None:
            self._print(one for one in self._answers if one <= number)
            self._lines.stop()  # so that nobody waits for a further line
            raise CommandError(stop, DATA)

    def _answer(self, record: Record, body: dict[str, Any]) -> int:
        number = record.position
        assert isinstance(number, int)
        self._answers[number] = {"line": number, **body}
        return number

    def flush(self) -> None:
        self._print(self._answers)
        self._answers = {}

    def _print(self, numbers: Iterable[int]) -> None:
        for number in sorted(numbers):
            print_json(self._answers[number])
        sys.stdout.flush()


class ScreenTarget:
    """Lines on standard output; what was written is not known afterwards."""

    name = "standard output"
    knows_last_line = False

    def send(self, lines: Sequence[bytes]) -> None:
        for line in lines:
            print_json(json.loads(line))
        sys.stdout.flush()

    def read_last_line(self) -> bytes | None:
        return None

    def close(self) -> None:
        """Standard output stays open."""


def follow(
    options: WatchOptions,
    signal_context: Callable[[Callable[[], None]], AbstractContextManager[None]],
) -> WatchResult:
    """Follow what the options name until it ends.

    until: a context in which a signal calls the function that it is given
    """
    rule = _load_rule(options)
    bind = partial(_bind, options, rule)
    if rule is not None:  # before a ledger is begun, which would keep a rule that cannot be used
        _check(rule, options, bind)
    elif options.source is not None:
        raise CommandError("what is near, and what is the output? Say --rule likewise.toml.")
    with ExitStack() as opened:
        follower, judge, stop = _follower(options, rule, bind, opened)
        with signal_context(stop):
            follower.run()
        counts = follower.counts
        if not judge.is_open:
            return WatchResult(counts, 0, False)
        monitor = judge.monitor
        at_least = counts.at_least or (monitor.durable and _is_loss_at_least(monitor.path))
        return WatchResult(counts, monitor.missing, at_least)


def _follower(
    options: WatchOptions,
    rule: Rule | None,
    bind: Callable[[list[str]], Binding],
    opened: ExitStack,
) -> tuple[Follower, StreamJudge, Callable[[], None]]:
    """Open everything; return the follower and what ends it."""

    def open_monitor(rule: Rule) -> Monitor:
        return opened.enter_context(_monitor(options, rule))

    if options.source is not None:
        assert rule is not None
        source, format = make_source(options.source)
        opened.enter_context(closing(source))
        target = _target(options.to, "verdict", opened)
        dead = _target(options.dead_letters, "dead_letter", opened)
        judge = StreamJudge(open_monitor(rule), bind, options.model_column)
        follower = Follower(
            source,
            judge,
            StreamSink(target, dead, options.witnesses),
            tell=_tell,
            gaps=options.gaps or "lost",
            format=format,
        )
        return follower, judge, follower.stop
    monitor = None if rule is None else open_monitor(rule)
    judge = StreamJudge(
        monitor,
        bind,
        options.model_column,
        open_monitor=open_monitor,
        lines=LineNumbers() if monitor is None else LineNumbers.of(monitor, resume=options.resume),
    )
    lines = opened.enter_context(closing(PipeLines(sys.stdin.fileno())))
    sink = LineSink(options, lines)
    # What was read and not judged when it is asked to end would be lost: so the lines end.
    return Follower(lines, judge, sink, tell=_tell, format="json"), judge, lines.stop


def _tell(line: str) -> None:
    say_on_stderr(f"likewise: {line}")


def _load_rule(options: WatchOptions) -> Rule | None:
    """The rule of a file, or of the ledger; None if the first line that can be judged says it."""
    if options.rule is not None:
        return apply_options(read_rule(options.rule, trust_code=options.trust_code), options.quick)
    path = options.ledger
    if path is None or not folder.exists(path):
        return None
    with closing(Ledger(path)) as ledger:
        return check_trusted_code(ledger.rule, f"the rule of the ledger {path}", options.trust_code)


def _bind(options: WatchOptions, rule: Rule | None, columns: list[str]) -> Binding:
    """Bind the rule to columns; where none is known, the rule that the options make of them."""
    beside = () if options.model_column is None else (options.model_column,)
    binding = bind_rule(
        options.rule,
        options.quick,
        list(dict.fromkeys([*columns, *beside])),  # a record may be without a model
        options.source or STANDARD_INPUT,
        beside,
        rule,
        trust_code=options.trust_code,
    )
    require_model_column(binding.rule, options.model_column)
    if rule is not None and options.ledger is not None:
        require_same_rule(rule, binding.rule, options.ledger, models=False)
    return binding


def _check(rule: Rule, options: WatchOptions, bind: Callable[[list[str]], Binding]) -> None:
    """Raise if a rule cannot be used for lines."""
    require_model_column(rule, options.model_column)
    columns = columns_of_rule(rule)
    if columns is not None:
        bind(columns)
    elif options.quick.output_column is None and rule.embed is None:
        raise CommandError(
            f"{options.rule or 'the rule'} has no features, so it does not say which field is the"
            " output: add --output-column."
        )


def _monitor(options: WatchOptions, rule: Rule) -> Monitor:
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
    return opened.enter_context(closing(make_target(address, field)))


def _is_loss_at_least(path: Path) -> bool:
    """Whether more may be missing from a ledger than its chain counts."""
    with closing(Ledger(path)) as opened:
        return is_at_least(opened.events())
