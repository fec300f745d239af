"""Assumed pods, counted in scores before they are observed: approximately at once, exactly soon after. An edge.

This process publishes its assumed pods to the other workers and to other servers, which count them too. The worker
that assumed the newest pod on a node computes the node's cost and publishes it.
"""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial

import structlog
from prometheus_client import CollectorRegistry, Gauge

from advisor.cluster.assumed_pod_load import Booked
from advisor.cluster.pending_pod import PodClass
from advisor.cluster.pod_groups import Groups
from advisor.cluster.worker_bus import Coming, Counted, Journal
from advisor.placement.encoded_scores import Replies
from advisor.placement.reservations import Reservations
from advisor.scoring.score_table import with_assumed
from advisor.scoring.scorer import ModelScorer

log = structlog.get_logger()
Exact = dict[str, dict[PodClass, tuple[int, float]]]

KEPT_US = 120_000_000
"""Two metric intervals."""
MAX_BOOKED = 20_000
"""Bookings at once; older ones end sooner when there are more."""
MAX_CORRECTED, MAX_RECENT, MAX_WAITING = 8, 4, 256
"""Nodes and classes rescored at once for assumed pods, and nodes waiting; the oldest keep approximate counts."""
LONGEST_UID, LONGEST_GROUP = 253, 512


def no_peers(_booked: Booked, /) -> None:
    """Publishes to no other server."""


@dataclass
class Bookings:
    """All assumed pods by uid, oldest first."""

    _by_uid: dict[str, Booked] = field(default_factory=dict)
    _of_class: Counter[PodClass] = field(default_factory=Counter)
    _by_node: defaultdict[str, dict[str, Booked]] = field(default_factory=lambda: defaultdict(dict))

    def book(self, booked: Booked) -> list[Booked]:
        """Assume a pod; returns those that end with it: the pod's former one, and the oldest beyond the limit."""
        ended = [self._end(booked.uid)] if booked.uid in self._by_uid else []
        self._by_uid[booked.uid] = self._by_node[booked.node][booked.uid] = booked
        self._of_class[booked.of] += 1
        if len(self._by_uid) > MAX_BOOKED:
            ended.append(self._end(next(iter(self._by_uid))))
        return ended

    def settle(self, arrived: Collection[str], now_us: int) -> list[Booked]:
        """End bookings of containers that arrived or are overdue; these."""
        over = [b.uid for b in self._by_uid.values() if b.uid in arrived or now_us - b.at_us > KEPT_US]
        return [self._end(uid) for uid in over]

    def _end(self, uid: str) -> Booked:
        ended = self._by_uid.pop(uid)
        self._of_class[ended.of] -= 1
        if not self._of_class[ended.of]:
            del self._of_class[ended.of]
        there = self._by_node[ended.node]
        del there[uid]
        if not there:
            del self._by_node[ended.node]
        return ended

    def among(self, containers: Iterable[str]) -> set[str]:
        """Those of the containers that are booked; may run in another thread than the rest."""
        booked = frozenset(self._by_uid)
        return {uid for uid in containers if uid in booked} if booked else set()

    def on(self, nodes: Collection[str]) -> list[Booked]:
        """Bookings on some nodes."""
        return [booked for node in nodes for booked in self._by_node.get(node, {}).values()]

    def alike(self, of: PodClass, but: str) -> int:
        """Number of assumed pods of a class, one uid excluded."""
        known = self._by_uid.get(but)
        return self._of_class[of] - (known is not None and known.of == of)

    def count(self, node: str) -> int:
        """Number of assumed pods of a node."""
        return len(self._by_node.get(node, ()))

    def __iter__(self) -> Iterator[Booked]:
        return iter(self._by_uid.values())

    def __len__(self) -> int:
        return len(self._by_uid)


@dataclass
class AssumedPods:
    """Assumed pods. Everything runs on one event loop except `among` and the scoring.

    Args:
        now_us: the clock.
        scorer: the newest one; None before there is one.
        journal: where the workers of this server exchange assumed pods; None with one worker.
        others: publishes to the other servers an assumed pod that this one placed.
        reservations: reservations; a pod holds its own while it is assumed and once it is a resident.
    """

    now_us: Callable[[], int]
    scorer: Callable[[], ModelScorer | None]
    journal: Journal | None = None
    others: Callable[[Booked], None] = no_peers
    reservations: Reservations = field(default_factory=Reservations)
    replies: Replies | None = field(default=None, init=False)
    bookings: Bookings = field(default_factory=Bookings, init=False)
    groups: Groups = field(default_factory=Groups, init=False)
    _correcting: bool = field(default=False, init=False)
    _crowded: dict[str, None] = field(default_factory=dict, init=False)
    """Nodes with approximate counts of assumed pods that this worker must count exactly, the newest last."""
    _recent: dict[PodClass, None] = field(default_factory=dict, init=False)
    """Classes that were booked, the newest last."""
    _early: dict[str, Counted] = field(default_factory=dict, init=False)
    """By node the counts received for a table that is not loaded yet."""
    _thread: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1), init=False)

    def measure(self, metrics: CollectorRegistry) -> None:
        """Gauges of assumed pods, and of the table they are counted in."""
        booked = Gauge(
            "cohabit_assumed_pods",
            "Assumed pods: scheduled by our score, not yet observed running.",
            registry=metrics,
        )
        booked.set_function(lambda: len(self.bookings))
        classes = Gauge("cohabit_score_table_pod_classes", "Pod classes in the score table.", registry=metrics)
        classes.set_function(lambda: len(self.replies.table.classes) if self.replies else 0)
        age = Gauge(
            "cohabit_score_table_age_seconds",
            "Age of the snapshot behind the score table, in seconds.",
            registry=metrics,
        )
        age.set_function(lambda: (self.now_us() - self.replies.table.as_of_us) / 1e6 if self.replies else float("inf"))

    def book(self, booked: Booked) -> None:
        """Assume a pod on its advised node until it is observed there, and publish it to workers and servers."""
        if len(booked.uid) <= LONGEST_UID and len(booked.group) <= LONGEST_GROUP:
            self.adopt(booked)
            self.others(booked)

    def adopt(self, booked: Booked) -> None:
        """Count an assumed pod of another server like one of this server."""
        self._count(booked)
        if self.journal is not None:
            self.journal.publish(
                Coming(booked.uid, booked.node, booked.of, booked.at_us, booked.group, booked.reservation)
            )

    def listen(self) -> None:
        """Read what other workers published: assumed pods first, since a node's cost counts all of them.

        Each worker writes its own file; the order of records in different files is unknown.
        """
        if self.journal is None:
            return
        heard = list(self.journal.heard())
        for news in heard:
            if isinstance(news, Coming):
                self._count(Booked(news.uid, news.node, news.of, news.at_us, False, news.group, news.reservation))
        for news in heard:
            if isinstance(news, Counted):
                self._take_counted(news)

    def alike(self, of: PodClass, uid: str) -> bool:
        """Whether another pod of the class is assumed, by what all workers have published until now."""
        self.listen()
        return bool(uid) and self.bookings.alike(of, uid) > 0

    def among(self, containers: Iterable[str]) -> set[str]:
        """The assumed pods among the containers; may run in another thread."""
        return self.bookings.among(containers)

    def take(self, replies: Replies | None, arrived: Mapping[str, str]) -> None:
        """Count in newer replies from now on, without those who arrived: nodes by uid."""
        self.listen()
        for uid, node in arrived.items():
            self.groups.landed(uid, node)
        if replies is not None:
            replies.arrive_all(self.bookings)
            for booked in self.bookings:
                self._line_up(booked)
            self.replies = replies
            early, self._early = self._early, {}
            for news in early.values():
                self._take_counted(news)
        if len(self.bookings):
            for booked in self.bookings.settle(arrived, self.now_us()):
                self.reservations.ended(booked, arrived.get(booked.uid))
                if self.replies is not None:
                    self.replies.leave(booked)

    def _count(self, booked: Booked) -> None:
        if booked.group:
            self.groups.join(booked.group, booked.uid, booked.node, booked.at_us)
        ended = self.bookings.book(booked)
        for one in ended:
            self.reservations.ended(one, None)
        if booked.reservation:
            self.reservations.hold(booked)
        self._recent.pop(booked.of, None)
        self._recent[booked.of] = None
        self._line_up(booked)
        if self.replies is not None:
            for one in ended:
                self.replies.leave(one)
            self.replies.arrive(booked)
        if booked.own and not self._correcting:
            self._correcting = True
            asyncio.get_running_loop().call_soon(self._correct)

    def _line_up(self, booked: Booked) -> None:
        """The worker that assumed the newest pod on a node counts the node exactly."""
        self._crowded.pop(booked.node, None)
        if booked.own:
            self._crowded[booked.node] = None

    def _correct(self) -> None:
        """Score the nodes of assumed pods for the most recently requested classes, in a thread."""
        self.listen()
        scorer, nodes = self.scorer(), list(self._crowded)[-MAX_CORRECTED:]
        if scorer is None or self.replies is None or not nodes:
            self._correcting = False
            return
        for node in nodes:
            del self._crowded[node]
        while len(self._crowded) > MAX_WAITING:
            del self._crowded[next(iter(self._crowded))]
        while len(self._recent) > MAX_RECENT:
            del self._recent[next(iter(self._recent))]
        classes = [of for of in self._recent if of in self.replies.row_of]
        there = self.bookings.on(set(nodes))
        work = partial(with_assumed, scorer, there, nodes, classes)
        future = asyncio.get_running_loop().run_in_executor(self._thread, work)
        future.add_done_callback(partial(self._corrected, self.replies, there))

    def _corrected(self, replies: Replies, there: list[Booked], work: "asyncio.Future[Exact]") -> None:
        if not work.cancelled() and (error := work.exception()) is not None:
            log.error("assumed pods are counted approximately", error=repr(error))
        elif not work.cancelled() and replies is self.replies:
            counted, table = Counter(one.node for one in there), replies.table
            for node, exact in work.result().items():
                spelled = tuple((of, points, cost) for of, (points, cost) in exact.items())
                news = Counted(table.version, table.bundle, node, counted[node], spelled)
                if self._take_counted(news) and self.journal is not None:
                    self.journal.publish(news)
        self._correct()

    def _take_counted(self, news: Counted) -> bool:
        """Whether what was computed still holds; where assumed pods came or went meanwhile the node is queued again."""
        table = self.replies.table if self.replies is not None else None
        if self.replies is None or table is None or (news.version, news.bundle) != (table.version, table.bundle):
            if len(self._early) < MAX_WAITING and (table is None or news.version >= table.version):
                self._early[news.node] = news
            return False
        if self.bookings.count(news.node) != news.assumed:
            return False
        self.replies.correct(news.node, {of: (points, cost) for of, points, cost in news.exact})
        return True
