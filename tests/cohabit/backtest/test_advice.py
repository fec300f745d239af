"""Advice in the loop: the product's own path from metrics to a choice, which nobody tells the truth."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import closing
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from threading import Event

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from prometheus_client import CollectorRegistry
from typer.testing import CliRunner

from advisor.cluster.snapshot import Snapshot
from cohabit.backtest.advice import Advisor, Scorers, scorers_of
from cohabit.backtest.closed_loop import Tally, measured_in, run
from cohabit.backtest.history import CLUSTER, Learnt, Past, learnt_from, write_history
from cohabit.backtest.policies import DEFAULT
from cohabit.backtest.world import World, platforms_of
from cohabit.cli.main import app
from cohabit.refresh.live_state import LiveState
from ingest.kafka_io.stream_files import Message, TopicWriter
from ingest.pipeline.consumer_loop import Formats, Landers, ingest
from ingest.pipeline.file_source import FileCapacities, FileSource
from ingest.pipeline.metrics import IngestMetrics
from ingest.simulator.law import Floats
from ingest.simulator.messages import NO_FAULTS, describe_events, describe_nodes, describe_usage
from ingest.simulator.simulated_cluster import Records, State, Truth
from tests.cohabit.backtest.small_worlds import STRESSED, threshold_world, trace_of

pytestmark = pytest.mark.slow

PAST = Past(nodes=9, hours=4.0)
ROOT = Path(__file__).parents[3]
SMALL = ("--nodes", "9", "--hours", "2", "--seeds", "1", "--history-nodes", "6", "--cells", "1")


@dataclass(frozen=True)
class Learned:
    """A small world, and what was learnt from it."""

    world: World
    folder: Path
    learnt: Learnt

    def scorers(self) -> Scorers:
        return scorers_of(self.learnt, self.world.best_effort)

    def tally(self, hours: float = 3.0) -> Tally:
        trace = trace_of(self.world, nodes=9, hours=hours)
        return run(self.world, trace, 9, Advisor(self.scorers()).guarded, rng=np.random.default_rng(1))


@pytest.fixture(scope="module")
def learned(tmp_path_factory: pytest.TempPathFactory) -> Learned:
    folder, world = tmp_path_factory.mktemp("history"), threshold_world()
    write_history(world, PAST, folder, 1)
    return Learned(world, folder, learnt_from(folder, PAST))


def test_noise_in_place_of_the_truth_changes_no_decision(learned: Learned, tmp_path: Path) -> None:
    shutil.copytree(learned.folder / "stream", tmp_path / "stream")
    truth = pq.read_table(learned.folder / "truth.parquet")
    noise = pa.array(np.random.default_rng(0).uniform(1.0, 9.0, truth.num_rows))
    column = truth.column_names.index("slowdown_ratio")
    pq.write_table(truth.set_column(column, "slowdown_ratio", noise), tmp_path / "truth.parquet")

    blind = Learned(learned.world, tmp_path, learnt_from(tmp_path, PAST))

    assert blind.tally().slowdowns.tolist() == learned.tally().slowdowns.tolist()


def test_advice_beats_what_it_learnt_under(learned: Learned) -> None:
    trace = trace_of(learned.world, nodes=9, hours=6.0)

    default = run(learned.world, trace, 9, DEFAULT, rng=np.random.default_rng(1))

    assert learned.tally(hours=6.0).violation_minutes < default.violation_minutes


class Sent:
    """Keeps the last interval, and writes all of them as a refresher would read them."""

    def __init__(self, world: World, folder: Path) -> None:
        self._best_effort = tuple(world.best_effort.tolist())
        self._folder, self._rng = folder, np.random.default_rng(0)
        self.last: list[Records] = []

    def send(self, state: State, records: Records, _: Truth) -> None:
        sent = [] if self.last else describe_nodes(state, CLUSTER)
        sent += describe_events(records, 300.0, self._best_effort, CLUSTER)
        sent += describe_usage(
            records, 300.0, self._best_effort, cluster=CLUSTER, faults=NO_FAULTS, seed=1, rng=self._rng
        )
        for one in sent:
            TopicWriter(self._folder, one.topic).write([Message(one.arrived_ms, one.key, one.value)])
        self.last = [records]


def refreshed(folder: Path, profiles: pa.Table) -> Snapshot:
    """The snapshot that a refresher publishes of what was sent."""
    state = LiveState(CLUSTER, lambda: 2**60)
    with (
        closing(FileCapacities(folder, "nodes", cluster=CLUSTER)) as known,
        closing(FileSource(folder, ("nodes", "placements", "usage"), state.position)) as source,
    ):
        source.stop_at_end()
        metrics = IngestMetrics(CollectorRegistry())
        ingest(source, state, Landers(Formats(), known), metrics, Event())
    return state.snapshot(profiles, 1)


def test_its_snapshot_is_the_one_that_a_refresher_makes_of_the_messages(learned: Learned, tmp_path: Path) -> None:
    trace, sent = trace_of(learned.world, nodes=9, hours=2.0), Sent(learned.world, tmp_path)
    run(learned.world, trace, 9, DEFAULT, rng=np.random.default_rng(1), observe=sent.send)

    served = refreshed(tmp_path, learned.learnt.lake.read("profiles"))
    ours = learned.scorers().over(measured_in(sent.last[0]), platforms_of(9)).snapshot

    assert ours.nodes == served.nodes
    assert ours.first.tolist() == served.first.tolist()
    assert np.allclose(ours.node_capacity, served.node_capacity, equal_nan=True)
    assert np.allclose(ours.node_facts, served.node_facts, equal_nan=True)
    apps, platforms = (
        [list(mine).index(name) for name in theirs]
        for mine, theirs in ((ours.apps, served.apps), (ours.platforms, served.platforms))
    )
    assert np.allclose(ours.profile[np.ix_(apps, platforms)], served.profile, equal_nan=True)
    assert np.allclose(in_order(ours), in_order(served), rtol=1e-4, equal_nan=True)


def in_order(snapshot: Snapshot) -> Floats:
    """Residents by node, app and use, as their order on a node means nothing."""
    node = np.repeat(np.arange(len(snapshot.nodes)), np.diff(snapshot.first))
    app = np.array([int(snapshot.apps[one].rpartition("-")[2]) for one in snapshot.resident_app])
    rows = np.column_stack([node, app, snapshot.resident_best_effort, snapshot.resident_use])
    return rows[np.lexsort((snapshot.resident_use[:, 0], app, node))]


def test_a_history_that_says_too_little_is_told_in_a_line(tmp_path: Path) -> None:
    pairs = tmp_path / "one.csv"
    pairs.write_text("victim,aggressor,slowdown\nweb,cpu,1.4\n")

    told = CliRunner().invoke(
        app, ["dev", "backtest", "--law", str(pairs), "--compose", "max", *SMALL, "--history-hours", "2"]
    )

    assert told.exit_code == 1
    assert "--history-hours" in told.output


@pytest.mark.long
def test_the_command_writes_figures_and_the_worst_gap(tmp_path: Path) -> None:
    pairs, out = tmp_path / "stressed.csv", tmp_path / "out"
    pairs.write_text(STRESSED)
    options = [*SMALL, "--history-hours", "6", "--out", str(out)]

    told = CliRunner().invoke(app, ["dev", "backtest", "--law", str(pairs), "--compose", "additive", *options])

    assert told.exit_code == 0, told.output
    assert "histories: 0 of" in told.output  # a kind of work is told as it begins, not once a part of it is done
    found = json.loads((out / "backtest.json").read_text())
    assert {"violation_minutes", "violation_minutes_lo", "nodes_used"} <= found["policies"]["ours"].keys()
    assert [gap["requested"] for gap in found["laws"]["stressed-additive"]["gaps"]] == [0.7, 0.8, 0.9]
    assert "<svg" in (out / "stressed-additive.svg").read_text()


def living(group: int) -> list[str]:
    """Processes of a group that are no zombies."""
    listed = subprocess.run(["ps", "-eo", "pgid=,stat=,args="], capture_output=True, text=True, check=True).stdout
    rows = [line.split(maxsplit=2) for line in listed.splitlines()]
    return [row[2] for row in rows if row[0] == str(group) and not row[1].startswith("Z")]


@pytest.mark.parametrize(
    "words",
    [("cohabit", "dev", "backtest", *SMALL), ("benchmarks", "closed-loop", "--hours", "2", "--seeds", "1")],
    ids=itemgetter(0),
)
@pytest.mark.long
def test_broken_off_it_leaves_neither_processes_nor_files(tmp_path: Path, words: tuple[str, ...]) -> None:
    command = [sys.executable, "-m", *words, "--law", "queueing"]
    with subprocess.Popen(
        command, env={**os.environ, "TMPDIR": str(tmp_path)}, start_new_session=True, cwd=ROOT
    ) as running:
        deadline = time.monotonic() + 120
        while not list(tmp_path.glob("cohabit-backtest-*/*")):
            assert running.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.2)
        running.terminate()
        assert running.wait(60) == 128 + signal.SIGTERM

    assert not list(tmp_path.glob("cohabit-backtest-*"))
    deadline = time.monotonic() + 120
    while living(running.pid) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert not living(running.pid)


def test_two_laws_of_one_name_are_refused_before_any_work(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "pairs.csv").write_text(STRESSED)
    laws = [option for folder in ("a", "b") for option in ("--law", str(tmp_path / folder / "pairs.csv"))]

    told = CliRunner().invoke(app, ["dev", "backtest", *laws, "--compose", "max"])

    assert told.exit_code == 1
    assert "pairs-max is repeated" in told.output


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--law", "nothing.csv"], "neither a file nor one of"),
        (["--compose", "sideways"], "choose from additive"),
        (["--alone", "nothing.csv"], "the file does not exist"),
    ],
)
def test_what_cannot_be_driven_is_refused_before_any_work(options: list[str], why: str) -> None:
    told = CliRunner().invoke(app, ["dev", "backtest", *options])

    assert told.exit_code == 1
    assert why in told.output
