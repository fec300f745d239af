"""Decision log: scores given to schedulers, explored, held out or neither, kept for training. An edge.

A line is put together on the event loop from arrays that are there already; it is spelled and written by a thread of
its own, which is waited for at the end. What cannot be written is lost and counted: no answer waits for it, or fails.
"""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import BoundedSemaphore
from typing import Annotated

import msgspec
import numpy as np
import structlog
from numpy.typing import NDArray
from prometheus_client import CollectorRegistry, Counter

from advisor.cluster.pending_pod import PendingPod, PodClass
from advisor.errors import Contained
from advisor.placement.encoded_scores import Replies
from advisor.placement.exploration import ARM, KEPT, drawn, lot, propensities, put_first
from advisor.placement.rotating_log import SUFFIX, KeptLines

log = structlog.get_logger(__name__)

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
FILE_BYTES, FOLDER_BYTES = 16 << 20, 128 << 20
"""500 candidates take some 12 kB: 128 MB are 10,000 decisions."""
MAX_WAITING = 256
"""Lines that wait to be written."""
DIGITS = 5
"""Of costs."""
LATEST_US = 4_102_444_800_000_000
"""The year 2100: a later timestamp is in another unit."""


class Advised(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One log line: the client, the available scores and the scores given.

    Args:
        at_us: when, microseconds since 1970.
        cluster: of the snapshot.
        uid: of the pod, by which it is found among the containers that ran.
        app: as the pod has it.
        best_effort: its class.
        version: of the snapshot.
        as_of_us: newest message behind it.
        bundle: bundle of the model that scored.
        share: of the decisions that were drawn where that was possible.
        randomised: whether this one was.
        drawn: the node that got 10; None where nothing was drawn.
        best: the node of the least cost, of those with points.
        candidates: (k,) offered nodes that are known.
        points: (k,) of the model; where a node was drawn, it got 10 and the others at most 5.
        costs: (k,) that they are of.
        propensity: (k,) with which a draw takes each; all 0 where nothing can be drawn.
        held_out: whether the pod is in the holdout and got 0 for every node instead.
        holdout_share: of pods of which that is so; 0 where the pod could not have been one of them.
        sampling_rate: with which chance the line of such a pod is written down.
    """

    at_us: Annotated[int, msgspec.Meta(ge=0, lt=LATEST_US)]
    cluster: str
    uid: str
    app: str
    best_effort: bool
    version: int
    as_of_us: int
    bundle: str
    share: float
    randomised: bool
    drawn: str | None
    best: str
    candidates: list[str]
    points: list[int]
    costs: list[float]
    propensity: list[float]
    held_out: bool = False
    holdout_share: float = 0.0
    sampling_rate: float = 1.0


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Advised).decode


def read_advised(folder: Path) -> list[Advised]:
    """All lines of a folder, by time; of a file that another process is writing, those that are whole."""
    files = [path.read_bytes() for path in sorted(folder.glob(f"*{SUFFIX}"))]
    whole = [line for text in files for line in text[: text.rfind(b"\n") + 1].splitlines()]
    return sorted(map(_decode, whole), key=lambda line: line.at_us)


@dataclass(frozen=True, slots=True)
class Decision:
    """An answer from the table, not yet sent.

    Args:
        pending_pod: who is to be placed.
        uid: of the pod; empty where no pod is placed.
        of: its class in the table.
        replies: what the table says.
        rows: (n,) of the offered nodes, -1 where one is not known.
        points: (n,) of the offered nodes.
        cluster: of the snapshot.
        at_us: when, microseconds since 1970.
    """

    pending_pod: PendingPod
    uid: str
    of: PodClass
    replies: Replies
    rows: Ints
    points: Ints
    cluster: str
    at_us: int


@dataclass(frozen=True, slots=True)
class Weighed:
    """The known nodes of a decision, each once.

    Args:
        rows: (k,) in the table.
        points: (k,) of the decision.
        costs: (k,) that they are of.
        propensity: (k,) with which a draw takes each.
        at: the position that was drawn, -1 where none was.
        share: of decisions that are drawn.
        held_out: whether the pod is in the holdout and gets no advice.
        holdout_share: of pods of which that is so.
        sampling_rate: of such decisions that are written down.
    """

    rows: Ints
    points: Ints
    costs: Floats
    propensity: Floats
    at: int
    share: float
    held_out: bool = False
    holdout_share: float = 0.0
    sampling_rate: float = 1.0


def spelled(of: Decision, weighed: Weighed) -> bytes:
    """A decision as a line."""
    table, rows = of.replies.table, weighed.rows
    return _encode(
        Advised(
            at_us=of.at_us,
            cluster=of.cluster,
            uid=of.uid,
            app=of.pending_pod.app,
            best_effort=of.pending_pod.best_effort,
            version=table.version,
            as_of_us=table.as_of_us,
            bundle=table.bundle,
            share=weighed.share,
            randomised=weighed.at >= 0,
            drawn=table.nodes[rows[weighed.at]] if weighed.at >= 0 else None,
            best=table.nodes[rows[np.where(weighed.points > 0, weighed.costs, np.inf).argmin()]],
            candidates=[table.nodes[row] for row in rows],
            points=weighed.points.tolist(),
            costs=np.round(weighed.costs, DIGITS).tolist(),
            propensity=weighed.propensity.tolist(),
            held_out=weighed.held_out,
            holdout_share=weighed.holdout_share,
            sampling_rate=weighed.sampling_rate,
        )
    )


@dataclass(frozen=True, slots=True)
class Shares:
    """Of how many decisions what is done; see Explorer."""

    explore: float = 0.0
    logged: float = 0.0
    held_out: float = 0.0


@dataclass
class Explorer:
    """Draws or withholds the advice of some decisions, and keeps those and some others; used on one event loop.

    Args:
        lines: where they are kept.
        exploration_rate: of decisions that are drawn, where there is something to draw; 0 to 1.
        decision_log_share: of pods whose decisions are kept even so.
        rng: draws nodes.
        metrics: where lines are counted.
        holdout_share: share of pods in the holdout; the log keeps at least as many of the others, for comparison.
    """

    lines: KeptLines
    exploration_rate: float
    decision_log_share: float
    rng: np.random.Generator
    metrics: CollectorRegistry
    holdout_share: float = 0.0
    _fails: bool = field(default=False, init=False)
    """While the log cannot be written no node is drawn and no pod is held out: training would not see it."""

    def __post_init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="advised")
        self._room = BoundedSemaphore(MAX_WAITING)
        self.kept = Counter(
            "cohabit_decision_log_written",
            "Decisions written to the decision log.",
            ["randomised"],
            registry=self.metrics,
        )
        self.lost = Counter(
            "cohabit_decision_log_dropped",
            "Decisions dropped from the decision log, by reason.",
            ["reason"],
            registry=self.metrics,
        )

    def choose(self, of: Decision) -> Ints | None:
        """(n,) points to return: those of the decision, or drawn ones; None for a pod in the holdout.

        Whatever goes wrong, those of the decision.
        """
        if not of.uid:
            return of.points
        with Contained(log, "exploration of a decision failed"):
            return self._choose(of)
        self.lost.labels("error").inc()
        return of.points

    def _choose(self, of: Decision) -> Ints | None:
        sampling_rate = max(self.decision_log_share, self.holdout_share)
        keeps, explores = lot(of.uid, KEPT) < sampling_rate, self.rng.random() < self.exploration_rate
        holdout_share = 0.0 if self._fails else self.holdout_share
        chosen = lot(of.uid, ARM) < self.holdout_share
        if not (explores or keeps or chosen):
            return of.points
        held_out = chosen and not self._fails
        weighed = self._weighed(of, draws=explores and not held_out and not self._fails)
        by_chance = weighed.at >= 0 or held_out
        if by_chance or keeps or self._fails:
            kept = 1.0 if by_chance else sampling_rate
            self._keep(of, replace(weighed, held_out=held_out, holdout_share=holdout_share, sampling_rate=kept))
        if held_out and len(weighed.rows):
            return None
        return put_first(of.points, of.rows == weighed.rows[weighed.at]) if weighed.at >= 0 else of.points

    def _weighed(self, of: Decision, *, draws: bool) -> Weighed:
        rows, first = np.unique(of.rows, return_index=True)
        rows, points = rows[rows >= 0], of.points[first[rows >= 0]]
        costs = of.replies.costs(of.of, rows)
        propensity = propensities(points, costs)
        at = drawn(propensity, self.rng) if draws else -1
        return Weighed(rows, points, costs, propensity, at, self.exploration_rate)

    def _keep(self, of: Decision, weighed: Weighed) -> None:
        if not len(weighed.rows):
            return
        if self._room.acquire(blocking=False):
            self._thread.submit(self._write, of, weighed)
        else:
            self.lost.labels("queue").inc()

    def _write(self, of: Decision, weighed: Weighed) -> None:
        try:
            with Contained(log, "a decision was not written to the decision log") as writing:
                self._append(of, weighed)
            if writing.error:
                self.lost.labels("error").inc()
        finally:
            self._room.release()

    def _append(self, of: Decision, weighed: Weighed) -> None:
        try:
            self.lines.append(spelled(of, weighed))
        except OSError as error:
            if not self._fails:
                log.warning(
                    "cannot write decisions to the decision log", folder=str(self.lines.folder), error=str(error)
                )
            self._fails = True
            self.lost.labels("disk").inc()
        else:
            self._fails = False
            self.kept.labels(str(weighed.at >= 0).lower()).inc()


def explorer_in(folder: Path, shares: Shares, rng: np.random.Generator, metrics: CollectorRegistry) -> Explorer:
    """One that keeps its lines in a folder."""
    lines = KeptLines(folder, FILE_BYTES, FOLDER_BYTES)
    return Explorer(lines, shares.explore, shares.logged, rng, metrics, shares.held_out)
