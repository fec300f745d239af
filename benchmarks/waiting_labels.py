"""Labels of measured runs whose services report neither requests nor latency, against the latency that was measured."""

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from prometheus_client import CollectorRegistry
from pyarrow import csv

from benchmarks.measured_records import records as measured_records
from benchmarks.runner import OURS, Result
from cohabit.terminal.locations import TOPICS
from cohabit.training.measured_runs import TEXT, container_of
from features.contention.node_state import Facts, node_state
from features.labels.app_version import UNKNOWN
from features.labels.slowdown import label_app, label_windows
from features.labels.waiting import MAX_THROTTLED
from features.profiles.per_app import by_app
from features.schema.tables import TABLES
from ingest.kafka_io.stream_files import Message as Printed
from ingest.kafka_io.stream_files import TopicWriter
from ingest.lake.tables import Lake
from ingest.pipeline.metrics import IngestMetrics
from ingest.pipeline.runner import ingest_files
from ingest.schema.topics import USAGE
from ingest.simulator.messages import Message
from models.metrics.errors_and_ranks import spearman

OF_THE_APP = ("qps", "rt_mean_ms", "rt_p95_ms", "rt_p99_ms", "cpu_us_per_request")
"""What a service says of itself, which a stock cluster does not send."""
SLOW = 1.25
Floats = NDArray[np.float64]


def without_app_metrics(folder: Path) -> Result:
    """Spearman, precision and recall at SLOW over windows with neighbours that the own limit did not throttle.

    `solo_flagged` counts windows without neighbours, limited ones included, whose label is SLOW or more. A window
    without a label is in none of them; `unlabelled_share` says how many there are.
    """
    windows, members, victims = (
        csv.read_csv(folder / f"{name}.csv", convert_options=TEXT) for name in ("windows", "members", "victims")
    )
    label, limit = _labels(windows, members), _throttled(members)
    rows = [row for row in victims.to_pylist() if row["clean"]]
    name = [container_of(row["window"], "victim", row["idx"]) for row in rows]
    found = np.array([label.get(one, np.nan) for one in name])
    truth = np.array([row["slow_mean"] if row["slow_mean"] is not None else np.nan for row in rows], np.float64)
    together = np.array([row["kind"] == "colo" and bool(row["gen_ok"]) for row in rows])
    judged = together & (np.array([limit.get(one, 0.0) for one in name]) <= MAX_THROTTLED)
    seen = judged & np.isfinite(found)
    solo = np.array([row["kind"] in {"solo", "solo_quota"} for row in rows])
    flagged, slow = found[seen] >= SLOW, truth[seen] >= SLOW
    return {
        OURS: {
            "label_spearman": spearman(found[seen], truth[seen]),
            "precision_125": float((flagged & slow).sum() / max(1, flagged.sum())),
            "recall_125": float((flagged & slow).sum() / max(1, slow.sum())),
            "solo_flagged": float((found[solo] >= SLOW).sum()),
            "solo_windows": float(solo.sum()),
            "windows": float(judged.sum()),
            "unlabelled_share": float(1.0 - seen.sum() / max(1, judged.sum())),
        }
    }


def _labels(windows: pa.Table, members: pa.Table) -> dict[str, float]:
    """Slowdown by container; each lives for one window, so that none is left out as warming up."""
    with TemporaryDirectory(prefix="cohabit-measured-") as folder:
        for topic in TOPICS:
            records = [_silenced(one) for one in measured_records(windows, members) if one.topic == topic]
            TopicWriter(Path(folder), topic).write(records)
        lake = Lake.open(Path(folder) / "lake", TABLES)
        metrics = IngestMetrics(CollectorRegistry())
        ingest_files(Path(folder), TOPICS, lake, stop=Event(), metrics=metrics)
        state = node_state(lake.read("usage"), Facts(lake.read("nodes"), lake.read("placements")))
    parts = [label_windows(part) for part in by_app(state)]
    labels = pa.concat_tables(
        label_app(part, np.zeros(part.num_rows, np.bool_), np.full(part.num_rows, UNKNOWN)) for part in parts
    )
    return dict(zip(labels["container"].to_pylist(), np.exp(labels["log_slowdown"].to_numpy()).tolist(), strict=True))


def _silenced(message: Message) -> Printed:
    if message.topic != USAGE.name:
        return Printed(message.arrived_ms, message.key, message.value)
    record = {name: value for name, value in json.loads(message.value).items() if name not in OF_THE_APP}
    return Printed(message.arrived_ms, message.key, json.dumps(record).encode())


def _throttled(members: pa.Table) -> dict[str, float]:
    rows = members.select(["window", "role", "idx", "throttled"]).to_pylist()
    return {
        container_of(row["window"], "victim", row["idx"]): row["throttled"] or 0.0
        for row in rows
        if row["role"] == "victim"
    }
