"""What `make e2e-helm` reads, compares and waits for, without the programs that it runs."""

from pathlib import Path

import kubernetes_validate
import pytest

from e2e.helm.binaries import HELM, KUBECONFORM, MODULE, tools, versions
from e2e.helm.chart import digest, objects
from e2e.helm.objects import status_of
from e2e.helm.schemas import VERSIONS, laid_out, schema_name
from e2e.kube.errors import NoGo

RENDERED = """---
# Source: cohabit/templates/x.yaml
apiVersion: batch/v1
kind: Job
metadata:
  name: cohabit-prepare-7
  labels: {app.kubernetes.io/name: cohabit, helm.sh/chart: cohabit-0.1.0, app.kubernetes.io/managed-by: Helm}
spec:
  template:
    metadata:
      labels: {app.kubernetes.io/name: cohabit}
      annotations: {checksum/settings: abc}
"""


def test_the_module_pins_the_versions_that_are_built() -> None:
    of = versions((MODULE / "go.mod").read_text())
    sums = (MODULE / "go.sum").read_text()

    assert of.keys() == {"go", HELM, KUBECONFORM}
    assert f"{HELM} v{of[HELM]} h1:" in sums
    assert f"{KUBECONFORM} v{of[KUBECONFORM]} h1:" in sums


def test_without_go_the_remedy_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("COHABIT_CACHE", str(tmp_path))

    with pytest.raises(NoGo, match="install Go"):
        tools(lambda _line: None)


def test_what_only_helm_adds_is_no_difference() -> None:
    assert objects(RENDERED) == [
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": "cohabit-prepare", "labels": {"app.kubernetes.io/name": "cohabit"}},
            "spec": {"template": {"metadata": {"labels": {"app.kubernetes.io/name": "cohabit"}}}},
        }
    ]


def test_a_digest_is_of_names_and_contents(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x")
    first = digest(tmp_path)
    (tmp_path / "a").rename(tmp_path / "b")
    renamed = digest(tmp_path)
    (tmp_path / "b").write_text("y")

    assert len({first, renamed, digest(tmp_path)}) == 3


def test_schemas_are_named_as_kubeconform_looks_for_them() -> None:
    assert schema_name({"kind": "StatefulSet", "apiVersion": "apps/v1"}) == "statefulset-apps-v1"
    assert schema_name({"kind": "Service", "apiVersion": "v1"}) == "service-v1"
    assert schema_name({"kind": "ClusterRole", "apiVersion": "rbac.authorization.k8s.io/v1"}) == "clusterrole-rbac-v1"


def test_schemas_refer_to_their_own_folder(tmp_path: Path) -> None:
    laid_out(tmp_path, VERSIONS[-1], {"service-v1"})

    [folder] = tmp_path.iterdir()
    assert {path.name for path in folder.iterdir()} == {"service-v1.json", "_definitions.json"}
    assert '"$ref": "_definitions.json#' in (folder / "service-v1.json").read_text()
    assert '"/api/' not in (folder / "service-v1.json").read_text()


def test_every_version_that_is_promised_has_schemas() -> None:
    assert VERSIONS[0] == "1.30"
    assert VERSIONS[-1] == ".".join(map(str, kubernetes_validate.latest_version().split(".")[:2]))


@pytest.mark.parametrize(
    ("spec", "component", "phase"),
    [({}, "ingest", "Running"), ({"restartPolicy": "Never"}, "tools", "Succeeded"), ({}, "prepare", "Succeeded")],
)
def test_pods_run_or_end_as_they_are_meant_to(spec: dict[str, str], component: str, phase: str) -> None:
    pod = {"spec": spec, "metadata": {"labels": {"app.kubernetes.io/component": component}}}

    assert status_of(pod)["status"]["phase"] == phase
