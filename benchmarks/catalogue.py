"""All benchmarks, in the order in which they run: by module, and as they stand there."""

from benchmarks.definitions import (
    cluster,
    embeddings,
    files,
    first_use,
    ledgers,
    people,
    serve,
    streams,
    vectors,
    watching,
    wide,
)
from benchmarks.harness import Benchmark

MODULES = (
    vectors, first_use, wide, embeddings, people, ledgers, watching, serve, cluster, streams, files
)  # fmt: skip
BENCHMARKS = {
    one.name: one
    for module in MODULES
    for one in vars(module).values()
    if isinstance(one, Benchmark)
}
