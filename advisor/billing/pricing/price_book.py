"""Price book: what units cost and by which policy, in versions that apply from one hour to another. Kernel.

A version that has begun is never changed, and none is billed by that one person alone wanted.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import pairwise
from typing import Literal

from advisor.billing.lines.errors import BadPriceBook, UnknownCurrency
from advisor.billing.lines.money import MICROS, exponent_of
from advisor.billing.pricing.billed_quantity import LARGER, Rule
from advisor.errors import Conflict, Forbidden, NotFound

HOUR_US = 3600 * 1_000_000
Recovery = Literal["full", "remainder"]
"""Whether billed accounts pay all of a pool's cost, or only for their usage, with the remainder as idle cost."""

IdleKey = Literal["platform", "teams", "causers"]
"""Who pays: the platform; accounts charged in the hour, in proportion to base charges; or those that caused it."""


@dataclass(frozen=True, slots=True)
class IdleKeys:
    """Who pays for idle cost, cause by cause.

    Args:
        headroom: what is free for no other cause.
        stranded: what cannot be used since something else of the node is gone; by its causers, what no team adds is the
            platform's.
        lead_time: nodes that wait for their first container.
        failure: nodes that nothing may be placed on.
    """

    headroom: IdleKey = "platform"
    stranded: IdleKey = "platform"
    lead_time: IdleKey = "platform"
    failure: IdleKey = "platform"


@dataclass(frozen=True, slots=True)
class UnitPrice:
    """Cost of a resource relative to the others.

    Args:
        resource: such as cpu.
        unit: of quantities, such as core or GiB.
        weight_micros: micro-units of currency for a unit and hour; what is paid is this times one factor for the whole
            pool, so that the capacity of a pool sells for its cost.
    """

    resource: str
    unit: str
    weight_micros: int


@dataclass(frozen=True, slots=True)
class Tier:
    """A class of service, and what a quantity of it counts, in millionths of a full one."""

    name: str
    ppm: int


@dataclass(frozen=True, slots=True)
class Policy:
    """How quantities become money. Shares are millionths: 200,000 are a fifth.

    Args:
        version: its name, on every line.
        rule: what is billed of request and use.
        recovery: who pays for idle cost.
        theta_ppm: share of what a victim lost that it gets back.
        delta_ppm: slowdown - 1 without a rebate.
        windows: in so many windows of an hour ...
        at_least: ... a victim was surely slower than that in as many at least, or gets nothing back.
        cap_ppm: a surcharge is this share of a team's base charge on the node at most.
        platform_cap_micros: what the platform adds to a team's rebates in a month, at most.
        gamma_ppm: how strongly scarcity moves prices; 0 is not at all.
        shadow: rebates and surcharges are shown, and not paid.
        idle: who pays for idle cost.
    """

    version: str
    rule: Rule = LARGER
    recovery: Recovery = "remainder"
    theta_ppm: int = MICROS
    delta_ppm: int = 50_000
    windows: int = 12
    at_least: int = 6
    cap_ppm: int = 200_000
    platform_cap_micros: int = 0
    gamma_ppm: int = 0
    shadow: bool = True
    idle: IdleKeys = IdleKeys()


@dataclass(frozen=True, slots=True)
class PriceBook:
    """One version.

    Args:
        version: its name, on every line.
        currency: ISO 4217.
        start_us: first hour it applies to, microseconds since 1970.
        end_us: first hour it does not apply to any more; None until another one follows.
        prices: of resources.
        tiers: of containers.
        policy: by which they are billed.
        proposed_by: who wants it.
        approved_by: another person, who approves; None until then.
    """

    version: str
    currency: str
    start_us: int
    end_us: int | None
    prices: tuple[UnitPrice, ...]
    tiers: tuple[Tier, ...]
    policy: Policy
    proposed_by: str
    approved_by: str | None = None

    def covers(self, hour_us: int) -> bool:
        """Whether it applies to the hour that begins then."""
        return self.start_us <= hour_us and (self.end_us is None or hour_us < self.end_us)


def approved(book: PriceBook, by: str) -> PriceBook:
    """The version, signed by a second person.

    Raises:
        Forbidden: it is the one who proposed it.
        BadPriceBook: it cannot be billed by.
    """
    signed = replace(book, approved_by=by)
    refuse_unusable(signed)
    return signed


def added(books: Sequence[PriceBook], book: PriceBook, now_us: int) -> tuple[PriceBook, ...]:
    """The versions with another one, by time; one that has no end yet ends where the new one begins.

    Raises:
        BadPriceBook: it cannot be billed by.
        Forbidden: no second person has signed it.
        Conflict: it would begin in an hour that has begun; another version applies then, or has the same name.
    """
    refuse_unusable(book)
    if book.start_us <= now_us:
        raise _already_started(book.version, utc(book.start_us), utc(now_us))
    if any(one.version == book.version for one in books):
        raise _overlap(book.version, book.version, utc(book.start_us))
    ended = [_ended(one, book.start_us) for one in books]
    found = tuple(sorted((*ended, book), key=lambda one: one.start_us))
    for one, other in pairwise(found):
        if one.end_us is None or one.end_us > other.start_us:
            raise _overlap(one.version, other.version, utc(other.start_us))
    return found


def without(books: Sequence[PriceBook], version: str, now_us: int) -> tuple[PriceBook, ...]:
    """The versions but for one that has not begun; the hours it was for have no price until another one is added.

    Raises:
        Conflict: it has begun.
    """
    for one in books:
        if one.version == version and one.start_us <= now_us:
            raise _already_started(version, utc(one.start_us), utc(now_us))
    return tuple(one for one in books if one.version != version)


def book_at(books: Sequence[PriceBook], hour_us: int) -> PriceBook:
    """The version that an hour is billed by.

    Raises:
        NotFound: none covers it.
        Forbidden: no second person has signed it.
    """
    for one in books:
        if one.covers(hour_us):
            _refuse_unsigned(one)
            return one
    versions = ", ".join(f"{one.version} from {utc(one.start_us)}" for one in books) or "none"
    raise NotFound(
        f"no price book covers {utc(hour_us)} (versions: {versions}): propose a version that begins there (`cohabit "
        "bill propose-book`), and let another person approve it"
    )


def gaps(books: Sequence[PriceBook]) -> tuple[str, ...]:
    """The times between versions that none covers, in words."""
    by_time = sorted(books, key=lambda one: one.start_us)
    return tuple(
        f"no price from {utc(one.end_us)} until {utc(other.start_us)}: give {other.version!r} an earlier start"
        for one, other in pairwise(by_time)
        if one.end_us is not None and one.end_us < other.start_us
    )


def refuse_unusable(book: PriceBook) -> None:
    """Nothing, if the version can be billed by.

    Raises:
        BadPriceBook: with everything that is wrong with it.
        Forbidden: no second person has signed it.
    """
    refuse_wrong(book)
    _refuse_unsigned(book)


def refuse_wrong(book: PriceBook) -> None:
    """Nothing, if the version could be billed by once a second person has signed it.

    Raises:
        BadPriceBook: with everything that is wrong with it.
    """
    reasons = [*_wrong_times(book), *_wrong_prices(book), *_wrong_policy(book.policy)]
    if reasons:
        raise BadPriceBook(book.version, reasons)


def utc(at_us: int) -> str:
    """A time as people write it, UTC."""
    return f"{datetime.fromtimestamp(at_us / 1e6, UTC):%Y-%m-%d %H:%M} UTC"


def _ended(one: PriceBook, at_us: int) -> PriceBook:
    return replace(one, end_us=at_us) if one.end_us is None and one.start_us < at_us else one


def _refuse_unsigned(book: PriceBook) -> None:
    if book.approved_by is None or book.approved_by == book.proposed_by:
        raise _not_approved(book.version, book.approved_by)


def _wrong_times(book: PriceBook) -> list[str]:
    reasons = [
        f"it {verb} at {utc(at)}, within an hour: use a full hour"
        for verb, at in (("begins", book.start_us), ("ends", book.end_us))
        if at is not None and at % HOUR_US
    ]
    if book.end_us is not None and book.end_us <= book.start_us:
        reasons.append(f"it ends at {utc(book.end_us)}, before it begins: omit the end, or use a later one")
    return reasons


def _wrong_prices(book: PriceBook) -> list[str]:
    reasons = []
    try:
        exponent_of(book.currency)
    except UnknownCurrency as error:
        reasons.append(str(error))
    if not any(price.weight_micros > 0 for price in book.prices):
        reasons.append("no resource has a price above 0: give at least one")
    if any(price.weight_micros < 0 for price in book.prices) or any(tier.ppm < 0 for tier in book.tiers):
        reasons.append("a price or tier is below 0: use 0 for free resources")
    for what, all_names in (
        ("resources", [price.resource for price in book.prices]),
        ("tiers", [tier.name for tier in book.tiers]),
    ):
        if not all_names or len(set(all_names)) < len(all_names):
            reasons.append(f"{what} are missing or repeated: name each once")
    return reasons


def _wrong_policy(policy: Policy) -> list[str]:
    shares = (("theta", policy.theta_ppm), ("delta", policy.delta_ppm), ("cap", policy.cap_ppm))
    reasons = [f"{name} is {ppm} millionths: use 0 to {MICROS}" for name, ppm in shares if not 0 <= ppm <= MICROS]
    if not 0 <= policy.rule.kappa <= 1 or policy.rule.beta < 0:
        reasons.append(f"kappa {policy.rule.kappa:g} must be in 0 to 1, beta {policy.rule.beta:g} not below 0")
    if not 1 <= policy.at_least <= policy.windows:
        reasons.append(f"{policy.at_least} of {policy.windows} windows are invalid: use 1 to {policy.windows}")
    if policy.platform_cap_micros < 0 or policy.gamma_ppm < 0:
        reasons.append("the platform's cap or gamma is below 0: 0 turns them off")
    keys = (("headroom", policy.idle.headroom), ("lead_time", policy.idle.lead_time), ("failure", policy.idle.failure))
    reasons += [f"idle: {cause} has no causers: charge the platform or teams" for cause, k in keys if k == "causers"]
    return reasons


def _already_started(version: str, start: str, now: str) -> Conflict:
    return Conflict(
        f"price book {version!r} applies from {start}, and it is {now}: a version in force is immutable. Propose a "
        "version that begins with a later hour"
    )


def _overlap(version: str, other: str, start: str) -> Conflict:
    return Conflict(
        f"price books {version!r} and {other!r} would both apply from {start}: propose a later start under another "
        "name, and withdraw the other version with `cohabit bill withdraw-book`"
    )


def _not_approved(version: str, approved_by: str | None) -> Forbidden:
    signed = "it is not approved" if approved_by is None else f"{approved_by} both proposed and approved it"
    return Forbidden(f"price book {version!r} cannot be used for billing: {signed}; let another person approve it")
