"""Risk: a plan for many paths is short on as many unseen ones as it says."""

import numpy as np
import pytest

from advisor.purchase.instance import NO_LIMIT, Ints, MachineTypes, Shapes, instance
from advisor.purchase.orders.order_plan import patterns_of
from advisor.purchase.orders.order_problem import Demand, OrderProblem, OrderTerms, Racks, order_problem
from advisor.purchase.orders.path_risk import covered_paths, planned_at_risk

HIGHEST = 200


def one_month_ahead(pods: Ints) -> OrderProblem:
    """One machine a pod, at 1 a month, bought today for next month; of each path the pods of that month."""
    one = np.array([1])
    types = MachineTypes(("m1",), one * 1_000, one * 1_024, one * 0, np.array([1.0]), np.array([NO_LIMIT]))
    return order_problem(
        instance(Shapes(one * 1_000, one * 1_024, one * 0, one * 0, one * 0), types),
        OrderTerms(np.array([1.0]), *np.array([[1], [1], [0], [9], [0], [0], [0], [0]])),
        Racks(("a1",), one * 0, ("zone a",), one, one, np.ones((1, 1), np.int64)),
        np.zeros((1, 1, 2), np.int64),
        Demand(np.stack([0 * pods, pods], axis=1)[:, :, None], np.array([False]), one),
    )


def test_machines_for_a_single_pod_are_the_quantile_of_demand() -> None:
    pods = np.random.default_rng(1).permutation(np.arange(1, HIGHEST + 1))

    found = planned_at_risk(one_month_ahead(pods), 0.05, 20.0)

    machines = found.plan.lines[0].machines
    assert 1 - machines / HIGHEST == pytest.approx(found.risk, abs=0.005)
    assert HIGHEST * 0.95 <= machines <= HIGHEST * 0.96
    assert found.short.sum() == HIGHEST - machines
    assert found.worst_short == pytest.approx(np.mean([(k - machines) / k for k in range(191, 201)]), abs=0.01)


def test_the_stated_risk_counts_the_path_that_the_plan_rests_on() -> None:
    pods = np.random.default_rng(2).integers(1, 1_000, 40)

    found = planned_at_risk(one_month_ahead(pods), 0.0, 20.0)

    assert not found.short.any()
    assert found.risk == 1 / 40


def test_unseen_paths_are_judged_on_the_machines_of_the_plan() -> None:
    found = planned_at_risk(one_month_ahead(np.arange(1, 41)), 0.1, 20.0)
    unseen = one_month_ahead(np.array([found.plan.lines[0].machines, found.plan.lines[0].machines + 1]))

    patterns = patterns_of(unseen, [(0, 1), (1, 1)])

    assert covered_paths(unseen, found.plan, [0, 1], patterns).tolist() == [True, False]


def test_demand_before_the_first_delivery_makes_a_risk_that_no_order_lowers() -> None:
    problem = one_month_ahead(np.arange(1, 41))
    pods = problem.demand.pods.copy()
    pods[:10, 0] = 1
    early = problem._replace(demand=problem.demand._replace(pods=pods))

    found = planned_at_risk(early, 0.1, 20.0)

    assert found.short[:10].all()
    assert found.risk >= 0.25
    assert found.plan.lines[0].machines == 40
