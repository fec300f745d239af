"""Offers: never more than a node has, and less where more is used."""

import numpy as np
import pytest

from benchmarks.best_effort.compared_offers import BATCH_USAGE, N_SIGMA, OURS, TRAINED, Offers, offers_of
from cohabit.backtest.world import NODE_CORES, platforms_of
from ingest.simulator.law import Floats
from models.headroom.peak_features import DAY

NODES, BINS = 8, TRAINED + 60


def drawn_use(seed: int) -> Floats:
    """Use that rises and falls over the day, with noise."""
    rng = np.random.default_rng(seed)
    time = np.arange(BINS) / DAY
    level = rng.uniform(0.1, 0.5, (NODES, 1))
    return np.clip(
        level * (1 + 0.4 * np.sin(2 * np.pi * (4 * time + level))) + rng.normal(0, 0.02, (NODES, BINS)), 0, 1
    )


@pytest.fixture(scope="module")
def use() -> Floats:
    return drawn_use(1)


@pytest.fixture(scope="module")
def offers(use: Floats) -> Offers:
    return offers_of(use, fit_until=TRAINED)


def test_offers_are_between_nothing_and_what_nodes_have(offers: Offers) -> None:
    assert set(offers.cores) == {OURS, BATCH_USAGE, N_SIGMA}
    for cores in offers.cores.values():
        assert (cores >= 0).all()
        assert (cores <= NODE_CORES[platforms_of(NODES)][:, None]).all()


def test_every_method_offers_something_once_it_is_trained(offers: Offers) -> None:
    for name, cores in offers.cores.items():
        assert (cores[:, TRAINED:] > 0).mean() > 0.5, name
    assert 0 < offers.exceeded[OURS] < 0.3


def test_where_nothing_is_forecast_nothing_is_compared(use: Floats) -> None:
    with pytest.raises(ValueError, match="nothing is forecast"):
        offers_of(use, fit_until=2 * DAY)


def test_koordinator_offers_sixty_percent_less_what_is_used_now(use: Floats, offers: Offers) -> None:
    expected = np.maximum(0.6 - use, 0.0) * NODE_CORES[platforms_of(NODES)][:, None]
    assert offers.cores[BATCH_USAGE] == pytest.approx(expected)


def test_what_comes_later_changes_no_offer(use: Floats, offers: Offers) -> None:
    now = TRAINED + 40
    later = use.copy()
    later[:, now:] = 0.9

    before, after = offers.cores, offers_of(later, fit_until=TRAINED).cores

    for name in before:
        assert before[name][:, :now].tolist() == after[name][:, :now].tolist()
