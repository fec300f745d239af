"""Postings: every file sums to zero against its pool, and coins and residue are what is owed."""

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.billing.ledger.drafts import digest_of, draft_from, draft_json, refuse_wrong
from advisor.billing.ledger.postings import Posting, owed, payables, postings_of, reversed_of
from advisor.errors import AdvisorError, Conflict, Unavailable
from tests.advisor.billing.months_drawn import ROWS, SMALL, batch, draft, lines


def test_lines_are_added_up_by_account_and_kind_against_their_pool() -> None:
    found = postings_of(lines(("ads", "base", 3), ("ads", "base", 4), ("ads", "rebate", -2)), "std@a")

    assert found == (
        Posting("ads", "base", 7, 0, 2),
        Posting("ads", "rebate", -2, 0, 1),
        Posting("pool:std@a", "cost", -5, 0, 3),
    )


@given(ROWS, st.randoms(use_true_random=False))
def test_postings_sum_to_zero_in_whatever_order_lines_come(rows: list[tuple[str, str, int]], random: Random) -> None:
    shuffled = list(rows)
    random.shuffle(shuffled)

    assert postings_of(lines(*rows), "p") == postings_of(lines(*shuffled), "p")
    assert sum(one.amount_micros for one in postings_of(lines(*rows), "p")) == 0


@given(ROWS)
def test_what_is_taken_back_leaves_nothing(rows: list[tuple[str, str, int]]) -> None:
    made = postings_of(lines(*rows), "p")

    assert set(owed([*made, *reversed_of(made)]).values()) == {0}


@given(ROWS, st.sampled_from([0, 2, 3]))
def test_coins_and_residue_are_what_is_owed(rows: list[tuple[str, str, int]], exponent: int) -> None:
    made = postings_of(lines(*rows), "p")
    found, coin = payables(made, exponent), 10 ** (6 - exponent)

    assert sum(found.minor.values()) * coin + found.residue_micros == sum(amount for _, _, amount in rows)
    assert all(abs(found.minor[who] * coin - owed(made)[who]) < coin for who in found.minor)
    assert 2 * abs(found.residue_micros) <= coin


@pytest.mark.parametrize("account", ["pool:std@a", "rounding"])
def test_no_team_is_called_as_an_account_of_the_ledger(account: str) -> None:
    with pytest.raises(AdvisorError, match="a team of that name has account 'team:"):
        postings_of(lines((account, "base", 1)), "p")


def test_a_draft_is_read_as_it_was_kept_and_called_by_its_bytes() -> None:
    again = draft_from(draft_json(SMALL))

    assert again == SMALL
    assert digest_of(again) == digest_of(SMALL)
    assert digest_of(draft(*SMALL.batches[:1])) != digest_of(SMALL)


LATER = draft_json(SMALL).replace(b'"format":1', b'"format":2')


@pytest.mark.parametrize("told", [b"", b"{}", b"\xff", b'{"x":' + b"[" * 5000, LATER])
def test_what_is_no_draft_is_refused(told: bytes) -> None:
    with pytest.raises(Unavailable, match="upgrade Cohabit"):
        draft_from(told)


def test_a_month_is_not_closed_with_lines_that_miss_what_the_pool_cost() -> None:
    with pytest.raises(Conflict, match=r"pool std@a sum to 7 micro-units, not 8"):
        refuse_wrong(draft(batch("std@a", ("ads", "base", 7), cost_micros=8)))


def test_a_month_is_not_closed_with_nothing_or_with_a_file_twice() -> None:
    one = batch("std@a", ("ads", "base", 7))
    with pytest.raises(Conflict, match="no metered hours"):
        refuse_wrong(draft())
    with pytest.raises(Conflict, match="contains a day of a pool twice"):
        refuse_wrong(draft(one, one))


def test_postings_that_do_not_sum_to_zero_are_refused() -> None:
    one = batch("std@a", ("ads", "base", 7))
    with pytest.raises(AdvisorError, match="instead of 0"):
        refuse_wrong(draft(replace(one, postings=one.postings[:-1])))
