"""Commands as people type them, over a folder of the test's own and without settings from outside."""

import os
import subprocess
import sys
from pathlib import Path

BIN = Path(sys.executable).parent


def environment(folder: Path, **settings: str) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith("COHABIT_")}
    folders = {f"COHABIT_{name.upper()}": str(folder / name) for name in ("registry", "snapshots")}
    ports = {"COHABIT_ADVISOR__PORT": "0", "COHABIT_ADVISOR__SCHEDULER_PORT": "0"}
    given = {f"COHABIT_{name.upper()}": value for name, value in settings.items()}
    return {**kept, "PATH": f"{BIN}{os.pathsep}{kept['PATH']}", "COLUMNS": "200", **folders, **ports, **given}


def run(folder: Path, command: str, **settings: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-euo", "pipefail", "-c", command],
        cwd=folder, env=environment(folder, **settings), capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
