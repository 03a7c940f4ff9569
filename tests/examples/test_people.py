"""The rules for public data sets read as they are meant, and the script counts what is there.

The data is not part of the project: the folder is LIKEWISE_DATA, else ../shared/data beside the
checkout, and without it the slow tests say that they were skipped.
"""

import gzip
import itertools
import os
import re
import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import likewise as lw
from likewise import Feature
from tests.support.lazily import pandas as pd
from tests.support.programs import run_python
from tests.support.refusals import raises

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("example people")]

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "examples" / "people.py"
PEOPLE = runpy.run_path(str(SCRIPT))
NAMES = list(PEOPLE["FILES"])
FOLDER = Path(os.environ.get("LIKEWISE_DATA") or ROOT.parent / "shared" / "data")
HERE = all((FOLDER / file).is_file() for file in PEOPLE["FILES"].values())


def real(test: Any) -> Any:
    skip = pytest.mark.skipif(not HERE, reason="the folder of real data is not here")
    return pytest.mark.slow(skip(test))


# The rules


def person(rule: lw.Rule, key: int, output: Any) -> dict[str, Any]:
    """Somebody whom the rule can read."""
    row = {rule.output_column: output}
    for name, feature in rule.features.items():
        listed = feature.order or feature.values
        row[name] = {"number": 40, "key": key}.get(feature.kind, listed[0] if listed else "some")
    return row


def moved(feature: Feature, tolerances: float) -> Any:
    """40, so many tolerances away."""
    if feature.ratio is not None:
        return 40 * feature.ratio**tolerances
    return 40 + tolerances * feature.tolerance


@pytest.mark.parametrize("name", NAMES)
def test_rule_reads_and_survives_being_written(name):
    rule = PEOPLE["rule_of"](name)
    assert lw.Rule.from_toml(rule.to_toml()) == rule
    assert rule.favourable is not None
    assert rule.features[PEOPLE["GROUPS"][name]].kind == "protected"


def test_every_rule_belongs_to_a_data_set():
    assert {path.stem for path in PEOPLE["RULES"].glob("*.toml")} == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_rule_fits_people_near_and_far(name):
    rule = PEOPLE["rule_of"](name)
    monitor = lw.Monitor(rule)
    keys = itertools.count()
    first = person(rule, next(keys), rule.favourable)
    monitor.observe(first)

    def contradicts(**change: Any) -> bool:
        return monitor.check(person(rule, next(keys), "another") | change).violation

    assert contradicts()
    for column, feature in rule.features.items():
        if feature.kind == "number":
            assert contradicts(**{column: moved(feature, 0.99 * rule.epsilon)})
            assert not contradicts(**{column: moved(feature, 1.01 * rule.epsilon)})
        elif feature.kind == "category" and feature.mismatch is None:
            assert not contradicts(**{column: "other"})
        elif feature.kind == "protected":
            assert contradicts(**{column: "other"})
        if feature.missing == "mismatch":
            assert contradicts(**{column: None}) == (feature.kind == "protected")
        elif feature.kind not in ("key", "ignore"):
            with raises(lw.errors.BadDecision):
                contradicts(**{column: None})


@pytest.mark.parametrize("name", ["adult", "german"])
def test_rule_knows_every_column_of_a_file_without_names(name):
    rule = PEOPLE["rule_of"](name)
    columns = PEOPLE[name.upper()].replace("personal_status", "sex").split()
    assert {*rule.features, rule.output_column} == set(columns)


# The script

GERMAN = """\
A11 6 A34 A43 1169 A65 A75 4 A93 A101 4 A121 67 A143 A152 2 A173 1 A192 A201 1
A12 48 A32 A43 5951 A61 A73 2 A92 A101 2 A121 22 A143 A152 1 A173 1 A191 A201 2
A11 6 A34 A43 1200 A65 A75 4 A92 A101 4 A121 65 A143 A152 2 A173 1 A192 A201 2
"""


def test_script_tells_of_a_pair_and_its_groups(tmp_path, capsys):
    with gzip.open(tmp_path / "german.data.gz", "wt") as file:
        file.write(GERMAN)
    assert PEOPLE["main"]([str(tmp_path), "german"]) == 0
    page = capsys.readouterr().out
    assert "german: 3 decisions, 1 contradict an earlier one (33.3%, 1 pairs)" in page
    assert re.search(r"row 2 contradicts row 0, 0\.317 away", page)
    assert "female and male: 1 similar pair; female got less in 1, male in 0, neither in 0" in page


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "python examples/people.py FOLDER"),
        (["nowhere"], "Not in nowhere: adult.data.gz, german.data.gz"),
        (["nowhere", "adult"], "Not in nowhere: adult.data.gz\n"),
        (["nowhere", "titanic"], "Unknown: titanic\n"),
    ],
    ids=str,
)
def test_script_without_its_files_says_how_to_get_going(arguments, says, capsys):
    assert PEOPLE["main"](arguments) == 2
    told = capsys.readouterr().err
    assert says in told
    assert "python examples/people.py FOLDER" in told


def test_script_answers_with_an_exit_code():
    done = run_python(SCRIPT, code=2)
    assert "FOLDER holds the raw files" in done.stderr


# The data


def gaps(feature: Feature, a: pd.Series, b: pd.Series) -> np.ndarray:
    """How far apart all of a are from all of b in one column, by the words of the rule alone."""
    if feature.kind == "ordinal":
        a, b = (one.map(list(feature.order).index) for one in (a, b))
    if feature.kind == "category":
        differ = a.to_numpy(object)[:, None] != b.to_numpy(object)[None]
        return np.where(differ, feature.mismatch, 0.0)
    x, y = a.to_numpy(float)[:, None], b.to_numpy(float)[None]
    if feature.ratio is None:
        return np.abs(x - y) / feature.tolerance
    with np.errstate(divide="ignore", invalid="ignore"):
        apart = np.abs(np.log(x / y)) / np.log(feature.ratio)  # nan: two zeros, or another sign
    return np.where(x == y, 0.0, np.where(np.isnan(apart), np.inf, apart))


def contradictions(rule: lw.Rule, table: pd.DataFrame) -> tuple[set[int], int]:
    """Flagged rows and pairs: people who agree in what must match, all against all."""
    features = {name: one for name, one in rule.features.items() if one.is_compared}
    must = [n for n, one in features.items() if one.kind == "category" and one.mismatch is None]
    rest = {name: one for name, one in features.items() if name not in must}
    together = table.groupby(must, dropna=False).indices.values() if must else [range(len(table))]
    outputs = table[rule.output_column].to_numpy()
    flagged, pairs = set(), 0
    for rows in map(np.asarray, together):
        labels = [rows[outputs[rows] == label] for label in np.unique(outputs[rows])]
        for mine, others in itertools.combinations(labels, 2):
            small, large = sorted([mine, others], key=len)
            for part in np.array_split(small, 1 + len(small) * len(large) // 4_000_000):
                near = np.zeros((len(part), len(large)))
                for name, feature in rest.items():
                    apart = gaps(feature, table[name].iloc[part], table[name].iloc[large])
                    near = np.maximum(near, apart) if rule.metric == "linf" else near + apart
                i, j = np.nonzero(near <= rule.epsilon * (1 + 1e-9))
                flagged.update(np.maximum(part[i], large[j]).tolist())
                pairs += len(i)
    return flagged, pairs


@real
@pytest.mark.parametrize("name", NAMES)
def test_script_counts_what_is_there(name, capsys):
    table = PEOPLE["LOADERS"][name](FOLDER / PEOPLE["FILES"][name])
    rule = PEOPLE["rule_of"](name)
    flagged, pairs = contradictions(rule, table)
    verdicts, _ = PEOPLE["watch"](rule, table)
    assert set(verdicts.rows[verdicts.violations].tolist()) == flagged
    assert verdicts.pairs == pairs
    assert pairs > 50
    groups = verdicts.by_group(PEOPLE["GROUPS"][name])
    assert 0 < sum(one.one_less + one.other_less for one in groups.comparisons) <= pairs
    assert PEOPLE["main"]([str(FOLDER), name]) == 0
    page = capsys.readouterr().out
    assert f"{name}: {len(table):,} decisions, {len(flagged):,} contradict an earlier one" in page
    assert f"{pairs:,} pairs" in page


@real
def test_identical_people_with_another_decision_are_those_of_a_plain_group_by(capsys):
    table = PEOPLE["acs"](FOLDER / PEOPLE["FILES"]["acs"])
    rule = PEOPLE["rule_of"]("acs")
    same = [name for name in table if name not in ("SEX", "RAC1P", "pred")]
    decided = table.groupby(same)["pred"]
    before_one, before_zero = decided.cummax() > table["pred"], decided.cummin() < table["pred"]
    verdicts = PEOPLE["identical"](table, rule)
    assert verdicts.violations.tolist() == (before_one | before_zero).tolist()
    sizes = decided.agg(["sum", "count"])
    assert verdicts.pairs == int((sizes["sum"].astype(int) * (sizes["count"] - sizes["sum"])).sum())
    assert verdicts.violations.sum() > 1000
