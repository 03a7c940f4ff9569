"""What all pages have in common: the header, the way to the other screens, the policy.

A page is HTML from Python; whoever makes a part of it has made every value in it safe
(values/safe.py). The policy forbids scripts and styles in the page itself, so text that were
markup by mistake could still run nothing.
"""

from collections.abc import Sequence

from starlette.responses import Response

from likewise.pages.signing_in import CSRF_FIELD, Viewer
from likewise.pages.static_files import static_url
from likewise.pages.visit import Visit, address
from likewise.values.safe import safe
from likewise.version import __version__

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:;"
    " connect-src 'self'; font-src 'self'; base-uri 'none'; form-action 'self';"
    " frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "cache-control": "no-store",
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",
}
NAVIGATION = (
    ("overview", "Overview"),
    ("violations", "Violations"),
    ("queue", "Queue"),
    ("groups", "Groups"),
    ("models", "Models"),
    ("people", "People"),
    ("rule", "Rule"),
    ("health", "Health"),
)
DONE = {
    "reviewed": "Written down. It is in the ledger's chain.",
    "undone": "Taken back, as a new entry of the ledger's chain.",
    "erased": "Erased: inputs, outputs and keys are destroyed, and the chain says so.",
    "erased-later": "Erased. Somebody still reads an old state of the ledger: erase it again later,"
    " so that nothing of it stays in its files.",
    "assigned": "Assigned.",
    "verified": "The ledger was verified.",
}
"""What a page says after a form was sent, by the word `done` of its address."""


def page(
    visit: Visit,
    title: str,
    main: str,
    *,
    here: str,
    status: int = 200,
    assets: Sequence[str] = (),
) -> Response:
    """A page about a monitor.

    title   plain text
    main    HTML
    here    the first part of its path, for the navigation
    """
    done = DONE.get(visit.query.get("done", ""))
    notice = f'<p class="notice" role="status">{safe(done)}</p>\n' if done else ""
    places = "".join(
        f'<li><a href="{safe(visit.url(path))}"{_current(path == here)}>{words}</a></li>'
        for path, words in NAVIGATION
    )
    names = [name for name in visit.service.monitors if visit.viewer.allows("read", name)]
    top = (
        f"{_monitors(names, visit.hosted.name, here)}"
        f'<nav aria-label="Screens"><ul>{places}</ul></nav>'
    )
    name, viewer = f"{title} · {visit.hosted.name}", visit.viewer
    return whole(name, top, title, notice + main, viewer, status, assets)


def whole(
    title: str,
    top: str,
    heading: str,
    main: str,
    viewer: Viewer | None,
    status: int = 200,
    assets: Sequence[str] = (),
) -> Response:
    """Any page; title and heading are plain text, top and main are HTML."""
    out = ""
    if viewer is not None:
        name = f'<span class="who">{safe(viewer.name, 60)}</span>'
        out = f"<p>{name}</p>"
        if viewer.signed_in:
            out = (
                f'<form method="post" action="/sign-out">{name}'
                f'<input type="hidden" name="{CSRF_FIELD}" value="{viewer.csrf}">'
                '<button class="plain">Sign out</button></form>'
            )
    more = "".join(_asset(name) for name in assets)
    text = f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{safe(title)} · likewise</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="{static_url("style.css")}">
{more}<link rel="stylesheet" href="{static_url("pages.css")}">
<link rel="stylesheet" href="{static_url("work.css")}">
<script type="module" src="{static_url("likewise.js")}"></script>
</head>
<body>
<a class="skip" href="#main">Skip to the content</a>
<header class="bar">
<div class="line"><p class="brand"><a href="/"><b>likewise</b></a></p>{out}</div>
{top}</header>
<main id="main" tabindex="-1">
<h1>{safe(heading)}</h1>
{main}
</main>
<footer><p>likewise {safe(__version__)}. <span data-zone>Times are in UTC.</span></p></footer>
</body>
</html>
"""
    return Response(text, status, HEADERS, "text/html")


def _asset(name: str) -> str:
    if name.endswith(".css"):
        return f'<link rel="stylesheet" href="{static_url(name)}">\n'
    return f'<script defer src="{static_url(name)}"></script>\n'


def _monitors(names: Sequence[str], here: str, screen: str) -> str:
    """The monitors to choose from."""
    if len(names) < 2:
        return f'<p class="monitor">{safe(here)}</p>'
    links = "".join(
        f'<li><a href="{safe(address(name, screen))}"{_current(name == here)}>{safe(name)}</a></li>'
        for name in names
    )
    return f'<nav aria-label="Monitors" class="monitors"><ul>{links}</ul></nav>'


def _current(is_here: bool) -> str:
    return ' aria-current="page"' if is_here else ""
