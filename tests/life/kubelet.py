"""The kubelet's /stats/summary, which OpenTelemetry's kubeletstats receiver and Telegraf's kubernetes input read.

CPU of a pod is that of its own cgroup; of containers of one name only the newest is shown (kubernetes
pkg/kubelet/stats/cadvisor_stats_provider.go, filterTerminatedContainerInfoAndAssembleByPodCgroupKey, v1.34).
usageNanoCores is the mean between the last two readings, usageCoreNanoSeconds the counter.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from tests.life.sending import HOUSEKEEPING_S, read_at
from tests.life.truth import Floats, Node, Pod, Timeline


class Stat(NamedTuple):
    """What the summary has of one thing at (n,) times: cores by the last two readings, core-seconds, bytes."""

    pod: Pod | None
    container: str | None
    at: Floats
    cores: Floats
    used: Floats
    memory_bytes: list[int]


def summary(timeline: Timeline, node: Node, at: Floats) -> Iterator[Stat]:
    """The node, its pods, and their containers."""
    read = read_at(at)
    there, before = at[read >= node.start], read[read >= node.start]
    used = timeline.node_used(node, before)
    cores = (used - timeline.node_used(node, before - HOUSEKEEPING_S)) / HOUSEKEEPING_S
    yield Stat(None, None, there, cores, used, [8 << 30] * len(there))
    for pod in timeline.on(node):
        inside = (read >= pod.start) & (at < pod.end)
        there, before = at[inside], read[inside]
        cores = (pod.used(before) - pod.used(before - HOUSEKEEPING_S)) / HOUSEKEEPING_S
        memory = np.sum(
            [((before >= run.start) & (before < run.end)) * run.memory_bytes for run in pod.instances], axis=0
        )
        if len(there):
            yield Stat(pod, None, there, cores, pod.used(before), [int(total) for total in memory.tolist()])
        yield from _containers(pod, at, read)


def _containers(pod: Pod, at: Floats, read: Floats) -> Iterator[Stat]:
    for run in pod.instances:
        inside = (read >= run.start) & (at < run.end)
        there, before = at[inside], read[inside]
        cores = (run.used(before) - run.used(before - HOUSEKEEPING_S)) / HOUSEKEEPING_S
        if len(there):
            yield Stat(pod, run.name, there, cores, run.used(before), [run.memory_bytes] * len(there))
