"""Plugin: kube-scheduler with the plugin of `plugin/`, built, tested and run. An edge."""

import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import yaml

from e2e.kube.advisor import advisor
from e2e.kube.binaries import KUBERNETES, built, download, versions
from e2e.kube.control_plane import scheduler_of
from e2e.kube.cpu_times import CpuTimes
from e2e.kube.errors import NoGo
from e2e.kube.processes import free_ports
from e2e.kube.runs import Outcome, Plan, create_pods, outcome_of, until_bound
from e2e.kube.scheduler_log import SchedulerLog
from ingest.devkafka.java import cache_folder

MODULE = Path(__file__).parents[2] / "plugin"
PAGE = Path(__file__).parents[2] / "docs" / "scheduler-plugin.md"
PACKAGE = "./cohabit"
"""Of the plugin alone; that of the program is compiled of all of kube-scheduler."""
TABLE_FILE = "COHABIT_ADVISOR__SCORE_TABLE_FILE"
NOTED = re.compile(r"^\s+\w+_test\.go:\d+: (.*)$", re.MULTILINE)
"""What a test logs."""


def scheduler_with_plugin(say: Callable[[str], None]) -> Path:
    """The program, built again where a source differs.

    Raises:
        NoGo: it is missing and there is no Go toolchain.
        BuildFailed: a download or the build failed.
    """
    of = versions((MODULE / "go.mod").read_text())
    folder = cache_folder() / f"kube-scheduler-{of[KUBERNETES]}-plugin-{_digest()}"
    stamped = f"-X k8s.io/component-base/version.gitVersion=v{of[KUBERNETES]}"
    what = f"kube-scheduler {of[KUBERNETES]} and the plugin"
    packages = {"kube-scheduler": "."}
    return built(MODULE, packages, folder, go_version=of["go"], stamped=stamped, what=what, say=say) / "kube-scheduler"


def _digest() -> str:
    """Of the sources, without tests."""
    found = [path for path in sorted(MODULE.rglob("*")) if path.suffix in {".go", ".mod", ".sum"}]
    content = b"".join(path.read_bytes() for path in found if not path.name.endswith("_test.go"))
    return hashlib.sha256(content).hexdigest()[:12]


def tested(say: Callable[[str], None]) -> bool:
    """Whether the plugin passes its tests, with the race detector: vectors of Python, and tables swapped under fire.

    Raises:
        NoGo: there is no Go toolchain.
        BuildFailed: a download failed several times.
    """
    if shutil.which("go") is None:
        raise NoGo(versions((MODULE / "go.mod").read_text())["go"], "the plugin's tests")
    download(MODULE)
    kept = {**os.environ, "CGO_ENABLED": "1", "GOWORK": "off"}
    command = ["go", "test", "-mod=readonly", "-race", "-count=1", "-v", PACKAGE]
    done = subprocess.run(command, cwd=MODULE, env=kept, capture_output=True, text=True, check=False)
    for line in NOTED.findall(done.stdout) if done.returncode == 0 else [done.stdout[-3000:], done.stderr[-3000:]]:
        say(f"plugin: {line}")
    return done.returncode == 0


def with_plugin(plan: Plan, program: Path, pair: int = 0) -> tuple[Outcome, int]:
    """kube-scheduler with the plugin and without extender; and how many pods the advisor has assumed by then."""
    [port] = free_ports(1)
    table = plan.folder / f"score-table-{pair}"
    settings = {TABLE_FILE: str(table)}
    with (
        plan.plane(f"plugin-{pair}") as plane,
        advisor(plan.folder, port, f"advisor-plugin-{pair}", settings) as advised,
    ):
        advised.warm(plan.nodes)
        create_pods(plane, "pod", plan.pods)
        began = CpuTimes.now()
        content = plugin_config(PAGE.read_text(), table, port, plane.kubeconfig)
        with plane.scheduler_by(content, program=program) as process:
            log = SchedulerLog(process.log)
            until_bound(log, plan.pods)
            cpu_s = CpuTimes.now().since(began)
            return outcome_of("plugin", plane, log, plan.pods, cpu_s=cpu_s), advised.assumed()


def plugin_config(page: str, table: Path, advisor_port: int, kubeconfig: Path) -> Mapping[str, Any]:
    """KubeSchedulerConfiguration: what the page advises, but for the table's file and the advisor's port."""
    blocks = (yaml.safe_load(block) for block in re.findall(r"```yaml\n(.*?)```", page, re.DOTALL))
    made = next(one for one in blocks if one.get("kind") == "KubeSchedulerConfiguration")
    [profile] = made["profiles"]
    [config] = profile["pluginConfig"]
    config["args"] |= {"tableFile": str(table), "advisor": f"http://127.0.0.1:{advisor_port}"}
    return {**scheduler_of([], kubeconfig), "profiles": [profile]}
