"""Rules about models, and the option that says which column has them."""

from likewise.cli.endings import Stop
from likewise.rules.rule import Rule


def insist_on_models(rule: Rule, column: str | None) -> None:
    """Stop if a rule is about models, and nothing says which one decided."""
    if rule.compare != "all" and column is None:
        raise Stop(
            f'the rule has compare = "{rule.compare}", so it is about models: say --model-column,'
            " the column that says which model decided."
        )
