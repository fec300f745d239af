"""Write the templates of the Helm chart from the manifests in `deploy/`; exit 1 where a default differs.

A manifest is read as an object. What a value sets is replaced by a mark, the object is written as YAML, and each mark
becomes an expression of a template. A default in `values.yaml` has to be what the manifest has in that place.

Usage: `make helm-chart`, or python scripts/helm_chart.py [FOLDER]
"""

import json
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

DEPLOY = Path(__file__).parents[1] / "deploy"
COMPONENTS = DEPLOY / "kubernetes"
CHART = DEPLOY / "helm" / "cohabit"
HEADER = "{{/* Written by `make helm-chart` from the manifests in deploy/. Change those. */}}\n"
LABELS = '{{- include "cohabit.labels" . | nindent INDENT }}'
SETTINGS = '{{- include "cohabit.settings" . | nindent INNER }}'
POD_LABELS = "{{- with .Values.podLabels }}\n{{- toYaml . | nindent INDENT }}\n{{- end }}"
CHECKSUM = 'checksum/settings: {{ include "cohabit.settings" . | sha256sum | quote }}'
CONTAINER, POD = "spec.template.spec.containers.0", "spec.template.spec"
SHARED = ("lake", "models", "snapshots", "backups")
SWITCHES = {
    "from-topic": "fromTopic.enabled",
    "secured-kafka": "kafka.existingSecret",
    "lake-in-a-bucket": "lake.uri",
    "lake-secrets": "lake.uri",
    "admission": "admission.enabled",
}
"""Value that turns a component on."""
POLICIES = ".Values.networkPolicy.enabled"
AUTHORITY = """{{- if .Values.admission.certManager }}
annotations:
  cert-manager.io/inject-ca-from: {{ .Release.Namespace }}/cohabit-admission
{{- end }}"""
BUNDLE = "{{- with .Values.admission.caBundle }}\ncaBundle: {{ . | toJson }}\n{{- end }}"
CONTROL_PLANE = """{{- with .Values.admission.controlPlane }}
from:
{{- range . }}
- ipBlock: {cidr: {{ . | toJson }}}
{{- end }}
{{- end }}"""
"""Annotation, authority and callers of the webhook."""
OF_SECRETS = {
    "cohabit-kafka": "kafka.existingSecret",
    "cohabit-lake": "lake.existingSecret",
    "cohabit-lake-reader": "lake.readerSecret",
}
"""Value that names a Secret of a component, which is there when it does."""
ANNOTATIONS = {"cohabit": "lake.readerAnnotations", "cohabit-writer": "lake.writerAnnotations"}
"""Values with annotations of accounts, by account."""

VALUES: dict[str, dict[str, str]] = {
    "StatefulSet cohabit-advisor": {
        "spec.replicas": "advisor.replicas",
        f"{CONTAINER}.resources": "advisor.resources",
        f"{POD}.volumes.4.secret.secretName": "advisor.tls.existingSecret",
    },
    "Deployment cohabit-ingest": {
        "spec.replicas": "ingest.replicas",
        f"{CONTAINER}.args": "ingest.args",
        f"{CONTAINER}.resources": "ingest.resources",
    },
    "Deployment cohabit-watch": {f"{CONTAINER}.resources": "watch.resources"},
    "Deployment cohabit-features": {f"{CONTAINER}.resources": "features.resources"},
    "Deployment cohabit-features-publish": {f"{CONTAINER}.resources": "featuresPublish.resources"},
    "Deployment cohabit-refresher": {f"{CONTAINER}.resources": "refresher.resources"},
    "Deployment cohabit-tools": {"spec.replicas": "tools.replicas", f"{CONTAINER}.resources": "tools.resources"},
    "ConfigMap cohabit-settings": {"data": "settings"},
    **{
        f"PersistentVolumeClaim cohabit-{name}": {"spec.resources.requests.storage": f"storage.{name}"}
        for name in (*SHARED, "watch")
    },
}
"""Where a value goes, by object and place; each is written as YAML."""
STORE = {"name": "store.existingSecret", "key": "store.key"}
PORTS = {
    "cohabit-kafka": "kafka.ports",
    "cohabit-store": "store.ports",
    "cohabit-watch": "kubernetesPorts",
    "cohabit-lake": "lake.ports",
}
"""Values that list the ports of an egress rule to any address, by policy."""


@dataclass
class Marks:
    """Marks in an object, and what each becomes; `INDENT` in it is the indentation of its line, `INNER` two more."""

    of: list[str] = field(default_factory=list)

    def add(self, text: str) -> str:
        """A mark for a text."""
        self.of.append(text)
        return f"MARK{len(self.of) - 1:04d}"

    def written(self, manifest: Any) -> str:
        """An object as YAML, with the texts in the places of their marks."""
        lines = yaml.safe_dump(manifest, sort_keys=False, width=1000).splitlines()
        return "".join(f"{one}\n" for line in lines for one in self._line(line).splitlines())

    def _line(self, line: str) -> str:
        found = re.fullmatch(r"( *)(?:- |(\w+): )?(MARK\d{4})(?:: null)?", line)
        if found is None:
            return re.sub(r"MARK(\d{4})", lambda mark: self.of[int(mark[1])], line)
        indent, key, mark = found.groups()
        text = self.of[int(mark[4:])].replace("INNER", str(len(indent) + 2))
        if key is None:  # lines of their own
            return "\n".join(indent + one for one in text.replace("INDENT", str(len(indent))).splitlines())
        return f"{indent}{key}: {text.replace('INDENT', str(len(indent)))}"


def value(path: str) -> str:
    """An expression that writes a value as YAML."""
    return f"{{{{- toYaml .Values.{path} | nindent INNER }}}}"


def scalar(path: str) -> str:
    """An expression that writes a text, quoted, or a number."""
    return f"{{{{ .Values.{path} | toJson }}}}"


def when(condition: str, item: Any, named: Sequence[str] = ()) -> str:
    """An item of a list that is there on a condition; in `named` are names of Secrets that values give it."""
    text = json.dumps(item)
    for name in named:
        text = text.replace(json.dumps(name), scalar(OF_SECRETS[name]))
    return f"{{{{- if {condition} }}}}\n- {text}\n{{{{- end }}}}"


def at(manifest: Any, path: Sequence[str]) -> Any:
    """What is in a place."""
    for word in path:
        manifest = manifest[int(word) if word.isdecimal() else word]
    return manifest


def default(values: Any, path: str) -> Any:
    """Default of a value."""
    return at(values, path.split("."))


class Chart:
    """Templates, from the manifests and the defaults."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.values = yaml.safe_load((CHART / "values.yaml").read_text())
        self.differ: list[str] = []
        """Defaults that are not what a manifest has."""

    def files(self) -> Iterator[tuple[str, str]]:
        """Every generated file: its name in the chart, and its text."""
        base = COMPONENTS / "base"
        of = yaml.safe_load((base / "kustomization.yaml").read_text())
        for name in of["resources"]:
            yield f"templates/{name}", self.template(base / name, POLICIES if name == "network.yaml" else "")
        yield "templates/settings.yaml", self.written([self.settings(of["configMapGenerator"][0], base)])
        publish = COMPONENTS / "from-topic" / "features-publish.yaml"
        policy = COMPONENTS / "lake-in-a-bucket" / "network.yaml"
        yield f"templates/{publish.name}", self.template(publish, ".Values.fromTopic.enabled")
        yield "templates/network-of-bucket.yaml", self.template(policy, f"and {POLICIES} .Values.lake.uri")
        for name, condition in (
            ("admission/admission.yaml", ".Values.admission.enabled"),
            ("admission-cert-manager/certificate.yaml", "and .Values.admission.enabled .Values.admission.certManager"),
        ):
            yield f"templates/admission-{Path(name).name}", self.template(COMPONENTS / name, condition)
        for name, path in (("podmonitors.yaml", "podMonitors"), ("prometheusrule.yaml", "alerts")):
            yield f"templates/{name}", self.template(DEPLOY / "prometheus" / name, f".Values.{path}.enabled")
        yield "templates/tests/config-check.yaml", self.written([self.config_check(base / "tools.yaml")])
        yield "templates/dashboard.yaml", self.enabled(".Values.dashboard.enabled", self.written([self.dashboard()]))
        yield "files/cohabit.json", (DEPLOY / "grafana" / "cohabit.json").read_text()

    def template(self, path: Path, condition: str = "") -> str:
        """The template of a file, there only on a condition."""
        text = self.written([one for one in yaml.safe_load_all(path.read_text()) if one])
        return self.enabled(condition, text) if condition else text

    def enabled(self, condition: str, text: str) -> str:
        """A template that is there only on a condition."""
        return f"{HEADER}{{{{- if {condition} }}}}\n{text.removeprefix(HEADER)}{{{{- end }}}}\n"

    def written(self, manifests: Sequence[Any]) -> str:
        """Manifests as one template; one that a component deletes is there without the component."""
        texts = []
        for manifest in manifests:
            patches = _patches(manifest["kind"], manifest["metadata"]["name"])
            deleted = [switch for switch, patch in patches if "$patch" in patch]
            text = f"---\n{self.one(manifest)}"
            condition = f"not .Values.{deleted[0]}" if deleted else ""
            if manifest["kind"] == "NetworkPolicy" and manifest["metadata"]["name"] == "cohabit-admission":
                condition = POLICIES
            texts.append(f"{{{{- if {condition} }}}}\n{text}{{{{- end }}}}\n" if condition else text)
        return HEADER + "".join(texts)

    def one(self, manifest: Any) -> str:
        """One manifest as a template."""
        marks, name = Marks(), f"{manifest['kind']} {manifest['metadata']['name']}"
        self._values(manifest, marks, name)
        manifest["metadata"].setdefault("labels", {})[marks.add(LABELS)] = None
        by_kind = {
            "Certificate": _certificate,
            "ClusterRole": _cluster_scoped,
            "ClusterRoleBinding": _cluster_scoped,
            "ConfigMap": _files,
            "Deployment": _workload,
            "Job": _job,
            "MutatingWebhookConfiguration": _webhook,
            "NetworkPolicy": self._ports,
            "PersistentVolumeClaim": _claim,
            "Pod": _pod,
            "PrometheusRule": _rule,
            "Service": _service,
            "ServiceAccount": _account,
            "StatefulSet": _workload,
        }
        by_kind.get(manifest["kind"], lambda *_: None)(manifest, marks)
        text = marks.written(manifest)
        return re.sub(r"\{\{ (\$[^}]+) \}\}", r'{{ "{{" }} \1 {{ "}}" }}', text)  # templates of Prometheus

    def settings(self, generated: Any, folder: Path) -> Any:
        """The ConfigMap that kustomize generates."""
        lines = (line for name in generated["envs"] for line in (folder / name).read_text().splitlines())
        data = dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))
        metadata = {"name": generated["name"], "labels": generated["options"]["labels"]}
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}

    def dashboard(self) -> Any:
        """The ConfigMap of the dashboard, which kustomize generates too."""
        [of] = yaml.safe_load((DEPLOY / "grafana" / "kustomization.yaml").read_text())["configMapGenerator"]
        metadata = {"name": of["name"], "labels": of["options"]["labels"]}
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {}}

    def config_check(self, tools: Path) -> Any:
        """The pod of `helm test`: that of the tools, with one command."""
        deployment = yaml.safe_load(tools.read_text())
        spec, labels = deployment["spec"]["template"]["spec"], deployment["spec"]["template"]["metadata"]["labels"]
        [container] = spec["containers"]
        del container["command"]
        container |= {"name": "config-check", "args": ["admin", "config", "check"]}
        container["resources"] = {"requests": {"cpu": "100m", "memory": "256Mi"}, "limits": {"memory": "1Gi"}}
        hook = {"helm.sh/hook": "test", "helm.sh/hook-delete-policy": "before-hook-creation,hook-succeeded"}
        metadata = {"name": "cohabit-config-check", "labels": labels, "annotations": hook}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"restartPolicy": "Never", **spec}}

    def _values(self, manifest: Any, marks: Marks, name: str) -> None:
        for place, path in VALUES.get(name, {}).items():
            *way, last = place.split(".")
            holder = at(manifest, way)
            self._compare(name, place, path, holder[last])
            text = value(path) if isinstance(holder[last], dict | list) else scalar(path)
            holder[last] = marks.add(SETTINGS if path == "settings" else text)

    def _compare(self, name: str, place: str, path: str, wanted: Any) -> None:
        if default(self.values, path) != wanted:
            self.differ.append(f"{name}: {place} is {wanted}, default of {path} is {default(self.values, path)}")

    def _ports(self, manifest: Any, marks: Marks) -> None:
        """Ports of an egress rule to any address."""
        path = PORTS.get(manifest["metadata"]["name"])
        for rule in manifest["spec"].get("egress", ()):
            if path and "to" not in rule:
                self._compare(manifest["metadata"]["name"], "egress", path, [one["port"] for one in rule["ports"]])
                loop = f"{{{{- range .Values.{path} }}}}\n- {{protocol: TCP, port: {{{{ . }}}}}}\n{{{{- end }}}}"
                rule["ports"] = [marks.add(loop)]
        if manifest["metadata"]["name"] == "cohabit-admission":
            manifest["spec"]["ingress"][0][marks.add(CONTROL_PLANE)] = None


def _workload(manifest: Any, marks: Marks) -> None:
    """A pod template that changes with the settings."""
    metadata = manifest["spec"]["template"]["metadata"]
    metadata["annotations"] = {marks.add(CHECKSUM): None}
    metadata["labels"][marks.add(POD_LABELS)] = None
    for switch, step in _steps(manifest["kind"], manifest["metadata"]["name"]):
        _switched(manifest, switch, step, step["path"].strip("/").split("/"), marks)
    _spec(manifest["spec"]["template"]["spec"], marks)


def _pod(manifest: Any, marks: Marks) -> None:
    """The pod of `helm test`: what the tools have."""
    manifest["metadata"]["labels"][marks.add(POD_LABELS)] = None
    for switch, step in _steps("Deployment", "cohabit-tools"):
        _switched(manifest, switch, step, ["spec", *step["path"].strip("/").split("/")[3:]], marks)
    _spec(manifest["spec"], marks)


def _switched(manifest: Any, switch: str, step: Any, way: Sequence[str], marks: Marks) -> None:
    """A step of a component, under the value that turns it on."""
    *way, last = way
    holder, place = at(manifest, way), int(last) if last.isdecimal() else last
    if step["op"] == "add":
        named = [name for name in OF_SECRETS if json.dumps(name) in json.dumps(step["value"])]
        value_ = OF_SECRETS[named[0]] if named else switch
        holder.append(marks.add(when(f".Values.{value_}", step["value"], named)))
    elif step["op"] == "remove":
        holder[place] = marks.add(when(f"not .Values.{switch}", holder[place]))
    elif step["op"] == "replace":
        yes, no = json.dumps(step["value"]), json.dumps(holder[place])
        holder[place] = marks.add(f"{{{{ if .Values.{switch} }}}}{yes}{{{{ else }}}}{no}{{{{ end }}}}")


def _spec(spec: Any, marks: Marks) -> None:
    """What all pods have."""
    for container in (*spec.get("initContainers", ()), *spec["containers"]):
        image = container["image"].split(":")[0].removeprefix("cohabit-")
        container["image"] = marks.add(f'{{{{ include "cohabit.image" (list . "{image}") }}}}')
        for variable in (one for one in container.get("env", ()) if isinstance(one, dict)):  # others are marks
            if reference := variable.get("valueFrom", {}).get("secretKeyRef"):
                reference |= {key: marks.add(scalar(path)) for key, path in STORE.items()}
            if variable["name"] == "COHABIT_ADVISOR__PEERS":
                variable["value"] = marks.add('{{ include "cohabit.peers" . }}')
    written = "{{- toYaml . | nindent INNER }}"
    for key, path, text in (
        ("imagePullSecrets", "image.pullSecrets", written),
        ("nodeSelector", "nodeSelector", written),
        ("priorityClassName", "priorityClassName", "{{ . | toJson }}"),
    ):
        spec[marks.add(f"{{{{- with .Values.{path} }}}}\n{key}: {text}\n{{{{- end }}}}")] = None


def _patches(kind: str, name: str) -> Iterator[tuple[str, Any]]:
    """Patches of components for an object, with the value that turns each on."""
    for component, switch in SWITCHES.items():
        of = yaml.safe_load((COMPONENTS / component / "kustomization.yaml").read_text())
        for patch in of["patches"]:
            if re.fullmatch(patch["target"]["kind"], kind) and re.fullmatch(patch["target"]["name"], name):
                yield switch, yaml.safe_load(patch["patch"])


def _steps(kind: str, name: str) -> Iterator[tuple[str, Any]]:
    """Steps of these patches."""
    yield from ((switch, step) for switch, patch in _patches(kind, name) if "$patch" not in patch for step in patch)


def _files(manifest: Any, marks: Marks) -> None:
    """The file of the dashboard, out of the chart."""
    if manifest["metadata"]["name"] == "cohabit-dashboard":
        manifest["data"]["cohabit.json"] = marks.add('{{ .Files.Get "files/cohabit.json" | toJson }}')


def _cluster_scoped(manifest: Any, marks: Marks) -> None:
    """One for each namespace, since releases of two would share it."""
    name = marks.add('{{ include "cohabit.clusterName" . }}')
    manifest["metadata"]["name"] = name
    if "roleRef" in manifest:
        manifest["roleRef"]["name"] = name
        manifest["subjects"][0]["namespace"] = marks.add("{{ .Release.Namespace }}")


def _webhook(manifest: Any, marks: Marks) -> None:
    """The webhook of a namespace, which neither asks about that namespace nor has its name twice."""
    [webhook] = manifest["webhooks"]
    manifest["metadata"]["name"] = marks.add('{{ include "cohabit.admissionName" . }}')
    manifest["metadata"][marks.add(AUTHORITY)] = None
    webhook["clientConfig"]["service"]["namespace"] = marks.add("{{ .Release.Namespace }}")
    webhook["clientConfig"][marks.add(BUNDLE)] = None
    webhook["namespaceSelector"]["matchExpressions"][0]["values"][1] = marks.add("- {{ .Release.Namespace }}")


def _certificate(manifest: Any, marks: Marks) -> None:
    """The name of the webhook's Service, in this namespace."""
    for i, name in enumerate(manifest["spec"].get("dnsNames", ())):
        service, _, domain = name.split(".")
        manifest["spec"]["dnsNames"][i] = marks.add(f"- {service}.{{{{ .Release.Namespace }}}}.{domain}")


def _job(manifest: Any, marks: Marks) -> None:
    """A Job cannot be changed: each revision has its own."""
    _workload(manifest, marks)
    manifest["metadata"]["name"] = marks.add("cohabit-prepare-{{ .Release.Revision }}")


def _account(manifest: Any, marks: Marks) -> None:
    """Annotations by which a cloud gives an account access to a bucket."""
    if path := ANNOTATIONS.get(manifest["metadata"]["name"]):
        text = f"{{{{- with .Values.{path} }}}}\nannotations: {{{{- toYaml . | nindent INNER }}}}\n{{{{- end }}}}"
        manifest["metadata"][marks.add(text)] = None


def _claim(manifest: Any, marks: Marks) -> None:
    shared = manifest["metadata"]["name"].removeprefix("cohabit-") in SHARED
    path = "storage.className" if shared else "storage.watchClassName"
    keep = "{{- if .Values.storage.keep }}\nannotations:\n  helm.sh/resource-policy: keep\n{{- end }}"
    of_class = f"{{{{- with .Values.{path} }}}}\nstorageClassName: {{{{ . | toJson }}}}\n{{{{- end }}}}"
    manifest["metadata"][marks.add(keep)] = None
    manifest["spec"][marks.add(of_class)] = None


def _rule(manifest: Any, marks: Marks) -> None:
    """Runbooks at the address of the site."""
    for group in manifest["spec"]["groups"]:
        for rule in group["rules"]:
            path = rule["annotations"]["runbook_url"].removeprefix("runbooks/")
            rule["annotations"]["runbook_url"] = marks.add(f"{{{{ .Values.alerts.runbooks }}}}{path}")


def _service(manifest: Any, marks: Marks) -> None:
    """The address of schedulers, which their certificate contains."""
    if manifest["metadata"]["name"] == "cohabit-schedulers":
        address = "{{- with .Values.advisor.schedulersAddress }}\nclusterIP: {{ . | toJson }}\n{{- end }}"
        manifest["spec"][marks.add(address)] = None


def main(folder: Path) -> int:
    """Write everything; 1 where a default differs from its manifest."""
    chart = Chart(folder)
    for name, text in chart.files():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    for problem in chart.differ:
        print(problem)
    return 1 if chart.differ else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]) if len(sys.argv) > 1 else CHART))
