"""`python -m e2e.stock`: real emitters, a real Collector and Kafka, and what Cohabit makes of them.

Three web servers report by OpenTelemetry's old names, by its stable ones and by both, and a kubelet's page is made of
their real cgroups. Exit 1 where requests or response times are not what the load generator measured.
"""

import sys
import tempfile
from argparse import ArgumentParser
from collections.abc import Sequence
from pathlib import Path
from time import sleep

import numpy as np

from cohabit.terminal.console import console, show_error, show_table
from e2e.kube.binaries import binaries
from e2e.kube.control_plane import control_plane
from e2e.kube.errors import E2eError
from e2e.kube.processes import free_ports
from e2e.stock.programs import program, server_environment
from e2e.stock.site import NODE, Asked, Server, ask, asked, collected, servers, trial
from features.contention.node_state import Facts
from features.contention.usage_rates import rates
from features.schema.tables import TABLES
from ingest.lake.row_filter import EPOCH, FOREVER
from ingest.lake.tables import Lake
from tests.ingest.round_actors import leave_on_signals

PODS = {"old-0": "", "stable-0": "http", "both-0": "http/dup"}
MAX_QPS_OFF, MAX_MEAN_OFF = 0.02, 0.05
EDGE_MINUTES = 1
"""At each end of the load that are not whole."""
SETTLE_S = 20


def main(words: Sequence[str] | None = None) -> int:
    """Run everything; the exit code."""
    parser = ArgumentParser(prog="python -m e2e.stock", description=__doc__)
    parser.add_argument("--minutes", type=int, default=4, help="of load")
    parser.add_argument("--rate", type=int, default=12, help="requests a second and server")
    arguments = parser.parse_args(words)
    leave_on_signals()
    try:
        with tempfile.TemporaryDirectory(prefix="cohabit-e2e-stock-") as name:
            return _run(Path(name), arguments.rate, arguments.minutes * 60)
    except E2eError as error:
        show_error(error)
        return 1


def _run(folder: Path, rate: int, seconds: int) -> int:
    environment, load, collector = server_environment(), program("load", _say), program("collector", _say)
    (otlp,) = free_ports(1)
    settings = {"COHABIT_LAKE": str(folder / "lake"), "COHABIT_CLUSTER": "e2e"}
    with (
        control_plane(folder / "kubernetes", binaries(_say), [NODE]) as plane,
        trial(folder, plane.kubeconfig, settings) as kafka,
        servers(plane.api, environment, otlp, folder, PODS) as served,
        collected(collector, served, kafka, otlp, folder),
    ):
        _say(f"asking {len(served)} servers for {seconds} s")
        loads = [ask(load, one, rate, seconds, folder) for one in served]
        for one in loads:
            one.wait()
        sleep(SETTLE_S)
        found = {one.pod: (asked(load, one, folder), _measured(folder / "lake", one)) for one in served}
    letters = Lake.open(folder / "lake", TABLES).read("dead_letters").num_rows
    return _judge(found, letters)


def _measured(lake: Path, server: Server) -> tuple[float, float]:
    """Requests a second and mean, ms, of a pod over its whole minutes."""
    opened = Lake.open(lake, TABLES)
    facts = Facts(opened.read("nodes"), opened.read("placements"))
    usage = rates(opened.rows("samples", EPOCH, FOREVER), facts).usage.sort_by("ts").to_pylist()
    rows = [row for row in usage if row["container"] == server.uid and row["qps"]][EDGE_MINUTES:-EDGE_MINUTES]
    if not rows:
        raise E2eError(f"no whole minute of {server.pod} has requests; of {len(usage)} minutes of all pods")
    qps = np.array([row["qps"] for row in rows], np.float64)
    return float(qps.mean()), float(np.average([row["rt_mean_ms"] for row in rows], weights=qps))


def _judge(found: dict[str, tuple[Asked, tuple[float, float]]], letters: int) -> int:
    rows, wrong = [], letters > 0
    for pod, (sent, (qps, mean_ms)) in found.items():
        off = qps / sent.per_s - 1, mean_ms / sent.mean_ms - 1
        wrong |= abs(off[0]) > MAX_QPS_OFF or abs(off[1]) > MAX_MEAN_OFF
        measured = f"{qps:.2f} ({off[0]:+.1%})", f"{sent.mean_ms:.1f}", f"{mean_ms:.1f} ({off[1]:+.1%})"
        rows.append((pod, f"{sent.per_s:.2f}", *measured))
    show_table("asked and measured", ("pod", "sent, 1/s", "measured", "mean, ms", "measured "), rows)
    _say(f"{letters} dead letters")
    return int(wrong)


def _say(line: str) -> None:
    console.print(line, markup=False, highlight=False, soft_wrap=True)


if __name__ == "__main__":
    sys.exit(main())
