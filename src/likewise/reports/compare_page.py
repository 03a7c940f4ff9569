"""Two histories compared, as one HTML document that needs nothing beside it (document.py).

Every value from the data is made safe (safe.py).

Not here: what is said (compare_words.py), groups (group_section.py), pairs (cards.py).
"""

from collections.abc import Sequence

from likewise.reports.cards import pair_cards
from likewise.reports.compare_words import (
    INTERVALS,
    compared_in_words,
    conclusion,
    cut_in_words,
    interval_of,
    named,
    others,
    points,
    share_interval,
)
from likewise.reports.comparison import Comparison, KindOfPairs, Side
from likewise.reports.document import document, section
from likewise.reports.evidence import Computed
from likewise.reports.group_section import group_section
from likewise.reports.group_words import how_compared
from likewise.reports.plots import WIDE, dot, line, picture, text, ticks, twice
from likewise.reports.plots import box as drawn_box
from likewise.reports.words import within_in_words, wording
from likewise.values.printing import percent
from likewise.values.safe import safe, safe_lines, shortened

_STEP, _TOP = 58, 24


def compare_page(found: Comparison) -> str:
    """The comparison as one self-contained HTML document."""
    done = found.one.computed
    names = " and ".join(safe(shortened(side.name, 60)) for side in (found.one, found.other))
    sections = [
        _rates(found),
        _pairs(found),
        *(_groups(found, i) for i in (0, 1)),
        _rule(found),
        _computed(found),
    ]
    return document(
        f"{names} · likewise compare",
        _top(found, names),
        "".join(sections),
        f"Made by likewise {safe(done.version)} on {_day(done)}. This page is one file and\nloads"
        " nothing; it may contain personal data from the decisions it shows.",
        made_by=done.version,
        script="tables.js",
    )


def _day(done: Computed) -> str:
    return safe(done.made.replace("T", " ").replace("+00:00", " UTC"))


def _top(found: Comparison, names: str) -> str:
    said = "".join(f"<li>{safe(one, 500)}</li>" for one in compared_in_words(found))
    apart = found.difference
    big, what = "–", "nothing could be compared, so nothing follows"
    if apart is not None:
        sign = "+" if apart.value > 0 else "\u2212" if apart.value < 0 else "±"
        big = f"{sign}{points(abs(apart.value)).removesuffix(' points')}"
        what = f"percentage points; the interval is {interval_of(apart)}"
    counts = [
        (found.common, "cases are in both"),
        (found.new.of_common, "contradicting pairs of these are new"),
        (found.gone.of_common, "contradicting pairs of these are gone"),
        (found.persisting.count, "contradicting pairs of these persist"),
        (others(found.new), "pairs are new with a case that only the second has"),
        (others(found.gone), "pairs are gone with a case that only the first has"),
    ]
    tiles = "".join(
        f"<div><dt>{words}</dt><dd>{number:,}</dd></div>"
        for number, words in [*counts[:4], *(one for one in counts[4:] if one[0])]
    )
    loud = " nothing" * bool(found.nothing_compared)
    return f"""<header class="top">
<p class="brand"><b>likewise</b> · comparison of {_day(found.one.computed)}</p>
<h1>Does the second contradict itself more often?</h1>
<p class="lead">{names}</p>
<div class="hero{loud}"><p class="big">{big} <span>{what}</span></p><ul>{said}</ul></div>
<dl class="tiles">{tiles}</dl>
</header>"""


# Rates


def _rates(found: Comparison) -> str:
    separate = "Histories are separate: no decision of one is compared with one of the other."
    lead = (
        "The share of comparable decisions that contradict an earlier one of the same history."
        f" {separate}"
    )
    if found.column is not None:
        lead += f" Both come from one file, told apart by {safe(found.column, 80)}."
    cut = "".join(f'<p class="small">{safe(one, 500)}</p>\n' for one in cut_in_words(found))
    apart = found.difference
    told = (
        f"<p>Difference: {points(apart.value).replace('-', chr(0x2212))}, interval"
        f" {interval_of(apart)}, {conclusion(apart)}.</p>\n"
        if apart is not None
        else ""
    )
    inside = (
        f"<figure>{_plot(found)}<figcaption>The dot is the share, the band its interval."
        f" {safe(INTERVALS, None)}</figcaption></figure>\n{told}{_table(found)}{cut}"
    )
    return section("rates", "How often each contradicts itself", lead, inside)


def _plot(found: Comparison) -> str:
    sides = found.one, found.other
    most = max((side.share.high for side in sides if side.share.of), default=1.0)
    marks = ticks(most)

    def draw(width: int) -> str:
        def x(share: float) -> float:
            return 16 + share / marks[-1] * (width - 48)

        bottom = _TOP + _STEP * len(sides)
        parts = [
            line(x(mark), 8, x(mark), bottom, "grid")
            + text(x(mark), bottom + 16, percent(mark), "tick", "middle")
            for mark in marks
        ]
        for i, side in enumerate(sides):
            y, rate = _TOP + i * _STEP, side.share.rate
            told = _rate(side)
            name = shortened(side.name, 60 if width == WIDE else 22)
            parts += [text(0, y, name, "group"), text(width, y, told, "count", "end")]
            if rate is None:
                continue
            low, high = x(side.share.low), x(side.share.high)
            tip = f"{side.name}: {told}, interval {share_interval(side.share)}"
            parts += [
                drawn_box(low, y + 12, max(high - low, 2.0), 14, "chance", tip),
                dot(x(rate), y + 19),
            ]
        return picture(width, bottom + 24, *parts)

    return twice(draw, "; ".join(f"{side.name}: {_rate(side)}" for side in sides))


def _rate(side: Side) -> str:
    return "nothing comparable" if side.share.rate is None else percent(side.share.rate)


def _table(found: Comparison) -> str:
    heads = (
        "decisions",
        "had an earlier like case",
        "of these contradict it",
        "share",
        "interval",
        "in a contradicting pair, in any order",
        "contradicting pairs",
    )
    top = "".join(f'<th scope="col" class="number">{head}</th>' for head in heads)
    rows = "".join(_row(side, heads) for side in (found.one, found.other))
    return (
        '<div class="scroll" tabindex="0" role="region" aria-label="Both histories"><table>'
        f'<thead><tr><th scope="col">history</th>{top}</tr></thead><tbody>{rows}</tbody></table>'
        "</div>\n"
    )


def _row(side: Side, heads: Sequence[str]) -> str:
    rate = side.share.rate
    cells = (
        f"{side.compared:,}",
        f"{side.comparable:,}",
        f"{side.flagged:,}",
        "–" if rate is None else percent(rate),
        share_interval(side.share),
        f"{side.in_any_pair.count:,}",
        f"{side.pairs:,}",
    )
    numbers = "".join(
        f'<td class="number" data-label="{head}">{cell}</td>'
        for head, cell in zip(heads, cells, strict=True)
    )
    return f'<tr><th scope="row"><bdi>{safe(shortened(side.name, 60))}</bdi></th>{numbers}</tr>'


# Pairs


def _pairs(found: Comparison) -> str:
    kinds = (
        ("new", f"New in {named(found.other)}", found.new),
        ("gone", f"Gone from {named(found.one)}", found.gone),
        ("persisting", f"Persisting, as {named(found.other)} has them", found.persisting),
    )
    inside = "".join(_kind(found, name, title, kind) for name, title, kind in kinds)
    lead = (
        "Two like cases that were answered differently in one history, or in both. Pairs of cases"
        " that both histories have are shown first, no decision twice among those of a kind."
    )
    return section("pairs", "Contradicting pairs", lead, inside)


def _kind(found: Comparison, name: str, title: str, kind: KindOfPairs) -> str:
    told = f"<h3>{safe(title, 120)}: {kind.count:,}</h3>\n"
    more = others(kind)
    if kind.count == 0:
        return f"{told}<p>None.</p>\n"
    if more:
        told += f"<p>{kind.of_common:,} of cases that both have, {more:,} of others.</p>\n"
    places = "; ".join(f"{one.unit}s {one.place:,} and {one.witness_place:,}" for one in kind.shown)
    return (
        f"{told}{pair_cards([one.pair for one in kind.shown], found.rule, name)}\n"
        f'<p class="small">In this order: {safe(places, 600)}.</p>\n'
    )


def _groups(found: Comparison, which: int) -> str:
    side = (found.one, found.other)[which]
    if found.no_groups and which:
        return ""
    of = f": {safe(shortened(side.name, 60))}"
    return group_section(side.groups, found.no_groups, f"groups-{which}", of)


# How


def _rule(found: Comparison) -> str:
    said = wording(found.rule)
    items = "".join(
        f"<li><b><bdi>{safe(', '.join(names), 400)}</bdi></b>: {safe(what, 400)}</li>"
        for names, what in said.conditions
    )
    few = " few" if len(said.conditions) < 3 else ""
    inside = f'<ul class="rule{few}">{items}</ul>\n' if items else ""
    inside += f"<p>{safe(said.different, 600)}</p>\n"
    notes = [*said.notes, *within_in_words(found.one.computed.order.within)]
    inside += "".join(f'<p class="small">{safe(note, 600)}</p>\n' for note in notes)
    return section("rule", "What counts as alike", safe(said.alike, 600), inside)


def _computed(found: Comparison) -> str:
    facts = [("Command", f"<code>{safe(found.command, 2_000)}</code>" if found.command else "")]
    for side in (found.one, found.other):
        done = side.computed
        bad = f"; {side.bad_rows:,} rows could not be used" if side.bad_rows else ""
        facts += [
            ("Decisions", f"{safe(done.source)}: {side.decisions:,} judged{bad}"),
            (
                "Data",
                f"SHA-256 <code>{safe(done.sha256)}</code>, {done.size:,} bytes"
                if done.sha256 and done.size is not None
                else "",
            ),
            ("Ledger", f"chain head <code>{safe(done.head)}</code>" if done.head else ""),
            ("Order", safe(done.order.words(), 400)),
            ("Read", safe("; ".join(done.remarks), 1_000)),
        ]
    told = {
        "keys": "by their keys",
        "places and values": "by their places, and the same values in all columns but the output",
    }[found.told_by]
    facts += [
        ("Same cases", told),
        ("Exactness", "counts of decisions and pairs are exact: nothing is estimated"),
        ("Groups", safe(how_compared(found.one.groups, found.one.computed.order.within), None)),
        ("Intervals", safe(INTERVALS, None)),
        ("Rule", f"fingerprint <code>{safe(found.one.computed.fingerprint)}</code>"),
        ("Made", f"{_day(found.one.computed)} with likewise {safe(found.one.computed.version)}"),
    ]
    listed = "".join(f"<dt>{name}</dt><dd>{what}</dd>" for name, what in facts if what)
    inside = (
        f'<dl class="facts">{listed}</dl>\n<h3>The rule</h3>\n'
        f'<pre class="rules" tabindex="0">{_toml(found)}</pre>'
    )
    lead = "Everything that another person needs to arrive at the same numbers."
    return section("computed", "How this was computed", lead, inside)


def _toml(found: Comparison) -> str:
    parts = found.rule.to_toml().strip().split("\n\n")
    return "".join(f"<span>{safe_lines(part)}\n\n</span>" for part in parts)
