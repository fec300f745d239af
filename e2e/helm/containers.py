"""Containers: those of a pod as a Kubernetes API holds it, as command lines of this machine. An edge.

The entry point is that of the image's Containerfile. ConfigMaps and Secrets come from the API, a volume is a folder,
and a path below a mount becomes one in its folder. Ports are free ones, by the settings that there are for them.
"""

import base64
import json
import os
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from e2e.helm.chart import DEPLOY
from e2e.helm.objects import get
from e2e.kube.api import Api
from e2e.kube.processes import HOST, free_ports

PORTS = {
    "people": "COHABIT_ADVISOR__PORT",
    "schedulers": "COHABIT_ADVISOR__SCHEDULER_PORT",
    "metrics": "COHABIT_KAFKA__METRICS_PORT",
}
"""Setting of a container's port, by its name: pods of one machine share its ports."""
ANY_ADDRESS = "0.0.0.0"  # noqa: S104 - replaced by loopback
KEPT = ("HOME", "PATH", "LANG", "JAVA_HOME", "COHABIT_CACHE")
"""Variables of this process that a container has too."""


@dataclass(frozen=True)
class Command:
    """A command line of this machine.

    Args:
        words: the program and its arguments.
        env: all its variables.
        places: paths and addresses of the container, and those of this machine.
    """

    words: list[str]
    env: dict[str, str]
    places: dict[str, str]


@dataclass
class Machine:
    """A machine that stands for all nodes.

    Args:
        api: what holds pods, ConfigMaps and Secrets.
        namespace: of the pods.
        folder: gets volumes, by claim, Secret, or pod and name.
    """

    api: Api
    namespace: str
    folder: Path
    _ports: dict[tuple[str, str], int] = field(default_factory=dict, init=False)

    def port(self, pod: str, name: str) -> int:
        """Port of a pod by its name; the same whenever it is asked for."""
        if (pod, name) not in self._ports:
            self._ports[pod, name] = free_ports(1)[0]
        return self._ports[pod, name]

    def command(self, pod: Any, container: Any) -> Command:
        """What a container of a pod runs."""
        volumes = {one["name"]: self._folder_of(pod, one) for one in pod["spec"].get("volumes", ())}
        mounts = {one["mountPath"]: str(volumes[one["name"]]) for one in container.get("volumeMounts", ())}
        places = {**mounts, ANY_ADDRESS: HOST}
        words = [*container.get("command", entry_point(container["image"])), *container.get("args", ())]
        own = {name: placed(value, places) for name, value in self._variables(container)}
        own |= {
            PORTS[one["name"]]: str(self.port(pod["metadata"]["name"], one["name"]))
            for one in container.get("ports", ())
        }
        return Command([placed(word, places) for word in words], {**kept(), "TMPDIR": mounts["/tmp"], **own}, places)  # noqa: S108

    def _variables(self, container: Any) -> Iterator[tuple[str, str]]:
        for source in container.get("envFrom", ()):
            if reference := source.get("secretRef"):
                found = self._get("secrets", reference["name"])["data"]
                yield from ((name, base64.b64decode(value).decode()) for name, value in found.items())
            else:
                yield from self._get("configmaps", source["configMapRef"]["name"])["data"].items()
        for one in container.get("env", ()):
            if reference := one.get("valueFrom", {}).get("secretKeyRef"):
                secret = self._get("secrets", reference["name"])["data"]
                yield one["name"], base64.b64decode(secret[reference["key"]]).decode()
            else:
                yield one["name"], one.get("value", "")

    def _folder_of(self, pod: Any, volume: Any) -> Path:
        """Folder of a volume; that of a Secret with its files."""
        if claim := volume.get("persistentVolumeClaim"):
            folder = self.claim(claim["claimName"])
        elif secret := volume.get("secret"):
            folder = self.folder / "secrets" / secret["secretName"]
        else:
            folder = self.folder / "pods" / pod["metadata"]["name"] / volume["name"]
        folder.mkdir(parents=True, exist_ok=True)
        if secret := volume.get("secret"):
            for key, value in self._get("secrets", secret["secretName"])["data"].items():
                (folder / key).write_bytes(base64.b64decode(value))
        return folder

    def claim(self, name: str) -> Path:
        """Folder of a claim."""
        return self.folder / "claims" / name

    def _get(self, kind: str, name: str) -> Any:
        return get(self.api, f"/api/v1/namespaces/{self.namespace}/{kind}/{name}")


def entry_point(image: str) -> list[str]:
    """Entry point of one of our images."""
    name = re.split("[:@]", image.rpartition("/")[2])[0].removeprefix("cohabit-")
    text = (DEPLOY / "images" / f"{name}.Containerfile").read_text()
    return [str(word) for word in json.loads(re.findall(r"^ENTRYPOINT (\[.*\])$", text, re.MULTILINE)[-1])]


def placed(text: str, places: Mapping[str, str]) -> str:
    """A text with other paths and addresses; a path is replaced up to the end of its last folder."""
    longest = sorted(places, key=len, reverse=True)
    return re.sub(rf"(?:{'|'.join(map(re.escape, longest))})(?![\w.-])", lambda found: places[found[0]], text)


def kept() -> dict[str, str]:
    """Variables of this process that a container has too, with this interpreter's programs first."""
    own = {name: os.environ[name] for name in KEPT if name in os.environ}
    return {**own, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{own['PATH']}", "COLUMNS": "200"}
