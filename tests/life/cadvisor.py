"""What cAdvisor sends with -storage_driver=kafka: one JSON object for each cgroup and housekeeping.

Keys are those of google/cadvisor cmd/internal/storage/kafka/kafka.go (detailSpec) and info/v1/container.go
(ContainerStats), v0.53: the spelling container_Name is theirs. Of a containerd container the preferred name is its id
and labels are those that the kubelet gave it; a slice has its path for a name, and neither id nor labels. machine_name
is the host's name, which with hostNetwork is the node's.
"""

import json
from datetime import UTC, datetime

import numpy as np

from tests.life.cgroups import Cgroup, cgroups
from tests.life.sending import Sent, scrapes, sent
from tests.life.truth import START_S, Floats, Rng, Timeline


def stats(timeline: Timeline, rng: Rng) -> list[Sent]:
    """Records of topic stats."""
    times: list[Floats] = []
    values: list[bytes] = []
    for node in timeline.nodes:
        at = scrapes(timeline, node, 0.5)
        values += _root(node.name, at)
        times.append(at)
        for group in cgroups(timeline, node):
            at = scrapes(timeline, node, float(rng.uniform(0, timeline.interval_s)))
            at = at[(at >= group.start) & (at < group.end)]
            values += _records(group, node.name, at)
            times.append(at)
    return sent(timeline, rng, np.concatenate(times), values) if values else []


def _records(group: Cgroup, machine: str, at: Floats) -> list[bytes]:
    head = json.dumps({"machine_name": machine, **_names(group)}, separators=(",", ":"))[1:-1]
    found = []
    for second, used, memory in zip(at.tolist(), group.used(at).tolist(), group.memory(at), strict=True):
        stamp = datetime.fromtimestamp(START_S + second, UTC).strftime("%Y-%m-%dT%H:%M:%S.%f000Z")
        cpu = f'{{"usage":{{"total":{round(used * 1e9)},"user":0,"system":0}},"cfs":{_CFS},"load_average":0}}'
        ram = f'{{"usage":{memory + 4096},"cache":0,"rss":{memory},"working_set":{memory},"failcnt":0}}'
        stat = f'{{"timestamp":"{stamp}","cpu":{cpu},"memory":{ram}}}'
        found.append(f'{{"timestamp":"{stamp}",{head},"container_stats":{stat}}}'.encode())
    return found


def _root(machine: str, at: Floats) -> list[bytes]:
    """The machine's own cgroup, which is always there."""
    stamps = (datetime.fromtimestamp(START_S + second, UTC).strftime("%Y-%m-%dT%H:%M:%S.%f000Z") for second in at)
    head = f'"machine_name":"{machine}","container_Name":"/"'
    stat = f'"memory":{{"working_set":{9 << 30}}}'
    return [f'{{"timestamp":"{t}",{head},"container_stats":{{"timestamp":"{t}",{stat}}}}}'.encode() for t in stamps]


_CFS = '{"periods":0,"throttled_periods":0,"throttled_time":0}'


def _names(group: Cgroup) -> dict[str, object]:
    if not group.id:
        return {"container_Name": group.path}
    pod = group.pod
    labels = {
        "io.cri-containerd.kind": "container" if group.run else "sandbox",
        "io.kubernetes.pod.name": pod.name,
        "io.kubernetes.pod.namespace": pod.namespace,
        "io.kubernetes.pod.uid": pod.cgroup_uid,
        **({"io.kubernetes.container.name": group.run.name} if group.run else {}),
    }
    return {"container_Name": group.id, "container_Id": group.id, "container_labels": labels}
