"""The growing site of the demo: what is metered is what runs, more of it from week to week."""

from datetime import UTC, date, datetime

import numpy as np
import pytest

from cohabit.capacity.demand_series import DemandSeries, demand_series
from cohabit.capacity.growing_site import APPS, CLUSTER, write_growing_site
from cohabit.capacity.headroom import newest_measured
from cohabit.capacity.purchases.purchase_start import PurchaseStart, purchase_start
from features.schema.tables import TABLES
from ingest.lake.tables import Lake

END, WEEKS = datetime(2026, 12, 1, 15, tzinfo=UTC), 4


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    lake = Lake.open(tmp_path_factory.mktemp("growing") / "lake", TABLES)
    write_growing_site(lake, END, WEEKS)
    return lake


@pytest.fixture(scope="module")
def past(lake: Lake) -> DemandSeries:
    return demand_series(lake, CLUSTER, 365, "app")


@pytest.fixture(scope="module")
def start(lake: Lake) -> PurchaseStart:
    return purchase_start(lake, CLUSTER, END, [date(2027, 1, 1)], np.ones((1, 1)))


def test_every_hour_of_every_pool_is_known_and_demand_grows(past: DemandSeries) -> None:
    assert len(past.hours_us) == WEEKS * 168
    assert np.isfinite(past.requests).all()
    weekly = past.requests.sum(axis=0).reshape(WEEKS, 168).max(axis=1)
    assert weekly[-1] > weekly[0]
    assert set(past.capacity) == {(f"std@{zone}", name) for zone in "abc" for name in ("cpu", "memory")}


def test_pods_of_the_newest_minute_request_what_was_metered_last(past: DemandSeries, start: PurchaseStart) -> None:
    cores = sum(row[3] * row[8] for row in start.rows["demand.csv"]) / 1_000  # type: ignore[operator]
    metered = sum(past.requests[row, -1] for row, key in enumerate(past.keys) if key[2] == "cpu")

    assert cores == pytest.approx(metered, rel=0.01)
    assert (start.by_use, start.unknown, start.unknown_nodes) == (0, 0, 0)


def test_the_newest_measured_minute_ends_with_the_last_hour(lake: Lake) -> None:
    assert newest_measured(lake, CLUSTER) == END


def test_apps_of_shapes_are_all_pods(start: PurchaseStart) -> None:
    pods = {name: sum(int(str(row[2])) for row in start.rows["apps.csv"] if row[1] == name) for name in
            (app.name for app in APPS)}  # fmt: skip

    assert sum(pods.values()) == start.pods
    assert min(pods.values()) > 0
