"""A refresher's profiles: those that stand, read again once the table has changed, and the snapshot stays the same."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import monotonic

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from cohabit.refresh import main
from cohabit.refresh.main import NewestProfiles
from features.profiles.app_profile import newest
from features.schema.tables import PROFILES, TABLES
from ingest.lake.row_filter import EPOCH, FOREVER
from ingest.lake.tables import Lake
from ingest.schema.errors import IngestError
from ingest.schema.tables import TIMESTAMP
from ingest.simulator.simulate import Plan
from tests.models.lakes import derived_lake
from tests.s3_server import S3Server

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


def test_where_the_lake_cannot_be_reached_those_read_last_are_used(
    s3: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = Lake.open("s3://bucket/lake", TABLES)
    some = {pa.string(): "a", TIMESTAMP: EPOCH + timedelta(hours=1), pa.float64(): 1.0, pa.int64(): 1}
    row = {field.name: some[field.type] for field in PROFILES.schema if not field.nullable}
    lake.replace("profiles", EPOCH, FOREVER, "features", pa.Table.from_pylist([row], schema=PROFILES.schema))
    profiles, never_read = NewestProfiles(lake), NewestProfiles(lake)
    found = profiles.by(0)
    s3.refused |= {f"GET {name}" for name in (*s3.objects, "bucket")}

    assert found.num_rows == 1
    assert profiles.by(1) is found
    with pytest.raises(IngestError, match=r"cannot be (read|reached)"):
        never_read.by(1)
    s3.refused.clear()
    monkeypatch.setattr(main, "monotonic", lambda: monotonic() + main.UNREACHED_S)
    lake.replace("profiles", EPOCH, FOREVER, "features", PROFILES.schema.empty_table())
    assert profiles.by(1).num_rows == 0
