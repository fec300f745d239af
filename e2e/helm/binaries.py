"""Binaries: Helm and kubeconform, built once from the module proxy and kept by version. An edge.

Versions stand in go.mod next to this file, every byte of what is downloaded in go.sum.
"""

import re
from collections.abc import Callable, Mapping
from pathlib import Path

from e2e.kube.binaries import built
from ingest.devkafka.java import cache_folder

MODULE = Path(__file__).parent
HELM, KUBECONFORM = "helm.sh/helm/v4", "github.com/yannh/kubeconform"
PACKAGES = {"helm": f"{HELM}/cmd/helm", "kubeconform": f"{KUBECONFORM}/cmd/kubeconform"}


def versions(go_mod: str) -> Mapping[str, str]:
    """Versions of Go, Helm and kubeconform in a go.mod; Go's by name `go`."""
    found = {name: re.search(rf"^\s+{re.escape(name)} v(\S+)", go_mod, re.MULTILINE) for name in (HELM, KUBECONFORM)}
    found["go"] = re.search(r"^go (\d+\.\d+)", go_mod, re.MULTILINE)
    return {name: match[1] for name, match in found.items() if match}


def tools(say: Callable[[str], None]) -> Path:
    """Folder of the programs; those that are missing are built.

    Raises:
        NoGo: one is missing and there is no Go toolchain.
        BuildFailed: a download failed several times, or a build once.
    """
    of = versions((MODULE / "go.mod").read_text())
    folder = cache_folder() / f"helm-{of[HELM]}-kubeconform-{of[KUBECONFORM]}"
    stamped = f"-X {HELM}/internal/version.version=v{of[HELM]}"
    what = f"Helm {of[HELM]} and kubeconform {of[KUBECONFORM]}"
    return built(MODULE, PACKAGES, folder, go_version=of["go"], stamped=stamped, what=what, say=say)
