"""The rule: when inputs count as near, and outputs as different.

A rule is a frozen value, checked when it is made, and reads and writes TOML. It says nothing about
how neighbours are found.
"""

import math
import tomllib
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, fields
from typing import Any

from likewise.errors import BadRule

METRICS = ("linf", "l2", "l1", "cosine")
OUTPUTS = ("label", "number", "probabilities")
OUTPUT_METRICS = ("linf", "l1", "l2", "tv")
STORAGES = (
    "auto",
    "float64",
    "float32",
    "int8",
    "uint8",
    "int16",
    "uint16",
    "int32",
    "uint32",
    "int64",
    "uint64",
)

_EPSILON = (1e-150, 1e150)  # squares of what is near neither vanish nor overflow
_WEIGHT = (1e-100, 1e100)
_LARGEST = 1.7976931348623157e308
_SLACK = {"float64": 1e-9, "float32": 1e-5}


def _one_of(name: str, value: object, allowed: Sequence[str]) -> None:
    if value not in allowed:
        raise BadRule(f"{name} is {value!r}; expected one of {', '.join(allowed)}")


def _number(name: str, value: Any, low: float, high: float, why: str = "") -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise BadRule(f"{name} is {value!r}; expected a number") from None
    if isinstance(value, str) or not low <= number <= high:
        raise BadRule(f"{name} is {value!r}; expected a number from {low:g} to {high:g}{why}")
    return number


@dataclass(frozen=True)
class Rule:
    """When are inputs near, and outputs different?

    Near: `distance <= epsilon * (1 + slack)`, the distance computed in float64 from the values as
    stored. Different: `output distance > delta`.

    metric      linf: max w|x-y|; l1: sum w|x-y|; l2: sqrt(sum w(x-y)²);
                cosine: 1 - sum(wxy) / sqrt(sum(wx²) sum(wy²)).
    weights     one per coordinate (w above), or None for all 1. A weight of 0 ignores a coordinate.
    output      label: any hashable, different or not (distance 1 or 0);
                number: |z - z'|; probabilities: a vector, compared by output_metric.
    slack       how far beyond epsilon still counts as near, relative to it: people write 8/255 and
                mean it, floating point misses it by a hair. None: 1e-9 for float64 histories, 1e-5
                for float32, 0 for integers.
    storage     the type in which inputs are kept and compared; auto takes it from the first input.

    >>> Rule(metric="l2", epsilon=0.5, weights=[1, 4]).weights
    (1.0, 4.0)
    >>> Rule(epsilon=-1)
    Traceback (most recent call last):
        ...
    likewise.errors.BadRule: epsilon is -1; expected a number from 1e-150 to 1e+150
    """

    metric: str = "linf"
    epsilon: float = math.nan
    _: KW_ONLY
    weights: Sequence[float] | None = None
    output: str = "label"
    delta: float = 0.0
    output_metric: str = "linf"
    slack: float | None = None
    storage: str = "auto"

    def __post_init__(self) -> None:
        _one_of("metric", self.metric, METRICS)
        _one_of("output", self.output, OUTPUTS)
        _one_of("output_metric", self.output_metric, OUTPUT_METRICS)
        _one_of("storage", self.storage, STORAGES)
        if isinstance(self.epsilon, float) and math.isnan(self.epsilon):
            raise BadRule(
                "epsilon is missing or NaN; expected how near is near, such as epsilon=0.1"
            )
        self._set("epsilon", _number("epsilon", self.epsilon, *_EPSILON))
        self._set("delta", _number("delta", self.delta, 0.0, _LARGEST))
        if self.slack is not None:
            self._set("slack", _number("slack", self.slack, 0.0, 1.0))
        if self.weights is not None:
            self._set("weights", self._checked_weights())

    def _set(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)

    def _checked_weights(self) -> tuple[float, ...]:
        try:
            given = list(self.weights)  # type: ignore[arg-type]
        except TypeError:
            raise BadRule(
                f"weights are {self.weights!r}; expected one number for each coordinate"
            ) from None
        weights = tuple(
            0.0 if weight == 0 else _number(f"weight {j}", weight, *_WEIGHT, " (or 0)")
            for j, weight in enumerate(given)
        )
        if not any(weights):
            raise BadRule(f"weights are {given!r}; expected at least one above 0")
        return weights

    def slack_for(self, storage: str) -> float:
        """The slack in use for a history kept in `storage`."""
        return _SLACK.get(storage, 0.0) if self.slack is None else self.slack

    def to_toml(self) -> str:
        """The rule as TOML; `Rule.from_toml` gives it back."""
        lines = []
        for field in fields(self):
            value = getattr(self, field.name)
            if value is None:
                continue
            if isinstance(value, str):
                lines.append(f'{field.name} = "{value}"')
            elif isinstance(value, tuple):
                lines.append(f"{field.name} = [{', '.join(map(repr, value))}]")
            else:
                lines.append(f"{field.name} = {value!r}")
        return "\n".join(lines) + "\n"

    @classmethod
    def from_toml(cls, text: str) -> "Rule":
        """A rule from TOML text.

        >>> Rule.from_toml('metric = "l1"\\nepsilon = 2').metric
        'l1'
        """
        try:
            given = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise BadRule(f"the rule is not valid TOML: {error}") from None
        known = [field.name for field in fields(cls)]
        for name in given:
            if name not in known:
                raise BadRule(f"the rule has an unknown key {name!r}; expected {', '.join(known)}")
        return cls(**given)
