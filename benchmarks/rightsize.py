"""Right-sizing: requests recommended from days under neighbours, and what a cluster with these requests is like next.

Truth stays with the judge: rules see what exporters send, as node state and labels of the product's own jobs.
"""

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from advisor.capacity.rightsize import Present, Rule, Windows, rightsize
from benchmarks.observed_use import SLOWED, Watcher
from benchmarks.request_rules import percentile_98, vpa_bytes, vpa_cores
from benchmarks.rightsize_figures import Cell, against, summed
from benchmarks.runner import OURS, TOP, Benchmark, Result
from cohabit.backtest.closed_loop import run as run_loop
from cohabit.backtest.policies import DEFAULT
from cohabit.backtest.trace import Trace, drawn_trace
from cohabit.backtest.world import World, built_in_world
from cohabit.capacity.rightsize_apps import windows_of
from features.columnar.arrow_columns import Floats, micros
from ingest.simulator.laws import LAWS
from ingest.simulator.simulated_cluster import Records, State, Truth, load_at

ACCOUNTED = "accounted"
PRESENT, VPA, P98 = "present", "vpa", "p98"
RULES = (OURS, VPA, P98, PRESENT)
REQUESTED = 0.75
SLOWED_SHARE = 0.05
"""An app whose containers are slowed to 1.1 and more for so long of their time was slowed by neighbours."""
Flags = NDArray[np.bool_]


@dataclass
class Beyond:
    """Counts container-minutes whose true demand is above the request."""

    world: World
    above: int = 0
    total: int = 0

    def see(self, _: State, __: Records, truth: Truth) -> None:
        """Take up an interval."""
        app = np.array([c.app for c in truth.containers], np.int64)
        wanted = self.world.law.apps.demand[app, 0] * load_at(app, truth.time_s)
        self.above += int((wanted > self.world.request[app, 0]).sum())
        self.total += len(app)


def run(arguments: Namespace, _: np.random.Generator) -> Result:
    """Figures by rule over all laws and seeds, with 95 % intervals over these."""
    if arguments.nodes < 3 or arguments.seeds < 1 or min(arguments.days, arguments.next_days) <= 0:
        raise SystemExit("at least 3 nodes, one seed and more than no days are needed")
    found: dict[str, list[Cell]] = {rule: [] for rule in RULES}
    laws = arguments.law or list(LAWS)
    for law in laws:
        for seed in range(1, arguments.seeds + 1):
            for rule, cell in of_world(built_in_world(law, seed), seed, arguments).items():
                found[rule].append(cell)
            print(f"{law} seed {seed} of {arguments.seeds}", file=sys.stderr, flush=True)
    return {TOP: against(found), **{rule: summed(cells, found[OURS]) for rule, cells in found.items()}}


def of_world(world: World, seed: int, plan: Namespace) -> dict[str, Cell]:
    """Observe, recommend, and run the next days with each rule's requests."""
    rng = np.random.default_rng([seed, 30])
    watcher = Watcher(world, plan.interval_s, plan.use == ACCOUNTED, np.random.default_rng([seed, 31]))
    past = _trace(world, plan, plan.days, rng)
    run_loop(world, past, plan.nodes, DEFAULT, rng=rng, observe=watcher.see)
    requests, apps = recommended(world, watcher, plan.risk)
    coming = _trace(world, plan, plan.next_days, rng)
    return {
        rule: _judged(replace(world, request=of), world, watcher, coming, apps, nodes=plan.nodes)
        for rule, of in requests.items()
    }


def _trace(world: World, plan: Namespace, days: float, rng: np.random.Generator) -> Trace:
    return drawn_trace(
        world, nodes=plan.nodes, requested=REQUESTED, hours=24 * days, interval_s=plan.interval_s, rng=rng
    )


def recommended(world: World, watcher: Watcher, risk: float) -> tuple[dict[str, Floats], frozenset[int]]:
    """(a, 2) requests by rule, and the apps that have one; an app that was not seen often enough keeps its own."""
    state, labels = watcher.tables()
    names = {f"app-{app:03d}": app for app in range(world.apps)}
    windows = windows_of(state, labels, names)
    time_s = micros(state["window_end"]) / 1e6
    requests, sized = {rule: world.request.copy() for rule in RULES}, set[int]()
    for one in rightsize(windows, _present(world), list(names), Rule(risk=risk)):
        app = names[one.app]
        if not one.reason and one.memory.rule:
            sized.add(app)
            requests[OURS][app] = one.cpu.recommended, one.memory.recommended
            for rule, amounts in _by_others(windows, time_s, app).items():
                requests[rule][app] = amounts
    return requests, frozenset(sized)


def _by_others(windows: Windows, time_s: Floats, app: int) -> Mapping[str, tuple[float, float]]:
    rows = windows.app == app
    cpu, memory, at = windows.measured.cpu_cores[rows], windows.memory_bytes[rows], time_s[rows]
    there = np.isfinite(cpu) & np.isfinite(memory)
    cpu, memory, at = cpu[there], memory[there], at[there]
    return {
        VPA: (vpa_cores(cpu, at), vpa_bytes(memory, at)),
        P98: (percentile_98(cpu), percentile_98(memory)),
    }


def _present(world: World) -> Present:
    unknown = np.full(world.apps, np.nan)
    return Present(np.arange(world.apps), world.request[:, 0], world.request[:, 1], unknown, unknown)


def _judged(sized: World, world: World, watcher: Watcher, trace: Trace, apps: frozenset[int], *, nodes: int) -> Cell:
    """One rule's requests, on the same nodes and for the same jobs as those of every other."""
    beyond = Beyond(sized)
    tally = run_loop(sized, trace, nodes, DEFAULT, rng=np.random.default_rng(7), observe=beyond.see)
    jobs = np.bincount(trace.app, minlength=world.apps)
    requested, now = jobs @ sized.request, jobs @ world.request
    figures = {
        "saved_cores_share": float(1.0 - requested[0] / now[0]),
        "saved_memory_share": float(1.0 - requested[1] / now[1]),
        "violation_minutes": tally.violation_minutes,
        "ls_minutes": tally.ls_minutes,
        "pending_minutes": tally.pending_minutes,
        "beyond_request_share": beyond.above / max(beyond.total, 1),
        "unsized_apps": float(world.apps - len(apps)),
    }
    return Cell(figures, *_needed(sized, watcher, apps))


def _needed(sized: World, watcher: Watcher, apps: frozenset[int]) -> tuple[Floats, Flags]:
    """Of apps with a recommendation that neighbours slowed: P95 of true demand over the request; whether use hid it."""
    app, cores = np.concatenate(watcher.true_app), np.concatenate(watcher.true_cores)
    slowed = np.concatenate(watcher.true_slowdown) >= SLOWED
    there = [one for one in sorted(apps) if slowed[app == one].mean() >= SLOWED_SHARE]
    peaks = np.array([np.quantile(cores[app == one], 0.95) for one in there])
    return peaks / sized.request[there, 0], np.isin(there, watcher.hidden_apps())


def _arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--law", action="append", choices=list(LAWS), help="a built-in law; repeatable (all)")
    parser.add_argument("--seeds", type=int, default=20, help="repetitions with other apps and traces (20)")
    parser.add_argument("--nodes", type=int, default=12, help="nodes (12)")
    parser.add_argument("--days", type=float, default=2.0, help="days that are observed (2)")
    parser.add_argument("--next-days", type=float, default=1.0, help="days that are run with the new requests (1)")
    parser.add_argument("--interval-s", type=float, default=120.0, help="seconds between samples (120)")
    parser.add_argument(
        "--use",
        choices=["counted", ACCOUNTED],
        default="counted",
        help="CPU use as the simulator counts it, or as a kernel accounts it, hidden by limits and queues (counted)",
    )
    parser.add_argument("--risk", type=float, default=0.05, help="risk of our recommendations (0.05)")


BENCHMARK = Benchmark(
    "rightsize",
    "requests by ours, VPA's rule and P98 from days under neighbours: saving, violation-minutes and cover of demand",
    run,
    runs=1,
    add_arguments=_arguments,
)
