"""Parity: serving sees the very numbers that training saw for the same decision, and fills gaps by the same rule."""

from collections.abc import Callable
from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
import pytest

from advisor.cluster.pending_pod import PendingPod
from advisor.cluster.snapshot import Snapshot
from advisor.cluster.snapshot_builder import build_snapshot
from advisor.scoring.candidates import harms_of, home_of, seats_of
from advisor.scoring.scorer import ModelScorer
from features.columnar.arrow_columns import floats
from features.contention.node_state import Facts, node_state
from features.schema.catalog import DEMANDS, RAW_NAMES, SENSITIVITIES, TOGETHER
from features.schema.tables import LABELS, PROFILES
from features.training.online_features import live_view, state_by
from features.training.residents import Sources
from features.training.rows import training_rows
from models.estimator.fitted_model import Placement
from tests.features.rows import at, nodes, placements, usage

DECISION_S = 600
Row = dict[str, object]
CAPACITIES: Row = {"llc_bytes": 3.2e7, "memory_bandwidth_bytes_s": 3e10, "disk_bytes_s": 5e8, "disk_ios_s": 2e4}
NODES = ("bare", "full", "half", "tiny")


def described() -> pa.Table:
    """Four nodes: one of them of no known platform and size, some of no known memory bandwidth or disk."""
    sizes: dict[str, Row] = {"full": {**CAPACITIES, "cores": 16.0, "frequency_ghz": 2.7}, "half": dict(CAPACITIES)}
    return nodes(
        {"node": "tiny", "cores": None, "platform": None}, *({"node": n, **sizes.get(n, {})} for n in NODES[:3])
    )


def measured(rng: np.random.Generator) -> pa.Table:
    """Two minutes of some containers on some nodes, with gaps."""
    seen = []
    for node, count in (("full", 7), ("half", 3), ("tiny", 2)):
        for i in range(count):
            for ts in (510, 540, 570, 600):
                values = {"cpu_cores": rng.uniform(0, 2), "memory_bytes": rng.uniform(0, 1e9)}
                values |= {"llc_occupancy_bytes": rng.uniform(0, 4e6), "disk_ios_s": rng.uniform(0, 100)}
                values |= {"disk_read_bytes_s": rng.uniform(0, 1e6), "disk_write_bytes_s": rng.uniform(0, 1e6)}
                kept = {k: None if rng.random() < 0.2 else v for k, v in values.items()}
                who = {"node": node, "container": f"{node}-{i}", "app": rng.choice(["web", "db", "new"])}
                seen.append({**who, "ts": ts - 61, "qos": rng.choice(["LS", "BE"]), **kept})
    return usage(*seen)


def profiles(rng: np.random.Generator) -> pa.Table:
    columns = (*DEMANDS, *SENSITIVITIES, "cpi", "llc_mpki", "qps")
    rows: list[Row] = []
    for app in ("web", "db"):
        for as_of in (-600, 0):
            known = {c: None if rng.random() < 0.2 else rng.uniform(0, 0.5) for c in columns}
            own = {"app": app, "platform": "p", "kind": "waiting" if as_of else rng.choice(["latency", "waiting"])}
            rows.append({"cluster": "c", "as_of": at(as_of), "windows": 30.0, **own, **known})
    for number in range(
        8
    ):  # cold_start_prior: teams that differ, on two platforms; one app never ran on the nodes' own
        own = {"app": f"kin-{number}", "team": f"team-{number % 3}", "platform": "q" if number == 7 else "p"}
        own["kind"] = rng.choice(["latency", "waiting"])
        known = {c: rng.uniform(0, 0.1) + 0.2 * (number % 3) for c in columns}
        rows.append({"cluster": "c", "as_of": at(-300), "windows": 30.0, **own, **known})
    elsewhere: Row = {"cluster": "other", "app": "never-seen", "team": "team-1", "platform": "p", "as_of": at(-300)}
    rows.append({**elsewhere, "windows": 30.0, **dict.fromkeys(columns, 3.0)})
    return pa.Table.from_pylist(rows, schema=PROFILES.schema)


def labels(app: str, team: str | None) -> pa.Table:
    """One label on each node, of a container that arrives at the decision."""
    times = {"window_start": at(DECISION_S), "window_end": at(DECISION_S + 300), "arrived_at": at(DECISION_S + 301)}
    who = {"container": "newcomer", "app": app, "team": team}
    own = {"cluster": "c", **who, "kind": "cpi", "log_slowdown": 0.1, "weight": 1.0}
    return pa.Table.from_pylist([{**own, **times, "node": node} for node in NODES], schema=LABELS.schema)


@pytest.mark.parametrize(
    ("app", "team"),
    [
        ("web", None),
        ("db", None),
        ("kin-7", "team-1"),
        ("never-seen", None),
        ("never-seen", "team-1"),
        ("never-seen", "new"),
    ],
)
@pytest.mark.parametrize("pinned", [0, 8])
@pytest.mark.parametrize("seed", range(3))
def test_a_newcomers_features_are_those_of_its_training_row_to_the_bit(
    scorer_of: Callable[[Snapshot], ModelScorer], seed: int, pinned: int, app: str, team: str | None
) -> None:
    rng = np.random.default_rng(seed)
    seen, known = measured(rng), profiles(rng)
    placed: list[Row] = [
        {"node": "full", "container": f"full-{i}", "app": "db", "cpuset": "0-5"} for i in range(pinned)
    ]
    facts = Facts(described(), placements(*placed))
    now_us = int(at(DECISION_S).timestamp() * 1e6)

    trained_on = training_rows(
        labels(app, team), Sources(node_state(seen, facts), facts.nodes, facts.placements, known)
    )
    snapshot = build_snapshot(
        live_view(now_us, state_by(now_us, seen, facts), facts, known), known, version=1, as_of_us=now_us
    )
    rows = np.array([snapshot.node_index[node] for node in trained_on["node"].to_pylist()], np.int32)
    served = scorer_of(snapshot).pending_features(PendingPod(app, team), rows)

    expected = np.column_stack([floats(trained_on[name]) for name in RAW_NAMES])
    assert np.isfinite(expected[:, :3]).any()
    assert np.array_equal(served, expected, equal_nan=True)
    home, seats = home_of(snapshot, rows), seats_of(snapshot, PendingPod(app, team), rows)
    felt = harms_of(home, len(rows), wanted=True).felt(seats)
    assert np.isfinite(felt).any()
    assert np.array_equal(felt, np.column_stack([floats(trained_on[name]) for name in TOGETHER]), equal_nan=True)


def test_only_what_training_fills_is_filled_in_serving(placement: Placement) -> None:
    """A profile's CPI that is not known goes where the trees learnt to send it, not to a median."""
    filled = set(placement.known_medians())

    assert not {"profile_cpi", "profile_llc_mpki", "profile_qps", "node_frequency_ghz"} & filled
    assert {"pressure_cpu", "sensitivity_llc", "demand_net", "max_neighbour_cpu"} <= filled


def test_a_snapshot_says_which_apps_are_known_by_waiting_alone() -> None:
    now_us = int(datetime(2026, 3, 1, tzinfo=UTC).timestamp() * 1e6)
    facts, shared = Facts(nodes({"node": "n0"}), placements()), {"cluster": "c", "platform": "p", "windows": 30.0}
    told = [("web", -600, "waiting"), ("web", -60, "latency"), ("db", -600, "waiting"), ("db", -60, None)]
    rows = [
        {**shared, "app": app, "as_of": at(second), "kind": kind} for app, second, kind in (*told, ("new", 0, None))
    ]
    known = pa.Table.from_pylist(rows, schema=PROFILES.schema)

    built = build_snapshot(
        live_view(now_us, node_state(usage(), facts), facts, known), known, version=1, as_of_us=now_us
    )

    assert dict(zip(built.apps, built.kinds, strict=True)) == {"web": "latency", "db": "waiting", "new": None}
    codes = np.array([*map(built.apps.index, ("web", "db", "new")), -1])
    assert built.by_waiting(codes).tolist() == [False, True, False, False]


def test_snapshot_of_nothing_can_be_built() -> None:
    now_us = int(datetime(2026, 3, 1, tzinfo=UTC).timestamp() * 1e6)
    facts = Facts(nodes(), placements())

    view = live_view(now_us, node_state(usage(), facts), facts, PROFILES.schema.empty_table())
    snapshot = build_snapshot(view, PROFILES.schema.empty_table(), version=1, as_of_us=now_us)

    assert (snapshot.nodes, snapshot.apps, snapshot.first.tolist()) == ((), (), [0])
