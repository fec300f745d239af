"""Stock: kubelets show waiting and throttling, and nothing of requests, latency or hardware counters."""

import json
from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import pytest

from ingest.simulator.law import HIDDEN
from ingest.simulator.laws import LAWS
from ingest.simulator.messages import NO_FAULTS
from ingest.simulator.simulate import Plan, built_in, hidden_apps, simulate
from ingest.simulator.stock import CPU, DISK, SENT, WORK, by_resource, draw_stock

AFTERNOON = datetime(2026, 3, 2, 3, tzinfo=UTC)
"""The day of simulated apps has six hours; some with a limit are at their peak."""
PLAN = Plan(nodes=6, apps=12, per_node=8, hours=0.2, seed=2, stock=True, faults=NO_FAULTS, start=AFTERNOON)
PRESSURES = {"psi_cpu_some_frac", "psi_memory_some_frac", "psi_memory_full_frac", "psi_io_full_frac"}
Record = dict[str, float | str]


def sent(topic: str, plan: Plan = PLAN) -> list[Record]:
    found = [message for messages, _ in simulate(plan, *built_in(plan)) for message in messages]
    return [json.loads(message.value) for message in found if message.topic == topic]


@pytest.fixture(scope="module")
def usage() -> list[Record]:
    return sent("usage")


def test_only_what_a_kubelet_has_is_sent(usage: list[Record]) -> None:
    identity = {"cluster", "node", "container", "ts", "interval_s", "app", "team", "qos"}

    assert {name for record in usage for name in record} == identity | set(SENT) | PRESSURES | {"cpu_throttled_frac"}


def test_throttling_is_sent_where_there_is_a_limit_and_no_more_is_used(usage: list[Record]) -> None:
    limit = {record["container"]: record.get("cpu_limit_cores") for record in sent("placements")}

    for record in usage:
        cores = limit[record["container"]]
        assert ("cpu_throttled_frac" in record) == (cores is not None)
        if cores is not None:
            assert float(record["cpu_cores"]) <= float(cores) + 1e-3
    assert any(float(record.get("cpu_throttled_frac", 0.0)) > 0.05 for record in usage)


def test_pressure_holds_the_time_throttled_and_is_a_share(usage: list[Record]) -> None:
    for record in usage:
        assert 0.0 <= float(record["psi_cpu_some_frac"]) <= 0.95
        assert float(record["psi_cpu_some_frac"]) >= min(0.95, float(record.get("cpu_throttled_frac", 0.0))) - 1e-6


@pytest.mark.parametrize("law", LAWS)
def test_each_resource_alone_slows_down_no_more_than_all_together(law: str) -> None:
    apps = hidden_apps(PLAN)
    victim, load, platform = np.arange(12), np.full(12, 0.7), np.arange(12) % 3
    neighbours = np.full((12, 12), 0.4)
    whole = LAWS[law](apps).slowdown(victim, neighbours, load, platform)

    alone = by_resource(LAWS[law](apps), victim, neighbours, load, platform)

    assert alone.shape == (12, len(HIDDEN))
    assert (alone >= 1.0).all()
    assert (alone <= whole[:, None] + 1e-9).all()
    np.testing.assert_allclose(by_resource(LAWS[law](apps), victim, 0.0 * neighbours, load, platform), 1.0)
    assert alone[:, [CPU, DISK]].max() > 1.0


def test_of_a_mixed_fleet_every_second_app_shows_waiting_in_place_of_its_work() -> None:
    plans = (replace(PLAN, stock=False, mixed=True), replace(PLAN, stock=False))
    mixed, whole = ({(one["container"], one["ts"]): one for one in sent("usage", plan)} for plan in plans)

    assert mixed.keys() == whole.keys()
    stock = {key for key, record in mixed.items() if "psi_cpu_some_frac" in record}
    assert 0.2 < len(stock) / len(mixed) < 0.8
    assert all(mixed[key] == whole[key] for key in mixed.keys() - stock)
    for key in stock:
        kept = {name: value for name, value in mixed[key].items() if name not in PRESSURES}
        assert kept == {name: value for name, value in whole[key].items() if name not in WORK}


def test_spreads_are_from_one_cpu_to_all_of_the_smallest_node() -> None:
    stock = draw_stock(hidden_apps(Plan(apps=200)), np.random.default_rng(0))

    assert stock.spread.min() == 1.0
    assert 16.0 < stock.spread.max() <= 32.0
    assert 0.1 < np.isfinite(stock.limit_cores).mean() < 0.2
