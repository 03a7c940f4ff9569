"""`likewise bench`: how fast is this machine? Two minutes at most, beside a NumPy scan."""

from typing import Annotated, Any

import typer

from likewise.cli import options as o


def bench(
    quick: Annotated[
        bool, typer.Option("--quick", help="A tenth of the decisions: some seconds.")
    ] = False,
    json: o.Json = False,
) -> int:
    """Measure decisions per second on this machine, beside a NumPy scan of the whole past.

    Generated decisions; every figure is given only if both name the same witnesses. The load of the
    machine is stated, and figures at a load above 1.5 are marked as not final.
    """
    from likewise.cli.bench_workloads import WORKLOADS, measure, warm_up
    from likewise.cli.exit_codes import FINE
    from likewise.cli.terminal import progress
    from likewise.runtime.machine import MachineLoad

    measured = []
    load = MachineLoad()
    with progress("measuring") as bar:
        for workload in WORKLOADS:
            warm_up(workload)
        for i, workload in enumerate(WORKLOADS):
            bar.update(i, len(WORKLOADS), workload.name)
            measured.append(measure(workload, quick))
    if json:
        _print_json(measured, load.measure())
    else:
        _print(measured, load.measure())
    return FINE


def _machine() -> dict[str, Any]:
    import os
    import platform

    import numpy as np

    from likewise.search.kernels.compile import way
    from likewise.version import __version__

    available = getattr(os, "sched_getaffinity", None)
    return {
        "likewise": __version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "kernels": way,
        "machine": platform.machine(),
        "cores": len(available(0)) if available else os.cpu_count(),
    }


def _print_json(measured: list[Any], load: float | None) -> None:
    from dataclasses import asdict

    from likewise.cli.terminal import print_json
    from likewise.runtime.machine import is_final

    state = {"load": None if load is None else round(load, 2), "final": is_final(load)}
    print_json({**_machine(), **state, "workloads": [asdict(one) for one in measured]})


def _print(measured: list[Any], load: float | None) -> None:
    from likewise.cli.terminal import say
    from likewise.runtime.machine import NOT_FINAL, is_final

    say("Decisions per second", "bold")
    say()
    lines = [("", "past", "flagged", "observe_many", "observe", "NumPy scan", "faster")]
    for one in measured:
        lines.append(
            (
                one.name,
                f"{one.rows:,}",
                f"{one.flagged / one.rows:.1%}",
                f"{one.observe_many:,.0f}",
                f"{one.observe:,.0f}",
                f"{one.scan:,.0f}",
                f"{one.observe / one.scan:,.0f}x",
            )
        )
    widths = [max(len(line[j]) for line in lines) for j in range(len(lines[0]))]
    for line in lines:
        cells = [line[0].ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(line[1:], widths[1:], strict=True)]
        say("  ".join(cells))
    say()
    say("observe_many judges the whole past together, observe one decision after it; `faster` is")
    say("observe beside a scan of the same past. Both named the same witnesses.")
    told = ", ".join(f"{name} {value}" for name, value in _machine().items())
    say(told)
    if load is not None:
        say(f"Load of the machine {load:.2f}, where 1 is this measurement alone.")
    if not is_final(load):
        say(f"Not final: above {NOT_FINAL} other programs slow down what is measured.", "bold")
