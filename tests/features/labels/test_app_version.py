"""Spec: each image version has its own normal, and old normals expire."""

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from features.columnar.arrow_columns import Floats
from features.labels.app_version import PERIOD_US, SUPPORT, UNKNOWN, specs, versions
from features.labels.slowdown import label_app
from features.schema.tables import LABELS
from ingest.schema.tables import TIMESTAMP
from tests.features.labelled import windows
from tests.features.rows import at, placements

RNG = np.random.default_rng(8)


def labelled(truth: Floats, pressure: Floats, version: np.ndarray, days: Floats | None = None) -> Floats:
    """Log slowdowns of windows whose latency is 5 ms times the truth."""
    rows = windows(pressure, rt_mean_ms=5 * truth, qps=np.full(len(truth), 50.0))
    if days is not None:
        ends = pa.array((days * 86_400e6).astype(np.int64), LABELS.schema.field("window_end").type)
        rows = rows.set_column(rows.column_names.index("window_end"), "window_end", ends)
    found = label_app(rows, np.zeros(len(truth), np.bool_), version)["log_slowdown"]
    return np.array([np.nan if v is None else v for v in found.to_pylist()])


def test_slow_code_is_no_interference() -> None:
    version = np.repeat([1, 2], 200)
    pressure = RNG.uniform(0, 1, 400)
    slower = np.where(version == 2, 1.5, 1.0)

    apart = labelled(slower * (1 + 0.5 * pressure), pressure, version)
    together = labelled(slower * (1 + 0.5 * pressure), pressure, np.full(400, UNKNOWN))

    assert np.abs(apart - np.log(1 + 0.5 * pressure)).mean() < 0.03
    assert np.abs(together - np.log(1 + 0.5 * pressure)).mean() > 0.1


def test_a_new_version_has_no_label_until_it_has_a_normal_of_its_own() -> None:
    version = np.repeat([1, 2], [300, SUPPORT - 1])
    pressure = RNG.uniform(0, 1, len(version))

    found = labelled(1 + 0.5 * pressure, pressure, version)

    assert np.isfinite(found[version == 1]).all()
    assert np.isnan(found[version == 2]).all()


def test_where_no_version_is_told_all_windows_share_one_normal() -> None:
    pressure = RNG.uniform(0, 1, SUPPORT - 5)

    assert np.isfinite(labelled(1 + 0.5 * pressure, pressure, np.full(SUPPORT - 5, UNKNOWN))).all()
    assert np.isfinite(labelled(1 + 0.5 * pressure, pressure, np.full(SUPPORT - 5, 7))).all()


def test_in_the_first_hours_versions_share_a_normal_for_want_of_any_better() -> None:
    pressure = RNG.uniform(0, 1, SUPPORT)
    version = np.where(np.arange(SUPPORT) % 3 == 0, 2, 1)

    assert np.isfinite(labelled(1 + 0.5 * pressure, pressure, version)).all()


def test_a_normal_expires() -> None:
    days = np.repeat([1.0, 20.0], 200)
    pressure = RNG.uniform(0, 1, 400)
    drifted = np.where(days > 14, 1.4, 1.0)

    found = labelled(drifted * (1 + 0.5 * pressure), pressure, np.full(400, UNKNOWN), days)

    assert np.abs(found - np.log(1 + 0.5 * pressure)).mean() < 0.03


def test_a_fortnight_with_few_windows_borrows_the_others_normal() -> None:
    days = np.repeat([1.0, 20.0], [300, 10])
    pressure = RNG.uniform(0, 1, 310)

    found = labelled(1 + 0.5 * pressure, pressure, np.full(310, UNKNOWN), days)

    assert np.isfinite(found).all()


def test_the_version_of_a_window_is_the_newest_told_before_its_end() -> None:
    ends = [300, 600, 900, 300]
    asked = pa.table(
        {
            "cluster": ["c"] * 4,
            "container": ["a", "a", "a", "b"],
            "window_end": pa.array([at(s) for s in ends], TIMESTAMP),
        }
    )
    told = placements(
        {"container": "a", "image_version": "1"},
        {"container": "a", "image_version": "2", "ts": 500, "event": "change"},
        {"container": "a", "ts": 700, "event": "change"},
    )

    found = versions(asked, told)

    assert found[1] == found[2] != found[0]
    assert found[0] != UNKNOWN
    assert found[3] == UNKNOWN


@given(st.lists(st.tuples(st.integers(-1, 3), st.integers(0, 3)), min_size=1, max_size=300))
def test_a_window_is_told_once_at_most_and_by_a_normal_it_is_part_of(rows: list[tuple[int, int]]) -> None:
    version, period = np.array(rows).T

    parts = specs(version, period * PERIOD_US)

    told = sum((one.astype(int) for one, _ in parts), np.zeros(len(rows), int))
    assert told.max(initial=0) <= 1
    assert all((~one | fitted).all() for one, fitted in parts)
    assert all((told[version == UNKNOWN] == 1).tolist())
    largest = max(np.count_nonzero(version == code) for code in range(4))
    assert largest >= SUPPORT or (told == 1).all()
