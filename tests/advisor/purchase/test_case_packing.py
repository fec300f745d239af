"""Cases of many shapes: what stands is used before anything is ordered, and a shortage is proved or not called so."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.purchase.instance import NO_LIMIT, MachineTypes, Shapes, instance
from advisor.purchase.orders.case_packing import best_completed, completed, nothing_packed, packed_alone
from advisor.purchase.orders.order_plan import planned, with_orders
from advisor.purchase.orders.order_problem import (
    Demand,
    OrderProblem,
    OrderTerms,
    Racks,
    cases_of,
    groups_of,
    order_problem,
)
from advisor.purchase.orders.order_program import packs_by
from advisor.purchase.orders.packed_patterns import fits_machine
from advisor.purchase.orders.plan_check import plan_faults
from benchmarks.order_search import drawn_problem

WANTED = [(0, 0), (0, 1)]


def crowded(fullness: float, *, machines: int = 8, seed: int = 1) -> OrderProblem:
    """Twenty shapes, most of them protected, in three zones with machines of a type each; two months.

    Args:
        fullness: share of all cores that pods request.
        machines: in each zone.
        seed: of shapes.
    """
    rng = np.random.default_rng(seed)
    cpu = rng.integers(450, 4_000, 20)
    types = MachineTypes(
        ("large", "small", "medium"), np.array([64_000, 32_000, 40_000]), np.array([244_000, 122_000, 183_000]),
        np.zeros(3, np.int64), np.array([250.0, 190.0, 220.0]), np.full(3, NO_LIMIT),
    )  # fmt: skip
    shapes = Shapes(cpu, cpu * 2, np.zeros(20, np.int64), np.zeros(20, np.int64), np.zeros(20, np.int64))
    share = rng.dirichlet(np.ones(20))
    pods = np.floor(fullness * machines * types.cpu.sum() * share / cpu).astype(np.int64)
    standing = np.zeros((3, 3, 2), np.int64)
    standing[np.arange(3), np.arange(3)] = machines
    ones, nothing = np.ones(3, np.int64), np.zeros(3, np.int64)
    return order_problem(
        instance(shapes, types),
        OrderTerms(types.price * 36, ones, ones, nothing, ones * 9, nothing, nothing, nothing, nothing),
        Racks(("z0", "z1", "z2"), np.arange(3), ("zone 0", "zone 1", "zone 2"), nothing, nothing, nothing[:, None]),
        standing,
        Demand(np.stack([pods, pods])[None], np.arange(20) % 4 > 0, np.ones(20, np.int64)),
    )


@pytest.mark.parametrize("fullness", [0.3, 0.5])
def test_nothing_is_ordered_where_all_pods_have_a_place_on_what_stands(fullness: float) -> None:
    problem = crowded(fullness)

    plan = planned(problem, WANTED, 6.0)

    assert (plan.lines, plan.short, plan.cost) == ([], 0, 0.0)
    assert plan.fewest
    assert plan_faults(problem, plan, WANTED) == []


def test_a_full_fleet_orders_near_the_bound_and_leaves_nobody_short_after_the_delivery() -> None:
    problem = crowded(0.8)

    plan = planned(problem, WANTED, 8.0)

    assert plan.lines
    assert not any(one.short.any() for one in plan.cases if one.case.period == 1)
    assert plan.cost <= 1.15 * plan.bound
    assert plan_faults(problem, plan, WANTED) == []


def test_a_shortage_before_any_delivery_is_proved_where_sums_of_sizes_prove_it() -> None:
    plan = planned(crowded(1.4), WANTED, 6.0)
    early = next(one for one in plan.cases if one.case.period == 0)

    assert 0 < early.least <= early.short.sum() <= 1.1 * early.least + 3


@given(seed=st.integers(0, 100_000))
def test_pods_short_after_completion_fit_no_machine_that_may_hold_them(seed: int) -> None:
    """Best fit leaves no room unused, and its packing stands the check."""
    problem = drawn_problem(np.random.default_rng(seed))
    standing = with_orders(problem, [])
    for case in cases_of(problem, [(0, problem.periods - 1)]):
        done = completed(standing, nothing_packed(case))
        spread = len(groups_of(problem, case)) > 1
        for shape in np.flatnonzero(done.short).tolist() if not spread else ():
            more = np.eye(len(done.short), dtype=np.int64)[shape]
            assert not any(fits_machine(problem.of, one.machine, one.counts + more) for one in done.packed)
        again = completed(standing, done)
        assert again.short.tolist() == done.short.tolist()


def test_machines_that_are_gone_are_taken_from_a_packing_before_it_is_completed() -> None:
    problem = crowded(0.4)
    case = cases_of(problem, [(0, 0)])[0]
    packed = completed(with_orders(problem, []), nothing_packed(case))
    fewer = problem._replace(standing=problem.standing - (problem.standing > 0))

    moved = completed(with_orders(fewer, []), packed)

    assert not moved.short.any()
    used = np.zeros(3, np.int64)
    for one in moved.packed:
        used[one.machine] += one.machines
    assert (used <= 7).all()


def test_no_patterns_at_all_still_place_what_fits() -> None:
    problem = crowded(0.5)
    case = cases_of(problem, [(0, 0)])[0]
    none = packs_by([np.empty((0, 20), np.int64)] * 3)

    assert not packed_alone(with_orders(problem, []), case, none, 0.2).short.any()


def test_tight_cases_are_packed_by_products_where_best_fit_leaves_pods_short() -> None:
    """173 pods of a planner's site, 380 of 384 cores: an exact search places all on twelve machines."""
    cpu, memory = np.array([1, 2, 2, 4, 4]) * 1_000, np.array([4, 4, 8, 16, 24]) * 1_024
    nothing, one = np.zeros(5, np.int64), np.ones(1, np.int64)
    types = MachineTypes(("m",), one * 32_000, one * 131_072, one * 0, np.array([1.0]), one * 0)
    problem = order_problem(
        instance(Shapes(cpu, memory, nothing, nothing, nothing), types),
        OrderTerms(types.price, one, one, one * 0, one * 0, one * 0, one * 0, one * 0, one * 0),
        Racks(("r",), one * 0, ("zone",), one * 0, one * 0, np.zeros((1, 1), np.int64)),
        np.full((1, 1, 1), 12),
        Demand(np.array([[[42, 72, 21, 26, 12]]]), np.zeros(5, bool), np.ones(5, np.int64)),
    )
    case = nothing_packed(cases_of(problem, [(0, 0)])[0])

    assert completed(problem, case).short.any()
    assert not best_completed(problem, case).short.any()
