"""`likewise watch` follows standard input, a file or a stream through a monitor, to its end.

Invariant: every line of standard input has one answer, in order, except blank lines. No line ends
the stream, except one that shows that this is not the ledger's input (`--resume`). With a ledger, a
verdict is printed once it is on disk, and a stored decision is answered as it was the first time.
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
from likewise.cli.options import make_burst, require_model_column
from likewise.cli.rule_options import apply_options, bind_rule, check_trusted_code, read_rule
from likewise.cli.terminal import print_json, say_on_stderr
from likewise.cli.watch_options import WatchOptions
from likewise.errors import RepeatedKey
from likewise.explaining.agreement import Agreement, measure_newest
from likewise.ledger import folder
from likewise.ledger.ledger import Ledger
from likewise.ledger.loss_events import is_at_least
from likewise.monitor import opening
from likewise.monitor.monitor import Monitor
from likewise.rule.difference import require_same_rule
from likewise.rule.rule import Rule
from likewise.sources.binding import Binding
from likewise.sources.file_source import make_source, make_target
from likewise.sources.follower import Follower, FollowerCounts
from likewise.sources.json_lines import STANDARD_INPUT, PipeLines
from likewise.sources.judge_messages import LineNumbers, Messages, StreamJudge, columns_of_rule
from likewise.sources.protocol import Record
from likewise.sources.sinks import CallMonitor, LineTarget, Retry, StreamSink
from likewise.tables.printing import missing_in_words, percent
from likewise.verdict.verdict_body import write_bodies
from likewise.verdict.verdicts import Verdicts


@dataclass(frozen=True)
class WatchResult:
    """Counts what a run judged, for people and as JSON."""

    counts: FollowerCounts
    missing_decisions: int
    at_least: bool
    """Whether more decisions may be missing than are counted."""
    agreement: Agreement | None = None
    """How well similar cases agree among the newest decisions."""

    @property
    def has_only_bad(self) -> bool:
        """Tell whether there was input and none of it got a verdict."""
        return self.counts.bad > 0 and not self.counts.rows + self.counts.repeated

    def in_words(self, unit: str) -> str:
        """Return the counts as a sentence; unit: what an item of bad input is called."""
        counts = self.counts
        alarms = f", {counts.alarms:,} raise an alarm" if counts.alarms else ""
        repeated = f", {counts.repeated:,} that the ledger had already" if counts.repeated else ""
        units = unit if counts.bad == 1 else f"{unit}s"
        bad = f", {counts.bad:,} {units} that could not be judged" if counts.bad else ""
        decisions = f"{counts.rows:,} decision{'s' * (counts.rows != 1)}"
        missing = missing_in_words(self.missing_decisions, at_least=self.at_least)
        compared = f"{self._describe_compared()}{self._describe_index()}"
        return f"{decisions}{compared}{alarms}{repeated}{bad}{missing}"

    def _describe_index(self) -> str:
        """Say how well similar cases agree, where that can be concluded."""
        one = self.agreement
        if one is None or one.index is None:
            return ""
        return f", agreement index {one.index:.2f} (95 % interval {one.low:.2f} to {one.high:.2f})"

    def _describe_compared(self) -> str:
        """Say how many could be compared, and how many of these contradict."""
        rows, comparable, flagged = self.counts.rows, self.counts.comparable, self.counts.violations
        if rows and not comparable:
            return (
                ": none had an earlier similar case, so nothing could be compared, and nothing"
                " follows"
            )
        share = f" ({percent(flagged / comparable)})" if comparable else ""
        return (
            f", {comparable:,} with an earlier similar case, {flagged:,} of them{share}"
            " contradict an earlier one"
        )

    def to_dict(self) -> dict[str, Any]:
        names = ("rows", "comparable", "violations", "alarms", "repeated")
        counts = {name: getattr(self.counts, name) for name in names}
        missing = self.missing_decisions
        return {
            **counts,
            "bad_rows": self.counts.bad,
            "missing_decisions": missing,
            "agreement": self.agreement and self.agreement.to_dict(),
        }


class LineSink:
    """Prints the answers of a poll in the order of its lines, once all of them have one."""

    def __init__(self, options: WatchOptions, lines: PipeLines) -> None:
        self._options = options
        self._lines = lines
        self._answers: dict[int, dict[str, Any]] = {}
        self._skips = options.skips_bad_rows
        self.in_order = not self._skips

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
        """Answer with the reason; end if --on-bad-row says so, or if this is other input."""
        stop = None if self._skips else f"{STANDARD_INPUT}, line {record.position}: {why}"
        if code == RepeatedKey.code and not self._judge.has_key_column:
            code = "other-input"
            stop = why = (
                f"{STANDARD_INPUT}, line {record.position} is not what the ledger"
                f" {self._options.ledger} has for that line: this is other input. Nothing was"
                " stored. Leave out --resume to go on with it."
            )
        number = self._answer(record, {"code": code, "error": why})
        if stop is not None:
            self._print(line for line in self._answers if line <= number)
            self._lines.stop()  # else it would wait for a further line
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
    """Prints lines on standard output; what was printed cannot be read back."""

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

    signal_context: makes a context in which a signal calls the function passed to it
    """
    rule = _load_rule(options)
    bind = partial(_bind, options, rule)
    if rule is not None:  # else a new ledger would store a rule that cannot be used
        _check_rule(rule, options, bind)
    elif options.source is not None:
        raise CommandError("what is similar, and what is the output? Say --rule likewise.toml.")
    with ExitStack() as opened:
        follower, judge, stop = _open_follower(options, rule, bind, opened)
        with signal_context(stop):
            follower.run()
        counts = follower.counts
        if not judge.is_open:
            return WatchResult(counts, 0, False)
        monitor = judge.monitor
        at_least = counts.at_least or (monitor.durable and _is_loss_at_least(monitor.ledger.path))
        agreement = measure_newest(monitor.past, monitor.rows)
        return WatchResult(counts, monitor.missing_decisions, at_least, agreement)


def _open_follower(
    options: WatchOptions,
    rule: Rule | None,
    bind: Callable[[list[str]], Binding],
    opened: ExitStack,
) -> tuple[Follower, StreamJudge, Callable[[], None]]:
    """Open source, monitor and targets; return the follower, its judge, and what stops it."""

    def open_monitor(rule: Rule) -> Monitor:
        return opened.enter_context(_open_monitor(options, rule))

    if options.source is not None:
        assert rule is not None
        source, format = make_source(options.source)
        opened.enter_context(closing(source))
        target = _open_target(options.to, "verdict", opened)
        dead_letters = _open_target(options.dead_letters, "dead_letter", opened)
        judge = StreamJudge(open_monitor(rule), bind, options.model_column)
        follower = Follower(
            source,
            judge,
            StreamSink(target, dead_letters, options.witnesses),
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
    # Stopping the follower would lose lines that were read and not judged, so the lines stop.
    return Follower(lines, judge, sink, tell=_tell, format="json"), judge, lines.stop


def _tell(line: str) -> None:
    say_on_stderr(f"likewise: {line}")


def _load_rule(options: WatchOptions) -> Rule | None:
    """Return the rule of a file or of the ledger; None if the first usable line decides it."""
    if options.rule is not None:
        return apply_options(read_rule(options.rule, trust_code=options.trust_code), options.quick)
    path = options.ledger
    if path is None or not folder.exists(path):
        return None
    with closing(Ledger(path)) as ledger:
        return check_trusted_code(ledger.rule, f"the rule of the ledger {path}", options.trust_code)


def _bind(options: WatchOptions, rule: Rule | None, columns: list[str]) -> Binding:
    """Bind the rule to columns; without a rule, the one that the options make of the columns."""
    extra_columns = () if options.model_column is None else (options.model_column,)
    binding = bind_rule(
        options.rule,
        options.quick,
        list(dict.fromkeys([*columns, *extra_columns])),  # a record may be without a model
        options.source or STANDARD_INPUT,
        extra_columns,
        rule,
        trust_code=options.trust_code,
    )
    require_model_column(binding.rule, options.model_column)
    if rule is not None and options.ledger is not None:
        require_same_rule(rule, binding.rule, options.ledger, models=False)
    return binding


def _check_rule(rule: Rule, options: WatchOptions, bind: Callable[[list[str]], Binding]) -> None:
    """Raise CommandError if a rule cannot be used for lines."""
    require_model_column(rule, options.model_column)
    columns = columns_of_rule(rule)
    if columns is not None:
        bind(columns)
    elif options.quick.output_column is None and rule.embed is None:
        raise CommandError(
            f"{options.rule or 'the rule'} has no features, so it does not say which field is the"
            " output: add --output-column."
        )


def _open_monitor(options: WatchOptions, rule: Rule) -> Monitor:
    burst = make_burst(options.burst, options.alarm)
    if options.ledger is None:
        return Monitor(rule, burst=burst, comparable=True)
    return opening.open(
        options.ledger,
        rule,
        durability=options.durability,  # type: ignore[arg-type]
        window=options.window,
        witnesses=options.witnesses,
        burst=burst,
        comparable=True,
    )


def _open_target(address: str | None, field: str, opened: ExitStack) -> LineTarget:
    if address is None or address == "-":
        return ScreenTarget()
    return opened.enter_context(closing(make_target(address, field)))


def _is_loss_at_least(path: Path) -> bool:
    """Tell whether more may be missing from a ledger than its chain counts."""
    with closing(Ledger(path)) as opened:
        return is_at_least(opened.events())
