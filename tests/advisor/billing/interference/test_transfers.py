"""Transfers: what is given back is paid by somebody, nobody pays beyond a bound, and nobody earns by a trick."""

from collections import defaultdict
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.billing.interference.settlement_lines import transfer_lines
from advisor.billing.interference.transfers import (
    Claim,
    Player,
    alone_price,
    attribution_of,
    eligible,
    rebates,
    settle,
    within_entitlement,
)
from advisor.billing.lines.line import PLATFORM, line_json
from advisor.billing.lines.money import MICROS, share_of
from advisor.errors import AdvisorError
from tests.advisor.billing.billed import POLICY, STAMP, TEAMS, accounts, total

NAN = float("nan")
PLAYERS = [Player(team, node) for team in TEAMS for node in ("n1", "n2")]
WHO = st.sampled_from(PLAYERS)
RATIOS = st.floats(0.5, 20)
AMOUNTS = st.integers(0, 10**12)
BASES = st.fixed_dictionaries(dict.fromkeys(PLAYERS, AMOUNTS))
LEFT = st.dictionaries(st.sampled_from(TEAMS), AMOUNTS)


@st.composite
def drawn_claims(draw: st.DrawFn) -> list[Claim]:
    attribution = st.lists(st.tuples(WHO, st.integers(0, 100)), max_size=4).map(tuple)
    return [
        Claim(f"c{i}", draw(WHO), draw(AMOUNTS), draw(attribution), draw(st.integers(1, 100)))
        for i in range(draw(st.integers(0, 6)))
    ]


def claim(team: str, rebate: int, *attribution: tuple[str, int], platform: int = 0, container: str = "v") -> Claim:
    by = tuple((Player(other, "n1"), weight) for other, weight in attribution)
    return Claim(container, Player(team, "n1"), rebate, by, platform)


def bases(**micros: int) -> dict[Player, int]:
    return {Player(team, "n1"): amount for team, amount in micros.items()}


@given(claims=drawn_claims(), base=BASES, left=LEFT)
def test_rebates_are_paid_by_surcharges_and_platform_to_the_last_unit(
    claims: list[Claim], base: dict[Player, int], left: dict[str, int]
) -> None:
    """I4."""
    found = settle(claims, base, left, POLICY)

    assert sum(found.rebates) == sum(found.surcharges.values()) + sum(found.platform)
    assert min(found.platform, default=0) >= 0
    assert total(transfer_lines(claims, found, POLICY, STAMP)) == 0


@given(claims=drawn_claims(), base=BASES, left=LEFT)
def test_nobody_pays_beyond_the_cap_and_nobody_gets_more_than_it_lost(
    claims: list[Claim], base: dict[Player, int], left: dict[str, int]
) -> None:
    """I5."""
    found = settle(claims, base, left, POLICY)

    for player, surcharge in found.surcharges.items():
        assert 0 < surcharge <= share_of(base[player], POLICY.cap_ppm)
        assert surcharge <= found.attributed[player]
    assert all(0 <= paid <= one.rebate_micros for paid, one in zip(found.rebates, claims, strict=True))


@given(base=AMOUNTS, ratio=RATIOS, theta=st.integers(0, MICROS))
def test_a_rebate_is_at_most_its_share_of_the_loss_and_never_makes_a_bill_negative(
    base: int, ratio: float, theta: int
) -> None:
    """I5, of a single rebate, in fractions: not even rounding passes the bound."""
    policy = replace(POLICY, theta_ppm=theta)

    found = int(rebates(np.array([base]), np.array([ratio]), np.array([True]), policy)[0])

    assert 0 <= found <= base
    assert found <= Fraction(theta, MICROS) * base * max(Fraction(0), 1 - 1 / Fraction(ratio))


@given(base=AMOUNTS, ratio=RATIOS, more=st.floats(0, 5))
def test_the_slower_a_victim_the_more_it_gets_back(base: int, ratio: float, more: float) -> None:
    """I6, of slowdown."""
    slow, slower = rebates(np.array([base] * 2), np.array([ratio, ratio + more]), np.array([True] * 2), POLICY).tolist()

    assert slower >= slow


@given(claims=drawn_claims().filter(bool), more=st.integers(1, 100), who=WHO)
def test_whoever_presses_harder_pays_more(claims: list[Claim], more: int, who: Player) -> None:
    """I6, of pressure, the cap aside."""
    policy, rich = replace(POLICY, cap_ppm=MICROS), dict.fromkeys(PLAYERS, 10**15)
    harder = [replace(claims[0], attribution=(*claims[0].attribution, (who, more))), *claims[1:]]

    before, after = (settle(some, rich, {}, policy).surcharges.get(who, 0) for some in (claims, harder))

    assert after >= before


@given(rebate=AMOUNTS, weights=st.lists(st.integers(0, 50), min_size=2, max_size=4), own=st.integers(1, 50))
def test_blame_on_a_team_in_two_pieces_costs_it_the_same(rebate: int, weights: list[int], own: int) -> None:
    """I7, of blame: players are teams on nodes, so containers of one do not show."""
    first, *rest = weights
    whole = claim("ads", rebate, ("search", sum(weights)), platform=own)
    split = claim("ads", rebate, ("search", first), *(("search", weight) for weight in rest), platform=own)

    one, two = (settle([each], bases(search=10**13), {}, POLICY) for each in (whole, split))

    assert one == two


@given(claims=drawn_claims(), base=BASES, left=LEFT, other=st.sampled_from(TEAMS))
def test_no_team_and_no_pair_of_teams_earns_more_than_the_platform_adds(
    claims: list[Claim], base: dict[Player, int], left: dict[str, int], other: str
) -> None:
    """I8: whatever they claim and whoever they say did it; what others are made to pay is within their caps."""
    pair = {"search", other}
    inside = [replace(one, attribution=tuple(b for b in one.attribution if b[0].team in pair)) for one in claims]
    found = settle([one for one in inside if one.who.team in pair], base, left, POLICY)

    lines = transfer_lines([one for one in inside if one.who.team in pair], found, POLICY, STAMP)

    gain = -sum(amount for account, amount in accounts(lines).items() if account in pair)
    assert gain == sum(found.platform)
    assert gain <= sum(left.get(team, 0) for team in pair)


@given(rebate=AMOUNTS, weight=st.integers(1, 100))
def test_a_team_that_slows_itself_down_gets_nothing_for_it(rebate: int, weight: int) -> None:
    """I8, of one team, though the platform would pay anything."""
    found = settle([claim("ads", rebate, ("ads", weight))], bases(ads=10**12), {"ads": 10**15}, POLICY)

    assert found.rebates == (0,)
    assert not found.surcharges


def test_what_the_platform_adds_in_a_month_is_bounded_for_each_team() -> None:
    """I8."""
    claims = [
        claim("ads", 900, platform=1, container="a"),
        claim("ads", 300, platform=1, container="b"),
        claim("search", 500, platform=1, container="c"),
    ]

    found = settle(claims, {}, {"ads": 400, "search": 1000}, POLICY)

    assert found.platform == found.rebates == (300, 100, 500)


def test_beyond_the_cap_the_platform_pays() -> None:
    claims = [claim("ads", 800, ("search", 3), ("batch", 1))]

    found = settle(claims, bases(search=1000, batch=100_000), {"ads": 10**6}, POLICY)

    assert found.attributed == bases(search=600, batch=200)
    assert found.surcharges == bases(search=200, batch=200)
    assert (found.rebates, found.platform) == ((800,), (400,))


def test_alone_or_hardly_slower_there_is_no_line() -> None:
    """I10."""
    low = np.array([1.0, 1.05, NAN, 0.9])
    found = rebates(np.full(4, 10**9), low, np.ones(4, np.bool_), POLICY)
    alone = [claim("ads", int(amount), platform=1, container=f"c{i}") for i, amount in enumerate(found)]

    lines = transfer_lines(alone, settle(alone, {}, {"ads": 10**9}, POLICY), POLICY, STAMP)

    assert found.tolist() == [0, 0, 0, 0]
    assert lines == ()
    assert attribution_of(np.zeros(0), 0.0, np.zeros(0, np.bool_))[1] == MICROS, "alone, nobody else has the blame"


def test_only_who_was_surely_slow_for_long_enough_gets_something() -> None:
    policy = replace(POLICY, windows=4, at_least=2)
    low = np.array([[1.2, 1.2, NAN, 1.05], [1.2, 1.0, NAN, 1.05], [1.0, 1.0, 1.2, 1.06], [1.0, NAN, 1.2, 1.0]])

    assert eligible(low, policy).tolist() == [True, False, True, False]
    with pytest.raises(AdvisorError, match="has 4"):
        eligible(np.ones((5, 2)), policy)


def test_the_price_quoted_is_that_of_the_time_alone() -> None:
    assert alone_price(np.array([1000, 1000, 1000, 1000]), np.array([1.25, 3.0, 0.5, NAN])).tolist() == [
        800, 334, 1000, 1000
    ]  # fmt: skip


def test_theta_is_the_share_of_the_loss_that_is_given_back() -> None:
    half = replace(POLICY, theta_ppm=500_000)

    assert rebates(np.array([1000]), np.array([1.25]), np.array([True]), half).tolist() == [100]
    assert rebates(np.array([1000]), np.array([1.25]), np.array([False]), half).tolist() == [0]


def test_whoever_takes_no_more_than_it_may_is_not_blamed() -> None:
    use = np.array([[2.0, 0.2], [2.1, 0.2], [1.0, 0.6], [NAN, NAN]])
    entitled = np.array([[2.0, 0.5]] * 4)

    within = within_entitlement(use, entitled)
    parts, platform = attribution_of(np.array([0.1, 0.2, 0.1, 0.1]), 0.5, within)

    assert within.tolist() == [True, False, False, True]
    assert (parts.tolist(), platform) == ([0, 400_000, 200_000, 0], 400_000)


def test_what_no_neighbour_explains_is_the_platforms() -> None:
    parts, platform = attribution_of(np.array([0.1, -0.2, NAN]), 0.4, np.zeros(3, np.bool_))

    assert (parts.tolist(), platform) == ([250_000, 0, 0], 750_000)


@given(
    added=st.lists(st.floats(-1, 1), max_size=6), excess=st.floats(-1, 3), within=st.lists(st.booleans(), min_size=6)
)
def test_blame_is_whole_and_nobodys_is_negative(added: list[float], excess: float, within: list[bool]) -> None:
    parts, platform = attribution_of(np.array(added), excess, np.array(within[: len(added)], np.bool_))

    assert int(parts.sum()) + platform == MICROS
    assert min([*parts.tolist(), platform]) >= 0


@given(claims=drawn_claims(), base=BASES, left=LEFT)
def test_in_shadow_mode_nobody_pays_and_every_line_says_what_it_would_be(
    claims: list[Claim], base: dict[Player, int], left: dict[str, int]
) -> None:
    found = settle(claims, base, left, POLICY)

    real = transfer_lines(claims, found, POLICY, STAMP)
    shown = transfer_lines(claims, found, replace(POLICY, shadow=True), STAMP)

    assert {line.amount_micros for line in shown} <= {0}
    assert [(line.id, line.memo_micros) for line in shown] == [(line.id, line.amount_micros) for line in real]


@given(claims=drawn_claims(), base=BASES, left=LEFT, seed=st.integers(0, 99))
def test_claims_in_another_order_settle_to_the_same_lines(
    claims: list[Claim], base: dict[Player, int], left: dict[str, int], seed: int
) -> None:
    """I3, of transfers."""
    order = np.random.default_rng(seed).permutation(len(claims))
    other = [claims[i] for i in order]

    first, again = (
        sorted(map(line_json, transfer_lines(some, settle(some, base, left, POLICY), POLICY, STAMP)))
        for some in (claims, other)
    )

    assert first == again


def test_each_line_says_who_pays_whom() -> None:
    one = claim("ads", 1000, ("search", 1), platform=1)

    lines = transfer_lines([one], settle([one], bases(search=10**6), {"ads": 10**6}, POLICY), POLICY, STAMP)

    told = {(line.kind, line.subject.account): line.amount_micros for line in lines}
    assert told == {("rebate", "ads"): -1000, ("surcharge", "search"): 500, ("platform_share", PLATFORM): 500}
    by_kind: dict[str, set[str | None]] = defaultdict(set)
    for line in lines:
        by_kind[line.kind] |= {line.subject.container, line.subject.node}
    assert by_kind == {"rebate": {"v", "n1"}, "surcharge": {None, "n1"}, "platform_share": {"v", "n1"}}


@pytest.mark.parametrize(
    ("wrong", "says"),
    [(claim("ads", -1, platform=1), "below 0"), (claim("ads", 1, ("search", -1), platform=1), "below 0"),
     (claim("ads", 1), "no attribution weight above 0")],
)  # fmt: skip
def test_claims_that_make_no_sense_are_refused(wrong: Claim, says: str) -> None:
    with pytest.raises(AdvisorError, match=says):
        settle([wrong], {}, {}, POLICY)
