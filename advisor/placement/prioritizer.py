"""Prioritizing: the points of offered nodes within milliseconds, from the table wherever it can answer. An edge.

The order of sources: the score table; exact scoring, where the class is not in the table and the nodes are few; the
class of unknown apps, while the right one is being computed; neutral. Each is counted, with its reason. The path of a
request: tests/advisor/test_hot_paths.py.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import perf_counter
from typing import Protocol

import numpy as np
import structlog
from prometheus_client import Counter, Histogram

from advisor.cluster.assumed_pod_load import Booked
from advisor.cluster.gang_slots import GangSlots
from advisor.cluster.pending_pod import PendingPod, PodClass, class_of
from advisor.cluster.pod_groups import packed, spread
from advisor.cluster.snapshot import Snapshot
from advisor.cluster.worker_bus import Gone, Journal
from advisor.errors import Contained, NoTable
from advisor.placement.assumed_pod_sync import AssumedPods, no_peers
from advisor.placement.decision_log import Decision
from advisor.placement.encoded_scores import NO_NODE, Ints, Replies, singled_out, spell, spelled_reply
from advisor.placement.exact_source import ExactSource
from advisor.placement.model_state import MAX_AHEAD_S, Serving
from advisor.placement.offer import Offer, Reply, Said
from advisor.placement.reservation_match import Pod, ReservedNode
from advisor.placement.reservations import Reservations
from advisor.scoring.score_scale import HIGHEST
from advisor.scoring.score_table import ScoreTable
from advisor.scoring.score_table_file import read_table

log = structlog.get_logger()

NO_ARRIVALS: Mapping[str, str] = {}
SOURCE, REASON = b"cohabit-source", b"cohabit-reason"
EXPLORED, HOLDOUT = "explored", "holdout"
"""What chance did to an answer."""
BUCKETS_S = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5)


class Want(Protocol):
    """Receives the classes that are requested."""

    def __call__(self, of: PodClass, /, *, missing: bool) -> None:
        """A class is asked for; whether the table lacks it."""


@dataclass
class TableSource:
    """Answers from the score table, and assumes the pod where it will probably go.

    Args:
        serving: snapshot, clock, and what chance and the log of features need.
        assumed: the table's replies, with assumed pods.
        exact: whose thread keeps features.
        want: called with every class that is answered for.
        slots: reserved for members of gangs.
    """

    serving: Serving
    assumed: AssumedPods
    exact: ExactSource
    want: Want
    slots: GangSlots
    _grouped: Counter = field(init=False)
    _filtered: Counter = field(init=False)

    def __post_init__(self) -> None:
        self._grouped = Counter(
            "cohabit_pod_group_score_requests",
            "Score requests whose pod belongs to a group with known nodes.",
            registry=self.serving.metrics,
        )
        self._filtered = Counter(
            "cohabit_filter_requests",
            "Filter requests of seen apps, by outcome for the nodes.",
            ["outcome"],
            registry=self.serving.metrics,
        )

    def class_of(self, pending_pod: PendingPod) -> PodClass:
        """As the table has it, else by the apps and teams of the snapshot."""
        of, replies = PodClass(pending_pod.app, pending_pod.best_effort), self.assumed.replies
        if pending_pod.app and replies is not None and of in replies.row_of:
            return of
        scorer = self.serving.scorer
        apps, teams = (scorer.snapshot.app_index, scorer.snapshot.team_index) if scorer is not None else ((), ())
        return class_of(pending_pod, apps, teams)

    def believed(self) -> Replies | None:
        """What the table says; None without one, without a model, or where it is older than a snapshot may be."""
        replies = self.assumed.replies
        if replies is None or self.serving.scorer is None:
            return None
        age_s = (self.serving.now_us() - replies.table.as_of_us) / 1e6
        return replies if -MAX_AHEAD_S <= age_s <= self.serving.max_age_s else None

    def say(self, offer: Offer) -> Said | None:
        """The answer of the pod's class; None where the table has none. Its features are kept now and then."""
        replies, of = self.believed(), self.class_of(offer.pending_pod)
        if replies is None or of not in replies.row_of:
            return None
        self.want(of, missing=False)
        reply, by_chance = self._placed(replies, of, offer)
        if self.serving.served is not None and self.serving.served.drawn():
            self.exact.thread.submit(self.serving.note, offer.pending_pod, offer.names)
        if by_chance == HOLDOUT:
            return Said(reply, HOLDOUT)
        reason = next(iter(self.serving.refused), "") or by_chance
        return Said(reply, "heuristic" if self.serving.by_load else "table", reason)

    def say_unknown(self, offer: Offer, reason: str) -> Said | None:
        """The answer of the class of unknown apps; None before the first table."""
        replies, unknown = self.believed(), PodClass("", offer.pending_pod.best_effort)
        if replies is None or unknown not in replies.row_of:
            return None
        return Said(self._placed(replies, unknown, offer)[0], "nearest", reason)

    def refused(self, offer: Offer) -> frozenset[str]:
        """Offered nodes where a latency-sensitive pending pod of a seen app has score 0 by measurements.

        Empty while answers are neutral, before the table holds the app, and where no other node would be left; counted.
        """
        replies = self.believed()
        if offer.pending_pod.best_effort or replies is None or self.serving.by_load:
            return frozenset()
        of = self.class_of(offer.pending_pod)
        self.want(of, missing=of not in replies.row_of)
        if not of.app or of not in replies.row_of:
            return frozenset()
        found = replies.vetoed(of, offer.names)
        passed = len(found) < len(set(offer.names))
        self._filtered.labels("refused" if found and passed else "all_would_fail" if found else "passed").inc()
        return found if passed else frozenset()

    def _placed(self, replies: Replies, of: PodClass, offer: Offer) -> tuple[bytes, str]:
        """The reply and its exploration outcome; the pod is then assumed on its most probable node.

        The node of a pod in the holdout is unknown: the pod counts nowhere until it is observed.
        """
        booking = self._booking(offer, of)
        alike = self.assumed.alike(of, booking)
        rows = replies.rows(offer.names)
        points = replies.points(of, rows)
        if offer.group:
            points = self._among_siblings(points, offer, booking)
        if self.slots.by_group:
            points = self._by_slots(points, offer, booking)
        best = replies.best(of, rows, points) if alike or booking else NO_NODE
        if alike:
            points = singled_out(points, rows == best)
        chosen: Ints | None = points
        if self.serving.explorer is not None and offer.group not in self.slots.by_group:
            chosen = self._chosen(replies, of, offer, rows, points)
        if chosen is None:
            return replies.reply(offer.names, rows, np.zeros(len(rows), np.int64)), HOLDOUT
        reply = replies.reply(offer.names, rows, chosen)
        if chosen is not points:
            best = replies.best(of, rows, chosen)
        if booking and best != NO_NODE:
            node, now_us = replies.table.nodes[best], self.serving.now_us()
            self.assumed.book(Booked(booking, node, of, now_us, group=offer.group))
        return reply, EXPLORED if chosen is not points else ""

    def _chosen(self, replies: Replies, of: PodClass, offer: Offer, rows: Ints, points: Ints) -> Ints | None:
        """Points, some drawn among equally good nodes or held out; never while models are in doubt."""
        explorer, scorer = self.serving.explorer, self.serving.scorer
        if explorer is None or scorer is None or self.serving.refused or self.serving.by_load or not of.app:
            return points
        when = scorer.snapshot.cluster, self.serving.now_us()
        return explorer.choose(Decision(offer.pending_pod, offer.uid, of, replies, rows, points, *when))

    def _booking(self, offer: Offer, of: PodClass) -> str:
        """Id by which the pod is assumed, so that it is not assumed twice; empty where nothing is booked.

        The id of its advice, while a pod of its class is assumed by that: anyone may annotate a pod.
        """
        if not offer.advice or not offer.uid:
            return offer.uid
        self.assumed.listen()
        return offer.advice if self.assumed.bookings.holds(offer.advice, of) else offer.uid

    def _among_siblings(self, points: Ints, offer: Offer, booking: str) -> Ints:
        siblings = self.assumed.groups.nodes(offer.group, booking, self.serving.now_us())
        scorer = self.serving.scorer
        if not siblings or scorer is None:
            return points
        self._grouped.inc()
        if not offer.pending_pod.best_effort:
            return spread(points, np.array([siblings[name] for name in offer.names], np.int64))
        rack = scorer.snapshot.rack_of
        theirs = {of for name in siblings if (of := rack.get(name)) is not None}
        return packed(points, np.array([rack.get(name) in theirs for name in offer.names], np.bool_))

    def _by_slots(self, points: Ints, offer: Offer, booking: str) -> Ints:
        """Points by what is reserved for gangs; siblings hold the slots of their nodes."""
        now_us, pod = self.serving.now_us(), offer.pending_pod
        siblings = self.assumed.groups.nodes(offer.group, booking, now_us)
        of = PodClass(pod.app, pod.best_effort)
        return self.slots.points(points, offer.names, offer.group, of, assumed=siblings, now_us=now_us)


@dataclass
class Prioritizer:
    """Answers schedulers. One event loop answers; one thread reloads.

    Args:
        serving: snapshot, bundle, clock and counters.
        table: file of the score table; None scores every request anew.
        want: called with every requested class, and whether the table lacks it.
        journal: where the processes of this server exchange assumed pods; None counts them approximately.
        others: publishes assumed pods to other servers.
        advised: node of each pod that was advised at its creation and is observed now, by the id of its advice.
    """

    serving: Serving
    table: Path | None = None
    want: "Want" = field(default=lambda _of, *, missing: None)  # noqa: ARG005 - no listener
    journal: Journal | None = None
    others: Callable[[Booked], None] = no_peers
    advised: Callable[[], Mapping[str, str]] = field(default=lambda: NO_ARRIVALS)
    assumed: AssumedPods = field(init=False)
    reservations: Reservations = field(init=False)
    slots: GangSlots = field(default_factory=GangSlots, init=False)
    from_table: TableSource = field(init=False)
    exact: ExactSource = field(init=False)
    _looked_at: int = field(default=-1, init=False)
    """Version of the snapshot that was last searched for who arrived."""
    _seconds: Histogram = field(init=False)

    def __post_init__(self) -> None:
        serving, metrics = self.serving, self.serving.metrics
        self.reservations = Reservations(serving.now_us, metrics)
        self.assumed = AssumedPods(serving.now_us, self.journal, self.others, self.reservations)
        self.exact = ExactSource(serving)
        self.from_table = TableSource(serving, self.assumed, self.exact, self.want, self.slots)
        self._seconds = Histogram(
            "cohabit_prioritize_duration_seconds",
            "Duration of prioritize requests.",
            buckets=BUCKETS_S,
            registry=metrics,
        )
        self.assumed.measure(metrics)

    async def answer(self, offer: Offer) -> Reply:
        """HostPriorityList of the offered nodes; neutral whatever goes wrong: a scheduler always gets an answer."""
        began, headers = perf_counter(), self.headers()
        said = None
        with Contained(log, "scoring failed; replied with no preference"):
            said = await self._said(offer)
        if said is None:
            said = neutral(offer, "error")
        self.serving.answers.labels(said.source, said.reason).inc()
        self._seconds.observe(perf_counter() - began)
        headers.append((SOURCE, said.source.encode()))
        if said.reason:
            headers.append((REASON, said.reason.encode()))
        return Reply(said.reply, headers)

    async def _said(self, offer: Offer) -> Said:
        """What the first source says that has an answer."""
        if (said := self._from_reservation(offer) or self.from_table.say(offer)) is not None:
            return said
        scorer = self.serving.scorer
        if self.table is None or scorer is None or self.serving.problem():
            return await self.exact.whole(offer)
        of = self.from_table.class_of(offer.pending_pod)
        self.want(of, missing=True)
        exactly = await self.exact.say(offer, of, scorer)
        if isinstance(exactly, Said):
            return exactly
        return self.from_table.say_unknown(offer, exactly) or neutral(offer, "no_table")

    def _from_reservation(self, offer: Offer) -> Said | None:
        if not self.reservations.by_workload or (reserved := self.reserved(offer)) is None or not reserved.reservation:
            return None
        node = reserved.reservation.node
        return Said(spelled_reply(offer.names, [HIGHEST * (name == node) for name in offer.names]), "reservation")

    def reserved(self, offer: Offer) -> ReservedNode | None:
        """Reserved node of a pending pod, which is assumed there from now on; None without an open reservation."""
        pod = Pod(offer.namespace, offer.pending_pod.app, offer.template_hash, offer.uid)
        if not offer.uid or not self.reservations.concern(pod):
            return None
        self.assumed.listen()
        reserved = self.reservations.reserved_node(pod, offer.names)
        if reserved is not None and (reservation := reserved.reservation) is not None:
            of, now_us = self.from_table.class_of(offer.pending_pod), self.serving.now_us()
            self.assumed.book(
                Booked(offer.uid, reservation.node, of, now_us, group=offer.group, reservation=reservation.reservation)
            )
        return reserved

    def problem(self) -> str:
        """Why the next answer may be neutral, also before the first table; empty when it will not be."""
        waiting = self.table is not None and self.replies is None
        return self.serving.problem() or ("no_table" if waiting else "")

    def is_behind(self) -> bool:
        """Whether there is a table that answers do not come from yet: the first one, or one that counts are for."""
        return self.table is not None and (self.assumed.behind or (self.replies is None and self.table.exists()))

    def newer(self) -> Replies | None:
        """The table's replies, if its file has changed; for the reloading thread."""
        if self.table is None:
            return None
        before = self.replies
        try:
            table = read_table(self.table)
        except NoTable as error:
            if before is not None:
                log.warning("reload failed; the loaded table stays", error=str(error))
            return None
        if before is not None and _same(before.table, table):
            return None
        return Replies(table, spell(table.nodes, before.spelled if before else None))

    def arrived(self) -> dict[str, str]:
        """Assumed pods that a new snapshot contains, and their nodes; for the reloading thread."""
        scorer, advised = self.serving.scorer, self.advised()
        found = {advice: advised[advice] for advice in self.assumed.among(advised)}
        if scorer is None or scorer.snapshot.version == self._looked_at:
            return found
        self._looked_at = scorer.snapshot.version
        return found | scorer.snapshot.nodes_of(self.assumed.among(scorer.snapshot.containers))

    def take(self, replies: Replies | None, arrived: Mapping[str, str] = NO_ARRIVALS) -> None:
        """Answer from newer replies, without those who arrived, from now on; for the event loop."""
        if replies is not None:
            self.exact.forget(replies)
        self.assumed.take(replies, arrived)

    def hear(self, news: Iterable[Booked | Gone]) -> None:
        """Take assumed pods of another server or of a scheduler, and those that will not arrive; for the event loop."""
        replies = self.replies
        self.assumed.listen()
        for booked in news:
            if isinstance(booked, Gone):
                self.assumed.leave(booked.uid)
                continue
            of = self.from_table.class_of(booked.of.pending_pod())
            self.want(of, missing=replies is None or of not in replies.row_of)
            self.assumed.adopt(replace(booked, of=of))

    @property
    def replies(self) -> Replies | None:
        """Scores of the table, with assumed pods; None before the first table."""
        return self.assumed.replies

    def headers(self) -> list[tuple[bytes, bytes]]:
        """Version and age of the snapshot behind answers, of the table where there is one."""
        scorer, replies = self.serving.scorer, self.assumed.replies
        said: ScoreTable | Snapshot | None = scorer.snapshot if scorer is not None else None
        said = replies.table if replies is not None else said
        if said is None:
            return []
        age_ms = max(0, (self.serving.now_us() - said.as_of_us) // 1000)
        return [(b"cohabit-version", b"%d" % said.version), (b"cohabit-age-ms", b"%d" % age_ms)]


def neutral(offer: Offer, reason: str) -> Said:
    """No preference."""
    return Said(spelled_reply(offer.names, [0] * len(offer.names)), "neutral", reason)


def _same(before: ScoreTable, now: ScoreTable) -> bool:
    """Whether two tables say the same."""
    return (before.version, before.bundle, before.classes) == (now.version, now.bundle, now.classes)
