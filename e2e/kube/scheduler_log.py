"""Scheduler log: what kube-scheduler says it bound, lost and scored. Pure, but for reading on in a file.

The lines are those of pkg/scheduler/schedule_one.go: bindings at verbosity 2, lost answers of extenders at 5, every
score of every node at 10.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

POD, NODE = rb'pod="[^/]+/([^"]+)"', rb'node="([^"]+)"'
AT = re.compile(rb"^I\d\d(\d\d) (\d\d):(\d\d):([\d.]+) ")
BOUND = re.compile(rb'"Successfully bound pod to node" ' + POD + rb" " + NODE)
FAILED = re.compile(rb"\"Failed to run extender's priority function.*? err(?:or)?=\"(.*?[^\\])\"")
SCORED = re.compile(
    rb'"(?:Plugin|Extender) scored node for pod" ' + POD + rb' (plugin|extender)="[^"]*" ' + NODE + rb" score=(-?\d+)"
)
TOTAL = re.compile(rb'"Calculated node\'s final score for pod" ' + POD + rb" " + NODE + rb" score=(-?\d+)")
POINT = 10
"""Of the scheduler's scale for each of ours."""


@dataclass
class SchedulerLog:
    """What was read so far of a log that grows."""

    path: Path
    node_of: dict[str, str] = field(default_factory=dict)
    at_s: list[float] = field(default_factory=list)
    """Of each binding, since the month began."""
    lost: Counter[str] = field(default_factory=Counter)
    _offset: int = 0

    def read(self) -> int:
        """Read on; how many pods are bound."""
        with self.path.open("rb") as file:
            file.seek(self._offset)
            content = file.read()
        whole = content[: content.rfind(b"\n") + 1]
        self._offset += len(whole)
        self.take(whole.splitlines())
        return len(self.node_of)

    def take(self, lines: Iterable[bytes]) -> None:
        """Count what these lines tell."""
        for line in lines:
            if bound := BOUND.search(line):
                self.at_s.append(_at_s(line))
                self.node_of[bound[1].decode()] = bound[2].decode()
            elif failed := FAILED.search(line):
                self.lost[failed[1].decode().rpartition(": ")[2]] += 1

    def pods_per_s(self) -> float:
        """From the first binding to the last."""
        return (len(self.at_s) - 1) / max(max(self.at_s) - min(self.at_s), 1e-9)


def _at_s(line: bytes) -> float:
    """When a line was written, in seconds since the month began."""
    if (at := AT.search(line)) is None:
        return math.nan
    day, hour, minute = (int(at[i]) for i in (1, 2, 3))
    return ((day * 24 + hour) * 60 + minute) * 60 + float(at[4])


@dataclass
class NodeScore:
    """What one node got for one pod: the sum of plugins, our points, the total that decided."""

    plugins: int = 0
    points: int | None = None
    total: int | None = None


Scores = dict[str, dict[str, NodeScore]]
"""By pod and node."""


def scores_in(lines: Iterable[bytes]) -> Scores:
    """Every score of every node of every pod."""
    scores: Scores = {}
    for line in lines:
        if scored := SCORED.search(line):
            node = _node(scores, scored[1], scored[3])
            if scored[2] == b"plugin":
                node.plugins += int(scored[4])
            else:
                node.points = int(scored[4])
        elif total := TOTAL.search(line):
            _node(scores, total[1], total[2]).total = int(total[3])
    return scores


def waits_s(lines: Iterable[bytes]) -> list[float]:
    """How long kube-scheduler waited for our answer, pod by pod: between its last own score and our first."""
    waits, own, pod = list[float](), math.nan, b""
    for line in lines:
        if (scored := SCORED.search(line)) is None:
            continue
        if scored[2] == b"plugin":
            own, pod = _at_s(line), scored[1]
        elif scored[1] == pod:
            waits.append(_at_s(line) - own)
            pod = b""
    return waits


def _node(scores: Scores, pod: bytes, node: bytes) -> NodeScore:
    return scores.setdefault(pod.decode(), {}).setdefault(node.decode(), NodeScore())


class Verdict(NamedTuple):
    """How pods were decided.

    Args:
        pods: decided by score.
        highest: went to a node with the highest total.
        ours: went to a node with our highest points.
        changed: went to a node that plugins alone would not have taken.
        nodes: scores of nodes looked at.
        astray: of these, totals that are not plugins + weight x 10 x points.
    """

    pods: int
    highest: int
    ours: int
    changed: int
    nodes: int
    astray: int


def verdict(scores: Scores, node_of: dict[str, str], weight: int) -> Verdict:
    """Judge every pod that has scores and a node."""
    judged = [(nodes, nodes[node_of[pod]]) for pod, nodes in scores.items() if node_of.get(pod) in nodes]
    every = [node for nodes, _ in judged for node in nodes.values()]
    return Verdict(
        len(judged),
        sum(chosen.total == max(node.total or 0 for node in nodes.values()) for nodes, chosen in judged),
        sum((chosen.points or 0) == max(node.points or 0 for node in nodes.values()) for nodes, chosen in judged),
        sum(chosen.plugins < max(node.plugins for node in nodes.values()) for nodes, chosen in judged),
        len(every),
        sum(node.total != node.plugins + weight * POINT * (node.points or 0) for node in every),
    )
