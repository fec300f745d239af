"""Transfers: what victims of interference get back, and who pays for it. Kernel; nothing is made or lost by it.

A victim gets back a share of its slowdown's cost, by a lower bound, so that overpayment is rare. The players
with attribution pay, a team on a node together, up to a cap. The platform pays the rest, up to a cap for each team
and month. Attribution to the victim's own team is not paid: no team earns by slowing itself down.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from advisor.billing.lines.line import Fact
from advisor.billing.lines.money import MICROS, apportion, share_of
from advisor.billing.pricing.price_book import Policy
from advisor.errors import AdvisorError

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, order=True)
class Player:
    """A team on a node: the unit of attribution, so that splitting a container changes nothing."""

    team: str
    node: str

    @property
    def name(self) -> str:
        """Unambiguous, and the order in which equal remainders are served."""
        return f"{self.team}\0{self.node}"


@dataclass(frozen=True, slots=True)
class Claim:
    """What a victim may get back for an hour.

    Args:
        container: its uid.
        who: its team and node.
        rebate_micros: micro-units, >= 0, from `rebates`.
        attribution: players, each with a whole number >= 0; those of its own team count, but neither pay nor are paid
        for.
        platform: the same for the platform: its own part, and the part without a known cause.
        evidence: for its charge record: base charge, bound of the slowdown, and their sources.
    """

    container: str
    who: Player
    rebate_micros: int
    attribution: tuple[tuple[Player, int], ...]
    platform: int
    evidence: tuple[Fact, ...] = ()


@dataclass(frozen=True, slots=True)
class Settled:
    """What is paid: the rebates are the surcharges and the platform's parts together.

    Args:
        rebates: (n,) micro-units that each claim gets.
        platform: (n,) what of that the platform pays.
        surcharges: micro-units by player; players who pay nothing are left out.
        attributed: what each would pay without cap.
    """

    rebates: tuple[int, ...]
    platform: tuple[int, ...]
    surcharges: Mapping[Player, int]
    attributed: Mapping[Player, int]


def eligible(low_ratio: Floats, policy: Policy) -> Flags:
    """Who was surely slow for long enough.

    Args:
        low_ratio: (w, n) lower bounds of slowdowns, window by window; NaN where none is known, which is no evidence.
        policy: how slow, in how many of how many windows.

    Returns:
        (n,) flags.

    Raises:
        AdvisorError: there are more windows than the policy counts.

    Source: ours, docs/decisions/0047-pricing.md.
    """
    if len(low_ratio) > policy.windows:
        raise _bad_transfers(f"{len(low_ratio)} windows an hour, but policy {policy.version!r} has {policy.windows}")
    limit = 1 + policy.delta_ppm / MICROS
    flags: Flags = (low_ratio > limit).sum(axis=0) >= policy.at_least
    return flags


def alone_price(base_micros: Ints, slowdown_ratio: Floats) -> Ints:
    """What would have been paid for the time that the work takes alone: base over slowdown.

    Args:
        base_micros: (n,) base charges, >= 0.
        slowdown_ratio: (n,) > 0; below 1 counts as 1, and so does NaN. The mean, for a price to quote.

    Returns:
        (n,) micro-units, rounded up, so that what is given back is never more than what was lost.

    Raises:
        Nothing.

    Source: Litmus, ASPLOS 2024: the price of the time alone.
    """
    ratios = np.maximum(np.nan_to_num(slowdown_ratio, nan=1.0), 1.0).tolist()
    parts = ((base, *ratio.as_integer_ratio()) for base, ratio in zip(base_micros.tolist(), ratios, strict=True))
    return np.array([-(-base * below // above) for base, above, below in parts], np.int64)


def rebates(base_micros: Ints, low_ratio: Floats, entitled: Flags, policy: Policy) -> Ints:
    """What victims may get back.

    Args:
        base_micros: (n,) base charges of the hour, >= 0.
        low_ratio: (n,) lower bounds of the hour's slowdowns; NaN where none is known, which gives nothing.
        entitled: (n,) from `eligible`.
        policy: which share of the loss.

    Returns:
        (n,) micro-units, theta x base x (1 - 1 / bound), rounded down; 0 for bounds up to 1 + delta.

    Raises:
        Nothing.

    Source: Litmus, ASPLOS 2024; bounds, and theta, ours, docs/decisions/0047-pricing.md.
    """
    surely = entitled & (low_ratio > 1 + policy.delta_ppm / MICROS)
    lost = np.where(surely, base_micros - alone_price(base_micros, low_ratio), 0)
    return np.array([share_of(amount, policy.theta_ppm) for amount in lost.tolist()], np.int64)


def within_entitlement(use: Floats, entitled: Floats) -> Flags:
    """Players within their entitlement; they get no attribution, since co-location was not their choice.

    Args:
        use: (p, r) what each took of each resource; NaN where it was not measured, which counts as within.
        entitled: (p, r) what each may take: its request, or its fair share of cache and memory bandwidth; NaN where
            unknown.

    Returns:
        (p,) flags.

    Raises:
        Nothing.

    Source: ours, docs/decisions/0047-pricing.md.
    """
    flags: Flags = (use > entitled).sum(axis=1) == 0
    return flags


def attribution_of(added: Floats, excess: float, within: Flags) -> tuple[Ints, int]:
    """Attribution of one victim's slowdown to players and the platform.

    Args:
        added: (p,) slowdown - 1 that each adds, from benchmarks.pricing_shapley; below 0, and NaN, counts as 0.
        excess: slowdown - 1 of the victim, all in all.
        within: (p,) players within their entitlement: their attribution goes to the platform.

    Returns:
        (p,) millionths, and the platform's: what no player adds is its doing too. They sum to 1,000,000.

    Raises:
        Nothing.

    Source: ours, docs/decisions/0047-pricing.md.
    """
    weights = np.maximum(np.nan_to_num(added, posinf=0.0), 0.0)
    whole = max(float(weights.sum()), excess)
    shares = np.where(within, 0.0, weights) / whole if whole > 0 else np.zeros(len(weights))
    parts = np.floor(shares * MICROS).astype(np.int64)
    return parts, MICROS - int(parts.sum())


def settle(
    claims: Sequence[Claim], base_micros: Mapping[Player, int], left_micros: Mapping[str, int], policy: Policy
) -> Settled:
    """Who pays for the rebates of an hour.

    Args:
        claims: of one pool and hour.
        base_micros: base charges of the hour by player, >= 0; players without are never charged.
        left_micros: by team, what the platform may still add to its rebates this month; 0 for teams not named.
        policy: the cap.

    Returns:
        Amounts whose sum is zero, rebates counted against surcharges and the platform.

    Raises:
        AdvisorError: a rebate or an attribution is negative, or a claim of a rebate has no attribution at all.

    Source: ours, docs/decisions/0047-pricing.md.
    """
    parts = [_by_player(claim) for claim in claims]
    attributed: dict[Player, int] = defaultdict(int)
    for by_player, _ in parts:
        for player, amount in by_player.items():
            attributed[player] += amount
    surcharges = {
        player: min(amount, share_of(base_micros.get(player, 0), policy.cap_ppm))
        for player, amount in attributed.items()
    }
    funded = _funded(claims, parts, surcharges)
    asked = [sum(by_player.values()) + own - paid for (by_player, own), paid in zip(parts, funded, strict=True)]
    platform = _within_caps(claims, asked, left_micros)
    return Settled(
        rebates=tuple(paid + added for paid, added in zip(funded, platform, strict=True)),
        platform=tuple(platform),
        surcharges={player: amount for player, amount in surcharges.items() if amount},
        attributed=dict(attributed),
    )


def _by_player(claim: Claim) -> tuple[dict[Player, int], int]:
    """Parts of a rebate by player of another team, and the platform's; the own team's part is left out."""
    if min([claim.rebate_micros, claim.platform, *(weight for _, weight in claim.attribution)]) < 0:
        raise _bad_transfers(f"container {claim.container}: a rebate or attribution weight is below 0")
    weights: dict[Player, int] = defaultdict(int)
    for player, weight in claim.attribution:
        weights[player] += weight
    if not claim.rebate_micros:
        return {}, 0
    if not any((*weights.values(), claim.platform)):
        raise _bad_transfers(f"container {claim.container}: it has a rebate but no attribution weight above 0")
    names = [player.name for player in weights]
    *shares, own = apportion(claim.rebate_micros, [*weights.values(), claim.platform], [*names, "\uffff"]).tolist()
    by_player = zip(weights, shares, strict=True)
    return {player: share for player, share in by_player if player.team != claim.who.team}, own


def _funded(
    claims: Sequence[Claim], parts: Sequence[tuple[dict[Player, int], int]], surcharges: Mapping[Player, int]
) -> list[int]:
    """The part of each claim paid by surcharges: each surcharge is divided by its player's attribution."""
    paid = [0] * len(claims)
    for player, surcharge in surcharges.items():
        if not surcharge:
            continue
        rows = [row for row, (by_player, _) in enumerate(parts) if by_player.get(player)]
        names = [claims[row].container for row in rows]
        shares = apportion(surcharge, [parts[row][0][player] for row in rows], names).tolist()
        for row, share in zip(rows, shares, strict=True):
            paid[row] += share
    return paid


def _within_caps(claims: Sequence[Claim], asked: Sequence[int], left_micros: Mapping[str, int]) -> list[int]:
    """What of the platform's parts it pays, each team's within what is left of its cap."""
    paid = list(asked)
    for team in sorted({claim.who.team for claim in claims}):
        rows = [row for row, claim in enumerate(claims) if claim.who.team == team]
        wanted, left = sum(asked[row] for row in rows), max(0, left_micros.get(team, 0))
        if wanted > left:
            shares = apportion(left, [asked[row] for row in rows], [claims[row].container for row in rows]).tolist()
            for row, share in zip(rows, shares, strict=True):
                paid[row] = share
    return paid


def _bad_transfers(reason: str) -> AdvisorError:
    return AdvisorError(f"the interference adjustments are inconsistent: {reason}")
