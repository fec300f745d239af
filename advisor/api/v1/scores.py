"""Scores in full: slowdown, bounds, interference cost and factors, for people and tests."""

from collections.abc import Iterator

import numpy as np
from fastapi import APIRouter, Request, Response
from pydantic import ConfigDict, Field, StrictBool

from advisor.api.http.base_schema import Body
from advisor.api.http.concurrency_limit import ConcurrencyLimit
from advisor.api.http.openapi import refusals
from advisor.api.http.roles import allowed
from advisor.cluster.pending_pod import PendingPod
from advisor.cluster.snapshot import Snapshot, unknown_node
from advisor.placement.model_state import Answer, Scored, Serving
from advisor.scoring.scorer import Harm
from features.schema.catalog import NAMES

MAX_HARMED = 5
MAX_FEW = 64
"""Number of nodes up to which a request is small: some 25 ms."""
FEW_AT_ONCE, FEW_WAITING = 2, 64
MANY_AT_ONCE, MANY_WAITING = 1, 4
"""10,000 nodes with 30 residents each take 4 s and 1.3 GB; the extender API is in the same process."""


class ScoreRequest(Body):
    """App of the pending pod, and the candidate nodes."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    app: str = Field(min_length=1, max_length=253)
    """Name of the app in the cluster."""
    team: str | None = Field(default=None, max_length=253)
    """Team of the app; an unknown app gets the cold-start prior of this team."""
    best_effort: StrictBool = False
    """Whether the pod is best effort: then only the interference cost of others counts."""
    nodes: tuple[str, ...] | None = Field(default=None, max_length=10_000)
    """Candidate node names; default: all nodes. A repeated name is scored once and returned twice."""


class HarmReply(Body):
    """A resident that would be slowed down."""

    container: str
    """Its name in records."""
    app: str | None
    """Null where unknown."""
    slowdown_ratio: float
    """Its slowdown with the pending pod over the one without."""


class NodeReply(Body):
    """One candidate."""

    node: str
    """Node name."""
    score: int
    """Score, 0 to 10, as in the extender API."""
    slowdown_ratio: float
    """Expected slowdown of the pending pod; 1.0 is its baseline."""
    compared_ratio: float
    """The same from its neighbours' pressure only; `score` combines it with interference cost."""
    slowdown_upper: float
    """Upper prediction bound of its slowdown, at 90 %."""
    node_bound: float
    """Upper prediction bound over all containers on the node, at 90 %."""
    harm: list[HarmReply]
    """Residents with the highest interference cost."""
    factors: dict[str, float]
    """Reduction of the pending pod's slowdown without the pressure on one resource."""


class ScoreReply(Body):
    """All candidates in the order of the request; empty, with the reason, without a recommendation."""

    source: str
    """`model`; `last_good`: newer files are unreadable; `heuristic`: load-aware fallback; `neutral`: no preference."""
    reason: str
    """Reason of `neutral`; else empty."""
    snapshot_version: int
    """Version of the snapshot."""
    age_s: float
    """Age of the snapshot, in seconds."""
    app_known: bool
    """False: no container of this app ran or runs; its slowdown is that of an unseen app. Check the spelling."""
    nodes: list[NodeReply]
    """Candidates in the order of the request."""


def score_routes(serving: Serving) -> APIRouter:
    """Routes for people, tests and other schedulers."""
    router = APIRouter()
    few = ConcurrencyLimit(FEW_AT_ONCE, FEW_WAITING, serving.turned_away.labels("few"))
    many = ConcurrencyLimit(MANY_AT_ONCE, MANY_WAITING, serving.turned_away.labels("many"))

    @router.post("/v1/scores", response_model=ScoreReply, responses=refusals(400, 404, 408, 413, 422, 503))
    @allowed("scheduler", "sre", "admin")
    async def scores(ask: ScoreRequest, request: Request) -> Response:
        """Expected slowdown on each candidate node, and the interference cost there."""
        limit = many if ask.nodes is None or len(ask.nodes) > MAX_FEW else few
        said = await limit.run(request, lambda: reply_to(ask, serving))
        return Response(said, media_type="application/json")

    return router


def reply_to(ask: ScoreRequest, serving: Serving) -> bytes:
    """Score the candidates and say why: a ScoreReply as JSON.

    It is spelled node by node and nothing else is kept of a node: one call that spells 10,000, or a search for garbage
    among their parts, would stop every other thread for a quarter of a second, the schedulers' too.

    Raises:
        NotFound: a named node is not in the snapshot.
    """
    pending_pod = PendingPod(ask.app, ask.team, ask.best_effort)
    answer = serving.answer(pending_pod, None if ask.nodes is None else tuple(dict.fromkeys(ask.nodes)))
    if answer.reason == "unknown_nodes":
        raise unknown_node(answer.names[0])
    scored = answer.scored
    if scored is None:
        neutral = ScoreReply(
            source="neutral", reason=answer.reason, snapshot_version=0, age_s=0.0, app_known=False, nodes=[]
        )
        return neutral.model_dump_json().encode()
    missing = np.setdiff1d(np.arange(len(answer.names)), scored.known)
    if len(missing):
        raise unknown_node(answer.names[missing[0]])
    reply = ScoreReply(
        source=scored.scores.source,
        reason="",
        snapshot_version=scored.scores.version,
        age_s=scored.scores.age_s,
        app_known=ask.app in scored.scorer.snapshot.app_index,
        nodes=[],
    )
    nodes = {node.node: node.model_dump_json() for node in _node_replies(answer, scored, pending_pod)}
    return _with_nodes(reply, [nodes[name] for name in ask.nodes or nodes])


def _with_nodes(reply: ScoreReply, nodes: list[str]) -> bytes:
    """The reply with nodes in the place of none, which come last."""
    return f"{reply.model_dump_json().removesuffix(']}')}{','.join(nodes)}]}}".encode()


def _node_replies(answer: Answer, scored: Scored, pending_pod: PendingPod) -> Iterator[NodeReply]:
    factors = scored.scorer.factors(pending_pod, scored.rows)
    scores = scored.scores
    for i, name in enumerate(answer.names):
        yield NodeReply(
            node=name,
            score=int(answer.points[i]),
            slowdown_ratio=float(scores.mean[i]),
            compared_ratio=float(scores.choice[i]),
            slowdown_upper=float(scores.upper[i]),
            node_bound=float(scores.node_bound[i]),
            harm=_most_harmed(scored.scorer.snapshot, scores.harm, i),
            factors={resource: round(float(part), 6) for resource, part in zip(NAMES, factors[i], strict=True)},
        )


def _most_harmed(snapshot: Snapshot, harm: Harm, candidate: int) -> list[HarmReply]:
    rows = np.arange(harm.offsets[candidate], harm.offsets[candidate + 1])
    worst = rows[np.argsort(-harm.ratio[rows], kind="stable")][:MAX_HARMED]
    return [
        HarmReply(
            container=snapshot.containers[harm.resident[row]],
            app=snapshot.apps[app] if (app := int(snapshot.resident_app[harm.resident[row]])) >= 0 else None,
            slowdown_ratio=float(harm.ratio[row]),
        )
        for row in worst
    ]
