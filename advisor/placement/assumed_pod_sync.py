"""Assumed pods, counted in scores before they are observed: approximately at once, exactly soon after. An edge.

This process publishes its assumed pods to the other workers and to other servers, which count them too. The process
of the score table computes exact costs of their nodes and publishes those, see advisor.placement.exact_counts.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from prometheus_client import CollectorRegistry, Gauge

from advisor.cluster.assumed_pod_load import Booked
from advisor.cluster.pending_pod import PodClass
from advisor.cluster.pod_groups import Groups
from advisor.cluster.worker_bus import Coming, Counted, Gone, Journal, booked_of, checksum
from advisor.placement.encoded_scores import Replies
from advisor.placement.reservations import Reservations
from advisor.scoring.score_table import ScoreTable
from ingest.schema.workload_identity import ADVISED

KEPT_US = 120_000_000
"""Two metric intervals."""
MAX_BOOKED = 20_000
"""Bookings at once; older ones end sooner when there are more."""
MAX_ADVISED = 2_000
"""Bookings by ids of advice at once; they end only each other, since pods may never come that were advised."""
MAX_COUNTS = 1024
"""Nodes whose newest exact costs are kept for the next table; of more the oldest are dropped."""
LONGEST_UID, LONGEST_GROUP = 253, 512


def no_peers(_booked: Booked, /) -> None:
    """Publishes to no other server."""


@dataclass
class Bookings:
    """All assumed pods by uid, oldest first.

    Args:
        most_placed: of those that a scheduler asked for.
        most_advised: of those that were advised at admission.
    """

    most_placed: int = MAX_BOOKED
    most_advised: int = MAX_ADVISED
    _by_uid: dict[str, Booked] = field(default_factory=dict)
    _advised: dict[str, None] = field(default_factory=dict)
    _placed: dict[str, None] = field(default_factory=dict)
    """Uids by kind, oldest first."""
    _of_class: Counter[PodClass] = field(default_factory=Counter)
    _by_node: defaultdict[str, dict[str, Booked]] = field(default_factory=lambda: defaultdict(dict))

    def book(self, booked: Booked) -> list[Booked]:
        """Assume a pod; returns what ends with it: its former booking, and the oldest of its kind beyond the limit."""
        ended = [self._end(booked.uid)] if booked.uid in self._by_uid else []
        self._by_uid[booked.uid] = self._by_node[booked.node][booked.uid] = booked
        self._of_class[booked.of] += 1
        is_advised = booked.uid.startswith(ADVISED)
        alike, most = (self._advised, self.most_advised) if is_advised else (self._placed, self.most_placed)
        alike[booked.uid] = None
        if len(alike) > most:
            ended.append(self._end(next(iter(alike))))
        return ended

    def settle(self, arrived: Collection[str], now_us: int) -> list[Booked]:
        """End bookings of containers that arrived or are overdue; these."""
        over = [b.uid for b in self._by_uid.values() if b.uid in arrived or now_us - b.at_us > KEPT_US]
        return [self._end(uid) for uid in over]

    def leave(self, uid: str) -> list[Booked]:
        """End the booking of a pod that will not arrive; it, or nothing."""
        return [self._end(uid)] if uid in self._by_uid else []

    def _end(self, uid: str) -> Booked:
        ended = self._by_uid.pop(uid)
        del (self._advised if uid in self._advised else self._placed)[uid]
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

    def holds(self, uid: str, of: PodClass) -> bool:
        """Whether a pod of the class is assumed by this uid."""
        known = self._by_uid.get(uid)
        return known is not None and known.of == of

    def on(self, nodes: Collection[str]) -> list[Booked]:
        """Bookings on some nodes."""
        return [booked for node in nodes for booked in self._by_node.get(node, {}).values()]

    def nodes(self) -> list[str]:
        """Nodes with assumed pods."""
        return list(self._by_node)

    def alike(self, of: PodClass, but: str) -> int:
        """Number of assumed pods of a class, one uid excluded."""
        known = self._by_uid.get(but)
        return self._of_class[of] - (known is not None and known.of == of)

    def checksum(self, node: str) -> int:
        """Which pods are assumed on a node."""
        return checksum(self._by_node.get(node, ()))

    def count(self, node: str) -> int:
        """Number of assumed pods of a node."""
        return len(self._by_node.get(node, ()))

    def __iter__(self) -> Iterator[Booked]:
        return iter(self._by_uid.values())

    def __len__(self) -> int:
        return len(self._by_uid)


@dataclass
class AssumedPods:
    """Assumed pods. Everything runs on one event loop except `among`.

    Args:
        now_us: the clock.
        journal: where the workers of this server exchange assumed pods; None with one worker.
        others: publishes to the other servers an assumed pod that this one placed.
        reservations: reservations; a pod holds its own while it is assumed and once it is a resident.
    """

    now_us: Callable[[], int]
    journal: Journal | None = None
    others: Callable[[Booked], None] = no_peers
    reservations: Reservations = field(default_factory=Reservations)
    replies: Replies | None = field(default=None, init=False)
    bookings: Bookings = field(default_factory=Bookings, init=False)
    groups: Groups = field(default_factory=Groups, init=False)
    behind: bool = field(default=False, init=False)
    """Whether counts were received for a newer table than this one."""
    _counts: dict[str, Counted] = field(default_factory=dict, init=False)
    """By node the newest exact costs, also those for a table that is not loaded yet; the newest last."""

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

    def leave(self, uid: str) -> None:
        """End the assumption of a pod that will not arrive, and publish that to workers."""
        self._leave(uid)
        if self.journal is not None:
            self.journal.publish(Gone(uid, ""))

    def listen(self) -> None:
        """Read what other workers published: assumed pods first, since a node's cost counts all of them.

        Each worker writes its own file; the order of records in different files is unknown.
        """
        if self.journal is None:
            return
        heard = list(self.journal.heard())
        for news in heard:
            if isinstance(news, Coming):
                self._count(booked_of(news))
            elif isinstance(news, Gone) and news.node:
                self._settle({news.uid: news.node})
            elif isinstance(news, Gone):
                self._leave(news.uid)
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
        for booked in self._settle(arrived) if len(self.bookings) else ():
            if booked.uid in arrived and booked.uid.startswith(ADVISED) and self.journal is not None:
                self.journal.publish(Gone(booked.uid, arrived[booked.uid]))
        if replies is not None:
            replies.arrive_all(self.bookings)
            self.replies = replies
            self._take_kept(replies.table)
        self.behind = False

    def _settle(self, arrived: Mapping[str, str]) -> list[Booked]:
        """End bookings of those who arrived, nodes by uid, and overdue ones; these."""
        ended = self.bookings.settle(arrived, self.now_us())
        for booked in ended:
            self.reservations.ended(booked, arrived.get(booked.uid))
            if self.replies is not None:
                self.replies.leave(booked)
        return ended

    def _leave(self, uid: str) -> None:
        self.groups.left(uid)
        for booked in self.bookings.leave(uid):
            self.reservations.ended(booked, None)
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
        if self.replies is not None:
            for one in ended:
                self.replies.leave(one)
            self.replies.arrive(booked)

    def _take_kept(self, table: ScoreTable) -> None:
        """Apply kept counts to a table that was just loaded; those of other tables before it are dropped."""
        mine = table.version, table.bundle
        kept = [one for one in self._counts.values() if (one.version, one.bundle) == mine or one.version > mine[0]]
        self._counts = {}
        for news in kept:
            self._take_counted(news)

    def _take_counted(self, news: Counted) -> None:
        """Take exact costs, unless assumed pods came or went on the node meanwhile: it is counted again then."""
        table = self.replies.table if self.replies is not None else None
        if table is not None and news.version < table.version:
            return
        self._counts.pop(news.node, None)
        self._counts[news.node] = news
        if len(self._counts) > MAX_COUNTS:
            del self._counts[next(iter(self._counts))]
        if self.replies is None or table is None or (news.version, news.bundle) != (table.version, table.bundle):
            self.behind = True
        elif self.bookings.checksum(news.node) == news.assumed:
            self.replies.correct(news.node, {of: (points, cost) for of, points, cost in news.exact})
