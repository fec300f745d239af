"""By which order what neighbours do adds up, as labels tell it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from features.schema.catalog import ORDERS
from models.forms.co_runner_choice import BELOW, Choice
from models.training.fit_choice import fit_choice

Floats = NDArray[np.float64]
APPS, ROWS = 20, 60


def drawn(
    order: int, *, knee: float = 0.0, noise: float = 0.05, seed: int = 3
) -> tuple[Floats, Floats, NDArray[np.int64]]:
    """Harm by each order, labels of apps that each suffer by another factor, and whose rows they are."""
    rng = np.random.default_rng(seed)
    app = np.repeat(np.arange(APPS), ROWS)
    by_neighbour = rng.gamma(0.5, 0.3, (len(app), 5))
    together = np.column_stack([(by_neighbour**p).sum(axis=1) ** (1 / p) for p in ORDERS])
    factor = rng.uniform(0.3, 1.5, APPS)[app]
    suffered = np.maximum(together[:, ORDERS.index(order)] - knee, 0.0)
    label = np.log1p(factor * suffered) + noise * rng.normal(size=len(app))
    return together, label, app


@pytest.mark.parametrize("order", [2, 4])
def test_the_order_that_holds_is_found_though_apps_differ_in_how_much_they_suffer(order: int) -> None:
    together, label, app = drawn(order)

    found = fit_choice(together, label, np.ones(len(app)), app)

    assert found is not None
    assert (found.order, found.knee) == (order, 0.0)
    assert 0.5 < found.weight < 1.3


def test_where_harm_adds_up_the_base_remains() -> None:
    together, label, app = drawn(1)

    assert fit_choice(together, label, np.ones(len(app)), app) is None


@pytest.mark.parametrize("knee", [0.3, 0.8])
def test_a_knee_is_found_where_slowing_down_begins_late(knee: float) -> None:
    together, label, app = drawn(1, knee=knee)

    found = fit_choice(together, label, np.ones(len(app)), app)

    assert found is not None
    assert found.order == 1
    assert found.knee == pytest.approx(knee, abs=0.15)


def test_where_labels_tell_no_order_the_base_remains() -> None:
    together, label, app = drawn(4)

    assert fit_choice(together, np.random.default_rng(0).normal(size=len(label)), np.ones(len(app)), app) is None


def test_few_rows_tell_no_order() -> None:
    together, label, app = drawn(4)
    few, sets = np.arange(len(app)) % ROWS < 20, app < 5

    for chosen in (few, sets):
        assert fit_choice(together[chosen], label[chosen], np.ones(chosen.sum()), app[chosen]) is None
    assert fit_choice(np.full_like(together, np.nan), label, np.ones(len(app)), app) is None


def test_the_order_of_rows_changes_nothing() -> None:
    together, label, app = drawn(4)
    shuffled = np.random.default_rng(1).permutation(len(app))

    found = fit_choice(together, label, np.ones(len(app)), app)
    other = fit_choice(together[shuffled], label[shuffled], np.ones(len(app)), app[shuffled])

    assert found is not None
    assert other is not None
    assert (other.order, other.knee) == (found.order, found.knee)
    assert other.weight == pytest.approx(found.weight, rel=1e-6)


def test_nodes_are_compared_by_the_harm_of_that_order_and_what_is_not_known_is_not_told() -> None:
    together = np.array([[0.4, 0.3, 0.2], [np.nan, np.nan, np.nan]])

    assert Choice(4, 0.5).log_slowdown(together) == pytest.approx([np.log(1.1), np.nan], nan_ok=True)


@given(st.lists(st.floats(0, 10), min_size=2, max_size=20), st.floats(0, 2), st.floats(0.01, 3))
def test_more_harm_never_compares_better_and_below_the_knee_little_is_told(
    harms: list[float], knee: float, weight: float
) -> None:
    harm = np.sort(np.array(harms))
    together = np.column_stack([harm] * len(ORDERS))

    told = Choice(1, weight, knee).log_slowdown(together)

    assert (np.diff(told) >= 0).all()
    assert (told <= Choice(1, weight).log_slowdown(together)).all()
    assert (told[harm <= knee] <= np.log1p(weight * BELOW * knee) + 1e-12).all()
