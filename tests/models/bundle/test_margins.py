"""Margins: which multiplier an app gets, and that a bundle keeps it."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.bundle.manifest import ModelEntry
from models.bundle.margins import Margins, earned, margins_entry, margins_of, without_apps
from models.calibration.conformal import Calibration

CALIBRATION = Calibration(0.9, 1.0, 2.0, 3.0, rows=10, groups=2, node_windows=5)
MARGINS = Margins(
    level=0.9,
    floor=0.1,
    seen=1.0,
    unseen=2.0,
    cold=3.0,
    group=np.array([2, 5]),
    own=np.array([0.5, 4.0]),
    windows=np.array([150.0, 50.0]),
)


def test_apps_earn_their_own_margin_window_by_window() -> None:
    own, windows = np.array([0.5, 0.5, 1.4, 0.5, 1.4]), np.array([19.0, 20.0, 99.0, 100.0, 1000.0])

    served = earned(own, windows, seen=1.0, unseen=2.0)

    assert served.tolist() == [2.0, 1.0, 1.4, 0.5, 1.4]


@given(st.floats(0, 5), st.floats(0, 5), st.floats(0, 5))
def test_between_few_and_enough_windows_nobody_is_bounded_closer_than_apps_in_general(
    own: float, seen: float, unseen: float
) -> None:
    assert earned(np.array([own]), np.array([60.0]), seen=seen, unseen=unseen)[0] >= max(own, seen)


def test_a_row_is_bounded_by_what_is_known_of_its_app() -> None:
    group, profiled = np.array([2, 5, 7, 2, 5]), np.array([True, True, True, False, False])

    assert MARGINS.multipliers(group, profiled).tolist() == [0.5, 4.0, 2.0, 3.0, 4.0]
    tiers = [Margins.OWN, Margins.STARTED, Margins.UNSEEN, Margins.COLD, Margins.COLD]
    assert MARGINS.tier(group, profiled).tolist() == tiers


def test_without_own_margins_every_profiled_app_is_unseen() -> None:
    nobody = replace(MARGINS, group=np.zeros(0, np.int64), own=np.zeros(0), windows=np.zeros(0))

    assert nobody.multipliers(np.array([0, 2]), np.array([True, False])).tolist() == [2.0, 3.0]
    assert nobody.tier(np.array([2]), np.array([True])).tolist() == [Margins.UNSEEN]


def test_a_bundle_keeps_margins_by_the_name_of_the_app() -> None:
    names = [("c", f"app-{i}") for i in range(8)]
    entry = ModelEntry(
        files={"mean": "m.onnx", "spread": "s.onnx"},
        features=(),
        signs=(),
        medians={},
        calibration=CALIBRATION,
        margins=margins_entry(MARGINS, names),
    )
    again = ModelEntry.model_validate_json(entry.model_dump_json())

    served = margins_of(again, "c", ["app-5", "never-seen", "app-2"])

    everyone = np.ones(3, np.bool_)
    assert served.multipliers(np.arange(3), everyone).tolist() == [4.0, 2.0, 0.5]
    assert margins_of(again, "other", ["app-5"]).multipliers(np.zeros(1, int), everyone[:1]).tolist() == [2.0]
    assert (served.floor, served.level) == (0.1, 0.9)


def test_a_model_without_margins_is_bounded_as_calibrated() -> None:
    old = without_apps(CALIBRATION)

    assert old.floor == 0.0
    assert old.multipliers(np.array([1, 1]), np.array([True, False])).tolist() == pytest.approx([2.0, 2.0])
