"""`likewise replay`: every verdict of a ledger computed again and compared."""

from likewise.cli import options as o


def replay(ledger: o.LedgerFolder, json: o.Json = False) -> int:
    """Compute every verdict of a ledger again, and say where one differs.

    Exit codes: 0 all as they were written, 3 one differs.
    """
    from likewise.cli.exit_codes import DATA, FINE
    from likewise.cli.open_ledger import open_for_reading
    from likewise.cli.terminal import print_result, progress
    from likewise.monitor.replaying import replay as judge_again

    open_for_reading(ledger).close()  # what is wrong with the folder is told in our words
    with progress(f"judging {ledger} again"):
        found = judge_again(ledger)
    told = {"ok": found.ok, "rows": found.rows, "in_part": found.in_part, "skipped": found.skipped}
    why = {"row": found.row, "why": found.difference}
    print_result({**told, **why}, str(found), as_json=json)
    return FINE if found.ok else DATA
