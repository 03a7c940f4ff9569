"""`likewise demo`: a generated stream of loan decisions, watched one at a time.

Applicants apply at five branches and a model answers them. From row PLANTED on, one branch
overrules the model. The monitor sees applicants and answers only: no model, no branch.

Invariant: the same seed gives the same stream, and every number on the page comes from a verdict.
Cost: 5,000 decisions; on a machine's first use, the wait for the compiler.
Not here: real data. What is found is true of this stream and proves nothing about any other.
"""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Timer

import numpy as np
import numpy.typing as npt

from likewise.rule import Rule
from likewise.types import Floats, Verdict, Witness

DECISIONS = 5_000
PLANTED = 3_000
SEED = 4
COLUMNS = ("income a month", "debt", "age", "years employed")
TOLERANCES = (100.0, 1_000.0, 3.0, 1.0)  # in the columns' own units: what still counts as near
BRANCHES = ("Castle", "Garden", "Market", "Station", "Harbour")
HARBOUR = 4
_STEP = 500  # rows in one line of the table
_PATIENCE = 2.5  # seconds; loading compiled kernels takes less, compiling them takes more

RULE = Rule(metric="linf", epsilon=1.0, weights=[1 / tolerance for tolerance in TOLERANCES])


@dataclass(frozen=True)
class Stream:
    """Applicants in order of arrival, with what the model said and what they were told."""

    applicants: Floats
    branches: npt.NDArray[np.int64]
    model: list[str]
    answers: list[str]


def stream(seed: int = SEED) -> Stream:
    """Five thousand applicants, and one branch that overrules the model from row PLANTED on."""
    random = np.random.default_rng(seed)
    income = np.round(np.exp(random.normal(8.0, 0.35, DECISIONS)), -1)
    debt = np.round(random.gamma(2.0, 4_000.0, DECISIONS), -2)
    age = np.clip(np.round(random.normal(42.0, 12.0, DECISIONS)), 21, 69)
    employed = np.floor(np.minimum(random.exponential(6.0, DECISIONS), age - 18))
    branches = random.integers(0, len(BRANCHES), DECISIONS)

    approved = income / 40 - debt / 200 + 2 * employed >= 20
    overruled = approved & (branches == HARBOUR) & (random.random(DECISIONS) < 0.5)
    overruled[:PLANTED] = False
    return Stream(
        np.column_stack([income, debt, age, employed]),
        branches,
        _words(approved),
        _words(approved & ~overruled),
    )


def _words(approved: npt.NDArray[np.bool_]) -> list[str]:
    return ["approved" if yes else "declined" for yes in approved.tolist()]


def watch(applicants: Floats, answers: Sequence[str]) -> list[Verdict]:
    """The verdict on each decision, as it comes."""
    from likewise.monitors.robustness import Monitor  # loads the compiler

    monitor = Monitor(RULE)
    return [monitor.observe(x, z) for x, z in zip(applicants, answers, strict=True)]


def run() -> int:
    """Watch the stream and print what was found."""
    seen = stream()
    print(_beginning(), flush=True)
    with _patience():
        verdicts = watch(seen.applicants, seen.answers)
        model_alone = watch(seen.applicants, seen.model)
    print(_findings(seen, verdicts, model_alone))
    print(_pairs(seen, verdicts))
    print(_NEXT)
    return 0


@contextmanager
def _patience() -> Iterator[None]:
    """Say so on stderr if the work takes long: then kernels are being compiled."""
    timer = Timer(_PATIENCE, print, ["compiling, once per machine ...\n"], {"file": sys.stderr})
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


# The page


def _beginning() -> str:
    income, debt, age, employed = (f"{tolerance:,.0f}" for tolerance in TOLERANCES)
    return f"""\
{DECISIONS:,} generated loan decisions, watched one at a time.

Near means: income within {income} a month, debt within {debt}, age within {age} years,
years employed within {employed}. Near applicants should get the same answer.

Planted: from row {PLANTED:,} on, the branch {BRANCHES[HARBOUR]} declines about half of those whom
the model approves. The monitor knows neither the model nor the branch.
"""


def _findings(seen: Stream, verdicts: list[Verdict], model_alone: list[Verdict]) -> str:
    violations = np.array([verdict.violation for verdict in verdicts])
    pairs = sum(len(verdict.witnesses) for verdict in verdicts)
    alone = np.array([verdict.violation for verdict in model_alone])
    after = np.arange(DECISIONS) >= PLANTED
    harbour = seen.branches == HARBOUR
    lines = [
        f"Found: {violations.sum():,} decisions contradict an earlier one, in {pairs:,} pairs.",
        "",
    ]
    for start in range(0, DECISIONS, _STEP):
        count = int(violations[start : start + _STEP].sum())
        bar = "#" * ((count + 1) // 2)
        lines.append(f"  rows {start:5,} to {start + _STEP - 1:5,}  {count:4}  {bar}".rstrip())
    lines += [
        "",
        f"Before row {PLANTED:,}, {_share(violations, ~after)} of the decisions are violations;"
        f" from there on {_share(violations, after)}",
        f"({_share(violations, after & harbour)} at {BRANCHES[HARBOUR]},"
        f" {_share(violations, after & ~harbour)} elsewhere). Had {BRANCHES[HARBOUR]}"
        f" followed the model: {_share(alone, after)}.",
        "(Any threshold parts some who are near, and more of them as the past grows.)",
    ]
    return "\n".join(lines) + "\n"


def _share(violations: npt.NDArray[np.bool_], where: npt.NDArray[np.bool_]) -> str:
    return f"{violations[where].mean():.1%}"


def nearest_pairs(verdicts: list[Verdict], count: int = 3) -> list[tuple[int, Witness]]:
    """The violations whose nearest witness is nearest: their rows, and that witness."""
    found = [
        (row, verdict.witnesses.nearest(1)[0])
        for row, verdict in enumerate(verdicts)
        if verdict.violation
    ]
    return sorted(found, key=lambda pair: (pair[1].input_distance, pair[0]))[:count]


def _pairs(seen: Stream, verdicts: list[Verdict]) -> str:
    """The clearest pairs, side by side."""
    pairs = nearest_pairs(verdicts)

    def line(name: str, cells: Sequence[str]) -> str:
        wide = zip(cells[::2], cells[1::2], strict=True)
        return f"  {name:14}" + " ".join(f"{one:>10} {two:>9}" for one, two in wide)

    rows = [row for later, witness in pairs for row in (witness.row, later)]
    lines = [
        f"The {len(pairs)} nearest pairs, the earlier decision on the left:",
        "",
        line("row", [f"{row:,}" for row in rows]),
    ]
    for j, column in enumerate(COLUMNS):
        lines.append(line(column, [f"{seen.applicants[row, j]:,.0f}" for row in rows]))
    lines += [
        line("branch", [BRANCHES[seen.branches[row]] for row in rows]),
        line("answer", [seen.answers[row] for row in rows]),
        line("distance", [cell for _, w in pairs for cell in ("", f"{w.input_distance:.2f}")]),
        "",
        "A distance of 1 is as far apart as near allows.",
    ]
    return "\n".join(lines) + "\n"


_NEXT = """\
Try next, in Python (README.md explains each word):

  import likewise as lw
  rule = lw.Rule(metric="linf", epsilon=1, weights=[1/100, 1/1000, 1/3, 1])
  monitor = lw.Monitor(rule)
  monitor.observe([3100, 8000, 41, 7], "approved")
  verdict = monitor.observe([3150, 8200, 40, 7], "declined")
  print(verdict.violation, verdict.witnesses.rows)
  print(monitor.explain())"""
