"""A rule says itself in words, and a notebook shows them."""

import likewise as lw
from likewise import Feature


def test_rule_explains_itself():
    features = {"<x>": Feature("number", tolerance=5), "sex": Feature("protected")}
    rule = lw.Rule(features=features, output_column="z")
    words = rule.explain()
    assert str(words) == "\n".join(words.lines)
    assert words.lines[1] == "- <x>: at most 5 apart"
    page = rule._repr_html_()
    assert page == words._repr_html_()
    assert "&lt;x&gt;" in page and "<x>" not in page
    assert "sex is protected" in page
