"""Compared: two versions of the price book side by side, as people read them. Kernel."""

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal

from advisor.billing.lines.money import MICROS
from advisor.billing.pricing.price_book import PriceBook, utc

NONE = "–"


@dataclass(frozen=True, slots=True)
class Compared:
    """One thing that a price book says.

    Args:
        what: it is about.
        before: what the one version says; NONE where it says nothing.
        after: what the other one does.
    """

    what: str
    before: str
    after: str

    @property
    def changed(self) -> bool:
        """Whether they differ."""
        return self.before != self.after


def compared(before: PriceBook | None, after: PriceBook) -> tuple[Compared, ...]:
    """All that two versions say.

    Args:
        before: None where there is none.
        after: the one that is looked at.

    Returns:
        What either says, in the order of the later one.

    Raises:
        Nothing.

    Source: ours, docs/decisions/0047-pricing.md.
    """
    old, new = {} if before is None else dict(_said(before)), dict(_said(after))
    return tuple(Compared(what, old.get(what, NONE), new.get(what, NONE)) for what in [*new, *(old.keys() - new)])


def _said(book: PriceBook) -> Iterator[tuple[str, str]]:
    policy = book.policy
    yield "begins", utc(book.start_us)
    yield "ends", "when the next version begins" if book.end_us is None else utc(book.end_us)
    yield "currency", book.currency
    for price in book.prices:
        yield f"price of {price.resource}", f"{_number(price.weight_micros)} per {price.unit} and hour"
    for tier in book.tiers:
        yield f"class {tier.name} counts", _number(tier.ppm)
    yield "weight of unused request (kappa)", f"{policy.rule.kappa:g}"
    yield "weight of use above the request (beta)", f"{policy.rule.beta:g}"
    yield "idle cost", "charged to all billed accounts" if policy.recovery == "full" else "charged as idle, by cause"
    for cause in ("headroom", "stranded", "lead_time", "failure"):
        yield f"payer of idle cost: {cause.replace('_', ' ')}", getattr(policy.idle, cause)
    yield "interference", "shown, not charged" if policy.shadow else "charged"
    yield "rebate as a share of the loss (theta)", _number(policy.theta_ppm)
    yield "slowdown without a rebate (delta)", _number(policy.delta_ppm)
    yield "slow windows an hour for a rebate", f"{policy.at_least} of {policy.windows}"
    yield "maximum surcharge, share of a team's base charge", _number(policy.cap_ppm)
    yield "maximum addition of the platform to rebates", _number(policy.platform_cap_micros)
    yield "effect of scarcity on prices (gamma)", _number(policy.gamma_ppm)


def _number(millionths: int) -> str:
    return f"{(Decimal(millionths) / MICROS).normalize():f}"
