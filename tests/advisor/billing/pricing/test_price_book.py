"""Price book: who may change what from when, and words for what cannot be billed by."""

from dataclasses import replace

import pytest

from advisor.billing.lines.errors import BadBookText, BadPriceBook
from advisor.billing.lines.line import line_json
from advisor.billing.pricing.base import base_lines
from advisor.billing.pricing.billed_quantity import HOUR, Rule
from advisor.billing.pricing.price_book import (
    HOUR_US,
    IdleKeys,
    Policy,
    PriceBook,
    Tier,
    UnitPrice,
    added,
    approved,
    book_at,
    gaps,
    refuse_unusable,
    without,
)
from advisor.billing.pricing.price_book_toml import EXAMPLE, price_book_from
from advisor.errors import Conflict, Forbidden, NotFound
from tests.advisor.billing.billed import STAMP, START_US, Pool, accounts, billed, book, taken

BEFORE_US = START_US - HOUR_US
LATER_US = START_US + 5 * HOUR_US


def later(**changes: object) -> PriceBook:
    return replace(book(), version="later", start_us=LATER_US, **changes)  # type: ignore[arg-type]


def test_a_version_without_end_ends_where_the_next_one_begins() -> None:
    books = added((book(),), later(), BEFORE_US)

    assert [(one.version, one.end_us) for one in books] == [("2026-11", LATER_US), ("later", None)]
    assert book_at(books, LATER_US - HOUR_US).version == "2026-11"
    assert book_at(books, LATER_US).version == "later"
    assert gaps(books) == ()


def test_prices_change_from_their_hour_on_and_not_one_line_before_it() -> None:
    """I13."""
    dearer = later(prices=(UnitPrice("cpu", "core", 80_000), UnitPrice("memory", "GiB", 5_000)))
    before, after = (book(),), added((book(),), dearer, BEFORE_US)
    hours = [START_US + n * HOUR_US for n in range(10)]
    pool = Pool(1_000_000, {"cpu": 2 * HOUR, "memory": 8 * HOUR})

    def of_hour(books: tuple[PriceBook, ...], hour_us: int) -> list[bytes]:
        stamp = replace(STAMP, hour_us=hour_us, book=book_at(books, hour_us).version)
        rows = (("ads", "c", "prod", "cpu", HOUR), ("search", "d", "prod", "memory", 4 * HOUR))
        took = taken(*rows, hour_us=hour_us)
        return [*map(line_json, base_lines(took, pool.hours(hour_us), book_at(books, hour_us), stamp))]

    same = [of_hour(before, hour) == of_hour(after, hour) for hour in hours]
    assert same == [hour < LATER_US for hour in hours]


@pytest.mark.parametrize("now_us", [LATER_US, LATER_US + 1])
def test_what_has_begun_is_never_changed(now_us: int) -> None:
    with pytest.raises(Conflict, match="begins with a later hour"):
        added((book(),), later(), now_us)
    with pytest.raises(Conflict, match=r"a version in force is immutable\. Propose a"):
        without((later(),), "later", now_us)


def test_what_has_not_begun_can_be_taken_back_and_leaves_a_gap_that_is_named() -> None:
    last = replace(later(), version="last", start_us=LATER_US + HOUR_US)
    books = added(added((book(),), later(), BEFORE_US), last, BEFORE_US)

    left = without(books, "later", BEFORE_US)

    assert [one.version for one in left] == ["2026-11", "last"]
    assert gaps(left) == (
        "no price from 2026-11-01 05:00 UTC until 2026-11-01 06:00 UTC: give 'last' an earlier start",
    )
    with pytest.raises(NotFound, match=r"no price book covers 2026-11-01 05:00 UTC \(versions: 2026-11 from"):
        book_at(left, LATER_US)


def test_two_versions_never_apply_at_once() -> None:
    fixed = replace(book(), end_us=LATER_US + HOUR_US)
    with pytest.raises(Conflict, match="both apply from 2026-11-01 05:00 UTC"):
        added((fixed,), later(), BEFORE_US)
    with pytest.raises(Conflict, match="would both apply from"):
        added((later(),), replace(book(), end_us=None), BEFORE_US)
    with pytest.raises(Conflict, match="under another name"):
        added((book(),), replace(later(), version="2026-11"), BEFORE_US)
    assert len(added((later(),), replace(book(), end_us=LATER_US), BEFORE_US)) == 2


def test_nobody_approves_what_they_propose() -> None:
    with pytest.raises(Forbidden, match="ann both proposed and approved it"):
        approved(later(approved_by=None), "ann")
    with pytest.raises(Forbidden, match="it is not approved"):
        added((), later(approved_by=None), BEFORE_US)
    with pytest.raises(Forbidden, match="cannot be used for billing"):
        book_at((later(approved_by="ann"),), LATER_US)
    assert approved(later(approved_by=None), "bob").approved_by == "bob"


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"start_us": START_US + 1}, "use a full hour"),
        ({"end_us": START_US + HOUR_US // 2}, "ends at 2026-11-01 00:30 UTC, within an hour"),
        ({"end_us": START_US}, "before it begins"),
        ({"currency": "RMB"}, "write CNY"),
        ({"prices": ()}, "no resource has a price above 0"),
        ({"prices": (UnitPrice("cpu", "core", 1),) * 2}, "name each once"),
        ({"prices": (UnitPrice("cpu", "core", 5), UnitPrice("gpu", "card", -1))}, "use 0 for free resources"),
        ({"tiers": ()}, "tiers are missing"),
        ({"tiers": (Tier("prod", -1),)}, "use 0 for free resources"),
        ({"policy": Policy("p", Rule(1.5, 1.0))}, "kappa 1.5 must be in 0 to 1"),
        ({"policy": Policy("p", Rule(0.5, -1.0))}, "beta -1 not below 0"),
        ({"policy": Policy("p", cap_ppm=2_000_000)}, "cap is 2000000 millionths"),
        ({"policy": Policy("p", at_least=13)}, "13 of 12 windows are invalid"),
        ({"policy": Policy("p", gamma_ppm=-1)}, "0 turns them off"),
    ],
)
def test_a_version_that_cannot_be_billed_by_says_what_to_do(changes: dict[str, object], says: str) -> None:
    with pytest.raises(BadPriceBook, match=says):
        refuse_unusable(book(**changes))  # type: ignore[arg-type]


def test_everything_that_is_wrong_is_said_at_once() -> None:
    with pytest.raises(BadPriceBook) as refused:
        refuse_unusable(replace(book(), currency="RMB", tiers=(), start_us=1))

    assert str(refused.value).count("; ") == 2


def test_a_price_of_another_team_does_not_matter_to_the_sum() -> None:
    """I1, of prices: whatever they are, the pool costs what it costs."""
    for weight in (1, 40_000, 10**12):
        of = replace(book(), prices=(UnitPrice("cpu", "core", weight),))
        lines = billed(Pool(777, {"cpu": 3 * HOUR}), taken(("ads", "c", "prod", "cpu", HOUR)), of)
        assert accounts(lines) == {"ads": 259, "platform": 518}


@pytest.mark.parametrize(
    ("told", "instead", "says"),
    [
        ('price = "0.04"', 'price = "0.0000001"', "give 6 decimals at most"),
        ("BE = 0.25", "BE = 1e-7", "give 6 decimals at most"),
        ('price = "0.04"', f'price = "{"9" * 40}"', "less than or equal to 1000000"),
        ('price = "0.04"', f'price = "1e-{"9" * 9}"', "give 6 decimals at most"),
        ("BE = 0.25", "BE = 101", "less than or equal to 100"),
        ("BE = 0.25", "BE = true", "give a number"),
        ("quantile = 0.8", "quantile = 0.9999999999999999", "less than or equal to 0.999"),
        ("kappa = 0.5", "kappa = true", "valid number"),
        ("shadow = true", "shadow = 1", "valid boolean"),
        ("2026-12-01T00:00:00Z", "1793491200", "valid datetime"),
        ("cpu = {", '"c\\u001bpu" = {', "should match pattern"),
        ('stranded = "platform"', 'stranded = "nobody"', "'platform', 'teams' or 'causers'"),
        ('failure = "platform"', 'failure = "causers"', "'platform' or 'teams'"),
        ('version = "2026-12"', f"version = {'[' * 10_000}", "invalid TOML"),
        ('version = "2026-12"', f"version = {'9' * 5_000}", "invalid TOML"),
    ],
)
def test_a_text_that_would_not_be_billed_as_it_is_written_is_refused(told: str, instead: str, says: str) -> None:
    assert told in EXAMPLE

    with pytest.raises(BadBookText, match=says):
        price_book_from(EXAMPLE.replace(told, instead, 1), "ann")


def test_a_text_says_who_pays_for_what_nobody_took() -> None:
    usual = price_book_from(EXAMPLE, "ann")
    told = EXAMPLE.replace('stranded = "platform"', 'stranded = "causers"').replace(
        'headroom = "platform"', 'headroom = "teams"'
    )

    assert usual.policy.idle == IdleKeys()
    assert price_book_from(told, "ann").policy.idle == IdleKeys(headroom="teams", stranded="causers")
