"""Charges: columns of lines that sum to the pool's cost under every setting, the same bytes in whatever order."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.billing.lines.line import PLATFORM, UNATTRIBUTED
from advisor.billing.lines.money import MICROS, apportion
from advisor.billing.lines.schema import ORDER, SCHEMA
from advisor.billing.pricing.billed_quantity import HOUR, LARGER, REQUEST_ONLY, USAGE_ONLY, Rule
from advisor.billing.pricing.charges import UNTOLD_TIER, bill_pool_hours
from advisor.billing.pricing.price_book import HOUR_US, IdleKeys, Policy, PriceBook, Tier, UnitPrice
from advisor.errors import AdvisorError, Conflict
from features.schema.tables import METERED
from tests.advisor.billing.billed import HOURS, STAMP, START_US, TEAMS, NotTaken, Pool, book, drawn_pool, taken

RULES = st.sampled_from([LARGER, REQUEST_ONLY, USAGE_ONLY, Rule(0.5, 3.0), Rule(0.123456, 2.7)])
AMOUNT = st.one_of(st.integers(0, 100), st.integers(0, 60 * HOUR))
SOMEBODY = st.sampled_from(["platform", "teams"])
KEYS = st.builds(IdleKeys, SOMEBODY, st.sampled_from(["platform", "teams", "causers"]), SOMEBODY, SOMEBODY)
KEPT = ["account", "container", "resource", "amount_micros"]


@st.composite
def drawn_metered(draw: st.DrawFn) -> pa.Table:
    """Rows over some hours, with gaps, unknown teams and classes, and resources that cost nothing."""
    rows = []
    for hour in HOURS[:2]:
        keys = draw(
            st.lists(
                st.tuples(st.sampled_from("abcd"), st.sampled_from(["cpu", "memory", "gpu"])), max_size=8, unique=True
            )
        )
        for container, resource in keys:
            requested, beyond = draw(AMOUNT), draw(AMOUNT)
            minutes = draw(st.integers(0, 60))
            rows.append(
                {
                    "cluster": "c", "hour": hour, "node": "n", "container": container, "resource": resource,
                    "pool": STAMP.pool, "team": draw(st.sampled_from([*TEAMS, None])),
                    "qos": draw(st.sampled_from(["LS", "BE", "SYSTEM", None])), "requested": requested,
                    "within": draw(st.integers(0, requested)), "beyond": beyond, "minutes": minutes,
                    "gap_minutes": draw(st.integers(0, 60 - minutes)),
                }
            )  # fmt: skip
    return pa.Table.from_pylist(rows, schema=METERED.schema)


@st.composite
def drawn_book(draw: st.DrawFn) -> PriceBook:
    policy = Policy("p", draw(RULES), draw(st.sampled_from(["full", "remainder"])), idle=draw(KEYS))
    tiers = (Tier("LS", MICROS), Tier("BE", draw(st.sampled_from([0, 250_000, 333_333]))), Tier("SYSTEM", 0))
    weights = draw(st.sampled_from([(40_000, 5_000), (1, 10**12), (0, 7)]))
    prices = tuple(UnitPrice(name, "u", weight) for name, weight in zip(("cpu", "memory"), weights, strict=True))
    return book(policy, tiers=tiers, prices=prices)


def sums(lines: pa.Table, key: str = "hour") -> dict[object, int]:
    grouped = lines.group_by(key).aggregate([("amount_micros", "sum")])
    return dict(zip(grouped[key].to_pylist(), grouped["amount_micros_sum"].to_pylist(), strict=True))


@given(pool=drawn_pool(), metered=drawn_metered(), of=drawn_book())
def test_lines_are_the_pools_cost_in_every_hour_under_every_setting(
    pool: Pool, metered: pa.Table, of: PriceBook
) -> None:
    """I1: recoveries, tiers, rules, causes of idle, credits, empty pools, weights of nothing."""
    pools = pool.hours(*HOURS)

    lines = bill_pool_hours(metered, pools, of, idle=pool.not_taken(*HOURS))

    assert lines.schema.equals(SCHEMA)
    found = sums(lines)
    assert [found.get(hour, 0) for hour in pools["hour"].to_pylist()] == [pool.cost_micros] * len(HOURS)
    assert lines.num_rows == lines.group_by(list(ORDER)).aggregate([]).num_rows
    assert lines.equals(lines.take(in_order_of(lines)))


def test_hours_without_request_and_use_have_no_charge_record_and_sums_stay() -> None:
    quiet = [("ads", f"c{i}", "prod", "cpu", 0) for i in range(1, 20)]
    blind = taken(("batch", "b", "prod", "cpu", 0), minutes=0, gap_minutes=60)
    hour, pool = taken(("ads", "c0", "prod", "cpu", HOUR), *quiet), Pool(100_001, {"cpu": 3 * HOUR})

    lines = bill_pool_hours(pa.concat_tables([hour, blind]), pool.hours(START_US), book())

    assert [(row["kind"], row["container"], row["amount_micros"]) for row in lines.to_pylist()] == [
        ("base", "c0", 33_334),
        ("idle_headroom", None, 66_667),
    ]
    assert bill_pool_hours(blind, Pool(0, {}).hours(START_US), book()).num_rows == 0


@given(pool=drawn_pool(), metered=drawn_metered(), of=drawn_book())
def test_a_record_of_zero_has_a_request_or_use(pool: Pool, metered: pa.Table, of: PriceBook) -> None:
    lines = bill_pool_hours(metered, pool.hours(*HOURS), of, idle=pool.not_taken(*HOURS))
    asked = {
        (row["hour"], row["container"], row["resource"])
        for row in metered.to_pylist()
        if row["requested"] or row["within"] or row["beyond"]
    }

    zeros = lines.filter(pc.equal(lines["amount_micros"], 0)).to_pylist()
    assert {(row["hour"], row["container"], row["resource"]) for row in zeros} <= asked


def in_order_of(lines: pa.Table) -> pa.Array:
    """Places of lines in their order, by plain comparison."""
    keys = [tuple((value is not None, value) for value in row.values()) for row in lines.select(ORDER).to_pylist()]
    return pa.array(sorted(range(len(keys)), key=keys.__getitem__), pa.int64())


@given(pool=drawn_pool(), metered=drawn_metered(), of=drawn_book())
def test_amounts_are_what_a_loop_over_lines_says(pool: Pool, metered: pa.Table, of: PriceBook) -> None:
    """By whole numbers of any size, line by line, hour by hour."""
    lines = bill_pool_hours(metered, pool.hours(*HOURS), of, idle=pool.not_taken(*HOURS))

    for hour_us in HOURS:
        hour = pa.scalar(hour_us, SCHEMA.field("hour").type)
        own = [row for row in metered.filter(pc.equal(metered["hour"], hour)).to_pylist() if row["resource"] != "gpu"]
        expected = by_loop(pool, own, of)
        found = lines.filter(pc.equal(lines["hour"], hour)).to_pylist()
        assert {(r["kind"], r["account"], r["container"], r["resource"]): r["amount_micros"] for r in found} == expected


def by_loop(pool: Pool, rows: list[dict[str, object]], of: PriceBook) -> dict[tuple[object, ...], int]:
    prices = {price.resource: price.weight_micros for price in of.prices}
    tiers = {tier.name: tier.ppm for tier in of.tiers}
    kappa, beta = round(of.policy.rule.kappa * MICROS), round(of.policy.rule.beta * MICROS)
    rows = sorted(rows, key=lambda r: (str(r["team"] or UNATTRIBUTED), r["container"], r["resource"]))
    shares: dict[tuple[object, ...], int] = {}
    gaps: dict[tuple[object, ...], int] = {}
    for row in rows:
        requested, within, beyond, minutes, gap = (
            int(str(row[n])) for n in ("requested", "within", "beyond", "minutes", "gap_minutes")
        )
        quantity = (kappa * requested + (MICROS - kappa) * within + beta * beyond + MICROS // 2) // MICROS
        weight = prices[str(row["resource"])] * tiers[str(row["qos"] or UNTOLD_TIER)]
        if requested or within or beyond:
            shares["base", row["team"] or UNATTRIBUTED, row["container"], row["resource"]] = weight * quantity
        if unknown := quantity * gap // max(minutes, 1):
            gaps[UNATTRIBUTED, row["container"], row["resource"]] = weight * unknown
    keys = [*shares, *(("unattributed", *key) for key in sorted(gaps))]
    weights = [*shares.values(), *(gaps[key] for key in sorted(gaps))]
    worth = sum(weight * MICROS * pool.capacity.get(name, 0) for name, weight in prices.items())
    sold: int = sum(weights)
    rest = 0 if of.policy.recovery == "full" and sold else max(0, worth - sold)
    if not sold + rest:
        whole: dict[tuple[object, ...], int] = {("unattributed", UNATTRIBUTED, None, None): pool.cost_micros}
        return dict.fromkeys(keys, 0) | (whole if pool.cost_micros else {})
    names = [f"{number:03d}" for number in range(len(keys) + 1)]
    amounts = apportion(pool.cost_micros, [*weights, rest], names).tolist()
    found = dict(zip(keys, amounts[:-1], strict=True))
    return found | idle_by_loop(pool, rest, amounts[-1], charged_by(found), of)


def charged_by(amounts: dict[tuple[object, ...], int]) -> dict[str, int]:
    sums: dict[str, int] = {}
    for (kind, account, *_), amount in amounts.items():
        if kind == "base":
            sums[str(account)] = sums.get(str(account), 0) + amount
    return sums


def idle_by_loop(
    pool: Pool, rest: int, amount: int, charged: dict[str, int], of: PriceBook
) -> dict[tuple[object, ...], int]:
    """Worth by cause, headroom what is left of it, then each cause by its key."""
    prices = {price.resource: price.weight_micros * MICROS for price in of.prices}
    worth, caused = dict.fromkeys(("failure", "lead_time", "stranded"), 0), dict[str, int]()
    for cause, resource, quantity, teams in pool.idle:
        worth[cause] += prices.get(resource, 0) * quantity
        for team, own in teams.items():
            caused[team] = caused.get(team, 0) + prices.get(resource, 0) * own
    worth["headroom"] = max(0, rest - sum(worth.values()))
    if not any(worth.values()):
        worth["headroom"] = 1
    parts = apportion(amount, list(worth.values()), [f"idle_{cause}" for cause in worth]).tolist()
    found: dict[tuple[object, ...], int] = {}
    for cause, part in zip(worth, parts, strict=True):
        key, keys = getattr(of.policy.idle, cause), {PLATFORM: 1}
        if key == "causers" and worth[cause]:
            keys = {**caused, PLATFORM: worth[cause] - sum(caused.values())}
        elif key == "teams" and any(charged.values()):
            keys = {account: abs(owed) for account, owed in charged.items()}
        for account, own in zip(keys, apportion(part, list(keys.values()), list(keys)).tolist(), strict=True):
            if own:
                found[f"idle_{cause}", account, None, None] = own
    return found


@given(metered=drawn_metered(), of=drawn_book(), seed=st.integers(0, 99))
def test_neither_order_nor_pieces_of_rows_and_hours_make_a_difference(
    metered: pa.Table, of: PriceBook, seed: int
) -> None:
    """I3."""
    pools = Pool(1_234_567, {"cpu": 99 * HOUR, "memory": HOUR}).hours(*HOURS)
    rng = np.random.default_rng(seed)
    shuffled = metered.take(pa.array(rng.permutation(metered.num_rows)))
    cut = seed % (metered.num_rows + 1)
    pieces = pa.concat_tables([shuffled.slice(0, cut), shuffled.slice(cut)])

    whole = bill_pool_hours(metered, pools, of)

    assert bill_pool_hours(pieces, pools.take(pa.array(rng.permutation(len(HOURS)))), of).equals(whole)
    singly = []
    for hour_us in HOURS:
        hour = pa.scalar(hour_us, SCHEMA.field("hour").type)
        own, there = (rows.filter(pc.equal(rows["hour"], hour)) for rows in (metered, pools))
        singly.append(bill_pool_hours(own, there, of))
    assert pa.concat_tables(singly).equals(whole)


def test_a_line_says_its_quantity_price_tier_and_what_is_not_known() -> None:
    rows = taken(("ads", "c", "LS", "cpu", 45 * MICROS), minutes=45, gap_minutes=15)
    of = book(tiers=(Tier("LS", MICROS),), prices=(UnitPrice("cpu", "core", 40_000),))

    known, gap = bill_pool_hours(rows, Pool(40_000, {"cpu": HOUR}).hours(START_US), of).to_pylist()

    assert (known["micro_unit_minutes"], known["unit_price_micros"]) == (45 * MICROS, 40_000.0)
    assert json.loads(known["evidence"]) == {"tier": "LS"}
    assert (gap["account"], gap["amount_micros"], gap["micro_unit_minutes"]) == (UNATTRIBUTED, 10_000, 15 * MICROS)
    assert gap["evidence"] == '{"minutes_not_known":15,"team":"ads"}'


def test_what_has_no_price_is_free_and_who_has_no_class_is_latency_sensitive() -> None:
    rows = taken(("ads", "c", "LS", "cpu", HOUR), ("ads", "d", "LS", "gpu", HOUR))
    untold = rows.set_column(rows.schema.get_field_index("qos"), METERED.schema.field("qos"), pa.nulls(2, pa.string()))

    lines = bill_pool_hours(untold, Pool(7, {}).hours(START_US), book(tiers=(Tier("LS", MICROS),)))

    assert lines.select(KEPT).to_pylist() == [
        {"account": "ads", "container": "c", "resource": "cpu", "amount_micros": 7}
    ]


def test_a_class_without_a_tier_an_hour_without_a_cost_and_two_pools_are_refused() -> None:
    rows = taken(("ads", "c", "LS", "cpu", HOUR))
    pools = Pool(7, {}).hours(START_US)
    of = book(tiers=(Tier("LS", MICROS),))

    with pytest.raises(Conflict, match="class of service BE is not a tier of price book '2026-11'"):
        bill_pool_hours(taken(("ads", "c", "BE", "cpu", HOUR)), pools, of)
    with pytest.raises(Conflict, match="2026-11-01 01:00 UTC: send cost_micros_per_hour"):
        bill_pool_hours(taken(("ads", "c", "LS", "cpu", HOUR), hour_us=START_US + HOUR_US), pools, of)
    unknown = pools.set_column(pools.schema.get_field_index("cost_micros"), "cost_micros", pa.nulls(1, pa.int64()))
    with pytest.raises(Conflict, match="2026-11-01 00:00 UTC: send"):
        bill_pool_hours(rows, unknown, of)
    other = pools.set_column(pools.schema.get_field_index("pool"), "pool", pa.array(["other@b"]))
    with pytest.raises(AdvisorError, match="bill each pool separately"):
        bill_pool_hours(rows, other, of)


@pytest.mark.parametrize("scale", [1, 10**9])
def test_numbers_too_large_for_columns_are_shared_out_just_the_same(scale: int) -> None:
    rows = taken(("ads", "c", "LS", "cpu", 3 * HOUR), ("batch", "d", "LS", "cpu", 7 * HOUR + 1))
    of = book(tiers=(Tier("LS", MICROS), Tier("BE", 999_983)), prices=(UnitPrice("cpu", "core", 40_003 * scale),))

    lines = bill_pool_hours(rows, Pool(10**17 + 1, {"cpu": 10 * HOUR}).hours(START_US), of)

    exact: list[int] = apportion(10**17 + 1, [3 * HOUR, 7 * HOUR + 1], ["a", "b"]).tolist()
    assert lines["amount_micros"].to_pylist() == exact


@given(part=st.integers(0, 5 * HOUR), of=drawn_book())
def test_a_container_in_two_pieces_costs_its_team_the_same(part: int, of: PriceBook) -> None:
    """I7: to a unit a line."""
    pools = Pool(987_654_321, {"cpu": 300 * HOUR, "memory": 300 * HOUR}).hours(START_US)
    others = [("search", "x", "LS", "memory", 7 * HOUR), ("batch", "y", "BE", "cpu", HOUR)]
    whole = bill_pool_hours(taken(("ads", "a", "LS", "cpu", 5 * HOUR), *others), pools, of)
    pieces = [("ads", "a", "LS", "cpu", part), ("ads", "b", "LS", "cpu", 5 * HOUR - part)]

    split = bill_pool_hours(taken(*pieces, *others), pools, of)

    one, other = sums(whole, "account"), sums(split, "account")
    assert one.keys() == other.keys()
    assert all(abs(one[account] - other[account]) <= 2 for account in one)


def test_what_nobody_took_is_told_by_cause_and_headroom_is_the_rest() -> None:
    idle: NotTaken = (
        ("stranded", "cpu", 2 * HOUR, {}),
        ("lead_time", "cpu", 3 * HOUR, {}),
        ("failure", "cpu", 4 * HOUR, {}),
    )
    pool = Pool(10, {"cpu": 10 * HOUR}, idle)

    lines = bill_pool_hours(taken(), pool.hours(*HOURS[:2]), book(), idle=pool.not_taken(*HOURS[:2]))

    told = [(row["kind"], row["account"], row["amount_micros"]) for row in lines.to_pylist()]
    by_cause = [("idle_failure", 4), ("idle_headroom", 1), ("idle_lead_time", 3), ("idle_stranded", 2)]
    assert told == [(kind, PLATFORM, amount) for kind, amount in by_cause] * 2


def test_where_causes_come_to_more_than_was_left_they_share_it() -> None:
    pool = Pool(100, {"cpu": 10 * HOUR}, (("stranded", "cpu", 6 * HOUR, {}), ("failure", "cpu", 2 * HOUR, {})))
    rows = taken(("ads", "c", "prod", "cpu", 6 * HOUR))

    lines = bill_pool_hours(rows, pool.hours(START_US), book(), idle=pool.not_taken(START_US))

    assert sums(lines, "kind") == {"base": 60, "idle_failure": 10, "idle_stranded": 30}


def test_a_price_book_says_who_pays_for_each_cause() -> None:
    idle: NotTaken = (("stranded", "cpu", 3 * HOUR, {"search": 2 * HOUR}), ("failure", "cpu", HOUR, {}))
    pool = Pool(100, {"cpu": 10 * HOUR}, idle)
    rows = taken(("ads", "c", "prod", "cpu", HOUR), ("search", "d", "prod", "cpu", 3 * HOUR))
    keys = IdleKeys(headroom="teams", stranded="causers")

    lines = bill_pool_hours(rows, pool.hours(START_US), book(Policy("p", idle=keys)), idle=pool.not_taken(START_US))

    told = [(row["kind"], row["account"], row["amount_micros"], row["evidence"]) for row in lines.to_pylist()]
    assert told[2:] == [
        ("idle_failure", PLATFORM, 10, '{"paid_by":"platform"}'),
        ("idle_headroom", "ads", 5, '{"paid_by":"teams"}'),
        ("idle_headroom", "search", 15, '{"paid_by":"teams"}'),
        ("idle_stranded", PLATFORM, 10, '{"paid_by":"causers"}'),
        ("idle_stranded", "search", 20, '{"paid_by":"causers"}'),
    ]
