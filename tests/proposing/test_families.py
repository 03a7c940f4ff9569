"""One-hot columns are one family, and columns that only begin alike are not."""

import numpy as np

from likewise.proposing.profile import profiles_of
from likewise.proposing.tolerances import Family, families_of
from tests.support.looping import each

N = 400
RNG = np.random.default_rng(4)


def one_hot(beginning, values, *, drop=0, kind=int):
    codes = RNG.integers(0, len(values), N)
    return {
        f"{beginning}{value}": (codes == i).astype(kind).tolist()
        for i, value in enumerate(values)
        if i >= drop
    }


@each("kind", [int, float, bool])
@each("sign", ["_", "=", ".", ": ", " "])
def test_one_hot_columns_are_a_family(sign, kind):
    columns = {"x": RNG.random(N).tolist(), **one_hot(f"race{sign}", "ABC", kind=kind)}
    names = tuple(columns)[1:]
    assert families_of(profiles_of(columns)) == [Family("race", names)]


def test_names_of_several_words_and_values_of_several_words():
    columns = one_hot("native_country_", ["United_States", "Cuba", "El_Salvador"])
    columns |= one_hot("native_language_", ["English", "Spanish"])
    found = {family.name: len(family.columns) for family in families_of(profiles_of(columns))}
    assert found == {"native country": 3, "native language": 2}


def test_a_family_without_its_first_column_is_one():
    columns = one_hot("purpose_", ["car", "tv", "home", "study"], drop=1)
    assert [len(family.columns) for family in families_of(profiles_of(columns))] == [3]


def test_flags_that_begin_alike_are_no_family():
    flags = {f"has_{what}": RNG.integers(0, 2, N).tolist() for what in ("car", "house", "job")}
    rare = {f"is_{what}": (RNG.random(N) < 0.01).astype(int).tolist() for what in ("star", "new")}
    numbers = {f"limit_{i}": RNG.integers(0, 3, N).tolist() for i in range(3)}
    missing = {f"a_{i}": [None, *[j % 2 == i for j in range(N - 1)]] for i in range(2)}
    assert families_of(profiles_of({**flags, **rare, **numbers, **missing})) == []
