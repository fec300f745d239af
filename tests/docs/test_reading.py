"""Examples of docs/reading.md run, and every engine counts the rows that we count."""

import re
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyarrow.dataset import Dataset
from pyspark.sql import SparkSession

import cohabit
from cohabit.config.errors import CohabitError
from cohabit.training.train_model import Birth, Effort, train_bundle
from features.schema.tables import TABLES
from ingest.lake.tables import Lake
from ingest.lake.topic_ids import TopicIds
from ingest.schema.tables import LAKE_OWN
from ingest.simulator.simulate import Plan
from models.registry.registry import Registry
from models.training.fit import TrainConfig
from tests.models.lakes import derived_lake

pytestmark = pytest.mark.slow

PAGE = (Path(__file__).parents[2] / "docs" / "reading.md").read_text()
PLAN = Plan(nodes=4, apps=6, per_node=6, hours=2.0, seed=4)
EFFORT = Effort(TrainConfig(rounds=10, learning_rate=0.1, folds=2))


def examples(marker: str) -> list[str]:
    found: list[str] = re.findall(rf"<!-- {marker} -->\n```python\n(.*?)```", PAGE, flags=re.DOTALL)
    return found


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    lake = derived_lake(tmp_path_factory.mktemp("read"), PLAN)
    TopicIds(lake).check("usage", "an-id")
    return lake


@pytest.fixture
def named(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> Lake:
    monkeypatch.setenv("COHABIT_LAKE", lake.uri)
    return lake


@pytest.mark.parametrize("example", examples("runs as a test"))
def test_an_example_runs(named: Lake, capsys: pytest.CaptureFixture[str], example: str) -> None:
    exec(compile(example, "docs/reading.md", "exec"), {})  # noqa: S102

    assert re.search(r"node-0\d+|[1-9]\d* rows", capsys.readouterr().out), "it shows some rows"


def test_the_example_with_a_model_runs(
    named: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = datetime(2026, 3, 2, tzinfo=UTC)
    train_bundle(named.read("training"), Registry(tmp_path), now, {}, EFFORT, birth=Birth("b"))
    monkeypatch.setenv("COHABIT_REGISTRY", str(tmp_path))
    [example] = examples("runs as a test with a model")

    exec(compile(example, "docs/reading.md", "exec"), {})  # noqa: S102

    slowdown, bound = map(float, capsys.readouterr().out.split())
    assert 1 <= slowdown <= bound
    rows = cohabit.read("training").table
    predicted = cohabit.load_model("b").predict(rows)
    assert predicted.num_rows == rows.num_rows
    assert repr(cohabit.load_model("b")) == "SlowdownModel('b')"
    assert predicted.equals(cohabit.load_model().predict(pl.from_arrow(rows)))
    with pytest.raises(CohabitError, match="reads none of the columns x"):
        cohabit.load_model().predict(pa.table({"x": [1]}))


def test_what_is_read_can_be_narrowed(named: Lake) -> None:
    whole = cohabit.read("usage").table
    middle = whole["ts"][whole.num_rows // 2].as_py()

    early, late = cohabit.read("usage", until=middle), cohabit.read("usage", since=middle.isoformat(), columns=["ts"])

    assert len(early) + len(late) == len(whole) > len(late)
    assert late.table.column_names == ["ts"]
    assert cohabit.read("usage", as_of="2026-01-01").table.num_rows == 0
    assert set(cohabit.read("usage", nodes=["node-0001"]).table["node"].to_pylist()) == {"node-0001"}
    assert cohabit.read("topic_ids").table.num_rows == 1
    wrongs: list[tuple[dict[str, Any], str]] = [
        ({"columns": ["cpu"]}, "no column cpu"),
        ({"since": "noon"}, "no time"),
        ({"lake": "x"}, "x"),
        ({"since": date(2026, 3, 2), "until": "2026-03-01"}, "later than until"),
        ({"nodes": "node-0001"}, "give a list"),
        ({"table": "profiles", "nodes": ["node-0001"]}, "no column node"),
        ({"table": "training", "as_of": "2026-03-02"}, "no column arrived_at"),
        ({"table": "topic_ids", "since": "2026-03-02"}, "for since"),
    ]
    for wrong, said in wrongs:
        with pytest.raises(CohabitError, match=said):
            cohabit.read(**{"table": "usage", **wrong})


def counted_by_duckdb(rows: Dataset) -> int:
    found = duckdb.sql("select count(*) from rows")
    assert found is not None
    return int(found.fetchall()[0][0])


def test_every_engine_counts_the_same_rows_in_every_table(lake: Lake, spark: SparkSession) -> None:
    tables = [name for name in (*TABLES, *LAKE_OWN) if lake.version(name) >= 0]
    ours = {name: lake.rows(name).num_rows for name in tables}

    assert {name: spark.read.format("delta").load(f"{lake.uri}/{name}").count() for name in tables} == ours
    for name in tables:
        table = DeltaTable(f"{lake.uri}/{name}")
        rows = table.to_pyarrow_dataset()
        count = counted_by_duckdb(rows)
        polars = pl.scan_delta(f"{lake.uri}/{name}").select(pl.len()).collect().item()
        assert (name, count, polars, len(table.to_pandas())) == (name, ours[name], ours[name], ours[name])
        assert table.schema().fields[0].metadata["comment"]
    assert {"usage", "nodes", "node_state", "training", "topic_ids"} <= set(tables)
    assert all(ours.values())
