"""A small simulated cluster, by the kernels of production: files, lake, node state, labels, profiles, training rows."""

from dataclasses import dataclass
from pathlib import Path
from threading import Event

import numpy as np
import pyarrow as pa
from prometheus_client import CollectorRegistry

from cohabit.ingestion.simulation import simulate_into
from cohabit.terminal.locations import TOPICS
from features.contention.node_state import Facts, node_state
from features.profiles.per_app import labels_of, profiles_of
from features.schema.tables import TABLES
from features.training.residents import Sources
from features.training.rows import training_rows
from ingest.lake.tables import Lake
from ingest.pipeline.metrics import IngestMetrics
from ingest.pipeline.runner import ingest_files
from ingest.simulator.simulate import Plan
from models.estimator.feature_matrix import Rows, read_rows
from models.training.fit import TrainConfig

PLAN = Plan(nodes=16, apps=16, per_node=12, hours=3.0, seed=1)
CONFIG = TrainConfig(rounds=100, spread_rounds=30, folds=3)
PROFILE_EVERY_S = 1800


@dataclass(frozen=True)
class Simulated:
    """What was learnt from: sources of decisions, and training rows."""

    plan: Plan
    sources: Sources
    training: pa.Table
    rows: Rows


def simulated(folder: Path, plan: Plan = PLAN) -> Simulated:
    """Simulate, land and derive."""
    simulate_into(folder / "stream", plan, lambda _done, _of: None)
    lake = Lake.open(folder / "lake", TABLES)
    metrics = IngestMetrics(CollectorRegistry())
    ingest_files(folder / "stream", TOPICS, lake, stop=Event(), metrics=metrics)
    facts = Facts(lake.read("nodes"), lake.read("placements"))
    state = node_state(lake.read("usage"), facts)
    labels = labels_of(state, facts.placements)
    start_s, end_s = plan.start.timestamp(), plan.start.timestamp() + plan.hours * 3600
    times_s = np.append(np.arange(start_s, end_s, PROFILE_EVERY_S)[1:], end_s + 90)
    profiles = profiles_of(state, (times_s * 1e6).astype(np.int64))
    sources = Sources(state, facts.nodes, facts.placements, profiles)
    training = training_rows(labels, sources)
    return Simulated(plan, sources, training, read_rows(training))
