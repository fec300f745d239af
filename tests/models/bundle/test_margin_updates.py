"""Follow: stretches by tier and platform go on where they stopped, and a bundle keeps them."""

from datetime import UTC, datetime

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from models.bundle.manifest import EntryMargins, Followed, Stretch
from models.bundle.margin_updates import NAMES, TIERS, follow, needed, tracking_key, where_stretches_stand
from models.bundle.margins import Margins

BEFORE = EntryMargins(level=0.9, floor=0.1, seen=1.0, unseen=2.0, cold=3.0)
THEN = datetime(2026, 3, 1, tzinfo=UTC)
PLATFORMS = ("epyc", "xeon")


def told(stretches: tuple[Stretch, ...]) -> EntryMargins:
    return BEFORE.model_copy(update={"followed": Followed(until=THEN, stretches=stretches)})


def test_every_tier_has_its_name() -> None:
    assert [NAMES[t] for t in (Margins.COLD, Margins.UNSEEN, Margins.STARTED, Margins.OWN)] == list(NAMES)
    assert len(NAMES) == TIERS


def test_misses_stretch_only_the_tier_and_platform_they_happened_on() -> None:
    key = tracking_key(np.full(5, Margins.OWN, np.int8), np.ones(5, np.int64))

    (moved,) = follow(BEFORE, PLATFORMS, key, np.full(5, 3.0), np.arange(5))

    assert (moved.tier, moved.platform, moved.labels) == ("own", "xeon", 5)
    assert moved.log_stretch > 0
    state = where_stretches_stand(told((moved,)), PLATFORMS)
    assert np.flatnonzero(state.log_stretch).tolist() == [TIERS + Margins.OWN]


def test_a_platform_that_is_asked_in_another_order_keeps_its_stretch() -> None:
    margins = told((Stretch(tier="cold", platform="xeon", log_stretch=0.3, labels=7),))

    state = where_stretches_stand(margins, ("xeon", "newer"))

    assert state.log_stretch.tolist() == [0.3, *[0.0] * (2 * TIERS - 1)]


def test_a_margin_of_nothing_cannot_be_missed() -> None:
    assert np.isnan(needed(np.array([0.2]), np.zeros(1))).all()


def arrays(values: list[tuple[int, int, float]]) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.int64]]:
    time, key, score = (list(column) for column in zip(*values, strict=True)) if values else ([], [], [])
    return np.array(key, np.int64), np.array(score, np.float64), np.array(time, np.int64)


labels = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 2 * TIERS - 1), st.floats(0, 3)), min_size=1, max_size=60)


@given(labels, st.integers(0, 9))
def test_following_today_and_then_tomorrow_is_following_both(values: list[tuple[int, int, float]], noon: int) -> None:
    key, scores, time = arrays(values)
    early = time < noon

    at_once = follow(BEFORE, PLATFORMS, key, scores, time)
    first = told(follow(BEFORE, PLATFORMS, key[early], scores[early], time[early]))
    then = follow(first, PLATFORMS, key[~early], scores[~early], time[~early])

    assert [(s.tier, s.platform, s.labels) for s in then] == [(s.tier, s.platform, s.labels) for s in at_once]
    assert [s.log_stretch for s in then] == pytest.approx([s.log_stretch for s in at_once], abs=1e-9)


def test_a_bundle_may_not_tell_two_stretches_of_one_kind() -> None:
    one = Stretch(tier="own", platform="xeon", log_stretch=0.1, labels=1)

    with pytest.raises(ValueError, match="one stretch"):
        Followed(until=THEN, stretches=(one, one))
