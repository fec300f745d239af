"""Dry runs: what the released kube-apiserver says to evictions that are only asked about. An edge."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from advisor.plans.export import ApprovedMove, Eviction, evictions
from cohabit.plans.dry_run import ApiServer, Verdict, dry_run
from e2e.kube.control_plane import ControlPlane
from e2e.kube.processes import HOST
from e2e.kube.workloads import MAX_UNAVAILABLE, Kubelet, Pod, deploy, until_all

GUARDED = "guarded"


@dataclass(frozen=True)
class Asked:
    """One question: what it was about, what was expected, the answer, and the server's message."""

    about: str
    expected: Verdict
    found: Verdict
    said: str


def asked(plane: ControlPlane, kubelet: Kubelet, pods: int) -> list[Asked]:
    """Every kind of answer, from pods of which none goes by it."""
    deploy(plane.api, [GUARDED], 1, max_unavailable=0)
    with plane.scheduler(None):
        until_all(kubelet.ready, pods + 1)
    token = plane.folder / "token"
    token.write_text(plane.api.token)
    server = ApiServer(f"https://{HOST}:{plane.api.port}", token, plane.api.certificate)
    wanted = _questions(kubelet.all())
    answers = dry_run(server, [step for _, _, step in wanted])
    until_all(kubelet.ready, pods + 1)
    return [Asked(about, expected, a.verdict, a.said) for (about, expected, _), a in zip(wanted, answers, strict=True)]


def _questions(pods: Sequence[Pod]) -> list[tuple[str, Verdict, Eviction]]:
    guarded = next(pod for pod in pods if pod.metadata.labels.app == GUARDED)
    one = next(pod for pod in pods if pod.metadata.labels.app != GUARDED)
    alike = [pod for pod in pods if pod.metadata.labels.app == one.metadata.labels.app]
    move = _move(0, one)
    moves: list[tuple[str, Verdict, ApprovedMove]] = [
        ("a pod of the same name and another uid", "replaced", replace(move, container="another")),
        ("a pod that is not there", "not_found", replace(move, name="nobody")),
        ("a pod of which a budget lets none go", "blocked_by_budget", _move(0, guarded)),
    ]
    about = f"one of {MAX_UNAVAILABLE + 1} pods of which a budget lets {MAX_UNAVAILABLE} go"
    moves += [(about, "would_be_evicted", _move(0, pod)) for pod in alike[: MAX_UNAVAILABLE + 1]]
    numbered = [replace(of, step=step) for step, (_, _, of) in enumerate(moves)]
    steps, _ = evictions(numbered, "e2e", 0)
    return [(about, expected, step) for (about, expected, _), step in zip(moves, steps, strict=True)]


def _move(step: int, pod: Pod) -> ApprovedMove:
    meta = pod.metadata
    return ApprovedMove(
        step, 1, meta.uid, "default", meta.name, meta.labels.app, pod.spec.nodeName, pod.spec.nodeName, "dry-run"
    )
