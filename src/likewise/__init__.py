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
    from likewise.client.async_client import AsyncClient
    from likewise.client.client import Client, connect
    from likewise.errors import (
        BadDecision,
        BadFile,
        BadRow,
        BadRule,
        BadTable,
        CannotLook,
        ErasedKey,
        FailureWarning,
        Forbidden,
        HintWarning,
        LikewiseError,
        MissingColumn,
        MissingValue,
        NestedCall,
        OldPosition,
        RepeatedKey,
        TooManyNames,
        UnexpectedValue,
        UnknownColumn,
        Unreachable,
        Violation,
        ViolationWarning,
        WrongOrder,
        WrongShape,
    )
    from likewise.ledger.backups import back_up, restore
    from likewise.ledger.heads import Head
    from likewise.ledger.ledger import Ledger
    from likewise.ledger.verification import Verification
    from likewise.monitor.calibration import Calibration, calibrate
    from likewise.monitor.erasure import Erasure
    from likewise.monitor.migration import migrate
    from likewise.monitor.monitor import Monitor
    from likewise.monitor.opening import open
    from likewise.monitor.protocol import Decision
    from likewise.monitor.replaying import Replay, replay
    from likewise.monitor.sensitivity import vary
    from likewise.monitor.sensitivity_table import Varied
    from likewise.proposing.proposal import propose_rule
    from likewise.queueing.buffer import Buffered, buffered
    from likewise.queueing.receipt import Receipt
    from likewise.rule.burst import Burst
    from likewise.rule.embedder import Embedder
    from likewise.rule.feature import Feature
    from likewise.rule.rule import Rule
    from likewise.search.indexes.periodic import Periodic
    from likewise.search.indexes.split_index import Split
    from likewise.sharding.open_cluster import cluster
    from likewise.verdict.context import Compared
    from likewise.verdict.index_report import Explanation
    from likewise.verdict.verdicts import Verdict, Verdicts
    from likewise.verdict.witnesses import Witness, Witnesses
    from likewise.watching.asgi_middleware import Exchanged, RequestCounts, WatchRequests
    from likewise.watching.estimator import WatchedEstimator
    from likewise.watching.watch_model import Watched, watch
    from likewise.watching.watch_records import Failure, Flagged

_HOMES = {
    "AsyncClient": "client.async_client",
    "BadDecision": "errors",
    "BadFile": "errors",
    "BadRow": "errors",
    "BadRule": "errors",
    "BadTable": "errors",
    "Buffered": "queueing.buffer",
    "Burst": "rule.burst",
    "Calibration": "monitor.calibration",
    "CannotLook": "errors",
    "Client": "client.client",
    "Compared": "verdict.context",
    "Decision": "monitor.protocol",
    "Embedder": "rule.embedder",
    "ErasedKey": "errors",
    "Erasure": "monitor.erasure",
    "Exchanged": "watching.asgi_middleware",
    "Explanation": "verdict.index_report",
    "Failure": "watching.watch_records",
    "FailureWarning": "errors",
    "Feature": "rule.feature",
    "Flagged": "watching.watch_records",
    "Forbidden": "errors",
    "Head": "ledger.heads",
    "HintWarning": "errors",
    "Ledger": "ledger.ledger",
    "LikewiseError": "errors",
    "MissingColumn": "errors",
    "MissingValue": "errors",
    "Monitor": "monitor.monitor",
    "NestedCall": "errors",
    "OldPosition": "errors",
    "Periodic": "search.indexes.periodic",
    "Receipt": "queueing.receipt",
    "RepeatedKey": "errors",
    "Replay": "monitor.replaying",
    "RequestCounts": "watching.asgi_middleware",
    "Rule": "rule.rule",
    "Split": "search.indexes.split_index",
    "TooManyNames": "errors",
    "UnexpectedValue": "errors",
    "UnknownColumn": "errors",
    "Unreachable": "errors",
    "Varied": "monitor.sensitivity_table",
    "Verdict": "verdict.verdicts",
    "Verdicts": "verdict.verdicts",
    "Verification": "ledger.verification",
    "Violation": "errors",
    "ViolationWarning": "errors",
    "WatchRequests": "watching.asgi_middleware",
    "Watched": "watching.watch_model",
    "WatchedEstimator": "watching.estimator",
    "Witness": "verdict.witnesses",
    "Witnesses": "verdict.witnesses",
    "WrongOrder": "errors",
    "WrongShape": "errors",
    "back_up": "ledger.backups",
    "buffered": "queueing.buffer",
    "calibrate": "monitor.calibration",
    "cluster": "sharding.open_cluster",
    "connect": "client.client",
    "migrate": "monitor.migration",
    "open": "monitor.opening",
    "propose_rule": "proposing.proposal",
    "replay": "monitor.replaying",
    "restore": "ledger.backups",
    "vary": "monitor.sensitivity",
    "watch": "watching.watch_model",
}

__all__ = [
    "AsyncClient",
    "BadDecision",
    "BadFile",
    "BadRow",
    "BadRule",
    "BadTable",
    "Buffered",
    "Burst",
    "Calibration",
    "CannotLook",
    "Client",
    "Compared",
    "Decision",
    "Embedder",
    "ErasedKey",
    "Erasure",
    "Exchanged",
    "Explanation",
    "Failure",
    "FailureWarning",
    "Feature",
    "Flagged",
    "Forbidden",
    "Head",
    "HintWarning",
    "Ledger",
    "LikewiseError",
    "MissingColumn",
    "MissingValue",
    "Monitor",
    "NestedCall",
    "OldPosition",
    "Periodic",
    "Receipt",
    "RepeatedKey",
    "Replay",
    "RequestCounts",
    "Rule",
    "Split",
    "TooManyNames",
    "UnexpectedValue",
    "UnknownColumn",
    "Unreachable",
    "Varied",
    "Verdict",
    "Verdicts",
    "Verification",
    "Violation",
    "ViolationWarning",
    "WatchRequests",
    "Watched",
    "WatchedEstimator",
    "Witness",
    "Witnesses",
    "WrongOrder",
    "WrongShape",
    "__version__",
    "back_up",
    "buffered",
    "calibrate",
    "cluster",
    "connect",
    "migrate",
    "open",
    "propose_rule",
    "replay",
    "restore",
    "vary",
    "watch",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'likewise' has no attribute {name!r}")
    value = getattr(import_module(f"likewise.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
