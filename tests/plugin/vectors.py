"""Vectors: drawn pods with the identity, class and points that Python gives them, for the tests of the Go plugin.

`python -m tests.plugin.vectors` writes `plugin/cohabit/testdata`; a test compares it with what is drawn here.
"""

import gzip
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import numpy as np

from advisor.api.scheduler.pod_types import Object, offer_to
from advisor.cluster.assumed_pod_load import Booked
from advisor.cluster.pending_pod import PendingPod, PodClass, class_of
from advisor.placement.encoded_scores import Replies, singled_out, spell
from advisor.scoring.score_table import ScoreTable
from advisor.scoring.score_table_file import write_table

FOLDER = Path(__file__).parents[2] / "plugin" / "cohabit" / "testdata"
TABLE, VECTORS = "table", "vectors.json.gz"
PODS, NODES, PLATFORMS, MAX_ASSUMED = 10_000, 40, 3, 60
APPS, TEAMS = ("web", "db", "cache", "batch", "ml", "api"), ("blue", "red", "shop")
UNKNOWN = ("far-away", "gone")
"""Nodes that the table does not hold."""
NOT_KNOWN_SHARE, VETOED_SHARE, ASSUMED_SHARE, EXACT_SHARE = 0.08, 0.15, 0.5, 0.05


def table(rng: Random) -> ScoreTable:
    """A table of a few classes: not all apps, not all teams, and not each with both classes."""
    classes = [PodClass("", False), PodClass("", True), *(PodClass(app, False) for app in APPS[:4])]
    classes += [PodClass(app, True) for app in APPS[2:5]] + [PodClass("", be, TEAMS[be]) for be in (False, True)]
    count, known = len(classes), [rng.random() > NOT_KNOWN_SHARE for _ in range(NODES)]
    drawn = [[rng.expovariate(0.5) for _ in range(NODES)] for _ in range(count)]
    points = np.rint(10 * np.exp(-np.array(drawn) / 2))
    vetoed = [[rng.random() < VETOED_SHARE for _ in range(NODES)] for _ in range(count)]
    return ScoreTable(
        version=17,
        as_of_us=1_790_000_000_000_000,
        bundle='bundle "é"',
        nodes=tuple(f"n{row}" for row in range(NODES)),
        known=np.array(known),
        classes=tuple(classes),
        points=np.where(vetoed, 0, points).astype(np.uint8),
        cost=np.array(drawn, np.float32),
        platform=np.array([rng.randrange(-1, PLATFORMS) for _ in range(NODES)], np.int16),
        steps=np.array(
            [[[rng.random() for _ in range(PLATFORMS)] for _ in range(count)] for _ in range(3)], np.float32
        ),
    )


def pod(rng: Random, number: int) -> dict[str, Any]:
    """A pod as kube-apiserver has it: labelled or not, owned by any workload or by none."""
    app, suffix = rng.choice(APPS), f"{rng.randrange(16**5):05x}"
    labels = {
        key: rng.choice(values)
        for key, values, share in (
            ("cohabit.io/app", (*APPS, ""), 0.2),
            ("app.kubernetes.io/name", APPS, 0.2),
            ("app", ("", *APPS), 0.2),
            ("cohabit.io/team", (*TEAMS, ""), 0.2),
            ("team", TEAMS, 0.3),
            ("cohabit.io/qos", ("BE", "LS", "be", ""), 0.3),
            ("koordinator.sh/qosClass", ("BestEffort", "BE", "LSR"), 0.2),
            ("pod-template-hash", (suffix, "5d9f", ""), 0.4),
            ("rollouts-pod-template-hash", (suffix, "77aa"), 0.2),
            ("scheduling.x-k8s.io/pod-group", ("ring", ""), 0.05),
        )
        if rng.random() < share
    }
    annotations = {"scheduling.k8s.io/group-name": "volcano-ring"} if rng.random() < 0.05 else {}
    owners = [owner(rng, app, suffix) for _ in range(rng.choice((0, 1, 1, 1, 1, 2, 3)))]
    name = rng.choice((f"{app}-{suffix}-{number}", f"{app}-n{rng.randrange(NODES)}", app))
    return {
        "metadata": {
            "name": name,
            "namespace": rng.choice(("default", *TEAMS)),
            "labels": labels,
            "annotations": annotations,
            "ownerReferences": owners,
        },
        "spec": {"schedulingGroup": {"podGroupName": "gang"}} if rng.random() < 0.03 else {},
    }


def owner(rng: Random, app: str, suffix: str) -> dict[str, Any]:
    """One owner; of Jobs also those of schedules and of Volcano, and numbers that are no minute."""
    minute = "".join(rng.choice("0123456789") for _ in range(rng.choice((7, 8, 9, 10, 11))))
    kind, name, version = rng.choice(
        (
            ("ReplicaSet", f"{app}-{suffix}", "apps/v1"),
            ("ReplicaSet", f"{app}-5d9f", "apps/v1"),
            ("StatefulSet", app, "apps/v1"),
            ("Job", f"{app}-{minute}", "batch/v1"),
            ("Job", app, "batch/v1"),
            ("Job", f"{app}-{minute}", "batch.volcano.sh/v1alpha1"),
            ("Node", f"n{rng.randrange(NODES)}", "v1"),
            ("PyTorchJob", f"{app}-{minute}", "kubeflow.org/v1"),
        )
    )
    made: dict[str, Any] = {"apiVersion": version, "kind": kind, "name": name}
    return made if rng.random() < 0.3 else {**made, "controller": rng.random() < 0.7}


@dataclass
class Advisor:
    """Python's answers, with assumed pods that come and go.

    Args:
        table: of scores.
        rng: draws.
    """

    table: ScoreTable
    rng: Random
    replies: Replies = field(init=False)
    assumed: list[Booked] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.replies = Replies(self.table, spell(self.table.nodes))

    def step(self) -> list[dict[str, Any]]:
        """Let a pod come, go or be counted exactly; what the plugin is given instead."""
        rng, chance = self.rng, self.rng.random()
        if chance > ASSUMED_SHARE:
            return []
        if chance < EXACT_SHARE and self.assumed:
            return self.correct(rng.choice(self.assumed).node)
        leaves = len(self.assumed) >= MAX_ASSUMED or (self.assumed and chance < ASSUMED_SHARE / 3)
        if leaves:
            one = self.assumed.pop(rng.randrange(len(self.assumed)))
            self.replies.leave(one)
        else:
            of = PodClass(rng.choice(("", *APPS)), rng.random() < 0.4, rng.choice(("", *TEAMS)))
            one = Booked("", rng.choice((*self.table.nodes[:12], UNKNOWN[0])), of, 0)
            self.assumed.append(one)
            self.replies.arrive(one)
        return [{"node": one.node, "class": list(one.of), "sign": -1 if leaves else 1}]

    def correct(self, node: str) -> list[dict[str, Any]]:
        """Exact costs of some classes on a node."""
        of = self.rng.sample(self.table.classes, self.rng.randrange(1, 5))
        drawn = [(self.rng.randrange(11), self.rng.expovariate(0.3)) for _ in of]
        self.replies.correct(node, dict(zip(of, drawn, strict=True)))
        return [{"column": self._column(node)}] if node in self.table.nodes else []

    def reload(self) -> list[dict[str, Any]]:
        """Begin anew with the same table, all assumed pods counted at once."""
        self.replies = Replies(self.table, spell(self.table.nodes))
        self.replies.arrive_all(self.assumed)
        nodes = sorted({one.node for one in self.assumed} & set(self.table.nodes))
        return [{"table": True}, *({"column": self._column(node)} for node in nodes)]

    def _column(self, node: str) -> dict[str, Any]:
        column = self.replies.column(node)
        assert column is not None
        return {"node": node, "points": list(column.points), "cost": column.cost.hex(), "fix": column.fix}

    def vector(self, number: int) -> dict[str, Any]:
        """A pod, and all that is expected of it."""
        rng, drawn = self.rng, pod(self.rng, number)
        news = self.reload() if number % 500 == 499 else self.step()
        offered = rng.sample((*self.table.nodes, *UNKNOWN), rng.randrange(1, 9))
        offer, alike = offer_to(read(drawn), "", offered), rng.random() < 0.5
        of = class_by(self.table, offer.pending_pod)
        rows = self.replies.rows(offered)
        points = self.replies.points(of, rows)
        if alike:
            points = singled_out(points, rows == self.replies.best(of, rows, points))
        costs = self.replies._cost[self.replies.row_of[of]][rows[rows >= 0][:1]]
        return {
            "pod": drawn,
            "app": offer.pending_pod.app,
            "team": offer.pending_pod.team,
            "best_effort": offer.pending_pod.best_effort,
            "group": offer.group,
            "class": list(of),
            "news": news,
            "nodes": offered,
            "alike": alike,
            "points": points.tolist(),
            "cost": float(costs.sum()).hex(),  # of the first node that is known
        }


def class_by(table: ScoreTable, pending: PendingPod) -> PodClass:
    """The class of a pod by a table alone; `TableSource.class_of` also knows apps that no table has yet."""
    alike = [of for of in table.classes if of.best_effort == pending.best_effort]
    return class_of(pending, {of.app for of in alike if of.app}, {of.team for of in alike if of.team})


def read(drawn: Mapping[str, Any]) -> Object:
    """A pod as the extender reads it."""
    return msgspec.json.decode(msgspec.json.encode(drawn), type=Object)


def lines() -> Iterator[str]:
    """One vector in each line."""
    rng = Random(7)
    advisor = Advisor(table(rng), rng)
    for number in range(PODS):
        yield json.dumps(advisor.vector(number), separators=(",", ":")) + "\n"


def write(folder: Path = FOLDER) -> None:
    """Write the table and the vectors."""
    folder.mkdir(parents=True, exist_ok=True)
    write_table(folder / TABLE, table(Random(7)))
    (folder / VECTORS).write_bytes(gzip.compress("".join(lines()).encode(), mtime=0))


if __name__ == "__main__":
    write()
