"""What schedulers may send: pods, nodes and names, as hypothesis draws them."""

from typing import Any

from hypothesis import strategies as st


def or_null(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | values


TEXT = st.text(st.characters(codec="utf-8"), max_size=12)
NODE_NAMES = st.lists(st.sampled_from([f"n{i}" for i in range(8)]) | TEXT, max_size=12)
OWNERS = st.lists(
    st.fixed_dictionaries(
        {"kind": st.sampled_from(["ReplicaSet", "Job", "Node", "StatefulSet"]), "name": TEXT},
        optional={"apiVersion": TEXT, "controller": or_null(st.booleans())},
    ),
    max_size=2,
)
LABELS = st.dictionaries(
    st.sampled_from(["app", "team", "cohabit.io/qos", "pod-template-hash"]) | TEXT, TEXT, max_size=4
)
METADATA = st.fixed_dictionaries(
    {},
    optional={
        "name": TEXT,
        "namespace": TEXT,
        "labels": or_null(LABELS),
        "ownerReferences": or_null(OWNERS),
        "creationTimestamp": st.none() | st.just("2026-03-01T00:00:00Z"),
    },
)
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
POD = st.fixed_dictionaries({"metadata": METADATA}, optional={"spec": ANYTHING, "status": ANYTHING})


def without_name(metadata: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in metadata.items() if key != "name"}
