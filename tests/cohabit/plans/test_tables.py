"""Proposals in a terminal: a line for each in a list, and nothing of records that a terminal would obey."""

from dataclasses import replace

from advisor.plans.planner import Skipped
from advisor.plans.rules.plan_record import Decided, Proposal
from cohabit.plans.tables import show_list, show_plan, show_skipped
from cohabit.terminal.console import console
from tests.advisor.plans.made import plan, step, who

OBEYED = "\x1b[2J\x1b]0;owned\x07\u202e"


def proposed(name: str) -> Proposal:
    """Of one step, for a container that is called so."""
    identity = replace(who(name), namespace="shop", name=name, app=name, team=name)
    one = replace(step(1), who=identity, source=name, target=name, victims=(name,), verdict=name, why=name)
    return Proposal(plan(of=(one,)), "drafted", 1, (Decided(1, "open"),), "", 0)


def test_a_plan_shows_no_name_that_a_terminal_would_obey() -> None:
    with console.capture() as shown:
        show_plan(proposed(f"web{OBEYED}"), [])
        show_list("prod", [replace(proposed("web"), reason=f"no{OBEYED}")])

    assert "web?[2J" in shown.get()
    assert not set(shown.get()) & set(OBEYED) - set("[2J]0;owned")


def test_a_list_has_a_line_for_each_however_narrow_the_terminal() -> None:
    with console.capture() as shown:
        show_list("prod", [replace(proposed("web"), reason="release tonight, " * 20)] * 2)

    lines = shown.get().splitlines()
    assert len(lines) == 2
    assert "1 step saves" in lines[0]


def test_a_container_of_an_earlier_plan_is_named_without_asking_for_all_reasons() -> None:
    found = [Skipped("web", "n0", "it is in plan p7 since then", pending=True), Skipped("db", "n1", "no remedy")]
    with console.capture() as shown:
        show_skipped(found, everything=False)

    assert "web on n0: it is in plan p7 since then" in shown.get()
    assert "db" not in shown.get()
