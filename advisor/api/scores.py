"""Scores in full: slowdown, bounds, harm and factors, for people and tests."""

import numpy as np
from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field, StrictBool

from advisor.api.described import refusals
from advisor.api.roles import allowed
from advisor.errors import UnknownNode
from advisor.newcomers import Newcomer
from advisor.scoring import Harm
from advisor.serving import Answer, Scored, Serving
from advisor.snapshot import Snapshot
from features.catalog import NAMES

MOST_HARMED = 5


class ScoreRequest(BaseModel):
    """Which app, and which nodes to compare."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    app: str = Field(min_length=1, max_length=253)
    team: str | None = Field(default=None, max_length=253)
    best_effort: StrictBool = False
    nodes: tuple[str, ...] | None = Field(default=None, max_length=10_000)
    """Names of the candidates; all nodes when left out. One named twice is scored once and told twice."""


class HarmReply(BaseModel):
    """A resident that would be slowed down."""

    container: str
    app: str | None
    slowdown_ratio: float
    """Its slowdown with the newcomer over the one without."""


class NodeReply(BaseModel):
    """One candidate."""

    node: str
    score: int
    slowdown_ratio: float
    """Expected slowdown of the newcomer; 1.0 is its own normal."""
    slowdown_upper: float
    """It stays below this nine times in ten."""
    node_bound: float
    """Everybody on the node stays below this nine times in ten."""
    harm: list[HarmReply]
    """The residents harmed most."""
    factors: dict[str, float]
    """How much of the newcomer's slowdown goes away without the pressure on one resource."""


class ScoreReply(BaseModel):
    """All candidates in the order asked; empty, with the reason, when nothing honest can be said."""

    source: str
    reason: str
    snapshot_version: int
    age_s: float
    app_known: bool
    """False: no container of this app ran or runs, its slowdown is that of an app nobody knows. A name misspelled?"""
    nodes: list[NodeReply]


def score_routes(serving: Serving) -> APIRouter:
    """Routes for people, tests and other schedulers."""
    router = APIRouter()

    @router.post("/v1/scores", responses=refusals(400, 404, 408, 413, 422))
    @allowed("scheduler", "sre", "admin")
    def scores(ask: ScoreRequest) -> ScoreReply:
        """Expected slowdown on each candidate node, and the harm done there."""
        return reply_to(ask, serving)

    return router


def reply_to(ask: ScoreRequest, serving: Serving) -> ScoreReply:
    """Score the candidates and say why.

    Raises:
        UnknownNode: a named node is not in the snapshot.
    """
    newcomer = Newcomer(ask.app, ask.team, ask.best_effort)
    answer = serving.answer(newcomer, None if ask.nodes is None else tuple(dict.fromkeys(ask.nodes)))
    if answer.reason == "unknown_nodes":
        raise UnknownNode(answer.names[0])
    scored = answer.scored
    if scored is None:
        return ScoreReply(
            source="neutral", reason=answer.reason, snapshot_version=0, age_s=0.0, app_known=False, nodes=[]
        )
    missing = np.setdiff1d(np.arange(len(answer.names)), scored.known)
    if len(missing):
        raise UnknownNode(answer.names[missing[0]])
    return ScoreReply(
        source=scored.scores.source,
        reason="",
        snapshot_version=scored.scores.version,
        age_s=scored.scores.age_s,
        app_known=ask.app in scored.scorer.snapshot.app_index,
        nodes=_in_order(ask.nodes, _node_replies(answer, scored, newcomer)),
    )


def _in_order(asked: tuple[str, ...] | None, replies: list[NodeReply]) -> list[NodeReply]:
    by_name = {reply.node: reply for reply in replies}
    return replies if asked is None else [by_name[name] for name in asked]


def _node_replies(answer: Answer, scored: Scored, newcomer: Newcomer) -> list[NodeReply]:
    factors = scored.scorer.factors(newcomer, scored.rows)
    scores = scored.scores
    return [
        NodeReply(
            node=name,
            score=int(answer.points[i]),
            slowdown_ratio=float(scores.mean[i]),
            slowdown_upper=float(scores.upper[i]),
            node_bound=float(scores.node_bound[i]),
            harm=_most_harmed(scored.scorer.snapshot, scores.harm, i),
            factors={resource: round(float(part), 6) for resource, part in zip(NAMES, factors[i], strict=True)},
        )
        for i, name in enumerate(answer.names)
    ]


def _most_harmed(snapshot: Snapshot, harm: Harm, candidate: int) -> list[HarmReply]:
    rows = np.arange(harm.offsets[candidate], harm.offsets[candidate + 1])
    worst = rows[np.argsort(-harm.ratio[rows], kind="stable")][:MOST_HARMED]
    return [
        HarmReply(
            container=snapshot.containers[harm.resident[row]],
            app=snapshot.apps[app] if (app := int(snapshot.resident_app[harm.resident[row]])) >= 0 else None,
            slowdown_ratio=float(harm.ratio[row]),
        )
        for row in worst
    ]
