"""Antagonists: whose use goes along with a container's suffering."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from features.contention.correlation import antagonists, pairwise_correlation
from features.contention.node_state import Facts, node_state
from tests.features.rows import nodes, placements, usage


def test_the_neighbour_that_goes_along_is_named_first_with_its_resource() -> None:
    wave = [1.0 + (m % 5) for m in range(30)]
    rows = [
        row
        for m in range(30)
        for row in (
            {"container": "victim", "ts": 60 * (m + 1), "cpi": 1.0 + 0.2 * wave[m], "cpu_cores": 1.0},
            {"container": "loud", "ts": 60 * (m + 1), "memory_bytes": 1e8 * wave[m], "cpu_cores": 1.0},
            {"container": "quiet", "ts": 60 * (m + 1), "memory_bytes": 1e8 * (m % 7), "cpu_cores": 2.0},
        )
    ]

    found = antagonists(node_state(usage(*rows), Facts(nodes({}), placements()))).to_pylist()

    first = next(row for row in found if row["container"] == "victim" and row["rank"] == 1)
    assert (first["antagonist"], first["resource"], first["signal"], first["minutes"]) == ("loud", "memory", "cpi", 30)
    assert first["correlation"] == pytest.approx(1.0)
    assert not any(row["container"] == row["antagonist"] for row in found)


def test_fewer_than_ten_common_minutes_say_nothing() -> None:
    rows = [{"container": c, "ts": 60 * (m + 1), "cpi": 1.0 + m, "cpu_cores": 1.0 + m} for c in "ab" for m in range(9)]

    assert antagonists(node_state(usage(*rows), Facts(nodes({}), placements()))).num_rows == 0


@given(seed=st.integers(0, 300), gaps=st.sampled_from([0.0, 0.2, 0.6]))
def test_matrix_products_give_what_a_loop_over_pairs_does(seed: int, gaps: float) -> None:
    rng = np.random.default_rng(seed)
    signal, uses = rng.gamma(1, 1, (20, 4)), 1e9 * rng.gamma(1, 1, (20, 4, 2))
    signal[rng.random(signal.shape) < gaps] = np.nan
    uses[rng.random(uses.shape) < gaps] = np.nan

    found, minutes = pairwise_correlation(signal, uses)

    for i, j, r in np.ndindex(4, 4, 2):
        both = np.isfinite(signal[:, i]) & np.isfinite(uses[:, j, r])
        assert minutes[i, j, r] == both.sum()
        if both.sum() >= 3:
            expected = np.corrcoef(signal[both, i], uses[both, j, r])[0, 1]
            assert found[i, j, r] == pytest.approx(expected, abs=1e-9)
