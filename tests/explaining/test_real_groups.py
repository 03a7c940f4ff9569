"""The numbers of the group table on real people equal a plain pandas recomputation.

The data is not part of the project: the folder is LIKEWISE_DATA, else ../shared/data beside the
checkout, and without it these tests say that they were skipped.
"""

import os
import runpy
import time
from pathlib import Path

import numpy as np
import pytest

import likewise as lw
from likewise.explaining.compare_groups import compare_groups
from likewise.verdict.group_effects import OTHERS
from tests.support.group_oracle import side_by_side
from tests.support.lazily import pandas as pd

ROOT = Path(__file__).resolve().parents[2]
PEOPLE = runpy.run_path(str(ROOT / "examples" / "people.py"))
FOLDER = Path(os.environ.get("LIKEWISE_DATA") or ROOT.parent / "shared" / "data")
NAMES = ("adult", "compas", "acs")
HERE = all((FOLDER / PEOPLE["FILES"][name]).is_file() for name in NAMES)
ROWS = {"adult": 9_000, "compas": 7_214, "acs": 9_000}

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not HERE, reason="the folder of real data is not here"),
]


def all_near(rule: lw.Rule, table: pd.DataFrame) -> np.ndarray:
    """All against all, by the words of the rule alone; for linf."""
    near = np.ones((len(table), len(table)), dtype=bool)
    for name, feature in rule.features.items():
        if feature.kind == "category":
            codes = pd.factorize(table[name])[0]
            near &= codes[:, None] == codes[None]  # a missing value is like another one
        elif feature.kind == "number":
            x = table[name].to_numpy(float)
            if feature.ratio is None:
                near &= np.abs(x[:, None] - x[None]) <= feature.tolerance * (1 + 1e-9)
            else:
                small = np.minimum(x[:, None], x[None])
                large = np.maximum(x[:, None], x[None])
                near &= (small == large) | ((small > 0) & (large <= feature.ratio * small + 1e-9))
    return near


@pytest.mark.parametrize("name", NAMES)
def test_group_table_equals_a_plain_recomputation(name):
    table = PEOPLE["LOADERS"][name](FOLDER / PEOPLE["FILES"][name])[: ROWS[name]]
    rule = PEOPLE["rule_of"](name)
    assert rule.metric == "linf" and rule.epsilon == 1
    monitor = lw.Monitor(rule)
    monitor.observe_many(table)
    near = all_near(rule, table)
    score = (table[rule.output_column] == rule.favourable).astype(float)
    looked_at = 0
    for groups in compare_groups(monitor.past, range(len(table)), shuffles=50):
        column = table[groups.column]
        assert groups.without_group == int(column.isna().sum())
        for pair in groups.comparisons:
            values = pair.one.group.value, pair.other.group.value
            if OTHERS in values:
                continue
            for side, names, less in (
                (pair.one, values, pair.one_less),
                (pair.other, values[::-1], pair.other_less),
            ):
                told = side_by_side(near, column, score, *names)
                assert (pair.pairs, less) == (told["pairs"], told["less"])
                assert (side.comparable, side.got_less) == (told["comparable"], told["got_less"])
                assert side.favourable == pytest.approx(told["favourable"])
                assert side.gap == pytest.approx(told["gap"])
            looked_at += pair.pairs > 1_000
    assert looked_at >= 2


def test_identical_people_of_the_whole_census_equal_a_plain_group_by():
    table = PEOPLE["acs"](FOLDER / PEOPLE["FILES"]["acs"])
    rule = PEOPLE["rule_of"]("acs")
    same = [name for name in table if name not in ("SEX", "RAC1P", "pred")]
    exact = lw.Rule(
        features=rule.features, output_column="pred", favourable=rule.favourable, epsilon=1e-6
    )
    monitor = lw.Monitor(exact)
    monitor.observe_many(table)
    began = time.perf_counter()
    groups = compare_groups(monitor.past, range(len(table)), ["SEX"])[0]
    assert time.perf_counter() - began < 30
    pair = groups.find_comparison(1.0, 2.0)
    table["good"] = (table["pred"] == rule.favourable).astype(float)
    cells = table.groupby([*same, "SEX"])["good"].agg(["size", "sum"]).unstack(fill_value=0)
    one, other = pair.one.group.value, pair.other.group.value
    n, s = (cells["size"][one], cells["size"][other]), (cells["sum"][one], cells["sum"][other])
    assert pair.pairs == int((n[0] * n[1]).sum()) > 1_000_000
    assert pair.one_less == int(((n[0] - s[0]) * s[1]).sum())
    assert pair.other_less == int(((n[1] - s[1]) * s[0]).sum())
    both = (n[0] > 0) & (n[1] > 0)
    assert pair.one.comparable == int(n[0][both].sum())
    gap = (n[0] * (s[1] / n[1]) - s[0])[both].sum() / n[0][both].sum()
    assert pair.one.gap == pytest.approx(gap)
    # identical people are one neighbourhood, so the test's difference has a plain form too
    weight = (n[0] * n[1] / (n[0] + n[1]))[both]
    apart = (s[1] / n[1] - s[0] / n[0])[both]
    assert pair.test.difference == pytest.approx((weight * apart).sum() / weight.sum())
    assert pair.test.neighbourhoods == int(both.sum())


def test_whole_census_is_compared_in_little_time():
    table = PEOPLE["acs"](FOLDER / PEOPLE["FILES"]["acs"])
    monitor = lw.Monitor(PEOPLE["rule_of"]("acs"))
    monitor.observe_many(table)
    began = time.perf_counter()
    compared = compare_groups(monitor.past, range(len(table)))
    assert time.perf_counter() - began < 30
    assert all(
        one.test.shuffles >= 1_000 for groups in compared for one in groups.comparisons if one.test
    )
