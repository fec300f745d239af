"""`cohabit victims` on what a stock cluster sends: who is slowed, of how much was looked at."""

import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from threading import Event

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from prometheus_client import CollectorRegistry
from typer.testing import CliRunner, Result

from cohabit.cli.main import app
from cohabit.diagnosis.diagnose import newest_window
from cohabit.ingestion.simulation import simulate_into
from cohabit.terminal.locations import TOPICS
from features.jobs.job_plan import whole_stretch
from features.jobs.local_job import run_local
from features.schema.tables import TABLES
from ingest.lake.landing import Positions
from ingest.lake.tables import Lake
from ingest.pipeline.metrics import IngestMetrics
from ingest.pipeline.runner import ingest_files
from ingest.schema.provenance import BatchId, OffsetRange
from ingest.schema.tables import USAGE
from ingest.simulator.messages import Faults
from ingest.simulator.simulate import Plan
from tests.landed import land_rows

PLAN = Plan(nodes=3, apps=3, per_node=12, hours=4.0, seed=4, faults=Faults(0, 0, 0, 0, 0))
APP_METRICS = ("qps", "rt_mean_ms", "rt_p95_ms", "rt_p99_ms", "cpu_us_per_request", "cpi")
Usage = dict[str, float]


@pytest.fixture(scope="module")
def stream(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("stream")
    simulate_into(folder, PLAN, lambda _done, _of: None)
    return folder


def victims(stream: Path, folder: Path, sent: Callable[[Usage], Usage]) -> Result:
    """What the command says where the usage that exporters send is another one."""
    folder.joinpath("stream").mkdir()
    for path in stream.glob("*.log"):
        lines = path.read_text().splitlines()
        if path.name == "usage.log":
            parts = [line.rsplit("\t", 1) for line in lines]
            lines = [f"{head}\t{json.dumps(_stock(json.loads(value), sent))}" for head, value in parts]
        (folder / "stream" / path.name).write_text("\n".join(lines) + "\n")
    lake = Lake.open(folder / "lake", TABLES)
    metrics = IngestMetrics(CollectorRegistry())
    ingest_files(folder / "stream", TOPICS, lake, stop=Event(), metrics=metrics)
    stretch = whole_stretch(lake)
    assert stretch is not None
    run_local(lake, stretch, lambda _table, _rows: None)
    return cohabit(folder, "victims")


def cohabit(folder: Path, *words: str) -> Result:
    return CliRunner().invoke(app, [*words, "--lake", str(folder / "lake")], env={"COLUMNS": "200"})


def some_container(folder: Path) -> str:
    """A latency-sensitive one of the newest window."""
    rows = Lake.open(folder / "lake", TABLES).read("node_state", columns=["container", "qos", "window_end"])
    last = rows.filter(pc.equal(rows["window_end"], pc.max(rows["window_end"])))
    return str(last.filter(pc.equal(last["qos"], "LS"))["container"][0])


def _stock(record: Usage, sent: Callable[[Usage], Usage]) -> Usage:
    return {k: v for k, v in record.items() if k not in APP_METRICS} | sent(record)


def slowed(record: Usage) -> Usage:
    """Pressure as a kernel counts it: the work takes as much longer as the app's latency does."""
    stall = 0.002 * record.get("rt_mean_ms", 0.0) * record.get("cpu_cores", 0.0)
    return {"psi_cpu_some_frac": min(0.9, 1e-4 + stall)}


def test_pressure_alone_is_looked_at(stream: Path, tmp_path: Path) -> None:
    ran = victims(stream, tmp_path, slowed)

    at = f"{newest_window(Lake.open(tmp_path / 'lake', TABLES)) + timedelta(minutes=3):%Y-%m-%dT%H:%M}"
    assert ran.exit_code in {0, 1}, ran.stdout
    assert cohabit(tmp_path, "victims", "--at", at).stdout == ran.stdout
    assert "% of the time of" in ran.stdout
    assert "are judged by waiting alone: harm through cache and memory bandwidth is not seen" in ran.stdout


ZERO = {f"psi_{name}_some_frac": 0.0 for name in ("cpu", "memory", "io")}


def test_a_node_on_which_any_container_is_stalled_has_a_kernel_that_counts_it(stream: Path, tmp_path: Path) -> None:
    """Every second container is never stalled, as its exporter has it."""
    ran = victims(
        stream, tmp_path, lambda record: ZERO if sum(str(record["container"]).encode()) % 2 else slowed(record)
    )
    doctor = cohabit(tmp_path, "doctor", "labels")

    assert "its kernel does not count it (boot with psi=1)" in ran.stdout
    assert "PSI was 0 for an hour" not in doctor.stdout


@pytest.mark.parametrize(
    ("sent", "why", "advice"),
    [
        (lambda _record: {}, "no latency, CPI, CPU per request, pressure or run delay", "nothing of it"),
        (lambda _record: ZERO, "its kernel does not count it (boot with psi=1)", "psi=1 on the kernel's command line"),
    ],
    ids=["nothing", "pressure-all-zero"],
)
def test_where_nothing_can_be_looked_at_nobody_is_said_to_be_well(
    stream: Path, tmp_path: Path, sent: Callable[[Usage], Usage], why: str, advice: str
) -> None:
    ran = victims(stream, tmp_path, sent)
    one = cohabit(tmp_path, "victims", "--container", some_container(tmp_path))
    doctor = cohabit(tmp_path, "doctor", "labels")

    assert (ran.exit_code, one.exit_code, doctor.exit_code) == (3, 3, 1)
    assert "looked at 0% of the time" in ran.stdout
    assert why in ran.stdout
    assert "not measured: no container has a label" in ran.stdout
    assert "no victims" not in ran.stdout
    assert "whether it is a victim is unknown" in one.stdout
    assert "problem labels: " in " ".join(doctor.stdout.split())
    assert (advice in doctor.stdout) == (sent({}) == ZERO)
    assert "PSI was 0 for an hour on node-00" in doctor.stdout or sent({}) != ZERO


def test_a_node_of_another_cluster_says_nothing_of_one_of_like_name(stream: Path, tmp_path: Path) -> None:
    victims(stream, tmp_path, lambda _record: ZERO)
    lake = Lake.open(tmp_path / "lake", TABLES)
    rows = lake.read("node_state")
    for column, value in (("cluster", pa.scalar("other")), ("psi_cpu_some_frac", pa.scalar(0.5))):
        values = pa.repeat(value, rows.num_rows)
        rows = rows.set_column(rows.schema.get_field_index(column), rows.schema.field(column), values)
    assert lake.append("node_state", rows, BatchId("other", 0))

    doctor = cohabit(tmp_path, "doctor", "labels")

    assert "PSI was 0 for an hour on node-00" in doctor.stdout


def test_labels_that_are_older_than_metrics_by_hours_say_nothing_of_now(stream: Path, tmp_path: Path) -> None:
    """`cohabit features` failed, and exporters went on."""
    calm = victims(stream, tmp_path, lambda _record: {"psi_cpu_some_frac": 1e-4})
    lake = Lake.open(tmp_path / "lake", TABLES)
    last = lake.read("usage").slice(0, 1).to_pylist()[0]
    later = last | {"ts": last["ts"] + timedelta(days=7), "offset": 10**6}
    link = OffsetRange("usage", 0, Positions(lake).position("usage", 0) or 0, 10**6 + 1)
    land_rows(lake, "usage", link, pa.Table.from_pylist([later], USAGE.schema))

    ran, doctor = cohabit(tmp_path, "victims"), cohabit(tmp_path, "doctor", "labels")
    named = cohabit(tmp_path, "victims", "--at", f"{last['ts'] + timedelta(hours=3):%Y-%m-%dT%H:%M}")

    assert (calm.exit_code, ran.exit_code, named.exit_code, doctor.exit_code) == (0, 3, 0, 1)
    assert "stale: the newest labels end 16" in " ".join(ran.stdout.split())
    assert "run `cohabit features`" in ran.stdout
