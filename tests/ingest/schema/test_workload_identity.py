"""Identity: which app, team and class a pod belongs to, from its labels and owners."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.schema.workload_identity import Identity, Owner, PodFacts, identify, top_owner

TEXT = st.text(max_size=20)


def app_of(*owners: Owner, name: str = "pod-1", **labels: str) -> str:
    return identify(PodFacts(name, "shop", {k.replace("_", "-"): v for k, v in labels.items()}, owners)).app


def test_a_deployment_stands_behind_its_replica_set() -> None:
    owner = Owner("ReplicaSet", "web-api-7d4b9c6f58")

    assert app_of(owner, pod_template_hash="7d4b9c6f58") == "web-api"
    assert app_of(owner, rollouts_pod_template_hash="7d4b9c6f58") == "web-api"


def test_a_replica_set_of_its_own_keeps_its_name() -> None:
    assert app_of(Owner("ReplicaSet", "web-api")) == "web-api"
    assert app_of(Owner("ReplicaSet", "web-7d4b9c6f58"), pod_template_hash="other") == "web-7d4b9c6f58"


@pytest.mark.parametrize("run", ["28612345", "1716740700"])
def test_a_cron_job_stands_behind_its_jobs(run: str) -> None:
    assert app_of(Owner("Job", f"nightly-report-{run}")) == "nightly-report"


@pytest.mark.parametrize("name", ["import", "import-7", "import-x7k2p", "import-286123456789"])
def test_a_job_of_its_own_keeps_its_name(name: str) -> None:
    assert app_of(Owner("Job", name)) == name


@pytest.mark.parametrize("kind", ["StatefulSet", "DaemonSet", "PyTorchJob"])
def test_other_workloads_are_named_as_they_are(kind: str) -> None:
    assert app_of(Owner(kind, "db-12345678")) == "db-12345678"


def test_a_volcano_job_is_no_scheduled_job() -> None:
    volcano = Owner("Job", "train-28612345", api_version="batch.volcano.sh/v1alpha1")

    assert app_of(volcano) == "train-28612345"
    assert app_of(Owner("Job", "train-28612345", api_version="batch/v1")) == "train"


@pytest.mark.parametrize(
    ("owner", "labels", "top"),
    [
        (Owner("ReplicaSet", "web-7d4b"), {"pod-template-hash": "7d4b"}, "Deployment/web"),
        (Owner("ReplicaSet", "web-7d4b"), {"rollouts-pod-template-hash": "7d4b"}, "Rollout/web"),
        (Owner("ReplicaSet", "web"), {"pod-template-hash": ""}, "ReplicaSet/web"),
        (Owner("Job", "nightly-28612345"), {}, "CronJob/nightly"),
        (Owner("Job", "import"), {}, "Job/import"),
        (Owner("Job", "train", api_version="batch.volcano.sh/v1alpha1"), {}, "VolcanoJob/train"),
        (Owner("DaemonSet", "logs"), {}, "DaemonSet/logs"),
        (Owner("StatefulSet", "db"), {}, "StatefulSet/db"),
    ],
)
def test_the_top_of_the_owner_chain_is_told_from_the_pod(owner: Owner, labels: dict[str, str], top: str) -> None:
    found = top_owner(PodFacts("p", "shop", labels, [owner]))

    assert found is not None
    assert f"{found.kind}/{found.name}" == top


def test_a_static_pod_is_the_same_app_on_every_node() -> None:
    assert app_of(Owner("Node", "rack-3"), name="kube-proxy-rack-3") == "kube-proxy"


def test_a_pod_without_owner_is_its_own_app() -> None:
    assert app_of(name="debug") == "debug"


def test_the_controlling_owner_decides_else_the_first() -> None:
    assert app_of(Owner("Backup", "other", controller=False), Owner("StatefulSet", "db")) == "db"
    assert app_of(Owner("Backup", "other", controller=False), name="debug") == "other"


def test_a_label_beats_the_owner_and_the_more_specific_label_the_other() -> None:
    owners = [Owner("StatefulSet", "db")]
    labels = {"app": "third", "app.kubernetes.io/name": "second", "cohabit.io/app": "first"}

    for expected in ("first", "second", "third", "db"):
        assert identify(PodFacts("p", "shop", dict(labels), owners)).app == expected
        if labels:
            labels.popitem()


def test_an_empty_label_says_nothing() -> None:
    assert identify(PodFacts("p", "shop", {"app": "", "team": ""}, [Owner("StatefulSet", "db")])) == Identity(
        "db", "shop", best_effort=False
    )


def test_the_team_is_a_label_or_the_namespace() -> None:
    assert identify(PodFacts("p", "shop", {"team": "a", "cohabit.io/team": "b"})).team == "b"
    assert identify(PodFacts("p", "shop", {"team": "a"})).team == "a"
    assert identify(PodFacts("p", "shop")).team == "shop"


@pytest.mark.parametrize(
    ("label", "value", "best_effort"),
    [
        ("cohabit.io/qos", "BE", True),
        ("cohabit.io/qos", "be", True),
        ("koordinator.sh/qosClass", "BE", True),
        ("koordinator.sh/qosClass", "LSR", False),
        ("cohabit.io/qos", "LS", False),
        ("qos", "BE", False),
    ],
)
def test_only_a_class_label_makes_a_pod_best_effort(label: str, value: str, *, best_effort: bool) -> None:
    assert identify(PodFacts("p", "shop", {label: value})).best_effort is best_effort


def test_our_own_class_label_comes_first() -> None:
    labels = {"koordinator.sh/qosClass": "BE", "cohabit.io/qos": "LS"}

    assert not identify(PodFacts("p", "shop", labels)).best_effort


@given(
    name=TEXT,
    labels=st.dictionaries(st.sampled_from(["app", "team", "pod-template-hash"]) | TEXT, TEXT),
    owners=st.lists(st.builds(Owner, st.sampled_from(["ReplicaSet", "Job", "Node"]), TEXT, st.booleans()), max_size=3),
)
def test_any_pod_has_an_identity(name: str, labels: dict[str, str], owners: list[Owner]) -> None:
    found = identify(PodFacts(name, "shop", labels, owners))

    assert isinstance(found.app, str)
    assert found.team
