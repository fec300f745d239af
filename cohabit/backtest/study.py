"""Study: every policy, over several seeds and sizes of the cluster, under one law; heuristics tuned on a seed apart."""

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from multiprocessing import active_children, get_context
from pathlib import Path

import numpy as np

from advisor.errors import AdvisorError
from cohabit.backtest.advice import Advisor, scorers_of
from cohabit.backtest.closed_loop import Tally, run
from cohabit.backtest.history import Learnt, Past, learnt_history
from cohabit.backtest.oracle import oracle
from cohabit.backtest.pair_file import read_pairs
from cohabit.backtest.policies import DEFAULT, FAMILIES, Family, optum_family
from cohabit.backtest.scenario_cells import smallest
from cohabit.backtest.sight import CPU, MEMORY, Policy
from cohabit.backtest.trace import Trace, drawn_trace
from cohabit.backtest.world import World, built_in_world, pair_world
from cohabit.config.errors import CohabitError
from cohabit.training.train_model import training_table
from features.columnar.arrow_columns import floats
from features.schema.catalog import NAMES
from features.schema.errors import FeaturesError
from features.schema.tables import TABLES
from ingest.lake.tables import Lake
from ingest.schema.errors import IngestError
from ingest.simulator.laws import LAWS
from models.challengers.optum import fit_by_fullness
from models.errors import ModelsError
from models.registry.registry import Registry

OURS, BLIND, ORACLE = "ours", "ours_unguarded", "oracle"
OPTUM = "optum"
TUNING_SEED = 1000
TUNING_HOURS = 12.0
TUNING_LEVEL = 1
"""Position of the level that heuristics are tuned at."""
CELL_HOURS = 3.0
"""For how long a cell is tried, the first hour being spent on filling it."""
Progress = Callable[[str, int, int], None]
"""Progress callback: the current work, parts done and parts in all."""


@dataclass(frozen=True)
class Driver:
    """A law by name, or a file of measured pairs and how they are put together."""

    law: str
    compose: str = ""
    alone: str = ""

    @property
    def name(self) -> str:
        """Of the law, as figures are named by."""
        return self.law if self.law in LAWS else f"{Path(self.law).stem}-{self.compose}"

    def world(self, seed: int) -> World:
        """The law over apps drawn from a seed.

        Raises:
            CohabitError: the file cannot drive anything.
        """
        if self.law in LAWS:
            return built_in_world(self.law, seed)
        pairs = read_pairs(Path(self.law), Path(self.alone) if self.alone else None)
        return pair_world(pairs, self.compose, seed)


@dataclass(frozen=True)
class Plan:
    """How much is simulated.

    Args:
        nodes: of the largest cluster.
        hours: judged, the first one being spent on filling the cluster.
        seeds: how many times, each with its own apps, history and trace.
        levels: shares of the cluster that containers request; the first one on all nodes, the others on fewer.
        interval_s: between metrics, and between what schedulers see.
        past: what is learnt from.
        cells: how often cell compaction is tried; 0 leaves it out.
    """

    nodes: int = 100
    hours: float = 48.0
    seeds: int = 5
    levels: tuple[float, ...] = (0.7, 0.8, 0.9)
    interval_s: float = 300.0
    past: Past = field(default_factory=Past)
    cells: int = 11

    def sizes(self) -> tuple[int, ...]:
        """Nodes at each level."""
        return tuple(max(1, round(self.nodes * self.levels[0] / level)) for level in self.levels)


@dataclass(frozen=True)
class Ran:
    """One policy, seed and level."""

    policy: str
    seed: int
    level: int
    tally: Tally


@dataclass(frozen=True)
class Findings:
    """All that was run under one law.

    Args:
        name: of the law.
        plan: how much.
        settings: the best of each heuristic's settings.
        ran: all runs.
        cells: share of the nodes that suffices, by policy and draw; NaN where all do not.
    """

    name: str
    plan: Plan
    settings: Mapping[str, str]
    ran: Sequence[Ran]
    cells: Mapping[str, Mapping[int, float]] = field(default_factory=dict)


@dataclass(frozen=True)
class Failure:
    """Why a part was not done; most of our errors cannot be sent between processes."""

    reason: str


def study(driver: Driver, plan: Plan, jobs: int, progress: Progress) -> Findings:
    """Gather histories, tune heuristics, and run everybody.

    Args:
        driver: the law.
        plan: how much.
        jobs: processes at once; findings do not depend on it.
        progress: called for each phase as it begins, and for each part that is done.

    Returns:
        The findings.

    Raises:
        CohabitError: the driver's file cannot drive anything, or a history cannot be learnt from.
    """
    driver.world(TUNING_SEED)
    seeds = list(range(1, plan.seeds + 1))
    with tempfile.TemporaryDirectory(prefix="cohabit-backtest-") as folder, _workers(jobs) as pool:

        def all_done(what: str, calls: Sequence[Callable[[], object]]) -> Iterator[object]:
            waiting = [pool.submit(_outcome, call) for call in calls]
            progress(f"{driver.name}: {what}", 0, len(waiting))
            for number, done in enumerate(as_completed(waiting), 1):
                progress(f"{driver.name}: {what}", number, len(waiting))
                found = done.result()
                if isinstance(found, Failure):
                    pool.shutdown(cancel_futures=True)
                    raise CohabitError(
                        f"{driver.name}: {what}: {found.reason}; if the training data are too few, raise "
                        "--history-hours or --history-nodes"
                    )
                yield found

        learn = partial(_learn, driver, plan, Path(folder))
        list(all_done("histories", [partial(learn, seed) for seed in (*seeds, TUNING_SEED)]))
        names = [*FAMILIES, OPTUM]
        tuned = all_done("tuning", [partial(_tuned, driver, plan, Path(folder), name) for name in names])
        settings: dict[str, str] = dict(one for one in tuned if isinstance(one, tuple))
        parts = [(seed, level) for level in reversed(range(len(plan.levels))) for seed in seeds]
        calls = [partial(_ran, driver, plan, Path(folder), settings, part) for part in parts]
        ran = [one for some in all_done("runs", calls) if isinstance(some, list) for one in some]
        names = [OURS, ORACLE, _best(ran, settings)]
        compact = partial(_compacted, driver, plan, Path(folder), {name: settings.get(name, "") for name in names})
        tried = all_done("cells", [partial(compact, draw) for draw in range(plan.cells)])
        draws: dict[int, dict[str, float]] = dict(one for one in tried if isinstance(one, tuple))
    cells = {name: {draw: draws[draw][name] for draw in sorted(draws)} for name in names if draws}
    ran = sorted(ran, key=lambda one: (one.policy, one.level, one.seed))
    return Findings(driver.name, plan, settings, ran, cells)


@contextmanager
def _workers(jobs: int) -> Iterator[ProcessPoolExecutor]:
    """Processes that end with the work, also where it is broken off."""
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool, ExitStack() as broken_off:
        broken_off.callback(_end_at_once, pool)
        yield pool
        broken_off.pop_all()


def _end_at_once(pool: ProcessPoolExecutor) -> None:
    pool.shutdown(wait=False, cancel_futures=True)
    for child in active_children():
        child.terminate()


def _outcome(call: Callable[[], object]) -> object:
    """What a call returns, or why it could not."""
    try:
        return call()
    except (CohabitError, IngestError, FeaturesError, ModelsError, AdvisorError) as error:
        return Failure(str(error))


def _learn(driver: Driver, plan: Plan, folder: Path, seed: int) -> None:
    learnt_history(driver.world(seed), plan.past, folder / str(seed), seed)


def _learnt(folder: Path, seed: int) -> Learnt:
    return Learnt(Lake.open(folder / str(seed) / "lake", TABLES), Registry(folder / str(seed) / "registry"))


def family_of(name: str, world: World, learnt: Learnt) -> Family:
    """The settings of a heuristic by name."""
    return optum_family_of(world, learnt) if name == OPTUM else FAMILIES[name]


def optum_family_of(world: World, learnt: Learnt) -> Family:
    """Optum, trained on the same history as we are."""
    table = training_table(learnt.lake)
    fullness = np.column_stack([floats(table[f"pressure_{NAMES[resource]}"]) for resource in (CPU, MEMORY)])
    app = np.array([int(name.rpartition("-")[2]) for name in table["app"].to_pylist()], np.int64)
    return optum_family(fit_by_fullness(fullness, app, floats(table["log_slowdown"]), world.apps))


def _tuned(driver: Driver, plan: Plan, folder: Path, name: str) -> tuple[str, str]:
    """A heuristic and the setting that has fewest violations on a trace apart."""
    world = driver.world(TUNING_SEED)
    level = min(TUNING_LEVEL, len(plan.levels) - 1)
    trace = trace_of(world, plan, TUNING_SEED, min(plan.hours, TUNING_HOURS))
    family = family_of(name, world, _learnt(folder, TUNING_SEED))
    found = {
        setting: run(world, trace, plan.sizes()[level], policy, rng=rng_of(TUNING_SEED, level)).violation_minutes
        for setting, policy in family.items()
    }
    return name, min(found, key=lambda setting: found[setting])


def _ran(driver: Driver, plan: Plan, folder: Path, settings: Mapping[str, str], part: tuple[int, int]) -> list[Ran]:
    """Every policy once, on a seed and at a level."""
    seed, level = part
    world, learnt = driver.world(seed), _learnt(folder, seed)
    trace, nodes = trace_of(world, plan, seed, plan.hours), plan.sizes()[level]
    policies = policies_of(world, learnt, settings)
    return [
        Ran(name, seed, level, run(world, trace, nodes, policy, rng=rng_of(seed, level)))
        for name, policy in policies.items()
    ]


def _best(ran: Sequence[Ran], settings: Mapping[str, str]) -> str:
    """The heuristic with fewest violations on all nodes."""
    return min(
        settings, key=lambda name: sum(r.tally.violation_minutes for r in ran if (r.policy, r.level) == (name, 0))
    )


def _compacted(
    driver: Driver, plan: Plan, folder: Path, settings: Mapping[str, str], draw: int
) -> tuple[int, dict[str, float]]:
    """A draw of containers of the first seed's apps, and the share of nodes that each policy needs for them."""
    seed = 1
    world = driver.world(seed)
    heuristics = {name: setting for name, setting in settings.items() if name in FAMILIES or name == OPTUM}
    trace = trace_of(world, plan, seed, CELL_HOURS, draw=draw)

    def on(policy: Policy, nodes: int) -> Tally:
        return run(world, trace, nodes, policy, rng=np.random.default_rng([seed, draw, 33]))

    whole, policies = on(DEFAULT, plan.nodes), policies_of(world, _learnt(folder, seed), heuristics)
    return draw, {name: smallest(partial(on, policies[name]), whole, plan.nodes) for name in settings}


def policies_of(world: World, learnt: Learnt, settings: Mapping[str, str]) -> dict[str, Policy]:
    """Everybody: tuned heuristics, the oracle, and ours as shipped."""
    heuristics = {name: family_of(name, world, learnt)[setting] for name, setting in settings.items()}
    scorers = scorers_of(learnt, world.best_effort)
    return {**heuristics, ORACLE: oracle(world), OURS: Advisor(scorers).guarded, BLIND: Advisor(scorers).blind}


def trace_of(world: World, plan: Plan, seed: int, hours: float, *, draw: int | None = None) -> Trace:
    """The trace of a seed, the same for every policy and level, or another draw of it."""
    rng = np.random.default_rng([seed, 30] if draw is None else [seed, draw, 32])
    return drawn_trace(
        world, nodes=plan.nodes, requested=plan.levels[0], hours=hours, interval_s=plan.interval_s, rng=rng
    )


def rng_of(seed: int, level: int) -> np.random.Generator:
    """Of a run: the same for every policy."""
    return np.random.default_rng([seed, level, 31])
