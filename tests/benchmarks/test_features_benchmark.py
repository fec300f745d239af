"""The features benchmark compares like with like: what is written by hand gives the job's own numbers."""

import numpy as np
import polars as pl
import pytest

from benchmarks.by_hand import FEATURES, state_with_polars, with_duckdb, with_polars
from benchmarks.usage_data import CONTAINERS, Size, write_lake
from features.contention.node_state import node_state
from features.jobs.job_plan import facts_until
from features.jobs.usage_chunks import usage_chunks
from features.schema.catalog import RESOURCES
from features.schema.tables import PROFILES
from features.training.five_minute import contention
from ingest.lake.tables import Lake

SIZE = Size(nodes=3, intervals=20)
MEASURED = [r.name for r in RESOURCES if r.name not in {"gpu", "pcie", "rdma"}]
KEY = ["node", "window_end", "container"]


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    return write_lake(tmp_path_factory.mktemp("lake"), SIZE, np.random.default_rng(1))


def files(lake: Lake) -> list[str]:
    return lake.files("usage", *SIZE.stretch.samples())


def assert_close(left: pl.DataFrame, right: pl.DataFrame, columns: list[str]) -> None:
    assert left.height == right.height > 0
    for column in columns:
        np.testing.assert_allclose(
            left.sort(KEY)[column], right.sort(KEY)[column], rtol=1e-9, atol=1e-12, err_msg=column
        )


def test_polars_by_hand_gives_the_kernels_minutes(lake: Lake) -> None:
    facts = facts_until(lake, SIZE.stretch)
    ours = pl.DataFrame(node_state(next(iter(usage_chunks(lake, SIZE.stretch, facts))).usage, facts))
    hand = state_with_polars(files(lake), lake.read("nodes")).collect()

    own = [f"{kind}_{name}" for kind in ("demand", "peak", *FEATURES) for name in MEASURED]
    assert_close(ours, hand, ["cpi", "qps", "neighbours", "neighbours_be", *own])


def test_polars_and_duckdb_by_hand_give_the_kernels_five_minutes(lake: Lake) -> None:
    facts = facts_until(lake, SIZE.stretch)
    state = node_state(next(iter(usage_chunks(lake, SIZE.stretch, facts))).usage, facts)
    ours = pl.DataFrame(contention(state, PROFILES.schema.empty_table()))
    ours = ours.rename({f"pressure_{name}_max": f"max_{name}" for name in MEASURED})
    hand = with_polars(files(lake), lake.read("nodes"))
    sql = pl.DataFrame(with_duckdb(files(lake), lake.read("nodes")))

    columns = [*(f"{kind}_{name}" for kind in FEATURES for name in MEASURED), *(f"max_{name}" for name in MEASURED)]
    assert_close(ours, hand, ["minutes", *columns])
    assert_close(hand, sql, columns)
    assert ours.height == SIZE.nodes * CONTAINERS * 2
