"""Finds one-hot families: columns of 0 and 1 that say one thing, such as race_White, race_Black.

Columns are a family if their names begin alike up to a sign (race_White, `race=White`), each holds
0 and 1 only, no row has two of them set, and either nearly every row has one, or there are three of
them or more, or the sign is `=`, which nothing else is used for.

Invariant: a column is in one family at most; families come in the order of the table.
Cost: one sum over rows for each beginning that columns share.
"""

import re
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from likewise.proposing.profile import Profile

_SIGN = re.compile(r"=|[_.:/| -]+")
_NEARLY = 0.99


class Family(NamedTuple):
    """Names the columns that together say one thing."""

    name: str
    columns: tuple[str, ...]


def families_of(profiles: Mapping[str, Profile]) -> list[Family]:
    """Find the one-hot families of a table."""
    left = {name: one for name, one in profiles.items() if one.binary and not one.has_missing}
    families: list[Family] = []
    for beginning, names in _find_beginnings(list(left)):
        members = [name for name in names if name in left]
        if len(members) > 1 and _is_family(beginning, [left[name] for name in members]):
            families.append(Family(_SIGN.sub(" ", beginning).strip() or beginning, tuple(members)))
            for name in members:
                del left[name]
    order = {name: i for i, name in enumerate(profiles)}
    return sorted(families, key=lambda family: order[family.columns[0]])


def _find_beginnings(names: list[str]) -> list[tuple[str, list[str]]]:
    """Return what several names begin with, up to a sign and with it; those of most names first."""
    shared: dict[str, list[str]] = {}
    for name in names:
        for sign in _SIGN.finditer(name):
            if sign.start() > 0 and sign.end() < len(name):
                shared.setdefault(name[: sign.end()], []).append(name)
    several = [(beginning, names) for beginning, names in shared.items() if len(names) > 1]
    return sorted(several, key=lambda one: (-len(one[1]), -len(one[0])))


def _is_family(beginning: str, members: list[Profile]) -> bool:
    """Tell whether no row has two of these columns set, and enough speaks for a family."""
    flags = np.array([[bool(value) for value in one.values] for one in members])
    set_in_row: npt.NDArray[np.int64] = flags.sum(axis=0)
    if set_in_row.max() > 1:
        return False
    complete = float((set_in_row == 1).mean()) >= _NEARLY
    return complete or len(members) > 2 or beginning.endswith("=")
