"""The rule: when inputs count as near, and outputs as different.

With features it is about the columns of a table (feature.py), without them about vectors, or about
inputs that an embedder turns into vectors (embedder.py). It reads and writes TOML.
Invariant: a rule is frozen, and checked when it is made. Not here: how neighbours are found.
"""

import datetime
import hashlib
import json
import math
import os
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, fields, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

from likewise.embedders.model_mark import ModelMark
from likewise.errors import BadFile, BadRule
from likewise.rule.embedder import Embedder
from likewise.rule.feature import Feature, Output
from likewise.rule.value_names import Labels, labels_of
from likewise.rule.wording import RuleWording, word_rule
from likewise.tables.known_names import check_known, check_one_of
from likewise.tables.printing import with_bounded_repr
from likewise.tables.setting_checks import check_number, to_plain_value

Metric: TypeAlias = Literal["linf", "l2", "l1", "cosine"]
OutputMetric: TypeAlias = Literal["linf", "l1", "l2", "tv"]
Extra: TypeAlias = Literal["reject", "ignore"]
Compare: TypeAlias = Literal["all", "within", "across"]
_FloatStorage: TypeAlias = Literal["auto", "float64", "float32"]
_IntegerStorage: TypeAlias = Literal[
    "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"
]
Storage: TypeAlias = Literal[_FloatStorage, _IntegerStorage]
METRICS: tuple[str, ...] = get_args(Metric)
OUTPUTS: tuple[str, ...] = get_args(Output)
OUTPUT_METRICS: tuple[str, ...] = get_args(OutputMetric)
EXTRAS: tuple[str, ...] = get_args(Extra)
COMPARES: tuple[str, ...] = get_args(Compare)
STORAGES: tuple[str, ...] = get_args(Storage)

_EPSILON = (1e-150, 1e150)  # so that squares of near distances neither vanish nor overflow
_WEIGHT = (1e-100, 1e100)
_FARTHEST = {"linf": 1.0, "tv": 1.0, "l2": math.sqrt(2.0), "l1": 2.0}
"""How far apart two vectors of probabilities can be."""
_SLACK = {"float64": 1e-9, "float32": 1e-5}
_TOML_LABEL = str | int | float | datetime.date | datetime.time


@with_bounded_repr
@dataclass(frozen=True)
class Rule:
    """Says when two inputs are near, and when two outputs are different.

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
    storage     the type in which inputs are stored and compared; auto takes that of the first one.
    compare     which decisions are compared, if `observe` is given models: "all"; "within": those
                of the same model; "across": those of different models. Decisions without a model
                count as one more model.
    embed       the model that makes vectors of inputs that are texts or pictures (see Embedder).
    features    what each column of a table means (see Feature); epsilon is then 1 unless given.
    output_column         the column of the output; for probabilities, one column for each.
    favourable            the output that everyone wants: a label, or "high" or "low" for a number.
    protected_must_differ whether only pairs that differ in a protected column count.
    extra                 what to do with a column that features do not list: "reject" it as an
                          error, or "ignore" it.
    output_labels         names for outputs, for display; see a Feature's labels.

    >>> Rule(metric="l2", epsilon=0.5, weights=[1, 4]).weights
    (1.0, 4.0)
    >>> Rule(epsilon=-1)
    Traceback (most recent call last):
        ...
    likewise.errors.BadRule: epsilon is -1; expected a number from 1e-150 to 1e+150
    """

    metric: Metric = "linf"
    epsilon: float = math.nan
    _: KW_ONLY
    weights: tuple[float, ...] | None = None
    output: Output = "label"
    delta: float = 0.0
    output_metric: OutputMetric = "linf"
    slack: float | None = None
    storage: Storage = "auto"
    compare: Compare = "all"
    embed: Embedder | None = None
    features: Mapping[str, Feature] | None = None
    output_column: str | tuple[str, ...] | None = None
    favourable: Any = None
    protected_must_differ: bool = False
    extra: Extra = "reject"
    output_labels: Labels | None = None

    if TYPE_CHECKING:  # arguments may have more types than the fields above

        def __init__(
            self,
            metric: Metric = "linf",
            epsilon: float = math.nan,
            *,
            weights: Iterable[float] | None = None,
            output: Output = "label",
            delta: float = 0.0,
            output_metric: OutputMetric = "linf",
            slack: float | None = None,
            storage: Storage = "auto",
            compare: Compare = "all",
            embed: Embedder | str | Mapping[str, Any] | Callable[..., Any] | None = None,
            features: Mapping[str, Feature | Mapping[str, Any]] | None = None,
            output_column: str | Sequence[str] | None = None,
            favourable: Any = None,
            protected_must_differ: bool = False,
            extra: Extra = "reject",
            output_labels: Labels | Mapping[Any, str] | None = None,
        ) -> None: ...

    def __post_init__(self) -> None:
        if self.embed is not None:
            self._set("embed", Embedder.of(self.embed))
        if self.features is not None:
            self._check_features()
        elif self.output_column is not None or self.protected_must_differ or self.extra != "reject":
            raise BadRule(
                "output_column, protected_must_differ and extra need features: say what they are"
            )
        if not isinstance(self.protected_must_differ, bool):
            raise BadRule(
                f"protected_must_differ is {self.protected_must_differ!r}; expected True or False",
                setting="protected_must_differ",
            )
        self._set("favourable", to_plain_value(self.favourable))
        if not isinstance(self.favourable, _TOML_LABEL | None):
            raise BadRule(
                f"favourable is {self.favourable!r}; expected a label that TOML can hold, such as a"
                " string or a number",
                setting="favourable",
            )
        if self.output_labels is not None:
            self._set("output_labels", labels_of("output_labels", self.output_labels))
        check_one_of("metric", self.metric, METRICS)
        check_one_of("output", self.output, OUTPUTS)
        check_one_of("output_metric", self.output_metric, OUTPUT_METRICS, "metric")
        check_one_of("storage", self.storage, STORAGES)
        check_one_of("extra", self.extra, EXTRAS)
        check_one_of("compare", self.compare, COMPARES)
        if isinstance(self.epsilon, float) and math.isnan(self.epsilon):
            raise BadRule(
                "epsilon is missing or NaN; expected how near is near, such as epsilon=0.1",
                setting="epsilon",
            )
        self._set("epsilon", check_number("epsilon", self.epsilon, *_EPSILON))
        self._set("delta", check_number("delta", self.delta, 0.0))
        self._check_delta()
        if self.slack is not None:
            self._set("slack", check_number("slack", self.slack, 0.0, 1.0))
        if self.weights is not None:
            self._set("weights", self._check_weights())
        try:
            self.to_toml().encode()
        except UnicodeEncodeError as error:
            what = error.object[max(0, error.start - 20) : error.end]
            raise BadRule(f"the rule has text that is not Unicode, near {what!r}") from None

    def _check_delta(self) -> None:
        """Raise BadRule if no two outputs can be farther apart than delta."""
        if self.output == "label":
            farthest, why = 1.0, "two labels are 0 or 1 apart; leave delta at 0"
        elif self.output == "probabilities":
            farthest = _FARTHEST[self.output_metric]
            why = f"probabilities are at most {farthest:.4g} apart in {self.output_metric}"
        else:
            return
        if self.delta >= farthest:
            raise BadRule(
                f"delta is {self.delta:g}, and outputs differ if they are farther apart than that."
                f" Under this rule nothing would ever be a violation, since {why}",
                setting="delta",
            )

    def _set(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)

    def _check_features(self) -> None:
        assert self.features is not None
        if not isinstance(self.features, Mapping):
            raise BadRule(
                f"features are {self.features!r}; expected a Feature for each column",
                setting="features",
            )
        features = {str(name): Feature.of(name, given) for name, given in self.features.items()}
        self._set("features", MappingProxyType(features))
        if isinstance(self.epsilon, float) and math.isnan(self.epsilon):
            self._set("epsilon", 1.0)
        if self.weights is not None or self.metric == "cosine" or self.storage != "auto":
            raise BadRule(
                "with features, tolerances take the place of weights, the metric is linf, l1 or l2,"
                " and storage is left to them"
            )
        if self.embed is not None:
            raise BadRule("with features, embed is a setting of each column of texts or pictures")
        embedded = [name for name, feature in features.items() if feature.embed is not None]
        if embedded and self.metric != "l2":
            raise BadRule(
                f"column {embedded[0]!r} is embedded, and the metric is {self.metric!r}; expected"
                ' metric="l2": embeddings have no other distance that means something'
            )
        if not any(feature.is_compared for feature in features.values()):
            raise BadRule("no feature is compared; expected at least one, such as a number")
        kinds = [feature.kind for feature in features.values()]
        for kind in ("key", "person"):
            if kinds.count(kind) > 1:
                raise BadRule(f"several features are {kind}s; expected one at most")
        if self.protected_must_differ and "protected" not in kinds:
            raise BadRule("protected_must_differ is set, but no feature is protected")
        self._check_output_column(features)

    def _check_output_column(self, features: Mapping[str, Feature]) -> None:
        several = self.output == "probabilities"
        given = self.output_column
        columns = [given] if isinstance(given, str) else given
        columns = list(columns) if isinstance(columns, Sequence) else []
        enough = len(columns) >= 2 if several else len(columns) == 1
        names = {name for name in columns if isinstance(name, str)}
        if not enough or len(names) < len(columns):
            raise BadRule(
                f"output_column is {given!r}; expected the name of a column, or for probabilities a"
                " list of two or more",
                setting="output_column",
            )
        for name in columns:
            if name in features:
                raise BadRule(f"column {name!r} is the output and a feature; expected one of them")
        self._set("output_column", tuple(columns) if several else columns[0])

    def _check_weights(self) -> tuple[float, ...]:
        try:
            given = list(self.weights)  # type: ignore[arg-type]
        except TypeError:
            raise BadRule(
                f"weights are {self.weights!r}; expected one number for each coordinate",
                setting="weights",
            ) from None
        weights = tuple(
            check_number(f"weight {j}", weight, *_WEIGHT, or_zero=True, setting="weights") + 0.0
            for j, weight in enumerate(given)
        )
        if not any(weights):
            raise BadRule(
                f"weights are {given!r}; expected at least one above 0", setting="weights"
            )
        return weights

    def __hash__(self) -> int:
        return hash(self._sort_features().to_toml())

    def __reduce__(self) -> Any:
        given = {field.name: getattr(self, field.name) for field in fields(self)}
        return _rule_of, (given | {"features": self.features and dict(self.features)},)

    def explain(self) -> RuleWording:
        """Say the rule in plain words, which a notebook shows as a list.

        >>> print(Rule("linf", 0.16).explain())
        Two decisions are similar if no coordinate of their inputs differs by more than 0.16.
        Two similar decisions contradict each other if their outputs are not the same.
        """
        return word_rule(self)

    def _repr_html_(self) -> str | None:
        return self.explain()._repr_html_()

    def slack_for(self, storage: str) -> float:
        """Return the slack for a history stored in that type."""
        return _SLACK.get(storage, 0.0) if self.slack is None else self.slack

    def to_toml(self) -> str:
        """Return the rule as TOML; `Rule.from_toml` reads it back."""
        given = {field.name: getattr(self, field.name) for field in fields(self)}
        features = given.pop("features")
        if features is None:
            del given["protected_must_differ"]
        # Without defaults, rules that were written before these settings keep their fingerprints.
        if self.extra == "reject":
            del given["extra"]
        if self.compare == "all":
            del given["compare"]
        if self.embed is not None:
            given["embed"] = self.embed.to_plain()
        if self.output_labels is not None:
            given["output_labels"] = dict(self.output_labels)
        lines = [
            f"{name} = {toml_value(value)}" for name, value in given.items() if value is not None
        ]
        for name, feature in (features or {}).items():
            lines.append(f"\n[features.{toml_value(name)}]")
            lines += [f"{key} = {toml_value(value)}" for key, value in feature.to_dict().items()]
        return "\n".join(lines) + "\n"

    @property
    def fingerprint(self) -> str:
        """A digest that is equal for equal rules, whatever the order of their features.

        It covers the models that embed, and loads them. Their check vectors are rounded to a
        hundredth of their largest number, so that the digest is almost always the same on machines
        that compute a little differently; a ledger compares the vectors themselves. It does not
        cover labels, which are for display.
        """
        text = self._sort_features()._without_labels().to_toml()
        for column, mark in sorted(self.marks().items()):
            largest = max(map(abs, mark.check), default=0.0) or 1.0
            rounded = [f"{number / largest + 0.0:.2f}" for number in mark.check]
            text += f"\n# {column!r} {mark.identity} {' '.join(rounded)}"
        return hashlib.sha256(text.encode()).hexdigest()

    def _sort_features(self) -> "Rule":
        return replace(self, features=self.features and dict(sorted(self.features.items())))

    def _without_labels(self) -> "Rule":
        features = self.features and {
            name: feature if feature.labels is None else replace(feature, labels=None)
            for name, feature in self.features.items()
        }
        return replace(self, features=features, output_labels=None)

    @property
    def output_columns(self) -> tuple[str, ...]:
        """The columns of the output: one, several for probabilities, none without features."""
        given = self.output_column or ()
        return (given,) if isinstance(given, str) else given

    @property
    def key_column(self) -> str | None:
        """The column with the keys of decisions."""
        features = self.features or {}
        return next((name for name, feature in features.items() if feature.kind == "key"), None)

    @property
    def person_column(self) -> str | None:
        """The column that identifies people; decisions about one person are never compared."""
        features = self.features or {}
        return next((name for name, feature in features.items() if feature.kind == "person"), None)

    def embedders(self) -> dict[str, Embedder]:
        """Return the embedders by column; "" is the column of a rule without features."""
        if self.embed is not None:
            return {"": self.embed}
        features = self.features or {}
        return {
            name: feature.embed for name, feature in features.items() if feature.embed is not None
        }

    def marks(self) -> dict[str, ModelMark]:
        """Return the mark of each embedder's model; load models whose marks are not recorded."""
        return {column: embedder.mark for column, embedder in self.embedders().items()}

    def is_same_except_models(self, other: "Rule") -> bool:
        """Whether two rules are equal but for the names of their models and values."""

        def strip_names(rule: Rule) -> str:
            features = {
                name: feature
                if feature.embed is None
                else replace(feature, embed="python:any:model")
                for name, feature in (rule.features or {}).items()
            }
            embed = None if rule.embed is None else Embedder("python:any:model")
            stripped = replace(rule, embed=embed, features=features or None)
            return stripped._sort_features()._without_labels().to_toml()

        return strip_names(self) == strip_names(other)

    @classmethod
    def from_toml(cls, text: str) -> "Rule":
        """Read a rule from TOML text; `Rule.load` reads a file.

        >>> Rule.from_toml('metric = "l1"\\nepsilon = 2').metric
        'l1'
        """
        if not isinstance(text, str):
            raise BadRule(
                f"the rule is {text!r:.200} of type {type(text).__name__}; expected TOML text."
                " Rule.load(path) reads a file"
            )
        try:
            given = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise BadRule(f"the rule is not valid TOML: {error}") from None
        settings = [field.name for field in fields(cls)]
        check_known("the rule has an unknown key", given, settings)
        output = given.get("output")
        if isinstance(output, dict):
            given |= _output_table(given.pop("output"))
        return cls(**given)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Rule":
        """Read a rule from a TOML file; every error names the file."""
        try:
            text = Path(path).read_text(encoding="utf-8-sig")
        except FileNotFoundError:
            raise BadFile(
                f"the rule {path} does not exist. Make one from your data: likewise init DATA --out"
                f" {path}",
                path=path,
            ) from None
        except UnicodeDecodeError as error:
            raise BadFile(
                f"the rule {path} is not UTF-8 text (byte {error.start}).", path=path
            ) from None
        except OSError as error:
            raise BadFile(f"the rule {path} cannot be read: {error.strerror}.", path=path) from None
        try:
            return cls.from_toml(text)
        except BadRule as error:
            raise BadRule(f"the rule {path}: {error}", setting=error.setting) from None


def _rule_of(given: dict[str, Any]) -> Rule:
    return Rule(**given)


_OUTPUT_KEYS = {
    "column": "output_column",
    "kind": "output",
    "delta": "delta",
    "metric": "output_metric",
    "favourable": "favourable",
    "labels": "output_labels",
}


def _output_table(given: dict[str, Any]) -> dict[str, Any]:
    """Return the [output] table of a rule's TOML with the names of the rule's settings."""
    check_known("[output] has an unknown key", given, _OUTPUT_KEYS)
    settings = {_OUTPUT_KEYS[name]: value for name, value in given.items()}
    if "output" not in settings and isinstance(settings.get("output_column"), list):
        settings["output"] = "probabilities"
    return settings


def toml_value(value: Any) -> str:
    """Write a value, or a key with any characters, as TOML."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, dict):
        entries = (f"{toml_value(name)} = {toml_value(entry)}" for name, entry in value.items())
        return f"{{{', '.join(entries)}}}"
    if isinstance(value, tuple | list):
        return f"[{', '.join(map(toml_value, value))}]"
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    return repr(value)
