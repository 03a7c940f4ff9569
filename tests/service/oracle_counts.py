"""How many pairs of a monitor's history are near and differ, by NumPy alone."""

import numpy as np


def counts_of(monitor):
    """Pairs among all rows of a monitor in memory that forgot nothing."""
    rows = np.arange(monitor.rows)
    if len(rows) == 0:
        return 0
    past, rule = monitor.past, monitor.rule
    if rule.features is None:
        x = past.inputs(rows).reshape(len(rows), -1)
        outputs = past.outputs(rows)
        reach = rule.epsilon * (1 + (rule.slack or 1e-9))
        near = np.abs(x[:, None] - x[None]).max(axis=2) <= reach
    else:
        names = [name for name, one in rule.features.items() if one.kind != "key"]
        each = [past.values(row) for row in rows.tolist()]
        near = np.ones((len(rows), len(rows)), bool)
        for name in names:
            column = [one[name] for one in each]
            feature = rule.features[name]
            if feature.kind == "number":
                numbers = np.array(column, float)
                reach = feature.tolerance * (1 + 1e-9)
                near &= np.abs(numbers[:, None] - numbers[None]) <= reach
            else:
                known = {}
                numbers = np.array([known.setdefault(one, len(known)) for one in column])
                near &= numbers[:, None] == numbers[None]
        outputs = past.outputs(rows)
    codes = {}
    labels = np.array([codes.setdefault(one, len(codes)) for one in outputs])
    return int((near & (labels[:, None] != labels[None])).sum() // 2)
