"""What `likewise watch` does with lines: objects, verdicts, answers.

Invariant: as many answers as lines, in their order; a blank line has none.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from likewise.cli.endings import DATA, Stop
from likewise.cli.replay import Piece, judge_with, sifted
from likewise.cli.rules import Asked, Quick, ask
from likewise.monitors.robustness import Monitor
from likewise.sources.chunk import Refused
from likewise.sources.json_lines import object_of
from likewise.types import Verdict

_NAME = "standard input"


class Watcher:
    """A monitor that takes lines. The rule made up from options is settled by the first of them."""

    def __init__(self, rule: Path | None, quick: Quick, *, skip: bool, most: int) -> None:
        self._rule, self._quick = rule, quick
        self._skip, self._most = skip, most
        self._asked: Asked | None = None
        self._monitor: Any = None
        self._flagged = 0
        self._rows = 0
        self._bad = 0

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
                if not self._skip:
                    break
        if rows:
            answers |= self._verdicts(rows, np.array(places, dtype=np.int64))
        for number in sorted(answers):
            yield answers[number]
            if "error" in answers[number] and not self._skip:
                raise Stop(f"{_NAME}, line {number}: {answers[number]['error']}", DATA)

    def _verdicts(self, rows: list[dict[str, Any]], places: Any) -> dict[int, dict[str, Any]]:
        if self._asked is None:
            self._asked = ask(self._rule, self._quick, list(rows[0]), _NAME)
            self._monitor = Monitor(self._asked.rule)
        answers: dict[int, dict[str, Any]] = {}

        def refuse(one: Refused) -> None:
            answers[one.place] = self._refused(one)

        judge = judge_with(self._monitor, self._asked)
        for piece in sifted(Piece(None, rows, places), judge, refuse):
            for number, verdict in zip(piece.places.tolist(), piece.answer, strict=True):
                answers[number] = self._answer(number, verdict)
            if self._bad and not self._skip:
                break  # what follows the bad line is not judged
        return answers

    def _answer(self, number: int, verdict: Verdict) -> dict[str, Any]:
        assert self._asked is not None
        self._rows += 1
        self._flagged += verdict.violation
        keyed = self._asked.key is not None
        witnesses = []
        for one in verdict.witnesses.nearest(self._most):
            key = {"key": self._monitor.keys([one.row])[0]} if keyed else {}
            distances = {
                "input_distance": one.input_distance,
                "output_distance": one.output_distance,
            }
            witnesses.append({"row": one.row, **key, **distances})
        return {
            "line": number,
            "row": verdict.row,
            **({"key": self._monitor.keys([verdict.row])[0]} if keyed else {}),
            "violation": verdict.violation,
            "count": len(verdict.witnesses),
            "witnesses": witnesses,
        }

    def _refused(self, one: Refused) -> dict[str, Any]:
        self._bad += 1
        return {"line": one.place, "error": one.why}

    def told(self) -> str:
        """How it went."""
        bad = f", {self._bad:,} lines that could not be judged" if self._bad else ""
        return f"{self._rows:,} decisions, {self._flagged:,} contradict an earlier one{bad}"

    def close(self) -> None:
        if self._monitor is not None:
            self._monitor.close()
