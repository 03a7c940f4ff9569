"""The report: findings become one HTML document that needs nothing beside it (document.py).

Every value from the data is made safe (safe.py).

Not here: what is said about a rule (words.py), the pictures (charts.py), pairs (cards.py).
"""

import os
from collections.abc import Sequence

from likewise.explaining.groups import Groups
from likewise.reports.cards import pair_cards
from likewise.reports.charts import COMPARED, curve_plot, group_plot, margin_plot, rate_plot
from likewise.reports.document import document, section, write_document
from likewise.reports.findings import Findings
from likewise.reports.safe import safe, safe_lines, safe_name, shortened, shown
from likewise.reports.words import MANY, between, figure, found_in_words, percent, wording

_TABLE_GROUPS = 8  # lines of the table of groups


def write_page(findings: Findings, path: str | os.PathLike[str]) -> None:
    """Write the page whole or not at all; BadFile says why it could not be."""
    write_document(page(findings), path)


def page(findings: Findings) -> str:
    """The findings as one self-contained HTML document."""
    source = findings.computed.source
    sections = [
        _rule(findings),
        _over_time(findings),
        _groups(findings),
        _pairs(findings),
        _nearness(findings),
        _computed(findings),
    ]
    version = findings.computed.version
    return document(
        f"{safe(shortened(source, 80))} · likewise report",
        _top(findings),
        "".join(sections),
        f"Made by likewise {safe(version)} on {_day(findings)}. This page is one file and\nloads"
        " nothing; it may contain personal data from the decisions it shows.",
        made_by=version,
    )


def _day(findings: Findings) -> str:
    return safe(findings.computed.made.replace("T", " ").replace("+00:00", " UTC"))


def _top(findings: Findings) -> str:
    said = "".join(f"<li>{safe(one, 400)}</li>" for one in found_in_words(findings))
    tiles = [
        (f"{findings.rows:,}", "decisions looked at"),
        (f"{findings.flagged:,}", "contradict an earlier one"),
        (f"{findings.pairs:,}", "contradicting pairs in all"),
        (f"{findings.margins.identical:,}", "contradict one that was the same in all that counts"),
    ]
    drawn = "".join(f"<div><dt>{words}</dt><dd>{number}</dd></div>" for number, words in tiles)
    big = percent(findings.rate) if findings.rows else "–"
    return f"""<header class="top">
<p class="brand"><b>likewise</b> · report of {_day(findings)}</p>
<h1>Were like cases treated alike?</h1>
<p class="lead">{safe(findings.computed.source)}</p>
<div class="hero"><p class="big">{big}</p><ul>{said}</ul></div>
<dl class="tiles">{drawn}</dl>
</header>"""


def _rule(findings: Findings) -> str:
    said = wording(findings.rule)
    items = "".join(
        f"<li><b>{_names(names)}</b>: {safe(what, 400)}</li>"
        if len(names) == 1
        else f"<li><b>{safe(what, 400)}</b>: {_names(names)}</li>"
        for names, what in said.conditions
    )
    few = " few" if len(said.conditions) < 3 else ""
    inside = f'<ul class="rule{few}">{items}</ul>\n' if items else ""
    inside += f"<p>{safe(said.different, 600)}</p>\n"
    inside += "".join(f'<p class="small">{safe(note, 600)}</p>\n' for note in said.notes)
    return section("rule", "What counts as alike", safe(said.alike, 600), inside)


def _names(names: Sequence[str]) -> str:
    more = len(names) - MANY
    rest = f" and {more:,} more" if more > 0 else ""
    return ", ".join(map(safe_name, names[:MANY])) + rest


def _over_time(findings: Findings) -> str:
    if findings.flagged == 0:
        return ""
    lead = (
        "The share of decisions that contradict an earlier one. It rises at first in any stream:"
        " the longer the past, the more there is to contradict. A sudden change is worth a look."
    )
    many = findings.by_row[0].decisions
    inside = (
        f"<figure>{rate_plot(findings.by_row, findings.rate)}<figcaption>In order of arrival,"
        f" {many:,} decision{'s' * (many != 1)} to a point. Dotted: the share overall."
        "</figcaption></figure>"
    )
    if findings.untimed:
        inside += f'\n<p class="small">{findings.untimed:,} decisions had no usable time.</p>'
    if findings.by_time:
        inside = (
            f"<figure>{rate_plot(findings.by_time, findings.rate)}<figcaption>By time. Dotted: the"
            " share overall.</figcaption></figure>\n"
            f"<details><summary>In order of arrival</summary>{inside}</details>"
        )
    return section("time", "Over time", lead, inside)


def _groups(findings: Findings) -> str:
    if findings.no_groups:
        lead = f"Nothing is counted by group: {safe(findings.no_groups, 400)}."
        return section("groups", "By protected group", lead, "")
    if not findings.groups or findings.flagged == 0:
        return ""
    lead = (
        "In each contradicting pair one of the two got the better answer. How often did a member of"
        " one group get less than a like member of another, and how often the other way round? If"
        " group played no role, both sides would be about as long."
    )
    return section("groups", "Who got less", lead, "".join(map(_group, findings.groups)))


def _group(groups: Groups) -> str:
    pairs = between(groups)
    drawn = f"<h3>By {safe_name(groups.column)}</h3>\n"
    if pairs:
        more = len(pairs) - COMPARED
        caption = f"The {COMPARED} largest comparisons of {len(pairs)}. " if more > 0 else ""
        caption += "Pairs of decisions, one from each group; a decision can be in many pairs."
        drawn += f"<figure>{group_plot(groups)}<figcaption>{caption}</figcaption></figure>\n"
    else:
        drawn += "<p>No contradicting pair joins two different groups.</p>\n"
    drawn += _base_rates(groups)
    if groups.undecided:
        drawn += (
            f'<p class="small">{groups.undecided:,} pairs are not counted here: neither answer was'
            " the better one, or a group was missing.</p>\n"
        )
    return drawn


def _base_rates(groups: Groups) -> str:
    """A line for each group: how large it is, how it fares in general, and in pairs."""
    total = max(1, sum(groups.decisions.values()))
    shares = all(0 <= one <= 1 for one in groups.favourable.values())
    largest = sorted(groups.decisions.items(), key=lambda one: -one[1])
    heads = (
        "decisions",
        "of all",
        "favourable answer" if shares else "mean output",
        "pairs in which it got less",
        "pairs in which it got more",
        "got less, per 1,000 of its decisions",
    )
    lines = []
    for group, count in largest[:_TABLE_GROUPS]:
        across = [(pair, many) for pair, many in groups.pairs.items() if pair[0] != pair[1]]
        lost = sum(many for (loser, _), many in across if loser == group)
        won = sum(many for (_, winner), many in across if winner == group)
        good = groups.favourable[group]
        cells = [
            f"{count:,}",
            percent(count / total),
            percent(good) if shares else figure(round(good, 6)),
            f"{lost:,}",
            f"{won:,}",
            f"{1000 * lost / count:,.0f}",
        ]
        numbers = "".join(
            f'<td class="number" data-label="{head}">{cell}</td>'
            for head, cell in zip(heads, cells, strict=True)
        )
        lines.append(f'<tr><th scope="row"><bdi>{safe(shown(group), 60)}</bdi></th>{numbers}</tr>')
    top = "".join(f'<th scope="col" class="number">{head}</th>' for head in heads)
    more = len(largest) - _TABLE_GROUPS
    smaller = f"And {more:,} smaller group{'s' * (more != 1)}."
    note = f'<p class="small">{smaller}</p>\n' if more > 0 else ""
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="Base rates by'
        f' {safe(groups.column, 80)}"><table><thead><tr><th scope="col">group</th>{top}</tr>'
        f"</thead><tbody>{''.join(lines)}</tbody></table></div>\n{note}"
    )


def _pairs(findings: Findings) -> str:
    if not findings.worst:
        return ""
    lead = (
        "The clearest contradictions: the two are as alike as any, and were answered differently."
        " Shaded: where they differ. Someone who knows the cases should look at these first."
    )
    return section("pairs", "Pairs to look at", lead, pair_cards(findings.worst, findings.rule))


def _nearness(findings: Findings) -> str:
    if findings.flagged == 0 and findings.curve is None:
        return ""
    inside = ""
    if findings.flagged:
        inside += (
            "<h3>How near the contradictions are</h3>\n"
            f"<figure>{margin_plot(findings.margins)}<figcaption>For each flagged decision, how far"
            " away its nearest contradicting decision is. Those on the left do not depend on where"
            " exactly the line is drawn; those on the right do.</figcaption></figure>\n"
        )
    if findings.curve is not None:
        inside += (
            "<h3>If “alike” meant more, or less</h3>\n"
            f"<figure>{curve_plot(findings.curve)}<figcaption>What would be flagged at every other"
            f" epsilon.{_scaled(findings)}</figcaption></figure>\n"
        )
    lead = "How much of this depends on where the rule draws the line between alike and not alike."
    return section("nearness", "How near is near", lead, inside)


def _scaled(findings: Findings) -> str:
    scaled = " All tolerances of the rule are multiplied by it." * bool(findings.rule.features)
    many = findings.rows if findings.curve is None else findings.curve.decisions
    first = f" Computed from the first {many:,} decisions." if many < findings.rows else ""
    return scaled + first


def _computed(findings: Findings) -> str:
    done = findings.computed
    facts = [
        ("Decisions", f"{safe(done.source)}: {findings.rows:,} rows judged, in order"),
        (
            "Left out",
            f"{findings.bad_rows:,} rows that could not be read" * bool(findings.bad_rows),
        ),
        (
            "Exactness",
            "exact: each decision was compared with every earlier one"
            f"{' that was still remembered and' * bool(done.forgotten)} that could be near, and"
            " each contradiction was decided on the values themselves; nothing is sampled or"
            " estimated",
        ),
        (
            "Near",
            f"distance ≤ {done.reach!r} (epsilon {figure(findings.rule.epsilon)}, slack"
            f" {done.slack:g} of it), values kept as {safe(done.storage)}"
            if done.reach is not None and done.slack is not None
            else "",
        ),
        ("Forgotten", f"{done.forgotten:,} rows, no longer compared" * bool(done.forgotten)),
        ("Index", f"{safe(done.index)} ({safe(done.reason, 400)}); no answer depends on it"),
        ("Rule", f"fingerprint <code>{safe(done.fingerprint)}</code>"),
        ("Ledger", f"chain head <code>{safe(done.head)}</code>" if done.head else ""),
        ("Took", f"{done.seconds:,.1f} seconds" if done.seconds is not None else ""),
        ("Made", f"{_day(findings)}, likewise {safe(done.version)}, Python {safe(done.python)}"),
    ]
    listed = "".join(f"<dt>{name}</dt><dd>{what}</dd>" for name, what in facts if what)
    inside = (
        f'<dl class="facts">{listed}</dl>\n'
        "<h3>The rule, to compute it again</h3>\n"
        "<p>Save it as <code>likewise.toml</code>, and audit the same decisions in the same"
        " order:</p>\n<pre>likewise audit DATA --rule likewise.toml --report page.html</pre>\n"
        f'<pre class="rules" tabindex="0">{_toml(findings)}</pre>'
    )
    lead = "Everything that another person needs to arrive at the same numbers."
    return section("computed", "How this was computed", lead, inside)


def _toml(findings: Findings) -> str:
    """The rule's text, each part of it kept together."""
    parts = findings.rule.to_toml().strip().split("\n\n")
    return "".join(f"<span>{safe_lines(part)}\n\n</span>" for part in parts)
