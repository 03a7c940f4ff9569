"""A feature: what one column of a table means for likeness.

    number      near within `tolerance`, in the column's own unit: 5, or "10%" of the value
    ordinal     a place in `order`; near within `tolerance` places
    category    equal or not; with `mismatch`, a difference costs that much instead
    text        near within `tolerance` of the vectors that `embed` makes of it
    image       the same for a picture: a path, bytes or an array
    protected   no part in the distance, but kept: groups are counted by it
    person      no part in the distance: two decisions of one known person are never compared
    key         the caller's own name for a decision, unique
    ignore      not looked at

With tolerances, distances come in units of tolerance, so a rule's epsilon is 1 unless it says
otherwise. "10%" is symmetric: two values are within 10 % of each other if they have the same sign
and the larger is at most 1.1 times the smaller in size; 0 is near 0 alone. Between them the
distance is the logarithm of their ratio over the logarithm of 1.1.

`missing` says what an empty place means: "reject" refuses the decision; "mismatch" makes it a value
of its own, near another empty place and nothing else; "match" makes it near everything. An unknown
person (missing = "mismatch") is nobody else, not even another unknown one.

`labels` are names for the values of a protected column, for display ("1.0" = "women").

Invariant: a feature is checked when it is made.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal, TypeAlias, get_args

from likewise.errors import BadRule
from likewise.rule.embedder import Embedder
from likewise.rule.value_names import labels_of
from likewise.tables.known_names import check_one_of, did_you_mean
from likewise.tables.printing import with_bounded_repr

Kind: TypeAlias = Literal[
    "number", "ordinal", "category", "text", "image", "protected", "person", "key", "ignore"
]
Missing: TypeAlias = Literal["reject", "mismatch", "match"]
Output: TypeAlias = Literal["label", "number", "probabilities"]
"""What the columns of outputs hold together."""
KINDS: tuple[str, ...] = get_args(Kind)
MISSING: tuple[str, ...] = get_args(Missing)
_SETTINGS = {
    "number": ("tolerance", "missing"),
    "ordinal": ("order", "tolerance", "missing"),
    "category": ("mismatch", "values", "missing"),
    "text": ("embed", "tolerance", "missing"),
    "image": ("embed", "tolerance", "missing"),
    "protected": ("values", "missing", "labels"),
    "person": ("missing",),
    "key": (),
    "ignore": (),
}
TOLERANCES = (1e-100, 1e100)
"""The smallest and the largest tolerance."""


@with_bounded_repr
@dataclass(frozen=True)
class Feature:
    """One column, by kind.

    >>> Feature("number", tolerance="10%").ratio
    1.1
    >>> Feature("ordinal", order=["school", "college", "degree"], tolerance=1).missing
    'reject'
    >>> Feature("number")
    Traceback (most recent call last):
        ...
    likewise.errors.BadRule: a number needs a tolerance: how far apart is near, such as 5 or "10%"
    """

    kind: Kind
    tolerance: float | str | None = None
    order: Sequence[Any] | None = None
    mismatch: float | None = None
    values: Sequence[Any] | None = None
    missing: Missing = "reject"
    embed: Any = None
    labels: Any = None

    def __post_init__(self) -> None:
        check_one_of("kind", self.kind, KINDS)
        check_one_of("missing", self.missing, MISSING)
        for field in fields(self)[1:]:
            given = getattr(self, field.name)
            as_by_default = given is None if field.default is None else given == field.default
            if not as_by_default and field.name not in self._list_settings():
                raise BadRule(
                    f"{field.name} is given, which says nothing for kind {self.kind!r}; expected"
                    f" {', '.join(self._list_settings()) or 'no settings'}"
                )
        if self.kind in ("protected", "person") and self.missing == "match":
            raise BadRule(f"missing is 'match', but a {self.kind} column takes no part in likeness")
        for name in ("order", "values"):
            if getattr(self, name) is not None:
                self._set(name, _distinct(name, getattr(self, name)))
        if self.labels is not None:
            self._set("labels", labels_of("labels", self.labels))
        self._check_tolerance()
        if self.mismatch is not None:
            self._set("mismatch", _positive("mismatch", self.mismatch))
            if self.values is None:
                raise BadRule(
                    "a mismatch needs values: the list of all categories, so that each can be told"
                    " from each by as much"
                )

    def _list_settings(self) -> tuple[str, ...]:
        return _SETTINGS[self.kind]

    def _set(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)

    def _check_tolerance(self) -> None:
        if self.kind == "ordinal":
            if self.order is None:
                raise BadRule("an ordinal needs an order: its values from first to last")
            given = 1 if self.tolerance is None else self.tolerance
            self._set("tolerance", _positive("tolerance", given))
        elif self.kind in ("text", "image"):
            if self.embed is None or self.tolerance is None:
                raise BadRule(
                    f"kind {self.kind!r} needs embed, what makes vectors of it, such as"
                    ' "wordllama", and tolerance: how far apart two of them are near'
                )
            self._set("embed", Embedder.of(self.embed))
            takes = {"text": "texts", "image": "pictures"}[self.kind]
            if self.embed.input_kind not in (takes, "anything"):
                raise BadRule(
                    f"kind is {self.kind!r}, and {self.embed.text!r} takes {self.embed.input_kind};"
                    f" expected an embedder of {takes} (an ONNX model of texts has a tokenizer)",
                    setting="kind",
                )
            self._set("tolerance", _positive("tolerance", self.tolerance))
        elif self.kind == "number":
            if self.tolerance is None:
                raise BadRule(
                    'a number needs a tolerance: how far apart is near, such as 5 or "10%"'
                )
            if isinstance(self.tolerance, str):
                self._set("tolerance", _percent(self.tolerance))
            else:
                self._set("tolerance", _positive("tolerance", self.tolerance))

    @property
    def ratio(self) -> float | None:
        """Of the larger to the smaller of two values just near, for a relative tolerance."""
        if not isinstance(self.tolerance, str):
            return None
        return 1.0 + float(self.tolerance[:-1]) / 100.0

    @property
    def is_compared(self) -> bool:
        """Whether the column takes part in the distance."""
        return self.kind in ("number", "ordinal", "category", "text", "image")

    def to_dict(self) -> dict[str, Any]:
        """What is not as it is by default; `Feature(**…)` gives it back."""
        given = {field.name: getattr(self, field.name) for field in fields(self)}
        default = {field.name: field.default for field in fields(self)[1:]}
        if self.embed is not None:
            given["embed"] = self.embed.to_plain()
        if self.labels is not None:
            given["labels"] = dict(self.labels)
        return {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in given.items()
            if name == "kind" or value != default[name]
        }

    @classmethod
    def of(cls, name: str, given: Any) -> "Feature":
        """A feature from what a rule says of a column; errors name the column."""
        if isinstance(given, cls):
            return given
        known = [field.name for field in fields(cls)]
        try:
            if not isinstance(given, Mapping):
                raise BadRule(f"it is {given!r}; expected a Feature, or its settings")
            for setting in given:
                if setting not in known:
                    raise BadRule(
                        f"unknown setting {setting!r}; expected {', '.join(known)}"
                        + did_you_mean(setting, known)
                    )
            if "kind" not in given:
                raise BadRule(f"kind is missing; expected one of {', '.join(KINDS)}")
            return cls(**given)
        except BadRule as error:
            raise BadRule(f"feature {name!r}: {error}") from None


def _positive(name: str, value: Any) -> float:
    low, high = TOLERANCES
    number = to_plain_value(value)
    if isinstance(number, bool) or not isinstance(number, int | float):
        number = math.nan
    if not low <= number <= high:
        raise BadRule(
            f"{name} is {value!r}; expected a number from {low:g} to {high:g}", setting=name
        )
    return float(number)


def _percent(text: str) -> str:
    try:
        percent = float(text.removesuffix("%"))
    except ValueError:
        percent = math.nan
    if not text.endswith("%") or not 1e-6 <= percent <= 1e6:
        raise BadRule(
            f'tolerance is {text!r}; expected a number, or a percentage such as "10%"',
            setting="tolerance",
        )
    return f"{percent:.15g}%"


def _distinct(name: str, given: Any) -> tuple[Any, ...]:
    if isinstance(given, str) or not isinstance(given, Sequence) or len(given) == 0:
        raise BadRule(f"{name} is {given!r}; expected a list of values", setting=name)
    values = tuple(map(to_plain_value, given))
    for i, value in enumerate(values):
        if isinstance(value, list | dict):
            raise BadRule(f"{name} has {value!r} at place {i}; expected a string or a number")
        if value is None or value != value or value in values[:i]:  # noqa: PLR0124 - NaN
            raise BadRule(f"{name} has {value!r} at place {i}: values are given once, none missing")
    return values


def to_plain_value(value: Any) -> Any:
    """A scalar of NumPy or torch as what Python has for it; anything else as it is."""
    if not hasattr(value, "dtype"):
        return value
    from likewise.tables.normalize import (
        to_python_scalar,  # and with it NumPy, which a rule can do without
    )

    return to_python_scalar(value)
