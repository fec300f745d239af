"""Tabling: a process of its own that keeps the score table, so that no request waits for it. An edge.

It follows the snapshots and the bundle, computes what changed for the classes that are asked for, and replaces the
table's file. The workers send it the classes in use through a pipe; an unused class is dropped. It also counts
assumed pods exactly, within a budget of CPU time.
"""

import contextlib
import multiprocessing
import os
import signal
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from pathlib import Path
from threading import Thread
from time import monotonic, sleep, thread_time, time_ns

import structlog
from prometheus_client import CollectorRegistry

from advisor.cluster.pending_pod import PodClass
from advisor.cluster.worker_bus import Journal
from advisor.errors import Contained, NoTable
from advisor.placement.exact_counts import CpuBudget, ExactCounts
from advisor.placement.model_state import Serving
from advisor.scoring.score_table import ScoreTable, begun, followed, widened
from advisor.scoring.score_table_file import read_table, write_table
from advisor.scoring.scorer import ModelScorer
from cohabit.config.logs import set_up_logs
from cohabit.config.malloc_trim import give_back_for_good
from cohabit.server.compiled_model import use_compiled_trees
from cohabit.server.saved_table import NAME, Saving, saved_classes
from models.registry.registry import Registry

log = structlog.get_logger()
CONTEXT = multiprocessing.get_context("spawn")

FIRST = (PodClass("", False), PodClass("", True))
"""Classes of apps that are not known, of teams neither: always there, and the answer for a class that is still being
computed."""
KEPT_S = 900.0
"""An unused class is dropped after so long."""
REPORT_AGAIN_S, MISSED_AGAIN_S = 300.0, 5.0
"""How often a worker reports a class in use again, in the table and not."""
MAX_CLASSES = 512
"""The most recently asked for are kept."""
WAIT_S = 0.2
NICENESS = 5
LISTEN_S = 0.01
"""Between looks for assumed pods."""
COUNT_SHARE, COUNT_BURST_S = 0.1, 2.0
"""Budget of exact counts: a tenth of a core, and two seconds in a burst, enough for thousands of nodes."""
ENDED_WITHIN_S = 2.0


@dataclass
class Tabling:
    """Keeps one table.

    Args:
        serving: loads snapshots and bundles.
        path: the table's file.
    """

    serving: Serving
    path: Path
    table: ScoreTable | None = field(default=None, init=False)
    behind: bool = field(default=False, init=False)
    """Whether classes are asked for that the next step would begin."""
    written: tuple[ScoreTable, ModelScorer] | None = field(default=None, init=False)
    """The table in the file, and the scorer that it is of; read by another thread."""
    _scorer: ModelScorer | None = field(default=None, init=False)
    _asked: dict[PodClass, float] = field(default_factory=dict, init=False)

    def ask(self, of: PodClass, now_s: float) -> None:
        """Keep a class in the table from now on."""
        self._asked.pop(of, None)
        self._asked[of] = now_s
        if len(self._asked) > MAX_CLASSES:
            del self._asked[next(iter(self._asked))]

    def step(self, now_s: float) -> bool:
        """Take up what is newer, and write the table if that changed it; whether it did."""
        self.serving.reload()
        scorer, before = self.serving.scorer, self.table
        if scorer is None:
            return False
        apps, teams = scorer.snapshot.app_index, scorer.snapshot.team_index
        self._asked = {of: at for of, at in self._asked.items() if now_s - at < KEPT_S}
        wanted = (*FIRST, *(of for of in self._asked if of.is_known(apps, teams)))
        self.table = self._over(scorer).only(wanted)
        missing = [of for of in wanted if of not in self.table.classes]
        self.behind = len(missing) > 1 and before is not None
        if missing and before is not None:
            self.table = widened(self.table, scorer, missing[:1])  # one at a time: others see the first one sooner
        elif missing:
            self.table = widened(self.table, scorer, missing)
        self._scorer = scorer
        if before is not None and (before.version, before.classes, before.bundle) == (
            self.table.version,
            self.table.classes,
            self.table.bundle,
        ):
            return False
        write_table(self.path, self.table)
        self.written = self.table, scorer
        return True

    def _over(self, scorer: ModelScorer) -> ScoreTable:
        """The table over the scorer's snapshot, with no class that was not in it before."""
        bundle = self.serving.bundle
        if self.table is None or self._scorer is None or self.table.bundle != bundle:
            return begun(scorer, bundle, [] if self.table is None else self.table.classes)
        if self._scorer is scorer:
            return self.table
        table, nodes = followed(self.table, self._scorer, scorer)
        log.debug("table followed", version=table.version, nodes=nodes)
        return table


@dataclass
class Asking:
    """Reports classes in use to the table process; any number of processes have one.

    Args:
        heard: the end of the pipe that it does not read. A process that dies holds no lock: so short a message is
        written
            as a whole, or not at all where the pipe is full, and sent again.
    """

    heard: Connection
    _reported_s: dict[PodClass, float] = field(default_factory=dict, init=False)

    def __call__(self, of: PodClass, *, missing: bool) -> None:
        """Report a class in use, and whether the table lacks it."""
        now_s = monotonic()
        if now_s - self._reported_s.get(of, -REPORT_AGAIN_S) >= (MISSED_AGAIN_S if missing else REPORT_AGAIN_S):
            if len(self._reported_s) > MAX_CLASSES:
                self._reported_s.clear()
            self._reported_s[of] = now_s
            with contextlib.suppress(BlockingIOError):
                self.heard.send(of)


@dataclass
class TableProcess:
    """The process that keeps the table.

    Args:
        registry: of bundles.
        snapshots: folder of snapshots.
        path: the table's file, in the folder of the journals.
        workers: how many answer.
        published: a copy of the table, for the plugin of kube-scheduler; None for none.
    """

    registry: Registry
    snapshots: Path
    path: Path
    workers: int = 1
    published: Path | None = None
    asked: Connection = field(init=False)
    """The pipe of classes in use, see Asking."""
    _hears: Connection = field(init=False)
    _process: SpawnProcess | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self._hears, self.asked = CONTEXT.Pipe(duplex=False)
        os.set_blocking(self.asked.fileno(), False)  # for all who have it

    @property
    def pid(self) -> int | None:
        """Of the process; None before it is started."""
        return None if self._process is None else self._process.pid

    def ensure(self) -> None:
        """Start the process, or start it again where it has ended."""
        if self._process is not None and self._process.is_alive():
            return
        if self._process is not None:
            log.error("the process of the table ended; started again", exitcode=self._process.exitcode)
        arguments = (self.registry, self.snapshots, self.path, self._hears, os.getpid())
        more = {"workers": self.workers, "published": self.published}
        self._process = CONTEXT.Process(target=keep, args=arguments, kwargs=more, daemon=True, name="cohabit-table")
        self._process.start()

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.terminate()
            self._process.join(ENDED_WITHIN_S)
            self._process.kill()  # a process that was stopped does not hear the word to end
            self._process.join()
        self.asked.close()
        self._hears.close()


def keep(
    registry: Registry,
    snapshots: Path,
    path: Path,
    asked: Connection,
    parent: int,
    *,
    workers: int,
    published: Path | None = None,
) -> None:
    """Keep the table until the parent is gone."""
    set_up_logs()
    give_back_for_good(apart=False)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(NICENESS)
    serving = Serving(snapshots, registry, float("inf"), now_us, CollectorRegistry())
    tabling, copies = Tabling(serving, path), [Saving(path, snapshots / NAME)]
    if published is not None:
        copies.append(Saving(path, published, 0.0))
    for of in _classes_before(path) or saved_classes(snapshots):
        tabling.ask(of, monotonic())
    counts = ExactCounts(Journal(path.parent, workers, workers + 1), now_us)
    Thread(target=count_exactly, args=(counts, tabling), daemon=True).start()
    compiled = False
    while os.getppid() == parent:
        with Contained(log, "the table stays as it was"):
            if tabling.step(monotonic()) and not compiled:
                compiled = True  # before it succeeds: once is enough, and the first table did not wait for it
                use_compiled_trees(serving)
            for copy in copies:
                copy.save(monotonic())
        with contextlib.suppress(EOFError):  # all others are gone
            wait_s = 0.0 if tabling.behind else WAIT_S
            while asked.poll(wait_s):
                tabling.ask(asked.recv(), monotonic())
                wait_s = 0.0


def now_us() -> int:
    """The clock."""
    return time_ns() // 1000


def _classes_before(table: Path) -> tuple[PodClass, ...]:
    """Classes of the table before this process: after a death they are asked for again; none without one."""
    with contextlib.suppress(NoTable):
        return read_table(table).classes
    return ()


def count_exactly(counts: ExactCounts, tabling: Tabling) -> None:
    """Count assumed pods for as long as the process lives."""
    budget = CpuBudget(COUNT_SHARE, COUNT_BURST_S)
    while True:
        with Contained(log, "assumed pods are counted approximately"):
            if (written := tabling.written) is not None:
                counts.follow(*written)
            if counts.listen() and written is not None and budget.allows(monotonic()):
                began_s = thread_time()
                counts.count(*written)
                budget.spend(thread_time() - began_s)
                continue
        sleep(LISTEN_S)
