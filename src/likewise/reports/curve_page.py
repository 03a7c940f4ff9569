"""What `likewise calibrate` found, as one self-contained HTML document: a curve and its figures."""

from collections.abc import Sequence

from likewise import __version__
from likewise.monitors.calibration import Calibration
from likewise.monitors.varied import Varied
from likewise.reports.charts import comparable_plot, curve_plot
from likewise.reports.document import document, section
from likewise.reports.findings import curve_of
from likewise.reports.varied_table import TITLE, varied_table
from likewise.reports.words import wording
from likewise.values.printing import figure, listed, percent
from likewise.values.safe import safe, safe_lines, shortened


def curve_page(
    calibration: Calibration,
    alike: Calibration,
    targets: Sequence[tuple[float, float | None]],
    source: str,
    varied: Varied | None = None,
) -> str:
    """The page; targets are rates with their epsilons, None where no epsilon is small enough.

    alike: the same for like cases of any output
    varied: what the rule comes to with each line of it changed
    """
    rule = calibration.rule
    curve = curve_of(calibration, rule, alike)
    rows = "".join(
        f"<dt>{percent(rate)}</dt><dd>epsilon {_epsilon(epsilon)}{_comparable(alike, epsilon)}</dd>"
        for rate, epsilon in targets
    )
    said = wording(rule)
    conditions = "".join(
        f"<li><b><bdi>{safe(listed(names), 400)}</bdi></b>: {safe(what, 400)}</li>"
        for names, what in said.conditions
    )
    scaled = " All tolerances of the rule are multiplied by it." if rule.features else ""
    top = f"""<header class="top">
<p class="brand"><b>likewise</b> · calibration</p>
<h1>How near is near?</h1>
<p class="lead">{safe(source)}: {len(calibration):,} decisions</p>
</header>"""
    main = f"""<section aria-labelledby="curve">
<h2 id="curve">The share of decisions flagged, at every epsilon</h2>
<p class="lead">A decision is flagged if an earlier one within epsilon got a different
answer.{scaled}</p>
<figure>{curve_plot(curve)}</figure>
</section>
<section aria-labelledby="comparable">
<h2 id="comparable">The share of decisions that could be compared</h2>
<p class="lead">A decision is comparable if there is an earlier one within epsilon, whatever its
answer. Where few are, a low share flagged says little.</p>
<figure>{comparable_plot(curve)}</figure>
</section>
<section aria-labelledby="targets">
<h2 id="targets">Epsilon for a rate</h2>
<p class="lead">For a share of decisions, the largest epsilon that flags no more.</p>
<dl class="facts">{rows}</dl>
</section>
{_varied(varied, len(calibration))}<section aria-labelledby="rule">
<h2 id="rule">What counts as alike</h2>
<p class="lead">{safe(said.alike, 600)}</p>
<ul class="rule">{conditions}</ul>
<p>{safe(said.different, 600)}</p>
<pre tabindex="0">{safe_lines(rule.to_toml())}</pre>
</section>
"""
    return document(
        f"{safe(shortened(source, 80))} · epsilon",
        top,
        main,
        f"Made by likewise {safe(__version__)}. This page is one file and loads nothing.",
    )


def _varied(varied: Varied | None, decisions: int) -> str:
    if varied is None:
        return ""
    lead = "What is comparable, and what contradicts, if one line of the rule is changed."
    return section("varied", TITLE, lead, varied_table(varied, decisions))


def _epsilon(epsilon: float | None) -> str:
    if epsilon is None:
        return "none: equal inputs got different outputs more often than that"
    return "any" if epsilon == float("inf") else figure(epsilon)


def _comparable(alike: Calibration, epsilon: float | None) -> str:
    return "" if epsilon is None else f", {percent(alike.rate(epsilon))} comparable"
