"""Quoted transfers: what interference would move for a container on a node, by what a model foresees there. Kernel.

The arithmetic is that of advisor.billing.interference.transfers; what is measured there is foreseen here, with an
interval.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from advisor.billing.interference.claims import OWN_ACCOUNTS
from advisor.billing.interference.transfers import (
    Claim,
    Player,
    alone_price,
    attribution_of,
    eligible,
    rebates,
    settle,
)
from advisor.billing.lines.line import PLATFORM
from advisor.billing.pricing.price_book import Policy

MONTH_HOURS = 744
"""Hours of a long month: what the platform adds to rebates is capped by month."""


@dataclass(frozen=True, slots=True)
class Slowdown:
    """A predicted slowdown, ratio to its baseline.

    Args:
        low: it stays above this nine times in ten.
        mean: expected.
        high: it stays below this nine times in ten.
        by_waiting: whether it was learnt from labels of waiting: these are no ground to give anything back.
    """

    low: float
    mean: float
    high: float
    by_waiting: bool = False

    @property
    def levels(self) -> tuple[float, float, float]:
        """Low, mean and high."""
        return self.low, self.mean, self.high


@dataclass(frozen=True, slots=True)
class Amounts:
    """Micro-units that are not known exactly.

    Args:
        low: by the lower ends of slowdowns.
        expected: by their means.
        high: by their upper ends.
    """

    low: int
    expected: int
    high: int

    @staticmethod
    def of(amount: Callable[[int], int]) -> "Amounts":
        """What comes of levels 0, 1 and 2; a unit that rounding put on the wrong side is put right."""
        low, expected, high = (amount(level) for level in range(3))
        return Amounts(min(low, expected), expected, max(expected, high))


NOTHING = Amounts(0, 0, 0)


@dataclass(frozen=True, slots=True)
class Neighbour:
    """A container co-located with the estimated one.

    Args:
        container: its uid.
        app: None where unknown.
        best_effort: whether it is; these get nothing back.
        slowdown: its own, co-located with the estimated one.
        adds: slowdown - 1 that it adds to the quoted one.
        added: slowdown - 1 that the quoted one adds to it.
    """

    container: str
    app: str | None
    best_effort: bool
    slowdown: Slowdown
    adds: float
    added: float


@dataclass(frozen=True, slots=True)
class Colocation:
    """A container on a node, as a model predicts it: its slowdown, and all neighbours."""

    slowdown: Slowdown
    neighbours: tuple[Neighbour, ...]


@dataclass(frozen=True, slots=True)
class Residents:
    """Charges on a node for an hour, without the estimated container.

    Args:
        team: account of each container, by uid.
        base_micros: base charge of each, by uid.
        beyond: accounts that use more of some resource than they requested, the quoted container counted in.
    """

    team: Mapping[str, str]
    base_micros: Mapping[str, int]
    beyond: frozenset[str]

    def player(self, container: str) -> str | None:
        """The team that gets a container's rebates, or pays; None without one."""
        team = self.team.get(container)
        return None if team in OWN_ACCOUNTS else team

    def is_beyond(self, container: str) -> bool:
        """Whether its team pays for what it adds."""
        return self.player(container) in self.beyond


@dataclass(frozen=True, slots=True)
class IncomingPod:
    """The container that is quoted.

    Args:
        container: its uid, or an unused name.
        who: its team and node.
        base_micros: its base charge for an hour.
        best_effort: whether it is; then it gets nothing back.
        hours: that it runs.
    """

    container: str
    who: Player
    base_micros: int
    best_effort: bool
    hours: int


@dataclass(frozen=True, slots=True)
class Named:
    """A neighbour in a quote.

    Args:
        of: what is foreseen of it.
        team: its account; None where it was not metered yet.
        liable: whether its team used more than it requested, so that it pays for what it adds.
        share_micros: of what it would get back, the quoted container's part, before the cap.
    """

    of: Neighbour
    team: str | None
    liable: bool
    share_micros: int


@dataclass(frozen=True, slots=True)
class Transfers:
    """What interference would move, for all the hours together.

    Args:
        slowdown: of the quoted container.
        alone_micros: what its base charge would be for the time that its work takes alone, by the mean slowdown.
        rebate: what it would get back, >= 0.
        surcharge: what it would pay for what it adds to others, >= 0.
        neighbours: all co-located containers, by contribution, the largest first.
    """

    slowdown: Slowdown
    alone_micros: int
    rebate: Amounts
    surcharge: Amounts
    neighbours: tuple[Named, ...]


def foreseen_transfers(
    incoming: IncomingPod, colocation: Colocation, residents: Residents, policy: Policy
) -> Transfers:
    """What a container would get back and pay on a node.

    Args:
        incoming: the container.
        colocation: what a model foresees of it there; finite throughout.
        residents: what is billed there.
        policy: shares and caps. Of the month's cap for the team all is taken to be left.

    Returns:
        Amounts of all its hours. By the mean slowdown what is expected, by either end the interval: billing pays by
        the lower bound of what it measures, so that `rebate.low` is what to count on. Without neighbours of other
        teams nothing is moved.

    Raises:
        AdvisorError: base charges are negative.

    Source: ours, docs/decisions/0050-transfers.md; cache and memory bandwidth are not looked at before.
    """
    base = incoming.base_micros * incoming.hours
    others = [one for one in colocation.neighbours if residents.team.get(one.container) != incoming.who.team]
    shares = {one.container: _share(incoming, one, residents, policy) for one in others}
    named = [
        Named(one, residents.team.get(one.container), residents.is_beyond(one.container), shares.get(one.container, 0))
        for one in colocation.neighbours
    ]
    return Transfers(
        slowdown=colocation.slowdown,
        alone_micros=int(alone_price(np.array([base]), np.array([colocation.slowdown.mean]))[0]),
        rebate=_rebate(incoming, colocation, residents, policy) if others else NOTHING,
        surcharge=_surcharge(incoming, others, residents, policy),
        neighbours=tuple(sorted(named, key=lambda one: (-one.of.adds - one.of.added, one.of.container))),
    )


def _back(base_micros: int, ratio: float, policy: Policy) -> int:
    """What a slowdown would give back that all windows of every hour show."""
    windows = np.full((policy.windows, 1), ratio)
    return int(rebates(np.array([base_micros]), windows[0], eligible(windows, policy), policy)[0])


def _rebate(incoming: IncomingPod, colocation: Colocation, residents: Residents, policy: Policy) -> Amounts:
    """Its expected rebate, without the part of its own team and the part that no account may pay."""
    if incoming.best_effort or colocation.slowdown.by_waiting or incoming.who.team in OWN_ACCOUNTS:
        return NOTHING
    adds: dict[Player, float] = {}
    for one in colocation.neighbours:
        if (team := residents.player(one.container)) is not None:
            player = Player(team, incoming.who.node)
            adds[player] = adds.get(player, 0.0) + max(one.adds, 0.0)
    players = list(adds)
    within = np.array([p.team != incoming.who.team and p.team not in residents.beyond for p in players], np.bool_)
    added = np.array([adds[player] for player in players])
    parts, platform = attribution_of(added, colocation.slowdown.mean - 1.0, within)
    attribution = tuple(zip(players, parts.tolist(), strict=True))
    charged = _charged(incoming, players, residents)
    left = {incoming.who.team: policy.platform_cap_micros * -(-incoming.hours // MONTH_HOURS)}

    def paid(level: int) -> int:
        amount = _back(incoming.base_micros * incoming.hours, colocation.slowdown.levels[level], policy)
        claim = Claim(incoming.container, incoming.who, amount, attribution, platform)
        return settle([claim], charged, left, policy).rebates[0]

    return Amounts.of(paid)


def _charged(incoming: IncomingPod, players: Sequence[Player], residents: Residents) -> dict[Player, int]:
    """Base charges of players on the node for all hours; who was not metered yet is charged nothing."""
    charged = dict.fromkeys(players, 0)
    for container, team in residents.team.items():
        player = Player(team, incoming.who.node)
        if player in charged:
            charged[player] += max(0, residents.base_micros.get(container, 0)) * incoming.hours
    return charged


def _claim(incoming: IncomingPod, one: Neighbour, residents: Residents, policy: Policy, level: int) -> Claim:
    """What a neighbour would get back, and how much of it is laid on the quoted container."""
    team = None if one.best_effort or one.slowdown.by_waiting else residents.player(one.container)
    base = 0 if team is None else max(0, residents.base_micros.get(one.container, 0)) * incoming.hours
    amount = _back(base, one.slowdown.levels[level], policy)
    liable = incoming.who.team in residents.beyond and incoming.who.team not in OWN_ACCOUNTS
    parts, rest = attribution_of(np.array([one.added]), one.slowdown.mean - 1.0, np.array([not liable]))
    who = Player(team or PLATFORM, incoming.who.node)
    return Claim(one.container, who, amount, ((incoming.who, int(parts[0])),), rest)


def _share(incoming: IncomingPod, one: Neighbour, residents: Residents, policy: Policy) -> int:
    """Of what a neighbour is expected to get back, the quoted container's part before the cap."""
    return settle([_claim(incoming, one, residents, policy, 1)], {}, {}, policy).attributed.get(incoming.who, 0)


def _surcharge(incoming: IncomingPod, others: Sequence[Neighbour], residents: Residents, policy: Policy) -> Amounts:
    """What it would pay for all of them: a share of its own base charge at most."""
    own = {incoming.who: max(0, incoming.base_micros) * incoming.hours}

    def paid(level: int) -> int:
        claims = [_claim(incoming, one, residents, policy, level) for one in others]
        return settle(claims, own, {}, policy).surcharges.get(incoming.who, 0)

    return Amounts.of(paid)
