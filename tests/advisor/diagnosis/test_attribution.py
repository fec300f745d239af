"""Blame: who moved with the victim's slowdown is blamed, as sure as that can be, and whatever order all stand in."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.diagnosis.attribution import (
    DOUBLING,
    LEAST_SENSITIVITY,
    LEVEL,
    MISJUDGED,
    NOISE,
    SCALES,
    UNTOLD,
    attribute,
)
from advisor.errors import AdvisorError

SENSITIVE = np.array([0.8, 0.0, 0.4])


def drawn(seed: int, *, windows: int = 18, neighbours: int = 6) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Neighbours of whom the first is loud in the last five windows, and what the victim suffers by them."""
    rng = np.random.default_rng(seed)
    use = 0.1 * rng.random((windows, neighbours, 3))
    use[-5:, 0] += rng.uniform(0.5, 0.8)
    use[: windows - 5, 0] = 0.0
    excess = (use * SENSITIVE).sum(axis=(1, 2)) + NOISE * rng.standard_normal(windows)
    return excess, use, np.arange(windows) >= windows - 5


@pytest.mark.parametrize("seed", range(8))
def test_who_came_when_it_began_and_uses_what_hurts_is_blamed(seed: int) -> None:
    excess, use, bad = drawn(seed)

    of = attribute(excess, use, SENSITIVE, bad)

    assert int(np.argmax(of.added)) == 0
    assert of.surely[0] > 0.95
    assert of.added[0] == pytest.approx((use[bad, 0] @ SENSITIVE).mean(), abs=0.1)
    assert int(np.argmax(of.by_resource[0])) == 0


def test_two_who_always_do_the_same_cannot_be_told_apart() -> None:
    excess, use, bad = drawn(1)
    use[:, 1] = use[:, 0] = use[:, 0] / 2

    of = attribute(excess, use, SENSITIVE, bad)

    assert of.added[0] == pytest.approx(of.added[1])
    assert of.surely[0] == pytest.approx(0.5)


def test_who_was_as_loud_when_nothing_was_wrong_is_blamed_less() -> None:
    excess, use, bad = drawn(2)
    use[:, 1] = 0.6

    of = attribute(excess, use, SENSITIVE, bad)

    assert of.added[0] > of.added[1]
    assert of.surely[0] > 0.8


def test_a_sensitivity_that_is_not_known_is_learnt_from_what_is_seen() -> None:
    excess, use, bad = drawn(3)

    of = attribute(excess, use, np.full(3, np.nan), bad)

    assert int(np.argmax(of.added)) == 0
    assert of.added[0] > 0.1


def test_without_neighbours_there_is_nobody_to_blame() -> None:
    of = attribute(np.full(4, 0.5), np.zeros((4, 0, 3)), SENSITIVE, np.ones(4, np.bool_))

    assert not len(of.added)
    assert of.excess == 0.5


def test_who_was_not_there_adds_nothing_for_sure() -> None:
    excess, use, bad = drawn(4)
    use[bad, 3] = 0.0

    of = attribute(excess, use, SENSITIVE, bad)

    assert of.added[3] == of.spread[3] == 0.0
    assert of.surely[3] < 0.5


@given(seed=st.integers(0, 1000))
@settings(max_examples=30, deadline=None)
def test_order_makes_no_difference_and_parts_add_up(seed: int) -> None:
    excess, use, bad = drawn(seed)
    rng = np.random.default_rng(seed)
    rows, columns = rng.permutation(len(excess)), rng.permutation(use.shape[1])

    one = attribute(excess, use, SENSITIVE, bad)
    other = attribute(excess[rows], use[rows][:, columns], SENSITIVE, bad[rows])

    np.testing.assert_allclose(one.added[columns], other.added, atol=1e-9)
    np.testing.assert_allclose(one.surely[columns], other.surely, atol=1e-9)
    np.testing.assert_allclose(one.by_resource.sum(axis=1), one.added, atol=1e-12)
    assert ((one.surely >= 0) & (one.surely <= 1)).all()
    assert (one.surely > 0.5).sum() <= 1


@given(seed=st.integers(0, 1000))
@settings(max_examples=30, deadline=None)
def test_contributions_are_those_of_a_regression_with_that_prior(seed: int) -> None:
    """The same by weights of each neighbour's every resource, solved the long way, at the likeliest scale."""
    excess, use, bad = drawn(seed, windows=7, neighbours=3)
    columns = np.column_stack([use.reshape(7, 9), np.ones(7)])
    noise = np.diag((NOISE * np.maximum(1.0 + excess, 1.0)) ** 2)

    def regression(scale: float) -> tuple[float, np.ndarray]:
        centre, prior = np.append(np.tile(scale * SENSITIVE, 3), 0.0), np.zeros((10, 10))
        likely = scale * np.maximum(SENSITIVE, LEAST_SENSITIVITY)
        shared = np.kron(np.ones((3, 3)), np.diag((MISJUDGED * likely) ** 2))
        prior[:9, :9] = shared + np.kron(np.eye(3), np.diag((UNTOLD * likely) ** 2))
        prior[9, 9] = LEVEL**2
        told, rest = columns @ prior @ columns.T + noise, excess - columns @ centre
        likelihood = -0.5 * (rest @ np.linalg.inv(told) @ rest + np.log(np.linalg.det(told)))
        precision = np.linalg.inv(prior) + columns.T @ np.linalg.inv(noise) @ columns
        weights = centre + np.linalg.solve(precision, columns.T @ np.linalg.inv(noise) @ rest)
        return likelihood - DOUBLING * np.log2(scale) ** 2, weights

    _, weights = max((regression(scale) for scale in SCALES), key=lambda pair: pair[0])

    of = attribute(excess, use, SENSITIVE, bad)

    expected = (use[bad].mean(axis=0) * weights[:9].reshape(3, 3)).sum(axis=1)
    np.testing.assert_allclose(of.added, expected, rtol=1e-6, atol=1e-8)
    assert of.level == pytest.approx(weights[9], rel=1e-6, abs=1e-8)


@pytest.mark.parametrize("spoilt", ["shape", "nothing bad"])
def test_what_cannot_be_explained_is_refused(spoilt: str) -> None:
    excess, use, bad = drawn(1)

    with pytest.raises(AdvisorError, match="invalid attribution input"):
        attribute(excess, use[:, :, :2] if spoilt == "shape" else use, SENSITIVE, bad & (spoilt == "shape"))
