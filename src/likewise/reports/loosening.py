"""What keeps decisions from being compared, where a rule is so strict that none are alike.

For each column: how many of the first decisions would have an earlier like case if the rule left it
out (monitors/varying.py). And how far all tolerances would have to be widened.

Cost: a search for the nearest earlier decision of each, the same decisions as were varied.
Not here: how far to widen where a model embeds columns, since that model would have to work again.
"""

from typing import Any

import numpy as np

from likewise.monitors.calibration import like_cases
from likewise.monitors.varied import Varied
from likewise.reports.findings import Loosening
from likewise.values.errors import LikewiseError

_SHARES = (0.01, 0.1, 0.5)


def loosening(varied: Varied, *decisions: Any) -> Loosening:
    """What would have to change for decisions to be compared.

    decisions: those that were varied, as `vary` takes them; none where nearness is not all that
    counts, so that no epsilon can be named
    """
    freed = [
        (one.column, one.comparable)
        for one in varied.preventing()
        if one.column is not None and one.comparable
    ]
    some = [part[: varied.decisions] for part in decisions]
    return Loosening(varied.decisions, tuple(freed), _epsilons(varied, *some))


def _epsilons(varied: Varied, *decisions: Any) -> tuple[tuple[float, float], ...]:
    """The smallest epsilons with which certain shares of decisions have an earlier like case."""
    if not decisions or varied.rule.embedders():
        return ()
    try:
        steps, rates = like_cases(varied.rule, *decisions).curve()
    except LikewiseError:
        return ()  # a rule by which nearness is more than a distance
    found = []
    for share in _SHARES:
        enough = np.flatnonzero(rates >= share)
        if len(enough):
            found.append((float(steps[enough[0]]), float(rates[enough[0]])))
    return tuple(dict.fromkeys(found))
