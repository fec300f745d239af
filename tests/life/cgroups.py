"""Cgroups of a node as cAdvisor finds them: pods' own, their containers', and the sandbox of each.

Paths are those of the systemd cgroup driver with containerd: a pod's slice has its uid with _ for -, a container is
cri-containerd-<id>.scope below it (kubernetes v1.34, pkg/kubelet/cm/pod_container_manager_linux.go). The uid is that of
the kubelet: of a static pod the config hash. A cgroup whose container was killed may be reported for some minutes more,
unchanged (google/cadvisor #2844, kubernetes/kubernetes #128538).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256

import numpy as np

from tests.life.truth import Floats, Instance, Node, Pod, Timeline

SANDBOX_BYTES = 700_000


@dataclass(frozen=True, slots=True)
class Cgroup:
    """One cgroup and when it is there.

    Args:
        pod: whose.
        path: absolute.
        run: the run of a container in it; None of a pod's own and of a sandbox.
        id: of the container or sandbox; empty of a pod's own.
        start: when it was made.
        end: when cAdvisor reports it no more.
    """

    pod: Pod
    path: str
    run: Instance | None
    id: str
    start: float
    end: float

    def used(self, at: Floats) -> Floats:
        """(n,) CPU counter, core-seconds."""
        if self.run is not None:
            return self.run.used(at)
        return np.full(len(at), 0.02) if self.id else self.pod.used(at)

    def memory(self, at: Floats) -> list[int]:
        """(n,) working set, bytes; that of a dead cgroup stands still."""
        if self.run is not None:
            return [self.run.memory_bytes] * len(at)
        if self.id:
            return [SANDBOX_BYTES] * len(at)
        runs = [((at >= run.start) & (at < run.end)) * run.memory_bytes for run in self.pod.instances]
        return [int(total) for total in np.sum(runs, axis=0)]


def cgroups(timeline: Timeline, node: Node) -> Iterator[Cgroup]:
    """All cgroups of pods in one life of a node, as far as the timeline scrapes them."""
    for pod in timeline.on(node):
        prefix = (
            f"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{pod.cgroup_uid.replace('-', '_')}.slice"
        )
        if timeline.pod_cgroup:
            yield Cgroup(pod, prefix, None, "", pod.start, pod.end)
        if timeline.sandboxes:
            code = sha256(pod.uid.encode()).hexdigest()
            yield Cgroup(pod, f"{prefix}/cri-containerd-{code}.scope", None, code, pod.start, pod.end)
        for run in pod.instances:
            path = f"{prefix}/cri-containerd-{run.id}.scope"
            yield Cgroup(pod, path, run, run.id, run.start, run.end + run.frozen_s)
