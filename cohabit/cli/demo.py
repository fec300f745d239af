"""The demo: the whole job on embedded defaults, in a temporary folder, and what it found."""

import json
import os
import sys
import tempfile
import urllib.request
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Event
from time import perf_counter, sleep, time_ns
from typing import TYPE_CHECKING
from urllib.error import HTTPError

import numpy as np
from prometheus_client import CollectorRegistry
from rich.text import Text

from cohabit.cli.data.stream import show_lake
from cohabit.cli.models.train import LEGEND, report_table, show_metrics
from cohabit.cli.operate.serve import source_of
from cohabit.cli.operate.victims import VICTIM_COLUMNS, victim_row
from cohabit.config.settings import read_settings
from cohabit.terminal.console import bar, console, show_table
from cohabit.terminal.locations import TOPICS
from features.schema.tables import TABLES
from ingest.lake.tables import Lake
from ingest.simulator.simulate import Plan

if TYPE_CHECKING:
    from advisor.diagnosis.slowdown_causes import Diagnosis
    from cohabit.server.main import Listening
    from features.jobs.job_plan import Stretch

MEASURED = Path(__file__).parents[2] / "data_samples" / "measured"
CANDIDATES = 8
READY_S = 60.0


@dataclass
class Demo:
    """One run: where it works, what it simulates, and how long each stage took."""

    folder: Path
    plan: Plan
    bootstrap: str | None = None
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def stream(self) -> Path:
        """Folder of stream files."""
        return self.folder / "stream"

    def lake(self) -> Lake:
        """The lake."""
        return Lake.open(self.folder / "lake", TABLES)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Time a stage and name it."""
        console.rule(Text(name, "bold"), align="left")
        began = perf_counter()
        yield
        self.seconds[name] = round(perf_counter() - began, 2)


def run_demo(*, kafka: bool, leave: bool, hours: float, stock: bool = False) -> None:
    """See `cohabit demo`."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="cohabit-demo-")))
        demo = Demo(folder, Plan(hours=hours, antagonists=1, stock=stock))
        with demo.stage("simulate"):
            _simulate(demo)
        if kafka:
            with demo.stage("broker"):
                demo.bootstrap = _start_broker(stack, demo)
        with demo.stage("ingest"):
            _ingest(demo)
        with demo.stage("features"):
            _features(demo)
        with demo.stage("model"):
            _learn(demo)
        with demo.stage("measured"):
            _measured(demo)
        with demo.stage("snapshot"):
            _refresh(demo)
        with demo.stage("victims"):
            _victims(demo)
        _serve(demo, leave=leave)


def _simulate(demo: Demo) -> None:
    """The measured runs first, then the simulated cluster, in one stream."""
    from cohabit.ingestion.simulation import simulate_into
    from ingest.kafka_io.stream_files import TopicWriter, read_messages, topic_path

    for topic in TOPICS:
        if topic_path(MEASURED, topic).exists():
            TopicWriter(demo.stream, topic).write(list(read_messages(topic_path(MEASURED, topic))))
    with bar("simulating") as shown:
        count = simulate_into(demo.stream, demo.plan, shown.reach)
    measured = ", and our measured runs" if MEASURED.exists() else ""
    console.print(f"{count:,} messages of {demo.plan.nodes} nodes over {demo.plan.hours:g} hours{measured}")


def _start_broker(stack: ExitStack, demo: Demo) -> str:
    from ingest.devkafka.broker import create_topics, running_broker
    from ingest.kafka_io.replay import replay
    from ingest.kafka_io.stream_files import topics_in

    broker = stack.enter_context(running_broker(demo.folder / "broker"))
    create_topics(broker.bootstrap)
    with bar("replaying into Kafka") as shown:
        sent = replay(demo.stream, topics_in(demo.stream), broker.bootstrap, progress=shown.reach, stop=Event())
    console.print(f"{sent:,} messages sent to a real broker on {broker.bootstrap}")
    return broker.bootstrap


def _ingest(demo: Demo) -> None:
    from ingest.pipeline.kafka_source import ConsumerSettings
    from ingest.pipeline.metrics import IngestMetrics
    from ingest.pipeline.runner import ingest_files, ingest_kafka

    metrics, lake = IngestMetrics(CollectorRegistry()), demo.lake()
    with console.status("landing"):
        if demo.bootstrap:
            ingest_kafka(ConsumerSettings(demo.bootstrap, TOPICS), lake, until="end", stop=Event(), metrics=metrics)
        else:
            ingest_files(demo.stream, TOPICS, lake, stop=Event(), metrics=metrics)
    show_lake(lake)


def _features(demo: Demo) -> None:
    """As `cohabit features` computes them: in this process, with a broker by Spark from Kafka."""
    from features.jobs.job_plan import Stretch
    from features.jobs.local_job import run_local

    lake, plan = demo.lake(), demo.plan
    stretch = Stretch(plan.start, plan.start + timedelta(hours=plan.hours))
    with console.status("computing features"):
        if demo.bootstrap is None:
            run_local(lake, stretch, report_table)
        else:
            _features_from_kafka(demo.bootstrap, lake, stretch, plan.cluster)


def _features_from_kafka(bootstrap: str, lake: Lake, stretch: "Stretch", cluster: str) -> None:
    from features.jobs.spark import batch_job as batch
    from features.jobs.spark.session import spark_session

    with spark_session() as spark:
        batch.run_batch(batch.kafka_usage(spark, lake, bootstrap, cluster), lake, stretch, report_table)


def _learn(demo: Demo) -> None:
    from cohabit.training.train_model import DEFAULT_EFFORT, diagnosis_of, evaluate_rows, train_bundle, training_table
    from models.estimator.feature_matrix import read_rows
    from models.evaluation.onnx_parity import BATCHES, compare
    from models.registry.registry import Registry

    table = training_table(demo.lake())
    rows, measured = read_rows(table), diagnosis_of(demo.lake(), table)
    with console.status("evaluating") as status:
        metrics = evaluate_rows(rows, DEFAULT_EFFORT, status.update, measured)
        status.update("training")
        registry = Registry(demo.folder / "registry")
        placement = train_bundle(table, registry, datetime.now(UTC), metrics, DEFAULT_EFFORT, diagnosis=measured)
        status.update("comparing ONNX with LightGBM")
        equality = compare(rows, placement, DEFAULT_EFFORT.config)
    for name, found in metrics.items():
        show_metrics(name, found)
    console.print(LEGEND)
    batches = ", ".join(map(str, BATCHES))
    console.print(
        f"ONNX against LightGBM: {equality.differing} of {equality.rows:,} rows differ in any bit (batches {batches})"
    )


def _measured(demo: Demo) -> None:
    from cohabit.training.measured_runs import leave_kind_out, read_configurations

    if not MEASURED.exists():
        console.print("data_samples/measured is not here (it comes with the repository, not with the package)")
        return
    with console.status("predicting kinds of antagonists never seen"):
        report = leave_kind_out(read_configurations(MEASURED, demo.lake()), np.random.default_rng(0))
    show_metrics(f"measured runs, {report.rows} configurations, antagonist kind left out", report.metrics)
    console.print(f"for comparison, one round of the same measurements ranks the other at {report.round_to_round:.3f}")
    rows = [(kind, f"{predicted:.2f}", f"{measured:.2f}") for kind, (predicted, measured) in report.example.items()]
    show_table(
        "co-located with redis, worst predicted first (mean slowdown)", ("antagonist", "predicted", "measured"), rows
    )
    console.print(f"avoid next to redis: {next(iter(report.example))}", style="bold")


def _refresh(demo: Demo) -> None:
    from cohabit.refresh.live_state import LiveState
    from cohabit.refresh.main import Refresh, refresh_from_files

    how = Refresh(demo.folder / "snapshots", every_s=1.0, version=1)
    state = LiveState(demo.plan.cluster, lambda: time_ns() // 1000)
    refresh_from_files(
        demo.stream,
        TOPICS,
        state,
        demo.lake(),
        how,
        published=lambda version, nodes, held: console.print(f"  snapshot {version}: {nodes} nodes, {held} containers"),
    )


def _victims(demo: Demo) -> None:
    """Containers that a neighbour slows down at the end, and the neighbour that the diagnosis names most often."""
    from cohabit.cli.operate.victims import show_coverage
    from cohabit.diagnosis.diagnose import coverage_until, diagnosed, newest_window

    until = newest_window(demo.lake())
    found = diagnosed(demo.lake(), until)
    show_coverage(coverage_until(demo.lake(), until), until)
    slowed = [victim_row(one) for one in found if one.verdict == "antagonist"]
    show_table("victims with a known antagonist", VICTIM_COLUMNS, slowed[:CANDIDATES])
    console.print(f"noisy neighbour: {noisiest(found) or 'none'}", style="bold")


def noisiest(found: Sequence["Diagnosis"]) -> str:
    """The antagonist of most victims, in words; empty without one."""
    named = [(one.suspects[0], one.node) for one in found if one.verdict == "antagonist"]
    counts = Counter((top.container, top.app, node) for top, node in named)
    if not counts:
        return ""
    (container, app, node), victims = counts.most_common(1)[0]
    return f"{container} of {app} on {node}, antagonist of {victims} victims"


def _serve(demo: Demo, *, leave: bool) -> None:
    from advisor.cluster.snapshot import load_current
    from advisor.ui.site.identity import OpenEntrance
    from cohabit.cli.admin.token import local_name
    from cohabit.cli.operate.serve import new_id
    from cohabit.server.main import Front, SchedulerListener, run
    from cohabit.server.sockets import PORTS_TRIED

    snapshots = demo.folder / "snapshots"
    as_of_us = load_current(snapshots).as_of_us
    settings = read_settings(os.environ)
    began = perf_counter()
    source = source_of(settings, demo.folder / "registry", snapshots)
    serving = source.opened(lambda: as_of_us + int((perf_counter() - began) * 1e6))
    serving.max_age_s = float("inf")  # the simulated day is long past, and nothing will follow it

    def ready(listening: "Listening") -> bool:
        _await_table(listening.main)
        with demo.stage("exchange"):
            _exchange(listening, _spread(serving.scorer.snapshot.nodes) if serving.scorer else ())
        total = round(sum(demo.seconds.values()), 2)
        sys.stdout.write(json.dumps({"stage_seconds": demo.seconds, "total_seconds": total}) + "\n")
        if not leave:
            console.print(f"serving on {listening.main} and {listening.scheduler}; Ctrl-C ends and deletes the demo")
            places = {"LAKE": "lake", "SNAPSHOTS": "snapshots", "REGISTRY": "registry"}
            names = " ".join(f"COHABIT_{name}={demo.folder / of}" for name, of in places.items())
            console.print(
                f"other commands in another shell: export COHABIT_CLUSTER={demo.plan.cluster} {names}", soft_wrap=True
            )
        return not leave

    run(
        serving,
        source,
        Front(settings.advisor.port, OpenEntrance(local_name(), serving.now_us, new_id)),
        SchedulerListener(settings.advisor.scheduler_port, PORTS_TRIED),
        ready=ready,
    )


def _await_table(main: str) -> None:
    """Wait until the advisor is ready, as a Service does before it routes schedulers to it."""
    deadline = perf_counter() + READY_S
    while perf_counter() < deadline:
        with suppress(HTTPError), urllib.request.urlopen(f"{main}/readyz", timeout=30):  # noqa: S310
            return
        sleep(0.1)


def _exchange(listening: "Listening", nodes: tuple[str, ...]) -> None:
    """What kube-scheduler would send for a pod of app-003, and what it gets."""
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "app-003-7d9c6b5f4", "uid": "1", "controller": True}
    meta = {"name": "app-003-7d9c6b5f4-x2x5l", "namespace": "team-3", "uid": "2", "ownerReferences": [owner]}
    pod = {"metadata": meta | {"labels": {"pod-template-hash": "7d9c6b5f4"}}, "spec": {"containers": []}, "status": {}}
    asked = {"Pod": pod, "Nodes": None, "NodeNames": list(nodes)}
    url = f"{listening.scheduler}/extender/prioritize"
    console.print(f"POST {url}", soft_wrap=True)
    console.print(json.dumps(asked), style="dim", soft_wrap=True)
    console.print(_post(url, asked), soft_wrap=True)
    why = json.loads(_post(f"{listening.main}/v1/scores", {"app": "app-003", "nodes": list(nodes)}))
    rows = [
        (
            n["node"],
            str(n["score"]),
            f"{n['slowdown_ratio']:.2f}",
            f"{n['slowdown_upper']:.2f}",
            f"{n['node_bound']:.2f}",
            _worst(n),
        )
        for n in sorted(why["nodes"], key=lambda n: -n["score"])
    ]
    show_table("the same, with reasons", ("node", "score", "slowdown", "bound", "node bound", "mostly"), rows)


def _spread(nodes: tuple[str, ...]) -> tuple[str, ...]:
    """A few candidates from the emptiest node to the most crowded: the simulator numbers them so."""
    return nodes[:: max(1, len(nodes) // CANDIDATES)]


def _worst(node: dict[str, dict[str, float]]) -> str:
    resource, share = max(node["factors"].items(), key=lambda item: item[1])
    return f"{resource} +{share:.2f}"


def _post(url: str, body: object) -> str:
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})  # noqa: S310
    with urllib.request.urlopen(request, timeout=30) as reply:  # noqa: S310
        return str(reply.read().decode())
