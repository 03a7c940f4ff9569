"""How fast likewise is, beside its peers, and whether every bar set for it is reached.

`python -m benchmarks` from the root of the repository measures everything, one thing after
another, and writes docs/benchmarks.json, the tables in docs/benchmarks.md and the plots.

Invariant: a run that finds something else than it should, or nothing at all, is a failed run.
Layout: `workloads`, `pictures` and `texts` make rows, `contenders` and `flat` run them, `measure`
times, `oracle` knows the right answers, `questions/` has one file per question, `bars` compares
with the targets and `report` writes it down.
"""

import os

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")  # peers stay on one thread; set before any of them loads
