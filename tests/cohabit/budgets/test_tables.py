"""Tables of budgets: no share is told that was not reached, and no name is cut off."""

import pytest

from advisor.billing.budgets.budget_status import Budget, Standing
from cohabit.budgets.tables import show_standings
from cohabit.terminal.console import console


def shown(team: str, owed_micros: int) -> str:
    budget = Budget("c", team, 3_000_000, "EUR", 800_000, "2026-11", 0, "ann")
    with console.capture() as got:
        show_standings("2026-11", [Standing(budget, owed_micros, None, "EUR")])
    return got.get()


def test_a_share_is_rounded_down_so_that_who_is_not_warned_has_not_reached_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")

    assert "│  79 % │ [████" in shown("shop", 2_399_999)
    assert "│  80 % │ [████" in shown("shop", 2_400_000)


def test_in_a_narrow_terminal_names_are_whole_and_there_is_no_picture(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "72")
    name = "team-of-a-rather-long-name-that-is-not-cut-off"

    told = shown(name, 2_399_999)

    assert "".join(row.split("│")[1].strip() for row in told.splitlines() if row.startswith("│")) == name
    assert "█" not in told
