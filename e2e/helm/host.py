"""Host: pods whose containers run as processes of this machine, ready as their probes say. An edge.

No container runtime is needed, and so neither images nor isolation are tested.
"""

import json
import subprocess
import urllib.request
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any

from e2e.helm.containers import Command, Machine
from e2e.helm.objects import COMPONENT, ENDED, Status, running_status, status_of
from e2e.kube.processes import HOST, Running, running

PENDING: Status = {"status": {"phase": "Pending"}}
COMMANDS = "commands"
"""Folder with the command of each container, by pod, for `e2e/helm/in_pod.py`."""


@dataclass
class Host:
    """Runs pods of some components, and says of all others that they run.

    Args:
        machine: where they run.
        components: those that run.
    """

    machine: Machine
    components: Collection[str]
    restarts: int = field(default=0, init=False)
    """Containers that ended and were started again."""
    _stacks: dict[str, ExitStack] = field(default_factory=dict, init=False)
    _processes: dict[str, dict[str, Running]] = field(default_factory=dict, init=False)
    """By uid of the pod and name of the container."""

    @contextmanager
    def at_work(self) -> Iterator["Host"]:
        """During the block."""
        try:
            yield self
        finally:
            for uid in list(self._stacks):
                self.end(uid)

    def state(self, pod: Any) -> Status:
        """Status of a pod, which is started, or started again, where it has to run."""
        uid, spec = pod["metadata"]["uid"], pod["spec"]
        if pod["metadata"]["labels"].get(COMPONENT) not in self.components:
            return status_of(pod)
        if uid not in self._processes and not all(self._completed(pod, one) for one in spec.get("initContainers", ())):
            return PENDING
        processes = self._processes.setdefault(uid, {})
        if spec["restartPolicy"] != "Always" and [one.guard.poll() for one in processes.values()] == [0] * len(
            spec["containers"]
        ):
            return ENDED
        for container in spec["containers"]:
            self._ensure(pod, container, processes)
        return running_status(ready=all(self._is_ready(pod, one) for one in spec["containers"]))

    def end(self, uid: str) -> None:
        """End the processes of a pod."""
        self._processes.pop(uid, None)
        self._stacks.pop(uid, ExitStack()).close()

    def _ensure(self, pod: Any, container: Any, processes: dict[str, Running]) -> None:
        """Start a container that does not run; one of a Job that ended well stays so."""
        name, before = container["name"], processes.get(container["name"])
        code = None if before is None else before.guard.poll()
        if before is not None and (code is None or (code == 0 and pod["spec"]["restartPolicy"] != "Always")):
            return
        self.restarts += before is not None
        command, stack = self._command(pod, container), self._stacks.setdefault(pod["metadata"]["uid"], ExitStack())
        log = self.machine.folder / "logs" / f"{pod['metadata']['name']}-{name}.log"
        log.parent.mkdir(exist_ok=True)
        processes[name] = stack.enter_context(running(command.words, log, command.env))

    def _completed(self, pod: Any, container: Any) -> bool:
        command = self._command(pod, container)
        return subprocess.run(command.words, env=command.env, check=False).returncode == 0

    def _command(self, pod: Any, container: Any) -> Command:
        command = self.machine.command(pod, container)
        folder = self.machine.folder / COMMANDS
        folder.mkdir(exist_ok=True)
        (folder / f"{pod['metadata']['name']}.json").write_text(json.dumps(asdict(command)))
        return command

    def _is_ready(self, pod: Any, container: Any) -> bool:
        if (probe := container.get("readinessProbe", {}).get("httpGet")) is None:
            return True
        port = self.machine.port(pod["metadata"]["name"], probe["port"])
        try:
            with urllib.request.urlopen(f"http://{HOST}:{port}{probe['path']}", timeout=5):
                return True
        except OSError:  # nothing listens, or another status than 200
            return False
