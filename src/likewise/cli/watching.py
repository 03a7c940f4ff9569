"""What `likewise watch` does with lines: objects, verdicts, answers.

Invariant: as many answers as lines, in their order; a blank line has none. No line ends the stream,
but for one that shows that this is other input than the ledger's (`--resume`). With a ledger, a
verdict is answered once it is on disk, and a decision that is there already is answered as it was
the first time.
"""

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from likewise.cli.endings import DATA, Stop
from likewise.cli.models import insist_on_models
from likewise.cli.rules import Quick, ask, with_trusted_code
from likewise.cli.watch_counts import WatchCounts, lost_at_least
from likewise.intake.binding import Binding, judge_with
from likewise.intake.ledgered_lines import LedgeredLines, stored_rule
from likewise.intake.models import models_in
from likewise.intake.refused_rows import refused_row
from likewise.intake.sifting import Unfit, reason, sifted
from likewise.intake.verdict_json import answer
from likewise.ledger import folder
from likewise.monitors.monitor import Monitor
from likewise.rules.burst import Burst
from likewise.rules.rule import Rule
from likewise.sources.chunk import BadLine, Chunk, Refused
from likewise.sources.json_lines import numbers_in, object_of
from likewise.sources.lines import Line, TooLong
from likewise.values.errors import BadDecision, BadFile, BadTable
from likewise.values.verdicts import Verdict

_NAME = "standard input"


@dataclass(frozen=True)
class WatchSettings:
    """How lines are judged and answered."""

    rule: Path | None
    quick: Quick
    skip: bool
    """Whether to go on after a line that cannot be judged."""
    most: int
    """Witnesses named in an answer."""
    burst: Burst | None = None
    trust_code: bool = False
    resume: bool = False
    """Whether the input begins again at its first line."""
    model_column: str | None = None
    """The field that says which model decided."""

    @property
    def beside(self) -> tuple[str, ...]:
        """Fields that are read, whether the rule knows them or not."""
        return () if self.model_column is None else (self.model_column,)


def open_ledger(
    path: Path | None,
    rule: Rule | None,
    settings: WatchSettings,
    *,
    durability: str,
    window: str | None,
) -> LedgeredLines | None:
    """The ledger that is asked for, if one is; without a rule it goes on under its own."""
    if path is None:
        if settings.resume or window is not None:
            raise Stop("--resume and --window are about a ledger: say --ledger.")
        return None
    try:
        if rule is None:
            rule = stored_rule(path)
            if rule is not None:
                named = f"the rule of the ledger {path}"
                rule = with_trusted_code(rule, named, settings.trust_code)
        if rule is not None and not folder.exists(path):
            check_rule(rule, settings)
        return LedgeredLines(
            path,
            rule,
            durability=durability,
            window=window,
            burst=settings.burst,
            comparable=True,
        )
    except BadFile as error:
        raise Stop(f"the ledger {path}: {error}", DATA) from None


def check_rule(rule: Rule, settings: WatchSettings) -> None:
    """Raise before a ledger is begun, which would keep a rule that cannot be used for lines."""
    insist_on_models(rule, settings.model_column)
    if rule.features is not None:
        columns = list(dict.fromkeys([*_columns_of(rule), *settings.beside]))
        ask(
            settings.rule,
            settings.quick,
            columns,
            _NAME,
            settings.beside,
            trust_code=settings.trust_code,
        )
    elif settings.quick.output_column is None and rule.embed is None:
        raise Stop(
            f"{settings.rule or 'the rule'} has no features, so it does not say which field is the"
            " output: add --output-column."
        )


class LineWatcher:
    """A monitor that takes lines.

    Where the rule does not name the columns, the first line that can be judged does.
    """

    def __init__(
        self, settings: WatchSettings, rule: Rule | None, ledger: LedgeredLines | None
    ) -> None:
        self._settings = settings
        self._ledger = ledger
        self._binding: Binding | None = None
        self._numbers: list[str] = []
        self._monitor: Any = None
        self._judge: Any = None
        self._end: tuple[int, Stop] | None = None  # the line that cannot be gone on after, and why
        self._rows = self._flagged = self._comparable = 0
        self._alarms = self._known = self._bad = 0
        self._answered = self._good = 0
        self._missing = 0  # from the history, when it was closed
        self._at_least = False  # whether more may be missing
        try:
            known = ledger.rule if rule is None and ledger is not None else rule
            if known is not None and known.features is not None:
                self._begin(self._ask(_columns_of(known)))
        except BaseException:
            self.close()
            raise

    @property
    def lines_before(self) -> int:
        """Lines of earlier runs, from which counting goes on."""
        if self._ledger is None or self._settings.resume:
            return 0
        return self._ledger.last_number

    @property
    def all_bad(self) -> bool:
        """Whether there were lines, and none had a verdict."""
        return self._good == 0 and self._answered > 0

    def judged(self, first: int, lines: Sequence[Line]) -> Iterator[dict[str, Any]]:
        """The answers to some lines, of which the first has this number."""
        rows, places = [], []
        answers: dict[int, dict[str, Any]] = {}
        for number, line in enumerate(lines, first):
            if isinstance(line, bytes) and not line.strip():
                continue
            try:
                rows.append(self._row(line))
                places.append(number)
            except BadLine as error:
                answers[number] = self._refused(Refused(number, str(error), error.code))
                if not self._settings.skip:
                    break
        settled = self._settle(rows, places, answers)
        if settled < len(rows):
            answers |= self._answers(rows[settled:], places[settled:])
        for number in sorted(answers):
            self._answered += 1
            self._good += "error" not in answers[number]
            yield answers[number]
            if self._end is not None and self._end[0] == number:
                raise self._end[1]
            if "error" in answers[number] and not self._settings.skip:
                raise Stop(f"{_NAME}, line {number}: {answers[number]['error']}", DATA)

    def _row(self, line: Line) -> dict[str, Any]:
        """The object on a line; raise BadLine if there is none."""
        if isinstance(line, TooLong):
            raise BadLine(str(line), "too-long")
        return object_of(line.removeprefix(b"\xef\xbb\xbf"), self._numbers)

    # Which columns there are

    def _ask(self, columns: list[str]) -> Binding:
        known = None if self._ledger is None else self._ledger.rule
        settings = self._settings
        return ask(
            settings.rule,
            settings.quick,
            list(dict.fromkeys([*columns, *settings.beside])),  # a line may be without a model
            _NAME,
            settings.beside,
            known,
            trust_code=settings.trust_code,
        )

    def _settle(
        self, rows: list[dict[str, Any]], places: list[int], answers: dict[int, dict[str, Any]]
    ) -> int:
        """Have the first line that can be judged say which columns there are; its place in rows.

        Lines before it are refused. Nothing is settled by a line that would be refused later on,
        such as one about something else, since no line after it could be judged.
        """
        if self._binding is not None:
            return 0
        for i, (number, row) in enumerate(zip(places, rows, strict=True)):
            why = self._settled_by(row)
            if why is None:
                return i
            answers[number] = self._refused(Refused(number, why, "bad-decision"))
            if not self._settings.skip:
                break
        return len(rows)

    def _settled_by(self, row: dict[str, Any]) -> str | None:
        """Begin with the columns of a row; or why they cannot be the ones."""
        try:
            binding = self._ask(list(row))
        except BadTable as error:  # other columns may do; a rule that makes no sense ends it
            return str(error)
        arguments = binding.arguments_of_row
        try:
            if self._ledger is not None and self._ledger.rule is not None:
                self._ledger.begin(binding).check(*arguments(row))
            else:
                with Monitor(binding.rule) as trial:
                    trial.check(*arguments(row))
        except BadDecision as error:
            return reason(error)
        self._begin(binding)
        return None

    def _begin(self, binding: Binding) -> None:
        insist_on_models(binding.rule, self._settings.model_column)
        if self._ledger is None:
            self._monitor = Monitor(binding.rule, burst=self._settings.burst, comparable=True)
        else:
            self._monitor = self._ledger.begin(binding)
        self._judge = judge_with(self._monitor, binding, self._said_beside)
        self._binding = binding
        self._numbers = numbers_in(binding.types)

    def _said_beside(self, rows: Chunk) -> dict[str, Any]:
        """For `observe_many`: which model decided each, where a field says it, and keys."""
        column = self._settings.model_column
        models = {} if column is None else {"models": models_in(rows.table, column)}
        return models if self._ledger is None else models | self._ledger.keys(rows)

    # Verdicts

    def _answers(self, rows: list[dict[str, Any]], places: list[int]) -> dict[int, dict[str, Any]]:
        answers: dict[int, dict[str, Any]] = {}
        if self._ledger is not None:
            for i, number in enumerate(places):
                why = self._ledger.why_passed(number)
                if why is not None:
                    self._known += 1
                    answers[number] = {"line": number, "known": True, "error": why}
                    if not self._settings.skip:
                        rows, places = rows[:i], places[:i]
                        break
            rows = [row for row, number in zip(rows, places, strict=True) if number not in answers]
            places = [number for number in places if number not in answers]
        for outcome in sifted(Chunk(rows, np.array(places, dtype=np.int64)), self._judge):
            if isinstance(outcome, Unfit):
                bad = self._unfit(outcome)
                answers[bad.place] = self._refused(bad)
                if self._end is not None or not self._settings.skip:
                    break
            else:
                numbers = outcome.rows.places.tolist()
                for number, verdict in zip(numbers, outcome.answer, strict=True):
                    answers[number] = {"line": number, **self._told_of(verdict)}
        return answers

    def _unfit(self, outcome: Unfit[Chunk]) -> Refused:
        """Why a line cannot be judged; it ends all if it shows that this is other input."""
        bad = refused_row(outcome)
        other = None
        if self._ledger is not None:
            other = self._ledger.other_input(outcome.error, bad.place)
        if other is None:
            return bad
        why = f"{_NAME}, {other} Leave out --resume to go on with it."
        self._end = bad.place, Stop(why, DATA)
        return Refused(bad.place, why, other.code)

    def _told_of(self, verdict: Verdict) -> dict[str, Any]:
        """A verdict as an answer; it is counted."""
        assert self._binding is not None
        if verdict.known:
            self._known += 1
        else:
            self._rows += 1
            self._flagged += verdict.violation
            self._comparable += bool(verdict.comparable)
            self._alarms += verdict.alarm
        return answer(verdict, self._settings.most, keyed=self._binding.key is not None)

    def _refused(self, one: Refused) -> dict[str, Any]:
        self._bad += 1
        return {"line": one.place, "code": one.code, "error": one.why}

    @property
    def counts(self) -> WatchCounts:
        """How it went."""
        return WatchCounts(
            self._rows,
            self._flagged,
            self._comparable,
            self._alarms,
            self._known,
            self._bad,
            self._missing,
            self._at_least,
        )

    def close(self) -> None:
        if self._monitor is not None and not self._monitor.closed:
            with contextlib.suppress(BadFile):  # which `close` says as well
                self._missing = self._monitor.missing
                self._at_least = self._monitor.durable and lost_at_least(self._monitor.path)
        if self._ledger is not None:
            self._ledger.close()
        elif self._monitor is not None:
            self._monitor.close()


def _columns_of(rule: Rule) -> list[str]:
    """The columns that a rule names, its outputs last."""
    outputs = rule.output_column or ()
    return [*(rule.features or ()), *([outputs] if isinstance(outputs, str) else outputs)]
