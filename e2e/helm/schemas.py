"""Schemas: those of package kubernetes-validate, laid out as kubeconform reads them. An edge."""

import json
import re
import subprocess
from collections.abc import Collection
from pathlib import Path

import kubernetes_validate

from e2e.helm.errors import HelmFailed

VERSIONS = tuple(f"1.{minor}" for minor in range(30, 38))
DRAFT = "https://json-schema.org/draft/2020-12/schema"
"""Where a schema names none, kubeconform takes it for one of draft 4."""
ABSOLUTE = '"/api/_definitions.json#'
"""How a schema names the definitions; kubeconform reads them from the same folder."""
FOREIGN = "PodMonitor,PrometheusRule,Issuer,Certificate"
"""Kinds of the Prometheus operator and of cert-manager."""


def laid_out(folder: Path, version: str, kinds: Collection[str]) -> None:
    """Write the strict schemas of a version of Kubernetes for some kinds, as `deployment-apps-v1`."""
    source = Path(kubernetes_validate.__file__).parent / "kubernetes-json-schema" / f"v{version}.0-local-strict"
    target = folder / f"v{version}.0-strict"
    target.mkdir(parents=True)
    for name in (*kinds, "_definitions"):
        schema = json.loads((source / f"{name}.json").read_text().replace(ABSOLUTE, '"_definitions.json#'))
        schema.pop("$id", None)  # an address, from which references would be followed
        (target / f"{name}.json").write_text(json.dumps({"$schema": DRAFT, **schema}))


def schema_name(manifest: dict[str, str]) -> str:
    """File name of the schema of a manifest."""
    group, _, version = manifest["apiVersion"].rpartition("/")
    return "-".join(part for part in (manifest["kind"].lower(), group.split(".")[0], version) if part)


def conforms(program: Path, folder: Path, version: str, text: str) -> int:
    """How many manifests kubeconform finds valid, strictly by the schemas of a version; those of others are skipped.

    Raises:
        HelmFailed: a manifest does not conform.
    """
    place = str(
        folder / "{{ .NormalizedKubernetesVersion }}{{ .StrictSuffix }}/{{ .ResourceKind }}{{ .KindSuffix }}.json"
    )
    words = ["-strict", "-summary", "-skip", FOREIGN, "-kubernetes-version", f"{version}.0", "-schema-location", place]
    done = subprocess.run([program, *words], input=text, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise HelmFailed(["kubeconform", *words], done.stdout + done.stderr)
    return int(re.findall(r"Valid: (\d+)", done.stdout)[0])
