"""Pod bounds: what no real pod has is refused before it is validated; real pods are read."""

from time import process_time
from typing import Any

import pytest

from advisor.admission.created_pod import created_pod
from advisor.admission.pod_bounds import MAX_CONTAINERS, MAX_ENTRIES, MAX_LABELS, MAX_RULES, check_bounds
from advisor.errors import BadRequest
from advisor.placement.assumed_pod_sync import LONGEST_GROUP


def pod(metadata: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    return {"metadata": metadata or {}, "spec": {"containers": [{}], **spec}}


def requesting(names: int) -> dict[str, Any]:
    return {"resources": {"requests": {f"a.b/{i}": "1" for i in range(names)}}}


def excluding(hosts: int) -> dict[str, Any]:
    expression = {"key": "k", "operator": "NotIn", "values": [f"n{i}" for i in range(hosts)]}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


@pytest.mark.parametrize(
    "said",
    [
        pod(containers=[{}] * (MAX_CONTAINERS + 1)),
        pod(initContainers=[{}] * MAX_CONTAINERS),
        pod(containers=[requesting(50)] * 100),
        pod(overhead={f"a.b/{i}": "1" for i in range(5000)}),
        pod(tolerations=[{}] * (MAX_ENTRIES + 1)),
        pod(volumes=[{}] * (MAX_ENTRIES + 1)),
        pod(affinity=excluding(MAX_RULES)),
        pod(affinity={"x": [[]] * (MAX_RULES + 1)}),
        pod(nodeSelector={f"k{i}": "" for i in range(MAX_RULES + 1)}),
        pod({"ownerReferences": [{}] * (MAX_ENTRIES + 1)}),
        pod({"labels": {f"k{i}": "" for i in range(MAX_LABELS + 1)}}),
        {**pod(), "status": {"conditions": [{}] * (MAX_ENTRIES + 1)}},
    ],
    ids=lambda said: str(said)[:60],
)
def test_more_than_real_pods_have_is_refused(said: dict[str, Any]) -> None:
    with pytest.raises(BadRequest, match="more than"):
        created_pod(said, "default")


def test_a_large_real_pod_is_read_in_a_moment() -> None:
    containers = [requesting(16) for _ in range(MAX_CONTAINERS)]
    tolerations = [{"key": f"k{i}", "operator": "Exists"} for i in range(MAX_ENTRIES)]
    began = process_time()

    found = created_pod(
        pod(containers=containers, tolerations=tolerations, affinity=excluding(MAX_RULES - 10)), "default"
    )

    assert process_time() - began < 1.0
    assert found.needs.extended == {f"a.b/{i}": float(MAX_CONTAINERS) for i in range(16)}


@pytest.mark.parametrize("odd", [None, 1, "x", [], [1], {"metadata": None}])
def test_what_is_of_another_type_is_left_to_validation(odd: Any) -> None:
    check_bounds({"metadata": odd, "spec": odd, "status": odd})
    check_bounds(pod(containers=odd, affinity=odd, tolerations=odd))


def test_a_group_of_a_longer_name_is_none() -> None:
    def group(length: int) -> str:
        return created_pod(pod({"labels": {"scheduling.x-k8s.io/pod-group": "g" * length}}), "d").offer.group

    assert group(LONGEST_GROUP - 2) == "d/" + "g" * (LONGEST_GROUP - 2)
    assert group(LONGEST_GROUP - 1) == ""
