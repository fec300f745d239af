"""Terms of preferred node affinity: few, small, bounded by the pod's own, and added without touching anything else."""

import json
from copy import deepcopy
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.admission.preference import (
    HIGHEST_WEIGHT,
    MOST_AVOIDED,
    MOST_PREFERRED,
    PREFERRED,
    Listed,
    advice_patch,
    preferred_count,
    preferred_terms,
    with_annotation,
)

NAME = st.builds(lambda text, many: text * many, st.text("az09-.", min_size=1, max_size=7), st.sampled_from([1, 6, 36]))
"""Up to the longest name of a node."""
OWN_TERM = st.fixed_dictionaries(
    {
        "weight": st.integers(1, 100),
        "preference": st.just({"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}),
    }
)


@st.composite
def lists(draw: st.DrawFn) -> Listed:
    """Any list that the ranking makes: points never rise."""
    names = draw(st.lists(NAME, min_size=1, max_size=MOST_PREFERRED + MOST_AVOIDED, unique=True))
    cut = draw(st.integers(1, min(len(names), MOST_PREFERRED)))
    points = sorted(draw(st.lists(st.integers(1, 10), min_size=cut, max_size=cut)), reverse=True)
    return Listed(tuple(zip(names[:cut], points, strict=True)), tuple(names[cut : cut + MOST_AVOIDED]))


def applied(pod: dict[str, Any], patch: list[dict[str, Any]]) -> dict[str, Any]:
    """A JSON Patch of `add` steps, as RFC 6902 has it."""
    found = deepcopy(pod)
    for step in patch:
        assert step.keys() == {"op", "path", "value"}
        assert step["op"] == "add"
        *way, last = (word.replace("~1", "/").replace("~0", "~") for word in step["path"].split("/")[1:])
        at: Any = found
        for word in way:
            at = at[word]
        if isinstance(at, list):
            assert last == "-"
            at.append(deepcopy(step["value"]))
        else:
            at[last] = deepcopy(step["value"])
    return found


def matches(term: dict[str, Any], node: str) -> bool:
    """Whether a term holds for a node, as kube-apiserver allows matchFields: one value each."""
    fields = term["preference"]["matchFields"]
    assert {(one["key"], len(one["values"])) for one in fields} == {("metadata.name", 1)}
    return all((one["values"] == [node]) is (one["operator"] == "In") for one in fields)


def weight(terms: Any, node: str) -> int:
    return sum(term["weight"] for term in terms if matches(term, node))


@given(listed=lists(), own=st.integers(0, 100))
def test_terms_are_few_small_and_name_only_listed_nodes(listed: Listed, own: int) -> None:
    terms: Any = preferred_terms(listed, own)

    named = [(one["operator"], one["values"][0]) for term in terms for one in term["preference"]["matchFields"]]
    assert len(named) <= 16
    assert {name for way, name in named if way == "In"} <= {name for name, _ in listed.best}
    assert {name for way, name in named if way == "NotIn"} <= set(listed.worst)
    assert all(1 <= term["weight"] <= HIGHEST_WEIGHT for term in terms)
    added = advice_patch({"metadata": {}, "spec": {}}, terms, "advice-0123456789abcdef")
    assert len(msgspec.json.encode([step["value"] for step in added])) <= 2000


@given(listed=lists(), own=st.integers(0, 100))
def test_a_better_node_never_weighs_less_and_all_of_ours_is_a_quarter_of_the_pods_own(listed: Listed, own: int) -> None:
    terms = preferred_terms(listed, own)

    weights = [weight(terms, name) for name, _ in listed.best]
    if all(weights):
        assert weights == sorted(weights, reverse=True)
    assert max(weights) <= (own / 4 if own else 100)
    if terms:
        assert weight(terms, listed.best[0][0]) > weight(terms, "any-other-node")
    assert all(weight(terms, name) <= weight(terms, "any-other-node") for name in listed.worst)


@given(
    listed=lists(),
    own=st.lists(OWN_TERM, max_size=3),
    affinity=st.sampled_from(["missing", "null", "other", "null node affinity", "required", "null list", "list"]),
    annotations=st.sampled_from([None, {}, {"a/b~c": "1"}, {"cohabit.io/advice": "old"}]),
)
def test_the_patch_adds_the_terms_and_changes_nothing_else(
    listed: Listed, own: list[Any], affinity: str, annotations: dict[str, str] | None
) -> None:
    required: dict[str, Any] = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}
    pod: dict[str, Any] = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "main"}]}}
    if annotations is not None:
        pod["metadata"]["annotations"] = annotations
    if affinity != "missing":
        inside: Any = {"required": required, "null list": {PREFERRED: None}, "list": {**required, PREFERRED: own}}
        pod["spec"]["affinity"] = {"podAffinity": {}, "nodeAffinity": inside.get(affinity)}
        if affinity == "other":
            del pod["spec"]["affinity"]["nodeAffinity"]
        if affinity == "null":
            pod["spec"]["affinity"] = None
    before = deepcopy(pod)
    terms = preferred_terms(listed)

    patched = applied(pod, json.loads(msgspec.json.encode(advice_patch(pod, terms, "id-1"))))

    assert pod == before
    after = patched["spec"]["affinity"]["nodeAffinity"]
    assert after[PREFERRED] == [*(own if affinity == "list" else []), *terms]
    assert patched["metadata"]["annotations"] == {**(annotations or {}), "cohabit.io/advice": "id-1"}
    del after[PREFERRED]
    assert after == (required if affinity in {"required", "list"} else {})
    assert patched["spec"]["containers"] == before["spec"]["containers"]
    assert patched["spec"]["affinity"].get("podAffinity") == (None if affinity in {"missing", "null"} else {})


def test_three_nodes_and_a_bad_one_weigh_as_the_page_says() -> None:
    terms = preferred_terms(Listed((("n3", 9), ("n7", 9), ("n1", 4)), ("n9",)))

    assert [weight(terms, name) for name in ("n3", "n7", "n1", "n5", "n9")] == [92, 89, 47, 20, 0]


def test_a_weight_below_four_leaves_no_room() -> None:
    assert preferred_terms(Listed((("n3", 9),)), 3) == ()
    assert weight(preferred_terms(Listed((("n3", 9),)), 4), "n3") == 1


@pytest.mark.parametrize(
    ("metadata", "path"),
    [({}, "/metadata/annotations"), ({"annotations": {}}, "/metadata/annotations/cohabit.io~1advice")],
)
def test_keys_are_escaped(metadata: dict[str, Any], path: str) -> None:
    assert with_annotation({"metadata": metadata}, "cohabit.io/advice", "x")["path"] == path


@pytest.mark.parametrize(
    ("nodes", "count"), [(1, 4), (100, 4), (200, 5), (1_000, 6), (2_500, 9), (5_000, 12), (15_000, 12)]
)
def test_as_many_nodes_are_preferred_as_the_schedulers_sample_makes_necessary(nodes: int, count: int) -> None:
    assert preferred_count(nodes) == count
