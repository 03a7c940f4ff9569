"""A model of who gets a loan, and two hundred applicants: both the same each time."""

import numpy as np
from sklearn.tree import DecisionTreeClassifier

SEED = 176


def trained() -> DecisionTreeClassifier:
    """A tree that has learnt noisy decisions by heart, so that near cases may differ."""
    rng = np.random.default_rng(SEED)
    x = rng.random((400, 2))
    likely = 1 / (1 + np.exp(-8 * (x[:, 0] - x[:, 1])))
    z = np.where(rng.random(400) < likely, "yes", "no")
    return DecisionTreeClassifier(random_state=0).fit(x, z)


def applicants(count: int = 200) -> list[dict[str, object]]:
    """Many are alike: each is one of fifty kinds of people, give or take a little."""
    rng = np.random.default_rng(SEED + 1)
    kinds = rng.random((50, 2))
    inputs = (kinds[rng.integers(0, 50, count)] + rng.normal(0, 0.01, (count, 2))).round(3)
    return [
        {"id": f"applicant {i}", "income": float(income), "debt": float(debt)}
        for i, (income, debt) in enumerate(inputs)
    ]
