"""The order of the pages: toctrees, added to a few pages when the site is built.

So pages stay plain Markdown, which a viewer of the repository shows as well.

Invariant: a page that is nowhere here fails the build, by Sphinx's own check.
"""

from typing import Any

FRONT = "docs/README"
SECTIONS = {
    "Begin": ["docs/tutorial", "README", "docs/faq", "docs/glossary"],
    "I have a file": [
        "docs/how-to/install",
        "docs/how-to/files-as-they-are",
        "docs/how-to/rule-for-people",
        "docs/how-to/choose-epsilon",
        "docs/how-to/audit-in-python",
        "docs/how-to/audit-in-ci",
        "docs/how-to/audit-larger-than-memory",
        "docs/how-to/read-the-report",
        "docs/how-to/compare-two-models",
    ],
    "I have a model in Python": [
        "docs/how-to/watch-a-model-in-code",
        "docs/how-to/watch-in-production",
        "docs/how-to/buffer-decisions",
        "docs/how-to/several-models",
        "docs/how-to/notice-a-burst",
        "docs/how-to/embeddings-and-pictures",
    ],
    "I run a service": [
        "docs/how-to/serve-beside-fastapi",
        "docs/how-to/use-the-service",
        "docs/how-to/serve-in-production",
        "docs/how-to/serve-alerts",
        "docs/how-to/size-a-service",
        "docs/how-to/watch-streams",
        "docs/how-to/watch-kserve",
        "docs/how-to/more-than-one-machine",
        "docs/how-to/back-up-a-ledger",
        "docs/how-to/change-a-rule",
    ],
    "I review": [
        "docs/how-to/look-up-a-case",
        "docs/how-to/review-contradictions",
        "docs/how-to/prove-a-ledger",
        "docs/how-to/erase-a-person",
    ],
    "I research": [
        "docs/how-to/adversarial-pictures",
        "docs/how-to/semantic-robustness",
        "docs/how-to/text-robustness",
    ],
    "Understand": [
        "docs/explanation",
        "docs/indexes/README",
        "docs/paper",
        "docs/benchmarks",
        "docs/audit-times",
        "docs/evidence",
        "ARCHITECTURE",
        "decisions/README",
    ],
    "Look up": [
        "docs/reference/rules",
        "docs/reference/monitors",
        "docs/reference/ledgers",
        "docs/reference/service",
        "docs/reference/command-line",
        "docs/reference/python",
        "docs/reference/metrics",
        "docs/reference/versions",
        "docs/reference/limits",
        "docs/delivery",
        "docs/ledger-format",
        "CHANGELOG",
        "CONTRIBUTING",
        "tests/README",
    ],
}
SHORT = {
    "README": "Overview",
    "docs/ledger-format": "The ledger's format",
}
"""Names in the sidebar, for titles that say too little there."""
CHILDREN = {
    "docs/indexes/README": [
        "live",
        "flat",
        "brute",
        "kdtree",
        "snn",
        "bdd",
        "split",
        "your-own",
    ],
    "decisions/README": ["0*"],
}


LISTED = "decisions/README"
"""The page that shows what is below it; the others say it in words of their own."""


def _toctree(entries: list[str], *options: str) -> str:
    return "\n".join(["", "```{toctree}", *options, "", *entries, "```", ""])


def _entry(page: str) -> str:
    return f"{SHORT[page]} </{page}>" if page in SHORT else f"/{page}"


def _add(app: Any, page: str, source: list[str]) -> None:
    """Append the pages below this one."""
    if page == FRONT:
        for caption, pages in SECTIONS.items():
            entries = [_entry(one) for one in pages]
            source[0] += _toctree(entries, ":hidden:", f":caption: {caption}")
    elif page in CHILDREN:
        hidden = () if page == LISTED else (":hidden:",)
        source[0] += _toctree(CHILDREN[page], ":glob:", ":maxdepth: 1", *hidden)


def setup(app: Any) -> dict[str, Any]:
    app.connect("source-read", _add)
    return {"parallel_read_safe": True}
