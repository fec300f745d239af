"""Control plane: etcd, kube-apiserver and kube-scheduler on loopback, in a folder of their own. An edge."""

import base64
import json
import re
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from time import time_ns
from types import MappingProxyType
from typing import Any, Literal

import yaml

from e2e.kube.api import NODES, Api, node_body
from e2e.kube.processes import HOST, Running, answers, free_ports, running

Advice = Literal["prioritize", "filter", "filter, all nodes"]
"""What kube-scheduler asks, and of how many nodes: as sampled by default, or all that are feasible."""
PAGE = Path(__file__).parents[2] / "docs" / "scheduler.md"
P256 = bytes.fromhex("a00a06082a8648ce3d030107")
"""The curve, as the parameters of a private key name it."""
CONTROLLERS = ("deployment-controller", "replicaset-controller", "disruption-controller")
"""What makes pods of Deployments, and what counts disruptions."""
REQUESTS_PER_S = 5000
"""kube-scheduler's own 50 would be what is measured."""


@dataclass(frozen=True)
class ControlPlane:
    """etcd and kube-apiserver at work."""

    folder: Path
    binaries: Path
    api: Api

    @property
    def kubeconfig(self) -> Path:
        """File of an administrator."""
        return self.folder / "kubeconfig"

    @contextmanager
    def scheduler(
        self,
        advisor: int | None,
        verbosity: int = 5,
        advice: Advice = "prioritize",
        changed: Mapping[str, object] = MappingProxyType({}),
    ) -> Iterator[Running]:
        """kube-scheduler, with a sample configuration for an advisor on that port, or without any.

        `changed` are fields of the extender that differ from the sample.
        """
        made = scheduler_config(PAGE.read_text(), advisor, self.kubeconfig, advice)
        extenders = [{**one, **changed} for one in made["extenders"]]
        with self.scheduler_by({**made, "extenders": extenders}, verbosity) as process:
            yield process

    @contextmanager
    def scheduler_by(
        self, content: Mapping[str, Any], verbosity: int = 5, program: Path | None = None
    ) -> Iterator[Running]:
        """kube-scheduler, or another program in its place, with that KubeSchedulerConfiguration."""
        config = self.folder / "scheduler.json"
        config.write_text(json.dumps(content))
        words = (f"--config={config}", "--secure-port=0", f"--vmodule=schedule_one={verbosity}", "--v=2")
        log = self.folder / f"kube-scheduler-{verbosity}.log"
        with running([program or self.binaries / "kube-scheduler", *words], log) as process:
            yield process

    @contextmanager
    def controllers(self, names: Sequence[str] = CONTROLLERS) -> Iterator[Running]:
        """kube-controller-manager, with these controllers."""
        words = (
            f"--kubeconfig={self.kubeconfig}",
            f"--controllers={','.join(names)}",
            "--leader-elect=false",
            "--secure-port=0",
            f"--kube-api-qps={REQUESTS_PER_S}",
            f"--kube-api-burst={REQUESTS_PER_S}",
        )
        log = self.folder / "kube-controller-manager.log"
        with running([self.binaries / "kube-controller-manager", *words], log) as process:
            yield process


def advised(page: str, advice: Advice = "prioritize") -> dict[str, Any]:
    """A configuration that docs/scheduler.md advises: the first one, or the one that steers pods."""
    found = [yaml.safe_load(block) for block in re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)]
    first, steering = (one for one in found if one.get("kind") == "KubeSchedulerConfiguration" and one.get("extenders"))
    return dict(first if advice == "prioritize" else steering)


def extender_of(page: str, advice: Advice = "prioritize") -> dict[str, Any]:
    """The extender of a configuration that docs/scheduler.md advises."""
    [extender] = advised(page, advice)["extenders"]
    return dict(extender)


def scheduler_config(
    page: str, advisor: int | None, kubeconfig: Path, advice: Advice = "prioritize"
) -> Mapping[str, Any]:
    """KubeSchedulerConfiguration: what the page advises, but for the advisor's port."""
    extender = extender_of(page, advice)
    extender["urlPrefix"] = re.sub(r":\d+", f":{advisor}", extender["urlPrefix"])
    sampling = "percentageOfNodesToScore"
    return {
        **({sampling: advised(page, advice)[sampling]} if advice == "filter, all nodes" else {}),
        **scheduler_of([] if advisor is None else [extender], kubeconfig),
    }


def scheduler_of(extenders: Sequence[Mapping[str, Any]], kubeconfig: Path) -> Mapping[str, Any]:
    """KubeSchedulerConfiguration: these extenders, in a cluster with one scheduler."""
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": str(kubeconfig), "qps": REQUESTS_PER_S, "burst": REQUESTS_PER_S},
        "leaderElection": {"leaderElect": False},
        "extenders": list(extenders),
    }


@contextmanager
def control_plane(folder: Path, binaries: Path, nodes: Sequence[str]) -> Iterator[ControlPlane]:
    """A cluster with these nodes and no scheduler yet."""
    folder.mkdir()
    client, peer, port = free_ports(3)
    api = Api(port, secrets.token_hex(16), folder / "certificates" / "apiserver.crt")
    _write_secrets(folder, api)
    with running(_etcd(binaries, folder, client, peer), folder / "etcd.log") as etcd:
        etcd.until(lambda: answers(client))
        with running(_apiserver(binaries, folder, port, client), folder / "kube-apiserver.log") as server:
            server.until(api.is_ready)
            now = f"{datetime.fromtimestamp(time_ns() // 10**9, UTC):%Y-%m-%dT%H:%M:%SZ}"
            api.create(NODES, [node_body(name, now) for name in nodes])
            yield ControlPlane(folder, binaries, api)


def signing_key() -> str:
    """A new private key on P-256 for service accounts, as PEM of RFC 5915."""
    content = b"\x02\x01\x01\x04\x20" + secrets.token_bytes(32) + P256
    return pem("EC PRIVATE KEY", b"\x30" + bytes([len(content)]) + content)


def pem(label: str, content: bytes) -> str:
    """Content of less than 128 bytes between its two lines."""
    return f"-----BEGIN {label}-----\n{base64.b64encode(content).decode()}\n-----END {label}-----\n"


def _write_secrets(folder: Path, api: Api) -> None:
    (folder / "tokens.csv").write_text(f"{api.token},admin,admin,system:masters\n")
    (folder / "service-accounts.key").write_text(signing_key())
    cluster = {"server": f"https://{HOST}:{api.port}", "certificate-authority": str(api.certificate)}
    kubeconfig = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "e2e", "cluster": cluster}],
        "users": [{"name": "admin", "user": {"token": api.token}}],
        "contexts": [{"name": "e2e", "context": {"cluster": "e2e", "user": "admin"}}],
        "current-context": "e2e",
    }
    (folder / "kubeconfig").write_text(json.dumps(kubeconfig))


def _etcd(binaries: Path, folder: Path, client: int, peer: int) -> list[str | Path]:
    mine, others = f"http://{HOST}:{client}", f"http://{HOST}:{peer}"
    return [
        binaries / "etcd",
        f"--data-dir={folder / 'etcd'}",
        f"--listen-client-urls={mine}",
        f"--advertise-client-urls={mine}",
        f"--listen-peer-urls={others}",
        f"--initial-advertise-peer-urls={others}",
        f"--initial-cluster=default={others}",
        "--unsafe-no-fsync",  # a cluster of minutes
    ]


def _apiserver(binaries: Path, folder: Path, port: int, etcd: int) -> list[str | Path]:
    key = folder / "service-accounts.key"
    return [
        binaries / "kube-apiserver",
        f"--etcd-servers=http://{HOST}:{etcd}",
        f"--bind-address={HOST}",
        f"--advertise-address={HOST}",
        f"--secure-port={port}",
        f"--cert-dir={folder / 'certificates'}",
        f"--token-auth-file={folder / 'tokens.csv'}",
        "--authorization-mode=AlwaysAllow",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={key}",
        f"--service-account-signing-key-file={key}",
        "--service-cluster-ip-range=10.96.0.0/12",  # as kubeadm has it
        "--endpoint-reconciler-type=none",  # no Service may point to loopback
        # controllers would make accounts for pods, and take the taint off new nodes
        "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition",
        "--enable-priority-and-fairness=false",
        "--max-requests-inflight=2000",
        "--max-mutating-requests-inflight=1000",
    ]
