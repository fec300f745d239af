"""Idle: what nobody took of a pool, by its cause, and who pays for each. Kernel."""

from collections.abc import Sequence
from dataclasses import dataclass

from advisor.pricing.lines import PLATFORM, UNATTRIBUTED, Kind
from advisor.pricing.money import apportion


@dataclass(frozen=True, slots=True)
class Idle:
    """A cause for which a pool has more than is taken.

    Args:
        kind: headroom that the policy wants, capacity that no pending shape fits, bought ahead, or failed.
        weight: of this cause beside the others, any whole number >= 0.
        keys: accounts that pay for it, each named once, with a whole number >= 0.
    """

    kind: Kind
    weight: int
    keys: tuple[tuple[str, int], ...] = ((PLATFORM, 1),)


@dataclass(frozen=True, slots=True, order=True)
class IdleShare:
    """What an account pays of a cause; in the order of lines."""

    kind: Kind
    account: str
    amount_micros: int


def idle_shares(amount_micros: int, causes: Sequence[Idle]) -> tuple[IdleShare, ...]:
    """What nobody took, by cause, and each cause by its own key.

    Args:
        amount_micros: of all causes together.
        causes: each at most once; with weights of 0 throughout the platform pays.

    Returns:
        Shares that sum to the amount, those of 0 left out; a cause whose key names nobody is UNATTRIBUTED.

    Raises:
        BadWeights: a weight is negative.

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
        shares += [IdleShare(cause.kind, who, amount) for who, amount in zip(accounts, amounts, strict=True) if amount]
    return tuple(sorted(shares))
