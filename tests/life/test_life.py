"""Laws over lives of clusters: what was computed of what exporters report is what really happened.

`make test` has 10 timelines of each format, the same ones each time. `make laws` has 1,000 new ones, and Spark computes
as many of all formats together. A violation names its format and seed: `draw(seed, "c")` draws that timeline again.
"""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest
import structlog

from cohabit.config.logs import set_up_logs
from features.jobs import usage_chunks
from tests.life import laws
from tests.life.lake import SENDERS, world
from tests.life.laws import Computed, Law

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MANY = os.environ.get("COHABIT_TEST_PROFILE") == "laws"
COUNT = 1000 if MANY else 10
FIRST = int(np.random.default_rng().integers(1 << 30)) if MANY else 0
LIVE: tuple[Law, ...] = (laws.live_is_batch, laws.nothing_ended_is_advised_on, laws.who_runs_is_advised_on)
EVERY = 1 if MANY else 4
"""Of so many clusters one is refreshed too."""
LAKES = {name: (name,) for name in SENDERS} if MANY else {"all": tuple(SENDERS)}
"""Formats that share a lake, and a process: `make laws` spreads the formats over its processes."""
SHOWN = 10
LAWS: tuple[Law, ...] = (
    laws.everything_is_decoded,
    laws.billing_is_batch,
    laws.core_minutes,
    laws.billed_core_minutes,
    laws.one_node_at_a_time,
    laws.node_hours,
    laws.nothing_ended_is_computed,
    laws.live_is_batch,
    laws.nothing_ended_is_advised_on,
    laws.who_runs_is_advised_on,
)
pytestmark = [pytest.mark.hypothesis, pytest.mark.slow]


@pytest.fixture(scope="module", params=LAKES, ids=list(LAKES))
def lives(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Computed]:
    """Computed lives of many clusters: a lake of each format where they are many, else one of all."""
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())
    yield Computed(world(LAKES[request.param], range(FIRST, FIRST + COUNT), tmp_path_factory.mktemp("life")))
    set_up_logs("DEBUG")


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
def test_what_is_computed_is_what_happened(lives: Computed, law: Law) -> None:
    seen = lives.world.lives[:: EVERY if law in LIVE else 1]

    violations = [line for life in seen for line in law(life, lives)]

    assert not violations, f"{len(violations)} violations:\n" + "\n".join(violations[:SHOWN])


def differences(before: Mapping[str, pa.Table], after: Mapping[str, pa.Table]) -> list[str]:
    """The tables that are not the same, each with the first rows that only one of both has."""
    return [
        f"{name}, only {which}: {_only(ours, theirs)}"
        for name in before
        if not before[name].equals(after[name])
        for which, ours, theirs in (("before", before[name], after[name]), ("after", after[name], before[name]))
    ]


def _only(ours: pa.Table, theirs: pa.Table) -> list[str]:
    held = set(map(str, theirs.to_pylist()))
    return [row for row in map(str, ours.to_pylist()) if row not in held][:SHOWN]


def test_rows_are_the_same_however_few_are_computed_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Timelines with static pods that came back after a gap, and clusters whose nodes share their names."""
    made = world(("cadvisor",), range(72866818, 72866820), tmp_path)
    before = made.computed()
    monkeypatch.setattr(usage_chunks, "BLOCK_ROWS", 1)

    made.compute(chunk_rows=1)

    assert not differences(before, made.computed())


@pytest.mark.skipif(not MANY, reason="runs with make laws")
def test_spark_computes_and_meters_the_same_rows(tmp_path: Path, spark: "SparkSession") -> None:
    made = world(SENDERS, range(FIRST, FIRST + COUNT // len(SENDERS)), tmp_path)
    before = made.computed()

    made.compute_with(spark)

    found = differences(before, made.computed())
    assert not found, f"seeds from {FIRST}:\n" + "\n".join(found)
