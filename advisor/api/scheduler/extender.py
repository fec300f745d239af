"""kube-scheduler's HTTP extender: its exact keys in, its exact keys out.

Keys are Go field names because the Go types carry no JSON tags. A score must be a JSON integer: a float does not
decode into int64, and the scheduler then drops the whole reply in silence.
"""

import msgspec
from fastapi import APIRouter
from starlette.routing import Route

from advisor.api.scheduler.pod_types import ExtenderArgs, extender_offer
from advisor.api.scheduler.raw_http import ScoreRoute
from advisor.placement.prioritizer import Prioritizer


class HostPriority(msgspec.Struct):
    """One entry of the reply."""

    Host: str
    Score: int


_decode = msgspec.json.Decoder(ExtenderArgs).decode


class Prioritize(ScoreRoute[ExtenderArgs]):
    """Scores 0 to 10 for the candidate nodes, by kube-scheduler's HTTP extender protocol.

    HostPriorityList as JSON: one entry for each offered node in the order offered, integer scores; all 0 when the
    answer is neutral.
    """

    what = "ExtenderArgs"
    asks, returns = ExtenderArgs, list[HostPriority]

    def __init__(self, prioritizer: Prioritizer) -> None:
        super().__init__(_decode, extender_offer, prioritizer.answer)


def extender_routes(prioritizer: Prioritizer) -> APIRouter:
    """Routes for kube-scheduler."""
    router = APIRouter()
    router.routes.append(Route("/extender/prioritize", Prioritize(prioritizer), methods=["POST"]))
    return router
