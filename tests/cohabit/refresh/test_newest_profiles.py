"""A refresher's profiles: those that stand, read again once the table has changed, and the snapshot stays the same."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow.compute as pc
import pytest

from cohabit.refresh.main import NewestProfiles
from features.profiles.app_profile import newest
from features.schema.tables import TABLES
from ingest.lake.tables import Lake
from ingest.simulator.simulate import Plan
from tests.models.lakes import derived_lake

PLAN = Plan(nodes=4, apps=4, per_node=5, hours=3.0, seed=3)
KEY = [("cluster", "ascending"), ("app", "ascending"), ("platform", "ascending"), ("as_of", "ascending")]


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake.open(derived_lake(tmp_path / "lake", PLAN).root, TABLES)


def test_what_stands_is_read_once_and_again_where_the_table_changed(lake: Lake) -> None:
    everything = lake.read("profiles")
    now = pc.max(everything["as_of"]).as_py()
    now_us, profiles = round(now.timestamp() * 1e6), NewestProfiles(lake)

    found = profiles.by(now_us)

    assert found.sort_by(KEY).equals(newest(everything, now_us).sort_by(KEY).combine_chunks())
    assert found.num_rows < everything.num_rows / 2
    assert profiles.by(now_us + 1) is found
    later = everything.filter(pc.equal(everything["as_of"], now))
    at = later.column_names.index("windows")
    lake.replace(
        "profiles",
        now,
        now + timedelta(minutes=1),
        "features",
        later.set_column(at, later.field(at), pc.add(later["windows"], 1.0)),
    )
    assert pc.sum(profiles.by(now_us)["windows"]).as_py() == pc.sum(found["windows"]).as_py() + later.num_rows


def test_a_lake_without_profiles_has_none(tmp_path: Path) -> None:
    profiles = NewestProfiles(Lake.open(tmp_path, TABLES))

    assert profiles.by(round(datetime(2026, 3, 2, tzinfo=UTC).timestamp() * 1e6)).num_rows == 0
