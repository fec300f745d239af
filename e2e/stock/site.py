"""Site: a node of two cores with pods, the Collector that scrapes it, `cohabit trial`, and load. An edge."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from time import sleep, time_ns
from typing import Any, NamedTuple

import yaml

from e2e.kube.api import NODES, Api, node_body
from e2e.kube.processes import HOST, answers, free_ports, running
from e2e.stock.cgroups import Group, group
from e2e.stock.programs import HERE

MANIFEST = HERE.parents[1] / "deploy" / "trial" / "collector.yaml"
CLUSTER, NODE, NAMESPACE, APP = "e2e", "n1", "default", "shop"
EXPORT_MS, SCRAPE_S, FOUND_S = 1000, 1, 8
CORE = 0
"""Where pods run; everything else has the other one."""
NODE_INFO = (
    *("machineID", "systemUUID", "bootID", "kernelVersion", "osImage", "containerRuntimeVersion", "kubeletVersion"),
    *("kubeProxyVersion", "operatingSystem"),
)
"""Fields that the API demands of what a kubelet says of its machine."""
ROUTES = ("/items/7", "/items/8", "/report", "/broken")
"""Asked in turn."""


@dataclass(frozen=True)
class Server:
    """A web server in a pod.

    Args:
        pod: its pod.
        uid: the pod's.
        group: of its processes.
        names: what OTEL_SEMCONV_STABILITY_OPT_IN says.
        port: where it listens.
    """

    pod: str
    uid: str
    group: Group
    names: str
    port: int


class Answer(NamedTuple):
    """One answer as the load generator saw it: when it asked, ms since 1970, for how long, and whether it is good."""

    at_ms: float
    took_ms: float
    is_good: bool


def pod(api: Api, name: str, app: str, page: int | None = None) -> str:
    """A pod on the node, running, whose page of metrics is at that port; its uid."""
    container = {"name": "main", "image": f"{app}:1", "resources": {"requests": {"cpu": "100m"}}}
    spec = {"nodeName": NODE, "containers": [container], "automountServiceAccountToken": False}
    scraped = {} if page is None else {"prometheus.io/scrape": "true", "prometheus.io/port": str(page)}
    metadata = {"name": name, "labels": {"app": app}, "annotations": scraped}
    place = f"/api/v1/namespaces/{NAMESPACE}/pods"
    made = api.ask(api.connection(), "POST", place, json.dumps({"metadata": metadata, "spec": spec}).encode())
    status = {"phase": "Running", "podIP": HOST, "podIPs": [{"ip": HOST}]}
    api.ask(api.connection(), "PATCH", f"{place}/{name}/status", json.dumps({"status": status}).encode())
    return str(json.loads(made)["metadata"]["uid"])


def node(api: Api, page: int) -> None:
    """The node, with two cores, whose kubelet listens at that port."""
    body = json.loads(node_body(NODE, f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"))
    for room in ("capacity", "allocatable"):
        body["status"][room] = {"cpu": "2", "memory": "4Gi", "pods": "20"}
    body["status"]["nodeInfo"] = dict.fromkeys(NODE_INFO, "") | {"architecture": "amd64"}
    body["status"]["addresses"] = [{"type": "InternalIP", "address": HOST}]
    body["status"]["daemonEndpoints"] = {"kubeletEndpoint": {"Port": page}}
    api.create(NODES, [json.dumps(body).encode()])


@contextmanager
def servers(api: Api, environment: Path, otlp: int, folder: Path, pods: Mapping[str, str]) -> Iterator[list[Server]]:
    """A web server in each pod, by what OTEL_SEMCONV_STABILITY_OPT_IN says there."""
    with ExitStack() as stack:
        made = []
        for (name, opt_in), port in zip(pods.items(), free_ports(len(pods)), strict=True):
            own = stack.enter_context(group(f"cohabit-e2e-{os.getpid()}-{name}"))
            one = Server(name, pod(api, name, APP), own, opt_in, port)
            command = ["taskset", "-c", CORE, environment / "opentelemetry-instrument", environment / "uvicorn"]
            words = [*map(str, command), "--app-dir", str(HERE), "--port", str(port), "--log-level", "warning"]
            process = stack.enter_context(
                running(own.around([*words, "shop:app"]), folder / f"{name}.log", _told(one, environment, otlp))
            )
            process.until(lambda port=port: answers(port))  # type: ignore[misc]
            made.append(one)
        yield made


def _told(server: Server, environment: Path, otlp: int) -> dict[str, str]:
    """What the operator of OpenTelemetry injects into a pod."""
    about = {
        "k8s.node.name": NODE,
        "k8s.namespace.name": NAMESPACE,
        "k8s.pod.name": server.pod,
        "k8s.pod.uid": server.uid,
        "service.name": APP,
    }
    return {
        "PATH": f"{environment}:/usr/bin:/bin",
        "OTEL_RESOURCE_ATTRIBUTES": ",".join(f"{key}={value}" for key, value in about.items()),
        "OTEL_SEMCONV_STABILITY_OPT_IN": server.names,
        "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://{HOST}:{otlp}",
        "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
        "OTEL_METRICS_EXPORTER": "otlp",
        "OTEL_TRACES_EXPORTER": "none",
        "OTEL_LOGS_EXPORTER": "none",
        "OTEL_METRIC_EXPORT_INTERVAL": str(EXPORT_MS),
    }


@contextmanager
def collected(program: Path, kubeconfig: Path, kafka: str, otlp: int, folder: Path) -> Iterator[None]:
    """The Collector, once it has had time to find what it scrapes."""
    config = folder / "collector.yaml"
    config.write_text(yaml.safe_dump(configuration(MANIFEST.read_text(), kubeconfig, kafka, otlp)))
    with running([program, f"--config={config}"], folder / "collector.log") as process:
        process.until(lambda: answers(otlp))
        sleep(FOUND_S)
        yield


def configuration(manifest: str, kubeconfig: Path, kafka: str, otlp: int) -> dict[str, Any]:
    """Of the Collector: the manifest's, but for addresses, how often it scrapes, and the kubelet's TLS."""
    (text,) = (one["data"]["config.yaml"] for one in yaml.safe_load_all(manifest) if one["kind"] == "ConfigMap")
    made: dict[str, Any] = yaml.safe_load(text)
    made["receivers"]["otlp"]["protocols"]["http"]["endpoint"] = f"{HOST}:{otlp}"
    scraping = made["receivers"]["prometheus"]["config"]
    scraping["global"]["scrape_interval"] = f"{SCRAPE_S}s"
    for job in scraping["scrape_configs"]:
        job["kubernetes_sd_configs"][0]["kubeconfig_file"] = str(kubeconfig)
        if job.pop("scheme", "") == "https":
            del job["authorization"], job["tls_config"]
    made["exporters"]["kafka"]["brokers"] = [kafka]
    made["service"]["telemetry"] = {"metrics": {"level": "none"}}
    return made


@contextmanager
def trial(folder: Path, settings: Mapping[str, str]) -> Iterator[str]:
    """`cohabit trial` without a cluster's API; where collectors reach its Kafka."""
    (port,) = free_ports(1)
    words = ["trial", "--listen", f"{HOST}:{port}", "--no-watch", "--every", "5"]
    command = [sys.executable, "-m", "cohabit", *words, "--folder", str(folder / "trial")]
    with running(command, folder / "trial.log", {**os.environ, **settings}) as process:
        process.until(lambda: "Kafka for the Collector" in process.log.read_text())
        yield f"{HOST}:{port}"


@contextmanager
def watched(kubeconfig: Path, kafka: str, folder: Path) -> Iterator[None]:
    """`cohabit watch`."""
    words = ["watch", "--kubeconfig", str(kubeconfig), "--bootstrap", kafka, "--state", str(folder / "watch")]
    settings = {**os.environ, "COHABIT_CLUSTER": CLUSTER}
    with running([sys.executable, "-m", "cohabit", *words], folder / "watch.log", settings):
        yield


def ask(stack: ExitStack, load: Path, served: Sequence[Server], folder: Path, *, per_s: float, seconds: int) -> None:
    """Begin to ask the routes of servers in turn at a fixed rate, each at another moment; ended with the stack."""
    for server in served:
        targets = folder / f"{server.pod}.targets"
        targets.write_text("".join(f"GET http://{HOST}:{server.port}{route}\n" for route in ROUTES))
        words = [f"-rate={round(per_s * 60)}/m", f"-duration={seconds}s", f"-targets={targets}", "-max-workers=64"]
        attack: list[str | Path] = [load, "attack", *words, f"-output={folder / server.pod}-{time_ns()}.load"]
        stack.enter_context(running(attack, folder / "load.log"))
        sleep(1 / per_s / len(served))  # else each answer waits for those of the others


def asked(load: Path, server: Server, folder: Path) -> list[Answer]:
    """What was measured of a server that was asked."""
    files = sorted(map(str, folder.glob(f"{server.pod}-*.load")))
    done = subprocess.run([load, "encode", "--to=json", *files], capture_output=True, text=True, check=True)
    results = [json.loads(line) for line in done.stdout.splitlines()]
    return sorted(Answer(_ms(one["timestamp"]), one["latency"] / 1e6, one["code"] == 200) for one in results)


def _ms(stamp: str) -> float:
    """Milliseconds since 1970 of RFC 3339 with nanoseconds."""
    whole, fraction, zone = re.fullmatch(r"(.*?)(?:\.(\d+))?(Z|[+-]\d\d:\d\d)", stamp).groups()  # type: ignore[union-attr]
    moment = datetime.fromisoformat(f"{whole}{zone}")
    return moment.timestamp() * 1000 + float(f"0.{fraction or 0}") * 1000
