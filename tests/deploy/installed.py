"""`make e2e-helm`, second part: the three commands of docs/helm.md, up to the first advised pod.

Commands, Secrets, certificates and the extender are read from the pages. kube-apiserver, kube-scheduler, controllers,
Helm, kubectl, Kafka and PostgreSQL are real. Pods that the first advised pod needs run as processes, from the objects
that the API holds. Metrics are simulated. Exit 1 where a command fails, or the pod is not where it is advised to be.
"""

import re
import subprocess
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from time import monotonic, sleep
from typing import Any
from urllib.request import urlopen

import yaml

from cohabit.ingestion.simulation import simulate_into
from cohabit.terminal.console import console
from e2e.helm import in_pod
from e2e.helm.binaries import tools
from e2e.helm.chart import NAMESPACE, ROOT
from e2e.helm.containers import Machine, kept, placed
from e2e.helm.errors import Differs, HelmFailed
from e2e.helm.host import COMMANDS, Host
from e2e.helm.objects import Kubelet, get, volumes
from e2e.helm.release import NEEDED
from e2e.kube.advisor import Counts, counts_in
from e2e.kube.binaries import binaries
from e2e.kube.control_plane import ControlPlane, control_plane, scheduler_of
from e2e.kube.errors import E2eError
from e2e.kube.processes import HOST
from e2e.kube.scheduler_log import SchedulerLog, Scores, scores_in, verdict
from ingest.devkafka.broker import create_topics, running_broker
from ingest.kafka_io.replay import replay
from ingest.kafka_io.stream_files import topics_in
from ingest.schema.topics import Topic
from ingest.simulator.simulate import Plan
from tests.advisor.postgres_server import running_postgres
from tests.deploy.run_to_end import exit_code

PAGE, DEPLOYMENT = (ROOT / "docs" / name for name in ("helm.md", "deployment.md"))
PLAN = Plan(nodes=8, apps=9, hours=2.0, antagonists=1, cluster="prod")
RUN = ("prepare", "ingest", "refresher", "advisor", "tools")
"""Components whose pods run: not `watch`, since the simulated pods are not in the API, nor Spark, of which the second
command does the same."""
PAST = ("--set-string", "settings.COHABIT_ADVISOR__MAX_FEATURE_AGE_S=1e9")
"""The simulated day is long past."""
CERTIFICATES = "/etc/kubernetes/cohabit"
FIRST, ADVISOR = "first", "cohabit-advisor-0"
EVERY_S, LIMIT_S = 1.0, 300.0


def commands(page: str, heading: str) -> list[str]:
    """Commands of the first block below a heading."""
    [_, below] = page.split(f"\n## {heading}")
    block = re.findall(r"```sh\n(.*?)```", below, re.DOTALL)[0]
    return [line for line in block.replace("\\\n", " ").splitlines() if line]


def extender_of(page: str) -> dict[str, Any]:
    """The extender that a page has for kube-scheduler."""
    [block] = re.findall(r"```yaml\n(apiVersion: kubescheduler.*?)```", page, re.DOTALL)
    [found] = yaml.safe_load(block)["extenders"]
    return dict(found)


def resolved(extender: Mapping[str, Any], port: int, certificates: Path) -> dict[str, Any]:
    """The extender with the address of a Service resolved to a process, whose certificate still has to name it."""
    [address] = re.findall(r"//([\d.]+):", extender["urlPrefix"])
    files = {key: path.replace(CERTIFICATES, str(certificates)) for key, path in extender["tlsConfig"].items()}
    url = re.sub(r"//[\d.]+:\d+", f"//{HOST}:{port}", extender["urlPrefix"])
    return {**extender, "urlPrefix": url, "tlsConfig": {**files, "serverName": address}}


@dataclass(frozen=True)
class Terminal:
    """Where a user types commands.

    Args:
        folder: the current one.
        env: with kubectl and helm on PATH.
        places: what in commands is named otherwise here.
    """

    folder: Path
    env: Mapping[str, str]
    places: Mapping[str, str]

    def type(self, line: str, folder: Path | None = None) -> str:
        """What a command prints.

        Raises:
            HelmFailed: it exits with an error.
        """
        words = ["bash", "-euo", "pipefail", "-c", placed(line, self.places)]
        done = subprocess.run(
            words, cwd=folder or self.folder, env=self.env, capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            raise HelmFailed([line], done.stdout + done.stderr)
        return done.stdout


def main() -> int:
    """Run everything; the exit code."""
    return exit_code(_run, "helm")


def _run(folder: Path, stack: ExitStack) -> None:
    page, kube, helm = PAGE.read_text(), binaries(_say), tools(_say)
    bootstrap, database = _metrics(folder, stack), stack.enter_context(running_postgres())()
    nodes = tuple(f"node-{i:04d}" for i in range(PLAN.nodes))
    plane = stack.enter_context(control_plane(folder / "cluster", kube, nodes))
    stack.enter_context(plane.controllers(NEEDED))
    plane.api.create("/api/v1/persistentvolumes", volumes())
    (folder / "machine").mkdir()
    machine = Machine(plane.api, NAMESPACE, folder / "machine")
    host = stack.enter_context(Host(machine, RUN).at_work())
    stack.enter_context(Kubelet(plane.api, NAMESPACE, host.state, host.end, EVERY_S).at_work())
    places = {"kafka.kafka:9092": bootstrap, "postgresql://...": database}
    terminal = Terminal(folder, _environment(folder, plane, machine, helm), places)
    _before(page, terminal)
    extender = resolved(extender_of(page), machine.port(ADVISOR, "schedulers"), folder)
    scheduler = stack.enter_context(plane.scheduler_by(scheduler_of([extender], plane.kubeconfig), 10))
    try:
        _three(page, terminal, machine)
    except E2eError:
        _say("\n".join(f"{log.name}: {log.read_text()[-1500:]}" for log in (folder / "machine" / "logs").glob("*.log")))
        raise
    _advised(plane, scheduler.log, machine, int(extender["weight"]))
    _say(f"containers that ended and were started again: {host.restarts}")


def _metrics(folder: Path, stack: ExitStack) -> str:
    """A broker with some hours of metrics; its address."""
    broker = stack.enter_context(running_broker(folder / "broker"))
    create_topics(broker.bootstrap)
    create_topics(broker.bootstrap, [Topic("otlp_metrics", (), 1)])
    simulate_into(folder / "stream", PLAN, lambda _done, _of: None)
    topics = topics_in(folder / "stream")
    sent = replay(folder / "stream", topics, broker.bootstrap, progress=lambda *_: None, stop=Event())
    _say(f"Kafka: {sent:,} messages of {PLAN.nodes} nodes over {PLAN.hours:g} hours")
    return broker.bootstrap


def _environment(folder: Path, plane: ControlPlane, machine: Machine, helm: Path) -> dict[str, str]:
    """Variables of the terminal: Helm, and a kubectl whose exec runs a command next to the pod's process."""
    (programs := folder / "programs").mkdir()
    own = f'exec "{sys.executable}" "{in_pod.__file__}" "{machine.folder / COMMANDS}" "$@"'
    script = f'#!/bin/sh\ncase " $* " in *" exec "*) {own} ;; esac\nexec "{plane.binaries / "kubectl"}" "$@"\n'
    (programs / "kubectl").write_text(script)
    (programs / "kubectl").chmod(0o755)
    kept_here = kept()
    path = f"{programs}:{helm}:{kept_here['PATH']}"
    return {**kept_here, "PATH": path, "KUBECONFIG": str(plane.kubeconfig), "HOME": str(folder)}


def _before(page: str, terminal: Terminal) -> None:
    """What must exist before: the namespace, both Secrets, the certificates."""
    for line in commands(page, "Before"):
        terminal.type(line)
    [block] = (one for one in re.findall(r"```sh\n(.*?)```", DEPLOYMENT.read_text(), re.DOTALL) if "issue()" in one)
    terminal.type(block)
    _say("before: namespace, both Secrets and the certificates by the commands of the pages")


def _three(page: str, terminal: Terminal, machine: Machine) -> None:
    """The three commands."""
    install, train, run = commands(page, "Three commands to the first advised pod")
    began = monotonic()
    notes = terminal.type(" ".join([install, *PAST]), ROOT)
    if missing := [line for line in (train, run) if line not in notes]:
        raise Differs("notes of the installation and the page", missing)
    _say(f"1 {install}: {monotonic() - began:.0f} s")
    _await_metrics(terminal, machine)
    for number, line in ((2, train), (3, run)):
        began = monotonic()
        said = terminal.type(line)
        _say(f"{number} {line}: {monotonic() - began:.0f} s; {said.strip().splitlines()[-1].strip()}")


def _await_metrics(terminal: Terminal, machine: Machine) -> None:
    """Wait as the page says: until no topic has records that were not ingested, and a snapshot is there."""
    began, asked = monotonic(), "kubectl -n cohabit exec deployment/cohabit-tools -- cohabit doctor ingest"
    while True:
        said = ""
        try:
            said = terminal.type(asked)
        except HelmFailed as error:
            said = str(error)
        behind = [int(count.replace(",", "")) for count in re.findall(r"([\d,]+)\s+records\s+behind", said)]
        if behind and not any(behind) and (machine.claim("cohabit-snapshots") / "snapshots" / "current").exists():
            break
        if monotonic() - began > LIMIT_S:
            raise Differs("metrics that were ingested", [said])
        sleep(EVERY_S)
    _say(f"metrics: ingested, and a snapshot is there, {monotonic() - began:.0f} s later")


def _advised(plane: ControlPlane, log: Path, machine: Machine, weight: int) -> None:
    """Whether the first pod went where the advisor scored highest, and the advisor counted it."""
    node, began = "", monotonic()
    while not node and monotonic() - began < LIMIT_S:
        node = get(plane.api, f"/api/v1/namespaces/default/pods/{FIRST}")["spec"].get("nodeName", "")
        sleep(0.1)
    with log.open("rb") as lines:
        scores: Scores = {pod: found for pod, found in scores_in(lines).items() if pod == FIRST}
    judged = verdict(scores, {FIRST: node}, weight)
    points = {name: one.points for name, one in sorted(scores.get(FIRST, {}).items())}
    read = SchedulerLog(log)
    read.read()
    counts, assumed = _counted(machine)
    figures = [
        f"pod {FIRST} is on {node}; points of the advisor {points}",
        f"highest total of kube-scheduler: {bool(judged.highest)}; highest points of the advisor: {bool(judged.ours)}",
        f"the advisor counted {counts}",
    ]
    for line in figures:
        _say(line)
    right = judged.highest == judged.ours == judged.pods == 1 and not judged.astray and len(set(points.values())) > 1
    if not right or counts.sources["table"] != 1 or assumed != 1:
        raise Differs("the first pod and its advice", [*figures, f"{assumed} assumed pods", f"lost {read.lost}"])


def _counted(machine: Machine) -> tuple[Counts, int]:
    """What the advisor counted since it started, and its assumed pods."""
    address = f"http://{HOST}:{machine.port(ADVISOR, 'people')}/metrics"
    with urlopen(address, timeout=10) as reply:
        text = reply.read().decode()
    [assumed] = re.findall(r"^cohabit_assumed_pods ([\d.]+)", text, re.MULTILINE)
    return counts_in(text), int(float(assumed))


def _say(line: str) -> None:
    console.print(line, markup=False, highlight=False, soft_wrap=True)


if __name__ == "__main__":
    sys.exit(main())
