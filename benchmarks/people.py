"""Tables of people, with a rule for their columns: Census-Income and the American Community Survey.

Numbers are near within a tenth of their usual spread, ages within 5 years; every category must
match but those that only say where someone lived or was born before, which are ignored.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import likewise as lw

Array = NDArray[Any]
CENSUS, ACS = "census_kdd_299k.npz", "acs_ma_2015_2017.npz"
_NUMBERS = {
    "age": 5,
    "wage_per_hour": 200,
    "capital_gains": 1_000,
    "capital_losses": 500,
    "dividends": 500,
    "num_persons_employer": 1,
    "weeks_worked": 4,
}


@dataclass(frozen=True)
class People:
    """A table as structured rows, its rule, and how many columns it has."""

    name: str
    table: Array
    outputs: Array
    rule: lw.Rule
    columns: int


def _table(columns: dict[str, Array]) -> Array:
    kinds = [(name, column.dtype) for name, column in columns.items()]
    table = np.empty(len(next(iter(columns.values()))), dtype=kinds)
    for name, column in columns.items():
        table[name] = column
    return table


def census(path: Path) -> People:
    with np.load(path, allow_pickle=False) as file:
        columns = dict(zip(file["num_cols"].tolist(), file["num"].T, strict=True))
        columns |= dict(zip(file["cat_cols"].tolist(), file["cat"].T, strict=True))
        outputs = file["y"].astype(np.int64)
    features: dict[str, Any] = {
        name: {"kind": "number", "tolerance": tolerance} for name, tolerance in _NUMBERS.items()
    }
    for name in columns:
        if name not in features:
            kind = "protected" if name in ("sex", "race", "hispanic") else "category"
            features[name] = {"kind": kind}
    rule = lw.Rule(features=features, output_column="y")
    return People("Census-Income", _table(columns), outputs, rule, len(columns))


def acs(path: Path) -> People:
    with np.load(path, allow_pickle=False) as file:
        columns = dict(zip(file["columns"].tolist(), file["x"].T, strict=True))
        outputs = file["pred"].astype(np.int64)
    features = {
        name: {"kind": "protected"}
        if name in ("SEX", "RAC1P")
        else {"kind": "number", "tolerance": {"AGEP": 5, "SCHL": 2}[name]}
        if name in ("AGEP", "SCHL")
        else {"kind": "category"}
        for name in columns
    }
    rule = lw.Rule(features=features, output_column="pred")
    return People("American Community Survey", _table(columns), outputs, rule, len(columns))
