"""The report: findings become one HTML document that needs nothing beside it (document.py).

Every value from the data is made safe (safe.py).

Not here: what is said about a rule (words.py), the pictures (charts.py), groups (group_section.py),
pairs (cards.py).
"""

import os
import shlex
from collections.abc import Sequence

from likewise.explaining.comparing import protected_columns
from likewise.reports.cards import pair_cards
from likewise.reports.charts import (
    MIN_POINT,
    comparable_plot,
    curve_plot,
    drawn,
    margin_plot,
    rate_plot,
)
from likewise.reports.document import document, section, write_document
from likewise.reports.evidence import Computed
from likewise.reports.findings import Findings
from likewise.reports.group_section import group_section
from likewise.reports.group_words import how_compared
from likewise.reports.model_section import model_section
from likewise.reports.timeline import Stretch
from likewise.reports.varied_table import TITLE, rests_on, varied_table
from likewise.reports.words import MANY, found_in_words, within_in_words, wording
from likewise.values.printing import figure, percent
from likewise.values.safe import folded, safe, safe_lines, safe_name, shortened

_REMARKS = 20  # on how a file was read
_FEW = 100  # a percentage of fewer comparable decisions would say more than is known


def write_page(findings: Findings, path: str | os.PathLike[str]) -> None:
    """Write the page whole or not at all; BadFile says why it could not be."""
    write_document(page(findings), path)


def page(findings: Findings) -> str:
    """The findings as one self-contained HTML document."""
    source = findings.computed.source
    sections = [
        _rule(findings),
        _over_time(findings),
        group_section(findings.groups, findings.no_groups),
        model_section(findings.by_model, findings.rule.compare),
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
        script="tables.js",
    )


def _day(findings: Findings) -> str:
    return safe(findings.computed.made.replace("T", " ").replace("+00:00", " UTC"))


def _top(findings: Findings) -> str:
    said = "".join(f"<li>{safe(one, 500)}</li>" for one in found_in_words(findings))
    tiles = "".join(
        f"<div><dt>{words}</dt><dd>{number}</dd></div>" for number, words in _tiles(findings)
    )
    big, what = _big(findings)
    loud = " nothing" * findings.nothing_compared
    return f"""<header class="top">
<p class="brand"><b>likewise</b> · report of {_day(findings)}</p>
<h1>Were like cases treated alike?</h1>
<p class="lead">{safe(findings.computed.source)}</p>
<div class="hero{loud}"><p class="big">{big} <span>{what}</span></p><ul>{said}</ul></div>
<dl class="tiles">{tiles}</dl>
</header>"""


def _big(findings: Findings) -> tuple[str, str]:
    """The one number that is read from afar, and what it is a share of."""
    comparable, share = findings.comparable, findings.rate_among_comparable
    if findings.rows == 0:
        return "–", "no decisions"
    if findings.nothing_compared:
        return "0", f"of {findings.rows:,} decisions could be compared"
    if comparable is None or share is None:
        return percent(findings.rate), f"of {findings.rows:,} decisions contradict an earlier one"
    if comparable < _FEW:
        verb = "contradicts" if findings.flagged == 1 else "contradict"
        return f"{findings.flagged} of {comparable}", f"comparable decisions {verb} an earlier one"
    return percent(share), f"of {comparable:,} comparable decisions contradict an earlier one"


def _tiles(findings: Findings) -> list[tuple[str, str]]:
    comparable = "–" if findings.comparable is None else f"{findings.comparable:,}"
    looked_at = [
        (f"{findings.rows:,}", "decisions looked at"),
        (comparable, "had an earlier like case: they are comparable"),
    ]
    if findings.missing:
        looked_at.append((f"{findings.missing:,}", "more are known to be missing"))
    if findings.nothing_compared:
        return looked_at  # a count of contradictions would be 0, and would look like a finding
    return [
        *looked_at,
        (f"{findings.flagged:,}", "contradict an earlier one"),
        (f"{findings.in_any_pair:,}", "are in a contradicting pair, in any order"),
        (f"{findings.pairs:,}", "contradicting pairs in all"),
        (f"{findings.margins.identical:,}", "contradict one that was the same in all that counts"),
    ]


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
    notes = [*said.notes, *within_in_words(findings.computed.order.within)]
    inside += "".join(f'<p class="small">{safe(note, 600)}</p>\n' for note in notes)
    return section("rule", "What counts as alike", safe(said.alike, 600), inside)


def _names(names: Sequence[str]) -> str:
    more = len(names) - MANY
    rest = f" and {more:,} more" if more > 0 else ""
    return ", ".join(map(safe_name, names[:MANY])) + rest


def _over_time(findings: Findings) -> str:
    if findings.flagged == 0:
        return ""
    of = "decisions" if findings.comparable is None else "comparable decisions"
    lead = (
        f"The share of {of} that contradict an earlier one. It rises at first in any stream: the"
        " longer the past, the more there is to contradict. A sudden change is worth a look."
    )
    overall = findings.rate if findings.comparable is None else findings.rate_among_comparable
    order = findings.computed.order
    many = findings.by_row[0].decisions
    how = "In the order judged" if order.column or order.lines else "In order of arrival"
    inside = (
        f"<figure>{rate_plot(findings.by_row, overall or 0.0)}<figcaption>{how},"
        f" {many:,} decision{'s' * (many != 1)} to a point. {_dotted(findings.by_row)}"
        "</figcaption></figure>"
    )
    if order.lines and order.column is None:
        inside += (
            '\n<p class="small">No time column is named: the order is that of the lines in the'
            " file, which need not be that of time.</p>"
        )
    if findings.untimed:
        inside += f'\n<p class="small">{findings.untimed:,} decisions had no usable time.</p>'
    if findings.by_time:
        inside = (
            f"<figure>{rate_plot(findings.by_time, overall or 0.0)}<figcaption>By time, in UTC."
            f" {_dotted(findings.by_time)}</figcaption></figure>\n"
            + folded(how, inside, f"The same {how.lower()} is in the page and not printed.")
        )
    return section("time", "Over time", lead, inside)


def _dotted(stretches: Sequence[Stretch]) -> str:
    left_out = sum(one not in drawn(stretches) for one in stretches)
    few = f" {left_out:,} with fewer than {MIN_POINT} comparable decisions are left out."
    return f"Dotted: the share overall.{few * bool(left_out)}"


def _pairs(findings: Findings) -> str:
    if not findings.worst:
        return ""
    lead = (
        "The clearest contradictions: the two are as alike as any, and were answered differently."
        " No two of these pairs are about the same decision, or the same values with the same"
        f" answer{_across(findings)}. Shaded: where they differ. Someone who knows the cases should"
        f" look at these first.{_all_pairs(findings)}"
    )
    return section("pairs", "Pairs to look at", lead, pair_cards(findings.worst, findings.rule))


def _across(findings: Findings) -> str:
    return "; pairs across groups come first" * bool(protected_columns(findings.rule))


def _all_pairs(findings: Findings) -> str:
    many = len(findings.worst)
    if many == findings.pairs:
        return ""
    return f" These are {many:,} of {findings.pairs:,}; --out pairs.xlsx has them all, to work on."


def _nearness(findings: Findings) -> str:
    if findings.flagged == 0 and findings.curve is None and findings.varied is None:
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
        if findings.curve.comparable is not None:
            inside += (
                f"<figure>{comparable_plot(findings.curve)}<figcaption>What could be compared at"
                f" every other epsilon.{_scaled(findings)}</figcaption></figure>\n"
            )
    if findings.varied is not None:
        inside += f"<h3>{TITLE}</h3>\n{varied_table(findings.varied, findings.rows)}"
    lead = "How much of this depends on where the rule draws the line between alike and not alike."
    return section("nearness", "How near is near", lead, inside)


def _scaled(findings: Findings) -> str:
    scaled = " All tolerances of the rule are multiplied by it." * bool(findings.rule.features)
    many = findings.rows if findings.curve is None else findings.curve.decisions
    part = f" Computed from a part: the first {many:,} of {findings.rows:,} decisions judged."
    return scaled + part * (many < findings.rows)


def _computed(findings: Findings) -> str:
    done = findings.computed
    facts = [
        ("Decisions", f"{safe(done.source)}: {findings.rows:,} rows judged"),
        ("Data", _data(done)),
        ("Command", f"<code>{safe(done.command, 2_000)}</code>" if done.command else ""),
        ("Order", safe(done.order.words(), 400)),
        ("Read", _listed(done.remarks)),
        ("Left out", _left_out(findings)),
        ("Missing", f"{findings.missing:,} decisions, never observed" * bool(findings.missing)),
        (
            "Exactness",
            "exact: each decision was compared with every earlier one"
            f"{_of_span(done)}"
            f"{' that was still remembered and' * bool(done.forgotten)} that could be near, and"
            " each contradiction was decided on the values themselves; no verdict is sampled or"
            " estimated",
        ),
        (
            "Comparable",
            "a decision is, if an earlier one was near, whatever its output: exact, too"
            if findings.comparable is not None
            else "how many decisions had an earlier like case was not looked at",
        ),
        (
            "Near",
            f"distance ≤ {done.reach!r} (epsilon {figure(findings.rule.epsilon)}, slack"
            f" {done.slack:g} of it), values kept as {safe(done.storage)}"
            if done.reach is not None and done.slack is not None
            else "",
        ),
        ("Groups", safe(how_compared(findings.groups, done.order.within), None)),
        ("Forgotten", f"{done.forgotten:,} rows, no longer compared" * bool(done.forgotten)),
        ("Curve", _curve_rests_on(findings)),
        ("Rule with a line changed", _varied_rests_on(findings)),
        ("Drawn at random", _seeds(done)),
        ("Index", f"{safe(done.index)} ({safe(done.reason, 400)}); no answer depends on it"),
        ("Rule", f"fingerprint <code>{safe(done.fingerprint)}</code>"),
        ("Ledger", f"chain head <code>{safe(done.head)}</code>" if done.head else ""),
        ("Took", _took(done)),
        ("Made", f"{_day(findings)} with {safe(_versions(done))}"),
    ]
    listed = "".join(f"<dt>{name}</dt><dd>{what}</dd>" for name, what in facts if what)
    time = f" --time-column {shlex.quote(done.order.column)}" if done.order.column else ""
    time += f" --within {shlex.quote(done.order.within)}" if done.order.within else ""
    time += f" --model-column {shlex.quote(done.model_column)}" if done.model_column else ""
    inside = (
        f'<dl class="facts">{listed}</dl>\n'
        "<h3>The rule, to compute it again</h3>\n"
        "<p>Save it as <code>likewise.toml</code>, and audit the same decisions:</p>\n"
        f"<pre>likewise audit DATA --rule likewise.toml{safe(time)} --report page.html</pre>\n"
        f'<pre class="rules" tabindex="0">{_toml(findings)}</pre>'
    )
    lead = "Everything that another person needs to arrive at the same numbers."
    return section("computed", "How this was computed", lead, inside)


def _data(done: Computed) -> str:
    if done.sha256 is None or done.size is None:
        return ""
    return f"SHA-256 <code>{safe(done.sha256)}</code>, {done.size:,} bytes as they were read"


def _listed(sentences: Sequence[str]) -> str:
    items = "".join(f"<li>{safe(one, 400)}</li>" for one in sentences[:_REMARKS])
    more = len(sentences) - _REMARKS
    items += f"<li>and {more:,} remarks more</li>" if more > 0 else ""
    return f"<ul>{items}</ul>" if items else ""


def _left_out(findings: Findings) -> str:
    done = findings.computed
    if findings.bad_rows == 0:
        return "no row" if done.sha256 else ""
    many = "row" if findings.bad_rows == 1 else "rows"
    kinds = [
        f"<li>{one.rows:,}, the first in {safe(done.unit)} {one.place:,}: {safe(one.why, 400)}</li>"
        for one in done.skipped
    ]
    if done.skipped_for_other_reasons:
        kinds.append(f"<li>{done.skipped_for_other_reasons:,} for other reasons</li>")
    inside = f"<ul>{''.join(kinds)}</ul>" if kinds else ""
    return f"{findings.bad_rows:,} {many} that could not be used{inside}"


def _of_span(done: Computed) -> str:
    return "" if done.order.within is None else f" of the {safe(done.order.within)} before it"


def _curve_rests_on(findings: Findings) -> str:
    if findings.curve is None:
        rule = findings.rule
        some_do_not_count = rule.person_column or rule.protected_must_differ
        some_do_not_count = some_do_not_count or rule.compare != "all"
        if findings.computed.order.within or some_do_not_count:
            return (
                "not drawn: nearness at other epsilons is found by distance alone, and here some"
                " pairs do not count, however near they are"
            )
        return ""
    many = findings.curve.decisions
    part = f"a part: the first {many:,} of {findings.rows:,} decisions judged"
    return part if many < findings.rows else f"all {many:,} decisions"


def _varied_rests_on(findings: Findings) -> str:
    return "" if findings.varied is None else rests_on(findings.varied, findings.rows)


def _seeds(done: Computed) -> str:
    said = "; ".join(f"{safe(what)}: seed {seed}" for what, seed in done.seeds)
    return said


def _took(done: Computed) -> str:
    if done.seconds is None:
        return ""
    load = "" if done.load is None else f", at a load of {done.load:.1f} (1: nothing else ran)"
    return f"{done.seconds:,.1f} seconds{load}"


def _versions(done: Computed) -> str:
    packages = [f"{name} {version}" for name, version in done.packages]
    return ", ".join([f"likewise {done.version}", f"Python {done.python}", *packages])


def _toml(findings: Findings) -> str:
    """The rule's text, each part of it kept together."""
    parts = findings.rule.to_toml().strip().split("\n\n")
    return "".join(f"<span>{safe_lines(part)}\n\n</span>" for part in parts)
