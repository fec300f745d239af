"""Exact counts: what assumed pods cost their nodes by the model, computed by the process of the score table. An edge.

Processes that answer count an assumed pod approximately at once, by the steps of the table. The process of the table
reads their journals, scores crowded nodes anew with the assumed pods as residents, and publishes points and costs.
It does so within a budget of CPU time, so that a busy scheduler keeps its cores.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from advisor.cluster.pending_pod import PodClass
from advisor.cluster.worker_bus import Coming, Counted, Gone, Journal, booked_of
from advisor.placement.assumed_pod_sync import Bookings
from advisor.scoring.score_table import ScoreTable, with_assumed
from advisor.scoring.scorer import ModelScorer

NODES_AT_ONCE, RECENT_CLASSES, MAX_WAITING = 32, 4, 256
"""Nodes and classes scored together, and nodes that wait; the oldest of more keep approximate counts. Much of the cost
is of the batch: 32 nodes take one and a half times what 8 take."""


@dataclass
class CpuBudget:
    """CPU seconds that may be spent: a share of elapsed time, saved up to a limit.

    Args:
        share: of one core.
        most_s: CPU seconds that are saved at most, for a burst.
    """

    share: float
    most_s: float
    _left_s: float = field(init=False)
    _at_s: float | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self._left_s = self.most_s

    def allows(self, now_s: float) -> bool:
        """Whether anything is left at a time of a monotonic clock, in seconds."""
        elapsed_s = 0.0 if self._at_s is None else max(now_s - self._at_s, 0.0)
        self._left_s, self._at_s = min(self._left_s + self.share * elapsed_s, self.most_s), now_s
        return self._left_s > 0

    def spend(self, cpu_s: float) -> None:
        """Take off what was used, CPU seconds; what exceeds the rest is paid back by waiting."""
        self._left_s -= cpu_s


@dataclass
class ExactCounts:
    """Counts the assumed pods of all workers and servers.

    Args:
        journal: where processes that answer publish assumed pods, and read counts.
        now_us: the clock.
    """

    journal: Journal
    now_us: Callable[[], int]
    bookings: Bookings = field(default_factory=Bookings, init=False)
    _waiting: dict[str, None] = field(default_factory=dict, init=False)
    """Nodes to count, the newest last."""
    _recent: dict[PodClass, None] = field(default_factory=dict, init=False)
    """Classes that were booked, the newest last."""
    _table: ScoreTable | None = field(default=None, init=False)
    """That counts were published for."""

    def listen(self) -> bool:
        """Read what was assumed since the last call; whether a node waits to be counted."""
        for news in self.journal.heard():
            if isinstance(news, Coming):
                booked = booked_of(news)
                for one in (*self.bookings.book(booked), booked):
                    self._line_up(one.node)
                self._recent.pop(booked.of, None)
                self._recent[booked.of] = None
            elif isinstance(news, Gone):
                for one in self.bookings.settle({news.uid}, self.now_us()):
                    self._line_up(one.node)
        while len(self._recent) > RECENT_CLASSES:
            del self._recent[next(iter(self._recent))]
        return bool(self._waiting)

    def follow(self, table: ScoreTable, scorer: ModelScorer) -> None:
        """Take up a table: end bookings of observed pods, and count all others again where it is a newer one."""
        if self._table is table:
            return
        self._table = table
        arrived = scorer.snapshot.nodes_of(self.bookings.among(scorer.snapshot.containers))
        self.bookings.settle(arrived, self.now_us())
        for booked in self.bookings:
            self._line_up(booked.node)

    def count(self, table: ScoreTable, scorer: ModelScorer) -> int:
        """Count some nodes exactly and publish that, nodes with two or more assumed pods first; how many.

        Args:
            table: that is corrected.
            scorer: that the table is of.
        """
        nodes = self._next()
        classes = [of for of in self._recent if of in table.classes]
        if not nodes or not classes:
            return 0
        there = self.bookings.on(nodes)
        counted = {node: self.bookings.checksum(node) for node in nodes}
        for node, exact in with_assumed(scorer, there, nodes, classes).items():
            spelled = tuple((of, points, cost) for of, (points, cost) in exact.items())
            self.journal.publish(Counted(table.version, table.bundle, node, counted[node], spelled))
        return len(nodes)

    def _line_up(self, node: str) -> None:
        self._waiting.pop(node, None)
        self._waiting[node] = None

    def _next(self) -> list[str]:
        """The nodes to count now, taken off the list."""
        while len(self._waiting) > MAX_WAITING:
            del self._waiting[next(iter(self._waiting))]
        nodes = sorted(self._waiting, key=lambda node: self.bookings.count(node) > 1)[-NODES_AT_ONCE:]
        for node in nodes:
            del self._waiting[node]
        return [node for node in nodes if self.bookings.count(node)]
