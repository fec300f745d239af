"""Release: the chart installed into a real Kubernetes API, upgraded, tested and uninstalled. An edge."""

import io
import subprocess
import tarfile
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, sleep

from e2e.helm.chart import CHART, NAMESPACE, ROOT, helm
from e2e.helm.errors import Differs
from e2e.helm.objects import Kubelet, everything, get, volumes
from e2e.kube.control_plane import CONTROLLERS, ControlPlane, control_plane

NEEDED = (
    *CONTROLLERS,
    "statefulset-controller",
    "job-controller",
    "garbage-collector-controller",
    "persistentvolume-binder-controller",
    "persistentvolumeclaim-protection-controller",
    "persistentvolume-protection-controller",
)
"""Controllers that make pods, bind claims, and remove what is deleted."""
NODES = tuple(f"node-{i}" for i in range(3))
VALUES = ("--set", "cluster=e2e", "--set", "kafka.bootstrap=kafka.kafka:9092")
SLOWER = "settings.COHABIT_KAFKA__MAX_WAIT_MS=5000"
LARGE = ("--set", "fromTopic.enabled=true", "--set", "ingest.replicas=3", "--set-string", SLOWER)
WAIT = ("--wait", "--wait-for-jobs", "--timeout", "3m")
RESTRICTED = "pod-security.kubernetes.io/enforce"
GONE_S = 60.0


@dataclass(frozen=True)
class Release:
    """Helm, and a cluster to install into.

    Args:
        helm: the program.
        plane: the cluster.
        say: prints one line.
    """

    helm: Path
    plane: ControlPlane
    say: Callable[[str], None]

    def run(self, *words: str | Path) -> str:
        """What Helm prints, on that cluster."""
        kubeconfig = ("--kubeconfig", self.plane.folder / "kubeconfig", "--namespace", NAMESPACE)
        return helm(self.helm, *words, *kubeconfig)

    def pods(self) -> dict[str, str]:
        """Phase of each pod."""
        found = get(self.plane.api, f"/api/v1/namespaces/{NAMESPACE}/pods")["items"]
        return {pod["metadata"]["name"]: pod["status"]["phase"] for pod in found}


def lived(folder: Path, binaries: Path, program: Path, say: Callable[[str], None]) -> None:
    """Install the chart of the commit before, upgrade to this one, test, go back, uninstall.

    Raises:
        HelmFailed: Helm exits with an error, or what it installed does not become ready.
        Differs: something is left that was not there before.
    """
    before, commit = chart_before(folder)
    with ExitStack() as stack:
        plane = stack.enter_context(control_plane(folder / "cluster", binaries, NODES))
        stack.enter_context(plane.controllers(NEEDED))
        stack.enter_context(plane.scheduler(None))
        kubelet = stack.enter_context(Kubelet(plane.api, NAMESPACE).at_work())
        _prepare(plane)
        release = Release(program, plane, say)
        there = everything(plane.api)
        _steps(release, before, commit, kubelet)
        _until_gone(release, there)


def chart_before(folder: Path) -> tuple[Path, str]:
    """The chart as of the commit before the last change of it, and that commit; this one where there is none."""
    path = str(CHART.relative_to(ROOT))
    asked = ["git", "diff", "--quiet", "HEAD", "--", path]
    changed = subprocess.run(asked, cwd=ROOT, check=False).returncode != 0
    listed = ["git", "log", "--format=%h", "-2", "--", path]
    commits = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    before = commits if changed else commits[1:]
    if not before:
        return CHART, "none before it"
    archive = ["git", "archive", before[0], path]
    packed = subprocess.run(archive, cwd=ROOT, capture_output=True, check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(packed)) as opened:
        opened.extractall(folder / "before", filter="data")
    return folder / "before" / path, before[0]


def _prepare(plane: ControlPlane) -> None:
    """A namespace that enforces the restricted profile, and volumes."""
    namespace = f'{{"metadata": {{"name": "{NAMESPACE}", "labels": {{"{RESTRICTED}": "restricted"}}}}}}'
    plane.api.create("/api/v1/namespaces", [namespace.encode()])
    plane.api.create("/api/v1/persistentvolumes", volumes())


def _steps(release: Release, before: Path, commit: str, kubelet: Kubelet) -> None:
    began = monotonic()
    release.run("install", "cohabit", before, *VALUES, *WAIT)
    release.say(f"install: chart of commit {commit}, {_phases(release)}, {monotonic() - began:.0f} s")
    began = monotonic()
    notes = release.run("upgrade", "cohabit", CHART, *VALUES, *LARGE, *WAIT)
    if "https://10." not in notes or "WARNING" in notes:
        raise Differs("notes of the upgrade", [notes])
    release.say(f"upgrade: this chart, component from-topic, {_phases(release)}, {monotonic() - began:.0f} s")
    release.run("test", "cohabit", "--timeout", "1m")
    if "cohabit-config-check" not in kubelet.ran:
        raise Differs("helm test", ["pod cohabit-config-check did not run"])
    release.say("test: the pod of `cohabit admin config check` was admitted and scheduled")
    release.run("rollback", "cohabit", "1", *WAIT)
    release.say(f"rollback: revision 3 as 1, {_phases(release)}")
    release.run("uninstall", "cohabit", "--wait", "--timeout", "3m")


def _phases(release: Release) -> str:
    phases = list(release.pods().values())
    return ", ".join(f"{phases.count(phase)} pods {phase}" for phase in sorted(set(phases)))


def _until_gone(release: Release, there: set[str]) -> None:
    """Wait until nothing is there that was not there before the installation."""
    began = monotonic()
    while left := everything(release.plane.api) - there:
        if monotonic() - began > GONE_S:
            raise Differs("objects that are left after uninstall", sorted(left))
        sleep(0.5)
    release.say(f"uninstall: 0 of its objects are left; {len(there)} others as before")
