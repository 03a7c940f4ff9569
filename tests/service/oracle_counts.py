"""How many pairs of a monitor's history are near and differ, by NumPy alone."""

import numpy as np


def counts_of(monitor):
    """Pairs among all rows of a monitor in memory that forgot nothing."""
    rows = np.arange(monitor.rows)
    if len(rows) == 0:
        return 0
    past, rule = monitor.past, monitor.rule
    if rule.features is None:
        numbers = past.inputs(rows).reshape(len(rows), -1).astype(float)
        reaches = np.full(numbers.shape[1], rule.epsilon * (1 + (rule.slack or 1e-9)))
    else:
        names = [name for name, one in rule.features.items() if one.kind != "key"]
        each = [past.values(row) for row in rows.tolist()]
        columns, limits = [], []
        for name in names:
            column = [one[name] for one in each]
            feature = rule.features[name]
            known = {}
            if feature.kind == "number":
                columns.append(column)
                limits.append(feature.tolerance * (1 + 1e-9))
            else:
                columns.append([known.setdefault(one, len(known)) for one in column])
                limits.append(0.5)
        numbers, reaches = np.array(columns, float).T, np.array(limits)
    codes = {}
    labels = np.array([codes.setdefault(one, len(codes)) for one in past.outputs(rows)])
    return _pairs(numbers, labels, reaches)


def _pairs(numbers, labels, reaches):
    """Equal decisions are counted once and weighed, so that many of them are no quadratic work."""
    both = np.column_stack([numbers, labels])
    kinds, weights = np.unique(both, axis=0, return_counts=True)
    points, labels = kinds[:, :-1], kinds[:, -1]
    total = 0
    for i in range(len(kinds)):
        near = (np.abs(points[i + 1 :] - points[i]) <= reaches).all(axis=1)
        total += int(weights[i]) * int(
            weights[i + 1 :][near & (labels[i + 1 :] != labels[i])].sum()
        )
    return total
