"""Site: a node with pods, the Collector, `cohabit trial`, and load at a fixed rate. An edge."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from e2e.kube.api import Api
from e2e.kube.processes import HOST, answers, free_ports, running
from e2e.stock.cgroups import Group, group
from e2e.stock.kubelet import Container, kubelet
from e2e.stock.programs import HERE

PAGE = HERE.parents[1] / "docs" / "quickstart.md"
NODE, NAMESPACE = "n1", "default"
EXPORT_MS, SCRAPE_S = 5000, 5
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


@dataclass(frozen=True)
class Asked:
    """What the load generator measured itself.

    Args:
        per_s: requests a second.
        mean_ms: of those that were answered with 200.
    """

    per_s: float
    mean_ms: float


def pod(api: Api, name: str, app: str) -> str:
    """A pod on the node, running; its uid."""
    container = {"name": "main", "image": f"{app}:1", "resources": {"requests": {"cpu": "100m"}}}
    spec = {"nodeName": NODE, "containers": [container], "automountServiceAccountToken": False}
    body = json.dumps({"metadata": {"name": name, "labels": {"app": app}}, "spec": spec}).encode()
    made = api.ask(api.connection(), "POST", f"/api/v1/namespaces/{NAMESPACE}/pods", body)
    return str(json.loads(made)["metadata"]["uid"])


@contextmanager
def servers(api: Api, environment: Path, otlp: int, folder: Path, pods: Mapping[str, str]) -> Iterator[list[Server]]:
    """A web server in each pod, by what OTEL_SEMCONV_STABILITY_OPT_IN says there; and the kubelet's page of all."""
    with ExitStack() as stack:
        made = []
        for (name, opt_in), port in zip(pods.items(), free_ports(len(pods)), strict=True):
            own = stack.enter_context(group(f"cohabit-e2e-{os.getpid()}-{name}"))
            one = Server(name, pod(api, name, name.rpartition("-")[0]), own, opt_in, port)
            command = [environment / "opentelemetry-instrument", environment / "uvicorn", "--app-dir", HERE]
            words = [*map(str, command), "--port", str(port), "--log-level", "warning", "shop:app"]
            process = stack.enter_context(
                running(own.around(words), folder / f"{name}.log", _told(one, environment, otlp))
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
        "service.name": server.pod.rpartition("-")[0],
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
def collected(program: Path, served: Sequence[Server], kafka: str, otlp: int, folder: Path) -> Iterator[None]:
    """The Collector, and the kubelet's page that it scrapes."""
    containers = [Container(NAMESPACE, one.pod, one.uid, one.group) for one in served]
    (port,) = free_ports(1)
    config = folder / "collector.yaml"
    config.write_text(yaml.safe_dump(configuration(kafka, otlp, port)))
    with kubelet(containers, port), running([program, f"--config={config}"], folder / "collector.log") as process:
        process.until(lambda: answers(otlp))
        yield


def configuration(kafka: str, otlp: int, kubelet_port: int) -> dict[str, object]:
    """Of the Collector."""
    scrape = {
        "job_name": "kubelet",
        "scrape_interval": f"{SCRAPE_S}s",
        "metrics_path": "/metrics/cadvisor",
        "static_configs": [{"targets": [f"{HOST}:{kubelet_port}"], "labels": {"node": NODE}}],
    }
    exporters = exporters_of(PAGE.read_text())
    exporters["kafka"]["brokers"] = [kafka]
    return {
        "receivers": {
            "otlp": {"protocols": {"http": {"endpoint": f"{HOST}:{otlp}"}}},
            "prometheus": {"config": {"scrape_configs": [scrape]}},
        },
        "exporters": exporters,
        "service": {
            "telemetry": {"metrics": {"level": "none"}},
            "pipelines": {"metrics": {"receivers": ["otlp", "prometheus"], "exporters": ["kafka"]}},
        },
    }


def exporters_of(page: str) -> dict[str, Any]:
    """What docs/quickstart.md has the Collector export."""
    blocks = re.findall(r"```yaml\n(exporters:.*?)```", page, re.DOTALL)
    return dict(yaml.safe_load(blocks[0])["exporters"])


@contextmanager
def trial(folder: Path, kubeconfig: Path, settings: Mapping[str, str]) -> Iterator[str]:
    """`cohabit trial`; where collectors reach its Kafka."""
    (port,) = free_ports(1)
    words = ["trial", "--listen", f"{HOST}:{port}", "--kubeconfig", str(kubeconfig), "--every", "20"]
    command = [sys.executable, "-m", "cohabit", *words, "--folder", str(folder / "trial")]
    with running(command, folder / "trial.log", {**os.environ, **settings}) as process:
        process.until(lambda: "Kafka for the Collector" in process.log.read_text())
        yield f"{HOST}:{port}"


def ask(load: Path, server: Server, per_s: int, seconds: int, folder: Path) -> "subprocess.Popen[bytes]":
    """Begin to ask a server's routes in turn at a fixed rate."""
    targets = folder / f"{server.pod}.targets"
    targets.write_text("".join(f"GET http://{HOST}:{server.port}{route}\n" for route in ROUTES))
    words = ["attack", f"-rate={per_s}", f"-duration={seconds}s", f"-targets={targets}", "-max-workers=64"]
    return subprocess.Popen([load, *words, f"-output={folder / server.pod}.bin"])


def asked(load: Path, server: Server, folder: Path) -> Asked:
    """What was measured of a server that was asked."""
    words = ["encode", "--to=json", f"{folder / server.pod}.bin"]
    done = subprocess.run([load, *words], capture_output=True, text=True, check=True)
    results = [json.loads(line) for line in done.stdout.splitlines()]
    times = [_seconds(one["timestamp"]) for one in results]
    good = [one["latency"] / 1e6 for one in results if one["code"] == 200]
    return Asked((len(results) - 1) / (max(times) - min(times)), sum(good) / len(good))


def _seconds(stamp: str) -> float:
    """Seconds within a day of RFC 3339 with nanoseconds."""
    hours, minutes, seconds = re.split(r"[T:Z+]", stamp)[1:4]
    return 3600 * float(hours) + 60 * float(minutes) + float(seconds)
