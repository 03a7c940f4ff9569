"""`likewise bench`: measure how fast this machine judges decisions, beside a NumPy scan."""

from typing import TYPE_CHECKING, Any

from likewise.cli import options as o
from likewise.cli.exit_codes import FINE
from likewise.cli.terminal import print_json, progress, say

if TYPE_CHECKING:
    from likewise.cli.bench_workloads import BenchResult


def bench(
    quick: bool = o.option("Judge fewer decisions: takes some seconds.", "--quick", default=False),
    json: o.Json = False,
) -> int:
    """Measure decisions per second on this machine, beside a NumPy scan of the whole past.

    Takes two minutes at most. The decisions are generated, and a figure is given only if monitor
    and scan name the same witnesses. The load of the machine is stated, and figures at a load above
    1.5 are marked as not final.
    """
    from likewise.cli.bench_workloads import WORKLOADS, measure, warm_up
    from likewise.runtime.machine import MachineLoad

    results = []
    load = MachineLoad()
    with progress("measuring") as bar:
        for workload in WORKLOADS:
            warm_up(workload)
        for i, workload in enumerate(WORKLOADS):
            bar.update(i, len(WORKLOADS), workload.name)
            results.append(measure(workload, quick))
    if json:
        _print_json(results, load.measure())
    else:
        _print(results, load.measure())
    return FINE


def _describe_machine() -> dict[str, Any]:
    import platform

    import numpy as np

    from likewise.runtime.machine import count_cores
    from likewise.search.kernels.compile import way
    from likewise.version import __version__

    return {
        "likewise": __version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "kernels": way,
        "machine": platform.machine(),
        "cores": count_cores(),
    }


def _print_json(results: "list[BenchResult]", load: float | None) -> None:
    from dataclasses import asdict

    from likewise.runtime.machine import is_final

    state = {"machine_load": None if load is None else round(load, 2), "final": is_final(load)}
    workloads = [asdict(result) for result in results]
    print_json({**_describe_machine(), **state, "workloads": workloads})


def _print(results: "list[BenchResult]", load: float | None) -> None:
    from likewise.runtime.machine import NOT_FINAL, is_final

    say("Decisions per second", "bold")
    say()
    lines = [("", "past", "flagged", "observe_many", "observe", "NumPy scan", "faster")]
    for result in results:
        lines.append(
            (
                result.name,
                f"{result.rows:,}",
                f"{result.violations / result.rows:.1%}",
                f"{result.observe_many:,.0f}",
                f"{result.observe:,.0f}",
                f"{result.scan:,.0f}",
                f"{result.observe / result.scan:,.0f}x",
            )
        )
    first, *widths = (max(map(len, column)) for column in zip(*lines, strict=True))
    for name, *cells in lines:
        say("  ".join([name.ljust(first), *map(str.rjust, cells, widths)]))
    say()
    say("observe_many judges all decisions in one call, observe a single one after them; `faster`")
    say("compares observe with a scan of the same past. Both named the same witnesses.")
    say(", ".join(f"{name} {value}" for name, value in _describe_machine().items()))
    if load is not None:
        say(f"Load of the machine {load:.2f}, where 1 is this measurement alone.")
    if not is_final(load):
        say(f"Not final: above {NOT_FINAL} other programs slow down what is measured.", "bold")
