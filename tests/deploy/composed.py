"""`make e2e-compose`: the commands of compose.yaml, run without containers against a real broker and PostgreSQL.

Commands, environment, order and health checks are read from the file. Folders below /data become a temporary folder,
and names of the two servers the addresses of real ones. Exit 1 where a command fails or does not become healthy.
"""

import json
import os
import re
import shlex
import subprocess
import sys
import urllib.parse
import urllib.request
from collections.abc import Mapping
from contextlib import ExitStack
from graphlib import TopologicalSorter
from pathlib import Path
from time import monotonic
from typing import Any

import yaml

from cohabit.terminal.console import console
from e2e.kube.errors import E2eError
from e2e.kube.processes import free_ports, running
from ingest.devkafka.broker import running_broker
from tests.advisor.postgres_server import running_postgres
from tests.deploy.run_to_end import exit_code

COMPOSE = Path(__file__).parents[2] / "compose.yaml"
IMAGE = "cohabit-jobs"
HEALTHY_S = 180.0


class ServiceFailed(E2eError):
    """A command of a service failed."""

    def __init__(self, name: str, said: str) -> None:
        self.name = name
        super().__init__(f"service {name} failed:\n{said[-3000:]}")


def services(path: Path) -> dict[str, Any]:
    """Services of a Compose file, with what they merge in."""
    return dict(yaml.safe_load(path.read_text())["services"])


def ours(found: Mapping[str, Any]) -> list[str]:
    """Names of the services that run our image."""
    return [name for name, service in found.items() if service["image"].startswith(IMAGE)]


def order(found: Mapping[str, Any]) -> list[str]:
    """Our services, each after those that it waits for."""
    graph = {name: list(service.get("depends_on", ())) for name, service in found.items()}
    return [name for name in TopologicalSorter(graph).static_order() if name in ours(found)]


def commands_of(service: Any) -> list[list[str]]:
    """Our commands that a service runs, without `cohabit`."""
    if "entrypoint" not in service:
        return [list(service["command"])]
    return [shlex.split(words) for words in re.findall(r"\bcohabit ([a-z][^&|;}]*)", service["command"][0])]


def environment_of(service: Any) -> dict[str, str]:
    """Variables of a service, with the defaults of what the file interpolates."""
    return {name: re.sub(r"\$\{\w+:-(\w*)\}", r"\1", str(value)) for name, value in service["environment"].items()}


def words_of(service: Any) -> list[str]:
    """The whole command line of a service, in the environment of this interpreter."""
    return [*service.get("entrypoint", ["cohabit"]), *service["command"]]


def placed(text: str, places: Mapping[str, str]) -> str:
    """A text with other addresses and folders."""
    return re.sub("|".join(map(re.escape, places)), lambda found: places[found[0]], text)


def main() -> int:
    """Run everything; the exit code."""
    return exit_code(_run, "compose")


def _run(folder: Path, stack: ExitStack) -> None:
    (folder / "data").mkdir()
    (folder / "tmp").mkdir()
    broker = stack.enter_context(running_broker(folder / "broker"))
    address = stack.enter_context(running_postgres())()
    page, metrics = free_ports(2)
    places = {
        "kafka:9092": broker.bootstrap,
        "postgresql://cohabit:laptop@postgres:5432/cohabit": address,
        "/data": str(folder / "data"),
        "/tmp": str(folder / "tmp"),  # noqa: S108
        "9100": str(metrics),
        "0.0.0.0": "127.0.0.1",  # noqa: S104
    }
    settings = {"COHABIT_ADVISOR__PORT": str(page), "COHABIT_ADVISOR__SCHEDULER_PORT": "0"}
    found = services(COMPOSE)
    for name in order(found):
        began = monotonic()
        _serve(name, found[name], folder, places | {"localhost:8080": f"localhost:{page}"}, settings, stack)
        console.print(
            f"{name}: {'healthy' if 'healthcheck' in found[name] else 'completed'}, {monotonic() - began:.0f} s"
        )
    _ask(page, found["serve"], folder, places, settings)


def _serve(
    name: str, service: Any, folder: Path, places: Mapping[str, str], settings: Mapping[str, str], stack: ExitStack
) -> None:
    """Run a service to its end, or until it is healthy."""
    words = [placed(word, places) for word in words_of(service)]
    env = _environment(service, folder, places, settings)
    if "healthcheck" not in service:
        _completed(name, words, env)
        return
    process = stack.enter_context(running(words, folder / f"{name}.log", env))
    _, *check = service["healthcheck"]["test"]
    probe = [placed(word, places) for word in check]
    process.until(lambda: subprocess.run(probe, env=env, capture_output=True, check=False).returncode == 0, HEALTHY_S)


def _environment(service: Any, folder: Path, places: Mapping[str, str], settings: Mapping[str, str]) -> dict[str, str]:
    own = {name: placed(value, places) for name, value in environment_of(service).items()}
    kept = {name: value for name, value in os.environ.items() if not name.startswith("COHABIT_")}
    path = f"{Path(sys.executable).parent}{os.pathsep}{kept['PATH']}"
    cache = {name: value for name, value in os.environ.items() if name == "COHABIT_CACHE"}
    return {**kept, **cache, **own, **settings, "PATH": path, "TMPDIR": str(folder / "tmp"), "COLUMNS": "200"}


def _completed(name: str, words: list[str], env: Mapping[str, str]) -> str:
    done = subprocess.run(words, env=env, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ServiceFailed(name, done.stdout + done.stderr)
    return done.stdout


def _ask(page: int, serve: Any, folder: Path, places: Mapping[str, str], settings: Mapping[str, str]) -> None:
    """Make a token as the file says, and ask for scores and for the page."""
    [words] = re.findall(r"docker compose run --rm serve (admin token create .*)", COMPOSE.read_text())
    said = _completed("token", ["cohabit", *words.split()], _environment(serve, folder, places, settings))
    token = next(word for line in said.splitlines() for word in line.split() if len(word) > 30)
    nodes = json.loads(_fetched(page, "/v1/scores", token, {"app": "app-003"}))["nodes"]
    scores = sorted({one["score"] for one in nodes})
    seen = _page(page, token)
    if len(nodes) != 8 or "node-0000" not in seen:
        raise ServiceFailed("serve", f"{len(nodes)} nodes; page:\n{seen}")
    figures = f"{len(nodes)} nodes have scores {scores}; the cluster page has {len(seen):,} characters"
    console.print(f"serve: {figures}", soft_wrap=True)


def _page(port: int, token: str) -> str:
    """The cluster page, as one sees it who logs in with a token."""
    site = f"http://127.0.0.1:{port}/ui"
    opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
    with opener.open(f"{site}/login", timeout=30) as reply:
        fields = dict(re.findall(r'name="(\w+)" value="([^"]*)"', reply.read().decode()))
    form = urllib.parse.urlencode({**fields, "token": token}).encode()
    with opener.open(urllib.request.Request(f"{site}/login", form), timeout=30):  # noqa: S310
        pass
    with opener.open(f"{site}/cluster", timeout=30) as reply:
        return str(reply.read().decode())


def _fetched(port: int, path: str, token: str, body: object = None) -> str:
    content = None if body is None else json.dumps(body).encode()
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", content, headers)
    with urllib.request.urlopen(request, timeout=30) as reply:  # noqa: S310
        return str(reply.read().decode())


if __name__ == "__main__":
    sys.exit(main())
