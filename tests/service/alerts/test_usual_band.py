"""The band of a rate, beside another way to compute it, and how often it is wrong."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from likewise.reports.totals import wilson_bounds
from likewise.service.alerts.usual_band import BandSettings, RateWindow, conclude, spread


def score_interval(found, of, deviations):
    """Rates p with |found/of - p| <= deviations * sqrt(p (1 - p) / of), by looking for the ends."""
    from scipy.optimize import brentq

    rate = found / of

    def beyond(p):
        return (rate - p) ** 2 - deviations**2 * p * (1 - p) / of

    tiny = 1e-9  # both 0 and a larger rate solve it where nothing was found
    low = 0.0 if rate == 0 else brentq(beyond, 0.0, min(rate, 1 - tiny), xtol=1e-15)
    high = 1.0 if rate == 1 else brentq(beyond, max(rate, tiny), 1.0, xtol=1e-15)
    return low, high


@given(of=st.integers(1, 10**6), share=st.floats(0, 1), deviations=st.floats(0.5, 6))
def test_an_interval_has_the_rates_within_so_many_deviations(of, share, deviations):
    found = round(of * share)
    assert wilson_bounds(found, of, deviations) == pytest.approx(
        score_interval(found, of, deviations), abs=1e-9
    )


@given(counts=st.lists(st.tuples(st.integers(1, 1000), st.floats(0, 1)), min_size=2, max_size=30))
def test_the_spread_is_pearsons(counts):
    of = np.array([n for n, _ in counts])
    found = np.array([round(n * share) for n, share in counts])
    windows = [
        RateWindow(i, int(n), int(k)) for i, (n, k) in enumerate(zip(of, found, strict=True))
    ]
    rate = found.sum() / of.sum()
    if rate in (0.0, 1.0):
        assert spread(windows) == 1.0
        return
    expected = of * rate
    variance = of * rate * (1 - rate)
    assert spread(windows) == pytest.approx(
        max(1.0, ((found - expected) ** 2 / variance).sum() / (len(of) - 1))
    )


def windows_of(rng, count, of, rate, varying=0.0):
    """Windows whose own rates vary by a beta distribution with that share of the most possible."""
    if varying:
        size = 1 / varying - 1
        rates = rng.beta(rate * size, (1 - rate) * size, count)
    else:
        rates = np.full(count, rate)
    return [RateWindow(i, of, k) for i, k in enumerate(rng.binomial(of, rates).tolist())]


@pytest.mark.parametrize("varying", [0.0, 0.002])
@pytest.mark.parametrize(("of", "rate"), [(100, 0.01), (100, 0.1), (5000, 0.01)])
def test_usual_windows_are_rarely_called_unusual(of, rate, varying):
    rng = np.random.default_rng(11)
    wrong = 0
    for _ in range(1000):
        *earlier, window = windows_of(rng, 49, of, rate, varying)
        wrong += conclude(window, earlier, BandSettings()).finding in ("above", "below")
    assert wrong <= 1000 / 200, f"{wrong} of 1000 windows like the others"


def test_a_rate_four_times_as_high_is_called_above():
    rng = np.random.default_rng(5)
    found = []
    for _ in range(200):
        earlier = windows_of(rng, 48, 1000, 0.01)
        window = RateWindow(48, 1000, int(rng.binomial(1000, 0.04)))
        found.append(conclude(window, earlier, BandSettings()).finding)
    assert found.count("above") >= 190
    assert "below" not in found


def test_none_where_there_were_many_is_called_below():
    earlier = [RateWindow(i, 1000, 50) for i in range(24)]
    assert conclude(RateWindow(24, 1000, 0), earlier, BandSettings()).finding == "below"


def test_too_little_is_said_rather_than_guessed():
    band = BandSettings(least_comparable=100, least_windows=12)
    many = [RateWindow(i, 1000, 10) for i in range(12)]
    few = conclude(RateWindow(12, 99, 99), many, band)
    assert few.finding == "cannot be concluded"
    assert few.reason == "99 comparable decisions of at least 100"
    young = conclude(RateWindow(12, 1000, 999), many[1:], band)
    assert young.finding == "cannot be concluded"
    assert young.reason == "11 earlier windows of at least 12"
    assert conclude(RateWindow(12, 100, 99), many, band).finding == "above"


def test_windows_without_comparable_decisions_say_nothing_of_what_is_usual():
    empty = [RateWindow(i) for i in range(100)]
    assert (
        conclude(RateWindow(100, 1000, 500), empty, BandSettings()).finding == "cannot be concluded"
    )
