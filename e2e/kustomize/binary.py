"""Binary: kustomize, built once from the module proxy and kept by version. An edge.

Its version stands in go.mod beside this file, every byte of what is downloaded in go.sum.
"""

import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

from e2e.kube.binaries import download, go
from e2e.kube.errors import BuildFailed, NoGo
from ingest.devkafka.java import cache_folder

MODULE = Path(__file__).parent
PACKAGE = "sigs.k8s.io/kustomize/kustomize/v5"


def version(go_mod: str) -> str:
    """Version of kustomize in a go.mod."""
    return str(re.findall(rf"{re.escape(PACKAGE)} v(\S+)", go_mod)[0])


def kustomize(say: Callable[[str], None]) -> Path:
    """The program, built where it is missing.

    Raises:
        NoGo: it is missing and there is no Go toolchain.
        BuildFailed: a download failed several times, or the build once.
    """
    text = (MODULE / "go.mod").read_text()
    program = cache_folder() / f"kustomize-{version(text)}"
    if program.exists():
        return program
    if shutil.which("go") is None:
        raise NoGo(re.findall(r"^go (\d+\.\d+)", text, re.MULTILINE)[0], "kustomize")
    say(f"building kustomize {version(text)} (a minute, once)")
    download(MODULE)
    building = program.with_name(f".building-kustomize-{os.getpid()}")
    failed = go(MODULE, "build", "-mod=readonly", "-trimpath", "-o", str(building), PACKAGE)
    if failed is not None:
        raise BuildFailed("building kustomize", failed)
    building.replace(program)
    return program
