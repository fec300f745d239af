"""Victims: slowed containers, their antagonists and the confidence, as JSON."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from fastapi import APIRouter, Query

from advisor.api.http.base_schema import Body
from advisor.api.http.openapi import refusals
from advisor.api.http.roles import Role, allowed
from advisor.diagnosis.coverage import Coverage, Looked
from advisor.diagnosis.report_file import DiagnosisReport, no_victim
from advisor.diagnosis.slowdown_causes import Diagnosis, Suspect, Verdict
from advisor.remediation.action import Remedy
from advisor.remediation.options_file import kept_ladder

MOST = 1000
"""Victims in one reply."""
WHO: tuple[Role, ...] = ("sre", "admin", "planner")
"""Roles that may read diagnoses of a cluster."""
Name = Annotated[str | None, Query(max_length=253)]


class SuspectReply(Body):
    """A neighbour and the slowdown it adds."""

    container: str
    """Its name in records."""
    app: str | None
    """Null where unknown."""
    qos: str | None
    """BE or LS."""
    resource: str
    """Resource through which it adds most."""
    added: float | None
    """Slowdown - 1 that it adds, mean over the windows in which the victim was slowed down."""
    low: float | None
    """Lower end of its 90 % interval."""
    high: float | None
    """Upper end of its 90 % interval."""
    surely: float | None
    """Probability that it adds most."""


class VictimReply(Body):
    """A container that is slowed down."""

    container: str
    """Its name in records."""
    app: str | None
    """Null where unknown."""
    node: str
    """Where it runs."""
    slowdown_ratio: float | None
    """Mean over the windows in which it was slowed down, 1.0 is its baseline; null where its own limit hides it."""
    verdict: Verdict
    """Diagnosis: the cause of the slowdown."""
    reason: str
    """The diagnosis in a sentence."""
    kind: str | None
    """Kind of the label that it is judged by, as in `labels.kind`; of `waiting` the level may be too low."""
    window_end_us: int
    """End of its last window, microseconds since 1970."""
    suspects: list[SuspectReply]
    """Neighbours by added slowdown, most first, for every diagnosis."""


class UnseenReply(Body):
    """Windows without a label, for one reason."""

    reason: str
    """Reason, as in `labels.reason`."""
    share: float
    """Share of running container time."""
    containers: int
    """Number of containers."""


class LookedReply(Body):
    """Share of running container time with a label, of a node or app."""

    name: str
    """Node or app."""
    share: float
    """Share of running container time."""


class CoverageReply(Body):
    """How much of running container time has a label, latency-sensitive containers alone."""

    share: float
    """Share of running container time."""
    containers: int
    """Number of containers that ran."""
    by_waiting: int
    """Number of containers with labels made of waiting: harm through cache and memory bandwidth is not seen."""
    unseen: list[UnseenReply]
    """Why the rest has no label, most first."""
    nodes: list[LookedReply]
    """By node, the least first."""
    apps: list[LookedReply]
    """By app, the least first."""
    unreported: list[str]
    """What containers share whose use is not reported: no neighbour is named for harm through it."""


class VictimsReply(Body):
    """All slowed containers, slowest first."""

    cluster: str
    """Cluster of the victims."""
    at_us: int
    """End of the newest window, microseconds since 1970."""
    age_s: float
    """Age of the diagnoses, in seconds."""
    ended: int
    """Number of victims of the diagnoses that have ended since, which are left out."""
    matching: int
    """Number of matches; the reply has at most `limit` of them."""
    coverage: CoverageReply | None
    """How much was looked at; null where unknown."""
    victims: list[VictimReply]
    """Victims, slowest first."""


class SeenReply(SuspectReply):
    """A neighbour and its use."""

    used: list[float | None]
    """Share of the node, or of the victim's cores, that it used of that resource, by window."""


class EvidenceReply(VictimReply):
    """A slowed container, with the evidence."""

    cluster: str
    """Cluster of the victim."""
    age_s: float
    """Age of the diagnosis, in seconds."""
    ends_us: list[int]
    """Ends of the windows."""
    slowdowns: list[float | None]
    """Slowdown by window."""
    suspects: list[SeenReply]  # type: ignore[assignment]
    """Neighbours by added slowdown, most first, with their use."""


class FieldReply(Body):
    """A setting, by its name in the target system."""

    where: str
    """cgroup, resctrl, pod or NodeSLO."""
    name: str
    """Name of the setting."""
    value: str
    """Value to set."""


class RemedyReply(Body):
    """One remedy."""

    kind: str
    """Type: throttle, limit or move."""
    container: str
    """Container to change."""
    target: str | None
    """Target node of a move; null for other remedies."""
    fields: list[FieldReply]
    """Settings to change."""
    gain: float
    """Interference cost saved in an hour, over all containers; a container at twice its baseline costs 2."""
    low: float
    """Lower end of its 90 % interval."""
    high: float
    """Upper end of its 90 % interval."""
    cost: float
    """Cost of the remedy itself, over its payback time."""
    sufficient: float | None
    """Probability that it suffices; null where unknown."""
    enough: bool
    """Whether it probably suffices."""
    why: str
    """Reason, in a sentence."""


class LadderReply(Body):
    """Remedies for a container."""

    victim: str
    """Victim."""
    rest: str
    """Why there is no remedy, or other actions to take."""
    remedies: list[RemedyReply]
    """Remedies that suffice first, cheapest first."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which victims; None or empty wants any.

    Args:
        verdict: what is wrong with them.
        node: where they are.
        app: of which app.
    """

    verdict: str | None = None
    node: str | None = None
    app: str | None = None

    def among(self, report: DiagnosisReport) -> list[Diagnosis]:
        """Those that are wanted: of the newest windows first, there the slowest, those whose limit hides it last."""
        found = [
            one
            for one in report.diagnoses
            if self.verdict in {None, "", one.verdict}
            and self.node in {None, "", one.node}
            and self.app in {None, "", one.app}
        ]
        return sorted(found, key=_worst)


def _worst(one: Diagnosis) -> tuple[int, float, str, str]:
    slowdown = one.slowdown if math.isfinite(one.slowdown) else 1.0
    return -one.window_end_us, -slowdown, one.node, one.container


def victim_routes(newest: Callable[[], DiagnosisReport], snapshots: Path, now_us: Callable[[], int]) -> APIRouter:
    """Routes for the present diagnosis of slowed containers.

    Args:
        newest: the newest diagnoses of containers that run.
        snapshots: folder of kept options.
        now_us: the clock.
    """
    router = APIRouter()

    @router.get("/v1/victims", responses=refusals(404, 422, 503))
    @allowed(*WHO)
    def victims(
        verdict: Verdict | None = None,
        node: Name = None,
        app: Name = None,
        limit: Annotated[int, Query(ge=1, le=MOST)] = 100,
    ) -> VictimsReply:
        """Slowed containers, slowest first, with their antagonists."""
        report = newest()
        found = Wanted(verdict, node, app).among(report)
        age_s = (now_us() - report.at_us) / 1e6
        return VictimsReply(
            cluster=report.cluster,
            at_us=report.at_us,
            age_s=age_s,
            ended=report.ended,
            matching=len(found),
            coverage=None if report.coverage is None else _coverage(report.coverage),
            victims=[_victim(one) for one in found[:limit]],
        )

    @router.get("/v1/victims/{container}", responses=refusals(404, 422, 503))
    @allowed(*WHO)
    def victim(container: str) -> EvidenceReply:
        """Diagnosis of a container, with its evidence by window."""
        report = newest()
        if (one := report.of(container)) is None:
            raise no_victim(container)
        return _evidence(one, (now_us() - report.at_us) / 1e6)

    @router.get("/v1/victims/{container}/options", responses=refusals(404, 422, 503))
    @allowed(*WHO)
    def ladder(container: str) -> LadderReply:
        """Remedies for a container, those that suffice first, cheapest first."""
        found = kept_ladder(snapshots, container) if newest().of(container) else None
        if found is None:
            raise no_victim(container)
        return LadderReply(victim=container, rest=found.rest, remedies=[_remedy(one) for one in found.remedies])

    return router


def _coverage(of: Coverage) -> CoverageReply:
    unseen = [
        UnseenReply(reason=one.reason, share=one.windows / of.looked.windows, containers=one.containers)
        for one in of.unseen
    ]
    return CoverageReply(
        share=of.share,
        containers=of.containers,
        by_waiting=of.by_waiting,
        unseen=unseen,
        nodes=_least_first(of.nodes),
        apps=_least_first(of.apps),
        unreported=list(of.unreported),
    )


def _least_first(parts: Mapping[str, Looked]) -> list[LookedReply]:
    found = [LookedReply(name=name, share=part.share) for name, part in parts.items()]
    return sorted(found, key=lambda one: (one.share, one.name))[:MOST]


def _remedy(one: Remedy) -> RemedyReply:
    fields = [FieldReply(where=field.where, name=field.name, value=field.value) for field in one.fields]
    copied = {name: getattr(one, name) for name in RemedyReply.model_fields if name not in {"fields", "enough"}}
    return RemedyReply(**copied, fields=fields, enough=one.suffices)


def known(number: float) -> float | None:
    """A number as JSON has it."""
    return number if math.isfinite(number) else None


def _suspect(of: Suspect) -> SuspectReply:
    return SuspectReply(
        container=of.container,
        app=of.app,
        qos=of.qos,
        resource=of.resource,
        added=known(of.added),
        low=known(of.low),
        high=known(of.high),
        surely=known(of.surely),
    )


def _victim(one: Diagnosis) -> VictimReply:
    return VictimReply(
        container=one.container,
        app=one.app,
        node=one.node,
        slowdown_ratio=known(one.slowdown),
        verdict=one.verdict,
        reason=one.reason,
        kind=one.kind,
        window_end_us=one.window_end_us,
        suspects=[_suspect(of) for of in one.suspects],
    )


def _evidence(one: Diagnosis, age_s: float) -> EvidenceReply:
    return EvidenceReply(
        **_victim(one).model_dump(exclude={"suspects"}),
        cluster=one.cluster,
        age_s=age_s,
        ends_us=list(one.ends_us),
        slowdowns=[known(slowdown) for slowdown in one.slowdowns],
        suspects=[_seen(of) for of in one.suspects],
    )


def _seen(of: Suspect) -> SeenReply:
    return SeenReply(**_suspect(of).model_dump(), used=[known(used) for used in of.used])
