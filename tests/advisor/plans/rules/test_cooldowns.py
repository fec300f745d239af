"""Guards and rules: of whom, how much and when something may be proposed."""

from dataclasses import replace

import pytest

from advisor.plans.rules.cooldowns import REMEMBERED_US, refused
from advisor.plans.rules.disruption_budgets import shares_budget
from advisor.plans.rules.move_limit import steps_left
from advisor.plans.rules.past_steps import Past
from advisor.plans.rules.plan_record import State
from advisor.plans.rules.policy import DAY_US, HOUR_US, Freeze, Rules
from cohabit.config.change_windows import freezes_of, windows_of
from tests.advisor.plans.made import NOW_US, step, who

RULES = Rules()
NOBODY: dict[str, str] = {}


def past(of: object = None, *, state: State = "exported", decision: str = "approved", ago_us: int = HOUR_US) -> Past:
    return Past(step() if of is None else of, state, decision, NOW_US - ago_us)  # type: ignore[arg-type]


def test_nothing_speaks_against_a_first_step() -> None:
    assert refused(step(), NOBODY, (), RULES, NOW_US) == ""


def test_who_is_left_alone_is_not_moved_but_may_be_held_back() -> None:
    alone = {"uid-1": "it is pinned"}

    assert refused(step(), alone, (), RULES, NOW_US) == "it is pinned"
    assert refused(step(kind="cpu.max", target=None), alone, (), RULES, NOW_US) == ""


@pytest.mark.parametrize(
    ("of", "cools"),
    [
        (past(), True),
        (past(ago_us=DAY_US - 1), True),
        (past(ago_us=DAY_US), True),
        (past(state="confirmed", ago_us=DAY_US), False),
        (past(state="drafted", decision="open"), True),
        (past(state="rejected", decision="rejected"), False),
        (past(state="expired", decision="open"), False),
        (past(state="partly", decision="stale"), False),
        (past(state="expired", decision="holdout"), True),
    ],
)
def test_after_a_step_a_container_is_let_alone_for_a_while(of: Past, *, cools: bool) -> None:
    assert bool(refused(step(), NOBODY, (of,), RULES, NOW_US)) is cools


def test_who_was_moved_is_known_by_its_app_where_it_went() -> None:
    moved = past(step(of=who("old"), source="n0", target="n1"), state="confirmed")
    again = step(of=who("new"), source="n1", target="n2")

    assert "within the cooldown" in refused(again, NOBODY, (moved,), RULES, NOW_US)
    assert refused(replace(again, source="n3"), NOBODY, (moved,), RULES, NOW_US) == ""
    assert refused(replace(again, who=who("new", app="db")), NOBODY, (moved,), RULES, NOW_US) == ""


@pytest.mark.parametrize(
    ("state", "ago_us", "refuses"),
    [
        ("confirmed", 2 * DAY_US, True),
        ("refuted", 2 * DAY_US, False),
        ("confirmed", REMEMBERED_US, False),
    ],
)
def test_nobody_is_moved_back_unless_moving_it_was_found_to_be_wrong(
    state: State, ago_us: int, *, refuses: bool
) -> None:
    there = past(step(of=who("old"), source="n0", target="n1"), state=state, ago_us=ago_us)
    back = step(of=who("new"), source="n1", target="n0")

    assert bool(refused(back, NOBODY, (there,), RULES, NOW_US)) is refuses
    assert refused(replace(back, target="n2"), NOBODY, (there,), RULES, NOW_US) == ""


def test_a_disruption_budget_that_is_in_use_is_not_used_again() -> None:
    other = past(step(of=who("uid-8", app="db", budget="db"), source="n5", target="n6"), ago_us=HOUR_US // 2)
    same = step(of=who("uid-9", app="db", budget="db"))

    assert "budget db is in use" in refused(same, NOBODY, (other,), RULES, NOW_US)
    assert refused(same, NOBODY, (replace(other, at_us=NOW_US - 2 * HOUR_US),), RULES, NOW_US) == ""


@pytest.mark.parametrize(("allowed", "taken", "refuses"), [(1, 1, True), (2, 1, False), (2, 2, True), (3, 2, False)])
def test_a_disruption_budget_gives_as_many_moves_an_hour_as_it_allows(
    allowed: int, taken: int, *, refuses: bool
) -> None:
    others = [step(of=who(f"uid-{n}", app="db", budget="db"), source="n5", target="n6") for n in range(2, 2 + taken)]
    same = step(of=who("uid-9", app="db", budget="db"))

    why = refused(same, NOBODY, [past(of, ago_us=HOUR_US // 2) for of in others], RULES, NOW_US, allowed=allowed)

    assert ("budget db is in use" in why) is refuses


def test_so_many_of_a_disruption_budget_move_at_once_as_it_allows() -> None:
    of = [who(f"uid-{n}", budget="b") for n in range(3)]

    assert [shares_budget(of[0], of[1:n], 2) for n in (1, 2, 3)] == [False, False, True]


@pytest.mark.parametrize(
    ("one", "other", "shared"),
    [
        (who("a", budget="b"), who("b", budget="b"), True),
        (who("a", budget="b"), who("b", budget="c"), False),
        (who("a"), who("b"), True),
        (who("a"), who("b", app="db"), False),
        (who("a", best_effort=True), who("b", best_effort=True), False),
    ],
)
def test_who_may_not_be_disrupted_at_the_same_time(one: object, other: object, *, shared: bool) -> None:
    assert shares_budget(one, [other]) is shared  # type: ignore[arg-type, list-item]


@pytest.mark.parametrize(
    ("containers", "done", "expected"),
    [(10_000, 0, 20), (1000, 0, 5), (1000, 4, 1), (1000, 6, 0), (50, 0, 1), (50, 1, 0)],
)
def test_half_a_percent_of_the_containers_a_day_is_the_most(containers: int, done: int, expected: int) -> None:
    earlier = [past(step(of=who(f"u{n}"))) for n in range(done)]
    older = [past(step(of=who(f"v{n}")), ago_us=DAY_US) for n in range(5)]

    assert steps_left(RULES, containers, [*earlier, *older], NOW_US) == expected


def test_nothing_is_changed_in_a_freeze() -> None:
    rules = Rules(freezes=(Freeze(NOW_US, NOW_US + HOUR_US),))

    assert "2026-03-01 01:00 UTC" in rules.closed(NOW_US)
    assert rules.closed(NOW_US - 1) == rules.closed(NOW_US + HOUR_US) == ""


@pytest.mark.parametrize(
    ("told", "hours_after_sunday_midnight", "is_open"),
    [
        ("mon-fri 09:00-17:00", 0, False),
        ("mon-fri 09:00-17:00", 24 + 9, True),
        ("mon-fri 09:00-17:00", 24 + 17, False),
        ("sun 22:00-02:00", 23, True),
        ("sun 22:00-02:00", 25, True),
        ("sun 22:00-02:00", 1, False),
        ("sat-mon 00:00-24:00", 5, True),
        ("tue 01:00-02:00, sun 00:00-01:00", 0, True),
    ],
)
def test_changes_are_allowed_in_windows_alone(told: str, hours_after_sunday_midnight: int, *, is_open: bool) -> None:
    rules = Rules(windows=windows_of(told))  # type: ignore[arg-type]

    assert (rules.closed(NOW_US + hours_after_sunday_midnight * HOUR_US) == "") is is_open


def test_freezes_are_told_with_or_without_a_zone() -> None:
    assert freezes_of("2026-03-01T00:00Z/2026-03-01T01:00, 2026-03-02/2026-03-03") == (
        Freeze(NOW_US, NOW_US + HOUR_US),
        Freeze(NOW_US + DAY_US, NOW_US + 2 * DAY_US),
    )


@pytest.mark.parametrize(
    "told", ["xyz 09:00-17:00", "mon 9-17", "mon 25:00-26:00", "mon 09:00-09:00", "mon 09:61-10:00"]
)
def test_a_window_that_is_none_is_refused_with_an_example(told: str) -> None:
    with pytest.raises(ValueError, match=r"mon-thu 09:00-16:00|no such time"):
        windows_of(told)


@pytest.mark.parametrize("told", ["tomorrow", "2026-03-02/2026-03-01", "2026-03-01"])
def test_a_freeze_that_is_none_is_refused(told: str) -> None:
    with pytest.raises(ValueError, match=r"START/END|ends before"):
        freezes_of(told)


def test_a_container_without_a_known_outcome_gets_no_second_step_at_any_age() -> None:
    exported = past(ago_us=3 * DAY_US)

    assert "its outcome is not known yet" in refused(step(), NOBODY, (exported,), RULES, NOW_US)
    assert refused(step(), NOBODY, (replace(exported, state="confirmed"),), RULES, NOW_US) == ""


def test_a_disruption_budget_of_a_plan_that_waits_is_in_use() -> None:
    of = step(of=who("uid-8", app="db", budget="db"), source="n5", target="n6")
    waits = past(of, state="drafted", decision="open", ago_us=3 * HOUR_US)
    same = step(of=who("uid-9", app="db", budget="db"))

    assert "budget db is in use" in refused(same, NOBODY, (waits,), RULES, NOW_US)
