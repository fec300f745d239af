"""A site: several real servers of several workers over one registry and one folder of snapshots, that take turns."""

import http.client
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from itertools import count as counting
from pathlib import Path
from time import monotonic, sleep
from urllib.request import urlopen

import numpy as np
from numpy.typing import NDArray

from advisor.cluster.pending_pod import PodClass
from cohabit.server.reload import RELOAD_EVERY_S
from cohabit.server.sockets import free_socket

Ask = Callable[[PodClass, str, Sequence[str]], NDArray[np.int64]]
"""Points of nodes for a pod of a class, by its uid."""
STARTED_WITHIN_S = 60.0


@dataclass(frozen=True)
class Site:
    """What is served, and by how many.

    Args:
        folder: with `registry` and `snapshots`.
        servers: that know of each other.
        workers: of each.
    """

    folder: Path
    servers: int
    workers: int

    def fresh_folder(self) -> Path:
        """An empty folder, for the journals of a server within this process."""
        return Path(tempfile.mkdtemp(dir=self.folder))

    @contextmanager
    def running(self, of: PodClass) -> Iterator[Ask]:
        """All of them, once their tables hold a class; each request goes to the next server by a new connection."""
        ports = free_ports(self.servers)
        with ExitStack() as stack:
            mains = [stack.enter_context(self._server(port, ports)) for port in ports]
            turn = counting()

            def ask(of: PodClass, uid: str, names: Sequence[str]) -> NDArray[np.int64]:
                return _points(ports[next(turn) % len(ports)], of, uid, names)

            deadline = monotonic() + STARTED_WITHIN_S
            while any(_classes(main) < len(FIRST_AND_OWN) for main in mains):
                for _ in ports:
                    ask(of, "", ["nowhere"])
                if monotonic() > deadline:
                    raise TimeoutError("no table holds the class")
                sleep(0.1)
            sleep(2 * RELOAD_EVERY_S)  # until every worker has looked again
            yield ask

    def _server(self, port: int, ports: Sequence[int]) -> AbstractContextManager[str]:
        """One `cohabit serve`; where people ask it."""
        peers = ",".join(f"http://127.0.0.1:{peer}" for peer in ports if peer != port)
        return serving(self.folder, port, {"PEERS": peers}, self.workers)


@contextmanager
def serving(folder: Path, port: int, advisor: Mapping[str, str], workers: int = 1) -> Iterator[str]:
    """`cohabit serve` of a folder's registry and snapshots, with settings of the advisor; its address for people."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("COHABIT_")}
    wished = {f"COHABIT_{of.upper()}": str(folder / of) for of in ("registry", "snapshots")} | {"COLUMNS": "200"}
    settings = {"MAX_FEATURE_AGE_S": "1e9", **advisor}
    wished |= {f"COHABIT_ADVISOR__{name}": value for name, value in settings.items()}
    command = [sys.executable, "-m", "cohabit", "serve", "--port", "0", "--scheduler-port", str(port)]
    command += ["--workers", str(workers)]
    with subprocess.Popen(command, env=kept | wished, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None  # noqa: S101 - asked for
        try:
            yield re.findall(r"http://[\d.:]+", process.stdout.readline())[0]
        finally:
            process.terminate()


FIRST_AND_OWN = ("unknown", "unknown best effort", "the swarm's")


def free_ports(many: int) -> list[int]:
    """Ports of loopback that nobody listens on now."""
    with ExitStack() as stack:
        return [stack.enter_context(free_socket(0)).getsockname()[1] for _ in range(many)]


def _points(port: int, of: PodClass, uid: str, names: Sequence[str]) -> NDArray[np.int64]:
    meta = {"uid": uid, "name": "pod", "namespace": "default", "labels": {"app": of.app}}
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    connection.request(
        "POST", "/extender/prioritize", json.dumps({"Pod": {"metadata": meta}, "NodeNames": list(names)})
    )
    reply = json.loads(connection.getresponse().read())
    connection.close()
    return np.array([entry["Score"] for entry in reply])


def _classes(main: str) -> int:
    return int(gauge(main, "cohabit_score_table_pod_classes"))


def gauge(main: str, name: str) -> float:
    """A gauge of the server that has an address for people; 0 where it has none yet."""
    with urlopen(f"{main}/metrics", timeout=10) as reply:  # noqa: S310 - our own server
        found = re.search(rf"^{name} (\S+)$", reply.read().decode(), re.MULTILINE)
    return float(found[1]) if found else 0.0
