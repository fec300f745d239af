"""kube-scheduler's scores as its documentation has them, by hand-made cases."""

from typing import Any

import numpy as np
import pytest

from advisor.admission.preference import PREFERRED, Listed
from advisor.admission.preference import preferred_terms as terms_of
from benchmarks.admission.kube_scheduler import Node, affinity_scores, preferred_terms, resource_scores, taken

NODES = [Node(f"n{i}", {"kubernetes.io/hostname": f"host-{i}", "disk": "ssd" if i < 2 else "hdd"}) for i in range(4)]


def field(operator: str, *names: str) -> dict[str, Any]:
    return {"matchFields": [{"key": "metadata.name", "operator": operator, "values": [name]} for name in names]}


def label(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


def scores(*terms: tuple[int, dict[str, Any]]) -> list[int]:
    said = [{"weight": weight, "preference": preference} for weight, preference in terms]
    pod = {"spec": {"affinity": {"nodeAffinity": {PREFERRED: said}}}}
    return [int(score) for score in affinity_scores(preferred_terms(pod), NODES)]


@pytest.mark.parametrize(
    ("preference", "nodes"),
    [
        (field("In", "n2"), [2]),
        (field("NotIn", "n1"), [0, 2, 3]),
        (field("NotIn", "n1", "n3"), [0, 2]),
        (label("kubernetes.io/hostname", "In", "host-0", "host-3"), [0, 3]),
        (label("kubernetes.io/hostname", "NotIn", "host-0"), [1, 2, 3]),
        (label("disk", "Exists"), [0, 1, 2, 3]),
        (label("gpu", "DoesNotExist"), [0, 1, 2, 3]),
        (label("gpu", "NotIn", "a100"), [0, 1, 2, 3]),
        (label("gpu", "In", "a100"), []),
        ({**label("disk", "In", "ssd"), **field("NotIn", "n0")}, [1]),
        ({}, []),
    ],
)
def test_a_term_holds_where_all_its_requirements_do(preference: dict[str, Any], nodes: list[int]) -> None:
    assert scores((7, preference)) == [100 if row in nodes else 0 for row in range(4)]


def test_weights_add_up_and_the_best_node_has_100() -> None:
    found = scores((60, field("In", "n0")), (30, field("In", "n1")), (20, field("NotIn", "n3")))

    assert found == [80 * 100 // 80, 50 * 100 // 80, 20 * 100 // 80, 0]


def test_terms_of_the_webhook_rank_nodes_as_listed() -> None:
    said = [*terms_of(Listed((("n2", 9), ("n0", 9)), ("n3",)))]
    pod = {"spec": {"affinity": {"nodeAffinity": {PREFERRED: said}}}}

    found = affinity_scores(preferred_terms(pod), NODES)

    assert found[2] == 100
    assert 100 > found[0] > found[1] > found[3] == 0


@pytest.mark.parametrize("pod", [{}, {"spec": {"affinity": None}}, {"spec": {"affinity": {"nodeAffinity": {}}}}])
def test_a_pod_without_preferences_has_the_same_score_everywhere(pod: dict[str, Any]) -> None:
    assert affinity_scores(preferred_terms(pod), NODES).tolist() == [0, 0, 0, 0]


def test_an_operator_that_is_not_modelled_is_refused() -> None:
    with pytest.raises(ValueError, match="Gt"):
        scores((1, label("cores", "Gt", "4")))


def test_an_empty_node_and_an_evenly_used_one_score_highest() -> None:
    requested = np.array([[0.0, 0.0], [8.0, 0.0], [8.0, 16.0], [20.0, 40.0]])

    found = resource_scores(requested, np.full((4, 2), [16.0, 32.0]))

    assert found.tolist() == [100 + 100, 75 + 75, 50 + 100, 0 + 100]


def test_a_pod_goes_to_each_of_the_best_nodes_now_and_then() -> None:
    rng = np.random.default_rng(0)

    assert {taken(np.array([3, 9, 1, 9]), rng) for _ in range(50)} == {1, 3}
