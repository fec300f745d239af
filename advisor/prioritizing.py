"""Prioritizing: the points of offered nodes within milliseconds, from the table wherever it can answer. An edge.

The order of sources: the score table; exact scoring, where the class is not in the table and the nodes are few; the
class of unknown apps, while the right one is being computed; neutral. Each is counted, with its reason.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Protocol, TypeVar

import structlog
from prometheus_client import Gauge, Histogram

from advisor.advised import Decision
from advisor.booking import Booked, Bookings
from advisor.errors import NoTable
from advisor.newcomers import Newcomer, NewcomerClass, class_of
from advisor.replies import Ints, Replies, spell, spelled_reply
from advisor.scoring import ModelScorer
from advisor.serving import Serving
from advisor.snapshot import Snapshot
from advisor.table import ScoreTable, with_guests
from advisor.table_file import read_table

log = structlog.get_logger()
T = TypeVar("T")
Exact = dict[str, dict[NewcomerClass, tuple[int, float]]]

DEADLINE_S = 0.02
"""What is not known by then is answered by the next source."""
MOST_CORRECTED, MOST_RECENT, MOST_WAITING = 8, 4, 256
"""Nodes and classes scored again at once for guests, and nodes that wait for it: the oldest stay counted roughly."""
BUCKETS_S = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5)
MOST_EXACT = 2_000
"""Residents on the offered nodes up to which a class that is not in the table is scored at once."""


@dataclass(frozen=True, slots=True)
class Offer:
    """A newcomer and where it may go.

    Args:
        newcomer: who.
        uid: of the pod; without one nothing is booked.
        names: offered nodes, a name may come twice.
    """

    newcomer: Newcomer
    uid: str
    names: Sequence[str]


class Want(Protocol):
    """Told of classes that are asked for."""

    def __call__(self, of: NewcomerClass, /, *, missing: bool) -> None:
        """A class is asked for; whether the table lacks it."""


@dataclass
class Prioritizer:
    """Answers schedulers. One event loop answers; one thread reloads.

    Args:
        serving: snapshot, bundle, clock and counters.
        table: file of the score table; None scores every request anew.
        want: told of every class that is asked for, and whether the table lacks it.
    """

    serving: Serving
    table: Path | None = None
    want: "Want" = field(default=lambda _of, *, missing: None)  # noqa: ARG005 - nobody listens
    replies: Replies | None = field(default=None, init=False)
    bookings: Bookings = field(default_factory=Bookings, init=False)
    _busy: bool = field(default=False, init=False)
    _looked_at: int = field(default=-1, init=False)
    """Version of the snapshot that was last searched for who arrived."""
    _correcting: bool = field(default=False, init=False)
    _crowded: dict[str, None] = field(default_factory=dict, init=False)
    """Nodes whose guests are counted roughly, the newest last."""
    _recent: dict[NewcomerClass, None] = field(default_factory=dict, init=False)
    """Classes that were booked, the newest last."""
    _guests: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1), init=False)
    _seconds: Histogram = field(init=False)
    _thread: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1), init=False)

    def newer(self) -> Replies | None:
        """The table's replies, if its file has changed; for the reloading thread."""
        if self.table is None:
            return None
        try:
            table = read_table(self.table)
        except NoTable as error:
            if self.replies is not None:
                log.warning("kept the table", error=str(error))
            return None
        before = self.replies
        if before is not None and (before.table.version, before.table.classes) == (table.version, table.classes):
            return None
        return Replies(table, spell(table.nodes, before.spelled if before else None))

    def arrived(self) -> set[str]:
        """Who was on the way and is seen in a snapshot not looked at before; for the reloading thread."""
        scorer = self.serving.scorer
        if scorer is None or scorer.snapshot.version == self._looked_at:
            return set()
        self._looked_at = scorer.snapshot.version
        return self.bookings.among(scorer.snapshot.containers)

    def take(self, replies: Replies | None, arrived: Collection[str] = ()) -> None:
        """Answer from newer replies, without those who arrived, from now on; for the event loop."""
        if replies is not None:
            for booked in self.bookings:
                replies.arrive(booked)
                self._crowded[booked.node] = None
            self.replies = replies
        if self.replies is not None and len(self.bookings):
            for booked in self.bookings.settle(arrived, self.serving.now_us()):
                self.replies.leave(booked)

    def __post_init__(self) -> None:
        metrics = self.serving.metrics
        self._seconds = Histogram(
            "cohabit_prioritize_seconds", "Until prioritize was answered.", buckets=BUCKETS_S, registry=metrics
        )
        booked = Gauge(
            "cohabit_booked_newcomers", "Counted where they were told to go, not seen yet.", registry=metrics
        )
        booked.set_function(lambda: len(self.bookings))
        classes = Gauge("cohabit_table_classes", "Classes of newcomers in the score table.", registry=metrics)
        classes.set_function(lambda: len(self.replies.table.classes) if self.replies else 0)
        age = Gauge("cohabit_table_age_seconds", "Age of the snapshot behind the score table.", registry=metrics)
        age.set_function(self._age_s)

    async def answer(self, offer: Offer) -> bytes:
        """HostPriorityList of the offered nodes; neutral whatever goes wrong: a scheduler always gets an answer."""
        began = perf_counter()
        try:
            return await self._answer(offer)
        except Exception:
            log.exception("scoring failed; answered neutrally")
            return self._neutral(offer, "error")
        finally:
            self._seconds.observe(perf_counter() - began)

    async def _answer(self, offer: Offer) -> bytes:
        scorer, replies, reason = self.serving.scorer, self.replies, self.serving.problem()
        if self.table is None or reason or scorer is None:
            return await asyncio.get_running_loop().run_in_executor(self._thread, self._score, offer)
        of = class_of(offer.newcomer, scorer.snapshot.app_index)
        missing = replies is None or not replies.has(of)
        self.want(of, missing=missing)
        if replies is not None and not missing:
            return self._from_table(replies, of, offer)
        if not self._busy and _residents(scorer, offer.names) <= MOST_EXACT:
            return await self._within_deadline(partial(self._score, offer)) or self._nearest(replies, of, offer, "late")
        return self._nearest(replies, of, offer, "new_class")

    def _nearest(self, replies: Replies | None, of: NewcomerClass, offer: Offer, reason: str) -> bytes:
        unknown = NewcomerClass("", of.best_effort)
        if replies is None or not replies.has(unknown):
            return self._neutral(offer, "no_table")
        self.serving.answers.labels("nearest", reason).inc()
        return replies.reply(unknown, offer.names, replies.rows(offer.names))

    def _from_table(self, replies: Replies, of: NewcomerClass, offer: Offer) -> bytes:
        rows = replies.rows(offer.names)
        points = replies.points(of, rows)
        told = self._told(replies, of, offer, rows, points)
        reply = replies.reply(of, offer.names, rows) if told is points else spelled_reply(offer.names, told.tolist())
        if offer.uid and (best := replies.best(of, rows) if told is points else int(rows[told.argmax()])) >= 0:
            self._book(replies, Booked(offer.uid, replies.table.nodes[best], of, self.serving.now_us()))
        reason = next(iter(self.serving.refused), "") or ("explored" if told is not points else "")
        self.serving.answers.labels("table", reason).inc()
        if self.serving.served is not None and self.serving.served.drawn():
            self._thread.submit(self.serving.note, offer.newcomer, offer.names)
        return reply

    def _told(self, replies: Replies, of: NewcomerClass, offer: Offer, rows: Ints, points: Ints) -> Ints:
        """Points, now and then drawn among nodes as good; never while something newer was refused."""
        explorer, scorer = self.serving.explorer, self.serving.scorer
        if explorer is None or scorer is None or self.serving.refused:
            return points
        when = scorer.snapshot.cluster, self.serving.now_us()
        return explorer.told(Decision(offer.newcomer, offer.uid, of, replies, rows, points, *when))

    async def _within_deadline(self, work: Callable[[], T]) -> T | None:
        """What the thread finds, None where that takes too long; it goes on, and nobody else begins meanwhile."""
        self._busy = True
        future = asyncio.get_running_loop().run_in_executor(self._thread, work)
        future.add_done_callback(self._ended)
        done, _ = await asyncio.wait([future], timeout=DEADLINE_S)
        return future.result() if done else None

    def _ended(self, work: "asyncio.Future[T]") -> None:
        self._busy = False
        if not work.cancelled() and (error := work.exception()) is not None:
            log.error("scoring in the background failed", error=repr(error))

    def headers(self) -> list[tuple[bytes, bytes]]:
        """Version and age of the snapshot behind the last answer, of the table where there is one."""
        scorer = self.serving.scorer
        said: ScoreTable | Snapshot | None = scorer.snapshot if scorer is not None else None
        said = self.replies.table if self.replies is not None else said
        if said is None:
            return []
        age_ms = max(0, (self.serving.now_us() - said.as_of_us) // 1000)
        return [(b"cohabit-version", b"%d" % said.version), (b"cohabit-age-ms", b"%d" % age_ms)]

    def _age_s(self) -> float:
        return (self.serving.now_us() - self.replies.table.as_of_us) / 1e6 if self.replies else float("inf")

    def _score(self, offer: Offer) -> bytes:
        unique = list(dict.fromkeys(offer.names))
        answer = self.serving.answer_anyway(offer.newcomer, unique)
        points = dict(zip(unique, answer.points.tolist(), strict=True))
        return spelled_reply(offer.names, [points[name] for name in offer.names])

    def _neutral(self, offer: Offer, reason: str) -> bytes:
        self.serving.answers.labels("neutral", reason).inc()
        return spelled_reply(offer.names, [0] * len(offer.names))

    def _book(self, replies: Replies, booked: Booked) -> None:
        """Count a newcomer where it was told to go, until it is seen there: roughly at once, exactly in a moment."""
        for ended in self.bookings.book(booked):
            replies.leave(ended)
        replies.arrive(booked)
        self._recent.pop(booked.of, None)
        self._recent[booked.of] = None
        self._crowded[booked.node] = None
        if not self._correcting:
            self._correcting = True
            asyncio.get_running_loop().call_soon(self._correct)

    def _correct(self) -> None:
        """Score the nodes that guests were told to go to, for the classes asked for last, in a thread."""
        scorer, nodes = self.serving.scorer, list(self._crowded)[-MOST_CORRECTED:]
        if scorer is None or self.replies is None or not nodes:
            self._correcting = False
            return
        for node in nodes:
            del self._crowded[node]
        while len(self._crowded) > MOST_WAITING:
            del self._crowded[next(iter(self._crowded))]
        while len(self._recent) > MOST_RECENT:
            del self._recent[next(iter(self._recent))]
        classes = [of for of in self._recent if self.replies.has(of)]
        there = self.bookings.on(set(nodes))
        work = partial(with_guests, scorer, there, nodes, classes)
        future = asyncio.get_running_loop().run_in_executor(self._guests, work)
        future.add_done_callback(partial(self._corrected, self.replies, there))

    def _corrected(self, replies: Replies, there: list[Booked], work: "asyncio.Future[Exact]") -> None:
        if not work.cancelled() and (error := work.exception()) is not None:
            log.error("guests are counted roughly", error=repr(error))
        elif not work.cancelled() and replies is self.replies:
            counted = Counter(one.node for one in there)
            now = Counter(one.node for one in self.bookings.on(set(counted)))
            for node, exact in work.result().items():
                if counted[node] == now[node]:  # else it is in line again
                    replies.correct(node, exact)
        self._correct()


def _residents(scorer: ModelScorer, names: Sequence[str]) -> int:
    """How many containers live on the offered nodes."""
    view = scorer.snapshot
    rows = view.indices(names)
    rows = rows[rows >= 0]
    return int((view.first[rows + 1] - view.first[rows]).sum())
