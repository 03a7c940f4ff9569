"""Text that a page must show and must not obey."""

from typing import Any

import likewise as lw
from likewise import Feature

STRINGS = (
    "<script>window.obeyed = true</script>",
    "</style><script>window.obeyed = true</script>",
    "</title></head><body onload=window.obeyed=true>",
    '"><img src=x onerror="window.obeyed=true">',
    "'><svg onload='window.obeyed=true'>",
    "]]><!-- --><b>bold</b>",
    "&lt;already&gt; &amp; &#60;",
    "javascript:window.obeyed=true",
    "http://example.invalid/picture.png",
    "url(http://example.invalid/x.css)",
    "right\u202eto left\u2066\u200f",
    "שלום עולם مرحبا",
    "a\x00b\x07c\x1b[31m\x85",
    "lone \ud800 surrogate",
    "\ufeff\ufffe\uffff",
    "new\nline\r\ttab\u2028and paragraph\u2029",
    "x" * 100_000,
    "no-break" + "_" * 500,
    "",
    " ",
    "🙂👨‍👩‍👧 é é",
    "{{ template }} ${dollar} %s {0}",
)


def rule() -> lw.Rule:
    """A rule whose every name is hostile; but for lone surrogates, which TOML cannot hold."""
    return lw.Rule(
        features={
            STRINGS[0]: Feature("number", tolerance=2),
            STRINGS[3]: Feature("category"),
            STRINGS[1]: Feature("protected"),
            STRINGS[10]: Feature("protected"),
            STRINGS[5]: Feature("key"),
            STRINGS[16][:3_000]: Feature(
                "ordinal", order=[one for one in STRINGS if "\ud800" not in one]
            ),
            STRINGS[2]: Feature("ignore"),
        },
        output_column=STRINGS[4],
        favourable=STRINGS[6],
    )


def rows(count: int = 200) -> list[dict[str, Any]]:
    """Decisions that hold hostile values everywhere."""
    names = list(rule().features)
    return [
        {
            names[0]: i % 5,
            names[1]: STRINGS[i % 3],
            names[2]: STRINGS[(i * 7) % len(STRINGS)],
            names[3]: STRINGS[(i * 5) % 4],
            names[4]: f"{i} {STRINGS[i % len(STRINGS)]}",
            names[5]: STRINGS[10 + i % 2],
            names[6]: STRINGS[0],
            STRINGS[4]: STRINGS[6] if i % 3 else STRINGS[(i // 3) % len(STRINGS)],
        }
        for i in range(count)
    ]
