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
    from likewise.burst import Burst
    from likewise.embedder import Embedder
    from likewise.errors import (
        BadDecision,
        BadFile,
        BadRow,
        BadRule,
        FailureWarning,
        HintWarning,
        LikewiseError,
        RepeatedKey,
        Violation,
        ViolationWarning,
    )
    from likewise.feature import Feature
    from likewise.history.ledger.look import Ledger
    from likewise.history.ledger.verify import Head, Verification
    from likewise.indexes.periodic import Periodic
    from likewise.indexes.split import Split
    from likewise.monitors.calibration import Calibration, calibrate
    from likewise.monitors.erasure import Erasure
    from likewise.monitors.explanation import Explanation
    from likewise.monitors.ledgered import LedgerMonitor, open
    from likewise.monitors.replay import Replay, replay
    from likewise.monitors.robustness import Monitor
    from likewise.monitors.slope import SlopeMonitor, SlopeVerdict, SlopeVerdicts
    from likewise.reports.gallery import Gallery
    from likewise.rule import Rule
    from likewise.types import Compared, Verdict, Verdicts, Witness, Witnesses
    from likewise.watching.estimator import WatchedEstimator
    from likewise.watching.watched import Watched, watch

_HOMES = {
    "BadDecision": "errors",
    "BadFile": "errors",
    "BadRow": "errors",
    "BadRule": "errors",
    "Burst": "burst",
    "Calibration": "monitors.calibration",
    "Compared": "types",
    "Embedder": "embedder",
    "Erasure": "monitors.erasure",
    "Explanation": "monitors.explanation",
    "FailureWarning": "errors",
    "Feature": "feature",
    "Gallery": "reports.gallery",
    "Head": "history.ledger.verify",
    "HintWarning": "errors",
    "Ledger": "history.ledger.look",
    "LedgerMonitor": "monitors.ledgered",
    "LikewiseError": "errors",
    "Monitor": "monitors.robustness",
    "Periodic": "indexes.periodic",
    "RepeatedKey": "errors",
    "Replay": "monitors.replay",
    "Rule": "rule",
    "SlopeMonitor": "monitors.slope",
    "SlopeVerdict": "monitors.slope",
    "SlopeVerdicts": "monitors.slope",
    "Split": "indexes.split",
    "Verdict": "types",
    "Verdicts": "types",
    "Verification": "history.ledger.verify",
    "Violation": "errors",
    "ViolationWarning": "errors",
    "Watched": "watching.watched",
    "WatchedEstimator": "watching.estimator",
    "Witness": "types",
    "Witnesses": "types",
    "calibrate": "monitors.calibration",
    "open": "monitors.ledgered",
    "replay": "monitors.replay",
    "watch": "watching.watched",
}

__all__ = [
    "BadDecision",
    "BadFile",
    "BadRow",
    "BadRule",
    "Burst",
    "Calibration",
    "Compared",
    "Embedder",
    "Erasure",
    "Explanation",
    "FailureWarning",
    "Feature",
    "Gallery",
    "Head",
    "HintWarning",
    "Ledger",
    "LedgerMonitor",
    "LikewiseError",
    "Monitor",
    "Periodic",
    "RepeatedKey",
    "Replay",
    "Rule",
    "SlopeMonitor",
    "SlopeVerdict",
    "SlopeVerdicts",
    "Split",
    "Verdict",
    "Verdicts",
    "Verification",
    "Violation",
    "ViolationWarning",
    "Watched",
    "WatchedEstimator",
    "Witness",
    "Witnesses",
    "__version__",
    "calibrate",
    "open",
    "replay",
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
