"""What `likewise watch` does with lines: objects, verdicts, answers.

Invariant: as many answers as lines, in their order; a blank line has none. No line ends the stream,
but for one that shows that this is other input than the ledger's (`--resume`). With a ledger, a
verdict is answered once it is on disk, and a decision that is there already is not judged again:
its answer is the one that was written.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from likewise.burst import Burst
from likewise.cli.endings import DATA, Stop
from likewise.cli.replay import Piece, about_the_row, check_with, judge_with, sifted
from likewise.cli.rules import Asked, Quick, ask
from likewise.cli.written import LINE, Written, answer
from likewise.errors import BadDecision
from likewise.monitors.robustness import Monitor
from likewise.rule import Rule
from likewise.sources.chunk import Places, Refused
from likewise.sources.json_lines import numbers_in, object_of
from likewise.sources.lines import Line, TooLong
from likewise.types import Verdict

_NAME = "standard input"


@dataclass(frozen=True)
class Settings:
    """How lines are judged and answered."""

    rule: Path | None
    quick: Quick
    skip: bool
    """Whether to go on after a line that cannot be judged."""
    most: int
    """Witnesses named in an answer."""
    burst: Burst | None = None
    trust_code: bool = False


class _EndsHere(Exception):
    """A line is refused, and nothing after it is to be judged."""


class Watcher:
    """A monitor that takes lines.

    Where the rule does not name the columns, the first line that can be judged does.
    """

    def __init__(self, settings: Settings, rule: Rule | None, written: Written | None) -> None:
        self._settings = settings
        self._written = written
        self._asked: Asked | None = None
        self._numbers: list[str] = []
        self._monitor: Any = None
        self._judge: Any = None
        self._end: tuple[int, Stop] | None = None  # the line that cannot be gone on after, and why
        self._rows = self._flagged = self._alarms = self._known = self._bad = 0
        self._answered = self._good = 0
        try:
            known = written.rule if rule is None and written is not None else rule
            if known is not None and known.features is not None:
                self._begin(self._ask(_columns_of(known)))
        except BaseException:
            self.close()
            raise

    @property
    def lines_before(self) -> int:
        """Lines of earlier runs, from which counting goes on."""
        return 0 if self._written is None else self._written.lines_before

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
            except ValueError as error:
                answers[number] = self._refused(Refused(number, str(error)))
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
        """The object on a line; raise ValueError if there is none."""
        if isinstance(line, TooLong):
            raise ValueError(str(line))
        row = object_of(line.removeprefix(b"\xef\xbb\xbf"), self._numbers)
        if LINE in row:
            raise ValueError(f"a column is called {LINE!r}; expected another name")
        return row

    # Which columns there are

    def _ask(self, columns: list[str]) -> Asked:
        known = None if self._written is None else self._written.rule
        settings = self._settings
        return ask(
            settings.rule,
            settings.quick,
            columns,
            _NAME,
            known=known,
            trust_code=settings.trust_code,
        )

    def _settle(
        self, rows: list[dict[str, Any]], places: list[int], answers: dict[int, dict[str, Any]]
    ) -> int:
        """Have the first line that can be judged say which columns there are; its place in rows.

        Lines before it are refused. Nothing is settled by a line that would be refused later on,
        such as one about something else, since no line after it could be judged.
        """
        if self._asked is not None:
            return 0
        for i, (number, row) in enumerate(zip(places, rows, strict=True)):
            why = self._settled_by(row)
            if why is None:
                return i
            answers[number] = self._refused(Refused(number, why))
            if not self._settings.skip:
                break
        return len(rows)

    def _settled_by(self, row: dict[str, Any]) -> str | None:
        """Begin with the columns of a row; or why they cannot be the ones."""
        try:
            asked = self._ask(list(row))
        except Stop as stop:
            if stop.code != DATA:
                raise  # the options make no rule, whatever the columns
            return str(stop)
        try:
            if self._written is not None and self._written.rule is not None:
                check_with(self._written.begin(asked), asked, row)
            else:
                with Monitor(asked.rule) as trial:
                    check_with(trial, asked, row)
        except BadDecision as error:
            return about_the_row(error)
        self._begin(asked)
        return None

    def _begin(self, asked: Asked) -> None:
        if self._written is None:
            self._monitor = Monitor(asked.rule, burst=self._settings.burst)
            self._judge = judge_with(self._monitor, asked)
        else:
            asked = replace(asked, beside=LINE)
            self._monitor = self._written.begin(asked)
            self._judge = judge_with(self._monitor, asked, self._written.settings)
        self._asked = asked
        self._numbers = numbers_in(asked.types)

    # Verdicts

    def _answers(self, rows: list[dict[str, Any]], places: list[int]) -> dict[int, dict[str, Any]]:
        answers: dict[int, dict[str, Any]] = {}
        if self._written is not None:
            for number, row in zip(places, rows, strict=True):
                row[LINE] = number
            self._written.prepare(rows)
            for i, (number, row) in enumerate(zip(places, rows, strict=True)):
                try:
                    before = self._written.answer(row, self._settings.most)
                except Stop as stop:  # this is other input: nothing after it is judged
                    answers[number] = self._refused(Refused(number, str(stop)))
                    self._end = number, stop
                    return answers
                if before is not None:
                    self._known += 1
                    answers[number] = {"line": number, **before}
                    if "error" in before and not self._settings.skip:
                        rows, places = rows[:i], places[:i]
                        break
            rows = [row for row, number in zip(rows, places, strict=True) if number not in answers]
            places = [number for number in places if number not in answers]

        def refuse(one: Refused) -> None:
            answers[one.place] = self._refused(one)
            if not self._settings.skip:
                raise _EndsHere

        numbers: Places = np.array(places, dtype=np.int64)
        with suppress(_EndsHere):
            for piece in sifted(Piece(None, rows, numbers), self._judge, refuse):
                for number, verdict in zip(piece.places.tolist(), piece.answer, strict=True):
                    answers[number] = {"line": number, **self._told_of(verdict)}
        return answers

    def _told_of(self, verdict: Verdict) -> dict[str, Any]:
        """A new verdict as an answer; it is counted."""
        self._rows += 1
        self._flagged += verdict.violation
        self._alarms += verdict.alarm
        nearest, count = verdict.witnesses.nearest(self._settings.most), len(verdict.witnesses)
        assert verdict.row is not None
        told = answer(verdict.row, self._key(verdict.row), count, nearest, self._key)
        return {**told, **self._burst(verdict)}

    def _burst(self, verdict: Verdict) -> dict[str, Any]:
        if self._settings.burst is None:
            return {}
        return {"neighbours": verdict.neighbours, "alarm": verdict.alarm}

    def _key(self, row: int) -> dict[str, Any]:
        assert self._asked is not None
        if self._asked.key is None:
            return {}
        memory = self._monitor if self._written is None else self._monitor.memory
        return {"key": memory.keys([row])[0]}

    def _refused(self, one: Refused) -> dict[str, Any]:
        self._bad += 1
        return {"line": one.place, "error": one.why}

    def told(self) -> str:
        """How it went."""
        alarms = f", {self._alarms:,} raise an alarm" if self._alarms else ""
        known = f", {self._known:,} that the ledger had already" if self._known else ""
        lines = "line" if self._bad == 1 else "lines"
        bad = f", {self._bad:,} {lines} that could not be judged" if self._bad else ""
        flagged = f"{self._flagged:,} contradict an earlier one"
        return f"{self._rows:,} decisions, {flagged}{alarms}{known}{bad}"

    def close(self) -> None:
        if self._written is not None:
            self._written.close()
        elif self._monitor is not None:
            self._monitor.close()


def _columns_of(rule: Rule) -> list[str]:
    """The columns that a rule names, its outputs last."""
    outputs = rule.output_column or ()
    return [*(rule.features or ()), *([outputs] if isinstance(outputs, str) else outputs)]
