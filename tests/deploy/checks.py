"""Checks of manifests: each tells of whatever would not run, or would run with more rights than it needs."""

import json
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from operator import attrgetter
from pathlib import Path, PurePosixPath
from typing import Any, cast

import jsonschema_rs
import kubernetes_validate
import typer.main
from prometheus_client import CollectorRegistry
from typer.core import TyperCommand, TyperGroup
from typer.exceptions import TyperException

from advisor.api.http.health import ops_routes
from advisor.placement.model_state import Serving
from cohabit.cli.main import app
from cohabit.config.errors import CohabitError
from cohabit.config.settings import Settings, read_settings
from models.registry.registry import Registry
from tests.deploy.manifests import (
    DEFAULT_ACCOUNT,
    DEPLOY,
    WORKLOADS,
    Manifest,
    containers,
    environment,
    matches,
    name_of,
    named,
    pods,
    selected,
)

KUBERNETES = "1.36"
"""Of which the schemas are; `make e2e-kube` runs the programs of the same."""
USER = 10001
STEP = "cohabit.io/step"
"""Label of what is applied first; see docs/deployment.md."""
DOCS = DEPLOY.parent / "docs" / "deployment.md"
SECRETS = r"^\| `(cohabit-[a-z-]+)` \| ((?:`[\w.]+`(?:, )?)+) \|"
"""Rows of what one makes by oneself, in docs/deployment.md: a Secret and its keys."""
NEEDS: Mapping[str, Mapping[str, bool]] = {
    "serve": {"lake": True, "snapshots": True, "registry": False, "billing.ledger_dir": False},
    "refresh": {"lake": True, "snapshots": True},
    "ingest": {"lake": True},
    "features": {"lake": True},
}
"""Folders that commands use, by setting, and whether they write there; whoever opens a lake tries whether it can.
A lake in a bucket is no folder."""
REACHES = ("dev topics", "ingest", "watch", "refresh", "features --publish-state")
"""Commands that ask Kafka."""
MONITORS: Mapping[str, Manifest] = {
    "PodMonitor": {
        "type": "object",
        "additionalProperties": False,
        "required": ["selector", "podMetricsEndpoints"],
        "properties": {
            "selector": {"type": "object", "required": ["matchLabels"]},
            "podMetricsEndpoints": {
                "type": "array",
                "minItems": 1,
                "items": {
                    "type": "object",
                    "additionalProperties": False,
                    "required": ["port", "path"],
                    "properties": {"port": {"type": "string"}, "path": {"type": "string", "pattern": "^/"}},
                },
            },
        },
    },
    "PrometheusRule": {
        "type": "object",
        "additionalProperties": False,
        "required": ["groups"],
        "properties": {
            "groups": {
                "type": "array",
                "items": {
                    "type": "object",
                    "additionalProperties": False,
                    "required": ["name", "rules"],
                    "properties": {
                        "name": {"type": "string"},
                        "rules": {
                            "type": "array",
                            "items": {
                                "type": "object",
                                "additionalProperties": False,
                                "required": ["alert", "expr"],
                                "properties": {
                                    "alert": {"type": "string"},
                                    "expr": {"type": "string"},
                                    "for": {"type": "string", "pattern": "^[0-9]+[smh]$"},
                                    "labels": {"type": "object", "additionalProperties": {"type": "string"}},
                                    "annotations": {"type": "object", "additionalProperties": {"type": "string"}},
                                },
                            },
                        },
                    },
                },
            }
        },
    },
}
"""The part of the Prometheus operator's kinds that ours use."""
CERTIFICATES: Mapping[str, Manifest] = {
    "Issuer": {
        "type": "object",
        "additionalProperties": False,
        "properties": {
            "selfSigned": {"const": {}},
            "ca": {"type": "object", "required": ["secretName"], "properties": {"secretName": {"type": "string"}}},
        },
    },
    "Certificate": {
        "type": "object",
        "additionalProperties": False,
        "required": ["secretName", "issuerRef"],
        "properties": {
            "secretName": {"type": "string"},
            "isCA": {"const": True},
            "commonName": {"type": "string"},
            "dnsNames": {"type": "array", "minItems": 1, "items": {"type": "string"}},
            "duration": {"type": "string", "pattern": "^[0-9]+h$"},
            "usages": {"items": {"enum": ["digital signature", "key encipherment", "server auth"]}},
            "privateKey": {
                "type": "object",
                "additionalProperties": False,
                "properties": {
                    "algorithm": {"const": "ECDSA"},
                    "size": {"const": 256},
                    "rotationPolicy": {"const": "Always"},
                },
            },
            "issuerRef": {"type": "object", "required": ["name", "kind"]},
        },
    },
}
"""The part of cert-manager's kinds, cert-manager.io/v1, that ours use."""
KINDS = {**MONITORS, **CERTIFICATES}

REFUSED = (
    jsonschema_rs.ValidationError,
    kubernetes_validate.ValidationError,
    kubernetes_validate.SchemaNotFoundError,
)

Check = Callable[[list[Manifest]], Iterator[str]]


def fits_its_schema(found: list[Manifest]) -> Iterator[str]:
    """Fields that a kind does not have, lacks or has otherwise; all names once."""
    for manifest in found:
        if problem := _schema_problem(json.dumps(manifest)):
            yield f"{name_of(manifest)}: {problem}"
    names = [name_of(manifest) for manifest in found]
    yield from (f"{name}: twice" for name in sorted({name for name in names if names.count(name) > 1}))


@cache
def _schema_problem(text: str) -> str:
    manifest = json.loads(text)
    try:
        if manifest["kind"] in KINDS:
            jsonschema_rs.validate(KINDS[manifest["kind"]], manifest["spec"])
        else:
            kubernetes_validate.validate(manifest, KUBERNETES, strict=True)
    except REFUSED as error:
        return str(error.message)
    return ""


def is_a_command(found: list[Manifest]) -> Iterator[str]:
    """What the command line would not take; beside it, the few programs that are meant."""
    for name, pod in pods(found):
        for container in containers(pod):
            program = container.get("command", ["cohabit"])
            if program == ["cohabit"]:
                if problem := refusal(container["args"]):
                    yield f"{name}: {problem}"
            elif program[:2] != ["mkdir", "-p"] and program != ["sleep", "infinity"]:
                yield f"{name}: {program} is no program that is meant"


def refusal(words: list[str]) -> str:
    """Why the command line does not take some words; they are parsed and not run."""
    command: object = typer.main.get_command(app)
    rest = list(words)
    try:
        while isinstance(command, TyperGroup):
            command = command.commands.get(rest[0]) if rest else None
            rest = rest[1:]
        if command is None:
            return f"there is no command {words}"
        cast("TyperCommand", command).make_context(words[0], rest)
    except TyperException as error:
        return str(error)
    return ""


def has_settings_that_hold(found: list[Manifest]) -> Iterator[str]:
    """Variables that are no settings, and settings that production refuses."""
    for name, container, told in _settings_told(found):
        try:
            own = read_settings(told)
        except CohabitError as error:
            yield f"{name}: {error}"
            continue
        if own.environment != "production":
            yield f"{name}: COHABIT_ENVIRONMENT is not production"
        yield from (f"{name}: {problem}" for problem in _wrong_ports(own, container))


def _settings_told(found: list[Manifest]) -> Iterator[tuple[str, Manifest, dict[str, str]]]:
    for name, pod in pods(found):
        for container in containers(pod):
            if container.get("command", ["cohabit"])[0] != "mkdir":
                yield name, container, environment(found, container)


def _wrong_ports(own: Settings, container: Manifest) -> Iterator[str]:
    of = own.advisor
    meant: dict[str, int | None] = {"people": of.port, "schedulers": of.scheduler_port, "admission": of.admission_port}
    meant |= {"metrics": own.kafka.metrics_port}
    for port in container.get("ports", ()):
        if meant.get(port["name"]) != port["containerPort"]:
            yield f"port {port['name']} is {meant.get(port['name'])} by its settings"


def tells_all_peers(found: list[Manifest]) -> Iterator[str]:
    """Replicas that the others would not tell of pods on their way."""
    for manifest in named(found, "StatefulSet"):
        of, name = manifest["spec"], manifest["metadata"]["name"]
        for container in of["template"]["spec"]["containers"]:
            own = read_settings(environment(found, container)).advisor
            meant = {f"https://{name}-{i}.{of['serviceName']}:{own.scheduler_port}" for i in range(of["replicas"])}
            if meant != set(own.peers):
                yield f"{name_of(manifest)}: peers are not {sorted(meant)}"


def selects_somebody(found: list[Manifest]) -> Iterator[str]:
    """Selectors that select no pod, and workloads that do not select their own."""
    for manifest in named(found, "Deployment", "StatefulSet"):
        if not matches(manifest["spec"]["selector"], manifest["spec"]["template"]["metadata"]["labels"]):
            yield f"{name_of(manifest)}: does not select its own pods"
    for name, selector in _selectors(found):
        if not selected(found, selector):
            yield f"{name}: selects no pod with {selector}"


def _selectors(found: list[Manifest]) -> Iterator[tuple[str, Manifest]]:
    for manifest in named(found, "Service"):
        yield name_of(manifest), {"matchLabels": manifest["spec"]["selector"]}
    for manifest in named(found, "PodDisruptionBudget", "PodMonitor"):
        yield name_of(manifest), manifest["spec"]["selector"]
    for manifest in named(found, "NetworkPolicy"):
        yield name_of(manifest), manifest["spec"]["podSelector"]
        yield from ((name_of(manifest), peer["podSelector"]) for _, _, peer in _peers(manifest) if _is_ours(peer))
    for name, pod in pods(found):
        for spread in pod["spec"].get("topologySpreadConstraints", ()):
            yield name, spread["labelSelector"]


def _is_ours(peer: Manifest) -> bool:
    return "podSelector" in peer and "namespaceSelector" not in peer


def _peers(policy: Manifest) -> Iterator[tuple[str, Manifest, Manifest]]:
    for way, side in (("ingress", "from"), ("egress", "to")):
        for rule in policy["spec"].get(way, ()):
            yield from ((way, rule, peer) for peer in rule.get(side, ()))


def names_ports_that_exist(found: list[Manifest]) -> Iterator[str]:
    """Ports of Services, probes, policies and monitors that no selected container has."""
    for name, port, among in _named_ports(found):
        if port not in {one["name"] for pod in among for of in containers(pod) for one in of.get("ports", ())}:
            yield f"{name}: no container has port {port}"


def _named_ports(found: list[Manifest]) -> Iterator[tuple[str, str, list[Manifest]]]:
    for manifest in named(found, "Service"):
        among = selected(found, {"matchLabels": manifest["spec"]["selector"]})
        yield from ((name_of(manifest), port["targetPort"], among) for port in manifest["spec"]["ports"])
    for manifest in named(found, "PodMonitor"):
        among = selected(found, manifest["spec"]["selector"])
        yield from ((name_of(manifest), end["port"], among) for end in manifest["spec"]["podMetricsEndpoints"])
    for name, pod in pods(found):
        for probe in _probes(pod):
            yield name, probe["port"], [pod]
    for manifest in named(found, "NetworkPolicy"):
        own = selected(found, manifest["spec"]["podSelector"])
        yield from ((name_of(manifest), port, own) for port in _words(manifest["spec"].get("ingress", ())))
        for way, rule, peer in _peers(manifest):
            if way == "egress" and _is_ours(peer):
                theirs = selected(found, peer["podSelector"])
                yield from ((name_of(manifest), port, theirs) for port in _words([rule]))


def _words(rules: Any) -> Iterator[str]:
    yield from (port["port"] for rule in rules for port in rule.get("ports", ()) if isinstance(port["port"], str))


def _probes(pod: Manifest) -> Iterator[Manifest]:
    for container in containers(pod):
        for kind in ("startupProbe", "livenessProbe", "readinessProbe"):
            if kind in container:
                yield container[kind]["httpGet"]


def is_probed(found: list[Manifest]) -> Iterator[str]:
    """Containers that listen and are not asked whether they are ready, and probes of routes that there are not."""
    routes = ops_routes(Serving(Path(), Registry(Path()), 1.0, lambda: 0, CollectorRegistry()), CollectorRegistry())
    known = {getattr(route, "path", "") for route in routes.routes}
    for name, pod in pods(found):
        yield from (f"{name}: no route {probe['path']}" for probe in _probes(pod) if probe["path"] not in known)
        for container in pod["spec"]["containers"]:
            if container.get("ports") and "readinessProbe" not in container:
                yield f"{name}: {container['name']} is not asked whether it is ready"


def refers_to_what_there_is(found: list[Manifest]) -> Iterator[str]:
    """Secrets, ConfigMaps, claims and accounts that are neither here nor documented as one's own to make."""
    there = {(one["kind"], one["metadata"]["name"]) for one in found}
    keys = {
        name: re.findall(r"`([a-z.]+)`", told) for name, told in re.findall(SECRETS, DOCS.read_text(), re.MULTILINE)
    }
    for name, pod in pods(found):
        for kind, wanted, key in _references(pod):
            if kind == "Secret" and not (wanted in keys and (key is None or key in keys[wanted])):
                yield f"{name}: nobody is told to make Secret {wanted}, key {key}"
            elif kind != "Secret" and (kind, wanted) not in there:
                yield f"{name}: there is no {kind} {wanted}"
    for manifest in named(found, "StatefulSet"):
        if ("Service", manifest["spec"]["serviceName"]) not in there:
            yield f"{name_of(manifest)}: there is no Service {manifest['spec']['serviceName']}"


def _references(pod: Manifest) -> Iterator[tuple[str, str, str | None]]:
    spec = pod["spec"]
    yield "ServiceAccount", spec.get("serviceAccountName", DEFAULT_ACCOUNT), None
    for volume in spec.get("volumes", ()):
        if "persistentVolumeClaim" in volume:
            yield "PersistentVolumeClaim", volume["persistentVolumeClaim"]["claimName"], None
        if "secret" in volume:
            for file in _files_of(volume["name"], spec):
                yield "Secret", volume["secret"]["secretName"], file
    for container in containers(pod):
        for source in container.get("envFrom", ()):
            kind = "Secret" if "secretRef" in source else "ConfigMap"
            yield kind, source[f"{kind[0].lower()}{kind[1:]}Ref"]["name"], None
        for variable in container.get("env", ()):
            if reference := variable.get("valueFrom", {}).get("secretKeyRef"):
                yield "Secret", reference["name"], reference["key"]


def _files_of(volume: str, spec: Manifest) -> Iterator[str]:
    """Files of a mounted Secret that variables name."""
    for container in spec["containers"]:
        for mount in container["volumeMounts"]:
            if mount["name"] == volume:
                values = (variable.get("value", "") for variable in container.get("env", ()))
                yield from (PurePosixPath(v).name for v in values if v.startswith(f"{mount['mountPath']}/"))


def has_no_more_rights_than_it_needs(found: list[Manifest]) -> Iterator[str]:
    """Pods and containers that are not as restricted as they can be."""
    for name, pod in pods(found):
        spec = pod["spec"]
        own = spec.get("securityContext", {})
        user = own.get("runAsNonRoot"), own.get("runAsUser"), own.get("seccompProfile")
        if user != (True, USER, {"type": "RuntimeDefault"}):
            yield f"{name}: user and seccomp profile are not those of the image and the runtime"
        if spec.get("enableServiceLinks") is not False:
            yield f"{name}: links to Services would be COHABIT_ variables"
        for container in containers(pod):
            yield from (f"{name}: {container['name']} {problem}" for problem in _excess(container))
    yield from _tokens(found)


def _excess(container: Manifest) -> Iterator[str]:
    meant = {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}}
    if container.get("securityContext") != meant:
        yield "may do more than it needs"
    if {"name": "tmp", "mountPath": "/tmp"} not in container["volumeMounts"]:  # noqa: S108
        yield "has nowhere to write"
    of = container.get("resources", {})
    if set(of.get("requests", ())) != {"cpu", "memory"} or set(of.get("limits", ())) != {"memory"}:
        yield "says not what it needs"


def _tokens(found: list[Manifest]) -> Iterator[str]:
    """Whoever has a token for the Kubernetes API without a role, or a role that changes anything."""
    bound = {one["name"] for role in named(found, "ClusterRoleBinding") for one in role["subjects"]}
    for name, pod in pods(found):
        asked = pod["spec"].get("automountServiceAccountToken")
        if asked is not (pod["spec"].get("serviceAccountName") in bound):
            yield f"{name}: automountServiceAccountToken is {asked}"
    read = {"pods", "nodes", "poddisruptionbudgets"}
    for role in named(found, "ClusterRole", "Role"):
        for rule in role["rules"]:
            if not set(rule["verbs"]) <= {"get", "list", "watch"} or not set(rule["resources"]) <= read:
                yield f"{name_of(role)}: {rule} is more than `cohabit watch` needs"


def comes_from_nowhere(found: list[Manifest]) -> Iterator[str]:
    """Images with a host, or of another version than this one."""
    version = tomllib.loads((DEPLOY.parent / "pyproject.toml").read_text())["project"]["version"]
    for name, pod in pods(found):
        for container in containers(pod):
            if container["image"] not in {f"cohabit-serve:{version}", f"cohabit-jobs:{version}"}:
                yield f"{name}: image {container['image']}"


def writes_where_it_may(found: list[Manifest]) -> Iterator[str]:
    """Folders that a command uses and that lie in no volume, or in one that it may not write to."""
    for name, container, told in _settings_told(found):
        own = read_settings(told)
        for setting, writes in NEEDS.get(container.get("args", [""])[0], {}).items():
            folder = PurePosixPath(str(attrgetter(setting)(own)))
            if setting == "lake" and "://" in own.lake:
                continue
            mounts = [one for one in container["volumeMounts"] if PurePosixPath(one["mountPath"]) in folder.parents]
            if not mounts or (writes and mounts[0].get("readOnly")):
                yield f"{name}: {folder} is not on a volume that it may use so"


def makes_the_folders(found: list[Manifest]) -> Iterator[str]:
    """Folders of settings that nobody makes before they are looked for."""
    made = {folder for _, pod in pods(found) for one in containers(pod) for folder in one.get("command", ["", ""])[2:]}
    for name, _, told in _settings_told(found):
        own = read_settings(told)
        lake = set() if "://" in own.lake else {own.lake}
        if missing := {*lake, str(own.registry), str(own.billing.ledger_dir), str(own.snapshots)} - made:
            yield f"{name}: nobody makes {sorted(missing)}"


def has_before_it_what_it_needs(found: list[Manifest]) -> Iterator[str]:
    """What a Job refers to, or is let through by, and that is not applied in the first step with it."""
    first = [one for one in found if one["metadata"].get("labels", {}).get(STEP) == "first"]
    there = {(one["kind"], one["metadata"]["name"]) for one in first}
    for job in named(found, "Job"):
        pod = job["spec"]["template"]
        yield from (f"{name_of(job)}: not in the first step itself" for _ in [job] if job not in first)
        for kind, name, _ in _references(pod):
            if kind != "Secret" and (kind, name) not in there:
                yield f"{name_of(job)}: {kind} {name} comes after it"
        for policy in named(found, "NetworkPolicy"):
            if policy not in first and matches(policy["spec"]["podSelector"], pod["metadata"]["labels"]):
                yield f"{name_of(job)}: {name_of(policy)} comes after it"


def survives_a_node(found: list[Manifest]) -> Iterator[str]:
    """Several of a kind without a budget, or on one node; single ones of which two would run during an update."""
    budgets = [one["spec"]["selector"] for one in named(found, "PodDisruptionBudget")]
    for manifest in named(found, *WORKLOADS):
        of, pod = manifest["spec"], manifest["spec"]["template"]
        several = of.get("replicas", 1) > 1
        if several != any(matches(budget, pod["metadata"]["labels"]) for budget in budgets):
            yield f"{name_of(manifest)}: a budget is for several, and for each of them"
        if several and not pod["spec"].get("topologySpreadConstraints"):
            yield f"{name_of(manifest)}: all may be on one node"
        if manifest["kind"] == "Deployment" and not several and of.get("strategy") != {"type": "Recreate"}:
            yield f"{name_of(manifest)}: two of it run during an update"


def reaches_what_it_asks(found: list[Manifest]) -> Iterator[str]:
    """Pods that no policy lets through to Kafka, the store or a bucket, and policies for ports where nobody is."""
    if not any(one["spec"]["podSelector"] == {} and len(one["spec"]) == 2 for one in named(found, "NetworkPolicy")):
        yield "no NetworkPolicy denies what is not allowed"
    for name, container, told in _settings_told(found):
        wanted = _asked_ports(container, told)
        [labels] = [pod["metadata"]["labels"] for other, pod in pods(found) if other == name]
        policies = [p["spec"] for p in named(found, "NetworkPolicy") if matches(p["spec"]["podSelector"], labels)]
        open_to_all = {
            port["port"]
            for policy in policies
            for rule in policy.get("egress", ())
            if "to" not in rule
            for port in rule["ports"]
        }
        if missing := wanted - open_to_all:
            yield f"{name}: no policy lets it reach port {sorted(missing)}"


def _asked_ports(container: Manifest, told: Mapping[str, str]) -> set[int]:
    words = " ".join(container.get("args", ()))
    own = read_settings(told)
    brokers = own.kafka.bootstrap.split(",")
    kafka = any(words.startswith(command) for command in REACHES)
    ports = {int(broker.rpartition(":")[2]) for broker in brokers} if kafka else set()
    ports |= {5432} if "COHABIT_DATABASE" in told else set()
    ports |= {443} if "://" in own.lake and (words.split(" ")[0] in NEEDS or not words) else set()
    return ports | ({443, 6443} if words.startswith("watch") else set())


ALL: tuple[Check, ...] = (
    fits_its_schema,
    is_a_command,
    has_settings_that_hold,
    tells_all_peers,
    selects_somebody,
    names_ports_that_exist,
    is_probed,
    refers_to_what_there_is,
    has_no_more_rights_than_it_needs,
    comes_from_nowhere,
    writes_where_it_may,
    makes_the_folders,
    has_before_it_what_it_needs,
    survives_a_node,
    reaches_what_it_asks,
)
