"""Manifests, read without any tool: what our kustomizations name, generate and replace, and nothing else."""

import re
import shutil
import subprocess
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import yaml

Manifest = dict[str, Any]

DEPLOY = Path(__file__).parents[2] / "deploy"
EXAMPLE = DEPLOY / "kubernetes" / "example"
BASE = DEPLOY / "kubernetes" / "base"
BUCKET_PAGE = DEPLOY.parent / "docs" / "bucket.md"
WORKLOADS = ("Deployment", "StatefulSet", "Job")
DEFAULT_ACCOUNT = "default"


def read(folder: Path) -> list[Manifest]:
    """Everything that a kustomization makes, but for namespaces, images and hashes in names."""
    [of] = documents(folder / "kustomization.yaml")
    found: list[Manifest] = []
    for name in of.get("resources", ()):
        path = folder / name
        found += read(path) if path.is_dir() else documents(path)
    for generated in of.get("configMapGenerator", ()):
        _generate(found, folder, generated)
    parts = [_component(folder / name) for name in of.get("components", ())]
    found += [manifest for resources, _ in parts for manifest in resources]
    for patch in (*(patch for _, patches in parts for patch in patches), *of.get("patches", ())):
        _patch(found, patch)
    return deepcopy(found)  # no two share what an anchor or a generator made


def documents(path: Path) -> list[Any]:
    """What a file of YAML holds, read by the parser in C."""
    return list(yaml.load_all(path.read_text(), yaml.CSafeLoader))


def _component(folder: Path) -> tuple[list[Manifest], list[Any]]:
    [of] = documents(folder / "kustomization.yaml")
    files = (folder / name for name in of.get("resources", ()))
    return [manifest for path in files for manifest in documents(path)], of.get("patches", [])


def _generate(found: list[Manifest], folder: Path, of: Any) -> None:
    data = {name: (folder / name).read_text() for name in of.get("files", ())}
    for name in of.get("envs", ()):
        lines = (line for line in (folder / name).read_text().splitlines() if line and not line.startswith("#"))
        data |= dict(line.split("=", 1) for line in lines)
    if of.get("behavior") == "merge":
        [before] = (one for one in named(found, "ConfigMap") if one["metadata"]["name"] == of["name"])
        before["data"] |= data
        return
    labels = of.get("options", {}).get("labels", {})
    metadata = {"name": of["name"], "labels": labels}
    found.append({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})


def _patch(found: list[Manifest], patch: Any) -> None:
    of, steps = patch["target"], yaml.safe_load(patch["patch"])
    for manifest in list(found):
        if re.fullmatch(of["kind"], manifest["kind"]) and re.fullmatch(of["name"], manifest["metadata"]["name"]):
            if isinstance(steps, dict):  # with `$patch: delete`
                found.remove(manifest)
            else:
                _step_by_step(manifest, steps)


def _step_by_step(manifest: Manifest, steps: list[Any]) -> None:
    for step in steps:
        *way, last = step["path"].strip("/").split("/")
        at: Any = manifest
        for word in way:
            at = at[int(word) if word.isdecimal() else word]
        place = int(last) if last.isdecimal() else last
        if step["op"] == "test":
            assert at[place] == step["value"], step
        elif step["op"] == "remove":
            del at[place]
        elif place == "-":
            at.append(step["value"])
        else:
            at[place] = step["value"]


def bucket_example(folder: Path) -> Path:
    """A copy of the example with its lake in a bucket, edited as docs/bucket.md does it before the first kubectl."""
    for name in ("kubernetes", "prometheus", "grafana"):
        shutil.copytree(DEPLOY / name, folder / "deploy" / name)
    block = re.findall(r"```sh\n(.*?)\n(?=kubectl)", BUCKET_PAGE.read_text(), re.DOTALL)[0]
    subprocess.run(["bash", "-euc", block], cwd=folder, check=True)
    return folder / "deploy" / "kubernetes" / "my"


def named(found: list[Manifest], *kinds: str) -> list[Manifest]:
    """Those of some kinds."""
    return [manifest for manifest in found if manifest["kind"] in kinds]


def name_of(manifest: Manifest) -> str:
    """As complaints call it."""
    return f"{manifest['kind']} {manifest['metadata']['name']}"


def pods(found: list[Manifest]) -> Iterator[tuple[str, Manifest]]:
    """The pod of each workload, with the workload's name."""
    for manifest in named(found, *WORKLOADS):
        yield name_of(manifest), manifest["spec"]["template"]


def containers(pod: Manifest) -> list[Manifest]:
    """All of a pod's, those that go before included."""
    return [*pod["spec"].get("initContainers", ()), *pod["spec"]["containers"]]


def matches(selector: Manifest, labels: Manifest) -> bool:
    """Whether a selector selects who has these labels; an empty one selects all."""
    exact = all(labels.get(key) == value for key, value in selector.get("matchLabels", {}).items())
    rules = selector.get("matchExpressions", ())
    return exact and all(rule["operator"] == "In" and labels.get(rule["key"]) in rule["values"] for rule in rules)


def selected(found: list[Manifest], selector: Manifest) -> list[Manifest]:
    """Pods that a selector selects."""
    return [pod for _, pod in pods(found) if matches(selector, pod["metadata"]["labels"])]


def environment(found: list[Manifest], container: Manifest) -> dict[str, str]:
    """Variables of a container; of a Secret's key, something of its kind."""
    maps = {one["metadata"]["name"]: one["data"] for one in named(found, "ConfigMap")}
    told: dict[str, str] = {}
    for source in container.get("envFrom", ()):
        told |= maps.get(source.get("configMapRef", {}).get("name", ""), {})
    for variable in container.get("env", ()):
        told[variable["name"]] = variable.get("value", "postgresql://cohabit@db.example:5432/cohabit")
    return told
