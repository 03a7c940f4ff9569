"""How fast likewise is, beside its peers, and whether every bar set for it is reached.

`python -m benchmarks` from the root of the repository measures everything, one thing after another,
and writes docs/benchmarks.json, and the bars and the picture of docs/benchmarks.md.

Invariant: a run that finds something else than it should, or nothing at all, is a failed run.
Layout: `definitions` has the benchmarks and their bars; `harness` says what one is and runs it;
`processes` starts children and servers, `measure` times, `oracle` knows the right answers,
`contenders` and `flat` are the peers, `workloads` and `pictures` make rows, `report` writes.
"""

import os

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")  # peers stay on one thread; set before any of them loads
