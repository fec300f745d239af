"""Fits: nodes that kube-scheduler's filters accept a pod on, case by case after the Kubernetes documentation."""

import json
from typing import Any

import numpy as np
import pytest

from advisor.remediation.fits import (
    APART,
    CORDONED,
    FITS,
    LEAVING,
    TAINTED,
    UNMATCHED,
    UNREACHED,
    may_go,
    node_codes,
)
from advisor.remediation.pod_neighbours import Occupancy
from advisor.remediation.pod_rules import NodeRules, PodRules, node_rules, pod_rules
from advisor.remediation.room import Room, counted

HERE = node_rules("n0", {"labels": {"kubernetes.io/hostname": "n0"}})


def code(pod: dict[str, object], **node: object) -> int:
    """Of a node that a pod of n0 might go to."""
    return int(node_codes(pod_rules(pod), [HERE, node_rules("n1", node)], 0)[1])


@pytest.mark.parametrize(
    ("taint", "tolerations", "expected"),
    [
        ("a=b:NoSchedule", [], TAINTED),
        ("a=b:NoExecute", [], TAINTED),
        ("a=b:PreferNoSchedule", [], FITS),
        ("a=b:NoSchedule", ["a=b:NoSchedule"], FITS),
        ("a=b:NoSchedule", ["a=c:NoSchedule"], TAINTED),
        ("a=b:NoSchedule", ["a=b:NoExecute"], TAINTED),
        ("a=b:NoSchedule", ["a:NoSchedule"], FITS),
        ("a=b:NoSchedule", ["a:*"], FITS),
        ("a=b:NoSchedule", ["*:NoSchedule"], FITS),
        ("a=b:NoSchedule", ["*:*"], FITS),
        ("a=b:NoSchedule", ["a=:NoSchedule"], TAINTED),
        ("a:NoSchedule", ["a=:NoSchedule"], FITS),
        ("a:NoSchedule", ["ab:NoSchedule"], TAINTED),
        ("example.com/a=b:NoSchedule", ["example.com/a=b:*"], FITS),
        ("node.kubernetes.io/unschedulable:NoSchedule", ["*:*"], CORDONED),
        ("karpenter.sh/disrupted:NoSchedule", ["*:*"], LEAVING),
        ("karpenter.sh/disruption=disrupting:NoSchedule", ["*:*"], LEAVING),
        ("ToBeDeletedByClusterAutoscaler=1:NoSchedule", ["*:*"], LEAVING),
        ("node.kubernetes.io/unreachable:NoExecute", ["node.kubernetes.io/unreachable:NoExecute"], LEAVING),
        ("DeletionCandidateOfClusterAutoscaler=1:PreferNoSchedule", [], FITS),
    ],
)
def test_a_taint_keeps_a_pod_away_that_does_not_tolerate_it(taint: str, tolerations: list[str], expected: int) -> None:
    assert code({"tolerations": tolerations}, taints=[taint]) == expected


LABELS = {"disk": "ssd", "cores": "16", "zone": "a"}


def required(*terms: dict[str, object]) -> str:
    found = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}}
    return json.dumps(found)


def expression(key: str, operator: str, *values: str) -> dict[str, object]:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


@pytest.mark.parametrize(
    ("affinity", "fits"),
    [
        ('{"nodeSelector": {"disk": "ssd"}}', True),
        ('{"nodeSelector": {"disk": "ssd", "gpu": "yes"}}', False),
        (required(expression("disk", "In", "ssd", "nvme")), True),
        (required(expression("disk", "In", "hdd")), False),
        (required(expression("none", "In", "x")), False),
        (required(expression("disk", "NotIn", "hdd")), True),
        (required(expression("none", "NotIn", "x")), True),
        (required(expression("disk", "NotIn", "ssd")), False),
        (required(expression("disk", "Exists")), True),
        (required(expression("none", "Exists")), False),
        (required(expression("none", "DoesNotExist")), True),
        (required(expression("disk", "DoesNotExist")), False),
        (required(expression("cores", "Gt", "8")), True),
        (required(expression("cores", "Gt", "16")), False),
        (required(expression("cores", "Lt", "17")), True),
        (required(expression("disk", "Gt", "8")), False),
        (required(expression("none", "Lt", "8")), False),
        (required(expression("disk", "In", "hdd"), expression("cores", "Gt", "8")), True),
        (required({}), False),
        (required(), False),
        (required({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}), True),
        (required({"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["n1"]}]}), False),
        (required(expression("disk", "Like", "s")), False),
        ('{"nodeSelector": {"disk": 3}}', False),
        ("{", False),
        ('{"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1}]}}', True),
    ],
)
def test_a_node_selector_and_required_affinity_name_labels_of_the_node(affinity: str, *, fits: bool) -> None:
    assert code({"affinity": affinity}, labels=LABELS) == (FITS if fits else UNMATCHED)


def test_a_pod_with_volume_claims_stays_in_its_zone() -> None:
    nodes = [node_rules(f"n{i}", {"zone": zone}) for i, zone in enumerate(["a", "a", "b", None])]

    assert node_codes(pod_rules({"volume_claims": True}), nodes, 0)[1:].tolist() == [FITS, UNREACHED, UNREACHED]
    assert node_codes(pod_rules({}), nodes, 0)[1:].tolist() == [FITS, FITS, FITS]


ZONES = ("a", "a", "b", "b", "c")
NODES = tuple(
    node_rules(f"n{i}", {"labels": {"kubernetes.io/hostname": f"n{i}", "topology.kubernetes.io/zone": zone}})
    for i, zone in enumerate(ZONES)
)
HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"


def pod(app: str | None = "web", namespace: str | None = "shop", **rules: Any) -> PodRules:
    labels = None if app is None else {"app": app}
    return pod_rules({"namespace": namespace, "labels": labels, "affinity": json.dumps(rules)})


def near(kind: str, app: str, topology: str, **more: object) -> dict[str, Any]:
    term = {"topologyKey": topology, "labelSelector": {"matchLabels": {"app": app}}, **more}
    return {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def allowed(mover: PodRules, *others: tuple[PodRules, int], home: int = 0) -> list[int]:
    """Nodes that other pods do not keep a pod from."""
    pods = {"me": mover} | {f"p{i}": one for i, (one, _) in enumerate(others)}
    places = {"me": (home,)} | {f"p{i}": (node,) for i, (_, node) in enumerate(others)}
    return np.flatnonzero(~Occupancy(NODES, pods, places).kept_away("me")).tolist()


def test_anti_affinity_keeps_a_pod_from_the_domains_of_what_it_names() -> None:
    assert allowed(pod(**near("podAntiAffinity", "web", HOST)), (pod(), 1), (pod("db"), 2)) == [0, 2, 3, 4]
    assert allowed(pod(**near("podAntiAffinity", "web", ZONE)), (pod(), 1)) == [2, 3, 4]
    assert allowed(pod(**near("podAntiAffinity", "web", ZONE)), (pod(namespace="other"), 1)) == [0, 1, 2, 3, 4]
    assert allowed(pod(**near("podAntiAffinity", "web", ZONE, namespaces=["other"])), (pod(), 1)) == [0, 1, 2, 3, 4]
    assert allowed(pod(**near("podAntiAffinity", "web", ZONE, namespaceSelector={})), (pod(namespace="x"), 1)) == [
        2,
        3,
        4,
    ]


def test_anti_affinity_of_those_who_are_there_counts_too() -> None:
    assert allowed(pod("web"), (pod("db", **near("podAntiAffinity", "web", ZONE)), 2)) == [0, 1, 4]
    assert allowed(pod("batch"), (pod("db", **near("podAntiAffinity", "web", ZONE)), 2)) == [0, 1, 2, 3, 4]


def test_what_may_match_keeps_away_and_does_not_count_as_company() -> None:
    assert allowed(pod(**near("podAntiAffinity", "web", HOST)), (pod(None), 1)) == [0, 2, 3, 4]
    assert allowed(pod(None), (pod("db", **near("podAntiAffinity", "web", HOST)), 1)) == [0, 2, 3, 4]
    assert allowed(pod(**near("podAffinity", "db", ZONE)), (pod(None), 2)) == []
    chosen = near("podAntiAffinity", "web", HOST, namespaceSelector={"matchLabels": {"team": "x"}})
    assert allowed(pod(**chosen), (pod(namespace="other"), 1)) == [0, 2, 3, 4]


def test_affinity_needs_company_unless_the_pod_is_its_own_first() -> None:
    assert allowed(pod(**near("podAffinity", "db", ZONE)), (pod("db"), 2)) == [2, 3]
    assert allowed(pod(**near("podAffinity", "db", ZONE))) == []
    assert allowed(pod(**near("podAffinity", "web", ZONE))) == [0, 1, 2, 3, 4]
    assert allowed(pod(**near("podAffinity", "web", "rack"))) == []


def spread(skew: int = 1, topology: str = ZONE, **more: object) -> dict[str, Any]:
    of = {"maxSkew": skew, "topologyKey": topology, "whenUnsatisfiable": "DoNotSchedule"}
    return {"topologySpreadConstraints": [{**of, "labelSelector": {"matchLabels": {"app": "web"}}, **more}]}


def test_spread_allows_no_more_skew_than_it_says() -> None:
    others = [(pod(), 0), (pod(), 2)]

    assert allowed(pod(**spread()), *others) == [4]
    assert allowed(pod(**spread(2)), *others) == [0, 1, 2, 3, 4]
    assert allowed(pod(**spread(1, minDomains=5)), (pod(), 0)) == [2, 3, 4]
    assert allowed(pod(**spread(whenUnsatisfiable="ScheduleAnyway")), *others) == [0, 1, 2, 3, 4]
    assert allowed(pod(**spread(), nodeSelector={ZONE: "a"}), *others) == [0, 1]
    assert allowed(pod(**spread(topology="rack")), *others) == []


def test_a_pod_that_a_plan_moves_counts_on_both_nodes() -> None:
    pods = {"me": pod(**near("podAntiAffinity", "web", HOST)), "it": pod()}
    moved = Occupancy(NODES, pods, {"me": (0,), "it": (1,)}).moved("it", 2)

    assert np.flatnonzero(moved.kept_away("me")).tolist() == [1, 2]


def test_reasons_are_counted_by_node_and_the_candidate_of_the_autoscaler_comes_last() -> None:
    taints: list[list[str]] = [
        [],
        ["a:NoSchedule"],
        [],
        ["DeletionCandidateOfClusterAutoscaler=1:PreferNoSchedule"],
        [],
    ]
    nodes = tuple(node_rules(f"n{i}", {"taints": found}) for i, found in enumerate(taints))
    free = np.array([[0.0, 0.0], [9.0, 9.0], [1.0, 9.0], [4.0, 9.0], [3.0, 1.0]])
    room = Room(free, np.array([[2.0, 2.0]]), ("me",), Occupancy(nodes, {"me": PodRules()}, {"me": (0,)}))

    assert room.nodes_for(0, 0).tolist() == [3]
    assert counted(room.codes(0, 0)) == "1 is tainted, 1 lacks CPU, 1 lacks memory"
    assert room.lacking(0, 0) == ""
    assert room.taken(0, 3).lacking(0, 0) == ""
    assert Room(free - 8.0, room.needs).lacking(0, 0) == "4 lack CPU"
    assert may_go(nodes).tolist() == [False, False, False, True, False]


def test_a_node_without_labels_is_known_by_its_name_and_zone() -> None:
    assert node_rules("n1", {"labels": None, "zone": "a"}) == NodeRules("n1", {HOST: "n1", ZONE: "a"}, (), "a")


def test_kept_away_is_a_reason_of_its_own() -> None:
    pods = {"me": pod(**near("podAntiAffinity", "web", HOST)), "it": pod()}
    room = Room(np.ones((5, 2)), np.ones((1, 2)), ("me",), Occupancy(NODES, pods, {"me": (0,), "it": (1,)}))

    assert room.codes(0, 0)[1] == APART
