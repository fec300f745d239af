"""What `make e2e-kustomize` compares, without the program that it builds."""

from e2e.kustomize.binary import MODULE, version
from e2e.kustomize.objects import differences, without_namespace
from tests.deploy.manifests import Manifest


def config(name: str, **data: str) -> Manifest:
    return {"kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def test_manifests_that_differ_or_that_one_side_lacks_are_told() -> None:
    made, read = [config("a", x="1"), config("b")], [config("a", x="2"), config("c")]

    told = list(differences(made, read))

    assert told == [
        "ConfigMap b: only one of both has it",
        "ConfigMap c: only one of both has it",
        "ConfigMap a: they differ",
    ]
    assert list(differences(made, made)) == []


def test_namespaces_are_no_difference() -> None:
    placed = {"kind": "Service", "metadata": {"name": "a", "namespace": "cohabit"}}

    assert without_namespace(placed) == {"kind": "Service", "metadata": {"name": "a"}}


def test_the_version_of_kustomize_is_pinned() -> None:
    pinned = version((MODULE / "go.mod").read_text())

    assert f"sigs.k8s.io/kustomize/kustomize/v5 v{pinned} h1:" in (MODULE / "go.sum").read_text()
