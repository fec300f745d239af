"""Runs: the same pods on the same nodes without the advisor, with it, and with it killed and back. An edge."""

from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic, sleep

from benchmarks.serving import CLASSES
from e2e.kube.advisor import Counts, advisor
from e2e.kube.api import PODS, numbered
from e2e.kube.control_plane import PAGE, ControlPlane, control_plane, extender_of
from e2e.kube.cpu_times import CpuTimes
from e2e.kube.errors import NotScheduled
from e2e.kube.processes import free_ports
from e2e.kube.scheduler_log import SchedulerLog, Verdict, scores_in, verdict, waits_s

STILL_S = 60.0
"""Without any new binding."""
EVERY_SCORE, EVERY_LOSS = 10, 5
"""Verbosity of kube-scheduler at which these are told."""


@dataclass(frozen=True)
class Plan:
    """What all runs share.

    Args:
        folder: of the snapshots and the bundle, and of everything that is written.
        binaries: folder of Kubernetes' programs.
        nodes: their names.
        pods: how many.
        cluster: name of it in the snapshots.
    """

    folder: Path
    binaries: Path
    nodes: tuple[str, ...]
    pods: int
    cluster: str

    def plane(self, name: str) -> AbstractContextManager[ControlPlane]:
        """A new cluster with these nodes."""
        return control_plane(self.folder / name, self.binaries, self.nodes)


@dataclass(frozen=True)
class Outcome:
    """One run.

    Args:
        name: of the run.
        bound: pods that have a node, as kube-apiserver says.
        pods: of so many.
        pods_per_s: bound, from the first to the last.
        lost: answers that kube-scheduler lost, by reason.
        counts: what the advisor counted, by what it lived through.
        cpu_s: CPU seconds of each program while pods were scheduled: of all its threads, and of the busiest one.
    """

    name: str
    bound: int
    pods: int
    pods_per_s: float
    lost: dict[str, int]
    counts: dict[str, Counts]
    cpu_s: dict[str, tuple[float, float]] = field(default_factory=dict)


@dataclass(frozen=True)
class Sample:
    """Pods of which every score was looked at.

    Args:
        verdict: on where they went.
        waits_s: for our answers, as kube-scheduler's log has it.
    """

    verdict: Verdict
    waits_s: list[float]


def without(plan: Plan, pair: int = 0) -> Outcome:
    """kube-scheduler alone."""
    with plan.plane(f"without-{pair}") as plane:
        create_pods(plane, "pod", plan.pods)
        before = CpuTimes.now()
        with plane.scheduler(None) as process:
            log = SchedulerLog(process.log)
            until_bound(log, plan.pods)
            cpu_s = CpuTimes.now().since(before)
        return outcome_of("without", plane, log, plan.pods, cpu_s=cpu_s)


def with_advisor(plan: Plan, sampled: int, pair: int = 0) -> tuple[Outcome, Sample]:
    """kube-scheduler advised; and some pods more, of which every score is looked at."""
    [port] = free_ports(1)
    with plan.plane(f"with-{pair}") as plane, advisor(plan.folder, port, f"advisor-{pair}") as advised:
        advised.warm(plan.nodes)
        before = advised.counts()
        create_pods(plane, "pod", plan.pods)
        began = CpuTimes.now()
        with plane.scheduler(port, EVERY_LOSS) as process:
            log = SchedulerLog(process.log)
            until_bound(log, plan.pods)
            cpu_s = CpuTimes.now().since(began)
        counts = {"at work": advised.counts().since(before)}
        outcome = outcome_of("with", plane, log, plan.pods, counts=counts, cpu_s=cpu_s)
        return outcome, _sampled(plane, port, sampled)


def killed(plan: Plan) -> Outcome:
    """The advisor is killed in the first third of the pods, away for the second and back for the last."""
    [port] = free_ports(1)
    first, second = plan.pods // 3, 2 * plan.pods // 3
    with plan.plane("killed") as plane, ExitStack() as lives:
        one = lives.enter_context(advisor(plan.folder, port, "advisor-killed"))
        one.warm(plan.nodes)
        before = one.counts()
        create_pods(plane, "first", first)
        with plane.scheduler(port, EVERY_LOSS) as process:
            log = SchedulerLog(process.log)
            until_bound(log, first // 2)
            until_then = one.counts().since(before)
            one.process.kill()
            create_pods(plane, "second", second - first)
            until_bound(log, second)
            other = lives.enter_context(advisor(plan.folder, port, "advisor-back"))
            create_pods(plane, "third", plan.pods - second)
            until_bound(log, plan.pods)
        counts = {"until it was killed": until_then, "once it was back": other.counts()}
        return outcome_of("killed and back", plane, log, plan.pods, counts=counts)


def _sampled(plane: ControlPlane, port: int, pods: int) -> Sample:
    create_pods(plane, "sampled", pods)
    with plane.scheduler(port, EVERY_SCORE) as process:
        log = SchedulerLog(process.log)
        until_bound(log, pods)
    weight = int(extender_of(PAGE.read_text())["weight"])
    with process.log.open("rb") as lines:
        judged = verdict(scores_in(lines), log.node_of, weight)
        lines.seek(0)
        return Sample(judged, waits_s(lines))


def create_pods(plane: ControlPlane, prefix: str, count: int) -> None:
    """Pods of all apps in turn, waiting for a node."""
    plane.api.create(PODS, numbered(prefix, count, lambda i: CLASSES[i % len(CLASSES)]))


def outcome_of(
    name: str,
    plane: ControlPlane,
    log: SchedulerLog,
    pods: int,
    *,
    counts: dict[str, Counts] | None = None,
    cpu_s: dict[str, tuple[float, float]] | None = None,
) -> Outcome:
    """The outcome of a run whose pods are bound."""
    bound = len(plane.api.bound())
    return Outcome(name, bound, pods, log.pods_per_s(), dict(log.lost), counts or {}, cpu_s or {})


def until_bound(log: SchedulerLog, count: int) -> None:
    """Wait until so many pods are bound.

    Raises:
        NotScheduled: none was for a minute.
    """
    before, since = -1, monotonic()
    while (bound := log.read()) < count:
        if bound > before:
            before, since = bound, monotonic()
        elif monotonic() - since > STILL_S:
            raise NotScheduled(bound, count, STILL_S)
        sleep(0.05)
