"""Exact scoring of the offered nodes, where the table lacks the pod's class. An edge.

In a thread, within a deadline: a scheduler does not wait for what takes longer. What comes too late answers the next
request of its class.
"""

import asyncio
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Literal

import structlog

from advisor.cluster.pending_pod import PodClass
from advisor.placement.encoded_scores import Replies, spelled_reply
from advisor.placement.model_state import Answer, Serving
from advisor.placement.offer import Offer, Said
from advisor.scoring.scorer import ModelScorer

log = structlog.get_logger()
NotSaid = Literal["late", "new_class"]
"""Why exact scoring has no answer: past its deadline, or too many residents or another request in the thread."""

DEADLINE_S = 0.02
"""What is not known by then is answered by the next source."""
KEEP_US, MAX_KEPT = 60_000_000, 256
"""Exact scores stand for so long, and of so many classes, where the table has not taken the class up meanwhile."""
MAX_EXACT = 2_000
"""Residents on the offered nodes up to which a class that is not in the table is scored at once."""


@dataclass(frozen=True, slots=True)
class Exact:
    """What exact scoring found for a class.

    Args:
        at_us: when, microseconds since 1970.
        points: of each node.
        predictor: the one that was asked; what another one says is not answered from here.
        source: under which it is counted.
    """

    at_us: int
    points: Mapping[str, int]
    predictor: object
    source: str


@dataclass
class ExactSource:
    """Scores a request at a time, on one thread.

    Args:
        serving: snapshot, bundle and clock.
    """

    serving: Serving
    thread: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1), init=False)
    _busy: bool = field(default=False, init=False)
    _exact: dict[PodClass, Exact] = field(default_factory=dict, init=False)
    """Also what came too late for its own request: the next one of the class is answered by it."""

    async def whole(self, offer: Offer) -> Said:
        """The answer however long it takes; neutral where there is no model, or no snapshot that is new enough."""
        answer, reply = await asyncio.get_running_loop().run_in_executor(self.thread, self._score, offer)
        return Said(reply, *answer.counted)

    async def say(self, offer: Offer, of: PodClass, scorer: ModelScorer) -> Said | NotSaid:
        """What was kept of a class, else what is scored within the deadline, else why there is no answer."""
        if (kept := self._kept(scorer, of, offer)) is not None:
            return kept
        if self._busy or _residents(scorer, offer.names) > MAX_EXACT:
            return "new_class"
        self._busy = True
        future = asyncio.get_running_loop().run_in_executor(self.thread, self._score, offer)
        future.add_done_callback(partial(self._ended, of))
        done, _ = await asyncio.wait([future], timeout=DEADLINE_S)
        if not done:
            return "late"
        answer, reply = future.result()
        return Said(reply, *answer.counted)

    def forget(self, replies: Replies) -> None:
        """Drop what a newer table has, and what is too old."""
        since = self.serving.now_us() - KEEP_US
        self._exact = {of: x for of, x in self._exact.items() if of not in replies.row_of and x.at_us >= since}

    def _kept(self, scorer: ModelScorer, of: PodClass, offer: Offer) -> Said | None:
        """What exact scoring said lately of a class that the table lacks; None for another model or unscored nodes."""
        exact = self._exact.get(of)
        if (
            exact is None
            or exact.predictor is not scorer.predictor
            or self.serving.now_us() - exact.at_us > KEEP_US
            or not exact.points.keys() >= set(offer.names)
        ):
            return None
        return Said(spelled_reply(offer.names, [exact.points[name] for name in offer.names]), exact.source, "kept")

    def _ended(self, of: PodClass, work: "asyncio.Future[tuple[Answer, bytes]]") -> None:
        self._busy = False
        if work.cancelled():
            return
        if (error := work.exception()) is not None:
            log.error("background scoring failed", error=repr(error))
            return
        answer, _ = work.result()
        if answer.scored is not None and (of in self._exact or len(self._exact) < MAX_KEPT):
            points = dict(zip(answer.names, answer.points.tolist(), strict=True))
            predictor, (source, _) = answer.scored.scorer.predictor, answer.counted
            self._exact[of] = Exact(self.serving.now_us(), points, predictor, source)

    def _score(self, offer: Offer) -> tuple[Answer, bytes]:
        unique = list(dict.fromkeys(offer.names))
        answer = self.serving.answer_anyway(offer.pending_pod, unique)
        points = dict(zip(unique, answer.points.tolist(), strict=True))
        return answer, spelled_reply(offer.names, [points[name] for name in offer.names])


def _residents(scorer: ModelScorer, names: Sequence[str]) -> int:
    """How many containers live on the offered nodes."""
    view = scorer.snapshot
    rows = view.indices(names)
    rows = rows[rows >= 0]
    return int((view.first[rows + 1] - view.first[rows]).sum())
