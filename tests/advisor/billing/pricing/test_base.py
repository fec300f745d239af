"""Base: a pool's lines are its cost under every setting, and each line follows from what it says."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.billing.lines.line import PLATFORM, UNATTRIBUTED, line_json
from advisor.billing.lines.money import MICROS
from advisor.billing.pricing.billed_quantity import HOUR
from advisor.billing.pricing.idle_cost import Idle, idle_shares
from advisor.billing.pricing.price_book import IdleKeys, PriceBook, UnitPrice
from advisor.errors import Conflict
from tests.advisor.billing.billed import (
    BOOKS,
    HOURS,
    POLICY,
    NotTaken,
    Pool,
    Taken,
    accounts,
    billed,
    book,
    by,
    drawn_pool,
    drawn_taken,
    full,
    numbered,
    taken,
    total,
)
from tests.advisor.billing.billed import ROWS as ROWS_

EUR = MICROS
CAUSES = ("idle_headroom", "idle_stranded", "idle_lead_time", "idle_failure")
CORES_10 = {"cpu": 10 * HOUR}


def cpu_only(of: PriceBook) -> PriceBook:
    return replace(of, prices=(UnitPrice("cpu", "core", 40_000),))


@given(pool=drawn_pool(), hour=drawn_taken(), of=BOOKS)
def test_lines_sum_to_the_cost_of_the_pool_under_every_setting(pool: Pool, hour: Taken, of: PriceBook) -> None:
    """I1."""
    lines = billed(pool, hour, of)

    assert total(lines) == pool.cost_micros
    assert len({line.id for line in lines}) == len(lines)


@given(rows=ROWS_, cost=st.integers(0, 10**11), of=BOOKS)
def test_a_team_owes_the_same_however_its_bill_is_added_up(
    rows: list[tuple[str, str, str, int]], cost: int, of: PriceBook
) -> None:
    """I2: sums of lines agree exactly; a bill of the team's sums of quantities, to a unit a line."""
    pool = Pool(cost, {"cpu": 500 * HOUR, "memory": 500 * HOUR})
    singly = billed(pool, taken(*numbered(rows)), of)
    sums: dict[tuple[str, str, str], int] = {}
    for team, tier, resource, quantity in rows:
        sums[team, tier, resource] = sums.get((team, tier, resource), 0) + quantity
    together = [(team, f"all {tier}", tier, resource, q) for (team, tier, resource), q in sums.items()]

    aggregated = accounts(billed(pool, taken(*together), of))

    by_container = by(singly, lambda line: f"{line.subject.account}/{line.subject.container}")
    for team, owed in accounts(singly).items():
        mine = [team_ for team_, *_ in rows if team_ == team]
        assert abs(owed - aggregated[team]) <= len(mine) + 1
        assert owed == sum(amount for key, amount in by_container.items() if key.startswith(f"{team}/"))


def test_a_months_bill_is_the_same_by_day_by_team_and_by_hour() -> None:
    """I2, over time: whichever way lines are grouped first."""
    rows = [("search", "c0", "prod", "cpu", 7 * HOUR + 11), ("ads", "c1", "mid", "cpu", 3 * HOUR + 7)]
    lines = [
        line for hour in HOURS for line in billed(Pool(1_000_003, CORES_10), taken(*rows, hour_us=hour), book(), hour)
    ]

    hours = by(lines, lambda line: str(line.stamp.hour_us))

    assert list(hours.values()) == [1_000_003] * len(HOURS)
    assert sum(accounts(lines).values()) == 1_000_003 * len(HOURS)
    assert len({line.id for line in lines}) == len(lines)


@given(pool=drawn_pool(), hour=drawn_taken(), of=BOOKS, seed=st.integers(0, 99))
def test_rows_in_another_order_give_the_same_lines_byte_for_byte(
    pool: Pool, hour: Taken, of: PriceBook, seed: int
) -> None:
    """I3."""
    order = np.random.default_rng(seed).permutation(hour.num_rows)
    other = hour.take(pa.array(order))

    first, again = ([*map(line_json, billed(pool, rows, of))] for rows in (hour, other))

    assert first == again


@given(rows=ROWS_.filter(bool), more=st.integers(1, 10 * HOUR), of=BOOKS)
def test_whoever_takes_more_never_pays_less(rows: list[tuple[str, str, str, int]], more: int, of: PriceBook) -> None:
    """I6, of quantities."""
    pool = Pool(12_345_678, {"cpu": 100 * HOUR, "memory": 100 * HOUR})
    bigger = [(*rows[0][:3], rows[0][3] + more), *rows[1:]]

    before, after = (
        sum(line.amount_micros for line in billed(pool, taken(*numbered(some)), of) if line.subject.container == "c00")
        for some in (rows, bigger)
    )

    assert after >= before


@given(rows=ROWS_.filter(bool), part=st.fractions(0, 1), of=BOOKS)
def test_a_container_in_two_pieces_costs_its_team_the_same(
    rows: list[tuple[str, str, str, int]], part: Fraction, of: PriceBook
) -> None:
    """I7: to a unit a line, and for every other team too."""
    pool = Pool(987_654_321, {"cpu": 300 * HOUR, "memory": 300 * HOUR})
    team, tier, resource, quantity = rows[0]
    piece = int(part * quantity)
    halves = [(team, "c00", tier, resource, piece), (team, "c00b", tier, resource, quantity - piece)]

    whole = accounts(billed(pool, taken(*numbered(rows)), of))
    split = accounts(billed(pool, taken(*halves, *numbered(rows)[1:]), of))

    for account in whole.keys() | split.keys():
        mine = sum(row[0] == account for row in rows) + 1
        assert abs(whole.get(account, 0) - split.get(account, 0)) <= mine


def test_an_empty_pool_is_idle_or_nobodys_never_nothing() -> None:
    """I12: without containers, without use, with free tiers alone, without capacity."""
    nobody = billed(Pool(5 * EUR, {}), taken(), book())
    empty = billed(Pool(5 * EUR, CORES_10), taken(), book())
    unused = billed(Pool(5 * EUR, {}), taken(("ads", "c", "prod", "cpu", 0)), full(book()))
    free = billed(Pool(5 * EUR, {}), taken(("ads", "c", "free", "cpu", HOUR)), full(book()))

    assert accounts(nobody) == {UNATTRIBUTED: 5 * EUR}
    assert accounts(empty) == {PLATFORM: 5 * EUR}
    assert accounts(unused) == {UNATTRIBUTED: 5 * EUR}
    assert accounts(free) == {UNATTRIBUTED: 5 * EUR, "ads": 0}


def test_minutes_that_nobody_knows_are_billed_to_nobody_in_particular() -> None:
    """I12, of gaps: next to what the same container is known to have taken; no charge record where nothing is."""
    hour = taken(("ads", "c", "prod", "cpu", 45 * MICROS), minutes=45, gap_minutes=15)
    blind = taken(("ads", "c", "prod", "cpu", 0), minutes=0, gap_minutes=60)

    known, gap = billed(Pool(40_000, {"cpu": HOUR}), hour, cpu_only(book()))
    named = [line for line in billed(Pool(7, CORES_10), blind, book()) if line.kind == "unattributed"]

    assert (known.subject.account, known.amount_micros) == ("ads", 30_000)
    assert (gap.subject.account, gap.amount_micros) == (UNATTRIBUTED, 10_000)
    assert [fact.value for fact in gap.evidence] == [15, "ads"]
    assert named == []


def test_capacity_sells_for_the_cost_and_the_remainder_is_idle_by_its_cause() -> None:
    hour = taken(("ads", "c0", "prod", "cpu", 4 * HOUR), ("batch", "c1", "batch", "cpu", 4 * HOUR))
    idle: NotTaken = (("failure", "cpu", HOUR, {}),)

    lines = billed(Pool(EUR, CORES_10, idle), hour, cpu_only(book(replace(POLICY, idle=IdleKeys(headroom="teams")))))

    found = {(line.kind, line.subject.account): line.amount_micros for line in lines}
    assert found == {
        ("base", "ads"): 400_000,
        ("base", "batch"): 100_000,
        ("idle_headroom", "ads"): 320_000,
        ("idle_headroom", "batch"): 80_000,
        ("idle_failure", PLATFORM): 100_000,
    }


def test_in_full_recovery_whoever_took_something_pays_for_all() -> None:
    hour = taken(("ads", "c0", "prod", "cpu", 4 * HOUR), ("batch", "c1", "batch", "cpu", 4 * HOUR))

    lines = billed(Pool(EUR, CORES_10), hour, full(cpu_only(book())))

    assert accounts(lines) == {"ads": 800_000, "batch": 200_000}


def test_where_more_is_billed_than_there_is_the_price_falls() -> None:
    hour = taken(("ads", "c0", "prod", "cpu", 30 * HOUR), ("batch", "c1", "prod", "cpu", 10 * HOUR))

    lines = billed(Pool(EUR, CORES_10), hour, cpu_only(book()))

    assert accounts(lines) == {"ads": 750_000, "batch": 250_000}
    assert [line.kind for line in lines] == ["base", "base"]


@given(pool=drawn_pool(), hour=drawn_taken(), of=BOOKS)
def test_every_charge_is_its_quantity_at_its_price(pool: Pool, hour: Taken, of: PriceBook) -> None:
    for line in billed(pool, hour, of):
        if line.billed is not None:
            exact = line.billed.micro_unit_minutes / HOUR * line.billed.unit_price_micros
            assert line.amount_micros == pytest.approx(exact, abs=1.001, rel=1e-9)


@given(amount=st.integers(-(10**12), 10**12), weights=st.lists(st.integers(0, 9), min_size=4, max_size=4))
def test_the_causes_of_idle_are_all_of_it(amount: int, weights: list[int]) -> None:
    """I1, of idle: four causes, some without anybody to pay for them."""
    keys = [(("ads", 3), ("search", 1)), (), (("ads", 0),), ((PLATFORM, 1),)]
    causes = [Idle(kind, weight, key) for kind, weight, key in zip(CAUSES, weights, keys, strict=True)]  # type: ignore[arg-type]

    shares = idle_shares(amount, causes)

    assert sum(share.amount_micros for share in shares) == amount
    assert {share.account for share in shares if share.kind in CAUSES[1:3]} <= {UNATTRIBUTED}


@pytest.mark.parametrize(
    ("row", "says"),
    [
        (("ads", "c", "gold", "cpu", 1), "class of service gold is not a tier"),
        (("ads", "c", "prod", "cpu", -1), "below 0"),
    ],
)
def test_what_the_book_does_not_know_is_refused(row: tuple[str, str, str, str, int], says: str) -> None:
    with pytest.raises(Conflict, match=says):
        billed(Pool(1, CORES_10), taken(row), book())
