"""Observed use: what exporters show of containers whose CPU use is not their demand. Kernel.

The simulator's counters show CPU use that neighbours never change. Here use is what a kernel would account: own limits
and queues hide demand, slower caches and memory bandwidth add CPU time to requests.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cohabit.backtest.closed_loop import START_S
from cohabit.backtest.world import World
from features.columnar.arrow_columns import Floats, Ints, table
from features.contention.node_state import Facts, node_state
from features.profiles.per_app import labels_of
from ingest.schema.tables import NODES, PLACEMENTS, TIMESTAMP, USAGE
from ingest.simulator.law import HIDDEN, PLATFORMS
from ingest.simulator.simulated_cluster import Records, State, Truth, load_at, neighbour_load
from ingest.simulator.stock import LIMIT_SHARE, LIMITED_EVERY, by_resource

Columns = dict[str, NDArray[Any]]
CLUSTER = "rightsize"
CPU, LLC, MEMBW = (HIDDEN.index(name) for name in ("cpu", "llc", "memory_bandwidth"))
SATURATED, INFLATED = 1, 2
"""Apps by what CPU use shows of demand, in turn; the first third shows it as it is."""
NOISE = 0.15
"""Of run delay, log."""
QUEUE = 0.6
"""Share of the time in which a task waits at least where a queue hides demand, and half of it at most elsewhere."""
SLOWED = 1.1


@dataclass
class Watcher:
    """Keeps what exporters send, and, apart from it, what was true.

    Args:
        world: of the containers.
        interval_s: between samples.
        accounted: whether use is as a kernel accounts it; else it is what the simulator's counters show.
        rng: noise of what is added.
    """

    world: World
    interval_s: float
    accounted: bool
    rng: np.random.Generator
    samples: list[Columns] = field(default_factory=list)
    events: list[dict[str, object]] = field(default_factory=list)
    nodes: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    true_app: list[Ints] = field(default_factory=list)
    true_cores: list[Floats] = field(default_factory=list)
    true_slowdown: list[Floats] = field(default_factory=list)

    def see(self, state: State, records: Records, truth: Truth) -> None:
        """Take up an interval."""
        self.nodes = state.platform
        if not records.containers:
            return
        app = np.array([c.app for c in records.containers], np.int64)
        node = np.array([c.node for c in records.containers], np.int64)
        load = load_at(app, records.time_s)
        others = neighbour_load(app, node, load, self.world.apps)
        slowed = by_resource(self.world.law, app, others, load, state.platform[node])
        shown = self._shown(records.signals, app, slowed) if self.accounted else records.signals
        self.true_app.append(app)
        self.true_cores.append(self.world.law.apps.demand[app, CPU] * load)
        self.true_slowdown.append(truth.slowdown)
        uid = np.array([c.uid for c in records.containers])
        self.samples.append({"time_s": np.full(len(app), records.time_s), "uid": uid, "app": app, "node": node} | shown)
        for event in records.events:
            one = event.container
            at = records.time_s - self.interval_s
            self.events.append({"uid": one.uid, "app": one.app, "node": one.node, "kind": event.kind, "time_s": at})

    def _shown(self, signals: dict[str, Floats], app: Ints, slowed: Floats) -> dict[str, Floats]:
        """Signals with CPU use, throttling, run delay and PSI as a kernel accounts them."""
        wanted = signals["cpu_cores"]
        limit = self._limits()[app]
        inflated, saturated = app % 3 == INFLATED, (app % 3 == SATURATED) & np.isnan(limit)
        cycles = np.where(inflated, slowed[:, LLC] * slowed[:, MEMBW], 1.0)
        allowed = np.fmin(wanted * cycles, limit)
        use = allowed / np.where(saturated, slowed[:, CPU], 1.0)
        waited = (slowed[:, CPU] - 1.0) * use
        noise = self.rng.lognormal(0.0, NOISE, len(app))
        hidden = saturated & (allowed > 1.01 * use)
        queued = np.where(hidden, self.rng.uniform(QUEUE, 1.0, len(app)), np.minimum(waited, QUEUE / 2))
        delay = np.where(hidden, np.maximum(waited, queued), np.minimum(waited, 1.0)) * noise
        served = np.where(hidden | (limit < wanted * cycles), use / np.maximum(wanted * cycles, 1e-9), 1.0)
        return signals | {
            "cpu_cores": use,
            "cpu_throttled_frac": np.where(np.isnan(limit), 0.0, 1.0 - allowed / (wanted * cycles)),
            "run_delay_frac": delay,
            "psi_cpu_some_frac": np.clip(queued, 0.0, 1.0),
            "qps": signals["qps"] * served,
        }

    def _limits(self) -> Floats:
        apps = np.arange(self.world.apps)
        demand: Floats = self.world.law.apps.demand[:, CPU]
        return np.where(apps % LIMITED_EVERY == LIMITED_EVERY - 2, LIMIT_SHARE * demand, np.nan)

    def hidden_apps(self) -> Ints:
        """Apps of which a limit or a queue hides demand; none where use is as it is counted."""
        apps = np.arange(self.world.apps)
        hidden = (apps % 3 == SATURATED) | np.isfinite(self._limits())
        found: Ints = apps[hidden & self.accounted]
        return found

    def tables(self) -> tuple[pa.Table, pa.Table]:
        """Node state and labels, by the product's own path."""
        facts = Facts(self._nodes(), self._placements())
        state = node_state(self._usage(), facts)
        return state, labels_of(state, facts.placements)

    def _usage(self) -> pa.Table:
        joined = {name: np.concatenate([one[name] for one in self.samples]) for name in self.samples[0]}
        qos = np.where(self.world.best_effort, "BE", "LS")[joined["app"]]
        who = _named(joined["uid"], joined["app"], joined["node"], joined["time_s"])
        columns = who | {"qos": pa.array(qos), "interval_s": np.full(len(qos), self.interval_s)}
        return _filled(
            columns | {n: v for n, v in joined.items() if n in USAGE.by_name and n not in columns}, USAGE.schema
        )

    def _placements(self) -> pa.Table:
        kept = {name: np.array([one[name] for one in self.events]) for name in self.events[0]}
        who = _named(kept["uid"], kept["app"], kept["node"], kept["time_s"])
        return _filled(who | {"event": pa.array(kept["kind"])}, PLACEMENTS.schema)

    def _nodes(self) -> pa.Table:
        facts = [PLATFORMS[int(p)] for p in self.nodes]
        start = np.full(len(facts), START_S - 60.0)
        columns: dict[str, object] = {n: np.array([getattr(f, n) for f in facts]) for n in facts[0].__slots__[1:]}
        who = _named(np.array(["" for _ in facts]), np.zeros(len(facts), np.int64), np.arange(len(facts)), start)
        return _filled(who | columns | {"platform": pa.array([f.name for f in facts])}, NODES.schema)


def _named(uid: object, app: Ints, node: Ints, time_s: Floats) -> dict[str, object]:
    count, at = len(app), pa.array((np.asarray(time_s) * 1e6).astype(np.int64), TIMESTAMP)
    return {
        "cluster": pa.array([CLUSTER] * count),
        "container": pa.array(np.asarray(uid)),
        "app": pa.array([f"app-{one:03d}" for one in app.tolist()]),
        "node": pa.array([f"node-{one:04d}" for one in node.tolist()]),
        "ts": at,
        "arrived_at": at,
        "topic": pa.array(["bench"] * count),
        "partition": np.zeros(count, np.int32),
        "offset": np.arange(count),
    }


def _filled(columns: dict[str, object], schema: pa.Schema) -> pa.Table:
    count = len(columns["ts"])  # type: ignore[arg-type]
    return table({one.name: columns.get(one.name, pa.nulls(count, one.type)) for one in schema}, schema)
