"""Orders: the cheapest that pack, within racks, lead times and domains; an exhaustive search is the judge."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.purchase.instance import NO_LIMIT, MachineTypes, Shapes, instance
from advisor.purchase.orders.order_plan import OrderLine, Patterns, planned
from advisor.purchase.orders.order_problem import Demand, OrderProblem, OrderTerms, Racks, order_problem
from advisor.purchase.orders.packed_patterns import fits_machine, maximal_patterns
from advisor.purchase.orders.plan_check import plan_faults
from benchmarks.order_search import drawn_problem
from benchmarks.purchase_orders import compared

MONTHS = 3
WANTED = [(0, month) for month in range(MONTHS)]


def site(pods: list[int], *, protected: bool = False, min_domains: int = 1, lead: int = 1) -> OrderProblem:
    """One shape of 2 cores, one SKU of 4 cores at 10 a month, a rack of four machines in each of two zones."""
    two, zones = np.array([2]), np.array([2, 2])
    return order_problem(
        instance(
            Shapes(two * 1_000, two * 1_024, two * 0, two * 0, two * 0),
            MachineTypes(("m4",), two * 2_000, two * 8_192, two * 0, np.array([10.0]), np.array([NO_LIMIT])),
        ),
        OrderTerms(np.array([300.0]), np.array([lead]), *np.array([[1], [0], [9], [500], [1], [1], [0]])),
        Racks(("a1", "b1"), np.arange(2), ("zone a", "zone b"), zones * 1_000, zones * 2, np.full((2, 1), 9)),
        np.zeros((1, 2, len(pods)), np.int64),
        Demand(np.array(pods).reshape(1, -1, 1), np.array([protected]), np.array([min_domains])),
    )  # fmt: skip


def bought(problem: OrderProblem) -> list[OrderLine]:
    plan = planned(problem, WANTED, 5.0)
    assert plan_faults(problem, plan, WANTED) == []
    return plan.lines


@given(seed=st.integers(0, 100_000))
def test_orders_cost_what_the_exhaustive_optimum_costs_and_survive_the_check(seed: int) -> None:
    one = compared(drawn_problem(np.random.default_rng(seed)))

    assert one.faults == []
    assert (one.short > 0) == (one.least is None)
    assert one.excess == pytest.approx(0.0)
    assert one.gap == pytest.approx(0.0, abs=1e-6)


def test_machines_are_ordered_a_lead_time_before_demand_and_not_earlier() -> None:
    lines = bought(site([0, 0, 4]))

    assert [(one.ordered, one.serves) for one in lines] == [(1, 2)]
    assert sum(one.machines for one in lines) == 2


def test_the_loss_of_a_zone_takes_as_many_machines_again_where_pods_are_protected() -> None:
    lines = bought(site([0, 0, 4], protected=True))

    by_rack = np.bincount([one.rack for one in lines], [one.machines for one in lines])
    assert by_rack.tolist() == [2.0, 2.0]


def test_a_spread_of_two_domains_divides_machines_among_zones() -> None:
    lines = bought(site([0, 0, 4], min_domains=2))

    assert sorted((one.rack, one.machines) for one in lines) == [(0, 1), (1, 1)]


def test_demand_before_the_first_delivery_is_short_and_later_demand_is_served() -> None:
    problem = site([3, 4, 4], lead=2)

    plan = planned(problem, WANTED, 5.0)

    assert [int(one.short.sum()) for one in plan.cases] == [3, 4, 0]
    assert plan.cost == 20.0


def test_power_of_racks_limits_what_can_be_bought() -> None:
    plan = planned(site([0, 0, 20]), WANTED, 5.0)

    assert [int(one.short.sum()) for one in plan.cases] == [0, 0, 4]
    assert plan_faults(site([0, 0, 20]), plan, WANTED) == []


def test_lots_are_bought_whole_and_the_budget_holds() -> None:
    problem = site([0, 0, 2])
    lots = problem._replace(terms=problem.terms._replace(lot=np.array([3])))
    assert sum(one.machines for one in bought(lots)) == 3

    poor = lots._replace(limits=lots.limits._replace(budget=899.0))
    assert planned(poor, WANTED, 5.0).short == 2


def test_poor_patterns_of_a_packer_cost_nothing_more() -> None:
    """Orders by sums of sizes need no patterns, and what they leave short is placed pod by pod."""
    problem = site([0, 0, 3])

    alone = planned(problem, WANTED, 5.0, Patterns([np.array([[1]])], complete=False))

    assert (alone.cost, alone.bound, alone.gap) == (20.0, 20.0, 0.0)


def test_a_large_site_is_planned_by_sums_of_sizes_and_packed_case_by_case() -> None:
    problem = site([0, 3, 7], protected=True)
    many = Patterns([np.tile([[1], [2]], (2_000, 1))], complete=False)

    plan = planned(problem, WANTED, 10.0, many)

    assert (plan.short, plan.fewest) == (0, True)
    assert plan_faults(problem, plan, WANTED) == []
    assert plan.cost == plan.bound == 2 * 4 * 10.0 + 4 * 10.0


def test_shares_fill_devices_and_not_sums_of_devices() -> None:
    three = np.array([1_000])
    types = MachineTypes(("g",), three * 64, three * 64, np.array([2]), np.array([1.0]), np.array([9]))
    of = instance(Shapes(three, three, np.array([0]), np.array([600]), np.array([9])), types)

    patterns = maximal_patterns(of, 0, np.array([9]))

    assert patterns is not None
    assert patterns.tolist() == [[2]]
    assert not fits_machine(of, 0, np.array([3]))


def test_the_check_finds_what_is_wrong_with_a_plan() -> None:
    problem = site([0, 0, 4], protected=True)
    plan = planned(problem, WANTED, 5.0)
    line = plan.lines[0]

    early = plan._replace(lines=[line._replace(serves=line.ordered), *plan.lines[1:]])
    fewer = plan._replace(lines=plan.lines[1:])
    more = plan._replace(lines=[line._replace(machines=5), *plan.lines[1:]])

    assert any("lead time" in fault for fault in plan_faults(problem, early, WANTED))
    assert any("more machines hold pods than there are" in fault for fault in plan_faults(problem, fewer, WANTED))
    assert any(fault.startswith("rack a1") for fault in plan_faults(problem, more, WANTED))
    assert len(plan_faults(problem, plan._replace(cases=plan.cases[1:]), WANTED)) == 1
