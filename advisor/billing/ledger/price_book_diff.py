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
    yield "ends", "when another one begins" if book.end_us is None else utc(book.end_us)
    yield "currency", book.currency
    for price in book.prices:
        yield f"price of {price.resource}", f"{_number(price.weight_micros)} for a {price.unit} and hour"
    for tier in book.tiers:
        yield f"class {tier.name} counts", _number(tier.ppm)
    yield "request below use counts (kappa)", f"{policy.rule.kappa:g}"
    yield "use beyond the request counts (beta)", f"{policy.rule.beta:g}"
    yield "what nobody took", "paid by whoever is billed" if policy.recovery == "full" else "told as idle, by cause"
    for cause in ("headroom", "stranded", "lead_time", "failure"):
        yield f"who pays for idle: {cause.replace('_', ' ')}", getattr(policy.idle, cause)
    yield "interference", "shown, and nobody pays" if policy.shadow else "charged"
    yield "share of what was lost that is given back", _number(policy.theta_ppm)
    yield "slowdown that is everybody's own risk", _number(policy.delta_ppm)
    yield "windows of an hour that must be slower", f"{policy.at_least} of {policy.windows}"
    yield "surcharge at most, of a team's base charge", _number(policy.cap_ppm)
    yield "what the platform adds to rebates at most", _number(policy.platform_cap_micros)
    yield "how strongly scarcity moves prices (gamma)", _number(policy.gamma_ppm)


def _number(millionths: int) -> str:
    return f"{(Decimal(millionths) / MICROS).normalize():f}"
