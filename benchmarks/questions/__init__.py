"""One file per question; the order here is the order in which they are asked.

Invariant: a question's name never changes, since results are compared over time by it.
"""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.answer import Answer, Setting
from benchmarks.questions import (
    acs,
    arrivals,
    buffering,
    calibrate,
    cluster,
    comparable,
    dimensions,
    embedding_batches,
    embeddings,
    first_use,
    growth,
    higgs,
    huge,
    imagenet_embeddings,
    imagenet_size,
    labels,
    ledger,
    load,
    memory,
    overhead,
    paper,
    partition,
    people,
    pictures,
    serve,
    single,
    sizing,
    slope,
    streams,
    threads,
    witnesses,
)

QUESTIONS: dict[str, Callable[[Setting], Answer]] = {
    "higgs": higgs.ask,
    "acs": acs.ask,
    "paper": paper.ask,
    "single": single.ask,
    "witnesses": witnesses.ask,
    "arrivals": arrivals.ask,
    "growth": growth.ask,
    "threads": threads.ask,
    "load": load.ask,
    "labels": labels.ask,
    "memory": memory.ask,
    "sizing": sizing.ask,
    "first_use": first_use.ask,
    "pictures": pictures.ask,
    "imagenet_size": imagenet_size.ask,
    "embeddings": embeddings.ask,
    "embedding_batches": embedding_batches.ask,
    "imagenet_embeddings": imagenet_embeddings.ask,
    "dimensions": dimensions.ask,
    "people": people.ask,
    "comparable": comparable.ask,
    "calibrate": calibrate.ask,
    "slope": slope.ask,
    "ledger": ledger.ask,
    "overhead": overhead.ask,
    "buffering": buffering.ask,
    "serve": serve.ask,
    "cluster": cluster.ask,
    "streams": streams.ask,
    "partition": partition.ask,
    "huge": huge.ask,
}
