"""Programs: Collector, load generator and node_exporter, built once, and the web server's environment. An edge."""

import subprocess
import sys
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

from e2e.kube.binaries import built
from e2e.kube.errors import BuildFailed
from ingest.devkafka.java import cache_folder

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
VENV = ROOT / ".venv-stock"
PACKAGES = {
    "collector": ".",
    "load": "github.com/tsenart/vegeta/v12",
    "node_exporter": "github.com/prometheus/node_exporter",
}


def program(name: str, say: Callable[[str], None]) -> Path:
    """A program, built where it is missing: of the Collector some minutes.

    Raises:
        NoGo: it is missing and there is no Go toolchain.
        BuildFailed: a download failed several times, or the build once.
    """
    module, sources = HERE / name, sha256()
    for source in sorted(module.iterdir()):
        sources.update(source.read_bytes())
    folder = cache_folder() / f"stock-{name}-{sources.hexdigest()[:8]}"
    packages = {name: PACKAGES[name]}
    return built(module, packages, folder, go_version="1.26", stamped="", what=name, say=say) / name


def server_environment() -> Path:
    """Folder of programs of the web server's environment.

    Raises:
        BuildFailed: it could not be installed.
    """
    words = [str(ROOT / "scripts" / "locked_environment.sh"), sys.executable, str(VENV), "stock"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BuildFailed("installing the web server", done.stderr[-2000:])
    return VENV / "bin"
