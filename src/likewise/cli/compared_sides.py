"""What `likewise compare` does with its options: two sides are chosen, opened, judged and compared.

A side is a file, a ledger, or the rows of one file that a model decided (audit/histories.py). A
file with a column of models is read once for their names and once for each of the two.
"""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from likewise.audit.audit_options import AuditOptions
from likewise.audit.histories import judge_history, judge_ledger, models_of
from likewise.cli.exit_codes import DATA, USAGE, CommandError
from likewise.cli.input_files import ReadingOptions
from likewise.cli.open_ledger import open_for_reading
from likewise.cli.options import RuleOptions
from likewise.cli.rule_options import bind_rule, read_rule
from likewise.cli.terminal import progress
from likewise.ledger.ledger import Ledger
from likewise.reports.comparison import Comparison, compare
from likewise.reports.judged_history import JudgedHistory
from likewise.rule.rule import Rule

_NAMES = 12  # models in a message


@dataclass(frozen=True)
class CompareOptions:
    """What is to be compared, and how it is read."""

    a: str
    b: str | None
    rule: Path | None
    quick: RuleOptions
    reading: ReadingOptions
    column: str | None = None
    first: str | None = None
    second: str | None = None
    time_column: str | None = None
    within: str | None = None
    trust_code: bool = False
    command: str | None = None

    def __post_init__(self) -> None:
        if self.within is not None and self.time_column is None:
            raise CommandError("--within is about times: say --time-column.")
        if (self.b is None) == (self.column is None):
            raise CommandError(
                "what is to be compared? Give two files or ledgers, A and B; or one file and"
                " --model-column, the column that says which model decided."
            )
        if self.column is None and (self.first is not None or self.second is not None):
            raise CommandError("--first and --second name models: say --model-column, too.")


def judge_and_compare(wanted: CompareOptions) -> Comparison:
    """Both sides judged, and compared."""
    with ExitStack() as stack:
        if wanted.column is not None:
            one, other = _judge_models(wanted, wanted.column, stack)
        else:
            assert wanted.b is not None
            one, other = _judge_two(wanted, wanted.a, wanted.b, stack)
        return compare(one, other, column=wanted.column, command=wanted.command)


# Two files or ledgers


def _judge_two(wanted: CompareOptions, a: str, b: str, stack: ExitStack) -> Sequence[JudgedHistory]:
    if a == b == "-":
        raise CommandError("standard input is one file; expected another beside it.")
    names = Path(a).name, Path(b).name
    if names[0] == names[1]:
        names = a, b
    ledgers = [
        stack.enter_context(open_for_reading(Path(one))) if Path(one).is_dir() else None
        for one in (a, b)
    ]
    known = _rule_of(wanted, ledgers)
    if known is not None:
        _refuse_across(known)
    sides = []
    for path, name, ledger in zip((a, b), names, ledgers, strict=True):
        if ledger is None:
            sides.append(_judge_file(wanted, path, name, stack, known, numbered=known is not None))
        else:
            with progress(f"judging {ledger.path} again"):
                sides.append(judge_ledger(ledger, name, wanted.command, stack))
    return sides


def _rule_of(wanted: CompareOptions, ledgers: Sequence[Ledger | None]) -> Rule | None:
    """The rule of the ledgers, if there are any; stop if it is not that of all sides."""
    opened = [ledger for ledger in ledgers if ledger is not None]
    if not opened:
        return None
    if wanted.time_column is not None:
        raise CommandError(
            "--time-column is about files; a ledger has its own order, that of arrival."
        )
    if wanted.quick != RuleOptions():
        raise CommandError(
            "a ledger has a rule of its own: leave out --metric, --epsilon and the like."
        )
    rules = [ledger.rule for ledger in opened]
    if wanted.rule is not None:
        rules.append(read_rule(wanted.rule, trust_code=wanted.trust_code))
    for rule in rules[1:]:
        if not rule.is_same_except_models(rules[0]):
            raise CommandError(
                f"the ledger {opened[0].path} has another rule than"
                f" {wanted.rule if len(opened) < 2 else opened[1].path}: contradictions under two"
                " rules cannot be compared. Begin a ledger under the other's rule.",
            )
    return rules[0]


# Files


def _judge_file(
    wanted: CompareOptions,
    path: str,
    name: str,
    stack: ExitStack,
    known: Rule | None = None,
    model: tuple[str, str] | None = None,
    *,
    numbered: bool = True,
    quiet: bool = False,
) -> JudgedHistory:
    """A file judged; quiet: remarks on how the file was read were said already."""
    reading = wanted.reading
    opened = reading.open_quietly(path) if quiet else reading.open(path)
    with opened as source, progress(f"judging {name}") as bar:
        binding = bind_rule(
            wanted.rule if known is None else None,
            wanted.quick,
            source.columns,
            source.name,
            [one for one in (wanted.time_column, wanted.column) if one is not None],
            known,
            left_out=source.left_out,
            trust_code=wanted.trust_code,
        )
        _refuse_across(binding.rule)
        options = AuditOptions(
            wanted.time_column,
            reading.day_order,
            wanted.within,
            skip=reading.skips_bad_rows,
            command=wanted.command,
        )
        return judge_history(
            source,
            binding,
            options,
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


def _judge_models(wanted: CompareOptions, column: str, stack: ExitStack) -> Sequence[JudgedHistory]:
    if wanted.a == "-" or Path(wanted.a).is_dir():
        raise CommandError("--model-column needs a file that can be read twice; expected its name.")
    return [
        _judge_file(
            wanted, wanted.a, f"{column} {model}", stack, model=(column, model), quiet=i > 0
        )
        for i, model in enumerate(_choose_models(wanted, column))
    ]


def _choose_models(wanted: CompareOptions, column: str) -> tuple[str, str]:
    """The two models of a file: those named, else the only two, in the order of lines."""
    with wanted.reading.open_quietly(wanted.a) as source:
        if column not in (*source.columns, *source.left_out):
            raise CommandError(f"--model-column {column} is no column of {source.name}.", DATA)
        models = models_of(source, column)
    listed = ", ".join(map(repr, models[:_NAMES])) + ", …" * (len(models) > _NAMES)
    chosen = [wanted.first, wanted.second]
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
