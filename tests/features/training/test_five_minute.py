"""Five-minute windows: means and maxima of the minutes, and how far to trust them."""

import numpy as np
import pytest

from features.contention.node_state import Facts, node_state
from features.profiles.per_app import profiles_of
from features.training.five_minute import contention
from tests.features.rows import at, nodes, placements, usage

FACTS = Facts(nodes({}), placements())


def micros(second: float) -> int:
    return round(at(second).timestamp() * 1e6)


def test_a_window_has_the_mean_and_the_largest_minute() -> None:
    state = node_state(
        usage(
            *({"container": "a", "ts": 60 * m, "cpu_cores": 1.0} for m in (1, 2, 3)),
            *({"container": "b", "ts": 60 * m, "cpu_cores": float(m)} for m in (1, 2, 3)),
        ),
        FACTS,
    )

    a = contention(state, profiles_of(state, np.zeros(0, np.int64))).to_pylist()[0]

    assert (a["window_start"], a["window_end"]) == (at(0), at(300))
    assert a["pressure_cpu"] == pytest.approx(2 / 8)
    assert a["pressure_cpu_max"] == pytest.approx(3 / 8)
    assert (a["minutes"], a["samples"], a["age_s"]) == (3, 3, 120.0)
    assert a["load_of_peak"] is None


def test_load_is_told_as_a_share_of_the_largest_known_before_the_window() -> None:
    state = node_state(
        usage(*({"container": "a", "ts": 60 * m, "qps": 50.0 if m <= 5 else 20.0} for m in range(1, 11))), FACTS
    )
    profiles = profiles_of(state, np.array([micros(300 + 90), micros(600 + 90)]))

    early = contention(state, profiles).to_pylist()
    known = contention(state, profiles_of(state, np.array([micros(300)]))).to_pylist()

    assert [row["load_of_peak"] for row in early] == [None, None]
    assert [row["load_of_peak"] for row in known] == [None, pytest.approx(0.4)]


def test_no_rows_give_no_windows() -> None:
    state = node_state(usage(), FACTS)

    assert contention(state, profiles_of(state, np.zeros(0, np.int64))).num_rows == 0
