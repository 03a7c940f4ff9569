"""Who got less, recomputed in plain pandas from all pairs of decisions."""

from typing import Any

import numpy as np

from tests.support.lazily import pandas as pd


def side_by_side(
    near: np.ndarray, group: pd.Series, score: pd.Series, one: Any, other: Any, delta: float = 0.0
) -> dict[str, Any]:
    """One group's side of a comparison; near: who is near whom, all against all.

    score: the larger, the better
    """
    a, b = np.flatnonzero(group == one), np.flatnonzero(group == other)
    pairs = pd.DataFrame(np.argwhere(near[np.ix_(a, b)]), columns=["mine", "theirs"])
    pairs["own"] = score.to_numpy()[a[pairs["mine"]]]
    pairs["like"] = score.to_numpy()[b[pairs["theirs"]]]
    pairs["less"] = pairs["like"] - pairs["own"] > delta
    each = pairs.groupby("mine").agg(
        own=("own", "first"), like=("like", "mean"), less=("less", "any")
    )
    return {
        "pairs": len(pairs),
        "less": int(pairs["less"].sum()),
        "comparable": len(each),
        "favourable": each["own"].mean() if len(each) else None,
        "got_less": int(each["less"].sum()),
        "like": each["like"].mean() if len(each) else None,
        "gap": (each["like"] - each["own"]).mean() if len(each) else None,
    }


def near_points(vectors: np.ndarray, near: Any) -> np.ndarray:
    """All against all: whether `near` holds, for two rows of vectors."""
    return np.array([[near(x, y) for y in vectors] for x in vectors], dtype=bool)
