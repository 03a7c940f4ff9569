"""What `likewise watch` does with lines: objects, verdicts, answers.

Invariant: as many answers as lines, in their order; a blank line has none. With a ledger, a verdict
is answered once it is on disk, and a decision that is there already is not judged again: its answer
is the one that was written.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from likewise.burst import Burst
from likewise.cli.endings import DATA, Stop
from likewise.cli.replay import Piece, judge_with, sifted
from likewise.cli.rules import Asked, Quick, ask
from likewise.cli.written import LINE, Written, answer
from likewise.monitors.robustness import Monitor
from likewise.sources.chunk import Places, Refused
from likewise.sources.json_lines import object_of
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


class Watcher:
    """A monitor that takes lines. A rule made up from options is settled by the first of them."""

    def __init__(self, settings: Settings, written: Written | None = None) -> None:
        self._settings = settings
        self._written = written
        self._asked: Asked | None = None
        self._monitor: Any = None
        self._judge: Any = None
        self._rows = self._flagged = self._alarms = self._known = self._bad = 0

    @property
    def lines_before(self) -> int:
        """Lines of earlier runs, from which counting goes on."""
        return 0 if self._written is None else self._written.lines_before

    def judged(self, first: int, lines: Sequence[bytes]) -> Iterator[dict[str, Any]]:
        """The answers to some lines, of which the first has this number."""
        rows, places = [], []
        answers: dict[int, dict[str, Any]] = {}
        for number, line in enumerate(lines, first):
            if not line.strip():
                continue
            try:
                rows.append(object_of(line.removeprefix(b"\xef\xbb\xbf")))
                places.append(number)
            except ValueError as error:
                answers[number] = self._refused(Refused(number, str(error)))
                if not self._settings.skip:
                    break
        if rows:
            self._begin(list(rows[0]))
            answers |= self._answers(rows, places)
        for number in sorted(answers):
            yield answers[number]
            if "error" in answers[number] and not self._settings.skip:
                raise Stop(f"{_NAME}, line {number}: {answers[number]['error']}", DATA)

    def _begin(self, columns: list[str]) -> None:
        if self._asked is not None:
            return
        settings = self._settings
        known = None if self._written is None else self._written.rule
        asked = ask(
            settings.rule,
            settings.quick,
            columns,
            _NAME,
            known=known,
            trust_code=settings.trust_code,
        )
        if self._written is None:
            self._monitor = Monitor(asked.rule, burst=settings.burst)
            self._judge = judge_with(self._monitor, asked)
        else:
            asked = replace(asked, beside=LINE)
            self._monitor = self._written.begin(asked)
            self._judge = judge_with(self._monitor, asked, self._written.settings)
        self._asked = asked

    def _answers(self, rows: list[dict[str, Any]], places: list[int]) -> dict[int, dict[str, Any]]:
        answers: dict[int, dict[str, Any]] = {}
        if self._written is not None:
            for number, row in zip(places, rows, strict=True):
                row[LINE] = number
            self._written.prepare(rows)
            for number, row in zip(places, rows, strict=True):
                before = self._written.answer(row, self._settings.most)
                if before is not None:
                    self._known += 1
                    answers[number] = {"line": number, **before}
            rows = [row for row, number in zip(rows, places, strict=True) if number not in answers]
            places = [number for number in places if number not in answers]

        def refuse(one: Refused) -> None:
            answers[one.place] = self._refused(one)

        numbers: Places = np.array(places, dtype=np.int64)
        for piece in sifted(Piece(None, rows, numbers), self._judge, refuse):
            for number, verdict in zip(piece.places.tolist(), piece.answer, strict=True):
                self._rows += 1
                self._flagged += verdict.violation
                self._alarms += verdict.alarm
                nearest = verdict.witnesses.nearest(self._settings.most)
                count = len(verdict.witnesses)
                answers[number] = {
                    "line": number,
                    **answer(verdict.row, self._key(verdict.row), count, nearest, self._key),
                    **self._burst(verdict),
                }
            if self._bad and not self._settings.skip:
                break  # what follows the bad line is not judged
        return answers

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
        bad = f", {self._bad:,} lines that could not be judged" if self._bad else ""
        flagged = f"{self._flagged:,} contradict an earlier one"
        return f"{self._rows:,} decisions, {flagged}{alarms}{known}{bad}"

    def close(self) -> None:
        if self._written is not None:
            self._written.close()
        elif self._monitor is not None:
            self._monitor.close()
