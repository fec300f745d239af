"""Modules: the exporters' Go modules, as pinned in modules.sum. An edge."""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from e2e.kube.binaries import TRIES, download, go
from e2e.kube.errors import BuildFailed, NoGo
from ingest.devkafka.java import cache_folder

HERE = Path(__file__).parent
SUMS = HERE / "modules.sum"
COLLECTOR = HERE / "otlp"
COLLECTOR_PART = "github.com/open-telemetry/opentelemetry-collector-contrib/pkg/golden"
DROPPED = HERE / "dropped"
TEST = "^TestCohabitGolden$"


def pinned(sums: str) -> dict[str, tuple[str, str]]:
    """Version and checksum of each module in lines of go.sum's form."""
    lines = [line.split(" ") for line in sums.splitlines()]
    return {module: (version, checksum) for module, version, checksum in lines}


def folders() -> dict[str, Path]:
    """Folder of each pinned module, downloaded where it is missing.

    Raises:
        NoGo: there is no Go toolchain.
        BuildFailed: a download failed several times, or is not what is pinned.
    """
    if shutil.which("go") is None:
        version = re.findall(r"^go (\d+\.\d+)", (COLLECTOR / "go.mod").read_text(), re.MULTILINE)[0]
        raise NoGo(version, "the exporters' parts")
    cache_folder().mkdir(parents=True, exist_ok=True)
    return {module: _folder(module, *version) for module, version in pinned(SUMS.read_text()).items()}


def _folder(module: str, version: str, checksum: str) -> Path:
    said = ""
    for _ in range(TRIES):
        done = subprocess.run(
            ["go", "mod", "download", "-json", f"{module}@{version}"],  # noqa: S607
            cwd=cache_folder(),
            env={**os.environ, "GOWORK": "off"},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode == 0:
            found = json.loads(done.stdout)
            if found["Sum"] != checksum:
                raise BuildFailed(f"downloading {module}", f"checksum {found['Sum']}, pinned is {checksum}")
            return Path(found["Dir"])
        said = done.stdout + done.stderr
    raise BuildFailed(f"downloading {module} {TRIES} times", said[-2000:])


def collector_program() -> Path:
    """The program of the Collector's own parts; go itself knows whether it must be built again.

    Raises:
        BuildFailed: a download failed several times, or the build once.
    """
    download(COLLECTOR)
    program = cache_folder() / "golden-otlp"
    failed = go(COLLECTOR, "build", "-mod=readonly", "-trimpath", "-o", str(program), ".")
    if failed is not None:
        raise BuildFailed("building the Collector's parts", failed)
    return program


def run_inside(module: Path, copy: Path, dropped: Mapping[str, str], environment: Mapping[str, str]) -> None:
    """Run Go files of ours among a module's own tests, in a copy of it, with the dependencies that it pins.

    Args:
        module: folder of the module.
        copy: folder to make.
        dropped: place in the module of each file below dropped/.
        environment: what the files read.

    Raises:
        BuildFailed: a download or a build failed, or a file of ours did.
    """
    shutil.copytree(module, copy, copy_function=shutil.copyfile)
    for folder in (copy, *(path for path in copy.rglob("*") if path.is_dir())):
        folder.chmod(0o755)
    for file, place in dropped.items():
        (copy / place).parent.mkdir(exist_ok=True)
        shutil.copyfile(DROPPED / file, copy / place)
    packages = sorted({f"./{Path(place).parent}" for place in dropped.values()})
    said = ""
    for _ in range(TRIES):
        said = _tested(copy, packages, environment)
        if not said:
            return
        if "dial tcp" not in said and "TLS" not in said and "unexpected EOF" not in said:
            break
    raise BuildFailed(f"running {', '.join(dropped)}", said)


def _tested(copy: Path, packages: list[str], environment: Mapping[str, str]) -> str:
    """What failed, empty where nothing did; go fetches only what it builds."""
    done = subprocess.run(
        ["go", "test", "-vet=off", "-count=1", "-run", TEST, *packages],  # noqa: S607
        cwd=copy,
        env={**os.environ, "CGO_ENABLED": "0", "GOWORK": "off", **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    return (done.stdout + done.stderr)[-3000:] if done.returncode else ""
