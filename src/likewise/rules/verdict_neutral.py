"""Would two rules give the same verdicts on every history?

What only names or counts changes none: favourable, labels, protected columns (unless pairs must
differ in them), ignored columns, what is made of columns that are not listed.
"""

from dataclasses import replace

from likewise.rules.feature import Feature
from likewise.rules.rule import Extra, Rule


def gives_same_verdicts(one: Rule, other: Rule) -> bool:
    return _measuring(one).fingerprint == _measuring(other).fingerprint


def keeps_same_columns(one: Rule, other: Rule) -> bool:
    """Whether a ledger keeps the same of each decision under both, in the same order."""
    return _kept(one) == _kept(other)


def _kept(rule: Rule) -> list[tuple[str, Feature]] | None:
    if rule.features is None:
        return None
    return [
        (name, replace(feature, labels=None))
        for name, feature in rule.features.items()
        if feature.kind not in ("key", "ignore")
    ]


def _measuring(rule: Rule) -> Rule:
    """The rule without what changes no verdict."""
    features = rule.features
    if features is not None:
        features = {
            name: replace(feature, labels=None) if feature.labels is not None else feature
            for name, feature in features.items()
            if feature.measured
            or feature.kind == "person"
            or (feature.kind == "protected" and rule.protected_must_differ)
        }
    extra: Extra = "reject" if features is None else "ignore"
    return replace(rule, favourable=None, output_labels=None, features=features, extra=extra)
