"""Reads tables of a TOML file into frozen structs.

The struct has types and bounds, which msgspec checks. Unknown names are refused, since a limit with
a typing mistake would be no limit. A BadRule names the key as it is in the file
(`monitors.loans.burst.last`), what came and what was expected.
"""

import re
import reprlib
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, TypeVar, get_args

import msgspec
from msgspec import Meta, Struct, ValidationError, inspect, structs

from likewise.errors import BadRule

NAME_PATTERN = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
"""Names of monitors, tokens and receivers."""
MOST_COUNT = 1 << 53
MOST_NUMBER = 1e10
"""The largest number, also of seconds: clocks, queues and sockets take no more."""
Count = Annotated[int, Meta(ge=1, le=MOST_COUNT)]
CountOrZero = Annotated[int, Meta(ge=0, le=MOST_COUNT)]
"""A count that may be 0."""
Positive = Annotated[float, Meta(gt=0, le=MOST_NUMBER)]
NotNegative = Annotated[float, Meta(ge=0, le=MOST_NUMBER)]

_T = TypeVar("_T")
_PLACE = re.compile(r" - at `\$([^`]*)`$")
_STEP = re.compile(r"\.(\w+)|\[(\d+|\.\.\.)\]")
_WORDS = {
    inspect.IntType: "a whole number",
    inspect.FloatType: "a number",
    inspect.BoolType: "true or false",
    inspect.StrType: "a text",
    inspect.CustomType: "a path",
    inspect.StructType: "a table",
    inspect.DictType: "a table",
}


class SettingsTable(Struct, frozen=True, forbid_unknown_fields=True):
    """Holds a table of the settings."""


def check_name(what: str, name: str, setting: str | None = None) -> None:
    """Raise BadRule unless a name has the allowed letters."""
    if not NAME_PATTERN.fullmatch(name):
        raise BadRule(
            f"{what} is {name!r}; expected small letters, digits, dots, dashes and underscores",
            setting=setting,
        )


def read_table(kind: type[_T], table: Any, folder: Path, where: str = "") -> _T:
    """Make a struct of a table; raise BadRule if it cannot be made.

    folder  what paths in the table are relative to
    where   the dotted name of the table
    """
    try:
        return msgspec.convert(table, kind, dec_hook=partial(_path, folder))
    except ValidationError as error:
        raise _explain(error, kind, table, folder, where) from None


def _path(folder: Path, kind: type[Any], value: Any) -> Path:
    if not isinstance(value, str) or "\0" in value:
        raise TypeError
    return folder / value


def _explain(error: ValidationError, kind: Any, value: Any, folder: Path, where: str) -> BadRule:
    """Explain what msgspec refuses in our words: go to the value that it names, and look at it."""
    key: str | int = ""
    path = _PLACE.search(str(error))
    for name, place in _STEP.findall(path[1]) if path else ():
        if name:
            fields = structs.fields(kind)
            key, kind = name, next(one.type for one in fields if one.encode_name == name)
        elif place == "...":  # msgspec does not say which value of a dictionary it is
            kind = get_args(kind)[1]
            key = next(one for one in value if _is_refused(kind, value[one], folder))
        else:
            key, kind = int(place), get_args(kind)[0]
        if isinstance(kind, UnionType):  # with None
            kind = get_args(kind)[0]
        value = value[key]
        where += f"[{key}]" if isinstance(key, int) else f".{key}" if where else key
    at = f"{where}: " if where else ""
    cause = error.__cause__
    if isinstance(cause, BadRule):
        return BadRule(f"{at}{cause}", setting=cause.setting)
    if isinstance(kind, type) and issubclass(kind, Struct) and isinstance(value, Mapping):
        is_required = {one.encode_name: one.required for one in structs.fields(kind)}
        for unknown in (one for one in value if one not in is_required):
            names = ", ".join(sorted(is_required))
            return BadRule(f"{at}{unknown!r} is no setting; there are {names}", setting=unknown)
        missing = next(one for one in is_required if is_required[one] and one not in value)
        return BadRule(f"{at}{missing!r} is missing", setting=missing)
    expected = _describe_type(inspect.type_info(kind), value)
    return BadRule(f"{where} is {reprlib.repr(value)}; expected {expected}", setting=str(key))


def _is_refused(kind: Any, value: Any, folder: Path) -> bool:
    try:
        msgspec.convert(value, kind, dec_hook=partial(_path, folder))
    except ValidationError:
        return True
    return False


def _describe_type(kind: inspect.Type, value: Any) -> str:
    """Describe what is expected in place of a value."""
    if isinstance(kind, inspect.UnionType):
        kinds = [one for one in kind.types if type(one) is not inspect.NoneType]
        return " or ".join(_describe_type(one, value) for one in kinds)
    if isinstance(kind, inspect.LiteralType):
        return " or ".join(map(str, kind.values))
    if isinstance(kind, inspect.VarTupleType):
        return f"a list; each item is {_describe_type(kind.item_type, value)}"
    words = _WORDS[type(kind)]
    if isinstance(kind, inspect.IntType | inspect.FloatType):
        if kind.le is not None and isinstance(value, int | float) and value > kind.le:
            return f"{words} of at most {int(kind.le):,}"
        words += "" if kind.ge is None else f" of at least {kind.ge}"
        words += "" if kind.gt is None else f" above {kind.gt}"
    return words
