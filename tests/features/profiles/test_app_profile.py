"""Profiles: whose team an app is, as last told by each time, and which of them still tell something."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from features.contention.node_state import Facts, node_state
from features.profiles.app_profile import newest
from features.profiles.cold_start_prior import expected
from features.profiles.per_app import profiles_of
from features.profiles.sensitivity import MIN_WINDOWS
from features.schema.catalog import NAMES
from features.schema.tables import PROFILES
from features.training.residents import newest_profile
from tests.features.rows import at, nodes, placements, usage


def teams(told: Sequence[tuple[int, str, str | None]], *seconds: int) -> list[tuple[str, str | None]]:
    """Platform and team of each profile at some times, of an app whose minutes at (second, node) told a team."""
    rows: list[dict[str, object]] = [
        {"node": node, "app": "web", "team": team, "ts": second} for second, node, team in told
    ]
    facts = Facts(nodes({"node": "n0", "platform": "p"}, {"node": "n1", "platform": "q"}), placements())
    times = np.array([round(at(s).timestamp() * 1e6) for s in seconds])
    found: pa.Table = profiles_of(node_state(usage(*rows), facts), times)
    ordered = found.sort_by([("as_of", "ascending"), ("platform", "ascending")])
    return list(zip(ordered["platform"].to_pylist(), ordered["team"].to_pylist(), strict=True))


def test_a_team_is_the_one_told_last_by_then() -> None:
    assert teams([(30, "n0", "red"), (630, "n0", "blue")], 300, 900) == [("p", "red"), ("p", "blue")]


def test_a_team_told_on_one_platform_is_known_on_all() -> None:
    assert teams([(30, "n0", None), (90, "n1", "red")], 900) == [("p", "red"), ("q", "red")]


def test_a_minute_that_tells_no_team_takes_none_away() -> None:
    assert teams([(30, "n0", "red"), (630, "n0", None)], 900) == [("p", "red")]
    assert teams([(30, "n0", None)], 900) == [("p", None)]


@pytest.mark.parametrize(
    ("signals", "kind"),
    [
        ({"rt_mean_ms": 5.0, "qps": 50.0}, "latency"),
        ({"psi_cpu_some_frac": 0.02}, "waiting"),
        ({"psi_cpu_some_frac": 0.02, "rt_mean_ms": 5.0, "qps": 50.0}, "latency"),
        ({}, None),
    ],
)
def test_a_profile_says_what_its_sensitivities_were_learnt_from(signals: dict[str, float], kind: str | None) -> None:
    minutes = range(30, 60 * 5 * (MIN_WINDOWS + 2), 60)
    facts = Facts(nodes({"platform": "p"}), placements())
    rows: list[dict[str, object]] = [{"container": "a", "cpu_cores": 0.5, "ts": ts, **signals} for ts in minutes]
    times = np.array([round(at(s).timestamp() * 1e6) for s in (60 * 10, minutes[-1] + 60)])

    early, late = profiles_of(node_state(usage(*rows), facts), times)["kind"].to_pylist()

    assert (early, late) == (None, kind)


@st.composite
def histories(draw: st.DrawFn) -> pa.Table:
    """Profiles of few apps on few platforms, each at some of few times."""
    keys = st.tuples(st.sampled_from("ab"), st.sampled_from("pq"), st.integers(0, 5))
    rows = draw(st.lists(keys, min_size=1, max_size=20, unique=True))
    told = [
        {
            **dict.fromkeys(PROFILES.schema.names),
            "cluster": "c", "app": app, "platform": platform, "as_of": hour * 1_800_000_000, "windows": 1.0,
            "team": draw(st.sampled_from([None, "red", "blue"])),
            **{f"demand_{name}": draw(st.floats(0, 1)) for name in NAMES},
        }
        for app, platform, hour in rows
    ]  # fmt: skip
    return pa.Table.from_pylist(told, PROFILES.schema)


@given(histories(), st.integers(-1, 6), st.integers(0, 6))
def test_what_is_older_than_the_newest_tells_nothing_any_more(history: pa.Table, now: int, later: int) -> None:
    """From a time on the newest profiles say what all of them say, of themselves and of their kin."""
    now_us, kept = now * 1_800_000_000, newest(history, now * 1_800_000_000)
    pairs = [("a", "p"), ("a", "q"), ("b", "p"), (None, "q")]
    keys = pa.table(
        {
            "cluster": ["c"] * len(pairs),
            "app": pa.array([app for app, _ in pairs], pa.string()),
            "team": pa.array(["red"] * len(pairs), pa.string()),
            "platform": [platform for _, platform in pairs],
        }
    )
    time_us = np.full(len(pairs), now_us + later * 1_800_000_000)

    assert kept.num_rows <= history.num_rows
    assert newest_profile(keys, time_us, kept).equals(newest_profile(keys, time_us, history))
    np.testing.assert_array_equal(expected(keys, time_us, kept), expected(keys, time_us, history))


def test_of_a_long_history_one_row_is_kept_for_each_app_and_platform() -> None:
    rows = [
        {"cluster": "c", "app": app, "platform": "p", "as_of": hour * 1_800_000_000, "windows": 1.0}
        for app in "ab"
        for hour in range(1000)
    ]
    history = pa.Table.from_pylist([{**dict.fromkeys(PROFILES.schema.names), **row} for row in rows], PROFILES.schema)

    assert newest(history, 999 * 1_800_000_000).num_rows == 2
    assert newest(history, 997 * 1_800_000_000).num_rows == 6
