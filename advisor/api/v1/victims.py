"""Victims: slowed containers, their antagonists and the confidence, as JSON."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Query

from advisor.api.http.base_schema import Body
from advisor.api.http.openapi import refusals
from advisor.api.http.roles import Role, allowed
from advisor.diagnosis.report_file import DiagnosisReport
from advisor.diagnosis.report_reader import NewestReport
from advisor.diagnosis.verdicts import Diagnosis, Suspect, Verdict
from advisor.errors import NoVictim
from advisor.remediation.action import Remedy
from advisor.remediation.options_file import kept_ladder

MOST = 1000
"""Victims in one reply."""
WHO: tuple[Role, ...] = ("sre", "admin", "planner")
"""Who may see what is wrong on a cluster."""
Name = Annotated[str | None, Query(max_length=253)]


class SuspectReply(Body):
    """A neighbour, and what it adds."""

    container: str
    """Its name in records."""
    app: str | None
    """Null where unknown."""
    qos: str | None
    """BE or LS."""
    resource: str
    """Through which it adds most."""
    added: float | None
    """Slowdown - 1 that it adds, mean over the windows in which the victim was slowed down."""
    low: float | None
    """Of a 90 % interval of it."""
    high: float | None
    """Of that interval."""
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
    """Whose doing it is."""
    reason: str
    """The same in a sentence."""
    window_end_us: int
    """Last window looked at, microseconds since 1970."""
    suspects: list[SuspectReply]
    """Neighbours by what they add, most first, whatever the verdict is."""


class VictimsReply(Body):
    """All slowed containers, the slowest first."""

    cluster: str
    """Whose they are."""
    at_us: int
    """Until when was looked, microseconds since 1970."""
    age_s: float
    """How long ago that was."""
    matching: int
    """Number of matches; the reply has at most `limit` of them."""
    victims: list[VictimReply]
    """The slowest first."""


class SeenReply(SuspectReply):
    """A neighbour, and what it used."""

    used: list[float | None]
    """Share of the node, or of the victim's cores, that it used of that resource in each window."""


class EvidenceReply(VictimReply):
    """A slowed container, with the evidence."""

    cluster: str
    """Whose it is."""
    age_s: float
    """How long ago was looked."""
    ends_us: list[int]
    """Ends of the windows looked at."""
    slowdowns: list[float | None]
    """In each of them."""
    suspects: list[SeenReply]  # type: ignore[assignment]
    """Neighbours by what they add, most first, with what they used."""


class FieldReply(Body):
    """A setting, as the one who sets it calls it."""

    where: str
    """cgroup, resctrl, pod or NodeSLO."""
    name: str
    """Of the setting."""
    value: str
    """As it is to be written."""


class RemedyReply(Body):
    """One thing that can be done."""

    kind: str
    """Throttle, limit or move."""
    container: str
    """To whom."""
    target: str | None
    """Node it moves to; null for what is done where it is."""
    fields: list[FieldReply]
    """What is to be set."""
    gain: float
    """Cost that is saved in an hour, everybody counted; a container at twice its normal costs 2."""
    low: float
    """Of a 90 % interval of it."""
    high: float
    """Of that interval."""
    cost: float
    """What it costs for as long as it is meant to hold."""
    sufficient: float | None
    """Probability that it is enough; null where that is not known."""
    enough: bool
    """Whether it is likely enough to help."""
    why: str
    """In a sentence."""


class LadderReply(Body):
    """What can be done for a container."""

    victim: str
    """Whom it would help."""
    rest: str
    """Why there is nothing, or what else is to be looked at."""
    remedies: list[RemedyReply]
    """What is likely enough to help first, the cheapest of it first."""


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


def victim_routes(newest: NewestReport, now_us: Callable[[], int]) -> APIRouter:
    """Routes for the present diagnosis of slowed containers."""
    router = APIRouter()

    @router.get("/v1/victims", responses=refusals(404, 422, 503))
    @allowed(*WHO)
    def victims(
        verdict: Verdict | None = None,
        node: Name = None,
        app: Name = None,
        limit: Annotated[int, Query(ge=1, le=MOST)] = 100,
    ) -> VictimsReply:
        """Slowed containers, the slowest first, with their antagonists."""
        report = newest.report()
        found = Wanted(verdict, node, app).among(report)
        age_s = (now_us() - report.at_us) / 1e6
        return VictimsReply(
            cluster=report.cluster,
            at_us=report.at_us,
            age_s=age_s,
            matching=len(found),
            victims=[_victim(one) for one in found[:limit]],
        )

    @router.get("/v1/victims/{container}", responses=refusals(404, 422, 503))
    @allowed(*WHO)
    def victim(container: str) -> EvidenceReply:
        """What is wrong with a container, with what was seen window by window."""
        report = newest.report()
        if (one := report.of(container)) is None:
            raise NoVictim(container)
        return _evidence(one, (now_us() - report.at_us) / 1e6)

    @router.get("/v1/victims/{container}/options", responses=refusals(404, 422, 503))
    @allowed(*WHO)
    def ladder(container: str) -> LadderReply:
        """What can be done for a container, those that are enough first, the cheapest of them first."""
        found = kept_ladder(newest.folder, container)
        if found is None:
            raise NoVictim(container)
        return LadderReply(victim=container, rest=found.rest, remedies=[_remedy(one) for one in found.remedies])

    return router


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
