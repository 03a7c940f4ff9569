"""The rule of a command comes from its file or from options, and is bound to a file's columns.

Invariant: a rule that names code is refused before anything is imported, unless it is trusted.
Not here: what a rule requires of the columns (sources/binding.py).
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from likewise.cli.exit_codes import CommandError
from likewise.cli.options import RuleOptions
from likewise.errors import BadFile, BadRule
from likewise.rule.feature import Feature
from likewise.rule.rule import METRICS, OUTPUTS, Rule
from likewise.sources.binding import (
    Binding,
    bind_features,
    bind_vectors,
    check_columns,
    inputs_among,
)

_COMMAND_LINE = "the command line"  # in errors: who named a column


def read_rule(path: Path, *, trust_code: bool) -> Rule:
    """Read a rule from its file; every failure names the file."""
    try:
        rule = Rule.load(path)
    except (BadFile, BadRule) as error:
        raise CommandError(str(error)) from None
    return check_trusted_code(rule, f"the rule {path}", trust_code)


def check_trusted_code(rule: Rule, name: str, trusted: bool) -> Rule:
    """Return the rule; raise CommandError if it names code and is not trusted."""
    for column, embedder in rule.embedders().items():
        if embedder.names_code and not trusted:
            of = f" of column {column!r}" if column else ""
            raise CommandError(
                f"{name} names code: embed{of} is {embedder.text!r}, which is imported and run"
                " with your rights. Nothing was loaded. If you know this code and trust it, say"
                " --trust-code."
            )
    return rule


def bind_rule(
    path: Path | None,
    quick: RuleOptions,
    columns: Sequence[str],
    source: str,
    extra_columns: Sequence[str] = (),
    ledger_rule: Rule | None = None,
    *,
    left_out: Sequence[str] = (),
    trust_code: bool,
) -> Binding:
    """Return the rule to use for a file with these columns, bound to them.

    extra_columns  columns that are read, whether the rule names them or not
    ledger_rule    the rule of a ledger, for use without a file
    left_out       further columns of the file, which count only if the rule or an option names them
    trust_code     whether a rule in a file may name code
    """
    file_rule = None if path is None else read_rule(path, trust_code=trust_code)
    features = (file_rule and file_rule.features) or {}
    options = {quick.output_column, quick.person, *quick.ignore}
    named = {*features, *extra_columns, *options}
    columns = [*columns, *(name for name in left_out if name in named)]
    check_columns(columns, extra_columns, source=source, named_by=_COMMAND_LINE)
    rule = ledger_rule if file_rule is None else file_rule
    in_rule = set() if rule is None else {*(rule.features or {})}
    columns = [name for name in columns if name in in_rule or name not in extra_columns]
    return _bind_columns(rule, path, quick, columns, source).with_extra_columns(extra_columns)


def _bind_columns(
    rule: Rule | None, path: Path | None, quick: RuleOptions, columns: Sequence[str], source: str
) -> Binding:
    """Bind a rule; path: its file, or None for the rule of a ledger."""
    if rule is None or (path is None and quick != RuleOptions()):
        return _make_rule(quick, columns, source)
    if rule.features is None:
        rule_name = "the rule of the ledger" if path is None else f"the rule {path}"
        return _bind_vectors(apply_options(rule, quick), quick, columns, source, rule_name)
    for name in ("metric", "output_column", "output", "ignore", "person"):
        if getattr(quick, name) not in (None, []):
            option = f"--{name.replace('_', '-')}"
            raise CommandError(
                f"{option} is given, and so is a rule, which says that already. Change"
                f" {path or 'that'}, or leave out one of them."
            )
    rule_name = "the rule of the ledger" if path is None else str(path)
    return bind_features(apply_options(rule, quick), columns, source=source, rule_name=rule_name)


def apply_options(rule: Rule, quick: RuleOptions) -> Rule:
    """Replace what the options change in a rule."""
    changes = {"epsilon": quick.epsilon, "delta": quick.delta}
    return replace(rule, **{name: value for name, value in changes.items() if value is not None})  # type: ignore[arg-type]


def _make_rule(quick: RuleOptions, columns: Sequence[str], source: str) -> Binding:
    """Make a rule of the options: every column but the output is a number to compare."""
    if quick.epsilon is None or quick.output_column is None:
        raise CommandError(
            "what is similar, and what is the output? Say --rule likewise.toml (`likewise init"
            f" {source}` proposes one), or for a file of numbers --epsilon 0.16 --output-column"
            " prediction."
        )
    metric: Any = quick.metric or METRICS[0]  # Rule checks both
    output: Any = quick.output or OUTPUTS[0]
    rule_name = "the rule from the options"
    if metric == "cosine":
        rule = Rule(metric, quick.epsilon, output=output, delta=quick.delta or 0.0)
        return _bind_vectors(rule, quick, columns, source, rule_name)
    person = () if quick.person is None else (quick.person,)
    if quick.person in (quick.output_column, *quick.ignore) and person:
        raise CommandError(
            f"--person {quick.person} is the output or ignored; expected another column."
        )
    column, left_out = quick.output_column, (*quick.ignore, *person)
    inputs = inputs_among(columns, column, left_out, source=source, named_by=_COMMAND_LINE)
    rule = Rule(
        metric,
        quick.epsilon,
        output=output,
        delta=quick.delta or 0.0,
        features={
            **{name: Feature("number", tolerance=1) for name in inputs},
            **{name: Feature("ignore") for name in quick.ignore},
            **{name: Feature("person", missing="mismatch") for name in person},
        },
        output_column=column,
    )
    return bind_features(rule, columns, source=source, rule_name=rule_name)


def _bind_vectors(
    rule: Rule, quick: RuleOptions, columns: Sequence[str], source: str, rule_name: str
) -> Binding:
    if quick.person is not None:
        raise CommandError(
            f"--person needs columns with tolerances, and {rule_name} is about vectors: use a rule"
            " with features, and metric linf, l1 or l2."
        )
    if quick.output_column is None and rule.embed is None:  # bind_vectors refuses embed
        raise CommandError(
            f"{rule_name} has no features, so it does not say which column is the output: add"
            " --output-column."
        )
    return bind_vectors(
        rule,
        columns,
        quick.output_column or "",
        ignore=quick.ignore,
        source=source,
        rule_name=rule_name,
        named_by=_COMMAND_LINE,
    )
