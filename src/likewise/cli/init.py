"""`likewise init`: propose a first rule for a file, to be read and changed.

Columns are classified by their values and names (proposing/proposal.py). The rule is then tried on
the first rows, and loosened where it would compare nothing (proposing/loosening.py). Comments in
the rule mark what is a guess. If names do not tell which column is the output, the user is asked.
"""

import shlex
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from likewise.cli import options as o
from likewise.cli.exit_codes import FINE, CommandError
from likewise.cli.input_files import ReadingOptions, check_output_path, write_text
from likewise.cli.terminal import (
    ask_text,
    is_interactive,
    print_json,
    progress,
    say,
    say_lines,
    say_on_stderr,
)
from likewise.errors import BadTable

if TYPE_CHECKING:
    from likewise.proposing.output_column import OutputGuess
    from likewise.proposing.profile import Profile
    from likewise.proposing.propose_rule import Proposal


@o.with_option_groups("on_bad_row")
def init(
    data: o.Data,
    output_column: list[str] = o.option(
        "The column of the output; several for probabilities.", default=[], metavar="COLUMN"
    ),
    out: Path = o.option(
        "Where to write the rule; - prints it.", default=Path("likewise.toml"), metavar="FILE"
    ),
    force: bool = o.option("Replace an existing file.", "--force", default=False),
    json: o.Json = False,
    *,
    reading: ReadingOptions,
) -> int:
    """Propose a rule for a file of decisions: likewise.toml, with comments, for you to edit.

    likewise init decisions.csv --output-column approved
    """
    from likewise.proposing.first_rows import read_sample
    from likewise.proposing.output_column import OutputGuess
    from likewise.proposing.profile import profiles_of
    from likewise.proposing.propose_rule import check_named, propose_and_try
    from likewise.tables.frames import table_columns

    printed = str(out) == "-"
    if not printed:
        check_output_path(out, "--out", (".toml",))
        if out.exists() and not force:
            raise CommandError(
                f"{out} is there already. Write to another file with --out, or say --force."
            )
    data_words = reading.to_command(data)
    with reading.open(data) as source:
        name = source.name
        check_named(name, output_column, source.columns)
        with progress(f"reading {name}"):
            sample = read_sample(source)
    with progress(f"looking at {name}"):
        profiles = profiles_of(table_columns(sample.table))
    guess = (
        OutputGuess("", "")
        if output_column
        else _guess_output_column(profiles, name, data_words, ask=not json)
    )
    with progress(f"trying a rule on {name}"):
        outputs = output_column or [guess.column]
        proposed = propose_and_try(profiles, outputs, name, guess.note)
    if printed:
        say_lines(proposed.text.removesuffix("\n"), wrap=False)
    else:
        write_text(out, proposed.text)
    if json:
        numbers = replace(proposed, reading=sample.remarks).to_dict()
        print_json({"out": None if printed else str(out), **numbers})
    elif not printed:
        _print_next(proposed, data_words, out)
    if sample.unreadable:
        say_on_stderr(sample.unreadable)
    return FINE


def _guess_output_column(
    profiles: "Mapping[str, Profile]", name: str, data_words: str, *, ask: bool
) -> "OutputGuess":
    """Find the output column by its name, or ask at the terminal."""
    from likewise.proposing.output_column import OutputGuess, candidates, guess_output
    from likewise.proposing.propose_rule import check_named

    guess = guess_output(profiles)
    if guess is not None:
        return guess
    likely = candidates(profiles)
    question = f"which column of {name} is the output, what was decided?"
    if ask and is_interactive():
        listed = [f"{i}  {column}" for i, column in enumerate(likely, 1)]
        say_on_stderr("\n".join([f"The names do not tell {question}", *listed]))
        answer = ask_text("A number, or the name of a column")
        by_number = {str(i): column for i, column in enumerate(likely, 1)}
        column = answer if answer in profiles else by_number.get(answer, answer)
        if column in profiles:
            return OutputGuess(column, "")
        try:
            check_named(name, [answer], profiles)
        except BadTable as error:
            raise CommandError(str(error)) from None
    example = likely[0] if likely else next(iter(profiles))
    raise CommandError(
        f"{question} The names do not tell. Say it: likewise init {data_words}"
        f" --output-column {shlex.quote(example)}. By their values it may be"
        f" {', '.join(map(repr, likely)) or 'none of them'}; the columns are"
        f" {', '.join(map(repr, profiles))}."
    )


def _print_next(proposed: "Proposal", data: str, out: Path) -> None:
    say(f"Wrote {out}, a proposal: read it, and correct what is wrong.")
    say()
    for line in proposed.overview:
        say(f"  {line}")
    say()
    if proposed.notes:
        say("Check these:")
        for line in proposed.remarks:
            say(f"  {line}")
        say()
    if loosened := proposed.loosened:
        for line in loosened.sentences():
            say(line, "bold" if loosened.trial.comparable else "bold red")
    say()
    say(f"Then: likewise audit {data} --rule {out} --report page.html")
