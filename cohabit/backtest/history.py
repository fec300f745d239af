"""History: what a cluster under the default policy would have sent, landed, and learnt from by the product's own path.

Nothing of the truth goes in: records become messages with a real producer's faults, messages a lake, the lake features,
and these a bundle in a registry.
"""

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from threading import Event

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from prometheus_client import CollectorRegistry

from cohabit.backtest.closed_loop import START_S, run
from cohabit.backtest.policies import DEFAULT
from cohabit.backtest.trace import drawn_trace
from cohabit.backtest.world import World
from cohabit.ingestion.simulation import truth_rows, write_messages
from cohabit.terminal.locations import TOPICS
from cohabit.training.train_model import DEFAULT_EFFORT, train_bundle, training_table
from features.jobs.job_plan import whole_stretch
from features.jobs.local_job import run_local
from features.schema.tables import TABLES
from ingest.lake.tables import Lake
from ingest.pipeline.metrics import IngestMetrics
from ingest.pipeline.runner import ingest_files
from ingest.simulator.messages import Faults, describe_beats, describe_events, describe_nodes, describe_usage
from ingest.simulator.simulate import InFlight
from ingest.simulator.simulated_cluster import Records, State, Truth
from models.registry.registry import Registry

CLUSTER = "backtest"
PROFILE_EVERY_US = 2 * 3600 * 1_000_000
"""Profiles are computed less often than in production, to save time."""


@dataclass(frozen=True)
class Past:
    """How much history is gathered.

    Args:
        nodes: of the cluster it is gathered on.
        hours: how long.
        requested: share of it that is requested.
        interval_s: between metrics.
        profile_every_us: between profiles.
    """

    nodes: int = 24
    hours: float = 24.0
    requested: float = 0.75
    interval_s: float = 120.0
    profile_every_us: int = PROFILE_EVERY_US


@dataclass(frozen=True)
class Learnt:
    """What was learnt from a history.

    Args:
        lake: all derived tables.
        registry: with the bundle.
    """

    lake: Lake
    registry: Registry


def learnt_history(world: World, past: Past, folder: Path, seed: int) -> Learnt:
    """Gather a history under the default policy, land it, compute features, and train on it."""
    write_history(world, past, folder, seed)
    return learnt_from(folder, past)


def learnt_from(folder: Path, past: Past) -> Learnt:
    """Land a history that was written, compute features, and train on it."""
    lake = Lake.open(folder / "lake", TABLES)
    metrics = IngestMetrics(CollectorRegistry())
    ingest_files(folder / "stream", TOPICS, lake, stop=Event(), metrics=metrics)
    stretch = whole_stretch(lake)
    if stretch is not None:
        run_local(lake, replace(stretch, profile_every_us=past.profile_every_us), lambda _table, _rows: None)
    registry = Registry(folder / "registry")
    ended = datetime.fromtimestamp(START_S + past.hours * 3600, UTC)
    train_bundle(training_table(lake), registry, ended, {}, DEFAULT_EFFORT)
    return Learnt(lake, registry)


def write_history(world: World, past: Past, folder: Path, seed: int) -> None:
    """Write the records of a cluster under the default policy to `stream`, and the hidden truth to truth.parquet."""
    rng = np.random.default_rng([seed, 20])
    trace = drawn_trace(
        world, nodes=past.nodes, requested=past.requested, hours=past.hours, interval_s=past.interval_s, rng=rng
    )
    sender = _Sender(world, past, folder / "stream", seed)
    run(world, trace, past.nodes, DEFAULT, rng=rng, observe=sender.send)
    sender.land(float("inf"))
    pq.write_table(pa.concat_tables(sender.true), folder / "truth.parquet")


class _Sender:
    """Turns what a cluster shows into stream files."""

    def __init__(self, world: World, past: Past, folder: Path, seed: int) -> None:
        self._best_effort = tuple(world.best_effort.tolist())
        self._past, self._folder, self._seed = past, folder, seed
        self._rng = np.random.default_rng([seed, 21])
        self._flying = InFlight()
        self._begun = False
        self.true: list[pa.Table] = []

    def send(self, state: State, records: Records, truth: Truth) -> None:
        """Take up an interval."""
        self.true.append(truth_rows(truth))
        if not self._begun:
            self._flying.send(describe_nodes(state, CLUSTER))
            self._begun = True
        every_s = self._past.interval_s
        self._flying.send(describe_beats(state, every_s, CLUSTER))
        self._flying.send(describe_events(records, every_s, self._best_effort, CLUSTER))
        usage = describe_usage(
            records,
            every_s,
            self._best_effort,
            cluster=CLUSTER,
            faults=Faults(),
            seed=self._seed,
            rng=self._rng,
        )
        self._flying.send(usage)
        self.land(records.time_s * 1000)

    def land(self, until_ms: float) -> None:
        """Write what has arrived by then."""
        write_messages(self._folder, self._flying.arrived(until_ms))
