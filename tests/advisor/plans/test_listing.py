"""What a plan does to each node, and what is drawn of it."""

from dataclasses import replace

import pytest

from advisor.plans.listing import OnNode, on_nodes
from advisor.plans.rules.approval_states import approved, drafted
from advisor.ui.site.intervals import WIDTH, intervals
from tests.advisor.plans.made import plan, step


def test_a_node_is_spared_what_its_steps_gain_and_the_target_gets_what_they_add_there() -> None:
    one, other = step(1, source="n0", target="n1"), step(2, source="n0", target="n2")
    stays = replace(step(3, "cpu.max", source="n1", target=None), there=0.0)

    found = {one.node: one for one in on_nodes(drafted(plan(of=(one, other, stays))))}

    assert found["n0"].before == pytest.approx(3.2)
    assert found["n0"].after == 0.0
    assert found["n1"] == OnNode("n1", 1.5, 0.1)
    assert found["n2"] == OnNode("n2", 0.0, 0.1)


def test_what_is_held_back_changes_no_node() -> None:
    made = plan(of=(step(1, source="n0"), step(2, source="n5")), holdout=(2,))

    assert [one.node for one in on_nodes(drafted(made))] == ["n0", "n1"]


def test_what_was_not_approved_changes_no_node_either() -> None:
    made = plan(of=(step(1, source="n0"), step(2, source="n5")))

    after = approved(drafted(made), {2}, {}, made.created_us + 1)

    assert [one.node for one in on_nodes(after)] == ["n1", "n5"]


def test_intervals_are_drawn_on_one_scale_that_begins_at_nothing() -> None:
    wide, below = intervals([(2.0, 1.0, 4.0), (0.5, -1.0, 2.0)])

    assert (wide.low, wide.wide, wide.middle) == (WIDTH / 4, WIDTH * 3 / 4, WIDTH / 2)
    assert (below.low, below.wide, below.middle) == (0.0, WIDTH / 2, WIDTH / 8)
