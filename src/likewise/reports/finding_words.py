"""Describes findings in plain words, for the terminal and for pages.

Values from the data are not escaped: whoever prints the text has to. Not here: the words of a rule
(rule/wording.py).
"""

import math
from collections.abc import Iterable

from likewise.reports.findings import Findings
from likewise.reports.group_section import group_sentences
from likewise.reports.headline import describe_agreement
from likewise.tables.printing import format_number, join_names, percent, shorten

_ONLY = 0.1  # a smaller share of comparable decisions is called small


def describe_time_limit(within: str | None) -> list[str]:
    """Describe a limit in time, if there is one."""
    limit = (
        f"A decision is compared only with those at most {within} before it: pairs farther apart in"
        " time do not count."
    )
    return [] if within is None else [limit]


# Found


def describe_findings(findings: Findings) -> list[str]:
    """Describe what was found, sentence by sentence, the most important first."""
    if findings.rows == 0:
        return ["There were no decisions to look at.", *_describe_missing(findings)]
    if findings.nothing_compared:
        return [
            f"Nothing could be compared, so nothing follows: none of {_many(findings.rows)} had an"
            " earlier similar case.",
            *_describe_missing(findings),
            *_describe_loosening(findings),
        ]
    shares, missing = describe_shares(findings), list(_describe_missing(findings))
    groups = group_sentences(findings.groups) if findings.violations else []
    if findings.agreement is None:
        return [*shares, *missing, *groups]
    headline = describe_agreement(findings.agreement, findings.rule)
    return [*headline.sentences, *missing, *groups, *shares]


def describe_shares(findings: Findings) -> list[str]:
    """Describe which share contradicts an earlier decision, and which share could be compared."""
    sentences = list(_describe_contradicting(findings))
    identical = findings.margins.identical
    if identical:
        verb = "contradicts" if identical == 1 else "contradict"
        sentences.append(
            f"{_many(identical)} {verb} an earlier one that was the same in everything that counts."
        )
    return [*sentences, *_describe_any_order(findings), *_describe_models(findings)]


def _many(decisions: int) -> str:
    return f"{decisions:,} decision{'s' * (decisions != 1)}"


def _describe_contradicting(findings: Findings) -> Iterable[str]:
    """Say how many decisions contradict an earlier one, of those that could and of all."""
    flagged, rows, comparable = findings.violations, findings.rows, findings.with_earlier
    verb = "contradicts" if flagged == 1 else "contradict"
    if comparable is None:
        who = f"None of {_many(rows)} contradicts"
        if flagged:
            who = f"{flagged:,} of {_many(rows)} ({percent(findings.rate)}) {verb}"
        yield (
            f"{who} an earlier one about a similar case. How many had an earlier similar case was"
            " not counted."
        )
        return
    them = f"{comparable:,} comparable decision{'s' * (comparable != 1)}"
    if flagged == 0:
        yield f"None of {them} contradicts an earlier one about a similar case."
    else:
        yield (
            f"{percent(flagged / comparable)} of the comparable decisions ({flagged:,} of"
            f" {comparable:,}) {verb} an earlier one about a similar case; that is"
            f" {percent(findings.rate)} of all {rows:,}."
        )
    left = rows - comparable
    if left:
        only = "Only " * (comparable < _ONLY * rows)
        yield (
            f"{only}{comparable:,} of {_many(rows)} ({percent(comparable / rows)}) had an earlier"
            f" similar case to be compared with; the other {left:,} had none, so nothing follows"
            f" about {'it' if left == 1 else 'them'}."
        )


def _describe_missing(findings: Findings) -> Iterable[str]:
    """Say how many decisions are known to be missing."""
    missing = findings.missing_decisions
    if missing:
        are = "is" if missing == 1 else "are"
        yield (
            f"{_many(missing)} {are} known to be missing from this history. Contradictions with"
            f" {'it' if missing == 1 else 'them'} are not counted."
        )


def _describe_any_order(findings: Findings) -> Iterable[str]:
    """Say how many decisions are in any pair, and what the order is without a time column."""
    count = findings.in_any_pair
    if count:
        yield (
            f"{count:,} of {_many(findings.rows)} ({percent(findings.rate_in_any_pair)})"
            f" belong{'s' * (count == 1)} to at least one contradicting pair."
        )
    order = findings.computed.order
    if order.lines and order.column is None:
        yield 'No time column is named, so "earlier" means "above in the file".'


def _describe_models(findings: Findings) -> Iterable[str]:
    """Say how many pairs are within a model and how many across, where both are compared."""
    models = findings.by_model
    if findings.pairs == 0 or findings.rule.compare != "all" or len(models) < 2:
        return
    within = sum(one.within.pairs for one in models)
    across = findings.pairs - within
    pairs = f"{findings.pairs:,} contradicting pair{'s' * (findings.pairs != 1)}"
    yield (
        f"Of {pairs}, {within:,} {'is' if within == 1 else 'are'} within one model, {across:,}"
        " across two."
    )


def _describe_loosening(findings: Findings) -> Iterable[str]:
    """Say what to loosen, where nothing could be compared."""
    loosening, has_columns = findings.loosening, findings.rule.features is not None
    if loosening is None:
        return
    part = loosening.decisions < findings.rows
    first = f"Of the first {_many(loosening.decisions)}" if part else "Of these"
    if loosening.columns:
        counts = [f"{count:,} without {shorten(name, 60)}" for name, count in loosening.columns[:3]]
        yield (
            f"{first}, leaving one column out would make comparable: {join_names(counts)}."
            " Ignore such a column, or widen its tolerance."
        )
    elif has_columns:
        yield f"{first}, none would be comparable if one column alone were left out."
    if loosening.epsilons:
        how = "all tolerances times" if has_columns else "an epsilon of"
        shares = [
            f"{percent(share)} with {how} {format_number(_round_up(one))}"
            for one, share in loosening.epsilons
        ]
        yield f"{first}, this share would be comparable: {join_names(shares)}."
    if findings.computed.order.within is not None:
        yield f"Or compare over a longer time than {findings.computed.order.within}."
    elif not loosening.columns and not loosening.epsilons:
        yield "Compare fewer columns, or let categories differ at a cost (mismatch)."


def _round_up(epsilon: float) -> float:
    """Round up to a number that a person would type."""
    if epsilon <= 0:
        return epsilon
    unit = 10.0 ** (math.floor(math.log10(epsilon)) - 2)
    return float(f"{math.ceil(epsilon / unit * (1 - 1e-9)) * unit:.3g}")
