"""Scheduler pool: its manifests fit Kubernetes, refer to what the example makes, and say what the page says."""

from copy import deepcopy
from typing import Any

import pytest
import yaml

from cohabit.config.settings import read_settings
from tests.deploy.checks import (
    Check,
    fits_its_schema,
    has_no_more_rights_than_it_needs,
    names_ports_that_exist,
    refers_to_what_there_is,
    selects_somebody,
    writes_where_it_may,
)
from tests.deploy.manifests import DEPLOY, EXAMPLE, Manifest, containers, environment, named, pods, read

POOL = DEPLOY / "kubernetes" / "scheduler-pool"
PAGE = DEPLOY.parent / "docs" / "scheduler.md"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> list[Manifest]:
    """The example with the pool."""
    folder = tmp_path_factory.mktemp("pool")
    (folder / "kustomization.yaml").write_text(yaml.safe_dump({"resources": [str(EXAMPLE)], "components": [str(POOL)]}))
    return read(folder)


@pytest.fixture
def both(made: list[Manifest]) -> list[Manifest]:
    return deepcopy(made)


@pytest.fixture
def deployment(both: list[Manifest]) -> Manifest:
    [found] = (one for one in named(both, "Deployment") if one["metadata"]["name"] == "cohabit-scheduler")
    return found


@pytest.mark.parametrize(
    "check",
    [fits_its_schema, selects_somebody, names_ports_that_exist, refers_to_what_there_is, writes_where_it_may],
    ids=lambda check: check.__name__,
)
def test_nothing_is_to_complain_of(check: Check, both: list[Manifest]) -> None:
    assert list(check(both)) == []


def test_its_only_rights_are_those_of_a_scheduler_and_of_one_lease(both: list[Manifest]) -> None:
    *leases, unmounted = sorted(has_no_more_rights_than_it_needs(both), key=lambda one: "Token" in one)
    assert len(leases) == 2
    assert all("Role cohabit-scheduler-election" in one and "leases" in one for one in leases)
    assert unmounted == "Deployment cohabit-scheduler: automountServiceAccountToken is False"
    roles = {
        one["roleRef"]["name"]
        for one in named(both, "ClusterRoleBinding")
        if one["subjects"][0]["name"] == "cohabit-scheduler"
    }
    assert roles == {"system:kube-scheduler", "system:volume-scheduler"}


def test_scheduler_and_advisor_meet_on_loopback_by_what_the_page_advises(
    both: list[Manifest], deployment: Manifest
) -> None:
    [serve] = (one for one in containers(deployment["spec"]["template"]) if one["name"] == "serve")
    own = read_settings(environment(both, serve)).advisor
    [config] = (one for one in named(both, "ConfigMap") if one["metadata"]["name"] == "cohabit-scheduler")
    found: Any = yaml.safe_load(config["data"]["scheduler.yaml"])
    assert str(own.scheduler_host) == "127.0.0.1"
    assert own.scheduler_certificate is None
    assert found["extenders"][0]["urlPrefix"] == f"http://127.0.0.1:{own.scheduler_port}/extender"
    advised = yaml.safe_load(PAGE.read_text().split("```yaml\n")[1].split("```")[0])
    assert found["extenders"] == advised["extenders"]


def test_one_name_for_scheduler_lease_and_policy(both: list[Manifest]) -> None:
    [config] = (one for one in named(both, "ConfigMap") if one["metadata"]["name"] == "cohabit-scheduler")
    found: Any = yaml.safe_load(config["data"]["scheduler.yaml"])
    [policy], [binding] = named(both, "MutatingAdmissionPolicy"), named(both, "MutatingAdmissionPolicyBinding")
    [mutation] = policy["spec"]["mutations"]
    [name] = (profile["schedulerName"] for profile in found["profiles"])
    assert f'value: "{name}"' in mutation["jsonPatch"]["expression"]
    assert found["leaderElection"] == {"leaderElect": True, "resourceName": name, "resourceNamespace": "cohabit"}
    assert binding["spec"]["policyName"] == policy["metadata"]["name"]
    assert (policy["spec"]["failurePolicy"], policy["spec"]["reinvocationPolicy"]) == ("Ignore", "Never")


def test_the_token_is_kube_schedulers_alone(deployment: Manifest) -> None:
    pod = deployment["spec"]["template"]
    mounts = {one["name"]: {mount["name"] for mount in one["volumeMounts"]} for one in containers(pod)}
    assert "token" in mounts["kube-scheduler"]
    assert "token" not in mounts["serve"]


def test_only_prometheus_connects_to_it(both: list[Manifest]) -> None:
    [policy] = (one for one in named(both, "NetworkPolicy") if one["metadata"]["name"] == "cohabit-scheduler")
    assert "Ingress" in policy["spec"]["policyTypes"]
    [rule] = policy["spec"]["ingress"]
    assert rule["ports"] == [{"protocol": "TCP", "port": "people"}]
    assert rule["from"] == [{"namespaceSelector": {"matchLabels": {"cohabit.io/asks": "true"}}}]
    assert {name for name, _ in pods(both)} >= {"Deployment cohabit-scheduler"}
