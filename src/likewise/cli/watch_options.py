"""Options of `likewise watch`: what is followed, how it is judged, and where answers go."""

from dataclasses import dataclass
from pathlib import Path

from likewise.cli import options as o
from likewise.cli.exit_codes import CommandError
from likewise.cli.input_files import ReadingOptions


@dataclass(frozen=True, kw_only=True)
class WatchOptions:
    """Options that say what is followed, how it is judged, and where answers go."""

    source: str | None = o.field_option(
        "Read a stream (redis://…, nats://…, kafka://…) or a file of JSON lines, not"
        " standard input.",
        "--from",
        metavar="ADDRESS",
    )
    to: str | None = o.field_option(
        "With --from: a stream for verdict lines; else standard output.", metavar="ADDRESS"
    )
    dead_letters: str | None = o.field_option(
        "With --from: a stream for messages that cannot be judged; else standard output.",
        metavar="ADDRESS",
    )
    gaps: str | None = o.field_option(
        "With --from: count messages that are gone as lost (the default), or end with an error.",
        metavar="lost|stop",
    )
    rule: o.RuleFile = None
    trust_code: o.TrustCode = False
    ledger: Path | None = o.field_option(
        "Keep decisions and verdicts in a ledger, new or continued.", metavar="FOLDER"
    )
    resume: bool = o.field_option(
        "The input starts again at its first line: lines that the ledger has are not judged again.",
        "--resume",
        default=False,
    )
    durability: str = o.field_option(
        "Whether an answer waits until it is safely on disk.",
        default="commit",
        metavar="commit|batch|off",
    )
    window: str | None = o.field_option(
        'How much a ledger keeps: "100000 rows", "24 hours".', metavar="TEXT"
    )
    witnesses: int = o.field_option(
        "How many of a decision's nearest witnesses are named.", default=10, min=0
    )
    on_bad_row: str = o.field_option(
        "Report a line that cannot be judged and go on, or end there.",
        default="skip",
        metavar="skip|fail",
    )
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
