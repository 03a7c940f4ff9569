"""Options of `likewise watch`: what is followed, how it is judged, and where answers go."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from likewise.cli import options as o
from likewise.cli.exit_codes import CommandError
from likewise.cli.input_files import ReadingOptions


@dataclass(frozen=True, kw_only=True)
class WatchOptions:
    """Options that say what is followed, how it is judged, and where answers go."""

    source: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="ADDRESS",
            help="Read a stream (redis://…, nats://…, kafka://…) or a file of JSON lines, not"
            " standard input.",
        ),
    ] = None
    to: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS", help="With --from: a stream for verdict lines; else standard output."
        ),
    ] = None
    dead_letters: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="With --from: a stream for messages that cannot be judged; else standard output.",
        ),
    ] = None
    gaps: Annotated[
        str | None,
        typer.Option(
            metavar="lost|stop",
            help="With --from: count messages that are gone as lost (the default), or end with an"
            " error.",
        ),
    ] = None
    rule: o.RuleFile = None
    trust_code: o.TrustCode = False
    ledger: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER", help="Keep decisions and verdicts in a ledger, new or continued."
        ),
    ] = None
    resume: Annotated[
        bool,
        typer.Option(
            "--resume",
            help="The input starts again at its first line: lines that the ledger has are not"
            " judged again.",
        ),
    ] = False
    durability: Annotated[
        str,
        typer.Option(
            metavar="commit|batch|off", help="Whether an answer waits until it is safely on disk."
        ),
    ] = "commit"
    window: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help='How much a ledger keeps: "100000 rows", "24 hours".'),
    ] = None
    witnesses: Annotated[
        int, typer.Option(min=0, help="How many of a decision's nearest witnesses are named.")
    ] = 10
    on_bad_row: Annotated[
        str,
        typer.Option(
            metavar="skip|fail",
            help="Report a line that cannot be judged and go on, or end there.",
        ),
    ] = "skip"
    model_column: o.ModelColumn = None
    quick: o.RuleOptions
    burst: o.Last = None
    alarm: o.Alarm = None

    @property
    def skips_bad_rows(self) -> bool:
        return ReadingOptions(on_bad_row=self.on_bad_row).skips_bad_rows

    def __post_init__(self) -> None:
        from likewise.sources.address import GAPS

        o.make_burst(self.burst, self.alarm)  # raises for an alarm without a burst
        quick = self.quick
        if self.ledger is None and (self.resume or self.window is not None):
            raise CommandError("--resume and --window are about a ledger: say --ledger.")
        if self.source is None:
            if (self.to, self.dead_letters, self.gaps) != (None, None, None):
                raise CommandError(
                    "--to, --dead-letters and --gaps are about a stream: say --from."
                )
        elif self.resume or not self.skips_bad_rows:
            raise CommandError(
                "--resume and --on-bad-row are about standard input, and --from is given."
            )
        elif self.gaps not in (None, *GAPS):
            raise CommandError(f"--gaps is {self.gaps!r}; expected {' or '.join(GAPS)}.")
        elif (quick.metric, quick.epsilon, quick.output, quick.delta) != (None,) * 4:
            raise CommandError("--from needs a rule in a file, --rule, or a ledger that has one.")
