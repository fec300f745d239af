"""Pressure of all resources: it rises with whatever a neighbour uses, and asks nobody's own use."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from features.contention.pressure import PRESSURE_COLUMNS, Members, pressures
from features.schema.catalog import NAMES
from ingest.schema.cpuset import cores_of, membership

CORES = 4
CAPACITY = np.array([CORES, 1e7, 1e10, 1e9, 1e8, 1e4, 1e9, 8.0, 1e11, 1e10])


def home(seed: int, *, gaps: float, pins: float) -> Members:
    """Some containers on two nodes."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 9))
    use = rng.uniform(0, 0.5, (n, len(NAMES))) * CAPACITY
    use[rng.random(use.shape) < gaps] = np.nan
    sets = [str(rng.integers(CORES)) if rng.random() < pins else None for _ in range(n)]
    return Members(rng.integers(0, 2, n), use, np.tile(CAPACITY, (n, 1)), rng.random(n) < 0.5, sets)


@given(seed=st.integers(0, 10**6), gaps=st.sampled_from([0.0, 0.3]), pins=st.sampled_from([0.0, 0.5]))
def test_pressure_never_falls_when_a_neighbour_uses_more(seed: int, gaps: float, pins: float) -> None:
    members = home(seed, gaps=gaps, pins=pins)
    more = members.use.copy()
    more[0] *= 1.7

    before = pressures(members)
    after = pressures(Members(members.group, more, members.capacity, members.best_effort, members.cpuset))

    beside = np.flatnonzero(members.group == members.group[0])[1:]
    apart = members.group != members.group[0]
    assert (np.nan_to_num(after[beside] - before[beside]) >= -1e-12).all()
    np.testing.assert_array_equal(after[apart], before[apart])
    np.testing.assert_allclose(after[0], before[0], rtol=1e-9, atol=1e-12)


@given(seed=st.integers(0, 10**6), pins=st.sampled_from([0.0, 0.5]))
def test_pressure_never_falls_when_a_measured_neighbour_joins_measured_ones(seed: int, pins: float) -> None:
    full = home(seed, gaps=0.0, pins=pins)
    keep = list(range(len(full.group) - 1))
    fewer = Members(
        full.group[keep], full.use[keep], full.capacity[keep], full.best_effort[keep], [full.cpuset[i] for i in keep]
    )

    before, after = pressures(fewer), pressures(full)[keep]

    assert (after - before >= -1e-12).all()


def test_what_neighbours_use_is_a_share_of_the_node() -> None:
    use = np.tile(CAPACITY, (3, 1)) * np.array([[0.1], [0.2], [0.4]])
    members = Members(np.zeros(3, np.int64), use, np.tile(CAPACITY, (3, 1)), np.array([True, False, True]), [None] * 3)

    first = dict(zip(PRESSURE_COLUMNS, pressures(members)[0], strict=True))

    assert first == pytest.approx(
        {f"pressure_{n}": 0.6 for n in NAMES}
        | {"pressure_cpu_elsewhere": 0.0, "neighbours": 2.0, "neighbours_be": 1.0, "max_neighbour_cpu": 0.4}
    )


@given(cores=st.sets(st.integers(0, 40), min_size=1))
def test_a_cpuset_list_reads_back(cores: set[int]) -> None:
    ordered = sorted(cores)
    starts = [c for c in ordered if c - 1 not in cores]
    ends = [c for c in ordered if c + 1 not in cores]
    text = ",".join(str(a) if a == b else f"{a}-{b}" for a, b in zip(starts, ends, strict=True))

    assert cores_of(text) == tuple(ordered)
    expected = cores & set(range(8)) or set(range(8))
    assert set(np.flatnonzero(membership([text], 8)[0]).tolist()) == expected
