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
    from likewise.buffering.buffered import Buffered, buffered
    from likewise.buffering.receipt import Receipt
    from likewise.client.asynchronous import AsyncClient
    from likewise.client.client import Client, connect
    from likewise.indexes.periodic import Periodic
    from likewise.indexes.split import Split
    from likewise.ledger.backup import back_up, restore
    from likewise.ledger.erasure import Erasure
    from likewise.ledger.heads import Head
    from likewise.ledger.ledger import Ledger
    from likewise.ledger.verify import Verification
    from likewise.monitors.calibration import Calibration, calibrate
    from likewise.monitors.migrating import migrate
    from likewise.monitors.monitor import Monitor
    from likewise.monitors.opening import open
    from likewise.monitors.protocol import Decision
    from likewise.monitors.replay import Replay, replay
    from likewise.monitors.varied import Varied
    from likewise.monitors.varying import vary
    from likewise.rules.burst import Burst
    from likewise.rules.embedder import Embedder
    from likewise.rules.feature import Feature
    from likewise.rules.proposal import propose_rule
    from likewise.rules.rule import Rule
    from likewise.sharding.opening import cluster
    from likewise.values.beside import Compared
    from likewise.values.errors import (
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
    from likewise.values.explanation import Explanation
    from likewise.values.verdicts import Verdict, Verdicts
    from likewise.values.witnesses import Witness, Witnesses
    from likewise.watching.estimator import WatchedEstimator
    from likewise.watching.records import Failure, Flagged
    from likewise.watching.requests import Exchanged, RequestCounts, WatchRequests
    from likewise.watching.watched import Watched, watch

_HOMES = {
    "AsyncClient": "client.asynchronous",
    "BadDecision": "values.errors",
    "BadFile": "values.errors",
    "BadRow": "values.errors",
    "BadRule": "values.errors",
    "BadTable": "values.errors",
    "Buffered": "buffering.buffered",
    "Burst": "rules.burst",
    "Calibration": "monitors.calibration",
    "CannotLook": "values.errors",
    "Client": "client.client",
    "Compared": "values.beside",
    "Decision": "monitors.protocol",
    "Embedder": "rules.embedder",
    "ErasedKey": "values.errors",
    "Erasure": "ledger.erasure",
    "Exchanged": "watching.requests",
    "Explanation": "values.explanation",
    "Failure": "watching.records",
    "FailureWarning": "values.errors",
    "Feature": "rules.feature",
    "Flagged": "watching.records",
    "Forbidden": "values.errors",
    "Head": "ledger.heads",
    "HintWarning": "values.errors",
    "Ledger": "ledger.ledger",
    "LikewiseError": "values.errors",
    "MissingColumn": "values.errors",
    "MissingValue": "values.errors",
    "Monitor": "monitors.monitor",
    "NestedCall": "values.errors",
    "OldPosition": "values.errors",
    "Periodic": "indexes.periodic",
    "Receipt": "buffering.receipt",
    "RepeatedKey": "values.errors",
    "Replay": "monitors.replay",
    "RequestCounts": "watching.requests",
    "Rule": "rules.rule",
    "Split": "indexes.split",
    "TooManyNames": "values.errors",
    "UnexpectedValue": "values.errors",
    "UnknownColumn": "values.errors",
    "Unreachable": "values.errors",
    "Varied": "monitors.varied",
    "Verdict": "values.verdicts",
    "Verdicts": "values.verdicts",
    "Verification": "ledger.verify",
    "Violation": "values.errors",
    "ViolationWarning": "values.errors",
    "WatchRequests": "watching.requests",
    "Watched": "watching.watched",
    "WatchedEstimator": "watching.estimator",
    "Witness": "values.witnesses",
    "Witnesses": "values.witnesses",
    "WrongOrder": "values.errors",
    "WrongShape": "values.errors",
    "back_up": "ledger.backup",
    "buffered": "buffering.buffered",
    "calibrate": "monitors.calibration",
    "cluster": "sharding.opening",
    "connect": "client.client",
    "migrate": "monitors.migrating",
    "open": "monitors.opening",
    "propose_rule": "rules.proposal",
    "replay": "monitors.replay",
    "restore": "ledger.backup",
    "vary": "monitors.varying",
    "watch": "watching.watched",
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
