"""Cells: the fewest nodes on which nobody is worse off, by hand."""

from collections.abc import Callable

import numpy as np
import pytest

from cohabit.backtest.closed_loop import Tally
from cohabit.backtest.scenario_cells import smallest, sufficient

WHOLE = Tally(violation_minutes=100.0, pending_minutes=5.0)


def needs(nodes: int, *, asked: list[int] | None = None) -> Callable[[int], Tally]:
    """A policy that needs so many nodes."""

    def attempt(count: int) -> Tally:
        if asked is not None:
            asked.append(count)
        return Tally(violation_minutes=100.0 if count >= nodes else 101.0, pending_minutes=5.0)

    return attempt


@pytest.mark.parametrize("nodes", [66, 67, 70, 77, 99, 100])
def test_the_fewest_nodes_are_found_by_halving(nodes: int) -> None:
    asked: list[int] = []

    assert smallest(needs(nodes, asked=asked), WHOLE, 100) == nodes / 100
    assert len(asked) <= 7


def test_where_all_nodes_are_not_enough_no_share_is_told() -> None:
    assert np.isnan(smallest(needs(101), WHOLE, 100))


def test_who_waits_longer_does_not_fit() -> None:
    assert np.isnan(smallest(lambda _: Tally(violation_minutes=1.0, pending_minutes=10.0), WHOLE, 100))


def test_nine_draws_in_ten_must_be_sufficient() -> None:
    eleven = {draw: 0.70 + draw / 100 for draw in range(11)}

    assert sufficient(eleven) == pytest.approx(0.79), "of eleven the second largest"
    assert np.isnan(sufficient(eleven | {0: np.nan, 1: np.nan})), "two that do not fit at all are too many"
    assert sufficient(eleven | {0: np.nan}) == pytest.approx(0.80)
    assert np.isnan(sufficient({}))
