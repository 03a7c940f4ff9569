"""One file per question; the order here is the order in which they are asked.

Invariant: a question's name never changes, since results are compared over time by it.
"""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.answer import Answer, Setting
from benchmarks.questions import (
    acs,
    arrivals,
    first_use,
    growth,
    higgs,
    huge,
    labels,
    load,
    memory,
    paper,
    single,
    threads,
)

QUESTIONS: dict[str, Callable[[Setting], Answer]] = {
    "higgs": higgs.ask,
    "acs": acs.ask,
    "paper": paper.ask,
    "single": single.ask,
    "arrivals": arrivals.ask,
    "growth": growth.ask,
    "threads": threads.ask,
    "load": load.ask,
    "labels": labels.ask,
    "memory": memory.ask,
    "first_use": first_use.ask,
    "huge": huge.ask,
}
