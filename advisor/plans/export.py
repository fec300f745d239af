"""Export: an approved plan in the format of the system that executes it. Kernel.

Cohabit moves nothing. On plain Kubernetes a step is an eviction, and a reservation of the target node for the
replacement pod; where Koordinator runs it is a PodMigrationJob, which reserves room on the target before it evicts;
for anything else it is the step as it is. The same plan is exported to the same names, so that applying it twice does
nothing twice.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from typing import Literal

from advisor.errors import Invalid
from advisor.placement.reservation_match import Reservation
from advisor.plans.rules import plan_record as planned

FORMAT = "cohabit.export/2"
As = Literal["evictions", "migration-jobs", "plain"]
Body = Mapping[str, object]
"""An object of Kubernetes."""
KOORDINATOR = "koord-scheduler"
"""The scheduler that knows reservations, as Koordinator installs it."""
LONGEST_LABEL, LONGEST_NAME = 63, 253
SLUG = 36
"""Of a plan's name within that of a step."""
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_NAME = re.compile(rf"{_LABEL.pattern}(\.{_LABEL.pattern})*")
_UID = re.compile(r"[!-~]{1,253}")


@dataclass(frozen=True, slots=True)
class ApprovedMove:
    """One step of an approved plan.

    Args:
        step: number within the plan, unlike any other.
        round: steps of one round may be carried out at once, those of the next one after them.
        container: uid of the pod.
        namespace: of the pod.
        name: of the pod.
        app: as `ingest.schema.workload_identity.identify` returns it.
        source: node where it runs.
        target: node where it belongs.
        plan: that was approved.
        template_hash: that its labels carry; empty where that is not known.
        cpu_request_cores: what it requests; 0 where that is not known.
        memory_request_bytes: likewise.
    """

    step: int
    round: int
    container: str
    namespace: str
    name: str
    app: str
    source: str
    target: str
    plan: str
    template_hash: str = ""
    cpu_request_cores: float = 0.0
    memory_request_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Eviction:
    """A step as a request to the API server: POST `body` to `path`; its reservation holds the target node."""

    step: int
    round: int
    reservation: str
    source: str
    target: str
    path: str
    body: Body


@dataclass(frozen=True, slots=True)
class MigrationJob:
    """A step as an object to create."""

    step: int
    round: int
    manifest: Body


Step = Eviction | MigrationJob | planned.Step


def evictions(moves: Iterable[ApprovedMove], cluster: str, expires_us: int) -> tuple[list[Eviction], list[Reservation]]:
    """Evictions by policy/v1, each valid for one pod only, and the reservations of their targets.

    Raises:
        Invalid: a name is not a Kubernetes name, or a step is repeated.

    Source: Kubernetes' API-initiated eviction; a pod of the same name and another uid is answered with 409.
    """
    ordered = _in_order(moves)
    reservations = [
        Reservation(
            step_name(move),
            cluster,
            move.namespace,
            move.app,
            move.template_hash,
            move.target,
            expires_us,
            move.plan,
            move.step,
        )
        for move in ordered
    ]
    return [_eviction(move) for move in ordered], reservations


def migration_jobs(moves: Iterable[ApprovedMove], ttl_s: int) -> list[MigrationJob]:
    """PodMigrationJobs of Koordinator that reserve room on the target, wait for it, and evict then.

    What the reservation lacks Koordinator's controller adds from the pod: its owner, who may take the room; and that
    it is taken once. A given template replaces the pod's own, so it contains the requests where they are known.

    Args:
        moves: that were approved.
        ttl_s: seconds from the creation of a job to its end; it counts while others go first.

    Raises:
        Invalid: a name is not a Kubernetes name, or a step is repeated.

    Source: scheduling.koordinator.sh/v1alpha1; `paused` jobs are never exported, since their time runs too.
    """
    return [MigrationJob(move.step, move.round, _job(move, ttl_s)) for move in _in_order(moves)]


def document(plan: str, form: As, steps: Sequence[Step], settings: Sequence[planned.Step] = ()) -> str:
    """The export as JSON: its format, its steps in order, and settings that neither evictions nor jobs can express."""
    content: dict[str, object] = {"format": FORMAT, "plan": plan, "as": form}
    content |= {"steps": [asdict(step) for step in steps], "settings": [asdict(step) for step in settings]}
    return json.dumps(content, indent=2) + "\n"


def step_name(move: ApprovedMove) -> str:
    """A DNS label for a step: the same for the same step, another for any other."""
    digest = sha256(f"{move.plan}\n{move.step}".encode()).hexdigest()[:10]
    slug = re.sub(r"[^a-z0-9]+", "-", move.plan.lower())[:SLUG].strip("-")
    return "-".join(filter(None, ("cohabit", slug, str(move.step)[:5], digest)))


def _in_order(moves: Iterable[ApprovedMove]) -> list[ApprovedMove]:
    ordered = sorted(moves, key=lambda move: (move.round, move.step))
    seen = set[tuple[str, int]]()
    for move in ordered:
        _check(move)
        if (move.plan, move.step) in seen:
            raise _bad_move(move.step, "number", str(move.step), "is repeated")
        seen.add((move.plan, move.step))
    return ordered


def _check(move: ApprovedMove) -> None:
    """What ends in a path or in a name of Kubernetes must be one.

    Raises:
        Invalid: it is not.
    """
    wanted = (
        ("namespace", move.namespace, _LABEL, LONGEST_LABEL),
        ("pod", move.name, _NAME, LONGEST_NAME),
        ("target", move.target, _NAME, LONGEST_NAME),
        ("uid", move.container, _UID, LONGEST_NAME),
    )
    for what, value, pattern, longest in wanted:
        if len(value) > longest or not pattern.fullmatch(value):
            raise _bad_move(move.step, what, value, "is not a Kubernetes name (DNS-1123)")


def _eviction(move: ApprovedMove) -> Eviction:
    path = f"/api/v1/namespaces/{move.namespace}/pods/{move.name}/eviction"
    body = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": move.name, "namespace": move.namespace},
        "deleteOptions": {"preconditions": {"uid": move.container}},
    }
    return Eviction(move.step, move.round, step_name(move), move.source, move.target, path, body)


def _job(move: ApprovedMove, ttl_s: int) -> Body:
    pod = {"apiVersion": "v1", "kind": "Pod", "namespace": move.namespace, "name": move.name, "uid": move.container}
    return {
        "apiVersion": "scheduling.koordinator.sh/v1alpha1",
        "kind": "PodMigrationJob",
        "metadata": {"name": step_name(move)},
        "spec": {
            "paused": False,
            "ttl": f"{ttl_s}s",
            "mode": "ReservationFirst",
            "podRef": pod,
            "reservationOptions": {"template": _reservation(move, ttl_s)},
            "deleteOptions": {"preconditions": {"uid": move.container}},
        },
    }


def _reservation(move: ApprovedMove, ttl_s: int) -> Body:
    """Of room on the target; a node affinity, since Koordinator takes a node's name out."""
    there = {"key": "kubernetes.io/hostname", "operator": "In", "values": [move.target]}
    required = {"nodeSelectorTerms": [{"matchExpressions": [there]}]}
    pod = {
        "schedulerName": KOORDINATOR,
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}},
        "containers": [{"name": "reserved", "resources": {"requests": _requests(move)}}],
    }
    return {"spec": {"allocateOnce": True, "ttl": f"{ttl_s}s", "template": {"spec": pod}}}


def _requests(move: ApprovedMove) -> Mapping[str, str]:
    asked = {
        "cpu": f"{round(1000 * move.cpu_request_cores)}m" if move.cpu_request_cores else "",
        "memory": str(move.memory_request_bytes) if move.memory_request_bytes else "",
    }
    return {name: amount for name, amount in asked.items() if amount}


def _bad_move(step: int, what: str, value: str, why: str) -> Invalid:
    return Invalid(f"step {step} cannot be exported: its {what} {value[:120]!r} {why}: run `cohabit plan create` again")
