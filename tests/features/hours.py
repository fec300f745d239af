"""An hour of a small cluster, from a seed: two apps on two nodes, latency and load, and every kind of gap."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from features.contention.node_state import Facts, node_state
from features.profiles.per_app import labels_of, profiles_of
from features.training.residents import Sources
from features.training.rows import training_rows
from tests.features.rows import at, nodes, placements, usage

MINUTES = 60
CONTAINERS = 8
WEB = 6
PROFILE_TIMES_US = np.array([round(at(60 * m + 30).timestamp() * 1e6) for m in range(10, MINUTES + 1, 10)])
Record = dict[str, object]


@dataclass(frozen=True)
class Hour:
    """What lands."""

    usage: pa.Table
    facts: Facts


@dataclass(frozen=True)
class Derived:
    """What is made of it."""

    state: pa.Table
    labels: pa.Table
    profiles: pa.Table
    training: pa.Table


def records(rng: np.random.Generator) -> list[Record]:
    """Usage every 30 s of each container; batch containers' CPU slows web containers down."""
    rows: list[Record] = []
    use = rng.uniform(0.2, 2.0, (CONTAINERS, 2 * MINUTES))
    for i in range(CONTAINERS):
        web = i < WEB
        pressed = use[[j for j in range(CONTAINERS) if j % 2 == i % 2 and j != i]].sum(axis=0)
        for k in range(2 * MINUTES):
            row: Record = {"container": f"c{i}", "node": f"n{i % 2}", "app": "web" if web else "batch"}
            row |= {"ts": 30 * (k + 1), "arrived_at": at(30 * (k + 1) + rng.uniform(0.5, 3)), "cpu_cores": use[i, k]}
            row |= {"qos": "LS" if web else "BE", "memory_bytes": 1e9 * use[i, k]}
            if web:
                row |= {"qps": 100.0, "rt_mean_ms": 5 * (1 + 0.2 * pressed[k]) * rng.lognormal(0, 0.02)}
            rows.append({name: value for name, value in row.items() if name in KEPT or rng.random() > 0.02})
    return rows


KEPT = {"container", "node", "app", "ts", "arrived_at", "qos"}


def hour(rows: list[Record]) -> Hour:
    """The records landed in their order, beside nodes and placements that say the same twice."""
    kinds = [("web", "LS") if i < WEB else ("batch", "BE") for i in range(CONTAINERS)]
    placed: list[Record] = [
        {"container": f"c{i}", "node": f"n{i % 2}", "app": app, "qos": qos} for i, (app, qos) in enumerate(kinds)
    ]
    changed = [{**row, "event": "change", "qos": "BE"} for row in placed[:2]]
    described = nodes({"node": "n0"}, {"node": "n1"}, {"node": "n1", "cores": 16.0})
    return Hour(usage(*rows), Facts(described, placements(*placed, *changed)))


def derived(seen: Hour) -> Derived:
    """Every derived table, by the kernels."""
    state = node_state(seen.usage, seen.facts)
    labels, profiles = labels_of(state, seen.facts.placements), profiles_of(state, PROFILE_TIMES_US)
    sources = Sources(state, seen.facts.nodes, seen.facts.placements, profiles)
    return Derived(state, labels, profiles, training_rows(labels, sources))


def shuffled(rows: pa.Table, rng: np.random.Generator) -> pa.Table:
    """The rows in another order, in several chunks."""
    mixed = rows.take(pa.array(rng.permutation(rows.num_rows)))
    cut = rows.num_rows // 3
    return pa.concat_tables([mixed.slice(0, cut), mixed.slice(cut)])


def in_order(rows: pa.Table, key: tuple[str, ...]) -> pa.Table:
    """The rows in the order of a key."""
    return rows.sort_by([(c, "ascending") for c in key]).combine_chunks()
