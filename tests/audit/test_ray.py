"""Cells judged by a Ray cluster: the same pairs. The cluster is on this machine, and ends here."""

import json
import os
import secrets
import shutil
import sys
import tempfile
from importlib.util import find_spec

import numpy as np
import pytest

import likewise as lw
from tests.audit.cells import judged_by_one, vectors
from tests.support.programs import run_python

# Not imported here: it reads its settings when it is loaded, and other tests have theirs.
pytestmark = [
    pytest.mark.skipif(find_spec("ray") is None, reason="ray is not installed"),
    pytest.mark.long,
    pytest.mark.xdist_group("ray"),
]

PROGRAM = """
import json, sys
from pathlib import Path
import polars as pl
import likewise as lw
from likewise.auditing.job import Job
from likewise.auditing.job import RayRunner
from tests.audit.cells import audited, bound

folder, *names = map(Path, sys.argv[1:])
rule = lw.Rule(metric="linf", epsilon=0.05)
job = Job(folder / "cells", tuple(map(str, names)), bound(rule, pl.read_parquet(names[0])),
          cell_rows=400, threads=1, pairs=True)
done, found = audited(job, RayRunner("local"))
print(json.dumps([len(done.cells), sorted(found)]))
"""


@pytest.mark.slow
def test_a_ray_cluster_finds_the_same(tmp_path):
    random = np.random.default_rng(12)
    frame = vectors(random.random((3_000, 3)), random.choice(["a", "b"], 3_000))
    names = []
    for i in range(3):
        names.append(tmp_path / f"part-{i}.parquet")
        frame[i * 1000 : (i + 1) * 1000].write_parquet(names[-1])
    expected, _ = judged_by_one(lw.Rule(metric="linf", epsilon=0.05), frame)
    temporary = tempfile.mkdtemp(prefix="lw-ray-")  # short: sockets lie in it
    environment = os.environ | {
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": secrets.token_hex(32),
        "RAY_TMPDIR": temporary,
        "RAY_DEDUP_LOGS": "0",
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    try:
        done = run_python("-c", PROGRAM, tmp_path, *names, code=None, timeout=540, env=environment)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    assert done.returncode == 0, done.stderr
    cells, found = json.loads(done.stdout.splitlines()[-1])
    assert cells > 4
    assert {tuple(one) for one in found} == expected
