"""What was sent to us wrong, or landed before it was checked, does not stop the line."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import orjson
import pyarrow as pa
import pytest
from typer.testing import CliRunner

from cohabit.cli.main import app
from cohabit.config.errors import CohabitError
from cohabit.config.settings import Settings
from cohabit.config.topic_formats import foreign_topics
from cohabit.ingestion.worker import Wishes, foreign_in, formats_of
from cohabit.lifecycle.training_serving_skew import read_served
from cohabit.terminal.console import show_table
from features.columnar.windows import LABEL_US, window_end
from features.jobs.job_plan import whole_stretch
from features.labels.slowdown import Conditions, log_ratio
from features.schema.tables import TABLES
from ingest.decode.contract import Context
from ingest.decode.formats.native import decoder
from ingest.decode.json_records import MAX_RECORDS
from ingest.lake.tables import Lake
from ingest.pipeline.dead_letters import MAX_ITEMS, REST
from ingest.pipeline.plausibility import Capacities
from ingest.pipeline.transform import Landing, land
from ingest.schema.batch import message_batch
from ingest.schema.cpuset import membership
from ingest.schema.errors import DamagedLake, IngestError
from ingest.schema.provenance import OffsetRange
from ingest.schema.tables import PLACEMENTS, TIMESTAMP, USAGE
from tests.landed import land_rows

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
NOON_S = int(NOON.timestamp())


def landed(*values: bytes) -> Landing:
    batch = message_batch(
        OffsetRange("usage", 0, 0, len(values)), [*range(len(values))], [NOON_S * 1000] * len(values), [*values]
    )
    return land(batch, decoder(USAGE), Capacities())


def usage_at(us: int) -> pa.Table:
    time = pa.array([us], TIMESTAMP)
    row = {"cluster": ["c"], "ts": time, "interval_s": [30.0], "node": ["n"], "container": ["a"], "topic": ["usage"]}
    row |= {"partition": [0], "offset": [0], "arrived_at": time}
    arrays = [pa.array(row[f.name], f.type) if f.name in row else pa.nulls(1, f.type) for f in USAGE.schema]
    return pa.Table.from_arrays(arrays, schema=USAGE.schema)


@pytest.mark.parametrize("cpuset", ["all", "none", "0-99999999", "3-1", "0x3"])
def test_a_cpuset_that_names_no_cores_is_set_aside_and_never_pins(cpuset: str) -> None:
    record = {"ts": NOON_S, "event": "add", "node": "n", "container": "a", "cpuset": cpuset}
    context = Context(pa.array([NOON_S * 1_000_000], TIMESTAMP))

    decoded = decoder(PLACEMENTS)(pa.array([orjson.dumps(record)], pa.binary()), context)

    assert decoded.rows["cpuset"].to_pylist() == [None]
    assert decoded.rejects.select(["item", "reason"]).to_pylist() == [{"item": "0.cpuset", "reason": "out_of_range"}]
    assert membership([cpuset], 4).all()


def test_a_message_of_faults_is_kept_once_and_its_faults_are_counted() -> None:
    message = b"[" + b",".join([b"7"] * 500) + b"]"

    letters = landed(message, b"not json").dead_letters

    assert letters.num_rows == MAX_ITEMS + 2
    assert [p for p in letters["payload"].to_pylist() if p is not None] == [message, b"not json"]
    assert letters.filter(pa.array([i == REST for i in letters["item"].to_pylist()]))["detail"].to_pylist() == [
        "400 more items"
    ]
    keys = list(zip(letters["offset"].to_pylist(), letters["item"].to_pylist(), strict=True))
    assert len(keys) == len(set(keys))


def test_of_a_message_with_countless_records_only_the_first_are_read() -> None:
    letters = landed(b"[" + b",".join([b"7"] * (MAX_RECORDS + 5)) + b"]").dead_letters

    assert letters.num_rows == MAX_ITEMS + 1
    assert letters["detail"][0].as_py() == f"{MAX_RECORDS + 5} records; the rest is not read"


@pytest.mark.parametrize("offset_us", [0, 1, 500, 999, 1000, 1001, 299_999_999])
def test_the_stretch_of_a_lake_holds_the_window_of_every_sample(tmp_path: Path, offset_us: int) -> None:
    lake = Lake.open(tmp_path, TABLES)
    us = NOON_S * 1_000_000 + offset_us
    link = OffsetRange("usage", 0, 0, 1)
    land_rows(lake, "usage", link, usage_at(us))

    stretch = whole_stretch(lake)

    assert stretch is not None
    end = datetime.fromtimestamp(int(window_end(np.array([us]), LABEL_US)[0]) / 1e6, UTC)
    assert stretch.ends()[0] <= end < stretch.ends()[1]
    assert stretch.samples()[0] <= NOON + timedelta(microseconds=offset_us) < stretch.samples()[1]


def test_an_absurd_signal_gives_no_label() -> None:
    latency = np.append(np.full(99, 5.0), 5e-324)
    pressure = np.linspace(0, 1, 100)[:, None]
    unknown = np.full(100, np.nan)

    log = log_ratio(latency, Conditions(unknown, unknown, np.arange(100), pressure))

    assert np.isnan(log[-1])
    assert np.isfinite(log[:-1]).all()


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"add": {"path": 7}}'])
def test_a_log_with_a_damaged_entry_is_named(tmp_path: Path, content: bytes) -> None:
    lake = Lake.open(tmp_path, TABLES)
    for start in range(3):
        land_rows(lake, "usage", OffsetRange("usage", 0, start, start + 1))
    [entry] = tmp_path.rglob(f"usage/_delta_log/{2:020d}.json")
    entry.write_bytes(content)

    with pytest.raises(IngestError, match="cannot be read"):
        Lake.open(tmp_path, TABLES).read("usage")


def test_a_truncated_file_is_named(tmp_path: Path) -> None:
    lake = Lake.open(tmp_path, TABLES)
    link = OffsetRange("usage", 0, 0, 1)
    land_rows(lake, "usage", link, usage_at(NOON_S * 1_000_000))
    path = next(tmp_path.rglob("*.parquet"))
    path.write_bytes(path.read_bytes()[:100])

    with pytest.raises(DamagedLake, match=path.name):
        lake.read("usage")


def test_a_field_name_is_printed_as_it_is_and_cannot_steer_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    show_table("fields", ("field", "times"), [("[/x]", "1"), ("a\x1b]0;title\x07", "1")])

    printed = capsys.readouterr().out
    assert "[/x]" in printed
    assert "\x1b" not in printed


def test_json_of_the_examples_is_what_readme_says() -> None:
    """README's records decode without a reject."""
    text = (Path(__file__).parents[3] / "docs" / "ingest.md").read_text().split("```json\n")
    usage = json.loads(text[1].split("```")[0])

    assert landed(orjson.dumps({**usage, "ts": NOON_S})).dead_letters.num_rows == 0


@pytest.mark.parametrize(
    "command", [["lake", "check"], ["lake", "compact"], ["lake", "expire", "--before", "2026-01-01"]]
)
@pytest.mark.parametrize("lake", ["typo", ""])
def test_a_lake_that_is_not_there_is_not_called_sound(
    command: list[str], lake: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    told = CliRunner().invoke(app, [*command, "--lake", lake])

    assert told.exit_code == 1
    assert "no lake in" in told.output + told.stderr
    assert not list(tmp_path.iterdir())


def test_our_own_topics_keep_their_format() -> None:
    with pytest.raises(CohabitError, match="Cohabit's own"):
        foreign_topics(Settings(), ["usage=cadvisor"], None)


@pytest.mark.parametrize("line", ['{"cluster":"c","as_of_us":' + "9" * 30 + "}", "[" * 100_000])
def test_a_damaged_log_of_served_features_is_named(line: str, tmp_path: Path) -> None:
    (tmp_path / "1.jsonl").write_text(line + "\n")

    with pytest.raises(CohabitError, match="is not a feature log"):
        read_served(tmp_path)


def test_lines_of_a_trace_that_are_not_text_are_set_aside(tmp_path: Path) -> None:
    good = b"c_1,m_1,86400,10,20,1.5,0.1,2.0,0,0,5\n"
    (tmp_path / "container_usage.csv").write_bytes(good + b"\xff\xfe,\x80\n" + good.replace(b"m_1", b"m_\xe9"))
    (tmp_path / "machine_usage.csv").write_bytes(b"m_1,10,20,30,,,1,1,5\n")

    told = CliRunner().invoke(app, ["dev", "import", "alibaba2018", str(tmp_path), "--out", str(tmp_path / "out")])

    assert told.exit_code == 0, told.output
    assert len((tmp_path / "out" / "usage.log").read_bytes().splitlines()) == 3


def test_ingest_lands_its_own_topics_and_foreign_ones_and_nothing_that_is_told_to_refreshers() -> None:
    formats = formats_of(Settings(), Wishes(topics=("stats=cadvisor",)))

    assert foreign_in(formats) == ("stats",)


def test_every_known_metric_is_listed_with_what_it_becomes() -> None:
    told = CliRunner().invoke(app, ["lake", "metrics"])

    assert told.exit_code == 0
    assert "container_cpu_usage_seconds_total" in told.output
    assert "cpu_cores counter" in told.output
