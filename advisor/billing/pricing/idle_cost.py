"""Idle cost: what of a pool's cost is not allocated, by its cause, and who pays for each. Kernel."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from advisor.billing.lines.accounts import account_of
from advisor.billing.lines.line import PLATFORM, UNATTRIBUTED, Kind
from advisor.billing.lines.money import apportion
from advisor.billing.pricing.price_book import IdleKey, IdleKeys
from features.columnar.arrow_columns import micros

CAUSES: dict[str, Kind] = {"failure": "idle_failure", "lead_time": "idle_lead_time", "stranded": "idle_stranded"}
"""Kind of line by cause in table `idle`; all else is headroom."""


@dataclass(frozen=True, slots=True)
class Idle:
    """A cause for which a pool has more than is taken.

    Args:
        kind: headroom that is free for no other cause, capacity that nothing can use, bought ahead, or failed.
        weight: of this cause relative to the others, any whole number >= 0.
        keys: accounts that pay for it, each named once, with a whole number >= 0.
        paid_by: who these are.
    """

    kind: Kind
    weight: int
    keys: tuple[tuple[str, int], ...] = ((PLATFORM, 1),)
    paid_by: IdleKey = "platform"


@dataclass(frozen=True, slots=True, order=True)
class IdleShare:
    """What an account pays of a cause; in the order of lines."""

    kind: Kind
    account: str
    amount_micros: int
    paid_by: IdleKey = "platform"


@dataclass(slots=True)
class CauseTotal:
    """Total of a cause in an hour, by the prices of a book: its worth, and the part that teams caused."""

    worth: int = 0
    by_team: dict[str, int] = field(default_factory=dict)


def idle_worth(worth: int, allocated: int) -> int:
    """Worth of capacity that is not allocated; never negative, also where more is allocated than there is.

    Args:
        worth: of all capacity of the pool by the book's prices.
        allocated: of what containers are billed for, on the same scale.
    """
    return max(0, worth - allocated)


def causes_by_hour(idle: pa.Table, weights: Mapping[str, int]) -> Mapping[int, Mapping[Kind, CauseTotal]]:
    """Totals of causes, by the start of the hour and the kind of charge record.

    Args:
        idle: rows of table `idle` of one pool, any order.
        weights: what a micro-unit-minute of each resource counts; resources without one are left out.
    """
    found: dict[int, dict[Kind, CauseTotal]] = defaultdict(lambda: defaultdict(CauseTotal))
    for hour_us, row in zip(micros(idle["hour"]).tolist(), idle.to_pylist(), strict=True):
        if weight := weights.get(row["resource"], 0):
            total = found[hour_us][CAUSES[row["cause"]]]
            total.worth += weight * row["quantity"]
            for team, quantity in row["by_team"]:
                account = account_of(team)
                total.by_team[account] = total.by_team.get(account, 0) + weight * quantity
    return found


def causes_of(
    rest: int, known: Mapping[Kind, CauseTotal], charged: Mapping[str, int], keys: IdleKeys
) -> tuple[Idle, ...]:
    """Causes of an hour, and who pays for each.

    Args:
        rest: worth of the idle capacity by the book's prices.
        known: what is known of causes, on the same scale; where it exceeds the rest, what is used beyond requests or
            counts more than its size has taken some of it, and the causes share what is left.
        charged: what accounts are charged as base in the hour; of either sign, all the same.
        keys: who pays.

    Returns:
        One for each known cause, and headroom, which is the remainder. In an hour without charges the platform pays
        the causes shared in proportion to charges.

    Source: ours, docs/decisions/0052-idle.md.
    """
    headroom = CauseTotal(max(0, rest - sum(cause.worth for cause in known.values())))
    every: dict[Kind, tuple[CauseTotal, IdleKey]] = {"idle_headroom": (headroom, keys.headroom)}
    for cause, kind in CAUSES.items():
        if kind in known:
            every[kind] = (known[kind], getattr(keys, cause))
    return tuple(_paid(Idle(kind, of.worth), of.by_team, key, charged) for kind, (of, key) in every.items())


def _paid(cause: Idle, by_team: Mapping[str, int], key: IdleKey, charged: Mapping[str, int]) -> Idle:
    """The cause, and who pays for it."""
    if key == "causers":
        return replace(cause, keys=(*by_team.items(), (PLATFORM, cause.weight - sum(by_team.values()))), paid_by=key)
    paying = tuple((account, abs(amount)) for account, amount in charged.items() if amount)
    return replace(cause, keys=paying, paid_by=key) if key == "teams" and paying else cause


def idle_shares(amount_micros: int, causes: Sequence[Idle]) -> tuple[IdleShare, ...]:
    """Idle cost by cause, and each cause by its own key.

    Args:
        amount_micros: of all causes together.
        causes: each at most once; with weights of 0 throughout the platform pays.

    Returns:
        Shares that sum to the amount, those of 0 left out; a cause whose key names no account is UNATTRIBUTED.

    Raises:
        AdvisorError: a weight is negative.

    Source: ours, docs/decisions/0047-pricing.md.
    """
    if not any(cause.weight for cause in causes):
        causes = (Idle("idle_headroom", 1),)
    parts = apportion(amount_micros, [cause.weight for cause in causes], [cause.kind for cause in causes]).tolist()
    shares = []
    for cause, part in zip(causes, parts, strict=True):
        keys = cause.keys if any(weight for _, weight in cause.keys) else ((UNATTRIBUTED, 1),)
        accounts = [account for account, _ in keys]
        amounts = apportion(part, [weight for _, weight in keys], accounts).tolist()
        paid = zip(accounts, amounts, strict=True)
        shares += [IdleShare(cause.kind, who, amount, cause.paid_by) for who, amount in paid if amount]
    return tuple(sorted(shares))
