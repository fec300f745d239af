"""Transfers in a month: what victims get back, who pays, the platform's cap, and each line explained."""

from dataclasses import replace
from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import Engine

from advisor.auth.audit_log import Entry
from advisor.billing.interference.billed_hours import Known, bill_hours
from advisor.billing.interference.claims import hour_bound
from advisor.billing.ledger import price_book_store as book_store
from advisor.billing.ledger.closing import Closing
from advisor.billing.ledger.drafts import Draft, digest_of
from advisor.billing.ledger.postings import owed
from advisor.billing.lines.money import MICROS
from advisor.billing.lines.parquet import in_line_order, read_lines, reference
from advisor.billing.pricing.price_book import HOUR_US, Policy, PriceBook
from advisor.errors import Conflict
from cohabit.billing.draft import draft_of, refuse_unjudged, unjudged_days
from cohabit.billing.statements.explain import explain
from features.schema.tables import IDLE, METERED, POOL_HOURS, SCARCITY, SLOWED
from ingest.lake.tables import Lake
from tests.advisor.billing.billed import START_US
from tests.advisor.billing.metered_month import (
    COST,
    HOURS,
    judge,
    lake_of,
    metered_row,
    pool_rows,
    price_book,
    put,
    rows,
    slowed_row,
    table_of,
)
from tests.advisor.billing.months_drawn import ANN, BOB, NOW_US, PERIOD

PAYING = Policy("fair-1", shadow=False, platform_cap_micros=400_000)


def book_of(policy: Policy = PAYING) -> PriceBook:
    return replace(price_book(), policy=policy)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    made = lake_of(tmp_path / "lake", rows(), pool_rows())
    judge(made, [slowed_row(hour) for hour in HOURS])
    return made


def drafted(lake: Lake, folder: Path, policy: Policy = PAYING) -> Draft:
    return draft_of(lake, "c", PERIOD, books=[book_of(policy)], folder=folder, progress=lambda *_: None)


def lines_of(found: Draft, folder: Path) -> pa.Table:
    return pa.concat_tables([read_lines(folder / f"{batch.sha256}.parquet")[0] for batch in found.batches])


def sums(lines: pa.Table, column: str = "amount_micros") -> dict[str, int]:
    grouped = lines.group_by("kind").aggregate([(column, "sum")]).to_pylist()
    return {row["kind"]: row[f"{column}_sum"] for row in grouped}


def of_kind(lines: pa.Table, kind: str) -> list[dict[str, object]]:
    found: list[dict[str, object]] = lines.filter(pc.equal(lines["kind"], kind)).to_pylist()
    return found


def test_victims_get_back_what_others_and_the_platform_pay_and_pools_still_come_to_their_cost(
    lake: Lake, tmp_path: Path
) -> None:
    found = drafted(lake, tmp_path / "l")
    moved = sums(lines_of(found, tmp_path / "l"))

    assert moved["rebate"] < 0 < moved["surcharge"]
    assert moved["rebate"] + moved["surcharge"] + moved["platform_share"] == 0
    assert all(batch.amount_micros == batch.cost_micros for batch in found.batches)
    assert sum(owed(found.postings).values()) == sum(COST + n for n in range(len(HOURS)))
    assert {batch.model for batch in found.batches} == {"slowed-2"}


def test_a_victim_pays_for_the_time_alone_and_the_antagonist_for_what_it_added_up_to_its_cap(
    lake: Lake, tmp_path: Path
) -> None:
    policy = replace(PAYING, platform_cap_micros=10**12, cap_ppm=MICROS)
    lines = lines_of(drafted(lake, tmp_path / "l", policy), tmp_path / "l")
    hour = lines.filter(pc.equal(lines["hour"], pa.scalar(HOURS[0], lines.schema.field("hour").type)))
    base = sum(row["amount_micros"] for row in of_kind(hour, "base") if row["container"] == "web-2")  # type: ignore[misc]

    (rebate,), (surcharge,) = of_kind(hour, "rebate"), of_kind(hour, "surcharge")
    (added,) = of_kind(hour, "platform_share")

    loss = base - -(-base * 2 // 3)
    own_team = loss * 0.1  # web-1 is of team shop too
    assert rebate["account"] == "shop"
    assert surcharge["account"] == "search"
    assert -rebate["amount_micros"] == pytest.approx(loss - own_team, abs=2)  # type: ignore[operator]
    assert surcharge["amount_micros"] == pytest.approx(loss * 0.6, abs=2)
    assert added["amount_micros"] == pytest.approx(loss * 0.3, abs=2)  # lost-1 has no team; nobody adds the rest
    assert "search 0.600" in str(rebate["evidence"])


def test_what_the_platform_adds_to_a_teams_rebates_is_capped_over_the_whole_month(lake: Lake, tmp_path: Path) -> None:
    found = drafted(lake, tmp_path / "l")
    lines = lines_of(found, tmp_path / "l")

    assert sums(lines)["platform_share"] == PAYING.platform_cap_micros
    assert len({row["hour"].day for row in of_kind(lines, "platform_share")}) == 1  # type: ignore[attr-defined]
    assert len(of_kind(lines, "surcharge")) == len(HOURS), "surcharges go on"


def test_in_shadow_mode_nobody_pays_and_lines_remember_what_it_would_be(lake: Lake, tmp_path: Path) -> None:
    paid = lines_of(drafted(lake, tmp_path / "l"), tmp_path / "l")
    shown = lines_of(drafted(lake, tmp_path / "l", replace(PAYING, shadow=True)), tmp_path / "l")

    kinds = ("rebate", "surcharge", "platform_share")
    assert [sums(shown)[kind] for kind in kinds] == [0, 0, 0]
    assert [sums(shown, "memo_micros")[kind] for kind in kinds] == [sums(paid)[kind] for kind in kinds]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"low": [1.04] * 12}, "everybody's own risk"),
        ({"low": [1.5] * 5 + [None] * 7}, "not long enough"),
        ({"container": "lost-1"}, "of no team"),
        ({"container": "gone-1"}, "not billed"),
        ({"node": "n9"}, "nobody was billed there"),
        ({"neighbours": [{"container": "web-1", "added": 1.0, "llc": None, "memory_bandwidth": None}]}, "own team"),
    ],
)
def test_nothing_is_moved_without_a_sure_slowdown_of_a_team_by_another(
    lake: Lake, tmp_path: Path, change: dict[str, object], why: str
) -> None:
    judge(lake, [slowed_row(hour, **change) for hour in HOURS])

    found = lines_of(drafted(lake, tmp_path / "l"), tmp_path / "l")

    assert not {"surcharge", "rebate"} & sums(found).keys(), why


def test_who_kept_to_its_request_is_not_blamed_unless_it_crowds_the_cache(lake: Lake, tmp_path: Path) -> None:
    quiet = [row | {"within": row["requested"], "beyond": 0} for row in rows()]
    put(lake, quiet, pool_rows())
    fair = lines_of(drafted(lake, tmp_path / "l"), tmp_path / "l")
    crowding = [{"container": "crawl-1", "added": 0.8, "llc": 0.7, "memory_bandwidth": 0.1}]
    judge(lake, [slowed_row(hour, neighbours=crowding) for hour in HOURS])

    crowded = lines_of(drafted(lake, tmp_path / "l"), tmp_path / "l")

    assert "surcharge" not in sums(fair)
    assert sums(fair)["platform_share"] > 0
    assert sums(crowded)["surcharge"] > 0


def test_every_line_of_a_month_with_transfers_is_worked_out_again_the_same(
    store: Engine, lake: Lake, tmp_path: Path
) -> None:
    book_store.propose(store, book_of(), START_US - HOUR_US, Entry(0, "ann", "finance", "x", "y", "done", "r"))
    folder, closing = tmp_path / "l", Closing(store, "c", lambda: NOW_US)
    found = drafted(lake, folder)
    closing.close(PERIOD, closing.begin(found, 0, ANN).digest, BOB)
    put(lake, [], [])
    judge(lake, [])

    for batch in found.batches:
        lines, _ = read_lines(folder / f"{batch.sha256}.parquet")
        transfers = {"rebate", "surcharge", "platform_share"}
        moved = [row for row, kind in enumerate(lines["kind"].to_pylist()) if kind in transfers]
        for row in [*moved, *range(0, batch.rows, 11)]:
            told = explain(store, "c", reference(batch.sha256, row), folder)
            assert told.same, told


def test_the_same_month_makes_the_same_draft_whatever_order_its_rows_are_in(lake: Lake, tmp_path: Path) -> None:
    first = digest_of(drafted(lake, tmp_path / "a"))
    mixed, victims = rows(), [slowed_row(hour) for hour in HOURS]
    Random(3).shuffle(mixed)
    Random(4).shuffle(victims)
    put(lake, mixed, pool_rows()[::-1])
    judge(lake, victims)

    assert digest_of(drafted(lake, tmp_path / "b")) == first


def test_a_month_in_which_somebody_pays_is_closed_when_its_days_were_judged(tmp_path: Path) -> None:
    made = lake_of(tmp_path / "lake", rows(), pool_rows())

    with pytest.raises(Conflict, match=r"2 of its days were not judged \(29, 30 .*`cohabit bill judge`"):
        refuse_unjudged(made, "c", PERIOD, [book_of()])
    refuse_unjudged(made, "c", PERIOD, [book_of(replace(PAYING, shadow=True))])
    assert len(unjudged_days(made, "c", PERIOD, [book_of(replace(PAYING, shadow=True))])) == 2
    assert unjudged_days(made, "c", PERIOD, [book_of(replace(PAYING, theta_ppm=0))]) == []


LOW = st.lists(st.none() | st.floats(0.5, 20.0), min_size=12, max_size=12)
ADDED = st.dictionaries(
    st.sampled_from(["web-1", "crawl-1", "lost-1", "ads-1", "gone-1"]), st.floats(-1, 5), max_size=5
)


@st.composite
def drawn(draw: st.DrawFn) -> tuple[list[dict[str, object]], Policy]:
    """Victims of two hours, and a policy."""
    victims = []
    for hour in HOURS[:2]:
        for container in draw(st.sets(st.sampled_from(["web-1", "web-2", "crawl-1", "ads-1", "gone-1"]))):
            beside = [
                {"container": name, "added": added, "llc": draw(st.none() | st.floats(0, 1)), "memory_bandwidth": None}
                for name, added in draw(ADDED).items()
                if name != container
            ]
            told = {"container": container, "low": draw(LOW), "excess": draw(st.floats(0, 5)), "neighbours": beside}
            victims.append(slowed_row(hour, **told))
    policy = replace(
        PAYING,
        theta_ppm=draw(st.integers(0, MICROS)),
        cap_ppm=draw(st.integers(0, MICROS)),
        platform_cap_micros=draw(st.integers(0, 10**7)),
        at_least=draw(st.integers(1, 12)),
    )
    return victims, policy


@given(drawn(), st.integers(0, 10**7))
@settings(max_examples=60, deadline=None)
def test_whatever_was_judged_transfers_sum_to_zero_within_caps(
    case: tuple[list[dict[str, object]], Policy], before: int
) -> None:
    """I4, I5, I8: over drawn victims, blame, bounds and policies."""
    victims, policy = case
    taken = [*rows(HOURS[:2]), *(metered_row(hour, "ads-1", "cpu", 3.0, team="ads") for hour in HOURS[:2])]
    known = Known(
        metered=table_of(taken, METERED),
        pools=table_of(pool_rows(HOURS[:2]), POOL_HOURS),
        slowed=table_of(victims, SLOWED),
        scarcity=SCARCITY.schema.empty_table(),
        idle=IDLE.schema.empty_table(),
    )

    lines, moved = bill_hours(known, book_of(policy), {"shop": before})

    assert in_line_order(lines).equals(lines)
    amounts = sums(moved.lines)
    assert sum(amounts.values()) == 0
    assert sums(lines).get("rebate", 0) == amounts.get("rebate", 0)
    assert amounts.get("platform_share", 0) == sum(moved.spent.values()) - before
    assert all(moved.spent[team] <= max(policy.platform_cap_micros, before * (team == "shop")) for team in moved.spent)
    for hour in HOURS[:2]:
        there = lines.filter(pc.equal(lines["hour"], pa.scalar(hour, lines.schema.field("hour").type)))
        for surcharge in of_kind(there, "surcharge"):
            base = sum(r["amount_micros"] for r in of_kind(there, "base") if r["account"] == surcharge["account"])  # type: ignore[misc]
            assert surcharge["amount_micros"] * MICROS <= base * policy.cap_ppm  # type: ignore[operator]
        for rebate in of_kind(there, "rebate"):
            base = sum(r["amount_micros"] for r in of_kind(there, "base") if r["container"] == rebate["container"])  # type: ignore[misc]
            assert 0 < -rebate["amount_micros"] <= base  # type: ignore[operator]


def test_an_hour_lost_as_much_as_its_windows_together() -> None:
    low = np.array([[2.0, 0.5], [np.nan, np.nan], [1.0, 1.0], [1.0, 1.0]])

    assert hour_bound(low).tolist() == [pytest.approx(4 / 3.5), 1.0]
