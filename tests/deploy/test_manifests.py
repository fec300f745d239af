"""Manifests: what a cluster is told fits Kubernetes, our command line and our settings; and each check can fail."""

import json
import re
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml

from cohabit.config.errors import BadSettings
from cohabit.config.settings import read_settings
from tests.deploy.checks import (
    ALL,
    REACHES,
    Check,
    comes_from_nowhere,
    fits_its_schema,
    has_before_it_what_it_needs,
    has_no_more_rights_than_it_needs,
    has_settings_that_hold,
    is_a_command,
    is_probed,
    makes_the_folders,
    names_ports_that_exist,
    reaches_what_it_asks,
    refers_to_what_there_is,
    selects_somebody,
    survives_a_node,
    tells_all_peers,
    writes_where_it_may,
)
from tests.deploy.manifests import (
    BASE,
    BUCKET_PAGE,
    DEPLOY,
    EXAMPLE,
    Manifest,
    bucket_example,
    containers,
    name_of,
    named,
    pods,
    read,
)


@pytest.fixture(scope="module")
def made() -> list[Manifest]:
    return read(EXAMPLE)


@pytest.fixture
def example(made: list[Manifest]) -> list[Manifest]:
    """What the example makes: everything there is, with names filled in."""
    return deepcopy(made)


@pytest.mark.parametrize("check", ALL, ids=lambda check: check.__name__)
def test_nothing_is_to_complain_of(check: Check, example: list[Manifest]) -> None:
    assert list(check(example)) == []


def test_the_example_has_everything_that_runs(example: list[Manifest]) -> None:
    told = {" ".join(one["args"]) for _, pod in pods(example) for one in containers(pod) if "args" in one}

    assert told == {
        "serve",
        "refresh --from-topic",
        "ingest --dead-letter-topic",
        "watch --state /data/watch",
        "features --follow",
        "features --publish-state",
        "admin database migrate",
        "dev topics",
    }
    assert {one["kind"] for one in example} >= {"PodMonitor", "PrometheusRule", "PodDisruptionBudget", "NetworkPolicy"}


def secured(folder: Path) -> list[Manifest]:
    """The example over brokers that ask for a password."""
    settings = ["PROTOCOL=SASL_SSL", "CA=/kafka/ca.crt", "USER=cohabit", "PASSWORD_FILE=/kafka/password"]
    (folder / "settings.env").write_text("".join(f"COHABIT_KAFKA__{setting}\n" for setting in settings))
    told = {
        "resources": [str(EXAMPLE)],
        "components": [str(DEPLOY / "kubernetes" / "secured-kafka")],
        "configMapGenerator": [{"name": "cohabit-settings", "behavior": "merge", "envs": ["settings.env"]}],
    }
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(told))
    return read(folder)


@pytest.fixture(scope="module")
def asking(tmp_path_factory: pytest.TempPathFactory) -> list[Manifest]:
    return secured(tmp_path_factory.mktemp("asking"))


@pytest.mark.parametrize("check", ALL, ids=lambda check: check.__name__)
def test_nothing_is_to_complain_of_where_brokers_ask_who_one_is(check: Check, asking: list[Manifest]) -> None:
    assert list(check(asking)) == []


def test_whoever_speaks_to_such_brokers_has_what_the_settings_name_and_nobody_else(asking: list[Manifest]) -> None:
    found = asking
    mounted, speaking = set(), set()
    for name, pod in pods(found):
        for container in containers(pod):
            if any(mount["mountPath"] == "/kafka" for mount in container["volumeMounts"]):
                mounted.add((name, container["name"]))
            if any(" ".join(container.get("args", ())).startswith(command) for command in REACHES):
                speaking.add((name, container["name"]))
        kafka = [volume for volume in pod["spec"]["volumes"] if volume["name"] == "kafka"]
        assert [one["secret"]["defaultMode"] for one in kafka] in ([], [0o440]), name

    assert mounted == speaking | {("Deployment cohabit-tools", "tools")}
    assert len(speaking) == 5


@pytest.fixture(scope="module")
def bucket(tmp_path_factory: pytest.TempPathFactory) -> list[Manifest]:
    """The example with its lake in a bucket."""
    return read(bucket_example(tmp_path_factory.mktemp("bucket")))


@pytest.mark.parametrize("check", ALL, ids=lambda check: check.__name__)
def test_nothing_is_to_complain_of_where_the_lake_is_in_a_bucket(check: Check, bucket: list[Manifest]) -> None:
    assert list(check(bucket)) == []


@pytest.fixture(scope="module")
def admitting(tmp_path_factory: pytest.TempPathFactory) -> list[Manifest]:
    return admitted(tmp_path_factory.mktemp("admitting"))


def admitted(folder: Path) -> list[Manifest]:
    """The example with advice at admission and certificates by cert-manager."""
    (folder / "settings.env").write_text("COHABIT_ADVISOR__ADMISSION=advise\n")
    overlay = {
        "resources": [str(EXAMPLE)],
        "components": [str(DEPLOY / "kubernetes" / name) for name in ("admission", "admission-cert-manager")],
        "configMapGenerator": [{"name": "cohabit-settings", "behavior": "merge", "envs": ["settings.env"]}],
    }
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(overlay))
    return read(folder)


@pytest.mark.parametrize("check", ALL, ids=lambda check: check.__name__)
def test_nothing_is_to_complain_of_where_pods_are_advised_at_admission(check: Check, admitting: list[Manifest]) -> None:
    assert list(check(admitting)) == []


def test_the_webhook_fails_open_waits_a_second_and_never_asks_itself(admitting: list[Manifest]) -> None:
    [configuration] = named(admitting, "MutatingWebhookConfiguration")
    [webhook] = configuration["webhooks"]
    [certificate] = (one for one in named(admitting, "Certificate") if not one["spec"].get("isCA"))
    service = webhook["clientConfig"]["service"]

    assert (webhook["failurePolicy"], webhook["timeoutSeconds"]) == ("Ignore", 1)
    assert (webhook["sideEffects"], webhook["reinvocationPolicy"]) == ("NoneOnDryRun", "Never")
    assert certificate["spec"]["dnsNames"] == [f"{service['name']}.{service['namespace']}.svc"]
    assert configuration["metadata"]["annotations"] == {
        "cert-manager.io/inject-ca-from": f"{service['namespace']}/{certificate['metadata']['name']}"
    }
    own = {"matchExpressions": [{"key": "app.kubernetes.io/name", "operator": "NotIn", "values": ["cohabit"]}]}
    assert own["matchExpressions"][0] in webhook["objectSelector"]["matchExpressions"]
    assert all(pod["metadata"]["labels"]["app.kubernetes.io/name"] == "cohabit" for _, pod in pods(admitting))
    assert service["path"] == "/admission"


def test_in_a_bucket_no_claim_volume_or_mount_is_the_lakes(bucket: list[Manifest]) -> None:
    claims = {one["metadata"]["name"] for one in named(bucket, "PersistentVolumeClaim")}

    assert claims == {"cohabit-models", "cohabit-snapshots", "cohabit-backups", "cohabit-watch"}
    assert "/data/landed" not in json.dumps(bucket)
    assert "lake" not in {volume["name"] for _, pod in pods(bucket) for volume in pod["spec"]["volumes"]}
    assert ["features", "--follow"] not in [one.get("args") for _, pod in pods(bucket) for one in containers(pod)]


def test_the_page_says_which_account_and_keys_a_pod_has(bucket: list[Manifest]) -> None:
    rows = re.findall(
        r"^\| (`[^|]+) \| `(cohabit[\w-]*)` \| `(cohabit-lake[\w-]*)` \|", BUCKET_PAGE.read_text(), re.MULTILINE
    )
    said = {pod: (account, [keys]) for pods_, account, keys in rows for pod in re.findall(r"`([\w-]+)`", pods_)}
    has = {}
    for _, pod in pods(bucket):
        sources = [source for container in containers(pod) for source in container.get("envFrom", ())]
        if keys := [source["secretRef"]["name"] for source in sources if "secretRef" in source]:
            name = pod["metadata"]["labels"]["app.kubernetes.io/component"]
            has[name] = pod["spec"]["serviceAccountName"], keys

    assert said == has
    assert len(has) == 5


def test_a_bucket_that_no_policy_opens_is_told(bucket: list[Manifest]) -> None:
    without = [one for one in bucket if name_of(one) != "NetworkPolicy cohabit-lake"]

    assert {told.split(":")[0] for told in reaches_what_it_asks(without)} == {
        "StatefulSet cohabit-advisor",
        *(f"Deployment cohabit-{name}" for name in ("ingest", "refresher", "features-publish", "tools")),
    }


def test_the_collector_of_a_trial_may_read_metrics_of_nodes_and_nothing_else_is_to_complain_of() -> None:
    found = list(yaml.safe_load_all((DEPLOY / "trial" / "collector.yaml").read_text()))
    checks = (fits_its_schema, selects_somebody, names_ports_that_exist, refers_to_what_there_is, writes_where_it_may)

    assert [problem for check in checks for problem in check(found)] == []
    (more,) = has_no_more_rights_than_it_needs(found)
    assert "'resources': ['nodes/metrics'], 'verbs': ['get']" in more


def test_without_the_name_of_a_cluster_nothing_starts() -> None:
    [settings] = named(read(BASE), "ConfigMap")

    with pytest.raises(BadSettings, match="set COHABIT_CLUSTER") as refused:
        read_settings(settings["data"])
    assert ";" not in str(refused.value).replace("production: rows", "")


def test_the_operators_rules_are_those_of_the_file(example: list[Manifest]) -> None:
    [rule] = named(example, "PrometheusRule")

    assert rule["spec"] == yaml.safe_load((DEPLOY / "prometheus" / "cohabit.rules.yaml").read_text())


def of(found: list[Manifest], name: str) -> Any:
    """The manifest of a name; anything may be done to it."""
    [one] = (manifest for manifest in found if name_of(manifest) == name)
    return one


def pod_of(found: list[Manifest], name: str) -> Any:
    return of(found, name)["spec"]["template"]


def container_of(found: list[Manifest], name: str) -> Any:
    return pod_of(found, name)["spec"]["containers"][0]


Break = Callable[[list[Manifest]], object]
ADVISOR, INGEST, REFRESHER = "StatefulSet cohabit-advisor", "Deployment cohabit-ingest", "Deployment cohabit-refresher"
WATCH, JOB = "Deployment cohabit-watch", "Job cohabit-prepare"
SETTINGS = "ConfigMap cohabit-settings"


def without_policy(name: str) -> Break:
    return lambda found: found.remove(of(found, f"NetworkPolicy {name}"))


BROKEN: tuple[tuple[Check, Break, str], ...] = (
    (fits_its_schema, lambda f: of(f, ADVISOR)["spec"].update(replica=3), "'replica' was unexpected"),
    (fits_its_schema, lambda f: of(f, ADVISOR)["spec"].update(replicas="3"), "'3' is not of type"),
    (fits_its_schema, lambda f: of(f, ADVISOR)["spec"].pop("selector"), "'selector' is a required property"),
    (fits_its_schema, lambda f: container_of(f, INGEST).update(ports=[{"name": "m"}]), "'containerPort' is a required"),
    (fits_its_schema, lambda f: of(f, ADVISOR).update(apiVersion="apps/v9"), "Couldn't find schema"),
    (fits_its_schema, lambda f: of(f, "PodMonitor cohabit-ingest")["spec"].update(ports=1), "'ports' was unexpected"),
    (
        fits_its_schema,
        lambda f: of(f, "PrometheusRule cohabit")["spec"]["groups"][0].pop("name"),
        '"name" is a required',
    ),
    (fits_its_schema, lambda f: f.append(of(f, JOB)), "Job cohabit-prepare: twice"),
    (is_a_command, lambda f: container_of(f, ADVISOR).update(args=["serves"]), "there is no command"),
    (is_a_command, lambda f: container_of(f, JOB).update(args=["store"]), "there is no command"),
    (is_a_command, lambda f: container_of(f, INGEST)["args"].append("--proceses=2"), "No such option"),
    (
        is_a_command,
        lambda f: container_of(f, REFRESHER)["args"].extend(["--every", "soon"]),
        "Input should be a valid number",
    ),
    (is_a_command, lambda f: container_of(f, INGEST).update(command=["sh"]), "no program that is meant"),
    (has_settings_that_hold, lambda f: of(f, SETTINGS)["data"].update(COHABIT_LAK="/x"), "COHABIT_LAK"),
    (has_settings_that_hold, lambda f: of(f, SETTINGS)["data"].update(COHABIT_LAKE="lake"), "set COHABIT_LAKE"),
    (has_settings_that_hold, lambda f: of(f, SETTINGS)["data"].pop("COHABIT_ADVISOR__AUTH"), "__AUTH=token"),
    (has_settings_that_hold, lambda f: of(f, SETTINGS)["data"].pop("COHABIT_ENVIRONMENT"), "not production"),
    (has_settings_that_hold, lambda f: container_of(f, ADVISOR)["env"].pop(3), "go together: set all three"),
    (has_settings_that_hold, lambda f: container_of(f, ADVISOR)["ports"][0].update(containerPort=80), "people is 8080"),
    (tells_all_peers, lambda f: of(f, ADVISOR)["spec"].update(replicas=3), "cohabit-advisor-2"),
    (selects_somebody, lambda f: pod_of(f, INGEST)["metadata"].update(labels={}), "does not select its own pods"),
    (
        selects_somebody,
        lambda f: of(f, "Service cohabit-advisor")["spec"].update(selector={"a": "b"}),
        "selects no pod",
    ),
    (
        selects_somebody,
        lambda f: of(f, "PodDisruptionBudget cohabit-ingest")["spec"].update(selector={"matchLabels": {"a": "b"}}),
        "PodDisruptionBudget cohabit-ingest: selects no pod",
    ),
    (
        names_ports_that_exist,
        lambda f: of(f, "Service cohabit-schedulers")["spec"]["ports"][0].update(targetPort="scheduler"),
        "no container has port scheduler",
    ),
    (
        names_ports_that_exist,
        lambda f: container_of(f, INGEST)["readinessProbe"]["httpGet"].update(port="http"),
        "Deployment cohabit-ingest: no container has port http",
    ),
    (
        names_ports_that_exist,
        lambda f: of(f, "NetworkPolicy cohabit-ingest")["spec"]["ingress"][0]["ports"][0].update(port="http"),
        "NetworkPolicy cohabit-ingest: no container has port http",
    ),
    (
        names_ports_that_exist,
        lambda f: of(f, "PodMonitor cohabit-ingest")["spec"]["podMetricsEndpoints"][0].update(port="people"),
        "PodMonitor cohabit-ingest: no container has port people",
    ),
    (
        is_probed,
        lambda f: container_of(f, ADVISOR)["livenessProbe"]["httpGet"].update(path="/livez"),
        "no route /livez",
    ),
    (is_probed, lambda f: container_of(f, INGEST).pop("readinessProbe"), "is not asked whether it is ready"),
    (
        refers_to_what_there_is,
        lambda f: container_of(f, JOB)["env"][0]["valueFrom"]["secretKeyRef"].update(key="uri"),
        "Secret cohabit-store, key uri",
    ),
    (
        refers_to_what_there_is,
        lambda f: container_of(f, ADVISOR)["env"][3].update(value="/etc/cohabit/schedulers/tls.pem"),
        "Secret cohabit-scheduler-tls, key tls.pem",
    ),
    (
        refers_to_what_there_is,
        lambda f: f.remove(of(f, "PersistentVolumeClaim cohabit-lake")),
        "there is no PersistentVolumeClaim cohabit-lake",
    ),
    (
        refers_to_what_there_is,
        lambda f: f.remove(of(f, "ServiceAccount cohabit")),
        "there is no ServiceAccount cohabit",
    ),
    (refers_to_what_there_is, lambda f: f.remove(of(f, SETTINGS)), "there is no ConfigMap cohabit-settings"),
    (
        refers_to_what_there_is,
        lambda f: f.remove(of(f, "Service cohabit-advisor-peers")),
        "there is no Service cohabit-advisor-peers",
    ),
    (
        has_no_more_rights_than_it_needs,
        lambda f: container_of(f, WATCH)["securityContext"].update(readOnlyRootFilesystem=False),
        "watch may do more than it needs",
    ),
    (
        has_no_more_rights_than_it_needs,
        lambda f: pod_of(f, WATCH)["spec"]["securityContext"].update(runAsUser=0),
        "user and seccomp profile",
    ),
    (
        has_no_more_rights_than_it_needs,
        lambda f: pod_of(f, INGEST)["spec"].update(automountServiceAccountToken=True),
        "automountServiceAccountToken is True",
    ),
    (
        has_no_more_rights_than_it_needs,
        lambda f: of(f, "ClusterRole cohabit-watch")["rules"][0].update(resources=["pods", "secrets"]),
        "is more than `cohabit watch` needs",
    ),
    (
        has_no_more_rights_than_it_needs,
        lambda f: pod_of(f, INGEST)["spec"].pop("enableServiceLinks"),
        "links to Services would be COHABIT_ variables",
    ),
    (has_no_more_rights_than_it_needs, lambda f: container_of(f, INGEST).pop("resources"), "says not what it needs"),
    (has_no_more_rights_than_it_needs, lambda f: container_of(f, INGEST)["volumeMounts"].pop(0), "nowhere to write"),
    (
        comes_from_nowhere,
        lambda f: container_of(f, INGEST).update(image="registry.example/cohabit-jobs:0.1.0"),
        "image registry.example",
    ),
    (comes_from_nowhere, lambda f: container_of(f, INGEST).update(image="cohabit-jobs:latest"), "cohabit-jobs:latest"),
    (writes_where_it_may, lambda f: container_of(f, REFRESHER)["volumeMounts"].pop(), "/data/live/snapshots is not on"),
    (
        writes_where_it_may,
        lambda f: container_of(f, ADVISOR)["volumeMounts"][1].update(readOnly=True),
        "/data/landed/lake is not on a volume that it may use so",
    ),
    (
        writes_where_it_may,
        lambda f: container_of(f, INGEST)["volumeMounts"][1].update(mountPath="/data/landed/lake"),
        "/data/landed/lake is not on",
    ),
    (
        makes_the_folders,
        lambda f: pod_of(f, JOB)["spec"]["initContainers"][0]["command"].pop(),
        "nobody makes ['/data/live/snapshots']",
    ),
    (
        has_before_it_what_it_needs,
        lambda f: of(f, "ServiceAccount cohabit")["metadata"].pop("labels"),
        "ServiceAccount cohabit comes after it",
    ),
    (
        has_before_it_what_it_needs,
        lambda f: of(f, "NetworkPolicy cohabit-store")["metadata"].pop("labels"),
        "NetworkPolicy cohabit-store comes after it",
    ),
    (has_before_it_what_it_needs, lambda f: of(f, JOB)["metadata"].pop("labels"), "not in the first step itself"),
    (survives_a_node, lambda f: f.remove(of(f, "PodDisruptionBudget cohabit-ingest")), "a budget is for several"),
    (survives_a_node, lambda f: pod_of(f, ADVISOR)["spec"].pop("topologySpreadConstraints"), "may be on one node"),
    (survives_a_node, lambda f: of(f, REFRESHER)["spec"].pop("strategy"), "two of it run during an update"),
    (reaches_what_it_asks, without_policy("default-deny"), "no NetworkPolicy denies"),
    (reaches_what_it_asks, without_policy("cohabit-kafka"), "cohabit-ingest: no policy lets it reach port [9092]"),
    (reaches_what_it_asks, without_policy("cohabit-store"), "cohabit-advisor: no policy lets it reach port [5432]"),
    (reaches_what_it_asks, without_policy("cohabit-watch"), "cohabit-watch: no policy lets it reach port [443, 6443]"),
    (
        reaches_what_it_asks,
        lambda f: of(f, SETTINGS)["data"].update(COHABIT_KAFKA__BOOTSTRAP="kafka:9093"),
        "no policy lets it reach port [9093]",
    ),
)


@pytest.mark.parametrize(("check", "break_it", "told"), BROKEN, ids=[f"{c.__name__}-{t}" for c, _, t in BROKEN])
def test_a_broken_manifest_is_told(check: Check, break_it: Break, told: str, example: list[Manifest]) -> None:
    break_it(example)

    complaints = list(check(example))

    assert any(told in complaint for complaint in complaints), complaints


def test_every_check_is_shown_to_fail() -> None:
    assert {check for check, _, _ in BROKEN} == set(ALL)
