"""A monitor whose decisions have one witness or none: the one that a hunt finds.

Invariant: what is refused, and what is remembered, is what a `Monitor` refuses and remembers.
"""

from typing import Any

from likewise.errors import BadRule
from likewise.history.decisions import History
from likewise.indexes.chooser import Chooser
from likewise.indexes.hunt import Hunt
from likewise.monitors.robustness import Monitor
from likewise.rule import Rule
from likewise.types import Rows


class HuntingMonitor(Monitor):
    """The monitor behind `calibrate` and `SlopeMonitor`."""

    def __init__(self, rule: Rule, **question: Any) -> None:
        super().__init__(rule, index="live")
        if rule.features is not None or rule.embed is not None:
            raise BadRule(
                "the rule has features, or embeds; expected one for inputs that are vectors, since"
                " a hunt cannot read anything else yet. Encode inputs first, or use a Monitor."
            )
        self._question = question

    @property
    def slack(self) -> float:
        """The slack that a monitor of these decisions has."""
        return self.rule.slack_for(self._storage)

    def _chooser_over(self, history: History) -> Chooser:
        def tree(history: History, coordinates: Rows | None) -> Hunt:
            return Hunt(history, coordinates, **self._question)

        return Chooser(history, "live", tree)
