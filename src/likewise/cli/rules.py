"""The rule of a command: from its file, or made up from options; and what it asks of a file.

Invariant: a file whose columns do not fit the rule is told apart before its first row is read; a
rule that names code is refused before anything is imported, unless the code is trusted.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from likewise.cli.endings import DATA, Stop
from likewise.errors import BadRule
from likewise.feature import Feature
from likewise.rule import METRICS, OUTPUTS, Rule
from likewise.sources.chunk import Type

_MOST = 12  # names of columns in a message


@dataclass(frozen=True)
class Quick:
    """What the options say where there is no file with a rule, or on top of one."""

    metric: str | None = None
    epsilon: float | None = None
    output_column: str | None = None
    output: str | None = None
    delta: float | None = None
    ignore: tuple[str, ...] = ()


@dataclass(frozen=True)
class Asked:
    """A rule, and the columns that it wants of a file."""

    rule: Rule
    wanted: tuple[str, ...]
    """Those that are read, outputs included."""
    types: dict[str, Type]
    inputs: tuple[str, ...] = ()
    """For a rule without features: the columns that are the input, in their order."""
    output_column: str | None = None
    """For a rule without features."""
    beside: str | None = None
    """A column that is read although the rule does not know it."""

    @property
    def key(self) -> str | None:
        """The column that names decisions."""
        return self.rule.key_column


def read_rule(path: Path, *, trust_code: bool) -> Rule:
    """A rule from its file; every failure names the file."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise Stop(
            f"the rule {path} is not there. Make one from your data:"
            f" likewise init DATA --out {path}"
        ) from None
    except UnicodeDecodeError as error:
        raise Stop(f"the rule {path} is not UTF-8 text (byte {error.start}).") from None
    except OSError as error:
        raise Stop(f"the rule {path} cannot be read: {error.strerror}.") from None
    try:
        rule = Rule.from_toml(text)
    except BadRule as error:
        raise Stop(f"the rule {path}: {error}") from None
    return with_trusted_code(rule, f"the rule {path}", trust_code)


def with_trusted_code(rule: Rule, named: str, trusted: bool) -> Rule:
    """The rule, which somebody else may have written; stop if it names code that is not trusted."""
    for column, embedder in rule.embedders().items():
        if embedder.names_code and not trusted:
            of = f" of column {column!r}" if column else ""
            raise Stop(
                f"{named} names code: embed{of} is {embedder.text!r}, which is imported and run"
                " with your rights. Nothing was loaded. If you know this code and trust it, say"
                " --trust-code."
            )
    return rule


def ask(
    path: Path | None,
    quick: Quick,
    columns: Sequence[str],
    source: str,
    beside: str | None = None,
    known: Rule | None = None,
    *,
    trust_code: bool,
) -> Asked:
    """The rule to use for a file with these columns.

    beside      a column that is read, whether the rule knows it or not
    known       the rule of a ledger, where none is given
    trust_code  whether a rule in a file may name code
    """
    given = None if path is None else read_rule(path, trust_code=trust_code)
    if beside is None:
        return _ask(given, path, quick, columns, source, known)
    _there(columns, [beside], source, "the options")
    named = given is not None and beside in (given.features or {})
    asked = _ask(given, path, quick, [one for one in columns if named or one != beside], source)
    wanted = tuple(dict.fromkeys([*asked.wanted, beside]))
    return replace(asked, wanted=wanted, beside=None if named else beside)


def _ask(
    given: Rule | None,
    path: Path | None,
    quick: Quick,
    columns: Sequence[str],
    source: str,
    known: Rule | None = None,
) -> Asked:
    rule = known if given is None else given
    if rule is None or (given is None and quick != Quick()):
        return _made_up(quick, columns, source)
    if rule.features is None:
        return _of_vectors(_changed(rule, quick), quick, columns, source, path)
    for name, option in (
        ("--metric", quick.metric),
        ("--output-column", quick.output_column),
        ("--output", quick.output),
        ("--ignore", quick.ignore or None),
    ):
        if option is not None:
            raise Stop(
                f"{name} is given, and so is a rule, which says that already. Change"
                f" {path or 'that'}, or leave out one of them."
            )
    named = "the rule of the ledger" if path is None else str(path)
    return _of_features(_changed(rule, quick), columns, source, named)


def _changed(rule: Rule, quick: Quick) -> Rule:
    changes = {"epsilon": quick.epsilon, "delta": quick.delta}
    return replace(rule, **{name: one for name, one in changes.items() if one is not None})  # type: ignore[arg-type]


def _made_up(quick: Quick, columns: Sequence[str], source: str) -> Asked:
    """All columns but the output are numbers, near within epsilon."""
    if quick.epsilon is None or quick.output_column is None:
        raise Stop(
            "what is near, and what is the output? Say --rule likewise.toml (`likewise init"
            f" {source}` proposes one), or for a file of numbers --epsilon 0.16 --output-column"
            " prediction."
        )
    metric, output = quick.metric or METRICS[0], quick.output or OUTPUTS[0]
    if metric == "cosine":
        rule = Rule(metric, quick.epsilon, output=output, delta=quick.delta or 0.0)
        return _of_vectors(rule, quick, columns, source, None)
    inputs = _inputs(quick, columns, source)
    rule = Rule(
        metric,
        quick.epsilon,
        output=output,
        delta=quick.delta or 0.0,
        features={
            **{name: Feature("number", tolerance=1) for name in inputs},
            **{name: Feature("ignore") for name in quick.ignore},
        },
        output_column=quick.output_column,
    )
    return _of_features(rule, columns, source, "the rule from the options")


def _inputs(quick: Quick, columns: Sequence[str], source: str) -> list[str]:
    _there(columns, [quick.output_column or "", *quick.ignore], source, "the options")
    inputs = [name for name in columns if name not in (quick.output_column, *quick.ignore)]
    if not inputs:
        raise Stop(f"{source} has no column but the output; nothing is left to compare.", DATA)
    return inputs


def _of_vectors(
    rule: Rule, quick: Quick, columns: Sequence[str], source: str, path: Path | None
) -> Asked:
    if rule.embed is not None:
        raise Stop(
            f"the rule {path} embeds an input, and a file has columns: say which one it is, with"
            ' [features.NAME], kind = "text" or "image", embed and tolerance.'
        )
    if quick.output_column is None:
        raise Stop(
            f"the rule {path} has no features, so it does not say which column is the output: add"
            " --output-column."
        )
    if rule.output == "probabilities":
        raise Stop(
            "the output is probabilities, which take several columns: use a rule with features, and"
            " with output_column = [...] in it."
        )
    inputs = _inputs(quick, columns, source)
    if rule.weights is not None and len(rule.weights) != len(inputs):
        raise Stop(
            f"{source} has {len(inputs)} columns beside the output, but the rule has"
            f" {len(rule.weights)} weights: one for each column, in the order of the file.",
            DATA,
        )
    types: dict[str, Type] = dict.fromkeys(inputs, "number")
    types[quick.output_column] = "number" if rule.output == "number" else "text"
    wanted = (*inputs, quick.output_column)
    return Asked(rule, wanted, types, tuple(inputs), quick.output_column)


def _of_features(rule: Rule, columns: Sequence[str], source: str, rule_name: str) -> Asked:
    assert rule.features is not None and rule.output_column is not None
    given = rule.output_column
    outputs = [given] if isinstance(given, str) else list(given)
    used = [name for name, one in rule.features.items() if _kind(one) != "ignore"]
    _there(columns, [*used, *outputs], source, rule_name)
    unknown = [name for name in columns if name not in rule.features and name not in outputs]
    if unknown:
        raise Stop(
            f"{source} has columns that {rule_name} does not know: {_listed(unknown)}. Say what"
            f" each means; for one that says nothing: [features.{_key(unknown[0])}] and"
            ' kind = "ignore".',
            DATA,
        )
    return Asked(rule, (*used, *outputs), types_of(rule))


def types_of(rule: Rule) -> dict[str, Type]:
    """How text is read: what the rule calls a number, or lists as numbers, is one."""
    types: dict[str, Type] = {}
    for name, one in (rule.features or {}).items():
        assert isinstance(one, Feature)
        types[name] = "number" if one.kind == "number" else _listed_type(one.order or one.values)
    given = rule.output_column or ()
    for name in [given] if isinstance(given, str) else given:
        types[name] = "number"
        if rule.output == "label":
            types[name] = _listed_type(None if rule.favourable is None else [rule.favourable])
    return types


def _listed_type(values: Sequence[object] | None) -> Type:
    if not values:
        return "text"
    if all(isinstance(value, bool) for value in values):
        return "flag"
    return "listed" if all(isinstance(value, int | float) for value in values) else "text"


def _there(columns: Sequence[str], names: Iterable[str], source: str, rule_name: str) -> None:
    missing = [name for name in names if name not in columns]
    if missing:
        one = "a column that is" if len(missing) == 1 else "columns that are"
        raise Stop(
            f"{rule_name} names {one} not in {source}: {_listed(missing)}. The file has"
            f" {_listed(columns)}.",
            DATA,
        )


def _listed(names: Sequence[str]) -> str:
    text = ", ".join(map(repr, names[:_MOST]))
    return text if len(names) <= _MOST else f"{text} and {len(names) - _MOST:,} more"


def _key(name: str) -> str:
    plain = name.isascii() and name.replace("_", "").replace("-", "").isalnum()
    return name if plain else repr(name)


def _kind(feature: object) -> str:
    return str(getattr(feature, "kind", ""))
