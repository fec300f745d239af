"""States: what can become of a proposal, and what cannot."""

from functools import partial

import pytest

from advisor.errors import Conflict, Invalid
from advisor.plans.rules.approval_states import NEXT, approved, concluded, drafted, expired, exported, lapsed, rejected
from advisor.plans.rules.errors import NothingHolds, UnreadablePlan
from advisor.plans.rules.plan_record import ENDED, STATES, Proposal, plan_from, plan_json
from tests.advisor.plans.made import LASTS_US, NOW_US, plan

LATER_US = NOW_US + 1


def whole() -> Proposal:
    return approved(drafted(plan()), {1, 2, 3}, {}, LATER_US)


def test_a_plan_is_put_before_people_with_every_step_open_but_those_held_back() -> None:
    found = drafted(plan(3, holdout=(2,)))

    assert (found.state, found.version) == ("drafted", 1)
    assert [one.decision for one in found.decided] == ["open", "holdout", "open"]


def test_a_plan_of_which_all_is_held_back_has_nothing_to_decide() -> None:
    assert drafted(plan(2, holdout=(1, 2))).state == "expired"


def test_all_open_steps_make_it_approved_and_some_partly() -> None:
    of = drafted(plan(3, holdout=(2,)))

    assert approved(of, {1, 3}, {}, LATER_US).state == "approved"
    part = approved(of, {3}, {}, LATER_US)
    assert (part.state, [step.number for step in part.approved]) == ("partly", [3])
    assert [one.decision for one in part.decided] == ["rejected", "holdout", "approved"]


def test_what_does_not_hold_any_more_is_left_out_with_its_reason() -> None:
    part = approved(drafted(plan()), {1, 2, 3}, {2: "n1 no longer has room for it"}, LATER_US)

    assert part.state == "partly"
    assert (part.decided[1].decision, part.decided[1].reason) == ("stale", "n1 no longer has room for it")


def test_nothing_is_approved_where_nothing_holds() -> None:
    with pytest.raises(NothingHolds, match="gone; moved"):
        approved(drafted(plan(2)), {1, 2}, {1: "gone", 2: "moved"}, LATER_US)


@pytest.mark.parametrize("steps", [set(), {4}, {1, 2}])
def test_only_open_steps_can_be_approved(steps: set[int]) -> None:
    with pytest.raises(Invalid, match="choose from 1, 3"):
        approved(drafted(plan(3, holdout=(2,))), steps, {}, LATER_US)


@pytest.mark.parametrize("reason", ["", "  ", "no", "x" * 501])
def test_nobody_rejects_without_a_reason(reason: str) -> None:
    with pytest.raises(Invalid, match="the reason is missing"):
        rejected(drafted(plan()), reason, LATER_US)


def test_an_approval_can_be_taken_back_until_it_is_exported() -> None:
    assert rejected(whole(), "traffic is rising", LATER_US).state == "rejected"
    with pytest.raises(Conflict, match="is exported"):
        rejected(exported(whole(), LATER_US), "traffic is rising", LATER_US)


def test_after_its_time_a_plan_can_only_expire() -> None:
    late = NOW_US + LASTS_US
    for of in (drafted(plan()), whole()):
        assert expired(of, late).state == "expired"
        assert expired(of, late - 1) is of
    with pytest.raises(Conflict, match="is expired"):
        approved(drafted(plan()), {1}, {}, late)
    with pytest.raises(Conflict, match="is expired"):
        exported(whole(), late)


def test_what_was_exported_does_not_expire_by_time_but_is_judged() -> None:
    done = exported(whole(), LATER_US)

    assert expired(done, NOW_US + 10 * LASTS_US) is done
    assert concluded(done, confirmed=True, reason="1.2 of 1.5").state == "confirmed"
    assert concluded(done, confirmed=False, reason="-0.1 of 1.5").state == "refuted"
    assert concluded(done, confirmed=None, reason="no outcome was measured").state == "expired"
    with pytest.raises(Conflict, match=r"proposal .* is "):
        concluded(whole(), confirmed=True, reason="")


def test_what_has_ended_stays_as_it_is() -> None:
    ended = [
        rejected(drafted(plan()), "not today", LATER_US),
        lapsed(drafted(plan()), "all moved", LATER_US),
        concluded(exported(whole(), LATER_US), confirmed=True, reason=""),
    ]
    for of in ended:
        assert of.state in ENDED
        for attempt in (
            partial(approved, of, {1}, {}, LATER_US),
            partial(rejected, of, "not today", LATER_US),
            partial(exported, of, LATER_US),
            partial(lapsed, of, "", LATER_US),
        ):
            with pytest.raises(Conflict, match=r"proposal .* is "):
                attempt()


def test_every_state_has_a_way_on_or_is_an_end() -> None:
    assert set(NEXT) == set(STATES)
    assert {state for state, onward in NEXT.items() if not onward} == set(ENDED)


def test_a_plan_is_read_back_as_it_was_written() -> None:
    of = plan(2, holdout=(2,))

    assert plan_from(plan_json(of)) == of
    assert plan_json(plan_from(plan_json(of))) == plan_json(of)


@pytest.mark.parametrize("told", [b"", b"{}", b"not json", b"\xff", b'{"format": 1}', b'{"x":' + b"[" * 5000])
def test_what_is_no_plan_is_refused(told: bytes) -> None:
    with pytest.raises(UnreadablePlan):
        plan_from(told)


def test_a_plan_of_a_newer_format_is_refused() -> None:
    with pytest.raises(UnreadablePlan, match="format 3"):
        plan_from(plan_json(plan()).replace(b'"format":2', b'"format":3'))
