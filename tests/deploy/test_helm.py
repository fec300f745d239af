"""Chart: templates are made of the manifests, values are described, and what Helm rendered passes the checks."""

import importlib.util
import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema_rs
import kubernetes_validate
import pytest
import yaml

from e2e.helm.chart import CASES, CHART, GOLDEN, digest, kept, objects, plain, values_of
from e2e.helm.schemas import VERSIONS
from e2e.kustomize.objects import differences
from tests.deploy.checks import ALL, KINDS, Check, refusal
from tests.deploy.manifests import BASE, BUCKET_PAGE, Manifest, bucket_example, read
from tests.deploy.test_manifests import admitted, secured

ROOT = CHART.parents[2]
TEMPLATES = sorted((CHART / "templates").rglob("*.*"))
VALUES = yaml.safe_load((CHART / "values.yaml").read_text())
SCHEMA = json.loads((CHART / "values.schema.json").read_text())

spec = importlib.util.spec_from_file_location("helm_chart", ROOT / "scripts" / "helm_chart.py")
assert spec is not None
assert spec.loader is not None
helm_chart = importlib.util.module_from_spec(spec)
spec.loader.exec_module(helm_chart)


def leaves(value: Any, schema: Any, path: str = "") -> Iterator[str]:
    """Paths of values; what a schema does not divide further counts as one."""
    if "properties" not in schema or not isinstance(value, dict):
        yield path
        return
    for name, one in value.items():
        yield from leaves(one, schema["properties"][name], f"{path}.{name}".lstrip("."))


def rendered(case: str) -> list[Manifest]:
    """What Helm rendered for the values of a case."""
    return objects(kept(case).read_text())


def test_the_templates_are_those_that_the_manifests_make(tmp_path: Path) -> None:
    assert helm_chart.main(tmp_path) == 0

    made = {path.relative_to(tmp_path): path.read_text() for path in tmp_path.rglob("*.*")}
    by_hand = {Path("templates/_helpers.tpl"), Path("templates/NOTES.txt")}
    there = {path.relative_to(CHART) for path in [*TEMPLATES, *(CHART / "files").iterdir()]}
    assert made.keys() == there - by_hand
    assert [str(name) for name, text in made.items() if (CHART / name).read_text() != text] == []


def test_a_default_that_is_not_what_the_manifests_have_is_found() -> None:
    chart = helm_chart.Chart(CHART)
    chart.values["advisor"]["replicas"] = 3

    assert dict(chart.files())
    assert chart.differ == ["StatefulSet cohabit-advisor: spec.replicas is 2, default of advisor.replicas is 3"]


def test_every_value_is_described_checked_and_used() -> None:
    text = (CHART / "values.yaml").read_text()
    used = "".join(path.read_text() for path in TEMPLATES)
    paths = list(leaves(VALUES, SCHEMA))

    described = re.findall(r"^ *# -- [A-Z].*\.\n *(\w+):", text, re.MULTILINE)
    assert sorted(described) == sorted(path.rpartition(".")[2] for path in paths)
    for path in paths:
        assert f".Values.{path}" in used or re.search(rf"\$image\.{path.rpartition('.')[2]}|%sDigest", used), path


def test_every_value_that_a_template_names_has_a_default() -> None:
    named = {path for text in TEMPLATES for path in re.findall(r"\.Values\.([\w.]+)", text.read_text())}

    for path in named:
        helm_chart.default(VALUES, path)


@pytest.mark.parametrize("case", CASES)
def test_defaults_and_examples_fit_the_schema(case: str) -> None:
    jsonschema_rs.validate(SCHEMA, VALUES)
    jsonschema_rs.validate(SCHEMA, yaml.safe_load(values_of(case).read_text()) or {})


@pytest.mark.parametrize(
    "wrong",
    [
        {"replicas": 3},
        {"advisor": {"replica": 3}},
        {"advisor": {"replicas": 0}},
        {"advisor": {"resources": {"limits": {"cpus": 1}}}},
        {"settings": {"LAKE": "/x"}},
        {"settings": {"COHABIT_KAFKA__MAX_WAIT_MS": 5000}},
        {"settings": {"COHABIT_DATABASE": "postgresql://cohabit:password@db/cohabit"}},
        {"store": {"url": "postgresql://cohabit:password@db/cohabit"}},
        {"settings": {"COHABIT_LAKE": "s3://metrics/lake"}},
        {"settings": {"AWS_SECRET_ACCESS_KEY": "secret"}},
        {"lake": {"uri": "/data/lake"}},
        {"storage": {"lake": "many"}},
        {"image": {"serveDigest": "latest"}},
        {"tools": {"replicas": 2}},
        {"admission": {"mode": "enforce"}},
        {"admission": {"caBundle": "-----BEGIN CERTIFICATE-----"}},
        {"admission": {"controlPlane": ["any"]}},
    ],
    ids=str,
)
def test_values_that_mean_nothing_or_hold_a_password_are_rejected(wrong: dict[str, Any]) -> None:
    with pytest.raises(jsonschema_rs.ValidationError):
        jsonschema_rs.validate(SCHEMA, wrong)


def test_secrets_are_names_only() -> None:
    text = "".join(path.read_text() for path in [*TEMPLATES, CHART / "values.yaml"])

    assert "kind: Secret" not in text
    assert "genCA" not in text
    assert {path for path in leaves(VALUES, SCHEMA) if "secret" in path.lower()} == {
        "image.pullSecrets",
        "kafka.existingSecret",
        "lake.existingSecret",
        "lake.readerSecret",
        "store.existingSecret",
        "advisor.tls.existingSecret",
    }


def test_the_chart_is_of_the_version_of_the_wheel() -> None:
    described = yaml.safe_load((CHART / "Chart.yaml").read_text())
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]

    assert described["appVersion"] == described["version"] == version
    assert described["kubeVersion"] == f">={VERSIONS[0]}.0-0"


def test_the_notes_name_commands_that_exist() -> None:
    notes = (CHART / "templates" / "NOTES.txt").read_text()
    commands = re.findall(r"\bcohabit ([a-z ]+?)(?: &&|\")", notes)

    assert commands == ["features", "model train"]
    assert [why for words in commands if (why := refusal(words.split()))] == []
    assert ":8081/extender" in notes


def test_the_pod_of_helm_test_checks_the_settings() -> None:
    text = (CHART / "templates" / "tests" / "config-check.yaml").read_text()
    pod = yaml.safe_load(re.sub(r"^ *\{\{.*\n|\{\{[^}]*\}\}", "", text, flags=re.MULTILINE))

    [container] = pod["spec"]["containers"]
    assert container["args"] == ["admin", "config", "check"]
    assert refusal(container["args"]) == ""
    assert pod["metadata"]["annotations"]["helm.sh/hook"] == "test"


def test_values_and_commands_of_the_page_exist() -> None:
    page = (ROOT / "docs" / "helm.md").read_text()
    rows = re.findall(r"^\| (`.*?) \|", page, re.MULTILINE)
    bucket = BUCKET_PAGE.read_text()
    rows += re.findall(r"`(?:lake|storage)\.\w+`", bucket)
    named = re.findall(r"--set ([\w.]+)=", page + bucket) + [
        name for row in rows for name in re.findall(r"`([\w.]+)`", row)
    ]

    assert len(named) > 20
    for path in named:
        helm_chart.default(VALUES, path)
    commands = re.findall(r"cohabit ((?:features|model|admin)[^\n`&\"]*)", page)
    assert len(commands) == 4
    assert [why for words in commands if (why := refusal(words.split()))] == []


@pytest.mark.parametrize("case", GOLDEN)
def test_what_helm_rendered_is_of_this_chart(case: str) -> None:
    assert digest(CHART) in kept(case).read_text().splitlines()[0], "run `make e2e-helm WRITE=1`"


def test_the_defaults_are_the_base() -> None:
    assert list(differences(rendered("default"), [plain(one) for one in read(BASE)])) == []


def test_other_values_are_the_example_with_its_components(tmp_path: Path) -> None:
    wanted = [plain(one) for one in secured(tmp_path) if one["kind"] != "Namespace"]

    assert list(differences(rendered("secured-kafka"), wanted)) == []


def test_with_a_bucket_it_is_the_example_with_its_lake_in_one(tmp_path: Path) -> None:
    wanted = [plain(one) for one in read(bucket_example(tmp_path)) if one["kind"] != "Namespace"]

    assert list(differences(rendered("bucket"), wanted)) == []


def test_with_advice_at_admission_it_is_the_example_with_both_components(tmp_path: Path) -> None:
    wanted = [plain(one) for one in admitted(tmp_path) if one["kind"] != "Namespace"]

    assert list(differences(rendered("admission"), wanted)) == []


def test_without_the_value_there_is_no_webhook_and_with_it_no_further_right() -> None:
    kinds = {one["kind"] for one in rendered("secured-kafka")}
    new = {one["kind"] for one in rendered("admission")} - kinds

    assert VALUES["admission"]["enabled"] is False
    assert new == {"MutatingWebhookConfiguration", "Issuer", "Certificate"}
    assert not [name for one in rendered("default") if "admission" in (name := one["metadata"]["name"])]
    rights = [
        [one for one in rendered(case) if one["kind"].startswith(("ClusterRole", "Role"))]
        for case in ("secured-kafka", "admission")
    ]
    assert rights[0] == rights[1]


@pytest.mark.parametrize("check", ALL, ids=lambda check: check.__name__)
@pytest.mark.parametrize("case", ["secured-kafka", "admission"])
def test_nothing_is_to_complain_of_in_what_helm_rendered(check: Check, case: str) -> None:
    assert list(check(rendered(case))) == []


@pytest.mark.parametrize("case", ["secured-kafka", "admission"])
@pytest.mark.parametrize("version", [VERSIONS[0], VERSIONS[-1]])  # `make e2e-helm` takes all
def test_what_helm_rendered_fits_the_oldest_and_the_newest_kubernetes(version: str, case: str) -> None:
    for manifest in yaml.safe_load_all(kept(case).read_text()):
        if manifest["kind"] not in KINDS:
            kubernetes_validate.validate(manifest, version, strict=True)
