"""Accounts: a team never shares the account of the operator, of unknown cause, of rounding or of a pool."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.auth.principal import Caller
from advisor.billing.ledger.postings import owed, postings_of
from advisor.billing.lines.accounts import account_of, accounts_by_team
from advisor.billing.lines.line import PLATFORM, UNATTRIBUTED
from advisor.billing.pricing.billed_quantity import HOUR
from advisor.billing.pricing.charges import bill_pool_hours
from advisor.billing.pricing.price_book import IdleKeys, Policy
from advisor.billing.quotes.dependencies import own_account
from tests.advisor.billing.billed import START_US, Pool, book, taken

TAKEN = ("platform", "unattributed", "rounding", "pool:a@b", "team:platform")
NAMES = st.one_of(st.none(), st.sampled_from(["shop", *TAKEN, "team:shop"]), st.text(max_size=8))


@pytest.mark.parametrize("name", TAKEN)
def test_a_team_with_an_accounts_name_has_an_account_of_its_own(name: str) -> None:
    assert account_of(name) == f"team:{name}"
    assert own_account(Caller("t", frozenset({"team"}), name)) == f"team:{name}"


@given(teams=st.lists(NAMES, max_size=12))
def test_no_two_teams_share_an_account(teams: list[str | None]) -> None:
    accounts = [account_of(team) for team in teams]

    assert len(set(zip(teams, accounts, strict=True))) == len(set(teams)) == len(set(accounts))
    assert all(account not in {PLATFORM, "rounding"} and not account.startswith("pool:") for account in accounts)
    assert [account == UNATTRIBUTED for account in accounts] == [team is None for team in teams]
    assert accounts_by_team(pa.chunked_array([pa.array(teams, pa.string())])).to_pylist() == accounts


def test_a_team_called_platform_pays_its_own_charges_and_none_of_the_idle_cost() -> None:
    hour = taken(("platform", "c0", "prod", "cpu", HOUR), ("rounding", "c1", "prod", "cpu", HOUR))
    pool = Pool(40_000, {"cpu": 4 * HOUR}, idle=(("stranded", "cpu", HOUR, {"platform": HOUR}),))
    of = book(Policy("p", recovery="remainder", idle=IdleKeys(stranded="causers")))

    lines = bill_pool_hours(hour, pool.hours(START_US), of, idle=pool.not_taken(START_US))

    amounts = owed(postings_of(lines, "pool"))
    assert amounts.keys() == {"platform", "team:platform", "team:rounding"}
    assert amounts["team:rounding"] > 0
    assert amounts["team:platform"] == 2 * amounts["team:rounding"]  # its use, and what it stranded
    assert sum(amounts.values()) == 40_000
