"""Pods and nodes of Kubernetes become rows of placements and nodes."""

import json
from fractions import Fraction
from time import process_time
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from ingest.decode.contract import Context
from ingest.decode.formats.native import decoder
from ingest.kube.api_types import Node, Pod
from ingest.kube.events import Heard, Published, node_listed, node_seen, pod_gone, pod_listed, pod_seen
from ingest.kube.gpus import gpus_in
from ingest.kube.nodes import node_facts
from ingest.kube.pods import amounts, is_pinned, placement, pod_total, qos_of, requests_in_all
from ingest.kube.quantity import parse_quantity
from ingest.schema.tables import NODES, PLACEMENTS, TIMESTAMP, Table
from tests.ingest.api_server import a_node, a_pod

NOON_MS = 1_772_366_400_000
HEARD = Heard("c", NOON_MS + 3_600_000)


def placed(**changes: Any) -> dict[str, object]:
    return placement(Pod.model_validate(a_pod("u1", **changes)), "c")


def container(cpu: str | None, *, sidecar: bool = False, limit: str | None = None) -> dict[str, Any]:
    amounts = {"requests": {} if cpu is None else {"cpu": cpu}, "limits": {} if limit is None else {"cpu": limit}}
    return {"name": "x", "image": "i", "resources": amounts} | ({"restartPolicy": "Always"} if sidecar else {})


def request_of(containers: list[dict[str, Any]], init: list[dict[str, Any]], **spec: Any) -> object:
    return placed(spec={"containers": containers, "initContainers": init, **spec})["cpu_request_cores"]


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("250m", Fraction(1, 4)),
        ("1Gi", 2**30),
        ("1e3", 1000),
        ("2k", 2000),
        ("1E", 10**18),
        ("1E3", 1000),
        ("12e-1", Fraction(6, 5)),
        ("1.5Ki", 1536),
        (".5", Fraction(1, 2)),
        ("100n", Fraction(1, 10**7)),
        ("0", 0),
    ],
)
def test_quantities_are_read_exactly(text: str, amount: Fraction) -> None:
    assert parse_quantity(text) == amount


@pytest.mark.parametrize("text", ["", "m", "1 Gi", "1K", "1gi", "0x10", "NaN", "1e", "1e999", "1Zi", "--1", "１"])
def test_what_is_no_quantity_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is no quantity"):
        parse_quantity(text)


@given(thousandths=st.integers(0, 10**12))
def test_the_same_amount_may_be_written_in_many_ways(thousandths: int) -> None:
    ways = [f"{thousandths}m", f"{thousandths}e-3", f"{thousandths * 1000}u", f"{thousandths / 1000:.3f}"]

    assert {parse_quantity(way) for way in ways} == {Fraction(thousandths, 1000)}


def test_a_pod_says_who_it_is_and_what_it_asks_for() -> None:
    assert placed() == {
        "cluster": "c",
        "node": "n1",
        "container": "u1",
        "namespace": "shop",
        "name": "web-7d4b9c6f58-u1",
        "owner": "Deployment/web",
        "app": "web",
        "team": "shop",
        "qos": "LS",
        "image_version": "1.4",
        "cpu_request_cores": 0.25,
        "cpu_limit_cores": 2.0,
        "cpu_limited": True,
        "memory_request_bytes": 2.0**30,
        "memory_limit_bytes": 2.0**31,
        "gpu_request": 0.0,
        "extended_requests": {},
        "priority": 0,
        "pinned": False,
        "local_storage": False,
        "tolerations": [],
        "labels": a_pod("u1")["metadata"]["labels"],
        "volume_claims": False,
    }


@pytest.mark.parametrize(
    ("containers", "init", "cores"),
    [
        (["1", "500m"], [], 1.5),
        (["1"], [container("3"), container("2")], 3.0),
        (["1"], [container("1", sidecar=True)], 2.0),
        (["1"], [container("1", sidecar=True), container("2")], 3.0),
        (["1"], [container("2"), container("1", sidecar=True)], 2.0),
        (["1"], [container("1", sidecar=True), container("1", sidecar=True)], 3.0),
        ([None], [], 0.0),
    ],
)
def test_init_containers_count_alone_and_sidecars_always(
    containers: list[str | None], init: list[dict[str, Any]], cores: float
) -> None:
    assert request_of([container(cpu) for cpu in containers], init) == cores


@given(
    running=st.lists(st.integers(0, 9), min_size=1, max_size=3),
    init=st.lists(st.tuples(st.integers(0, 9), st.booleans()), max_size=4),
)
def test_a_pod_needs_what_its_busiest_moment_needs(running: list[int], init: list[tuple[int, bool]]) -> None:
    """Checked against every moment written out."""
    made = [container(str(n), sidecar=sidecar) for n, sidecar in init]
    spec = Pod.model_validate(
        a_pod("u", spec={"containers": [container(str(n)) for n in running], "initContainers": made})
    ).spec
    before = [[n for n, sidecar in init[:i] if sidecar] + [init[i][0]] for i in range(len(init))]
    moments = [*before, [n for n, sidecar in init if sidecar] + running]

    total = pod_total(spec, lambda c: c.requests.get("cpu", Fraction(0)))

    assert total == max(map(sum, moments))


RESOURCES = st.dictionaries(st.sampled_from(["cpu", "memory", "a/b", "c/d"]), st.integers(-2, 9).map(str))


@given(st.lists(RESOURCES, min_size=1, max_size=3), st.lists(st.tuples(RESOURCES, st.booleans()), max_size=4))
def test_all_resources_together_have_the_total_of_each(
    running: list[dict[str, str]], init: list[tuple[dict[str, str], bool]]
) -> None:
    made = [{"resources": {"requests": one}, "restartPolicy": "Always" if sidecar else ""} for one, sidecar in init]
    whole = {"containers": [{"resources": {"requests": one}} for one in running], "initContainers": made}
    spec = Pod.model_validate(a_pod("u", spec=whole)).spec

    found = requests_in_all(spec)

    for name in ("cpu", "memory", "a/b", "c/d"):
        assert found.get(name, 0) == pod_total(spec, lambda one, of=name: one.requests.get(of, Fraction(0)))  # type: ignore[misc]


def test_many_resources_in_many_containers_take_no_time() -> None:
    many = [{"resources": {"requests": {f"a.b/{i}": "1"}}} for i in range(2000)]
    spec = Pod.model_validate(a_pod("u", spec={"containers": many})).spec
    began = process_time()

    found = amounts(spec)["extended_requests"]

    assert process_time() - began < 2.0
    assert found == {f"a.b/{i}": "1.0" for i in range(2000)}


def test_overhead_comes_on_top_and_an_amount_of_the_pod_itself_comes_first() -> None:
    assert request_of([container("1")], [], overhead={"cpu": "250m"}) == 1.25
    assert request_of([container("1")], [], resources={"requests": {"cpu": "3"}}) == 3.0


def test_one_container_without_a_limit_means_no_limit_and_the_others_may_be_throttled() -> None:
    both, none = [container("1", limit="2"), container("1", limit="1")], [container("1"), container("1")]

    assert placed(spec={"containers": both})["cpu_limit_cores"] == 3.0
    assert "cpu_limit_cores" not in placed(spec={"containers": [*both, container("1")]})
    assert "cpu_limit_cores" not in placed(spec={"containers": both, "initContainers": [container("1", sidecar=True)]})
    assert placed(spec={"containers": both, "initContainers": [container("1")]})["cpu_limit_cores"] == 3.0
    assert placed(spec={"containers": [*both, container("1")]})["cpu_limited"] is True
    assert placed(spec={"containers": none, "initContainers": both})["cpu_limited"] is False
    assert placed(spec={"containers": none, "resources": {"limits": {"cpu": "3"}}})["cpu_limited"] is True


@pytest.mark.parametrize(
    ("amounts", "gpus"),
    [
        ({"nvidia.com/gpu": 2}, Fraction(2)),
        ({"nvidia.com/mig-3g.20gb": 2, "nvidia.com/mig-1g.5gb": 1}, Fraction(1)),
        ({"nvidia.com/mig-1g.6gb": 1, "nvidia.com/mig-2g.12gb.me": 1}, Fraction(3, 4)),
        ({"nvidia.com/mig-1g.10gb.me": 1}, Fraction(1, 7)),
        ({"koordinator.sh/gpu-core": 50, "koordinator.sh/gpu-memory-ratio": 50}, Fraction(1, 2)),
        ({"koordinator.sh/gpu": 200, "nvidia.com/gpu": 2}, Fraction(2)),
        ({"cpu": 4}, Fraction(0)),
    ],
)
def test_gpus_are_counted_whoever_names_them(amounts: dict[str, int], gpus: Fraction) -> None:
    assert gpus_in({name: Fraction(n) for name, n in amounts.items()}) == gpus


@pytest.mark.parametrize(
    ("image", "version"),
    [
        ("web", "latest"),
        ("localhost:5000/web", "latest"),
        ("localhost:5000/web:2.0", "2.0"),
        ("web:2.0@sha256:abc", "2.0"),
        ("web@sha256:abc", "sha256:abc"),
        ("", "latest"),
    ],
)
def test_the_version_is_the_tag_else_the_digest(image: str, version: str) -> None:
    assert placed(spec={"containers": [{"name": "x", "image": image}]})["image_version"] == version


def test_the_version_is_that_of_the_main_container() -> None:
    containers = [{"name": "proxy", "image": "proxy:1"}, {"name": "web", "image": "web:2"}]
    annotations = {"kubectl.kubernetes.io/default-container": "web"}

    assert placed(spec={"containers": containers})["image_version"] == "1"
    assert placed(spec={"containers": containers}, annotations=annotations)["image_version"] == "2"


def test_only_what_the_node_needs_is_system() -> None:
    def qos(owner: str, namespace: str, priority: str = "", **labels: str) -> str:
        owners = [{"kind": owner, "name": "x", "controller": True}]
        names = {"ownerReferences": owners, "namespace": namespace}
        return qos_of(
            Pod.model_validate(a_pod("u", labels=labels, metadata=names, spec={"priorityClassName": priority}))
        )

    assert qos("DaemonSet", "kube-system") == "SYSTEM"
    assert qos("Node", "kube-system") == "SYSTEM"
    assert qos("DaemonSet", "monitoring", "system-node-critical") == "SYSTEM"
    assert qos("DaemonSet", "monitoring") == "LS"
    assert qos("ReplicaSet", "kube-system") == "LS"


def test_a_class_label_decides() -> None:
    assert placed(labels={"koordinator.sh/qosClass": "BE"})["qos"] == "BE"
    assert placed(labels={"koordinator.sh/qosClass": "SYSTEM"})["qos"] == "SYSTEM"


def test_extended_resources_and_huge_pages_are_published_by_name() -> None:
    fpga = {"name": "x", "image": "i", "resources": {"requests": {"cpu": "1", "example.com/fpga": "2"}}}
    init = {"name": "y", "image": "i", "resources": {"requests": {"hugepages-2Mi": "4Mi", "example.com/fpga": "1"}}}
    node = a_node("n1")
    node["status"]["allocatable"] |= {"example.com/fpga": "4", "hugepages-2Mi": "0", "ephemeral-storage": "1Gi"}

    wanted = placed(spec={"containers": [fpga], "initContainers": [init]})["extended_requests"]
    has = node_facts(Node.model_validate(node), "c")["allocatable_extended"]

    assert wanted == {"example.com/fpga": "2.0", "hugepages-2Mi": "4194304.0"}
    assert has == {"example.com/fpga": "4.0", "hugepages-2Mi": "0.0"}


@pytest.mark.parametrize(
    "named",
    [
        {"annotations": {"scheduling.k8s.io/group-name": "train"}},
        {"labels": {"scheduling.x-k8s.io/pod-group": "train"}},
        {"labels": {"pod-group.scheduling.sigs.k8s.io": "train"}},
        {"annotations": {"gang.scheduling.koordinator.sh/name": "train"}},
        {"labels": {"kueue.x-k8s.io/pod-group-name": "train"}},
        {"labels": {"jobset.sigs.k8s.io/jobset-name": "train"}},
    ],
)
def test_a_gang_is_found_whoever_schedules_it(named: dict[str, Any]) -> None:
    found = placed(**named)

    assert found["gang"] == "shop/train"
    assert "gang_minimum" not in found, "only the PodGroup has it"


@pytest.mark.parametrize(
    ("named", "minimum"),
    [
        ({"annotations": {"gang.scheduling.koordinator.sh/min-available": "4"}}, 4),
        ({"labels": {"pod-group.scheduling.sigs.k8s.io/min-available": "4"}}, 4),
        ({"annotations": {"kueue.x-k8s.io/pod-group-total-count": "4"}}, 4),
        ({"annotations": {"scheduling.volcano.sh/group-min-member": "4"}}, 4),
        ({"annotations": {"gang.scheduling.koordinator.sh/min-available": "most"}}, None),
        ({"annotations": {"gang.scheduling.koordinator.sh/min-available": "-1"}}, None),
    ],
)
def test_a_gang_has_the_minimum_that_its_pods_say(named: dict[str, Any], minimum: int | None) -> None:
    group = {"spec": {"schedulingGroup": {"podGroupName": "train"}}}

    found = placed(**named, **group)

    assert (found["gang"], found.get("gang_minimum")) == ("shop/train", minimum)
    assert "gang_minimum" not in placed(**named), "without a gang it is about nothing"


def test_koordinators_cores_pin_and_nonsense_does_not() -> None:
    def pinned(status: str) -> tuple[object, object]:
        row = placed(annotations={"scheduling.koordinator.sh/resource-status": status})
        return row.get("cpuset"), row.get("numa_node")

    assert pinned('{"cpuset": "0-3,8", "numaNodeResources": [{"node": 1}]}') == ("0-3,8", 1)
    assert pinned('{"cpuset": "all", "numaNodeResources": [{"node": 0}, {"node": 1}]}') == (None, None)
    assert pinned("{") == (None, None)
    assert pinned('{"numaNodeResources": [7, {"node": "x"}]}') == (None, None)


def test_a_pod_stays_where_its_node_a_person_or_the_lack_of_a_controller_keeps_it() -> None:
    def pinned(**changes: Any) -> bool:
        return is_pinned(Pod.model_validate(a_pod("u", **changes)))

    assert not pinned()
    assert pinned(annotations={"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"})
    assert not pinned(annotations={"cluster-autoscaler.kubernetes.io/safe-to-evict": "true"})
    assert pinned(metadata={"ownerReferences": [{"kind": "DaemonSet", "name": "logs", "controller": True}]})
    assert pinned(metadata={"ownerReferences": None})


def test_disk_on_the_node_is_local_storage_and_memory_is_not() -> None:
    def local(*volumes: dict[str, Any]) -> object:
        return placed(spec={"volumes": list(volumes)})["local_storage"]

    assert local({"name": "a", "emptyDir": {}})
    assert local({"name": "a", "hostPath": {"path": "/var"}})
    assert not local({"name": "a", "emptyDir": {"medium": "Memory"}}, {"name": "b", "configMap": {"name": "x"}})


def test_tolerations_and_taints_have_one_form_and_rules_are_json() -> None:
    tolerations = [
        {"key": "gpu", "operator": "Equal", "value": "a100", "effect": "NoSchedule"},
        {"key": "gpu", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300},
        {"operator": "Exists"},
        {"key": "spot", "operator": "Equal", "effect": "NoSchedule"},
    ]
    rules: dict[str, Any] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": []}}
    row = placed(spec={"tolerations": tolerations, "affinity": rules, "nodeSelector": {"disk": "ssd"}})

    assert row["tolerations"] == ["gpu=a100:NoSchedule", "gpu:NoExecute", "*:*", "spot=:NoSchedule"]
    assert json.loads(str(row["affinity"])) == {**rules, "nodeSelector": {"disk": "ssd"}}


def test_a_node_says_what_it_is_and_has() -> None:
    taints = [{"key": "gpu", "value": "a100", "effect": "NoSchedule"}, {"key": "spot", "effect": "NoExecute"}]
    made = a_node("n1", labels={"cohabit.io/rack": "r7"}, capacity={"nvidia.com/gpu": "4"}, taints=taints)

    facts = node_facts(Node.model_validate(made), "c")

    assert facts == {
        "cluster": "c",
        "node": "n1",
        "platform": "m5.2xlarge",
        "cores": 8.0,
        "memory_bytes": 32.0 * 2**30,
        "allocatable_cores": 7.91,
        "allocatable_memory_bytes": 31.0 * 2**30,
        "allocatable_pods": 110.0,
        "allocatable_extended": {},
        "gpus": 4.0,
        "zone": "z1",
        "rack": "r7",
        "sku": "m5.2xlarge",
        "labels": made["metadata"]["labels"],
        "taints": ["gpu=a100:NoSchedule", "spot:NoExecute"],
    }


def test_the_platform_is_told_as_closely_as_the_node_does() -> None:
    model = {f"feature.node.kubernetes.io/cpu-model.{k}": v for k, v in [("vendor_id", "AMD"), ("family", "25")]}

    def platform(**labels: str) -> object:
        return node_facts(Node.model_validate(a_node("n", labels=labels)), "c")["platform"]

    assert platform() == "m5.2xlarge"
    assert platform(**model) == "m5.2xlarge"
    assert platform(**model, **{"feature.node.kubernetes.io/cpu-model.id": "1"}) == "AMD-25-1"
    assert platform(**{"cohabit.io/platform": "milan"}) == "milan"
    assert platform(**{"node.kubernetes.io/instance-type": ""}) == "amd64"


def told(*steps: dict[str, Any], known: Published | None = None) -> list[tuple[object, object]]:
    """(event, seconds after noon) of a pod's states in turn."""
    records = []
    for changes in steps:
        answer = pod_seen(known, a_pod("u1", **changes), HEARD)
        records += answer.records
        known = answer.published
    return [(record["event"], (int(str(record["ts"])) - NOON_MS) / 1000) for record in records]


RUNNING: dict[str, Any] = {}
LABELLED: dict[str, Any] = {"labels": {"app": "shop"}, "changed": "2026-03-01T12:10:00Z"}
DONE: dict[str, Any] = {
    "status": {
        "phase": "Succeeded",
        "containerStatuses": [{"state": {"terminated": {"exitCode": 0, "finishedAt": "2026-03-01T12:20:00Z"}}}],
    }
}


def test_every_time_is_the_pods_own() -> None:
    assert told(RUNNING) == [("add", 0.0)]
    assert told(RUNNING, LABELLED) == [("add", 0.0), ("change", 600.0)]
    assert told(RUNNING, DONE) == [("add", 0.0), ("delete", 1200.0)]
    assert told(DONE) == [("add", 0.0), ("delete", 1200.0)]
    assert told(LABELLED) == [("add", 0.0), ("change", 600.0)]


def test_nothing_new_tells_nothing() -> None:
    ready = {"status": {"phase": "Running", "podIP": "10.0.0.1"}}

    assert told(RUNNING, ready, RUNNING) == [("add", 0.0)]
    assert told(DONE, DONE, RUNNING) == [("add", 0.0), ("delete", 1200.0)]


def test_a_pod_without_a_node_has_no_placement_yet() -> None:
    pending = {"spec": {"nodeName": None}, "status": {"phase": "Pending", "conditions": None}}

    assert told(pending) == []
    assert told(pending, RUNNING) == [("add", 0.0)]
    assert told({"spec": {"nodeName": ""}, "status": {"phase": "Failed"}}) == []


def test_times_of_a_container_grow_even_when_its_own_do_not() -> None:
    again = {"labels": {"app": "third"}, "changed": "2026-03-01T12:10:00Z"}

    assert told(RUNNING, LABELLED, again) == [("add", 0.0), ("change", 600.0), ("change", 600.001)]


def test_a_deletion_is_at_its_time_but_not_before_it_happened() -> None:
    known = pod_seen(None, a_pod("u1"), HEARD).published

    def ts(deletion: str) -> float:
        [record] = pod_gone(known, a_pod("u1", metadata={"deletionTimestamp": deletion}), HEARD).records
        return (int(str(record["ts"])) - NOON_MS) / 1000

    assert ts("2026-03-01T12:05:00Z") == 300.0
    assert ts("2026-03-01T18:00:00Z") == 3600.0


def test_what_is_gone_from_a_list_ended_when_it_was_due_else_when_we_noticed() -> None:
    plain = pod_seen(None, a_pod("u1"), HEARD).published
    due = pod_seen(plain, a_pod("u1", metadata={"deletionTimestamp": "2026-03-01T12:05:00Z"}), HEARD)

    noticed, ended = pod_gone(plain, None, HEARD), pod_gone(due.published, None, HEARD)

    assert due.records == []
    assert [(r["event"], r["ts"], r["node"], r["app"]) for r in noticed.records] == [
        ("delete", HEARD.at_ms, "n1", "web")
    ]
    assert ended.records[0]["ts"] == NOON_MS + 300_000
    assert pod_gone(pod_seen(None, a_pod("u1", **DONE), HEARD).published, None, HEARD).records == []


def test_a_list_tells_again_what_stands_with_the_same_key_and_content() -> None:
    first = pod_seen(None, a_pod("u1"), HEARD)
    renamed = pod_seen(first.published, a_pod("u1", **LABELLED), HEARD)
    ended = pod_seen(None, a_pod("u2", **DONE), HEARD)
    node = node_seen(None, a_node("n1"), HEARD)
    later = HEARD._replace(at_ms=HEARD.at_ms + 1)

    assert pod_listed(first.published, a_pod("u1"), later) == first
    assert pod_listed(renamed.published, a_pod("u1", **LABELLED), later) == renamed
    assert pod_listed(ended.published, a_pod("u2", **DONE), later).records == []
    again = node_listed(node.published, a_node("n1", heartbeat="2026-03-01T12:05:00Z"), later)
    assert (again.records, again.published) == (node.records[-1:], node.published)


def test_a_nodes_heartbeat_tells_nothing_and_a_change_does() -> None:
    first = node_seen(None, a_node("n1"), HEARD)
    beat = node_seen(first.published, a_node("n1", heartbeat="2026-03-01T12:05:00Z"), HEARD)
    label = node_seen(beat.published, a_node("n1", heartbeat="2026-03-01T12:05:00Z", labels={"pool": "x"}), HEARD)

    created_ms = NOON_MS - 7_200_000
    assert [r["ts"] for r in first.records] == [created_ms, NOON_MS]
    assert beat.records == []
    assert [r["ts"] for r in label.records] == [NOON_MS + 300_000]


def accepted(table: Table, record: dict[str, object]) -> dict[str, object]:
    """The record as our own decoder has it."""
    context = Context(pa.array([HEARD.at_ms * 1000], TIMESTAMP))
    decoded = decoder(table)(pa.array([json.dumps(record).encode()], pa.binary()), context)
    assert not decoded.rejects.num_rows
    assert not decoded.unknown_fields
    return dict(decoded.rows.to_pylist()[0])


def test_records_are_rows_of_our_tables() -> None:
    [pod] = pod_seen(None, a_pod("u1"), HEARD).records
    *_, node = node_seen(None, a_node("n1"), HEARD).records

    assert accepted(PLACEMENTS, pod)["cpu_request_cores"] == 0.25
    assert accepted(NODES, node)["labels"] == list(a_node("n1")["metadata"]["labels"].items())


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(
    place=st.sampled_from(
        [
            *[("metadata",), ("metadata", "labels"), ("metadata", "managedFields"), ("metadata", "deletionTimestamp")],
            *[("spec",), ("spec", "containers"), ("spec", "containers", 0, "resources"), ("spec", "tolerations")],
            *[("spec", "volumes"), ("spec", "overhead"), ("spec", "priority"), ("status",), ("status", "conditions")],
        ]
    ),
    value=JSON,
)
def test_whatever_stands_in_a_pod_it_is_told_or_refused(place: tuple[str | int, ...], value: object) -> None:
    made = a_pod("u1")
    inside: Any = made
    for step in place[:-1]:
        inside = inside[step]
    inside[place[-1]] = value

    try:
        answer = pod_seen(None, made, HEARD)
    except ValidationError:
        return

    for record in answer.records:
        accepted(PLACEMENTS, record)


def test_the_id_of_advice_goes_with_the_labels_and_other_annotations_do_not() -> None:
    notes = {"cohabit.io/advice": "advice-1", "note": "x"}

    found = placed(annotations=notes)["labels"]

    assert found == {"pod-template-hash": "7d4b9c6f58", "cohabit.io/advice": "advice-1"}


@pytest.mark.parametrize(("label", "kept"), [("on", "advice-1"), ("", "advice-1"), ("off", "off")])
def test_a_label_hides_the_id_of_advice_only_where_it_opts_out(label: str, kept: str) -> None:
    found = placed(annotations={"cohabit.io/advice": "advice-1"}, labels={"cohabit.io/advice": label})["labels"]

    assert found == {"pod-template-hash": "7d4b9c6f58", "cohabit.io/advice": kept}
