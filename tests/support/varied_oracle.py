"""What a rule comes to, from all pairs of rows and with nothing of the package but the rule.

And a stream with every kind of column, to ask it of.
"""

import functools
import math

import numpy as np

import likewise as lw
from likewise.rule.variation import CHANGE_KINDS

SLACK = 1 + 1e-9


def outcome(rule, rows, outputs, count=None):
    """How many of the first rows are comparable, and how many contradict an earlier one."""
    rows, outputs = rows[:count], outputs[:count]
    near = distances(rule, rows) <= rule.epsilon * SLACK
    if rule.protected_must_differ:
        protected = [name for name, one in rule.features.items() if one.kind == "protected"]
        groups = [tuple(row[name] for name in protected) for row in rows]
        near &= np.array([[a != b for b in groups] for a in groups])
    near &= np.tril(np.ones_like(near), -1)
    differ = np.array([[a != b for b in outputs] for a in outputs])
    return int(near.any(axis=1).sum()), int((near & differ).any(axis=1).sum())


def distances(rule, rows):
    """Between every two rows, in units of tolerance."""
    parts = [
        _all_apart(one, tuple(row[name] for row in rows))
        for name, one in rule.features.items()
        if one.kind in ("number", "ordinal", "category")
    ]
    return together(rule.metric, np.array(parts))


@functools.lru_cache(maxsize=256)
def _all_apart(feature, values):
    return np.array([[_apart(feature, a, b) for b in values] for a in values])


def together(metric, parts):
    if metric == "linf":
        return parts.max(axis=0)
    return parts.sum(axis=0) if metric == "l1" else np.sqrt((parts**2).sum(axis=0))


def _apart(feature, a, b):
    if a is None or b is None:
        if feature.missing == "match" or (a is None and b is None):
            return 0.0
        return feature.mismatch if feature.mismatch is not None else math.inf
    if feature.kind == "category":
        cost = math.inf if feature.mismatch is None else feature.mismatch
        return 0.0 if a == b else cost
    if feature.kind == "ordinal":
        order = list(feature.order)
        return abs(order.index(a) - order.index(b)) / feature.tolerance
    if isinstance(feature.tolerance, str):
        if a == b:
            return 0.0
        if a * b <= 0:
            return math.inf
        percent = float(feature.tolerance[:-1])
        return abs(math.log(a / b)) / math.log(1 + percent / 100)
    return abs(a - b) / feature.tolerance


def changed(rule, column, how, **others):
    """The rule with one line changed, by hand: as somebody would edit its TOML."""
    features = {name: one.to_dict() for name, one in rule.features.items()}
    one, factor = features[column], {"halved": 0.5, "doubled": 2.0}.get(how)
    if how == "ignored":
        features[column] = {"kind": "ignore"}
    elif "mismatch" in one:
        one["mismatch"] /= factor
    elif isinstance(one.get("tolerance"), str):
        one["tolerance"] = f"{float(one['tolerance'][:-1]) * factor}%"
    elif one["kind"] == "category":
        return None
    else:
        one["tolerance"] = one.get("tolerance", 1) * factor
    return lw.Rule(
        rule.metric,
        rule.epsilon,
        features={name: lw.Feature(**given) for name, given in features.items()},
        output_column=rule.output_column,
        protected_must_differ=rule.protected_must_differ,
        **others,
    )


# A stream

N = 160
STEPS = ["low", "middle", "high", "top"]


def people(seed, count=N):
    """Every kind of column, some places empty."""
    random = np.random.default_rng(seed)

    def some(values, empty):
        gone = random.random(count) < empty
        return [None if no else one for one, no in zip(values, gone, strict=True)]

    columns = {
        "income": random.integers(0, 60, count).tolist(),
        "debt": random.choice([-20, 0, 0, 18, 20, 21, 22, 24, 40], count).tolist(),
        "grade": some(random.choice(STEPS, count).tolist(), 0.1),
        "home": random.choice(["own", "rent"], count, p=[0.7, 0.3]).tolist(),
        "job": some(random.choice(["a", "b", "c"], count).tolist(), 0.1),
        "months": some(random.integers(0, 20, count).tolist(), 0.15),
        "region": some(random.choice(["n", "s"], count).tolist(), 0.3),
        "sex": random.choice(["f", "m"], count).tolist(),
        "number": [f"k{i}" for i in range(count)],
        "note": ["?"] * count,
        "z": random.choice(["yes", "no"], count, p=[0.7, 0.3]).tolist(),
    }
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def rule_of(rows, seed, metric="linf", must_differ=False):
    """The tolerance of income is an even distance of real rows: its half is one, too."""
    income = np.array([row["income"] for row in rows], dtype=float)
    gaps = np.abs(income[:, None] - income)[np.tril_indices(len(rows), -1)]
    gaps = gaps[(gaps > 0) & (gaps < 13) & (gaps % 2 == 0)]
    radius = float(np.random.default_rng(seed).choice(gaps))
    return lw.Rule(
        metric,
        1.0 if metric == "linf" else 2.5,
        features={
            "income": lw.Feature("number", tolerance=radius),
            "debt": lw.Feature("number", tolerance="10%"),
            "grade": lw.Feature("ordinal", order=STEPS, tolerance=2, missing="mismatch"),
            "home": lw.Feature("category"),
            "job": lw.Feature("category", values=["a", "b", "c"], mismatch=1.5, missing="match"),
            "months": lw.Feature("number", tolerance=6, missing="mismatch"),
            "region": lw.Feature("category", missing="match"),
            "sex": lw.Feature("protected"),
            "number": lw.Feature("key"),
            "note": lw.Feature("ignore"),
        },
        output_column="z",
        protected_must_differ=must_differ,
    )  # fmt: skip


COMPARED = ["income", "debt", "grade", "home", "job", "months", "region"]


def expected(rule, rows, count=None):
    """By column and change, what it comes to; (None, None) for the rule as it is."""
    outputs = [row["z"] for row in rows]
    found = {(None, None): outcome(rule, rows, outputs, count)}
    for name in COMPARED:
        for how in CHANGE_KINDS:
            other = changed(rule, name, how)
            if other is not None:
                found[name, how] = outcome(other, rows, outputs, count)
    return found
