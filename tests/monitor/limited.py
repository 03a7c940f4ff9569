"""Monitors of every kind where address space is short: python -m tests.monitor.limited
GIGABYTES FOLDER."""

import resource
import sys
from pathlib import Path

import numpy as np

import likewise as lw
from tests.support.oracle import Oracle

PEOPLE = lw.Rule(
    features={f"c{i}": lw.Feature("number", tolerance=0.2) for i in range(12)}
    | {"job": lw.Feature("category"), "id": lw.Feature("key")},
    output_column="z",
)


def main(gigabytes: float, folder: Path) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (int(gigabytes * (1 << 30)),) * 2)
    rng = np.random.default_rng(1)
    x, z = rng.random((6000, 3)), rng.integers(0, 3, 6000).tolist()
    rule, oracle = lw.Rule("linf", 0.05), Oracle(lw.Rule("linf", 0.05))
    expected = [len(one.rows) for one in oracle.observe_many(x, z)]
    for monitor in (
        lw.Monitor(rule),
        lw.Monitor(rule, burst=lw.Burst(500)),
        lw.Monitor(rule, row_file=folder / "rows"),
        lw.open(folder / "ledger", rule, durability="batch", burst=lw.Burst(500)),
    ):
        counts = [len(monitor.observe(*one).witnesses) for one in zip(x[:500], z, strict=False)]
        counts += monitor.observe_many(x[500:], z[500:], threads=2).counts.tolist()
        assert counts == expected
    columns = {f"c{i}": float(i) for i in range(12)}
    people = [columns | {"job": str(i % 2), "id": i, "z": i % 3} for i in range(800)]
    for i, monitor in enumerate((lw.Monitor(PEOPLE), lw.open(folder / "people", PEOPLE))):
        found = [len(monitor.observe(one).witnesses) for one in people[:100]]
        found += monitor.observe_many(people[100:]).counts.tolist()
        assert found == [sum(p["job"] == q["job"] and p["z"] != q["z"] for q in people[:k])
                         for k, p in enumerate(people)], i  # fmt: skip


if __name__ == "__main__":
    main(float(sys.argv[1]), Path(sys.argv[2]))
    print("done")
