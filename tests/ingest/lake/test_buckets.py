"""Buckets: a lake there lives as one in a folder does, and whatever is wrong with the store is said."""

import socket
import tempfile
import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from time import monotonic

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ingest.lake.bucket import Bucket
from ingest.lake.check import Report, check
from ingest.lake.landing import Positions, RangeRows
from ingest.lake.stores import store_of
from ingest.lake.tables import Lake
from ingest.lake.upkeep import When, compact, expire, expiring, vacuum
from ingest.schema.errors import DamagedLake, IngestError
from ingest.schema.provenance import BatchId, OffsetRange
from ingest.schema.tables import DEAD_LETTERS, LANDED, TIMESTAMP, USAGE, Column, Table
from tests.s3_server import S3Server

ADDRESS = "s3://bucket/lake"
T0 = datetime(2026, 3, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
LATER = datetime(2100, 1, 1, tzinfo=UTC)
STATE = Table(
    "state",
    1,
    ("node", "ts"),
    "ts",
    (
        Column("node", pa.string(), "", "node", required=True),
        Column("ts", TIMESTAMP, "UTC", "time", required=True),
        Column("cpu_cores", pa.float64(), "cores", "value"),
    ),
)
TABLES = {**LANDED, DEAD_LETTERS.name: DEAD_LETTERS, STATE.name: STATE}


def usage(hours: list[int], first: int) -> pa.Table:
    """One row for each hour after T0, at offsets from `first` on."""
    return pa.Table.from_pylist(
        [
            {
                "cluster": "c",
                "node": "n",
                "container": f"u{offset}",
                "interval_s": 30.0,
                "ts": T0 + hour * HOUR,
                "cpu_cores": float(offset),
                "topic": "usage",
                "partition": 0,
                "offset": offset,
                "arrived_at": T0 + hour * HOUR,
            }
            for offset, hour in enumerate(hours, first)
        ],
        schema=USAGE.schema,
    )


def letter(offset: int) -> pa.Table:
    origin = {"topic": "usage", "partition": 0, "offset": offset, "arrived_at": T0}
    return pa.Table.from_pylist([{"item": "", "reason": "json", "payload": b"{", **origin}], DEAD_LETTERS.schema)


def states(*rows: tuple[str, int, float]) -> pa.Table:
    """(node, hour, cpu_cores)."""
    records = [{"node": node, "ts": T0 + hour * HOUR, "cpu_cores": cpu} for node, hour, cpu in rows]
    return pa.Table.from_pylist(records, schema=STATE.schema)


def land(lake: Lake, hours: list[int]) -> None:
    """Land a row for each hour, and then a dead letter."""
    positions = Positions(lake)
    start = positions.position("usage", 0) or 0
    end = start + len(hours) + 1
    brought = RangeRows(OffsetRange("usage", 0, start, end), usage(hours, start), letter(end - 1), {"colour": 2})
    assert positions.land("usage", [brought]) == []


def silent(_done: int, _total: int) -> None:
    """Print nothing."""


def staged(lake: Lake, rows: pa.Table) -> Path:
    folder = lake.stage("state", "daily")
    folder.mkdir(parents=True)
    pq.write_table(rows, folder / "part.parquet")
    return folder


def small_life(lake: Lake) -> list[object]:
    """All that is done to a lake, and what readers see between."""
    topic_ids, seen = Positions(lake).topic_ids, list[object]()
    topic_ids.check("usage", "id-1")
    for _ in range(5):
        land(lake, [0, 1, 1])
    seen += [lake.read("usage"), lake.read(DEAD_LETTERS.name), lake.unknown_fields(), lake.landed_rows("usage")]
    seen += [
        lake.read("usage", T0, T0 + HOUR, ["container"]),
        lake.read("usage", as_of=T0),
        lake.count("usage", T0, T0),
    ]

    lake.replace("state", T0, T0 + 2 * HOUR, "daily", states(("a", 0, 1.0), ("a", 1, 2.0)))
    lake.replace("state", T0 + HOUR, T0 + 2 * HOUR, "daily", staged(lake, states(("a", 1, 3.0))))
    seen += [lake.append("state", states(("b", batch, 1.0)), BatchId("follow", batch)) for batch in (0, 1, 1)]
    seen += [lake.append_staged("state", staged(lake, states(("c", 0, 1.0))), BatchId("other", 4)) for _ in range(2)]
    seen += [lake.read("state"), list(lake.range_parts("state")), pa.concat_tables(lake.pieces("state")).num_rows]

    compacted = [compact(lake, table, When(LATER), silent) for table in ("usage", DEAD_LETTERS.name, "state")]
    seen += [*compacted, lake.read("usage"), lake.read("state"), expiring(lake, "usage", T0 + HOUR).rows]
    expire(lake, "usage", T0 + HOUR)
    seen += [lake.read("usage"), lake.span("usage"), whole(check(lake, silent))]
    seen += [vacuum(lake, table, retention=timedelta()).files for table in ("usage", DEAD_LETTERS.name, "state")]
    seen += [whole(check(lake, silent, "rows")), lake.read("usage"), Positions(lake).position("usage", 0)]

    assert topic_ids.accept("usage", "id-2")
    seen += [topic_ids.recorded("usage"), topic_ids.origin("usage"), Positions(lake).position("usage@2", 0)]
    return seen


def whole(report: Report) -> tuple[object, ...]:
    """What a check counts, but for sizes, since files say at which moment they were written."""
    return report.tables, report.commits, report.files, report.rows, report.waiting.files, report.orphans, report.damage


def test_a_lake_in_a_bucket_lives_as_one_in_a_folder_does(
    s3: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "scratch"))
    (tmp_path / "scratch").mkdir()
    assert not store_of(ADDRESS).is_there()

    in_bucket = small_life(Lake.open(ADDRESS, TABLES))

    assert in_bucket == small_life(Lake.open(tmp_path / "lake", TABLES))
    assert store_of(ADDRESS).is_there()
    assert not store_of("s3://bucket/lak").is_there()
    assert list((tmp_path / "scratch").iterdir()) == []
    assert not any("probe" in name for name in s3.objects)


def test_a_file_of_many_megabytes_comes_back_unchanged_and_of_one_column_little_is_fetched(s3: S3Server) -> None:
    rng, lake = np.random.default_rng(7), Lake.open(ADDRESS, TABLES)
    nodes, hours = pa.array(map(str, range(750_000))), pa.array([T0] * 750_000, TIMESTAMP)
    rows = pa.table([nodes, hours, pa.array(rng.random(750_000))], schema=STATE.schema)

    lake.append("state", rows, BatchId("follow", 0))
    before = s3.fetched_bytes
    assert lake.rows("state", columns=["ts"])["ts"].equals(rows["ts"])

    assert s3.fetched_bytes - before < 200_000
    assert max(map(len, s3.objects.values())) > 6_000_000
    assert lake.rows("state").equals(rows)


def test_a_large_file_whose_upload_was_confirmed_in_vain_is_there(s3: S3Server, tmp_path: Path) -> None:
    large = tmp_path / "large"
    large.write_bytes(content := np.random.default_rng(1).bytes(12 << 20))
    s3.unanswered.add("bucket/lake/usage/large.parquet")

    Bucket(ADDRESS).adopt("usage", [(large, "large.parquet")])

    assert s3.objects["bucket/lake/usage/large.parquet"] == content
    assert not s3.unanswered


def test_a_large_file_that_is_refused_is_not_there(s3: S3Server, tmp_path: Path) -> None:
    large = tmp_path / "large"
    large.write_bytes(bytes(12 << 20))
    s3.refused.add("POST bucket/lake/usage/large.parquet")

    with pytest.raises(IngestError, match="cannot be reached"):
        Bucket(ADDRESS).adopt("usage", [(large, "large.parquet")])

    assert large.exists()


def test_a_file_that_no_version_names_goes_once_it_has_been_there_for_a_week(s3: S3Server) -> None:
    lake = Lake.open(ADDRESS, TABLES)
    land(lake, [0])
    lake.files_of("usage", usage([0], 99))
    [path] = [
        path for path in lake.store.sizes("usage") if lake.store.address(f"usage/{path}") not in lake.files("usage")
    ]

    assert vacuum(lake, "usage", everything=True).files == 0
    s3.written[f"bucket/lake/usage/{path}"] = format_datetime(T0 - timedelta(days=365), usegmt=True)
    assert vacuum(lake, "usage", everything=True).files == 1
    assert lake.read("usage").num_rows == 1


def test_a_store_that_ignores_conditions_is_refused(s3: S3Server) -> None:
    s3.ignores_conditions = True

    with pytest.raises(IngestError, match="it ignores If-None-Match"):
        Lake.open(ADDRESS, TABLES)

    assert s3.objects == {}


def test_a_store_of_which_an_answer_is_lost_is_not_refused(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uuid, "uuid4", lambda: uuid.UUID(int=7))
    s3.unanswered.add(f"bucket/lake/.probe-{uuid.uuid4().hex}")

    Lake.open(ADDRESS, TABLES)

    assert (s3.unanswered, s3.objects) == (set(), {})


def unknown_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "nobody")


def closed_port(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{port}")


@pytest.mark.parametrize("wrong", [unknown_user, closed_port])
@pytest.mark.parametrize(
    "use",
    [
        lambda: Lake.open(ADDRESS, TABLES),
        lambda: store_of(ADDRESS).is_there(),
        lambda: Lake(Bucket(ADDRESS), TABLES).read("usage"),
    ],
    ids=["open", "ask whether it is there", "read"],
)
def test_a_bucket_that_does_not_answer_or_refuses_is_named_within_seconds(
    s3: S3Server,
    monkeypatch: pytest.MonkeyPatch,
    wrong: Callable[[pytest.MonkeyPatch], None],
    use: Callable[[], object],
) -> None:
    wrong(monkeypatch)
    start = monotonic()

    with pytest.raises(IngestError, match=r"cannot be (read|reached) .* check .*, then try again"):
        use()

    assert monotonic() - start < 30


def test_a_bucket_that_is_not_there_is_named(s3: S3Server) -> None:
    with pytest.raises(IngestError, match=r"cannot be reached .*NoSuchBucket"):
        Lake.open("s3://no-bucket/lake", TABLES)


def test_an_object_that_is_gone_or_cut_short_is_damage(s3: S3Server) -> None:
    lake = Lake.open(ADDRESS, TABLES)
    land(lake, [0])
    [path] = lake.files("usage")
    name = path.removeprefix("s3://")
    content = s3.objects.pop(name)

    with pytest.raises(DamagedLake, match=name.rpartition("/")[2]):
        lake.read("usage")
    assert [(one.path, one.what) for one in check(lake, silent).damage] == [(path, "it is missing")]
    s3.objects[name] = content[:-9]
    with pytest.raises(DamagedLake, match=name.rpartition("/")[2]):
        lake.read("usage")
    assert [one.path for one in check(lake, silent).damage] == [path]
    s3.objects[name] = content
    assert lake.read("usage").num_rows == 1


@pytest.mark.parametrize("method", ["HEAD", "GET"])
def test_a_store_that_fails_while_rows_are_read_is_not_called_damage(s3: S3Server, method: str) -> None:
    lake = Lake.open(ADDRESS, TABLES)
    land(lake, [0])
    [path] = lake.files("usage")
    s3.refused.add(path.replace("s3://", f"{method} "))

    with pytest.raises(IngestError, match=r"cannot be reached .*403") as failure:
        lake.read("usage")

    assert not isinstance(failure.value, DamagedLake)
