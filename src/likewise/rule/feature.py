"""Declares what one column of a table means for the comparison of decisions: a `Feature`.

Invariant: a feature is frozen, and checked when it is made.
Not here: how values of a kind are encoded and compared (monitor/readers/).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal, TypeAlias, get_args

from likewise.errors import BadRule
from likewise.rule.embedder import Embedder
from likewise.rule.value_names import labels_of
from likewise.tables.known_names import check_known, check_one_of
from likewise.tables.printing import with_bounded_repr
from likewise.tables.setting_checks import check_number, to_plain_value

Kind: TypeAlias = Literal[
    "number", "ordinal", "category", "text", "image", "protected", "person", "key", "ignore"
]
Missing: TypeAlias = Literal["reject", "mismatch", "match"]
Output: TypeAlias = Literal["label", "number", "probabilities"]
"""The kind of value that the columns of outputs hold together."""
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
    """Says how the values of one column are compared, by its kind.

    number      near within `tolerance`, in the column's own unit: 5, or "10%" of the value
    ordinal     a place in `order`; near within `tolerance` places
    category    equal or not; with `mismatch`, a difference costs that much instead
    text        near if the vectors that `embed` makes of two texts are within `tolerance`
    image       like text, for a picture: a path, bytes or an array
    protected   not compared, but stored: groups are counted by it
    person      not compared, but two decisions about one known person are never compared
    key         the caller's own name for a decision, unique
    ignore      not read

    Distances come in units of tolerance, so a rule's epsilon is 1 unless it says otherwise. "10%"
    is symmetric: two values are within 10 % if they have the same sign and the larger is at most
    1.1 times the smaller in size; 0 is near 0 alone. Their distance is the logarithm of their ratio
    over the logarithm of 1.1.

    `missing` says what a missing value means: "reject" refuses the decision; "mismatch" makes it a
    value of its own, near another missing value and nothing else; "match" makes it near everything.
    An unknown person (missing = "mismatch") equals nobody, not even another unknown person.

    `labels` are display names for the values of a protected column ("1.0" = "women").

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
            is_default = given is None if field.default is None else given == field.default
            if not is_default and field.name not in _SETTINGS[self.kind]:
                raise BadRule(
                    f"{field.name} is given, which says nothing for kind {self.kind!r}; expected"
                    f" {', '.join(_SETTINGS[self.kind]) or 'no settings'}"
                )
        if self.kind in ("protected", "person") and self.missing == "match":
            raise BadRule(f"missing is 'match', but a {self.kind} column is not compared")
        for name in ("order", "values"):
            if getattr(self, name) is not None:
                self._set(name, _distinct(name, getattr(self, name)))
        if self.labels is not None:
            self._set("labels", labels_of("labels", self.labels))
        self._check_tolerance()
        if self.mismatch is not None:
            self._set("mismatch", check_number("mismatch", self.mismatch, *TOLERANCES))
            if self.values is None:
                raise BadRule(
                    "a mismatch needs values: the list of all categories, so that any two of them"
                    " can be equally far apart"
                )

    def _set(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)

    def _check_tolerance(self) -> None:
        if self.kind == "ordinal":
            if self.order is None:
                raise BadRule("an ordinal needs an order: its values from first to last")
            self._set_tolerance(1 if self.tolerance is None else self.tolerance)
        elif self.kind in ("text", "image"):
            if self.embed is None or self.tolerance is None:
                raise BadRule(
                    f"kind {self.kind!r} needs embed, the model that makes vectors of it, such as"
                    ' "wordllama", and tolerance: how far apart two near vectors may be'
                )
            self._set("embed", Embedder.of(self.embed))
            takes = {"text": "texts", "image": "pictures"}[self.kind]
            if self.embed.input_kind not in (takes, "anything"):
                raise BadRule(
                    f"kind is {self.kind!r}, and {self.embed.text!r} takes {self.embed.input_kind};"
                    f" expected an embedder of {takes} (an ONNX model of texts has a tokenizer)",
                    setting="kind",
                )
            self._set_tolerance(self.tolerance)
        elif self.kind == "number":
            if self.tolerance is None:
                raise BadRule(
                    'a number needs a tolerance: how far apart is near, such as 5 or "10%"'
                )
            if isinstance(self.tolerance, str):
                self._set("tolerance", _percent(self.tolerance))
            else:
                self._set_tolerance(self.tolerance)

    def _set_tolerance(self, value: Any) -> None:
        self._set("tolerance", check_number("tolerance", value, *TOLERANCES))

    @property
    def ratio(self) -> float | None:
        """The largest ratio of two near values, for a relative tolerance."""
        if not isinstance(self.tolerance, str):
            return None
        return 1.0 + float(self.tolerance[:-1]) / 100.0

    @property
    def is_compared(self) -> bool:
        """Whether the column takes part in the distance."""
        return self.kind in ("number", "ordinal", "category", "text", "image")

    @property
    def is_kept(self) -> bool:
        """Whether a history keeps the column's values; keys are kept apart from the columns."""
        return self.kind not in ("key", "ignore")

    def to_dict(self) -> dict[str, Any]:
        """Return the settings that differ from their defaults; `Feature(**…)` reads them back."""
        settings = {
            field.name: getattr(self, field.name)
            for field in fields(self)
            if getattr(self, field.name) != field.default
        }
        if self.embed is not None:
            settings["embed"] = self.embed.to_plain()
        if self.labels is not None:
            settings["labels"] = dict(self.labels)
        return {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in settings.items()
        }

    @classmethod
    def of(cls, name: str, given: Any) -> "Feature":
        """Make a feature from the settings of a column; errors name the column."""
        if isinstance(given, cls):
            return given
        try:
            if not isinstance(given, Mapping):
                raise BadRule(f"it is {given!r}; expected a Feature, or its settings")
            check_known("unknown setting", given, [field.name for field in fields(cls)])
            if "kind" not in given:
                raise BadRule(f"kind is missing; expected one of {', '.join(KINDS)}")
            return cls(**given)
        except BadRule as error:
            raise BadRule(f"feature {name!r}: {error}") from None


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
