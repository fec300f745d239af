"""Right-sizing: requests recommended from days under neighbours, and what a cluster with these requests is like next.

Truth stays with the judge: rules see what exporters send, as node state and labels of the product's own jobs.
"""

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from advisor.capacity.rightsize import Present, Rule, Windows, rightsize
from benchmarks.observed_use import SLOWED, Watcher
from benchmarks.request_rules import percentile_98, vpa_bytes, vpa_cores
from benchmarks.runner import HIGH, LOW, OURS, TOP, Benchmark, Result
from cohabit.backtest.closed_loop import run as run_loop
from cohabit.backtest.policies import DEFAULT
from cohabit.backtest.trace import drawn_trace
from cohabit.backtest.world import World, built_in_world
from cohabit.capacity.rightsize_apps import windows_of
from features.columnar.arrow_columns import Floats, micros
from ingest.simulator.laws import LAWS
from ingest.simulator.simulated_cluster import Records, State, Truth, load_at

PRESENT, VPA, P98 = "present", "vpa", "p98"
RULES = (OURS, VPA, P98, PRESENT)
REQUESTED = 0.75
SLOWED_SHARE = 0.05
"""An app whose containers are slowed to 1.1 and more for so long of their time was slowed by neighbours."""
RESAMPLES = 2000
Figures = dict[str, float]


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
    found: dict[str, list[Figures]] = {rule: [] for rule in RULES}
    laws = arguments.law or list(LAWS)
    for law in laws:
        for seed in range(1, arguments.seeds + 1):
            for rule, figures in of_world(built_in_world(law, seed), seed, arguments).items():
                found[rule].append(figures)
            print(f"{law} seed {seed} of {arguments.seeds}", file=sys.stderr, flush=True)
    return {TOP: _against(found), **{rule: _summed(cells) for rule, cells in found.items()}}


def of_world(world: World, seed: int, plan: Namespace) -> dict[str, Figures]:
    """Observe, recommend, and run the next days with each rule's requests."""
    rng = np.random.default_rng([seed, 30])
    watcher = Watcher(world, plan.interval_s, np.random.default_rng([seed, 31]))
    past = _trace(world, plan, plan.days, rng)
    run_loop(world, past, plan.nodes, DEFAULT, rng=rng, observe=watcher.see)
    requests = recommended(world, watcher, plan.risk)
    coming = _trace(world, plan, plan.next_days, rng)
    return {rule: _judged(replace(world, request=of), world, watcher, coming, plan) for rule, of in requests.items()}


def _trace(world: World, plan: Namespace, days: float, rng: np.random.Generator):  # type: ignore[no-untyped-def]
    return drawn_trace(
        world, nodes=plan.nodes, requested=REQUESTED, hours=24 * days, interval_s=plan.interval_s, rng=rng
    )


def recommended(world: World, watcher: Watcher, risk: float) -> dict[str, Floats]:
    """(a, 2) requests by rule; an app that was not seen often enough keeps its own."""
    state, labels = watcher.tables()
    names = {f"app-{app:03d}": app for app in range(world.apps)}
    windows = windows_of(state, labels, names)
    time_s = micros(state["window_end"]) / 1e6
    requests = {rule: world.request.copy() for rule in RULES}
    for one in rightsize(windows, _present(world), list(names), Rule(risk=risk)):
        app = names[one.app]
        if not one.reason and one.memory.rule:
            requests[OURS][app] = one.cpu.recommended, one.memory.recommended
            for rule, amounts in _by_others(windows, time_s, app).items():
                requests[rule][app] = amounts
    return requests


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


def _judged(sized: World, world: World, watcher: Watcher, trace, plan: Namespace) -> Figures:  # type: ignore[no-untyped-def]
    beyond = Beyond(sized)
    tally = run_loop(sized, trace, plan.nodes, DEFAULT, rng=np.random.default_rng(7), observe=beyond.see)
    jobs = np.bincount(trace.app, minlength=world.apps)
    requested, now = jobs @ sized.request, jobs @ world.request
    return {
        "saved_cores_share": float(1.0 - requested[0] / now[0]),
        "saved_memory_share": float(1.0 - requested[1] / now[1]),
        "violation_minutes": tally.violation_minutes,
        "ls_minutes": tally.ls_minutes,
        "pending_minutes": tally.pending_minutes,
        "beyond_request_share": beyond.above / max(beyond.total, 1),
        **_covered(sized, watcher),
    }


def _covered(sized: World, watcher: Watcher) -> Figures:
    """Apps that neighbours slowed, and those whose request is at least P95 of their true demand; hidden ones apart."""
    app, cores = np.concatenate(watcher.true_app), np.concatenate(watcher.true_cores)
    slowed = np.concatenate(watcher.true_slowdown) >= SLOWED
    found = {"slowed_apps": 0.0, "covered_slowed_apps": 0.0, "hidden_apps": 0.0, "covered_hidden_apps": 0.0}
    for one in np.unique(app).tolist():
        rows = app == one
        if slowed[rows].mean() < SLOWED_SHARE:
            continue
        covered = float(sized.request[one, 0] >= np.quantile(cores[rows], 0.95))
        hidden = float(one % 3 == 1 or one % 6 == 4)
        found["slowed_apps"] += 1.0
        found["covered_slowed_apps"] += covered
        found["hidden_apps"] += hidden
        found["covered_hidden_apps"] += hidden * covered
    return found


def _summed(cells: list[Figures]) -> Figures:
    """Means over laws and seeds, and shares of sums, each with its 95 % interval."""
    table = {name: np.array([cell[name] for cell in cells]) for name in cells[0]}
    draws = np.random.default_rng(0).integers(len(cells), size=(RESAMPLES, len(cells)))
    figures: Figures = {}
    for name in ("saved_cores_share", "saved_memory_share", "violation_minutes", "pending_minutes"):
        figures |= _interval(name, table[name].mean(), table[name][draws].mean(axis=1))
    figures |= _interval(
        "beyond_request_share", table["beyond_request_share"].mean(), table["beyond_request_share"][draws].mean(axis=1)
    )
    for name, top, below in (
        ("violation_share", "violation_minutes", "ls_minutes"),
        ("covered_slowed_share", "covered_slowed_apps", "slowed_apps"),
        ("covered_hidden_share", "covered_hidden_apps", "hidden_apps"),
    ):
        over, under = table[top], np.maximum(table[below], 1e-9)
        figures |= _interval(name, over.sum() / under.sum(), over[draws].sum(axis=1) / under[draws].sum(axis=1))
    return figures | {"slowed_apps": float(table["slowed_apps"].sum())}


def _against(found: Mapping[str, list[Figures]]) -> Figures:
    """Ours minus each other rule, run by run, with 95 % intervals."""
    figures: Figures = {}
    count = len(found[OURS])
    draws = np.random.default_rng(0).integers(count, size=(RESAMPLES, count))
    for rule in (VPA, P98, PRESENT):
        for name in ("saved_cores_share", "violation_minutes"):
            apart = np.array([a[name] - b[name] for a, b in zip(found[OURS], found[rule], strict=True)])
            low, high = np.quantile(apart[draws].mean(axis=1), [0.025, 0.975])
            figures |= {
                f"{name}_minus_{rule}": float(apart.mean()),
                f"{name}_minus_{rule}_low": float(low),
                f"{name}_minus_{rule}_high": float(high),
            }
    return figures | {"runs": float(count)}


def _interval(name: str, value: float, drawn: Floats) -> Figures:
    low, high = np.quantile(drawn, [0.025, 0.975])
    return {name: float(value), name + LOW: float(low), name + HIGH: float(high)}


def _arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--law", action="append", choices=list(LAWS), help="a built-in law; repeatable (all)")
    parser.add_argument("--seeds", type=int, default=20, help="repetitions with other apps and traces (20)")
    parser.add_argument("--nodes", type=int, default=12, help="nodes (12)")
    parser.add_argument("--days", type=float, default=2.0, help="days that are observed (2)")
    parser.add_argument("--next-days", type=float, default=1.0, help="days that are run with the new requests (1)")
    parser.add_argument("--interval-s", type=float, default=120.0, help="seconds between samples (120)")
    parser.add_argument("--risk", type=float, default=0.05, help="risk of our recommendations (0.05)")


BENCHMARK = Benchmark(
    "rightsize",
    "requests by ours, VPA's rule and P98 from days under neighbours: saving, violation-minutes and cover of demand",
    run,
    runs=1,
    add_arguments=_arguments,
)
