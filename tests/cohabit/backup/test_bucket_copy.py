"""A lake in a bucket is backed up with the rest, and comes back into a bucket."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from advisor.database.engine import open_store
from cohabit.backup.archive import Places, back_up, restore, verify
from cohabit.config.errors import CohabitError
from features.schema.tables import TABLES
from ingest.lake.bucket import Bucket
from ingest.lake.landing import Positions
from ingest.lake.tables import Lake
from ingest.schema.provenance import OffsetRange
from tests.advisor.stores import migrated_store
from tests.cohabit.ingestion.test_bad_input import NOON_S, usage_at
from tests.landed import land_rows
from tests.s3_server import S3Server


def quietly(_what: str, _done: int, _of: int) -> None:
    pass


@pytest.fixture
def places(s3: S3Server, tmp_path: Path) -> Iterator[Places]:
    lake = Lake.open("s3://bucket/lake", TABLES)
    for start in range(25):  # so many commits have a checkpoint
        land_rows(lake, "usage", OffsetRange("usage", 0, start, start + 1), usage_at(NOON_S * 1_000_000 + start))
    (tmp_path / "registry").mkdir()
    with migrated_store(tmp_path / "store.sqlite") as store:
        yield Places("c", {"registry": tmp_path / "registry"}, store, Bucket("s3://bucket/lake"))


def test_a_lake_comes_out_of_a_bucket_and_back_with_its_positions(places: Places, tmp_path: Path) -> None:
    made = back_up(places, tmp_path / "backup", quietly)

    assert verify(tmp_path / "backup", quietly) == made
    assert any(path.startswith("lake/usage/_delta_log/") for path in made.files)
    with pytest.raises(CohabitError, match="s3://bucket/lake is not empty"):
        restore(places, tmp_path / "backup", quietly)
    with open_store(str(tmp_path / "new.sqlite")) as store:
        other = Places("c", {"registry": tmp_path / "again"}, store, Bucket("s3://bucket/again"))
        restore(other, tmp_path / "backup", quietly)
    before, after = Lake.open("s3://bucket/lake", TABLES), Lake.open("s3://bucket/again", TABLES)
    assert after.read("usage").equals(before.read("usage"))
    assert after.read("usage").num_rows == 25
    assert Positions(after).position("usage", 0) == 25
    land_rows(after, "usage", OffsetRange("usage", 0, 25, 26), usage_at(NOON_S * 1_000_000 + 25))
