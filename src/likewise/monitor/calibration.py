"""Find for each decision the nearest past one that contradicts it: the share flagged per epsilon.

Invariant: `rate(epsilon)` is what a `Monitor` with that epsilon would flag, boundaries included:
both ask `distance <= epsilon * (1 + slack)`.
Cost: one or two passes of `observe_many` with a good epsilon; sixteen bytes kept for each decision.
Not here: all pairs. Each decision contributes its nearest.
"""

import base64
import io
import math
import os
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from likewise.errors import BadDecision, BadRule, LikewiseError
from likewise.monitor.best_match import check_compares_all, make_nearest_engine
from likewise.monitor.factory import make_reader
from likewise.monitor.monitor import assemble_monitor
from likewise.monitor.readers.embedded_reader import embed_many
from likewise.monitor.readers.protocol import FROM_ROW
from likewise.monitor.readers.table_reader import TableReader
from likewise.rule.rule import Rule
from likewise.tables.array_types import Floats, Rows
from likewise.tables.normalize import sequence_of, to_number_array
from likewise.tables.printing import percent, with_bounded_repr
from likewise.verdict.html import make_table

_SAMPLE = 512  # decisions from which the first unit is chosen
_SHOWN = (0.001, 0.01, 0.05, 0.1, 0.25)  # rates in a notebook
_EPSILONS = (1e-150, 1e150)  # what a rule's epsilon can be


class Contradiction(NamedTuple):
    """Names two decisions, and how far apart their inputs are."""

    later: int
    earlier: int
    distance: float


@dataclass(frozen=True)
class RatePlot:
    """Draws the rate over epsilon: matplotlib's axes, shown by a notebook as a picture."""

    axes: Any

    def _repr_html_(self) -> str:
        picture = io.BytesIO()
        self.axes.figure.savefig(picture, format="png", dpi=100)
        data = base64.b64encode(picture.getvalue()).decode()
        return f'<img alt="rate over epsilon" src="data:image/png;base64,{data}">'


@with_bounded_repr
@dataclass(frozen=True, eq=False)
class Calibration:
    """Says how near each decision's nearest contradiction is, and what follows for epsilon.

    Which epsilon to choose is the first question about a rule, and the decisions answer it: a
    decision is flagged at epsilon exactly if its nearest contradicting past decision is that near.
    So one number for each decision gives the share that would be flagged at every epsilon.
    """

    rule: Rule
    distances: Floats
    """The distance to the nearest past decision with a different output; inf if there is none."""
    rows: Rows
    """The row of that decision, the earliest of several; -1 if there is none."""
    slack: float
    """How much a distance may exceed epsilon, relatively, because of rounding."""
    _sorted: Floats = field(init=False, repr=False)

    def __post_init__(self) -> None:
        ordered = np.sort(self.distances[self.rows >= 0])
        for array in (self.distances, self.rows, ordered):
            array.flags.writeable = False
        object.__setattr__(self, "_sorted", ordered)

    def __len__(self) -> int:
        return len(self.distances)

    def rate(self, epsilon: float) -> float:
        """Return the share of decisions that a monitor with this epsilon would flag.

        At a step it is the upper value, since a distance of exactly epsilon counts as near.
        """
        if not epsilon >= 0:
            raise BadRule(f"epsilon is {epsilon!r}; expected a number from 0", setting="epsilon")
        flagged = np.searchsorted(self._sorted, epsilon * (1.0 + self.slack), side="right")
        return int(flagged) / max(len(self), 1)

    def curve(self) -> tuple[Floats, Floats]:
        """Return every epsilon at which the rate steps up, ascending, and the rate from there on.

        Below the first the rate is 0. Each epsilon is the smallest number at which the step has
        happened. An epsilon of 0 means: at any radius, since equal inputs got different outputs.
        """
        steps = np.unique(_smallest_epsilons(np.unique(self._sorted), 1.0 + self.slack))
        flagged = np.searchsorted(self._sorted, steps * (1.0 + self.slack), side="right")
        return steps, flagged / max(len(self), 1)

    def epsilon_for(self, rate: float) -> float:
        """Return the largest epsilon at which no more than this share of decisions is flagged.

        The rate only takes the values of its steps, so the rate at the answer is often lower: the
        answer is the last number before the step that goes above it, or inf if no step does. If
        even the smallest radius flags more, because equal inputs got different outputs, there is no
        such epsilon, and BadRule is raised.
        """
        if not 0 <= rate <= 1:
            raise BadRule(f"the rate is {rate!r}; expected a share from 0 to 1", setting="rate")
        steps, rates = self.curve()
        above = steps[rates > rate]
        if len(above) == 0:
            return math.inf
        if above[0] == 0:
            raise BadRule(
                f"no epsilon flags a share of {rate:g} or less: {self.rate(0):.4g} of the decisions"
                " have the same input as a past decision with a different output. Ask for a higher"
                " rate, or look at closest(10).",
                setting="rate",
            )
        return float(np.nextafter(above[0], 0.0))

    def closest(self, count: int = 10) -> list[Contradiction]:
        """Return the closest contradictions, one for each later decision, the closest first."""
        later = np.flatnonzero(self.rows >= 0)
        order = later[np.argsort(self.distances[later], kind="stable")[:count]]
        columns = (order, self.rows[order], self.distances[order])
        return list(map(Contradiction, *(column.tolist() for column in columns)))

    def plot(self, where: Any = None) -> "RatePlot":
        """Draw the rate over epsilon, with matplotlib; a notebook shows the result as a picture.

        where: a path to save the picture to, axes to draw on, or None for a new figure
        """
        try:
            from matplotlib.figure import Figure
        except ImportError:
            raise ImportError(
                "drawing needs matplotlib, which is not installed: pip install '.[plot]' in the"
                " clone of likewise"
            ) from None
        path = where if isinstance(where, str | os.PathLike) else None
        if where is None or path is not None:
            axes = Figure(figsize=(6.0, 3.6), layout="constrained").subplots()
        else:
            axes = where
        steps, rates = self.curve()
        axes.step(np.concatenate([[0.0], steps]), np.concatenate([[0.0], rates]), where="post")
        axes.set_xlabel(f"epsilon ({self.rule.metric})")
        axes.set_ylabel("share of decisions flagged")
        axes.set_xlim(left=0)
        axes.set_ylim(0, 1)
        if path is not None:
            axes.figure.savefig(path)  # type: ignore[union-attr]
        return RatePlot(axes)

    def _repr_html_(self) -> str | None:
        title = f"{len(self):,} decisions, {len(self._sorted):,} with a contradiction in their past"
        steps, rates = self.curve()
        epsilons = [f"{steps[rates > rate][:1].min(initial=math.inf):.6g}" for rate in _SHOWN]
        columns = {
            "flagged at most": [percent(rate) for rate in _SHOWN],
            f"with epsilon below ({self.rule.metric})": epsilons,
        }
        return make_table(title, columns)

    def __str__(self) -> str:
        count = len(self._sorted)
        equal = int(np.searchsorted(self._sorted, 0.0, side="right"))
        lines = [f"{len(self):,} decisions, {count:,} of them with a contradiction in their past"]
        if count:
            lines.append(f"nearest          {self._sorted[0]:.6g}; {equal:,} at distance 0")
        for rate in (0.001, 0.01, 0.1):
            if equal / max(len(self), 1) <= rate < count / max(len(self), 1):
                lines.append(f"{f'{rate:.1%} flagged':<17}epsilon {self.epsilon_for(rate):.6g}")
        return "\n".join(lines)


def _smallest_epsilons(distances: Floats, factor: float) -> Floats:
    """Return the smallest numbers whose computed product with the factor reaches the distances."""
    guess = distances / factor
    while np.any(short := guess * factor < distances):
        guess[short] = np.nextafter(guess[short], np.inf)
    while True:
        lower = np.nextafter(guess, 0.0)
        enough = (guess > 0) & (lower * factor >= distances)
        if not np.any(enough):
            return guess
        guess[enough] = lower[enough]


def calibrate(rule: Rule, x: Any, z: Any = FROM_ROW, *, threads: int | None = None) -> Calibration:
    """Find the nearest contradiction in the past of each decision, for decisions in order.

    With features, x is a table, and epsilon is the factor that multiplies all tolerances. Decisions
    that differ in a column that must match contradict each other at no epsilon, nor do those that
    are farther apart than 1e150 tolerances, the largest epsilon of a rule.

    The rule's own epsilon does not matter. A tree is fast if its unit is near the distances that
    searches find, so the first unit comes from searches within a small sample, later ones from the
    searches themselves (search/indexes/best_index.py).

    threads: how many cores may share the work; all of them by default

    >>> rule = Rule("linf", 1)
    >>> found = calibrate(rule, [[0.0], [0.5], [0.6], [2.0]], ["yes", "no", "yes", "yes"])
    >>> found.rows.tolist(), found.distances.round(3).tolist()
    ([-1, 0, 1, 1], [inf, 0.5, 0.1, 1.5])
    >>> found.rate(0.1), found.rate(0.5), round(found.epsilon_for(0.25), 6)
    (0.25, 0.5, 0.5)
    """
    return _calibrate(rule, x, z, threads, any_output=False)


def calibrate_like_cases(
    rule: Rule, x: Any, z: Any = FROM_ROW, *, threads: int | None = None
) -> Calibration:
    """Find the nearest past decision of each decision, whatever their outputs.

    So `rate(epsilon)` is the share of decisions that a monitor with that epsilon could compare with
    anything. Arguments are those of `calibrate`; outputs are read and do not matter.

    >>> found = calibrate_like_cases(Rule("linf", 1), [[0.0], [0.5], [0.6], [2.0]], ["yes"] * 4)
    >>> found.rows.tolist(), found.rate(0.1), found.rate(0.5)
    ([-1, 0, 1, 2], 0.25, 0.5)
    """
    return _calibrate(rule, x, z, threads, any_output=True)


def _calibrate(rule: Rule, x: Any, z: Any, threads: int | None, *, any_output: bool) -> Calibration:
    """Turn inputs into vectors, and search the nearest: contradiction, or of any output."""
    vector_rule, limit = rule, math.inf
    if isinstance(rule, Rule) and rule.features is not None:
        vector_rule, x, z, limit = _read_table(rule, x, z)
    elif isinstance(rule, Rule) and rule.embed is not None:
        vector_rule, x = replace(rule, embed=None), embed_many(rule, x)
    if any_output:  # each decision gets a number of its own for an output
        vector_rule = replace(
            vector_rule, output="number", delta=0.0, output_metric="linf", favourable=None
        )
        z = np.arange(len(x), dtype=np.float64)
    return replace(_find_nearest(vector_rule, x, z, threads, limit), rule=rule)


def _find_nearest(rule: Rule, x: Any, z: Any, threads: int | None, limit: float) -> Calibration:
    """Find the nearest contradiction of each decision among those nearer than the limit."""
    rule_within = _with_sensible_epsilon(rule, x, z, limit)
    past = assemble_monitor(make_reader(rule_within), make_nearest_engine(rule_within, limit))
    verdicts = past.observe_many(x, z, threads=threads)
    distances = np.full(len(verdicts), np.inf)
    rows = np.full(len(verdicts), -1, dtype=np.int64)
    distances[verdicts.violations] = verdicts.witnesses.input_distances
    rows[verdicts.violations] = verdicts.witnesses.rows
    return Calibration(rule, distances, rows, rule.slack_for(past.explain().storage))


def _read_table(rule: Rule, table: Any, z: Any) -> tuple[Rule, Floats, Any, float]:
    """Read a table as vectors: their rule, they, the outputs, and a limit for distances.

    Rows that differ in a column that must match are farther apart than the limit.
    """
    check_compares_all(rule)
    if rule.protected_must_differ:
        raise BadRule(
            "protected_must_differ is set, and a search for the nearest decision cannot apply that;"
            " set it to false to calibrate"
        )
    if rule.person_column is not None:
        raise BadRule(
            f"column {rule.person_column!r} tells persons apart, and a search for the nearest"
            ' decision cannot leave out pairs; give the column the kind "ignore" to calibrate, and'
            " know that repeated decisions about one person are then compared"
        )
    reader = TableReader(rule)
    batch = reader.read_many(table, z)
    if batch.left_open is not None and batch.left_open.any():
        at = int(np.flatnonzero(batch.left_open.any(axis=1))[0])
        raise BadDecision(
            "a missing value of it matches everything, so it is near decisions that are far from"
            " each other.",
            place=at,
            advice="Calibrate without such rows, or with another `missing`.",
        )
    apart = reader.encoder.must_match_coordinates
    vectors, limit = _set_apart(reader.vector_rule, batch.vectors, apart)
    return reader.vector_rule, vectors, batch.outputs, limit


def _set_apart(plain: Rule, vectors: Floats, apart: list[int]) -> tuple[Floats, float]:
    """Scale the coordinates that must match, so that differences in them exceed a limit.

    The limit is above every other distance here, or above the largest epsilon. Returns the vectors
    and the limit.
    """
    weights = np.array(plain.weights)
    measured = np.ones(len(weights), dtype=np.bool_)
    measured[apart] = False
    with np.errstate(over="ignore"):
        gaps = np.ptp(vectors[:, measured], axis=0) if len(vectors) else np.zeros(0)
        gaps *= np.sqrt(weights[measured]) if plain.metric == "l2" else weights[measured]
        farthest = min(float(gaps.sum()), _EPSILONS[1])  # no metric's distance is above that sum
    limit = 1.5 * max(farthest, 1.0)
    vectors = vectors.copy()
    for j in apart:
        # Codes are whole numbers, and stay exact when they are doubled.
        unit = math.sqrt(weights[j]) if plain.metric == "l2" else weights[j]
        vectors[:, j] *= 2.0 ** max(0, math.ceil(math.log2(2.0 * limit / unit)))
    return vectors, limit


def _with_sensible_epsilon(rule: Rule, x: Any, z: Any, limit: float) -> Rule:
    """Give the rule an epsilon like the nearest distances in a sample of the decisions."""
    try:
        z = sequence_of(z)
        picked = np.unique(np.linspace(0, len(z) - 1, _SAMPLE).astype(np.int64)).tolist()
        sample = to_number_array(x, "the input")[picked]
        outputs = [z[i] for i in picked]
        monitor = assemble_monitor(make_reader(rule), make_nearest_engine(rule, limit))
        verdicts = monitor.observe_many(sample, outputs, threads=1)
    except (LikewiseError, TypeError, ValueError, IndexError, KeyError):
        return rule  # reading all decisions will say what is wrong
    nearest = verdicts.witnesses.input_distances
    nearest = nearest[(nearest >= _EPSILONS[0]) & (nearest <= _EPSILONS[1])]
    return replace(rule, epsilon=float(np.median(nearest))) if len(nearest) else rule
