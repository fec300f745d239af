"""Binaries: etcd and Kubernetes' own programs, built once from the module proxy and kept by version. An edge.

Versions stand in go.mod beside this file, every byte of what is downloaded in go.sum.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

from e2e.kube.errors import BuildFailed, NoGo
from ingest.devkafka.java import cache_folder

MODULE = Path(__file__).parent
ETCD, KUBERNETES = "go.etcd.io/etcd/server/v3", "k8s.io/kubernetes"
PACKAGES = {
    "etcd": ETCD,
    "kube-apiserver": f"{KUBERNETES}/cmd/kube-apiserver",
    "kube-scheduler": f"{KUBERNETES}/cmd/kube-scheduler",
    "kube-controller-manager": f"{KUBERNETES}/cmd/kube-controller-manager",
    "kubectl": f"{KUBERNETES}/cmd/kubectl",
}
TRIES = 5
"""Downloads are some 200 modules; what has arrived is kept."""


def versions(go_mod: str) -> Mapping[str, str]:
    """Versions of Go, etcd and Kubernetes in a go.mod; Go's by name `go`."""
    found = {name: re.search(rf"^\s+{re.escape(name)} v(\S+)", go_mod, re.MULTILINE) for name in (ETCD, KUBERNETES)}
    found["go"] = re.search(r"^go (\d+\.\d+)", go_mod, re.MULTILINE)
    return {name: match[1] for name, match in found.items() if match}


def binaries(say: Callable[[str], None]) -> Path:
    """Folder of the programs; those that are missing are built.

    Raises:
        NoGo: one is missing and there is no Go toolchain.
        BuildFailed: a download failed several times, or a build once.
    """
    of = versions((MODULE / "go.mod").read_text())
    folder = cache_folder() / f"kube-{of[KUBERNETES]}-etcd-{of[ETCD]}"
    major, minor, _ = of[KUBERNETES].split(".", 2)
    stamps = {"gitVersion": f"v{of[KUBERNETES]}", "gitMajor": major, "gitMinor": minor}
    stamped = " ".join(f"-X k8s.io/component-base/version.{key}={value}" for key, value in stamps.items())
    what = f"Kubernetes {of[KUBERNETES]} and etcd {of[ETCD]}"
    return built(MODULE, PACKAGES, folder, go_version=of["go"], stamped=stamped, what=what, say=say)


def built(
    module: Path,
    packages: Mapping[str, str],
    folder: Path,
    *,
    go_version: str,
    stamped: str,
    what: str,
    say: Callable[[str], None],
    modfile: str = "go.mod",
) -> Path:
    """A folder of programs, of which those that are missing are built from a Go module.

    Args:
        module: folder of go.mod and go.sum.
        packages: package of each program, by its name.
        folder: where they are kept, named by version.
        go_version: that is needed.
        stamped: linker flags that set versions.
        what: is downloaded, for people.
        say: takes a line of progress.
        modfile: file of versions.

    Raises:
        NoGo: one is missing and there is no Go toolchain.
        BuildFailed: a download failed several times, or a build once.
    """
    missing = [name for name in packages if not (folder / name).exists()]
    if missing and shutil.which("go") is None:
        raise NoGo(go_version, ", ".join(missing))
    if missing:
        say(f"downloading the sources of {what}")
        download(module, modfile)
    for name in missing:
        say(f"building {name} (minutes, once)")
        building = folder / f".building-{name}-{os.getpid()}"
        words = ("-mod=readonly", f"-modfile={modfile}", "-trimpath", "-ldflags", f"-s -w {stamped}")
        failed = go(module, "build", *words, "-o", str(building), packages[name])
        if failed is not None:
            raise BuildFailed(f"building {name}", failed)
        building.replace(folder / name)
    return folder


def download(module: Path, modfile: str = "go.mod") -> None:
    """Fetch what a Go module is built of, in the versions of a file beside its go.mod.

    Raises:
        BuildFailed: it failed several times.
    """
    for number in range(TRIES):
        failed = go(module, "mod", "download", f"-modfile={modfile}")
        if failed is None:
            return
        if number == TRIES - 1:
            raise BuildFailed(f"downloading, {TRIES} times,", failed)


def go(module: Path, *words: str) -> str | None:
    """Run go in a module; what it said where it failed."""
    kept = {**os.environ, "CGO_ENABLED": "0", "GOWORK": "off"}
    done = subprocess.run(["go", *words], cwd=module, env=kept, capture_output=True, text=True, check=False)  # noqa: S607
    return None if done.returncode == 0 else done.stderr[-2000:]
