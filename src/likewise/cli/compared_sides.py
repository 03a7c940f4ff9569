"""`likewise compare` chooses, opens, judges and compares two sides here.

A side is a file, a ledger, or the rows of one file that a model decided (auditing/histories.py).
Cost: a file with a column of models is read once for their names and once for each of the two.
"""

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from likewise.auditing.histories import judge_history, judge_ledger, models_of
from likewise.auditing.job import AuditOptions
from likewise.cli.compare_options import CompareOptions
from likewise.cli.exit_codes import DATA, USAGE, CommandError
from likewise.cli.open_ledger import open_for_reading
from likewise.cli.options import RuleOptions
from likewise.cli.rule_options import bind_rule, read_rule
from likewise.cli.terminal import progress
from likewise.ledger.ledger import Ledger
from likewise.reports.comparison import Comparison, compare
from likewise.reports.judged_history import JudgedHistory
from likewise.rule.rule import Rule

_MODELS_SHOWN = 12  # in a message


def judge_and_compare(options: CompareOptions) -> Comparison:
    """Judge both sides, and compare them."""
    with ExitStack() as stack:
        if options.model_column is not None:
            one, other = _judge_models(options, options.model_column, stack)
        else:
            assert options.b is not None
            one, other = _judge_two(options, options.a, options.b, stack)
        return compare(one, other, column=options.model_column, command=options.command)


# Two files or ledgers


def _judge_two(
    options: CompareOptions, a: str, b: str, stack: ExitStack
) -> Sequence[JudgedHistory]:
    if a == b == "-":
        raise CommandError("standard input is one file; expected another beside it.")
    names = Path(a).name, Path(b).name
    if names[0] == names[1]:
        names = a, b
    ledgers = [
        stack.enter_context(open_for_reading(Path(path))) if Path(path).is_dir() else None
        for path in (a, b)
    ]
    ledger_rule = _shared_rule(options, ledgers)
    if ledger_rule is not None:
        _refuse_across(ledger_rule)
    sides = []
    for path, name, ledger in zip((a, b), names, ledgers, strict=True):
        if ledger is None:
            numbered = ledger_rule is not None
            sides.append(_judge_file(options, path, name, stack, ledger_rule, numbered=numbered))
        else:
            with progress(f"judging {ledger.path} again"):
                sides.append(judge_ledger(ledger, name, options.command, stack))
    return sides


def _shared_rule(options: CompareOptions, ledgers: Sequence[Ledger | None]) -> Rule | None:
    """Return the rule of the ledgers, if any; raise CommandError if another side has another."""
    opened = [ledger for ledger in ledgers if ledger is not None]
    if not opened:
        return None
    if options.time_column is not None:
        raise CommandError(
            "--time-column is about files; a ledger has its own order, that of arrival."
        )
    if options.quick != RuleOptions():
        raise CommandError(
            "a ledger has a rule of its own: leave out --metric, --epsilon and the like."
        )
    rules = [ledger.rule for ledger in opened]
    if options.rule is not None:
        rules.append(read_rule(options.rule, trust_code=options.trust_code))
    for rule in rules[1:]:
        if not rule.is_same_except_models(rules[0]):
            raise CommandError(
                f"the ledger {opened[0].path} has another rule than"
                f" {options.rule if len(opened) < 2 else opened[1].path}: contradictions under two"
                " rules cannot be compared. Begin a ledger under the other's rule."
            )
    return rules[0]


# Files


def _judge_file(
    options: CompareOptions,
    path: str,
    name: str,
    stack: ExitStack,
    ledger_rule: Rule | None = None,
    model: tuple[str, str] | None = None,
    *,
    numbered: bool = True,
    quiet: bool = False,
) -> JudgedHistory:
    """Judge a file; quiet: remarks on how it was read were printed already."""
    reading = options.reading
    opened = reading.open_quietly(path) if quiet else reading.open(path)
    with opened as source, progress(f"judging {name}") as bar:
        binding = bind_rule(
            options.rule if ledger_rule is None else None,
            options.quick,
            source.columns,
            source.name,
            [name for name in (options.time_column, options.model_column) if name is not None],
            ledger_rule,
            left_out=source.left_out,
            trust_code=options.trust_code,
        )
        _refuse_across(binding.rule)
        audit_options = AuditOptions(
            options.time_column,
            reading.day_order,
            options.within,
            skip=reading.skips_bad_rows,
            command=options.command,
        )
        return judge_history(
            source,
            binding,
            audit_options,
            stack,
            name=name,
            reopen=lambda: reading.open_quietly(path),
            progress=bar.update,
            model=model,
            numbered=numbered,
        )


def _refuse_across(rule: Rule) -> None:
    if rule.compare == "across":
        raise CommandError(
            'the rule has compare = "across", and each history is judged by itself, so that nothing'
            " could be compared. For decisions of several models beside each other: likewise audit"
            " --model-column."
        )


# One file with a column of models


def _judge_models(
    options: CompareOptions, column: str, stack: ExitStack
) -> Sequence[JudgedHistory]:
    if options.a == "-" or Path(options.a).is_dir():
        raise CommandError("--model-column needs a file that can be read twice; expected its name.")
    return [
        _judge_file(
            options, options.a, f"{column} {model}", stack, model=(column, model), quiet=i > 0
        )
        for i, model in enumerate(_choose_models(options, column))
    ]


def _choose_models(options: CompareOptions, column: str) -> tuple[str, str]:
    """Return the two models of a file: those named, else the only two, in the order of lines."""
    with options.reading.open_quietly(options.a) as source:
        if column not in (*source.columns, *source.left_out):
            raise CommandError(f"--model-column {column} is no column of {source.name}.", DATA)
        models = models_of(source, column)
    listed = ", ".join(map(repr, models[:_MODELS_SHOWN])) + ", …" * (len(models) > _MODELS_SHOWN)
    chosen = [options.first, options.second]
    for option, model in zip(("--first", "--second"), chosen, strict=True):
        if model is not None and model not in models:
            raise CommandError(f"{option} is {model!r}; {column} has {listed}.", DATA)
    rest = [model for model in models if model not in chosen]
    unnamed = chosen.count(None)
    if unnamed and len(rest) != unnamed:
        raise CommandError(
            f"{column} has {len(models):,} value{'s' * (len(models) != 1)}: {listed}; expected two"
            " models. Name those to compare with --first and --second.",
            DATA if len(models) < 2 else USAGE,
        )
    one, other = (model if model is not None else rest.pop(0) for model in chosen)
    if one == other:
        raise CommandError(f"--first and --second are both {one!r}; expected two models.")
    return one, other
