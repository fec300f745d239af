"""A quote of a container is its bill once it comes, and what interference would move keeps to its bounds."""

from dataclasses import replace
from math import nan

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.billing.interference.expected_adjustment import (
    NOTHING,
    Amounts,
    Colocation,
    IncomingPod,
    Residents,
    foreseen_transfers,
)
from advisor.billing.lines.money import share_of
from advisor.billing.pricing.billed_quantity import HOUR
from advisor.billing.pricing.charges import bill_pool_hours
from advisor.billing.quotes.cost_estimate import MAX_HOURS, Asked, Need, Sold, quote, rows_of
from advisor.billing.quotes.quote_diff import changed, moved
from advisor.errors import Invalid, NotFound
from tests.advisor.billing.billed import POLICY, TEAMS, Pool, book, taken
from tests.advisor.billing.quoted import (
    ASKED,
    ME,
    NEEDS,
    NODE,
    asked_rows,
    drawn_asked,
    drawn_colocation,
    drawn_sold,
    neighbour,
    slowdown,
    sold,
)

POOL = Pool(3_840_000, {"cpu": 64 * HOUR, "memory": 256 * HOUR})
AMPLE = replace(POLICY, platform_cap_micros=10**18)
OTHER = taken(("ads", "train-1", "prod", "cpu", 10 * HOUR))


def base_of(asked: Asked, of: Sold) -> int:
    return quote(asked, of, None, None).base_micros


@given(asked=drawn_asked(), of=drawn_sold())
def test_a_quote_is_the_bill_of_the_container_once_it_comes(asked: Asked, of: Sold) -> None:
    lines = bill_pool_hours(pa.concat_tables([asked_rows(asked, of.pool_hour), of.metered]), of.pool_hour, of.book)

    own = lines.filter(pc.and_(pc.equal(lines["container"], asked.container), pc.equal(lines["kind"], "base")))
    assert quote(asked, of, NODE, None).base_micros == (pc.sum(own["amount_micros"]).as_py() or 0)
    assert (pc.sum(lines["amount_micros"]).as_py() or 0) == of.pool_hour["cost_micros"][0].as_py()


def test_a_pool_that_sells_its_capacity_has_a_price_whatever_else_is_there() -> None:
    found = quote(ASKED, sold(POOL, OTHER), None, None)

    # half of what is reserved and idle counts: 3 cores at 0.04, 14 GiB at 0.005
    assert [charge.amount_micros for charge in found.charges] == [120_000, 70_000]
    assert (found.base_micros, found.owed_micros, found.with_transfers) == (190_000, 190_000, None)
    assert found.charges[0].unit_price_micros == pytest.approx(40_000)


def test_where_everybody_pays_for_all_the_container_itself_lowers_the_price() -> None:
    nobody, somebody = sold(POOL, OTHER.slice(0, 0), whole=True), sold(POOL, OTHER, whole=True)

    assert base_of(ASKED, nobody) == 3_840_000  # alone it pays for everything
    assert base_of(ASKED, somebody) == round(3_840_000 * 190 / (190 + 400))


@given(asked=drawn_asked(), of=drawn_sold(), more=st.integers(0, 50))
def test_who_asks_for_more_than_it_uses_never_pays_less(asked: Asked, of: Sold, more: int) -> None:
    first = replace(asked.needs[0], use=asked.needs[0].use or 0.0)
    first = replace(first, request=max(first.request or 0.0, first.use or 0.0))
    larger = replace(first, request=(first.request or 0.0) + more)
    less, rest = (replace(asked, needs=(need, *asked.needs[1:])) for need in (first, larger))

    assert base_of(rest, of) >= base_of(less, of) - len(asked.needs)  # rounding alone


@given(asked=drawn_asked(), of=drawn_sold(), more=st.integers(0, 50))
def test_who_uses_more_never_pays_less(asked: Asked, of: Sold, more: int) -> None:
    first = replace(asked.needs[0], request=asked.needs[0].request or 0.0, use=asked.needs[0].use or 0.0)
    busier = replace(first, use=(first.use or 0.0) + more)
    less, rest = (replace(asked, needs=(need, *asked.needs[1:])) for need in (first, busier))

    assert base_of(rest, of) >= base_of(less, of) - len(asked.needs)


@given(asked=drawn_asked(), of=drawn_sold(), hours=st.integers(1, MAX_HOURS))
def test_hours_are_billed_one_by_one(asked: Asked, of: Sold, hours: int) -> None:
    assert base_of(replace(asked, hours=hours), of) == hours * base_of(asked, of)


def test_a_container_that_runs_is_quoted_in_its_own_place() -> None:
    of = sold(POOL, OTHER, whole=True)
    there = replace(of, metered=pa.concat_tables([of.metered, asked_rows(ASKED, of.pool_hour)]))

    assert base_of(ASKED, there) == base_of(ASKED, of)


@given(drawn=drawn_colocation(), slower=st.floats(0, 3))
def test_who_is_slowed_down_more_gets_no_less_back(
    drawn: tuple[IncomingPod, Colocation, Residents], slower: float
) -> None:
    incoming, colocation, residents = drawn
    one = colocation.slowdown
    worse = replace(
        colocation, slowdown=replace(one, low=one.low + slower, mean=one.mean + slower, high=one.high + slower)
    )

    less, more = (foreseen_transfers(incoming, of, residents, AMPLE).rebate for of in (colocation, worse))

    assert all(0 <= amount <= incoming.base_micros * incoming.hours for amount in (less.low, less.expected, less.high))
    assert less.low <= less.expected <= less.high
    tolerance = 1 + len(colocation.neighbours)  # of largest remainders
    assert more.low >= less.low - tolerance
    assert more.expected >= less.expected - tolerance


@given(drawn=drawn_colocation())
def test_a_surcharge_keeps_to_the_cap_and_who_keeps_within_its_request_pays_none(
    drawn: tuple[IncomingPod, Colocation, Residents],
) -> None:
    incoming, colocation, residents = drawn

    told = foreseen_transfers(incoming, colocation, residents, POLICY)

    assert 0 <= told.surcharge.low <= told.surcharge.expected <= told.surcharge.high
    assert told.surcharge.high <= share_of(incoming.base_micros * incoming.hours, POLICY.cap_ppm)
    if incoming.who.team not in residents.beyond:
        assert told.surcharge == NOTHING


def test_who_is_best_effort_gets_nothing_back_and_who_is_of_no_team_neither_gets_nor_pays() -> None:
    own = slowdown(1.5, 1.0)
    calm = replace(neighbour("web-1", 1.5, adds=0.25, added=0.25), best_effort=True)
    lost = neighbour("lost-1", 1.5, adds=0.25, added=0.25)
    residents = Residents(
        {"web-1": "ads", "lost-1": "unattributed"}, {"web-1": 3_000_000, "lost-1": 3_000_000}, frozenset(TEAMS)
    )
    incoming = IncomingPod("job-1", ME, 1_000_000, best_effort=True, hours=1)

    told = foreseen_transfers(incoming, Colocation(own, (calm, lost)), residents, AMPLE)
    paid = foreseen_transfers(replace(incoming, best_effort=False), Colocation(own, (lost,)), residents, POLICY)

    assert (told.rebate, told.surcharge) == (NOTHING, NOTHING)
    assert paid.rebate.expected == 333_333  # the platform's alone
    assert [one.liable for one in told.neighbours] == [False, True]


@given(drawn=drawn_colocation())
def test_nothing_is_given_back_for_a_slowdown_judged_by_waiting_alone(
    drawn: tuple[IncomingPod, Colocation, Residents],
) -> None:
    """As bills do not: else a quote would promise what no bill gives."""
    incoming, of, residents = drawn

    own = replace(of, slowdown=replace(of.slowdown, by_waiting=True))
    theirs = tuple(replace(one, slowdown=replace(one.slowdown, by_waiting=True)) for one in of.neighbours)

    known = foreseen_transfers(incoming, of, residents, AMPLE)
    assert foreseen_transfers(incoming, own, residents, AMPLE).rebate == NOTHING
    assert foreseen_transfers(incoming, own, residents, AMPLE).surcharge == known.surcharge
    assert foreseen_transfers(incoming, replace(of, neighbours=theirs), residents, AMPLE).surcharge == NOTHING
    assert foreseen_transfers(incoming, replace(of, neighbours=theirs), residents, AMPLE).rebate == known.rebate


@given(drawn=drawn_colocation(teams=("search",)))
def test_among_its_own_team_or_alone_nothing_is_moved(drawn: tuple[IncomingPod, Colocation, Residents]) -> None:
    incoming, colocation, residents = drawn

    for of in (colocation, replace(colocation, neighbours=())):
        told = foreseen_transfers(incoming, of, residents, AMPLE)
        assert (told.rebate, told.surcharge) == (NOTHING, NOTHING)


@given(here=drawn_colocation(), there=drawn_colocation(), of=drawn_sold())
def test_moving_there_and_back_comes_to_nothing(
    here: tuple[IncomingPod, Colocation, Residents], there: tuple[IncomingPod, Colocation, Residents], of: Sold
) -> None:
    first, second = (quote(ASKED, of, node, told[1]) for node, told in (("n", here), ("m", there)))

    for compare in (moved, changed):
        forth, back = compare(first, second), compare(second, first)
        assert forth.base_micros == -back.base_micros
        assert forth.owed_micros == -back.owed_micros
        for one, other in ((forth.rebate, back.rebate), (forth.surcharge, back.surcharge), (forth.total, back.total)):
            assert one is not None
            assert other is not None
            assert one == Amounts(-other.high, -other.expected, -other.low)


def test_an_hour_as_the_page_on_prices_has_it() -> None:
    """Web is slowed down 1.5 times, 0.3 of it by ads, who use more than they requested, 0.1 by night."""
    colocation = Colocation(slowdown(1.5, 1.2), (neighbour("train-1", adds=0.3), neighbour("report-1", adds=0.1)))
    residents = Residents(
        {"train-1": "ads", "report-1": "night"}, {"train-1": 1_760_000, "report-1": 100_000}, frozenset({"ads"})
    )
    incoming = IncomingPod("web-1", ME, 1_000_000, best_effort=False, hours=1)

    told = foreseen_transfers(incoming, colocation, residents, POLICY)
    capped = foreseen_transfers(incoming, colocation, residents, replace(POLICY, platform_cap_micros=0))

    assert told.rebate.low == 200_000  # surely 1.25 times: a fifth
    assert told.rebate.expected == 333_333
    assert told.alone_micros == 666_667
    assert capped.rebate.low == 120_000  # what ads are to blame for; the platform adds nothing
    assert [(one.of.container, one.team, one.liable) for one in told.neighbours] == [
        ("train-1", "ads", True),
        ("report-1", "night", False),
    ]


def test_what_is_added_to_neighbours_is_paid_by_who_uses_more_than_it_requested() -> None:
    colocation = Colocation(
        slowdown(1.0, 1.0), (neighbour("web-1", 1.5, added=0.25), neighbour("own-1", 1.5, added=0.25))
    )
    residents = Residents(
        {"web-1": "ads", "own-1": "search"}, {"web-1": 3_000_000, "own-1": 3_000_000}, frozenset({"search"})
    )
    incoming = IncomingPod("job-1", ME, 10_000_000, best_effort=False, hours=2)

    told = foreseen_transfers(incoming, colocation, residents, POLICY)

    # ads would get 2 of 6 back, half of that for what it adds; its own team is nobody's
    assert told.surcharge.expected == 1_000_000
    assert {one.of.container: one.share_micros for one in told.neighbours} == {"web-1": 1_000_000, "own-1": 0}


def test_in_shadow_mode_what_is_moved_is_shown_and_not_owed() -> None:
    policy = replace(AMPLE, delta_ppm=0)
    colocation = Colocation(slowdown(19 / 16, 1.0), (neighbour("train-1", adds=1.0),))

    shown, paid = (
        quote(ASKED, replace(sold(POOL, OTHER), book=book(replace(policy, shadow=shadow))), NODE, colocation)
        for shadow in (True, False)
    )

    assert shown.with_transfers == paid.with_transfers == Amounts(160_000, 160_000, 160_000)
    assert (shown.shadow, shown.owed_micros) == (True, 190_000)
    assert (paid.shadow, paid.owed_micros) == (False, 160_000)


def test_without_a_model_the_base_charge_is_told_and_why_there_is_no_more() -> None:
    of = sold(POOL, OTHER)
    found = quote(ASKED, of, NODE, None, "no model is promoted")

    assert (found.base_micros, found.transfers, found.why) == (190_000, None, "no model is promoted")
    change = moved(found, quote(ASKED, of, "m", None, "no model is promoted"))
    assert (change.base_micros, change.rebate, change.total, change.owed_micros) == (0, None, None, 0)
    assert "name a node" in quote(ASKED, of, None, None).why


@pytest.mark.parametrize(
    ("needs", "error", "says"),
    [
        ((), Invalid, "at least one resource"),
        ((Need("cpu", 1.0), Need("cpu", 2.0)), Invalid, "each once"),
        ((Need("cpu"),), Invalid, "request or use of cpu"),
        ((Need("cpu", nan),), Invalid, "outside 0 to 1,000,000"),
        ((Need("cpu", -1.0),), Invalid, "outside 0 to 1,000,000"),
        ((Need("gold", 1.0),), Invalid, "choose one of cpu, disk, gpu, memory, network"),
    ],
)
def test_what_cannot_be_quoted_is_said(needs: tuple[Need, ...], error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        quote(replace(ASKED, needs=needs), sold(POOL, OTHER), None, None)


def test_a_tier_or_a_time_that_there_is_not_is_refused() -> None:
    with pytest.raises(NotFound, match="choose one of batch, free, mid, prod"):
        quote(replace(ASKED, tier="gold"), sold(POOL, OTHER), None, None)
    with pytest.raises(Invalid, match="use 1 to 8784"):
        quote(replace(ASKED, hours=0), sold(POOL, OTHER), None, None)


def test_what_has_no_price_is_free() -> None:
    found = quote(replace(ASKED, needs=(*NEEDS, Need("disk", None, 3.0))), sold(POOL, OTHER), None, None)

    assert ([charge.need.resource for charge in found.charges], found.base_micros) == (["cpu", "memory"], 190_000)


def test_a_team_answers_for_what_all_its_containers_on_the_node_take_together() -> None:
    of = sold(POOL, OTHER)
    greedy = replace(ASKED, needs=(Need("cpu", 4.0, 6.0),))
    spare, tight = (Asked("own-1", None, "search", "prod", (Need("cpu", 8.0, use),)) for use in (4.0, 8.0))
    colocation = Colocation(slowdown(1.0, 1.0), (neighbour("train-1", 1.5, added=0.5),))

    paid = []
    for sibling in (spare, tight):
        there = replace(of, metered=pa.concat_tables([of.metered, rows_of(sibling, of.pool_hour, NODE)]))
        transfers = quote(greedy, there, NODE, colocation).transfers
        assert transfers is not None
        paid.append(transfers.surcharge.expected)

    assert paid[0] == 0 < paid[1]
