"""Prioritizing: the points of offered nodes within milliseconds, from the table wherever it can answer. An edge.

The order of sources: the score table; exact scoring, where the class is not in the table and the nodes are few; the
class of unknown apps, while the right one is being computed; neutral. Each is counted, with its reason.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Protocol

import numpy as np
import structlog
from numpy.typing import NDArray
from prometheus_client import Counter, Gauge, Histogram

from advisor.cluster.assumed_pod_load import Booked, singled_out
from advisor.cluster.pending_pod import PendingPod, PodClass, class_of
from advisor.cluster.pod_groups import packed, spread
from advisor.cluster.snapshot import Snapshot
from advisor.cluster.worker_bus import Journal
from advisor.errors import Contained, NoTable
from advisor.placement.assumed_pod_sync import AssumedPods, no_peers
from advisor.placement.decision_log import Decision
from advisor.placement.encoded_scores import Ints, Replies, spell, spelled_reply
from advisor.placement.model_state import Answer, Serving
from advisor.placement.reservation_match import Pod, ReservedNode
from advisor.placement.reservations import Reservations
from advisor.scoring.score_scale import HIGHEST
from advisor.scoring.score_table import ScoreTable
from advisor.scoring.score_table_file import read_table
from advisor.scoring.scorer import ModelScorer

log = structlog.get_logger()
Exactly = tuple[Answer, bytes]
"""What exact scoring said, and its reply."""

NO_ARRIVALS: Mapping[str, str] = {}
SOURCE, REASON = b"cohabit-source", b"cohabit-reason"
EXPLORED, HOLDOUT = "explored", "holdout"
"""What chance did to an answer."""
DEADLINE_S = 0.02
"""What is not known by then is answered by the next source."""
KEEP_US, MAX_KEPT = 60_000_000, 256
"""Exact scores stand for so long, and of so many classes, where the table has not taken the class up meanwhile."""
BUCKETS_S = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5)
MAX_EXACT = 2_000
"""Residents on the offered nodes up to which a class that is not in the table is scored at once."""


@dataclass(frozen=True, slots=True)
class Offer:
    """A pending pod and its candidate nodes.

    Args:
        pending_pod: who.
        uid: of the pod; without one nothing is booked.
        names: offered nodes, a name may come twice.
        group: that the pending pod belongs to; empty for none.
        namespace: of the pod.
        template_hash: of what it was made of; empty where it does not say.
    """

    pending_pod: PendingPod
    uid: str
    names: Sequence[str]
    group: str = ""
    namespace: str = "default"
    template_hash: str = ""


class Want(Protocol):
    """Receives the classes that are requested."""

    def __call__(self, of: PodClass, /, *, missing: bool) -> None:
        """A class is asked for; whether the table lacks it."""


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
class Prioritizer:
    """Answers schedulers. One event loop answers; one thread reloads.

    Args:
        serving: snapshot, bundle, clock and counters.
        table: file of the score table; None scores every request anew.
        want: called with every requested class, and whether the table lacks it.
        journal: where the workers of this server exchange assumed pods.
        others: publishes assumed pods to other servers.
    """

    serving: Serving
    table: Path | None = None
    want: "Want" = field(default=lambda _of, *, missing: None)  # noqa: ARG005 - no listener
    journal: Journal | None = None
    others: Callable[[Booked], None] = no_peers
    assumed: AssumedPods = field(init=False)
    reservations: Reservations = field(init=False)
    _busy: bool = field(default=False, init=False)
    _looked_at: int = field(default=-1, init=False)
    """Version of the snapshot that was last searched for who arrived."""
    _exact: dict[PodClass, Exact] = field(default_factory=dict, init=False)
    """Also what came too late for its own request: the next one of the class is answered by it."""
    _counted_as: tuple[str, str] = field(default=("", ""), init=False)
    """Source and reason of the last answer."""
    _seconds: Histogram = field(init=False)
    _grouped: Counter = field(init=False)
    _filtered: Counter = field(init=False)
    _thread: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1), init=False)

    def newer(self) -> Replies | None:
        """The table's replies, if its file has changed; for the reloading thread."""
        if self.table is None:
            return None
        try:
            table = read_table(self.table)
        except NoTable as error:
            if self.replies is not None:
                log.warning("reload failed; the loaded table stays", error=str(error))
            return None
        before = self.replies
        if before is not None and _same(before.table, table):
            return None
        return Replies(table, spell(table.nodes, before.spelled if before else None))

    def arrived(self) -> dict[str, str]:
        """Assumed pods that a new snapshot contains, and their nodes; for the reloading thread."""
        scorer = self.serving.scorer
        if scorer is None or scorer.snapshot.version == self._looked_at:
            return {}
        self._looked_at = scorer.snapshot.version
        return scorer.snapshot.nodes_of(self.assumed.among(scorer.snapshot.containers))

    def take(self, replies: Replies | None, arrived: Mapping[str, str] = NO_ARRIVALS) -> None:
        """Answer from newer replies, without those who arrived, from now on; for the event loop."""
        if replies is not None:
            since = self.serving.now_us() - KEEP_US
            self._exact = {
                of: exact for of, exact in self._exact.items() if not replies.has(of) and exact.at_us >= since
            }
        self.assumed.take(replies, arrived)

    def hear(self, bookings: Iterable[Booked]) -> None:
        """Take assumed pods of another server; for the event loop."""
        replies = self.replies
        self.assumed.listen()
        for booked in bookings:
            of = self._class_of(booked.of.pending_pod())
            self.want(of, missing=replies is None or not replies.has(of))
            self.assumed.adopt(replace(booked, of=of))

    @property
    def replies(self) -> Replies | None:
        """Scores of the table, with assumed pods; None before the first table."""
        return self.assumed.replies

    def __post_init__(self) -> None:
        metrics = self.serving.metrics
        self.reservations = Reservations(self.serving.now_us, metrics)
        self.assumed = AssumedPods(
            self.serving.now_us, lambda: self.serving.scorer, self.journal, self.others, self.reservations
        )
        self._seconds = Histogram(
            "cohabit_prioritize_duration_seconds",
            "Duration of prioritize requests.",
            buckets=BUCKETS_S,
            registry=metrics,
        )
        self._grouped = Counter(
            "cohabit_pod_group_score_requests",
            "Score requests whose pod belongs to a group with known nodes.",
            registry=metrics,
        )
        self._filtered = Counter(
            "cohabit_filter_requests",
            "Filter requests of seen apps, by outcome for the nodes.",
            ["outcome"],
            registry=metrics,
        )
        booked = Gauge(
            "cohabit_assumed_pods",
            "Assumed pods: scheduled by our score, not yet observed running.",
            registry=metrics,
        )
        booked.set_function(lambda: len(self.assumed.bookings))
        classes = Gauge("cohabit_score_table_pod_classes", "Pod classes in the score table.", registry=metrics)
        classes.set_function(lambda: len(self.replies.table.classes) if self.replies else 0)
        age = Gauge(
            "cohabit_score_table_age_seconds",
            "Age of the snapshot behind the score table, in seconds.",
            registry=metrics,
        )
        age.set_function(self._age_s)

    async def answer(self, offer: Offer) -> bytes:
        """HostPriorityList of the offered nodes; neutral whatever goes wrong: a scheduler always gets an answer."""
        began = perf_counter()
        try:
            with Contained(log, "scoring failed; replied with no preference"):
                return await self._answer(offer)
            return self._neutral(offer, "error")
        finally:
            self._seconds.observe(perf_counter() - began)

    def reserved(self, offer: Offer) -> ReservedNode | None:
        """Reserved node of a pending pod, which is assumed there from now on; None without an open reservation."""
        pod = Pod(offer.namespace, offer.pending_pod.app, offer.template_hash, offer.uid)
        if not offer.uid or not self.reservations.concern(pod):
            return None
        self.assumed.listen()
        reserved = self.reservations.reserved_node(pod, offer.names)
        if reserved is not None and (reservation := reserved.reservation) is not None:
            of, now_us = self._class_of(offer.pending_pod), self.serving.now_us()
            self.assumed.book(
                Booked(offer.uid, reservation.node, of, now_us, group=offer.group, reservation=reservation.reservation)
            )
        return reserved

    def refused(self, offer: Offer) -> frozenset[str]:
        """Offered nodes where a latency-sensitive pending pod of a seen app has score 0 by measurements.

        Empty while answers are neutral, before the table holds the app, and where no other node would be left; counted.
        """
        scorer, replies = self.serving.scorer, self._believed()
        if (
            offer.pending_pod.best_effort
            or scorer is None
            or replies is None
            or self.serving.problem()
            or scorer.by_load
        ):
            return frozenset()
        of = self._class_of(offer.pending_pod)
        self.want(of, missing=not replies.has(of))
        if not of.app or not replies.has(of):
            return frozenset()
        found = replies.vetoed(of, offer.names)
        passed = len(found) < len(set(offer.names))
        self._filtered.labels("refused" if found and passed else "all_would_fail" if found else "passed").inc()
        return found if passed else frozenset()

    async def _answer(self, offer: Offer) -> bytes:
        self.assumed.listen()
        if (reserved := self.reserved(offer)) is not None and reserved.reservation is not None:
            self._count("reservation")
            return spelled_reply(offer.names, [HIGHEST * (name == reserved.reservation.node) for name in offer.names])
        scorer, replies, reason = self.serving.scorer, self._believed(), self.serving.problem()
        if self.table is None or reason or scorer is None:
            return self._counted(await asyncio.get_running_loop().run_in_executor(self._thread, self._score, offer))
        of = self._class_of(offer.pending_pod)
        missing = replies is None or not replies.has(of)
        self.want(of, missing=missing)
        if replies is not None and not missing:
            return self._from_table(replies, of, offer)
        if (exact := self._kept(scorer, of, offer)) is not None:
            return exact
        if not self._busy and _residents(scorer, offer.names) <= MAX_EXACT:
            scored = await self._within_deadline(partial(self._score, offer), of)
            return self._nearest(replies, of, offer, "late") if scored is None else self._counted(scored)
        return self._nearest(replies, of, offer, "new_class")

    def _kept(self, scorer: ModelScorer, of: PodClass, offer: Offer) -> bytes | None:
        """What exact scoring said lately of a class that the table lacks; None for another model or unscored nodes."""
        exact = self._exact.get(of)
        if (
            exact is None
            or exact.predictor is not scorer.predictor
            or self.serving.now_us() - exact.at_us > KEEP_US
            or not exact.points.keys() >= set(offer.names)
        ):
            return None
        self._count(exact.source, "kept")
        return spelled_reply(offer.names, [exact.points[name] for name in offer.names])

    def _class_of(self, pending_pod: PendingPod) -> PodClass:
        scorer = self.serving.scorer
        apps, teams = (scorer.snapshot.app_index, scorer.snapshot.team_index) if scorer is not None else ((), ())
        return class_of(pending_pod, apps, teams)

    def _nearest(self, replies: Replies | None, of: PodClass, offer: Offer, reason: str) -> bytes:
        unknown = PodClass("", of.best_effort)
        if replies is None or not replies.has(unknown):
            return self._neutral(offer, "no_table")
        self._count("nearest", reason)
        return self._said(replies, unknown, offer)[0]

    def _from_table(self, replies: Replies, of: PodClass, offer: Offer) -> bytes:
        reply, by_chance = self._said(replies, of, offer)
        reason = next(iter(self.serving.refused), "") or by_chance
        source = "heuristic" if self.serving.by_load else "table"
        self._count(*((HOLDOUT, "") if by_chance == HOLDOUT else (source, reason)))
        if self.serving.served is not None and self.serving.served.drawn():
            self._thread.submit(self.serving.note, offer.pending_pod, offer.names)
        return reply

    def _said(self, replies: Replies, of: PodClass, offer: Offer) -> tuple[bytes, str]:
        """The answer and its exploration outcome; the pod is then assumed on its most probable node.

        The node of a pod in the holdout is unknown: the pod counts nowhere until it is observed.
        """
        rows = replies.rows(offer.names)
        points = replies.points(of, rows)
        if offer.group:
            points = self._near_siblings(points, offer)
        if offer.uid and self.assumed.bookings.alike(of, offer.uid):
            points = singled_out(points, rows == replies.best(of, rows, points))
        chosen = self._chosen_points(replies, of, offer, rows, points)
        if chosen is None:
            return replies.reply(offer.names, rows, np.zeros(len(rows), np.int64)), HOLDOUT
        if offer.uid and (best := replies.best(of, rows, chosen)) >= 0:
            node, now_us = replies.table.nodes[best], self.serving.now_us()
            self.assumed.book(Booked(offer.uid, node, of, now_us, group=offer.group))
        return replies.reply(offer.names, rows, chosen), EXPLORED if chosen is not points else ""

    def _chosen_points(self, replies: Replies, of: PodClass, offer: Offer, rows: Ints, points: Ints) -> Ints | None:
        """Points, some drawn among equally good nodes or held out; never while models are in doubt."""
        explorer, scorer = self.serving.explorer, self.serving.scorer
        if explorer is None or scorer is None or self.serving.refused or scorer.by_load or not of.app:
            return points
        when = scorer.snapshot.cluster, self.serving.now_us()
        return explorer.choose(Decision(offer.pending_pod, offer.uid, of, replies, rows, points, *when))

    def _near_siblings(self, points: NDArray[np.int64], offer: Offer) -> NDArray[np.int64]:
        siblings = self.assumed.groups.nodes(offer.group, offer.uid, self.serving.now_us())
        scorer = self.serving.scorer
        if not siblings or scorer is None:
            return points
        self._grouped.inc()
        if not offer.pending_pod.best_effort:
            return spread(points, np.array([siblings[name] for name in offer.names], np.int64))
        rack = scorer.snapshot.rack_of
        theirs = {of for name in siblings if (of := rack.get(name)) is not None}
        return packed(points, np.array([rack.get(name) in theirs for name in offer.names], np.bool_))

    async def _within_deadline(self, work: Callable[[], Exactly], of: PodClass) -> Exactly | None:
        """Result of the thread, None on timeout; the thread goes on, and no other starts meanwhile. It is kept."""
        self._busy = True
        future = asyncio.get_running_loop().run_in_executor(self._thread, work)
        future.add_done_callback(partial(self._ended, of))
        done, _ = await asyncio.wait([future], timeout=DEADLINE_S)
        return future.result() if done else None

    def _ended(self, of: PodClass, work: "asyncio.Future[Exactly]") -> None:
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

    def headers(self) -> list[tuple[bytes, bytes]]:
        """Source and reason of the last answer, version and age of its snapshot, of the table where there is one."""
        scorer, (source, reason) = self.serving.scorer, self._counted_as
        answered = [(name, value.encode()) for name, value in ((SOURCE, source), (REASON, reason)) if value]
        said: ScoreTable | Snapshot | None = scorer.snapshot if scorer is not None else None
        said = self.replies.table if self.replies is not None else said
        if said is None:
            return answered
        age_ms = max(0, (self.serving.now_us() - said.as_of_us) // 1000)
        return [(b"cohabit-version", b"%d" % said.version), (b"cohabit-age-ms", b"%d" % age_ms), *answered]

    def _believed(self) -> Replies | None:
        """What the table says, unless its process has been stuck until it is as old as no snapshot may be."""
        return self.replies if self._age_s() <= self.serving.max_age_s else None

    def _age_s(self) -> float:
        return (self.serving.now_us() - self.replies.table.as_of_us) / 1e6 if self.replies else float("inf")

    def _counted(self, scored: Exactly) -> bytes:
        answer, reply = scored
        self._count(*answer.counted)
        return reply

    def _count(self, source: str, reason: str = "") -> None:
        self._counted_as = source, reason
        self.serving.answers.labels(source, reason).inc()

    def _score(self, offer: Offer) -> Exactly:
        unique = list(dict.fromkeys(offer.names))
        answer = self.serving.answer_anyway(offer.pending_pod, unique)
        points = dict(zip(unique, answer.points.tolist(), strict=True))
        return answer, spelled_reply(offer.names, [points[name] for name in offer.names])

    def _neutral(self, offer: Offer, reason: str) -> bytes:
        self._count("neutral", reason)
        return spelled_reply(offer.names, [0] * len(offer.names))


def _same(before: ScoreTable, now: ScoreTable) -> bool:
    """Whether two tables say the same."""
    return (before.version, before.bundle, before.classes) == (now.version, now.bundle, now.classes)


def _residents(scorer: ModelScorer, names: Sequence[str]) -> int:
    """How many containers live on the offered nodes."""
    view = scorer.snapshot
    rows = view.indices(names)
    rows = rows[rows >= 0]
    return int((view.first[rows + 1] - view.first[rows]).sum())
