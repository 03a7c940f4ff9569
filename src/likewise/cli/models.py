"""Which model decided each row: the column that says it, for `audit`, `watch` and `compare`."""

from likewise.cli.endings import Stop
from likewise.rules.rule import Rule
from likewise.sources.chunk import Table


def models_in(table: Table, column: str) -> list[str | None]:
    """The models of rows; None for a row without one."""
    values = [row.get(column) for row in table] if isinstance(table, list) else table[column]
    return [None if value is None or value == "" else str(value) for value in values]


def insist_on_models(rule: Rule, column: str | None) -> None:
    """Stop if a rule is about models, and nothing says which one decided."""
    if rule.compare != "all" and column is None:
        raise Stop(
            f'the rule has compare = "{rule.compare}", so it is about models: say --model-column,'
            " the column that says which model decided."
        )
