"""Plugin: kube-scheduler with the plugin of `plugin/`, built, tested and run. An edge."""

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
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
VERSIONS = {"1.36": "go.mod", "1.37": "kubernetes-1.37.mod"}
"""Minor versions of Kubernetes that the plugin is built for, and their files of versions; first that of the cluster."""
TABLE_FILE = "COHABIT_ADVISOR__SCORE_TABLE_FILE"
NOWHERE = {
    "apiVersion": "v1",
    "kind": "Config",
    "clusters": [{"name": "none", "cluster": {"server": "http://127.0.0.1:1"}}],
    "contexts": [{"name": "none", "context": {"cluster": "none", "user": "none"}}],
    "current-context": "none",
    "users": [{"name": "none", "user": {}}],
}
"""A kubeconfig of no cluster."""
LIMIT_S = 60.0
NOTED = re.compile(r"^\s+\w+_test\.go:\d+: (.*)$", re.MULTILINE)
"""What a test logs."""


def scheduler_with_plugin(kubernetes: str, say: Callable[[str], None]) -> Path:
    """The program for a minor version of Kubernetes, built again where a source differs.

    Raises:
        NoGo: it is missing and there is no Go toolchain.
        BuildFailed: a download or the build failed.
    """
    modfile = VERSIONS[kubernetes]
    of = versions((MODULE / modfile).read_text())
    folder = cache_folder() / f"kube-scheduler-{of[KUBERNETES]}-plugin-{_digest(modfile)}"
    stamped = f"-X k8s.io/component-base/version.gitVersion=v{of[KUBERNETES]}"
    what = f"kube-scheduler {of[KUBERNETES]} and the plugin"
    packages = {"kube-scheduler": "."}
    words = {"go_version": of["go"], "stamped": stamped, "what": what, "modfile": modfile}
    return built(MODULE, packages, folder, say=say, **words) / "kube-scheduler"


def _digest(modfile: str) -> str:
    """Of the sources of one version, without tests."""
    pinned = MODULE / modfile
    found = [*sorted(MODULE.rglob("*.go")), pinned, pinned.with_suffix(".sum")]
    content = b"".join(path.read_bytes() for path in found if not path.name.endswith("_test.go"))
    return hashlib.sha256(content).hexdigest()[:12]


def tested(kubernetes: str, say: Callable[[str], None]) -> bool:
    """Whether the plugin passes its tests, with the race detector: vectors of Python, and tables swapped under fire.

    The program is built too, and has to accept the page's configuration.

    Raises:
        NoGo: there is no Go toolchain.
        BuildFailed: a download failed several times, or the build once.
    """
    modfile = VERSIONS[kubernetes]
    of = versions((MODULE / modfile).read_text())
    if shutil.which("go") is None:
        raise NoGo(of["go"], "the plugin's tests")
    download(MODULE, modfile)
    kept = {**os.environ, "CGO_ENABLED": "1", "GOWORK": "off"}
    command = ["go", "test", "-mod=readonly", f"-modfile={modfile}", "-race", "-count=1", "-v", PACKAGE]
    done = subprocess.run(command, cwd=MODULE, env=kept, capture_output=True, text=True, check=False)
    for line in NOTED.findall(done.stdout) if done.returncode == 0 else [done.stdout[-3000:], done.stderr[-3000:]]:
        say(f"plugin for Kubernetes {of[KUBERNETES]}: {line}")
    accepted = done.returncode == 0 and _accepted(scheduler_with_plugin(kubernetes, say), say)
    return done.returncode == 0 and accepted


def _accepted(program: Path, say: Callable[[str], None]) -> bool:
    """Whether a program takes the page's configuration, with the plugin at work; nothing is asked for that."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        kubeconfig, config, written = (folder / of for of in ("kubeconfig", "config.yaml", "written.yaml"))
        kubeconfig.write_text(yaml.safe_dump(NOWHERE))
        table = folder / "score-table"
        config.write_text(yaml.safe_dump(plugin_config(PAGE.read_text(), table, 8081, kubeconfig)))
        words = [f"--config={config}", f"--write-config-to={written}"]
        done = subprocess.run([program, *words], capture_output=True, text=True, check=False, timeout=LIMIT_S)
        well = done.returncode == 0 and str(table) in written.read_text()
        say(f"{program.parent.name}: {'accepts the configuration' if well else done.stderr[-3000:]}")
        return well


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
