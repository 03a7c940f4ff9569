"""Models and rules that the tests of watching share."""

import numpy as np

import likewise as lw

RULE = lw.Rule("linf", epsilon=0.5)
NUMBER = lw.Rule("linf", epsilon=0.5, output="number", delta=0.2)
PROBABILITIES = lw.Rule("linf", epsilon=0.5, output="probabilities", delta=0.2)


def iris():
    from sklearn.datasets import load_iris

    return load_iris(return_X_y=True)


def classifier():
    """A tree whose borders cut through like cases."""
    from sklearn.tree import DecisionTreeClassifier

    X, y = iris()
    return DecisionTreeClassifier(random_state=0).fit(X[:, 2:], y)


def regressor():
    from sklearn.tree import DecisionTreeRegressor

    X, _ = iris()
    return DecisionTreeRegressor(random_state=0, max_depth=4).fit(X[:, 2:], X[:, 0])


def flowers():
    """Inputs that contradict each other under such a tree."""
    X, _ = iris()
    return np.random.default_rng(3).permutation(X[:, 2:])


def same(one, other):
    """Whether two verdicts name the same row, witnesses and distances."""
    return one.row == other.row and one.witnesses == other.witnesses
