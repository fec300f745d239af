"""Bills: decimal costs to whole micro-units by the hour, nothing lost, and words for what cannot be read."""

from collections import defaultdict
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from features.metering.invoices import FOCUS, PLAIN, read_bill
from features.schema.errors import FeaturesError
from features.schema.tables import BILLS

HEADER = "pool,start,end,cost,currency\n"
ROW = "std@a,2026-11-01T00:00:00Z,2026-11-01T03:00:00Z,{},EUR\n"


def rows(content: str) -> list[dict[str, object]]:
    found = read_bill(content, "nov", "c", PLAIN).rows
    assert found.schema.equals(BILLS.schema)
    return [dict(row) for row in found.to_pylist()]


def test_a_row_is_spread_over_its_hours_and_what_cannot_be_parted_comes_first() -> None:
    found = rows(HEADER + ROW.format("0.00001") + ROW.format("-0.000002"))

    by_hour = [(row["hour"], row["item"], row["cost_micros"]) for row in found]
    hours = [datetime(2026, 11, 1, hour, tzinfo=UTC) for hour in range(3)]
    assert by_hour == [
        (hours[0], "2/2026-11-01T00", 4), (hours[0], "3/2026-11-01T00", -1),
        (hours[1], "2/2026-11-01T01", 3), (hours[1], "3/2026-11-01T01", -1),
        (hours[2], "2/2026-11-01T02", 3), (hours[2], "3/2026-11-01T02", 0),
    ]  # fmt: skip


@given(costs=st.lists(st.decimals(-1000, 1000, places=9), min_size=1, max_size=9))
def test_a_pools_total_is_right_to_the_micro_unit(costs: list[Decimal]) -> None:
    found = rows(HEADER + "".join(ROW.format(cost) for cost in costs))

    total = sum(int(str(row["cost_micros"])) for row in found)
    assert total == int((sum(costs, Decimal()) * 10**6).to_integral_value())
    items: dict[str, int] = defaultdict(int)
    for row in found:
        items[str(row["item"]).split("/")[0]] += int(str(row["cost_micros"]))
    assert all(abs(items[str(i + 2)] - cost * 10**6) <= 1 for i, cost in enumerate(costs))


def test_focus_is_read_by_its_columns_and_tags() -> None:
    content = (
        "BilledCost,BillingCurrency,ChargePeriodStart,ChargePeriodEnd,ResourceName,Tags,Other\n"
        '1.5,USD,2026-11-01T00:00:00Z,2026-11-01T01:00:00Z,std@a,"{""x_pool"": ""no""}",x\n'
        '2.5,USD,2026-11-01T00:00:00Z,2026-11-01T01:00:00Z,,"{""x_pool"": ""gpu@b""}",x\n'
    )

    found = read_bill(content, "nov", "c", FOCUS).rows.to_pylist()

    assert [(r["pool"], r["cost_micros"], r["currency"]) for r in found] == [
        ("std@a", 1_500_000, "USD"),
        ("gpu@b", 2_500_000, "USD"),
    ]


def test_focus_rows_without_a_pool_are_counted_and_summed_not_refused() -> None:
    period = "2026-03-01 00:00:00 UTC,2026-03-01 02:00:00 UTC"
    content = (
        "ChargeCategory,BilledCost,EffectiveCost,BillingCurrency,ChargePeriodStart,ChargePeriodEnd,ResourceName\n"
        f"Usage,0,1.5,USD,{period},std@a\n"
        f"Purchase,1000,0,USD,2026-03-01 00:00:00 UTC,2029-03-01 00:00:00 UTC,\n"
        f"Tax,19.25,19.25,EUR,2026-03-01 00:00:30 UTC,2026-03-31 23:59:59 UTC,\n"
    )

    billed = read_bill(content, "mar", "c", FOCUS)
    effective = read_bill(content, "mar", "c", replace(FOCUS, cost="EffectiveCost"))

    hours = [datetime(2026, 3, 1, hour, tzinfo=UTC) for hour in range(2)]
    assert [(row["hour"], row["cost_micros"]) for row in billed.rows.to_pylist()] == [(hour, 0) for hour in hours]
    assert [(r["hour"], r["cost_micros"]) for r in effective.rows.to_pylist()] == [(h, 750_000) for h in hours]
    assert (billed.poolless, billed.poolless_costs) == (2, {"USD": Decimal(1000), "EUR": Decimal("19.25")})
    assert (effective.poolless, effective.poolless_costs) == (2, {"USD": Decimal(0), "EUR": Decimal("19.25")})
    with pytest.raises(FeaturesError, match="column EffectiveCost: the header does not have it"):
        read_bill(content.replace("EffectiveCost", "X"), "mar", "c", replace(FOCUS, cost="EffectiveCost"))


@pytest.mark.parametrize("tags", ['{""x_pool"": null}', '{""x_pool"": [""std@a""]}', "[" * 100_000, "null"])
def test_a_tag_that_is_no_text_is_no_pool(tags: str) -> None:
    head = "BilledCost,BillingCurrency,ChargePeriodStart,ChargePeriodEnd,Tags\n"
    content = f'{head}1.5,USD,2026-11-01T00:00:00Z,2026-11-01T01:00:00Z,"{tags}"\n'

    with pytest.raises(FeaturesError, match="column ResourceName: no row names a pool, nor tag x_pool"):
        read_bill(content, "nov", "c", FOCUS)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("pool,start,end,cost\n", "line 1, column currency: the header does not have it"),
        (HEADER, "no rows below the header"),
        (HEADER + ROW.format("1,5"), "line 2"),
        (HEADER + ROW.format("x"), "line 2, column cost: 'x' is no decimal number: write 1234.56"),
        (HEADER + ROW.format("NaN"), "line 2, column cost: NaN is beyond"),
        (HEADER + ROW.format("1e13"), "look at its unit"),
        (HEADER + ROW.format("1").replace("EUR", "RMB"), "line 2, column currency: 'RMB' .* write CNY"),
        (HEADER + ROW.format("1").replace("T03", "T00"), "column end: it is not after the start"),
        (HEADER + ROW.format("1").replace("T03:00", "T03:30"), "column end: .* bill whole hours"),
        (HEADER + ROW.format("1").replace("2026-11-01T00", "x"), "column start: .* is no time"),
        (HEADER + ROW.format("1").replace("std@a", ""), "column pool: it is empty"),
        (HEADER + ROW.format("-1e9999999"), "line 2, column cost: -1e9999999 is beyond"),
        (HEADER + ROW.format("1").replace("2026-11-01T03", "3026-11-01T03"), "365,242 days after the start"),
        (HEADER + 60 * ROW.format("1").replace("2026-11-01T03", "2036-10-31T03"), "limit 5,000,000"),
        (
            HEADER + ROW.format("1").replace("2026-11-01T00:00:00Z", "0001-01-01T00:00+05:00"),
            "column start: .* is no time",
        ),
        (HEADER + 10 * ROW.format("1000000000000"), r"comes to 10,000,000,000,000 \(limit 9,0"),
        (HEADER + ROW.format("1,234.56").replace("EUR", "1"), "line 2, column currency: there are more cells"),
        (HEADER.replace("pool", "cost"), "line 1, column cost: the header has it twice"),
        (HEADER + ROW.format("x" * 140_000), r"line 2, column any: it is no CSV \(field larger"),
        ("x" * 140_000, r"line 1, column header: it is no CSV"),
    ],
)
def test_what_cannot_be_read_is_told_by_line_and_column(content: str, says: str) -> None:
    with pytest.raises(FeaturesError, match=says):
        rows(content)
