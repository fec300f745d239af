"""Chart: rendered by Helm, compared with kustomize, and kept as files that tests read without Helm. An edge."""

import hashlib
import re
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import yaml

from e2e.helm.errors import HelmFailed
from e2e.kustomize.objects import Manifest, without_namespace

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
CHART = DEPLOY / "helm" / "cohabit"
KEPT = ROOT / "tests" / "deploy" / "helm"
CASES = ("default", "example", "secured-kafka", "bucket", "admission")
"""Files of values in `ci/`."""
GOLDEN = ("default", "secured-kafka", "bucket", "admission")
"""Those of which tests read what Helm rendered; the last three have everything that the example has."""
NAMESPACE = "cohabit"
OF_HELM = (
    "helm.sh/chart",
    "app.kubernetes.io/instance",
    "app.kubernetes.io/version",
    "app.kubernetes.io/managed-by",
    "checksum/settings",
)
"""Labels and annotations that only the chart has."""


def digest(chart: Path) -> str:
    """SHA-256 of every file of a chart, names included."""
    found = hashlib.sha256()
    for path in sorted(path for path in chart.rglob("*") if path.is_file()):
        found.update(f"{path.relative_to(chart).as_posix()}\0".encode() + path.read_bytes() + b"\0")
    return found.hexdigest()


def values_of(case: str, chart: Path = CHART) -> Path:
    """File of values of a case."""
    return chart / "ci" / f"{case}-values.yaml"


def helm(program: Path, *words: str | Path) -> str:
    """What Helm prints.

    Raises:
        HelmFailed: it exits with an error.
    """
    done = subprocess.run([program, *words], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise HelmFailed([str(word) for word in words], done.stdout + done.stderr)
    return done.stdout


def rendered(program: Path, case: str, *words: str) -> str:
    """What `helm template` prints for the values of a case, without the pod of `helm test`."""
    named = ("template", "cohabit", CHART, "--namespace", NAMESPACE, "--values", values_of(case))
    return helm(program, *named, "--skip-tests", *words)


def kept(case: str) -> Path:
    """File with what Helm rendered for a case; its first line has the digest of the chart."""
    return KEPT / f"{case}.yaml"


def golden(text: str) -> str:
    """Content of that file."""
    return f"# `make e2e-helm WRITE=1`, of chart {digest(CHART)}\n{text}"


def keep(case: str, text: str) -> None:
    """Write that file."""
    KEPT.mkdir(exist_ok=True)
    kept(case).write_text(golden(text))


def plain(manifest: Manifest) -> Manifest:
    """A manifest without what only the chart has: labels and annotations of Helm, and the revision in a Job's name."""
    found = without_namespace(manifest)
    metadata = found["metadata"]
    metadata["name"] = re.sub(r"^(cohabit-prepare)-\d+$", r"\1", metadata["name"])
    template = found.get("spec", {}).get("template", {}).get("metadata")
    for place in (metadata, template) if template else (metadata,):
        _drop(place)
    return found


def _drop(metadata: Manifest) -> None:
    for key in ("labels", "annotations"):
        left = {name: value for name, value in metadata.pop(key, {}).items() if name not in OF_HELM}
        if left:
            metadata[key] = left


def objects(text: str) -> list[Manifest]:
    """Manifests of a YAML text, plain."""
    return [plain(one) for one in yaml.safe_load_all(text) if one]


def fields(manifests: Sequence[Manifest]) -> int:
    """Number of values in manifests."""
    return sum(1 for one in manifests for _ in _leaves(one))


def _leaves(value: object) -> Iterator[object]:
    if isinstance(value, dict):
        yield from (leaf for one in value.values() for leaf in _leaves(one))
    elif isinstance(value, list):
        yield from (leaf for one in value for leaf in _leaves(one))
    else:
        yield value
