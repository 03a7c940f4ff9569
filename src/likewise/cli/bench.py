"""`likewise bench`: measure how fast this machine judges decisions, beside a NumPy scan."""

from likewise.cli import options as o
from likewise.cli.exit_codes import FINE
from likewise.cli.terminal import progress


def bench(
    quick: bool = o.option("Judge fewer decisions: takes some seconds.", "--quick", default=False),
    json: o.Json = False,
) -> int:
    """Measure decisions per second on this machine, and those of a plain NumPy scan.

    Takes two minutes at most. The decisions are generated, and a figure is given only if monitor
    and scan name the same witnesses. The load of the machine is stated, and figures at a load above
    1.5 are marked as not final.
    """
    from likewise.cli.bench_workloads import WORKLOADS, measure, print_results, warm_up
    from likewise.runtime.machine import MachineLoad

    results = []
    load = MachineLoad()
    with progress("measuring") as bar:
        for workload in WORKLOADS:
            warm_up(workload)
        for i, workload in enumerate(WORKLOADS):
            bar.update(i, len(WORKLOADS), workload.name)
            results.append(measure(workload, quick))
    print_results(results, load.measure(), as_json=json)
    return FINE
