"""Applications for loans, and which two of them count for each other, worked out in NumPy.

Two count unless they are of one person, too far apart in time, or of models that are not compared.
Ages are whole numbers and the tolerance is one of their differences, times are whole days and the
span is one of theirs, so pairs lie on both boundaries.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import likewise as lw
from tests.support.oracle import same_or_not

COUNT = 400
SPAN = 9
DAY = 86_400_000_000
NAMES = ("credit-6", "credit-7", "crédit 8", None)


@dataclass(frozen=True)
class Conditions:
    """What makes two decisions count."""

    compare: str = "all"
    person: bool = False
    within: bool = False

    def __str__(self) -> str:
        return f"{self.compare} models" + ", person" * self.person + ", within" * self.within


EVERY = [
    Conditions(compare, person, within)
    for compare in ("all", "within", "across")
    for person in (False, True)
    for within in (False, True)
    if (compare, person, within) != ("all", False, False)
]
every_condition = pytest.mark.parametrize("conditions", EVERY, ids=str)


@dataclass(frozen=True)
class LoanPairs:
    """Decisions, and which of two count for each other."""

    rows: list[dict[str, Any]]
    times: np.ndarray
    models: list[str | None]
    near: np.ndarray
    differ: np.ndarray

    @property
    def like(self) -> np.ndarray:
        """[later, earlier]"""
        return np.tril(self.near, -1)

    @property
    def contradict(self) -> np.ndarray:
        return self.like & self.differ


def choose_models(seed: int, count: int, names: tuple = NAMES) -> list[str | None]:
    """In runs or at random, some of them without a name."""
    rng = np.random.default_rng(seed)
    chosen = names[: rng.integers(2, len(names) + 1)] if rng.random() < 0.5 else names
    if rng.random() < 0.3:
        return [chosen[i * len(chosen) // count] for i in range(count)]
    return [chosen[i] for i in rng.integers(0, len(chosen), count)]


def draw_loans(conditions: Conditions, output: str = "label") -> LoanPairs:
    """The same decisions whatever the conditions."""
    rng = np.random.default_rng(1)
    age = rng.integers(20, 220, COUNT)
    job = rng.integers(0, 3, COUNT)
    who = rng.integers(0, 60, COUNT).astype(object)
    age = np.where(rng.random(COUNT) < 0.7, 20 + who * 3, age).astype(int)
    job = np.where(rng.random(COUNT) < 0.8, who % 3, job).astype(int)
    who[rng.random(COUNT) < 0.15] = None
    sex = np.array([(one if one is not None else i) % 2 for i, one in enumerate(who)])
    days = np.sort(rng.integers(0, 60, COUNT))
    score = rng.integers(0, 4, COUNT)
    models = choose_models(3, COUNT)
    rows = [
        {
            "age": int(age[i]),
            "job": f"job {job[i]}",
            "who": who[i],
            "sex": "f" if sex[i] else "m",
            "z": float(score[i]) if output == "number" else "yes" if score[i] > 1 else "no",
        }
        for i in range(COUNT)
    ]
    near = (np.abs(age[:, None] - age) <= 3) & (job[:, None] == job)
    near &= np.array([same_or_not(conditions.compare, models, one) for one in models])
    if conditions.person:
        known = np.array([one is not None for one in who])
        near &= ~((who[:, None] == who) & known[:, None] & known)
    if conditions.within:
        near &= np.abs(days[:, None] - days) <= SPAN
    z = np.array([row["z"] for row in rows])
    differ = np.abs(z[:, None] - z) > 1 if output == "number" else z[:, None] != z
    return LoanPairs(rows, (days * DAY).astype("datetime64[us]"), models, near, differ)


def rule_of_loans(
    conditions: Conditions, output: str = "label", missing: str = "mismatch"
) -> lw.Rule:
    who = {"kind": "person", "missing": missing} if conditions.person else {"kind": "ignore"}
    return lw.Rule(
        features={
            "age": {"kind": "number", "tolerance": 3},
            "job": {"kind": "category"},
            "who": who,
            "sex": {"kind": "protected"},
        },
        output_column="z",
        output=output,
        delta=1.0 if output == "number" else 0.0,
        favourable="high" if output == "number" else "yes",
        compare=conditions.compare,
    )


def monitor_of_loans(conditions: Conditions, output: str = "label", **settings) -> lw.Monitor:
    rule = rule_of_loans(conditions, output)
    span = f"{SPAN} days" if conditions.within else None
    return lw.Monitor(rule, comparable=True, within=span, **settings)


def rows_in(pairs: np.ndarray) -> list[list[int]]:
    """The earlier rows of each later one."""
    return [np.flatnonzero(line).tolist() for line in pairs]
