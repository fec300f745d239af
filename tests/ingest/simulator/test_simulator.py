"""The simulator: a law with the shape of real interference, a cluster that keeps its books, and faults as announced."""

import hashlib
from collections.abc import Sequence
from dataclasses import fields, replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cohabit.ingestion.simulation import simulate_into
from ingest.decode.contract import Context, Decoded
from ingest.decode.formats.native import decoder
from ingest.schema.tables import NODES, PLACEMENTS, TIMESTAMP, USAGE, Table
from ingest.simulator.law import PLATFORMS, TEAMS, Law, SaturatingLaw, draw_apps
from ingest.simulator.laws import LAWS, QueueingLaw, ThresholdLaw, past_knee, queue_length
from ingest.simulator.messages import BAD, NO_FAULTS, PERF, Faults, Message
from ingest.simulator.simulate import Plan, built_in, hidden_apps, simulate
from ingest.simulator.simulated_cluster import (
    Action,
    Container,
    Deploy,
    Event,
    Place,
    Remove,
    Truth,
    churn,
    empty_cluster,
    fill,
    step,
)

FAULTS = Faults(missing=0.1, late=0.05, duplicate=0.04, bad=0.02, skew_s=4.0)
PLAN = Plan(nodes=12, apps=9, per_node=5, hours=1.0, seed=3, faults=FAULTS)
CLEAN = replace(PLAN, hours=0.25, faults=NO_FAULTS)
SHOWN = {"cpi", "cpu_us_per_request", "rt_mean_ms", "rt_p99_ms"}
"""The signals through which slowdown may show."""
TOPIC_FILES = ["node_usage.log", "nodes.log", "placements.log", "usage.log"]

APPS = 7
HIDDEN_APPS = draw_apps(APPS, np.random.default_rng(5))
LAW = SaturatingLaw(HIDDEN_APPS)
every_law = pytest.mark.parametrize("law", [make(HIDDEN_APPS) for make in LAWS.values()], ids=LAWS)
beside = st.lists(st.floats(0, 20), min_size=APPS, max_size=APPS).map(np.array)
victims = st.integers(0, APPS - 1)
platforms = st.integers(0, len(PLATFORMS) - 1)
loads = st.floats(0.2, 1.0)
ULPS = 1 - 1e-13
"""Rounding may take this from a sum of many terms."""


def slowdown(victim: int, neighbours: np.ndarray, load: float, platform: int, law: Law = LAW) -> float:
    return float(
        law.slowdown(np.array([victim]), neighbours[None, :], np.array([load]), np.array([platform]))[0],
    )


@every_law
@given(victim=victims, neighbours=beside, load=loads, platform=platforms)
def test_neighbours_never_speed_up(law: Law, victim: int, neighbours: np.ndarray, load: float, platform: int) -> None:
    assert slowdown(victim, neighbours, load, platform, law) >= 1.0
    assert slowdown(victim, np.zeros(APPS), load, platform, law) == 1.0


@every_law
@given(victim=victims, neighbours=beside, load=loads, platform=platforms, joins=victims, with_load=loads)
def test_a_further_neighbour_never_lowers_the_slowdown(
    law: Law, victim: int, neighbours: np.ndarray, load: float, platform: int, joins: int, with_load: float
) -> None:
    more = neighbours + with_load * (np.arange(APPS) == joins)

    after, before = (slowdown(victim, some, load, platform, law) for some in (more, neighbours))

    assert after >= before * ULPS


@given(victim=victims, neighbours=beside, load=loads, platform=platforms)
def test_harm_saturates(victim: int, neighbours: np.ndarray, load: float, platform: int) -> None:
    none, once, twice = (slowdown(victim, k * neighbours, load, platform) for k in (0, 1, 2))
    limit = 1 + (0.6 + 0.4 * load) * LAW.apps.sensitivity[victim] @ np.array(LAW.saturation)

    assert twice - once <= once - none + 1e-9
    assert slowdown(victim, 1e6 * neighbours, load, platform) <= limit + 1e-9


@pytest.mark.parametrize("law", [LAW, ThresholdLaw(HIDDEN_APPS)], ids=["saturating", "threshold"])
def test_a_busy_victim_suffers_more(law: Law) -> None:
    assert slowdown(0, np.full(APPS, 2.0), 1.0, 0, law) > slowdown(0, np.full(APPS, 2.0), 0.3, 0, law)


def test_a_queue_is_as_long_as_the_textbook_says() -> None:
    rho = np.array([0.0, 0.5, 1.0, 1e6])

    assert queue_length(rho, places=2) == pytest.approx([0.0, (0.5 + 2 * 0.25) / 1.75, 1.0, 2.0], rel=1e-5)
    assert queue_length(np.array([0.3]), places=60) == pytest.approx(0.3 / 0.7)


def test_delays_of_queues_multiply() -> None:
    def alone(resource: int) -> float:
        only = np.arange(HIDDEN_APPS.sensitivity.shape[1]) == resource
        law = QueueingLaw(replace(HIDDEN_APPS, sensitivity=HIDDEN_APPS.sensitivity * only))
        return slowdown(0, np.full(APPS, 2.0), 0.6, 0, law)

    together = slowdown(0, np.full(APPS, 2.0), 0.6, 0, QueueingLaw(HIDDEN_APPS))

    assert together == pytest.approx(np.prod([alone(r) for r in range(HIDDEN_APPS.sensitivity.shape[1])]))


def test_harm_sets_in_past_the_knee() -> None:
    pressure, knee = np.array([0.0, 0.25, 0.5, 1.5]), np.full(4, 0.5)

    assert past_knee(pressure, knee) == pytest.approx([0.0, 0.0, 0.04 * np.log(2), 1.0], abs=1e-3)


def test_the_worst_resource_counts_and_cache_and_bandwidth_together_hurt_more() -> None:
    def of(resources: set[int], synergy: float) -> float:
        only = np.isin(np.arange(HIDDEN_APPS.sensitivity.shape[1]), list(resources))
        apps = replace(HIDDEN_APPS, sensitivity=HIDDEN_APPS.sensitivity * only)
        return slowdown(0, np.full(APPS, 3.0), 0.6, 0, ThresholdLaw(apps, synergy=synergy))

    llc, memory_bandwidth = of({1}, 0.0), of({2}, 0.0)

    assert min(llc, memory_bandwidth) > 1.01
    assert of({1, 2}, 0.0) == max(llc, memory_bandwidth)
    assert of({1, 2}, 0.5) == pytest.approx(
        max(llc, memory_bandwidth) + 0.5 * np.sqrt((llc - 1) * (memory_bandwidth - 1))
    )


@pytest.mark.parametrize("name", LAWS)
def test_every_law_shows_through_the_same_counters(name: str) -> None:
    plan = replace(CLEAN, law=name)
    calm = {name: make(replace(HIDDEN_APPS, sensitivity=0 * HIDDEN_APPS.sensitivity)) for name, make in LAWS.items()}
    ran = list(simulate(plan, calm[name], (False,) * APPS))

    assert [m for m, _ in ran] == [m for m, _ in simulate(plan, calm["saturating"], (False,) * APPS)]
    assert all((truth.slowdown == 1.0).all() for _, truth in ran)
    assert max(truth.slowdown.max() for _, truth in simulate(plan, *built_in(plan))) > 1.3


def after(*actions: Action, running: Sequence[Action] = ()) -> tuple[tuple[Container, ...], tuple[Event, ...]]:
    """What runs, and the events of the last step, after `running` started and `actions` were taken."""
    state, rng = empty_cluster(3, (False,) * APPS, 1e9), np.random.default_rng(0)
    state, _, _ = step(state, running, law=LAW, interval_s=30, rng=rng)
    state, records, truth = step(state, actions, law=LAW, interval_s=30, rng=rng)
    assert records.containers == truth.containers == state.containers
    assert all(len(values) == len(state.containers) for values in records.signals.values())
    return state.containers, records.events


def test_a_placement_starts_a_container_under_a_new_name() -> None:
    running, events = after(Place(2, 1), Place(2, 1, version=7), running=[Place(0, 0)])

    assert [(c.uid, c.app, c.node, c.version, c.born_s) for c in running] == [
        ("c000000", 0, 0, 1, 1e9),
        ("c000001", 2, 1, 1, 1e9 + 30),
        ("c000002", 2, 1, 7, 1e9 + 30),
    ]
    assert events == tuple(Event("add", c) for c in running[1:])


def test_a_removal_ends_a_container_and_its_name_is_never_used_again() -> None:
    running, events = after(Remove("c000001"), Place(0, 0), running=[Place(0, 0), Place(1, 0)])

    assert [c.uid for c in running] == ["c000000", "c000002"]
    assert [(e.kind, e.container.uid) for e in events] == [("delete", "c000001"), ("add", "c000002")]


def test_a_deploy_changes_every_container_of_its_app_and_no_other() -> None:
    running, events = after(Deploy(1, version=9), running=[Place(0, 0), Place(1, 0), Place(1, 2)])

    assert [c.version for c in running] == [1, 9, 9]
    assert [(e.kind, e.container.uid) for e in events] == [("change", "c000001"), ("change", "c000002")]


def test_containers_are_conserved() -> None:
    rng = np.random.default_rng(2)
    state = empty_cluster(4, (False,) * APPS, 1e9)
    for number in range(60):
        actions = fill(state, 5, rng, APPS) if number == 0 else churn(state, 0.1, rng, APPS)
        before = {c.uid for c in state.containers}
        state, records, _ = step(state, actions, law=LAW, interval_s=30, rng=rng)
        added, deleted = ({e.container.uid for e in records.events if e.kind == kind} for kind in ("add", "delete"))
        assert {c.uid for c in state.containers} == (before - deleted) | added
        assert deleted <= before
        assert not added & before
        assert number == 0 or len(added) == len(deleted)


Run = list[tuple[list[Message], Truth]]


@pytest.fixture(scope="module")
def run() -> Run:
    """An hour with many times the usual faults."""
    return list(simulate(PLAN, *built_in(PLAN)))


def messages_of(run: Run, topic: str = USAGE.name) -> list[Message]:
    return [m for arrived, _ in run for m in arrived if m.topic == topic]


def good(run: Run) -> list[tuple[Message, dict[str, object]]]:
    """Usage messages that are not spoilt, with their records."""
    return [(m, orjson.loads(m.value)) for m in messages_of(run) if m.value not in BAD]


def once(run: Run) -> list[tuple[Message, dict[str, object]]]:
    """The same, each once."""
    return [*{m.value: (m, record) for m, record in good(run)}.values()]


def about(share: float, n: int) -> object:
    """A share of n independent cases, within four standard deviations."""
    return pytest.approx(share, abs=4 * np.sqrt(share * (1 - share) / n))


def about_times(share: float, n: int) -> object:
    """How many of n independent cases, within four standard deviations."""
    return pytest.approx(share * n, abs=4 * np.sqrt(share * (1 - share) * n))


def test_the_same_plan_and_seed_give_the_same_bytes() -> None:
    first, again = (list(simulate(CLEAN, *built_in(CLEAN))) for _ in range(2))

    assert [m for m, _ in first] == [m for m, _ in again]
    assert all(np.array_equal(a.slowdown, b.slowdown) for (_, a), (_, b) in zip(first, again, strict=True))


@pytest.mark.parametrize("faults", [NO_FAULTS, replace(NO_FAULTS, missing=0.3)], ids=["no faults", "missing counters"])
def test_another_seed_is_another_run(faults: Faults) -> None:
    def unread(seed: int) -> set[tuple[object, object]]:
        plan = replace(CLEAN, faults=faults, seed=seed)
        return {(r["node"], r["ts"]) for _, r in good(list(simulate(plan, *built_in(plan)))) if "cpi" not in r}

    def values(seed: int) -> list[bytes]:
        plan = replace(CLEAN, seed=seed)
        return [m.value for m in messages_of(list(simulate(plan, *built_in(plan))))]

    assert values(3) != values(4)
    if faults.missing:
        assert unread(3) != unread(4)


def test_messages_come_in_order_of_arrival(run: Run) -> None:
    everything = [m for arrived, _ in run for m in arrived]

    assert all(a.arrived_ms <= b.arrived_ms for a, b in pairwise(everything))
    assert all(m.arrived_ms <= truth.time_s * 1000 for arrived, truth in run[:-1] for m in arrived)


def test_none_is_lost_and_none_made_up(run: Run) -> None:
    clean = list(simulate(CLEAN, *built_in(CLEAN)))
    expected = [(c.uid, round(truth.time_s * 1000)) for _, truth in clean for c in truth.containers]
    containers = sum(len(truth.containers) for _, truth in run)

    assert sorted((r["container"], r["ts"]) for _, r in good(clean)) == sorted(expected)
    assert len(messages_of(run)) - containers == about_times(FAULTS.duplicate, containers)
    assert {r["container"] for _, r in good(run)} == {c.uid for _, truth in run for c in truth.containers}


def test_nodes_and_placements_tell_who_is_where(run: Run) -> None:
    standing: dict[object, object] = {}
    for message in messages_of(run, PLACEMENTS.name):
        record = orjson.loads(message.value)
        if record["event"] == "delete":
            del standing[record["container"]]
        else:
            standing[record["container"]] = record["node"]

    assert len(messages_of(run, NODES.name)) == PLAN.nodes
    assert standing == {c.uid: f"node-{c.node:04d}" for c in run[-1][1].containers}


def test_faults_occur_as_often_as_announced(run: Run) -> None:
    seen, n = once(run), len(messages_of(run))
    skew = {r["node"]: 4000 if r["node"] == "node-0005" else 0 for _, r in seen}
    delay_s = np.array([(m.arrived_ms - int(str(r["ts"])) + skew[r["node"]]) / 1000 for m, r in seen])
    minutes = {(r["node"], int(str(r["ts"])) // 60_000): "cpi" in r for _, r in seen if r["node"] != "node-0005"}

    assert 1 - len(good(run)) / n == about(FAULTS.bad, n)
    assert len(good(run)) / len(seen) - 1 == about(FAULTS.duplicate, n)
    assert (delay_s >= 20).mean() == about(FAULTS.late, n)
    assert delay_s.max() <= 200
    assert delay_s[delay_s < 20].max() <= 3.01
    assert delay_s.min() >= 0.49
    assert 1 - np.mean(list(minutes.values())) == about(FAULTS.missing, len(minutes))


def test_only_every_eleventh_nodes_clock_is_wrong(run: Run) -> None:
    offset = {r["node"]: int(str(r["ts"])) % 30_000 for _, r in good(run)}

    assert {node for node, ms in offset.items() if ms} == {"node-0005"}
    assert offset["node-0005"] == 4000


def test_counters_that_cannot_be_read_fail_together_and_leave_the_rest(run: Run) -> None:
    unread = [r for _, r in good(run) if "cpi" not in r]

    assert unread
    assert all(not set(PERF) & set(r) and "cpu_cores" in r for r in unread)


def test_a_message_is_spoilt_in_every_way(run: Run) -> None:
    assert {m.value for m in messages_of(run)} & set(BAD) == set(BAD)


def test_without_faults_nothing_goes_wrong() -> None:
    clean = list(simulate(CLEAN, *built_in(CLEAN)))
    seen = good(clean)

    assert len(seen) == len(messages_of(clean)) == len(once(clean))
    assert all("cpi" in r and int(str(r["ts"])) % 30_000 == 0 for _, r in seen)
    assert max(m.arrived_ms - int(str(r["ts"])) for m, r in seen) <= 3001


def decoded(messages: Sequence[Message], table: Table) -> Decoded:
    arrived = pa.array([m.arrived_ms * 1000 for m in messages], TIMESTAMP)
    return decoder(table)(pa.array([m.value for m in messages], pa.binary()), Context(arrived))


@pytest.mark.parametrize("table", [USAGE, NODES, PLACEMENTS], ids=lambda table: table.name)
def test_every_record_decodes_but_the_spoilt_ones(run: Run, table: Table) -> None:
    messages = messages_of(run, table.name)
    spoilt = [number for number, m in enumerate(messages) if m.value in BAD]

    found = decoded(messages, table)

    assert sorted(found.rejects["message"].to_pylist()) == spoilt
    assert found.rows.num_rows == len(messages) - len(spoilt)
    assert found.unknown_fields == {}


def test_what_is_true_shows_in_signals_alone() -> None:
    hidden = hidden_apps(CLEAN)
    calm = SaturatingLaw(replace(hidden, sensitivity=np.zeros_like(hidden.sensitivity)))
    ours = list(simulate(CLEAN, *built_in(CLEAN)))
    theirs = list(simulate(CLEAN, calm, built_in(CLEAN)[1]))

    differ: set[str] = set()
    for (a, ra), (b, rb) in zip(good(ours), good(theirs), strict=True):
        assert (a.arrived_ms, a.key, ra.keys()) == (b.arrived_ms, b.key, rb.keys())
        differ |= {name for name in ra if ra[name] != rb[name]}
    assert differ == SHOWN
    assert all(truth.slowdown.max() > 1.1 for _, truth in ours)
    assert all((truth.slowdown == 1.0).all() for _, truth in theirs)


def test_no_record_holds_the_truth() -> None:
    clean = list(simulate(CLEAN, *built_in(CLEAN)))
    true = {(c.uid, round(t.time_s * 1000)): x for _, t in clean for c, x in zip(t.containers, t.slowdown, strict=True)}
    catalogue = {c.name for table in (USAGE, NODES, PLACEMENTS) for c in table.columns}

    for _, record in good(clean):
        ratio = true[str(record["container"]), int(str(record["ts"]))]
        assert record.keys() <= catalogue
        assert round(ratio, 6) == 1.0 or round(ratio, 6) not in record.values()


def test_truth_is_written_only_where_asked(tmp_path: Path) -> None:
    silent = simulate_into(tmp_path / "a", CLEAN, lambda _done, _of: None)
    spoken = simulate_into(tmp_path / "b", CLEAN, lambda _done, _of: None, truth=tmp_path / "truth.parquet")

    truth = pq.read_table(tmp_path / "truth.parquet")
    assert silent == spoken
    assert sorted(p.name for p in tmp_path.rglob("*.*")) == sorted(["truth.parquet", *TOPIC_FILES, *TOPIC_FILES])
    assert all((tmp_path / "a" / n).read_bytes() == (tmp_path / "b" / n).read_bytes() for n in TOPIC_FILES)
    assert truth.num_rows == len(messages_of(list(simulate(CLEAN, *built_in(CLEAN)))))
    assert min(truth["slowdown_ratio"].to_pylist()) >= 1.0


APPS_OF_SEED_1 = "14cc390fb0ac079d14ca4a2af17127f02753fc57e36c3289bbddb23b343301d7"


def test_without_likeness_apps_are_those_that_were_always_drawn() -> None:
    apps = hidden_apps(Plan(apps=24, seed=1))

    bits = b"".join(np.ascontiguousarray(getattr(apps, f.name)).tobytes() for f in fields(apps))

    assert hashlib.sha256(bits).hexdigest() == APPS_OF_SEED_1


def test_apps_of_a_team_are_alike_as_far_as_they_were_asked_to_be() -> None:
    """Share of the variance between teams, of sensitivities that also follow each app's own demand; means stay."""
    logs = {
        likeness: np.log([hidden_apps(Plan(apps=300, seed=s, team_likeness=likeness)).sensitivity for s in range(40)])
        for likeness in (0.0, 0.6, 1.0)
    }

    def between(of: np.ndarray) -> float:
        by_team = of.reshape(len(of), -1, TEAMS, of.shape[2])
        return float(by_team.mean(axis=1).var(axis=1).mean() / by_team.var(axis=(1, 2)).mean())

    found = {likeness: between(of) for likeness, of in logs.items()}
    assert found[0.0] < 0.05
    assert 0.4 < found[0.6] < 0.7
    assert found[1.0] > 0.9
    assert logs[0.6].mean() == pytest.approx(logs[0.0].mean(), abs=0.1)
    assert logs[0.6].std() == pytest.approx(logs[0.0].std(), rel=0.1)
