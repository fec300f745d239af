"""Clients: the Go program beside this file, which runs the released clients, built and called. An edge."""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from e2e.kube.binaries import download, go
from e2e.kube.errors import BuildFailed, E2eError, NoGo
from e2e.volcano.twin import Passed
from ingest.devkafka.java import cache_folder

MODULE = Path(__file__).parent
MODULES = {"volcano": "volcano.sh/volcano", "kubernetes": "k8s.io/kubernetes"}
VERSIONS = {"1.10": ("go.mod", ""), "1.14": ("volcano-1.14.mod", "volcano114")}
"""File of versions and build tag, by release of Volcano; the oldest first."""
LIMIT_S = 600.0
QUIET = {"KUBECONFIG": os.devnull}
"""Or a plugin that is not used complains that there is no cluster."""


class ClientFailed(E2eError):
    """The released clients did not do what they were told, or ended early."""

    def __init__(self, what: str, said: str) -> None:
        self.what, self.said = what, said
        super().__init__(f"`clients {what}` failed; it said:\n{said}")


@dataclass(frozen=True)
class Understood:
    """What a client made of a reply.

    Args:
        scores: by node; None where it failed, and of kube-scheduler's client.
        hosts: with their scores in the reply's order; None where it failed, and of Volcano's.
        failed: whether the client took it for a failure.
        passed: what kube-scheduler's filter leaves; None of the others, and where it failed.
    """

    scores: Mapping[str, float] | None
    hosts: Sequence[tuple[str, int]] | None
    failed: bool
    passed: Passed | None = None


@dataclass(frozen=True)
class Reply:
    """A body, the client that gets it, and the names that the client had asked about.

    Args:
        client: `volcano`, `kube`, `filter`, or `filter-nodes` for a filter that is asked by whole nodes.
        offered: names of nodes.
        body: the reply.
    """

    client: str
    offered: Sequence[str]
    body: bytes


@dataclass(frozen=True)
class Placed:
    """What became of a session of Volcano's scheduler.

    Args:
        node_of: each pod that got one.
        offered: by pod the nodes that the plugin sent.
        scores: by pod what the advisor said of them, as the plugin's own type reads it.
        panicked: whether the scheduler fell over.
    """

    node_of: Mapping[str, str]
    offered: Mapping[str, Sequence[str]]
    scores: Mapping[str, Mapping[str, float]]
    panicked: bool = False


def versions(go_mod: str) -> dict[str, str]:
    """Versions of Go, Volcano and Kubernetes in a go.mod."""
    patterns = {name: rf"^\s+{re.escape(module)} v(\S+)" for name, module in MODULES.items()}
    patterns["go"] = r"^go (\d+\.\d+)"
    found = {name: re.search(pattern, go_mod, re.MULTILINE) for name, pattern in patterns.items()}
    return {name: match[1] for name, match in found.items() if match}


def built(release: str, say: Callable[[str], None]) -> Path:
    """The program of a release of Volcano; go itself knows whether it must be built again.

    Raises:
        NoGo: there is no Go toolchain.
        BuildFailed: a download failed several times, or the build once.
    """
    modfile, tag = VERSIONS[release]
    of = versions((MODULE / modfile).read_text())
    if shutil.which("go") is None:
        raise NoGo(of["go"], "Volcano's extender plugin and kube-scheduler's client")
    say(f"building the clients of Volcano {of['volcano']} and Kubernetes {of['kubernetes']} (minutes, once)")
    download(MODULE, modfile)
    program = cache_folder() / f"clients-volcano-{of['volcano']}-kube-{of['kubernetes']}"
    program.parent.mkdir(parents=True, exist_ok=True)
    words = ("-mod=readonly", f"-modfile={modfile}", "-tags", tag, "-trimpath", "-ldflags", "-s -w")
    failed = go(MODULE, "build", *words, "-o", str(program), "./clients")
    if failed is not None:
        raise BuildFailed("building the clients", failed)
    return program


def requests(program: Path, folder: Path) -> dict[str, bytes]:
    """What both clients send, by file name.

    Raises:
        ClientFailed: it did not write them.
    """
    _called(program, "requests", str(folder))
    return {path.name: path.read_bytes() for path in folder.glob("*.request.json")}


def understood(program: Path, replies: Iterable[Reply]) -> list[Understood]:
    """What the clients make of replies.

    Raises:
        ClientFailed: it ended early.
    """
    said = ({"client": one.client, "offered": list(one.offered), "reply": one.body.decode()} for one in replies)
    lines = "".join(json.dumps(one) + "\n" for one in said)
    read = [json.loads(line) for line in _called(program, "read", told=lines).splitlines()]
    return [Understood(one["scores"], _hosts(one["list"]), one["failed"], _passed(one["passed"])) for one in read]


def _passed(said: dict[str, Any] | None) -> Passed | None:
    return None if said is None else Passed(said["nodes"], said["refused"] or {}, said["unresolvable"] or {})


def _hosts(said: list[dict[str, object]] | None) -> list[tuple[str, int]] | None:
    return None if said is None else [(str(one["Host"]), int(str(one["Score"]))) for one in said]


def placed(program: Path, configuration: str, nodes: Sequence[str], app_of: Mapping[str, str]) -> Placed:
    """Where Volcano's scheduler puts pods, each of an app.

    Raises:
        ClientFailed: it refused the case.
    """
    pods = [{"name": name, "app": app} for name, app in app_of.items()]
    told = json.dumps({"configuration": configuration, "nodes": list(nodes), "pods": pods})
    try:
        said = json.loads(_called(program, "allocate", told=told))
    except ClientFailed as error:
        if "panic: runtime error" in error.said:
            return Placed({}, {}, {}, panicked=True)
        raise
    node_of = {pod.removeprefix("default/"): node for pod, node in said["bound"].items()}
    return Placed(node_of, said["offered"], said["scores"])


def _called(program: Path, *words: str, told: str = "") -> str:
    done = subprocess.run(
        [program, *words],
        input=told,
        env={**os.environ, **QUIET},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    if done.returncode:
        raise ClientFailed(words[0], done.stderr[-3000:])
    return done.stdout
