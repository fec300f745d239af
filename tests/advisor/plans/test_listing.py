"""What a plan does to each node, and what is drawn of it."""

from dataclasses import replace
from pathlib import Path

import pytest

from advisor.plans.listing import OnNode, helping, on_nodes
from advisor.plans.rules.approval_states import approved, drafted
from advisor.plans.rules.did_estimate import Outcome
from advisor.ui.site.intervals import WIDTH, intervals
from tests.advisor.plans.made import LASTS_US, NOW_US, plan, step
from tests.advisor.plans.offices import DRAFTER, Bureau
from tests.advisor.stores import migrated_store


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


def test_a_container_s_plans_are_listed_until_their_outcome_is_known(tmp_path: Path) -> None:
    with migrated_store(tmp_path / "store.sqlite") as store:
        bureau = Bureau(store)
        bureau.put(plan(1, name="p1"))

        def listed(container: str) -> list[str]:
            return [one.state for one in helping(bureau.desk, container)]

        states = [listed("victim")]
        bureau.desk.approve("p1", 1, None, DRAFTER, lambda _of, _steps: {})
        bureau.desk.export("p1", 2, lambda _connection, _of: b"{}", DRAFTER)
        bureau.now_us = NOW_US + 2 * LASTS_US
        states += [listed("victim"), listed("uid-1"), listed("other")]
        bureau.desk.conclude(bureau.desk.one("p1"), Outcome(1.0, 0.0, 0, 0), DRAFTER)

        assert states == [["drafted"], ["exported"], ["exported"], []]
        assert listed("victim") == []
