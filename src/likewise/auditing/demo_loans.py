"""This generates loan applicants for the demo, and models that decide about them.

Two logistic regressions learn from past decisions that were unfair to people born abroad. The
second, in use from UPDATED on, also sees the district; most people born abroad live in two of five.
Invariant: the same seed gives the same applicants, and decisions are the models' own.
Not here: real data. Findings hold for this stream and prove nothing about any other.
"""

import csv
import datetime
import io
from typing import Any

import numpy as np
import numpy.typing as npt

from likewise.tables.array_types import Floats

DECISIONS = 8_000
TRAINING = 12_000
UPDATED = 4_550  # the row from which the second model answers
SEED = 15
FIRST_DAY = datetime.date(2026, 1, 5)
A_DAY = 50  # applications
UPDATED_ON = FIRST_DAY + datetime.timedelta(days=UPDATED // A_DAY)  # a Monday, as FIRST_DAY is
DISTRICTS = ("Castle", "Garden", "Market", "Mill", "Harbour")
PURPOSES = ("home", "car", "study")
_BORN_ABROAD = 0.3
_LIVES_IN = {
    "born here": (0.32, 0.30, 0.26, 0.07, 0.05),
    "born abroad": (0.05, 0.06, 0.09, 0.36, 0.44),
}
_NEWTON_STEPS = 25  # from zero; after ten nothing changes any more
_UNFAIR = 24.0  # points that past decisions deducted from people born abroad

RULE = """\
# Similar applicants get the same answer. The district is no reason for another one.
metric = "linf"

[output]
column = "decision"
favourable = "approved"

[features.income] # a month
kind = "number"
tolerance = "5%"

[features.debt]
kind = "number"
tolerance = 1000

[features.age]
kind = "number"
tolerance = 5 # years

[features.months_employed]
kind = "number"
tolerance = 12

[features.purpose]
kind = "category" # must be the same

[features.birthplace]
kind = "protected" # not compared; groups are counted by it

[features.application]
kind = "key"

[features.applied]
kind = "ignore" # when; the report shows rates by it

[features.district]
kind = "ignore"
"""

Row = dict[str, Any]


class Applicants:
    """People who apply for a loan, column by column."""

    def __init__(self, count: int, random: np.random.Generator) -> None:
        self.income = np.round(np.exp(random.normal(8.0, 0.3, count)), -1)
        self.debt = np.round(random.gamma(2.0, 3_500.0, count), -2)
        self.age = np.clip(np.round(random.normal(40.0, 10.0, count)), 21, 69)
        self.employed = np.floor(np.minimum(random.exponential(72.0, count), 12 * (self.age - 18)))
        self.purpose = random.choice(PURPOSES, count)
        abroad = random.random(count) < _BORN_ABROAD
        self.birthplace = np.where(abroad, "born abroad", "born here")
        self.district = np.empty(count, dtype=np.int64)
        for place, shares in _LIVES_IN.items():
            born = self.birthplace == place
            self.district[born] = random.choice(len(DISTRICTS), int(born.sum()), p=shares)

    @property
    def merit(self) -> Floats:
        """Return the points that a fair decision would depend on."""
        points: Floats = self.income / 40 - self.debt / 200 + self.employed / 6
        return points

    def to_columns(self, *, district: bool) -> Floats:
        """Return the columns that a model sees."""
        numbers: list[npt.NDArray[Any]] = [self.income, self.debt, self.age, self.employed]
        if district:
            numbers += [(self.district == i).astype(np.float64) for i in range(len(DISTRICTS))]
        return np.column_stack(numbers)


def past_decisions(people: Applicants, random: np.random.Generator) -> npt.NDArray[np.bool_]:
    """Decide as people did before the models: by merit, mood, and place of birth."""
    mood = random.normal(0.0, 6.0, len(people.merit))
    unfair = _UNFAIR * (people.birthplace == "born abroad")
    approved: npt.NDArray[np.bool_] = people.merit + mood - unfair >= 35
    return approved


class LogisticRegression:
    """Predict approval by a weighted sum of standardised columns, fitted by Newton's method.

    It minimises the log-loss plus half the squared weights, as scikit-learn does by default.
    """

    def fit(self, seen: Floats, approved: npt.NDArray[np.bool_]) -> "LogisticRegression":
        self._centre, self._spread = seen.mean(axis=0), seen.std(axis=0)
        columns = self._columns(seen)
        penalty = np.eye(columns.shape[1])
        penalty[0, 0] = 0.0  # the intercept is free
        self.weights = np.zeros(columns.shape[1])
        for _ in range(_NEWTON_STEPS):
            chance = 1.0 / (1.0 + np.exp(-columns @ self.weights))
            slope = columns.T @ (chance - approved) + penalty @ self.weights
            curvature = (columns.T * (chance * (1.0 - chance))) @ columns + penalty
            self.weights -= np.linalg.solve(curvature, slope)
        return self

    def predict(self, seen: Floats) -> npt.NDArray[np.bool_]:
        approved: npt.NDArray[np.bool_] = self._columns(seen) @ self.weights > 0.0
        return approved

    def _columns(self, seen: Floats) -> Floats:
        return np.column_stack([np.ones(len(seen)), (seen - self._centre) / self._spread])


def generate_decisions(seed: int = SEED) -> list[Row]:
    """Return the decisions in order."""
    random = np.random.default_rng(seed)
    past, people = Applicants(TRAINING, random), Applicants(DECISIONS, random)
    approved_before = past_decisions(past, random)
    answers = []
    for district in (False, True):
        model = LogisticRegression().fit(past.to_columns(district=district), approved_before)
        answers.append(model.predict(people.to_columns(district=district)))
    updated = np.arange(DECISIONS) >= UPDATED
    approved = np.where(updated, answers[1], answers[0])
    return [
        {
            "application": f"A-{i:05}",
            "applied": (FIRST_DAY + datetime.timedelta(days=i // A_DAY)).isoformat(),
            "income": int(people.income[i]),
            "debt": int(people.debt[i]),
            "age": int(people.age[i]),
            "months_employed": int(people.employed[i]),
            "purpose": str(people.purpose[i]),
            "district": DISTRICTS[people.district[i]],
            "birthplace": str(people.birthplace[i]),
            "decision": "approved" if approved[i] else "declined",
        }
        for i in range(DECISIONS)
    ]


def to_csv(rows: list[Row]) -> bytes:
    """Return the decisions as a CSV file."""
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().encode()
