"""Serving: how long a scheduler waits for prioritize, beside a plain server that only sends the bytes back."""

import contextlib
import http.client
import json
import os
import subprocess
import sys
import tempfile
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import count as counting
from multiprocessing import get_context
from multiprocessing.synchronize import Event
from pathlib import Path
from time import perf_counter, sleep, time_ns

import numpy as np
from numpy.typing import NDArray

from advisor.cluster.pending_pod import PodClass
from advisor.cluster.snapshot import Snapshot, load_current, publish
from advisor.scoring.score_table import score_columns
from advisor.scoring.score_table_file import read_table
from advisor.scoring.scorer import ModelScorer
from benchmarks import synthetic
from benchmarks.runner import OURS, Benchmark, Result

Floats = NDArray[np.float64]
METHODS = {OURS: "/extender/prioritize", "echo": "/echo", "memo": "/memo", "fragments": "/fragments", "twin": "/twin"}
CLASSES = synthetic.APPS[:64]
EVERY_S = 5.0
"""Between snapshots, as `cohabit refresh` publishes them."""
WARM_UP = 64
UIDS = counting(1)
REGRET_NODES, REGRET_DECISIONS = 500, 50


@dataclass(frozen=True)
class Server:
    """The process under test, with a port of its own for the baselines."""

    port: int
    baselines: int
    pid: int
    table: int
    folder: Path

    def post(self, connection: http.client.HTTPConnection, path: str, body: bytes) -> bytes:
        """One exchange; anything but 200 ends the benchmark."""
        connection.request("POST", path, body, {"Content-Type": "application/json"})
        reply = connection.getresponse()
        content = reply.read()
        if reply.status != 200:
            raise SystemExit(f"{path} answered {reply.status}: {content[:200]!r}")
        return content

    def connection(self, method: str = OURS) -> http.client.HTTPConnection:
        """A connection that is kept, without delay of small packets."""
        return http.client.HTTPConnection("127.0.0.1", self.port if method == OURS else self.baselines, timeout=60)


def run(arguments: Namespace, rng: np.random.Generator) -> Result:
    """Every figure, by method."""
    counts = [int(count) for count in arguments.names.split(",")]
    view = synthetic.cluster(arguments.nodes, arguments.residents, rng)
    with tempfile.TemporaryDirectory(prefix="cohabit-serving-") as name:
        folder = Path(name)
        scorer = synthetic.promoted(folder / "registry", view, arguments.trees, rng)
        changing = Changing(folder / "snapshots", view, arguments.changing, rng)
        changing.publish()
        with running(folder) as server:
            warm(server, view)
            with going(changing):
                before, began = cpu_s(server.table), perf_counter()
                found = {method: dict[str, float]() for method in METHODS}
                for count in counts:
                    for method, seconds in timed(server, view, count, arguments.requests, rng).items():
                        found[method] |= _figures(seconds, count)
                sleep(max(0.0, arguments.watch - (perf_counter() - began)))
                cores = (cpu_s(server.table) - before) / (perf_counter() - began)
                found[OURS] |= {"refresh_cores": cores[0], "count_cores": cores[1]}
            changing.publish()  # the worst moment: the table is of the snapshot before
            found[OURS]["table_regret"] = regret(server, replace(scorer, snapshot=changing.view), rng)
            hits, asked = json.loads(server.post(server.connection("memo"), "/hits", b""))
            found["memo"]["memo_hit_frac"] = found[OURS]["memo_hit_frac"] = hits / max(asked, 1)
            found[OURS]["rss_mb"] = _rss_mb(server.pid) + _rss_mb(server.table)
    for count in counts:
        for method in METHODS:
            found[method][f"p50_vs_echo_{count}"] = found[method][f"p50_ms_{count}"] / found["echo"][f"p50_ms_{count}"]
    return found


@contextlib.contextmanager
def running(folder: Path) -> Iterator[Server]:
    """The server over a folder's snapshots and registry, ended with the block."""
    command = [sys.executable, "-m", "benchmarks.serving_server", str(folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None  # noqa: S101 - asked for
        assert process.stdin is not None  # noqa: S101 - asked for
        told = json.loads(process.stdout.readline())
        try:
            yield Server(**told, folder=folder)
        finally:
            process.stdin.close()
            process.wait(timeout=30)


@dataclass
class Changing:
    """A cluster in which a share of the nodes changes every second, published as a refresher does."""

    folder: Path
    view: Snapshot
    share: float
    rng: np.random.Generator

    def publish(self) -> None:
        """The next snapshot."""
        nodes = self.rng.permutation(len(self.view.nodes))[: int(self.share * EVERY_S * len(self.view.nodes))]
        use = self.view.resident_use.copy()
        for node in nodes.tolist():
            use[self.view.first[node] : self.view.first[node + 1]] *= self.rng.uniform(0.9, 1.1)
        self.view = replace(self.view, version=self.view.version + 1, as_of_us=time_ns() // 1000, resident_use=use)
        publish(self.folder, self.view)


@contextlib.contextmanager
def going(changing: Changing) -> Iterator[None]:
    """Snapshots every EVERY_S seconds during the block, by a process of its own as a refresher is; then the newest."""
    apart = get_context("spawn")
    ended = apart.Event()
    publisher = apart.Process(target=_publish_until, args=(changing, ended), daemon=True)
    publisher.start()
    try:
        yield
    finally:
        ended.set()
        publisher.join(timeout=30)
        changing.view = load_current(changing.folder)
    if publisher.exitcode != 0:
        raise SystemExit(f"the publisher of snapshots ended with {publisher.exitcode}")


def _publish_until(changing: Changing, ended: Event) -> None:
    while not ended.wait(EVERY_S):
        changing.publish()


def request_body(app: str, uid: int, names: list[str]) -> bytes:
    """ExtenderArgs of a new pod, as kube-scheduler writes them but for the pod's spec."""
    labels = {"app": app, "pod-template-hash": "5d4f8c7b9"}
    pod = {"metadata": {"name": f"{app}-{uid}", "namespace": "shop", "uid": f"pod-{uid}", "labels": labels}}
    return json.dumps({"Pod": pod, "Nodes": None, "NodeNames": names}, separators=(",", ":")).encode()


def warm(server: Server, view: Snapshot) -> None:
    """Ask for every class until the table has them all: what is measured is a cluster at work, not its first minute."""
    connection = server.connection()
    while True:
        with contextlib.suppress(Exception):
            there = {of.app for of in read_table(server.folder / "table").classes}
            missing = [app for app in CLASSES if app not in there]
            if not missing:
                break
            for app in missing:
                server.post(connection, METHODS[OURS], request_body(app, 0, list(view.nodes[:5])))
        sleep(1.0)
    sleep(2.0)  # until the server has looked again


def timed(server: Server, view: Snapshot, count: int, requests: int, rng: np.random.Generator) -> dict[str, Floats]:
    """(requests,) seconds of each method, taking turns on connections of their own."""
    connections = {method: server.connection(method) for method in METHODS}
    seconds = {method: np.empty(requests) for method in METHODS}
    names = np.array(view.nodes)
    for number in range(requests + WARM_UP):
        offered = names[rng.permutation(len(names))[:count]].tolist()
        body = request_body(CLASSES[number % len(CLASSES)], next(UIDS), offered)
        for method in rng.permutation(list(METHODS)).tolist():
            started = perf_counter()
            server.post(connections[method], METHODS[method], body)
            if number >= WARM_UP:
                seconds[method][number - WARM_UP] = perf_counter() - started
    return seconds


def regret(server: Server, scorer: ModelScorer, rng: np.random.Generator) -> float:
    """Mean of what the table's choices cost more than the best ones, by exact scores of the newest snapshot."""
    table, lost = read_table(server.folder / "table"), []
    for _ in range(REGRET_DECISIONS):
        of = PodClass(CLASSES[rng.integers(len(CLASSES))], False)
        nodes = rng.permutation(len(table.nodes))[:REGRET_NODES].astype(np.int32)
        exact = score_columns(scorer, [of], nodes).cost[0].astype(np.float64)
        chosen = table.cost[table.classes.index(of)][nodes].argmin()
        lost.append((1 + exact[chosen]) / (1 + exact.min()) - 1)
    return float(np.mean(lost))


def _figures(seconds: Floats, count: int) -> dict[str, float]:
    p50, p99 = np.quantile(1e3 * seconds, [0.5, 0.99])
    return {f"p50_ms_{count}": float(p50), f"p99_ms_{count}": float(p99)}


def cpu_s(pid: int) -> Floats:
    """(2,) CPU seconds of a process so far: of its first thread, which refreshes the table, and of all others."""
    found = np.zeros(2)
    for task in Path(f"/proc/{pid}/task").iterdir():
        fields = (task / "stat").read_text().rpartition(")")[2].split()
        found[int(int(task.name) != pid)] += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return found


def _rss_mb(pid: int) -> float:
    [line] = [line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmRSS")]
    return int(line.split()[1]) / 1024


def _arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--names", default="100,500,5000", help="offered nodes, by commas (100,500,5000)")
    parser.add_argument("--nodes", type=int, default=5000, help="nodes of the cluster (5000)")
    parser.add_argument("--residents", type=int, default=30, help="containers on each node (30)")
    parser.add_argument("--requests", type=int, default=1000, help="timed requests of each method and count (1000)")
    parser.add_argument("--changing", type=float, default=0.01, help="share of nodes that change in a second (0.01)")
    parser.add_argument("--watch", type=float, default=60.0, help="seconds that refreshing is watched at least (60)")
    parser.add_argument("--trees", type=int, default=200, help="trees of the model at most (200)")


BENCHMARK = Benchmark(
    "serving",
    "milliseconds until prioritize has answered, beside an echo, a memo, plain fragments and a pydantic twin",
    run,
    runs=1,
    add_arguments=_arguments,
)
