"""Decisions about people, watched: five public data sets with the rules beside this script.

    python examples/people.py FOLDER [adult german compas census_kdd acs]

FOLDER holds the raw files, named as in FILES. For each data set: how many decisions contradict an
earlier one about a like person, how long that takes, one such pair side by side, and which
protected group got the worse of such pairs.

What is recorded need not be a model's answer: Adult, German and the census record how it was. A
pair there says that likeness, as the rule has it, does not settle the matter. ACS is a model.
"""

import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

import likewise as lw

RULES = Path(__file__).parent / "rules"
FILES = {
    "adult": "adult.data.gz",
    "german": "german.data.gz",
    "compas": "compas_two_years_noname.csv.gz",
    "census_kdd": "census_kdd_299k.npz",
    "acs": "acs_ma_2015_2017.npz",
}
GROUPS = {
    "adult": "sex",
    "german": "sex",
    "compas": "race",
    "census_kdd": "sex",
    "acs": "SEX",
}
ADULT = """
age workclass fnlwgt education education-num marital-status occupation relationship race sex
capital-gain capital-loss hours-per-week native-country income
"""
GERMAN = """
checking duration history purpose amount savings employment installment_rate personal_status
debtors residence_since property age plans housing existing_credits job dependents telephone
foreign_worker credit
"""
WOMEN = ["A92", "A95"]  # the codes of personal status and sex that say so


def adult(path: Path) -> pd.DataFrame:
    return pd.read_csv(path, names=ADULT.split(), skipinitialspace=True, na_values="?")


def german(path: Path) -> pd.DataFrame:
    table = pd.read_csv(path, names=GERMAN.split(), sep=" ")
    table["credit"] = table["credit"].map({1: "good", 2: "bad"})
    table["sex"] = np.where(table.pop("personal_status").isin(WOMEN), "female", "male")
    return table


def census_kdd(path: Path) -> pd.DataFrame:
    with np.load(path) as file:
        numbers = pd.DataFrame(file["num"], columns=file["num_cols"])
        codes = pd.DataFrame(file["cat"], columns=file["cat_cols"])
        table = pd.concat([numbers, codes], axis=1)
        table["hispanic"] = table["hispanic"].where(table["hispanic"] != 255)
        return table.assign(high_income=file["y"])


def acs(path: Path) -> pd.DataFrame:
    with np.load(path) as file:
        return pd.DataFrame(file["x"], columns=file["columns"]).assign(pred=file["pred"])


LOADERS: dict[str, Callable[[Path], pd.DataFrame]] = {
    "adult": adult,
    "german": german,
    "compas": pd.read_csv,
    "census_kdd": census_kdd,
    "acs": acs,
}


def rule_of(name: str) -> lw.Rule:
    return lw.Rule.load(RULES / f"{name}.toml")


def watch(rule: lw.Rule, table: pd.DataFrame) -> tuple[lw.Verdicts, float]:
    """The verdicts on a table, and how many microseconds each took."""
    lw.Monitor(rule).observe_many(table[:2])  # whatever is compiled is compiled now
    began = time.perf_counter()
    verdicts = lw.Monitor(rule).observe_many(table)
    return verdicts, 1e6 * (time.perf_counter() - began) / len(table)


def show(name: str, table: pd.DataFrame) -> None:
    rule = rule_of(name)
    verdicts, micros = watch(rule, table)
    found = int(verdicts.violations.sum())
    print(f"\n## {name}: {len(table):,} decisions, {found:,} contradict an earlier one", end=" ")
    print(f"({found / len(table):.1%}, {verdicts.pairs:,} pairs), {micros:.1f} µs each\n")
    if found:
        print(verdicts[int(verdicts.violations.argmax())].explain(1))
        print()
        print(verdicts.by_group(GROUPS[name]))


def identical(table: pd.DataFrame, rule: lw.Rule) -> lw.Verdicts:
    """Verdicts where only those who are the same in all that is measured are like each other."""
    return watch(replace(rule, epsilon=1e-6), table)[0]


def main(arguments: list[str]) -> int:
    folder, names = Path(arguments[0]) if arguments else None, arguments[1:] or list(FILES)
    unknown = [name for name in names if name not in FILES]
    absent = [FILES[name] for name in names if folder and name in FILES]
    absent = [file for file in absent if not (folder / file).is_file()]
    if folder is None or unknown or absent:
        print(__doc__, file=sys.stderr)
        print("The files:", ", ".join(FILES.values()), file=sys.stderr)
        for what, which in (("Unknown", unknown), (f"Not in {folder}", absent)):
            if which:
                print(f"{what}: {', '.join(which)}", file=sys.stderr)
        return 2
    for name in names:
        table = LOADERS[name](folder / FILES[name])
        show(name, table)
        if name == "acs":
            verdicts = identical(table, rule_of(name))
            print(
                f"\n{int(verdicts.violations.sum()):,} people were decided differently from",
                end=" ",
            )
            print("someone before them who was the same in everything but sex and race.")
            print(verdicts.by_group("SEX"))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
