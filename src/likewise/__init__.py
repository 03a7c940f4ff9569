"""Like cases, treated alike.

likewise remembers a model's decisions. For each new one it asks: which past inputs were near this
one, and did they get a different answer?

    >>> import likewise as lw
    >>> monitor = lw.Monitor(lw.Rule(metric="linf", epsilon=0.16))
    >>> monitor.observe([0.50, 0.30], "approved").violation
    False
    >>> monitor.observe([0.55, 0.30], "declined").witnesses.rows
    array([0])

Only names live here, and each loads what it needs when it is first used: importing likewise does
not import the compiler.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from likewise.version import __version__

if TYPE_CHECKING:
    from likewise import client, errors
    from likewise.auditing.audit_data import audit
    from likewise.auditing.compare_data import compare
    from likewise.client.client import connect
    from likewise.errors import LikewiseError
    from likewise.ledger.backups import back_up, restore
    from likewise.ledger.heads import Head
    from likewise.ledger.ledger import Ledger
    from likewise.ledger.verification import Verification
    from likewise.monitor.calibration import Calibration, calibrate
    from likewise.monitor.migration import migrate
    from likewise.monitor.monitor import Monitor
    from likewise.monitor.opening import open
    from likewise.monitor.readers.protocol import Decision
    from likewise.monitor.replaying import Replay, replay
    from likewise.monitor.sensitivity import vary
    from likewise.proposing.propose_rule import propose_rule
    from likewise.queueing.answers import Receipt
    from likewise.queueing.buffer import buffered
    from likewise.rule.burst import Burst
    from likewise.rule.embedder import Embedder
    from likewise.rule.feature import Feature
    from likewise.rule.rule import Rule
    from likewise.search.indexes.periodic import Periodic
    from likewise.search.indexes.split_index import Split
    from likewise.sharding.open_cluster import cluster
    from likewise.verdict.verdicts import Verdict, Verdicts
    from likewise.verdict.witnesses import Witness, Witnesses
    from likewise.watching.asgi_middleware import WatchRequests
    from likewise.watching.estimator import WatchedEstimator
    from likewise.watching.watch_model import watch

_HOMES = {
    "Burst": "rule.burst",
    "Calibration": "monitor.calibration",
    "Decision": "monitor.readers.protocol",
    "Embedder": "rule.embedder",
    "Feature": "rule.feature",
    "Head": "ledger.heads",
    "Ledger": "ledger.ledger",
    "LikewiseError": "errors",
    "Monitor": "monitor.monitor",
    "Periodic": "search.indexes.periodic",
    "Receipt": "queueing.answers",
    "Replay": "monitor.replaying",
    "Rule": "rule.rule",
    "Split": "search.indexes.split_index",
    "Verdict": "verdict.verdicts",
    "Verdicts": "verdict.verdicts",
    "Verification": "ledger.verification",
    "WatchRequests": "watching.asgi_middleware",
    "WatchedEstimator": "watching.estimator",
    "Witness": "verdict.witnesses",
    "Witnesses": "verdict.witnesses",
    "audit": "auditing.audit_data",
    "back_up": "ledger.backups",
    "buffered": "queueing.buffer",
    "calibrate": "monitor.calibration",
    "cluster": "sharding.open_cluster",
    "compare": "auditing.compare_data",
    "connect": "client.client",
    "migrate": "monitor.migration",
    "open": "monitor.opening",
    "propose_rule": "proposing.propose_rule",
    "replay": "monitor.replaying",
    "restore": "ledger.backups",
    "vary": "monitor.sensitivity",
    "watch": "watching.watch_model",
}

__all__ = [
    "Burst",
    "Calibration",
    "Decision",
    "Embedder",
    "Feature",
    "Head",
    "Ledger",
    "LikewiseError",
    "Monitor",
    "Periodic",
    "Receipt",
    "Replay",
    "Rule",
    "Split",
    "Verdict",
    "Verdicts",
    "Verification",
    "WatchRequests",
    "WatchedEstimator",
    "Witness",
    "Witnesses",
    "__version__",
    "audit",
    "back_up",
    "buffered",
    "calibrate",
    "client",
    "cluster",
    "compare",
    "connect",
    "errors",
    "migrate",
    "open",
    "propose_rule",
    "replay",
    "restore",
    "vary",
    "watch",
]


def __getattr__(name: str) -> Any:
    if name in ("client", "errors"):
        return import_module(f"likewise.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module 'likewise' has no attribute {name!r}")
    value = getattr(import_module(f"likewise.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
