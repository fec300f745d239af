"""Book text: a version of the price book as people write it, TOML. Kernel."""

import tomllib
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from typing import Annotated, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from advisor.billing.lines.errors import BadBookText
from advisor.billing.lines.money import MICROS
from advisor.billing.pricing.billed_quantity import LARGER, REQUEST_ONLY, USAGE_ONLY, Rule, rule_for
from advisor.billing.pricing.price_book import IdleKeys, Policy, PriceBook, Recovery, Tier, UnitPrice

EXAMPLE = """
version = "2026-12"
currency = "EUR"
start = 2026-12-01T00:00:00Z   # ends where the next version begins
recovery = "remainder"         # or full: billed accounts pay all of a pool's cost

[rule]
quantile = 0.8                 # of a container's use: its cheapest request
kappa = 0.5                    # weight of the unused part of a request
# instead: kind = "larger", "request" or "usage"

[prices]                       # per hour; only their ratios matter
cpu = { unit = "core", price = "0.04" }
memory = { unit = "GiB", price = "0.005" }

[tiers]                        # quality of service class and its weight
LS = 1.0
BE = 0.25
SYSTEM = 0.0

[interference]                 # optional
shadow = true                  # shown, not charged
theta = 1.0                    # rebate as a share of the loss
cap = 0.2                      # of a team's base charge on the node
platform_cap = "0"             # maximum addition of the platform to a team's rebates a month

[idle]                         # payer of idle cost: platform, or teams in proportion to their charges
headroom = "platform"
stranded = "platform"          # or causers
lead_time = "platform"         # of nodes that wait for their first container
failure = "platform"

[scarcity]                     # of hours published by `cohabit bill publish`
gamma = 0.0                    # effect on prices; 0 disables it
"""


def _decimal(value: object) -> object:
    """A number as it is written: floats by their shortest text, so that 0.04 is 0.04."""
    try:
        found = Decimal("" if isinstance(value, bool) else str(value))
    except InvalidOperation as error:
        raise ValueError("give a number, such as 0.04") from error
    if found.is_finite() and found.copy_abs() < BEYOND and found != round(found, DIGITS):
        raise ValueError(f"give {DIGITS} decimals at most")
    return found


DIGITS = 6
BEYOND = 10**9
"""Is refused as too large; what is far larger has more digits than can be rounded."""
Number = Annotated[Decimal, BeforeValidator(_decimal), Field(ge=0, le=1_000_000, allow_inf_nan=False)]
Factor = Annotated[Decimal, BeforeValidator(_decimal), Field(ge=0, le=100, allow_inf_nan=False)]
Name = Annotated[str, Field(min_length=1, max_length=60, pattern=r"^[A-Za-z0-9][A-Za-z0-9 ._/-]*$")]
Moment = Annotated[datetime, Field(strict=True)]
Real = Annotated[float, Field(strict=True)]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class _Price(_Part):
    unit: Name
    price: Number


class _Rule(_Part):
    kind: Literal["larger", "request", "usage", "quantile"] = "quantile"
    quantile: Real = Field(default=0.8, ge=0, le=0.999)
    kappa: Real = Field(default=0.5, ge=0.001, le=1)

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if self.kind != "quantile" and self.model_fields_set & {"quantile", "kappa"}:
            raise ValueError("set kind, or quantile and kappa")
        return self

    def rule(self) -> Rule:
        named = {"larger": LARGER, "request": REQUEST_ONLY, "usage": USAGE_ONLY}
        return named.get(self.kind) or rule_for(self.quantile, self.kappa)


class _Interference(_Part):
    shadow: bool = Field(default=True, strict=True)
    theta: Number = Decimal(1)
    delta: Number = Decimal("0.05")
    windows: int = Field(default=12, ge=12, le=3600)
    at_least: int = Field(default=6, ge=1)
    cap: Number = Decimal("0.2")
    platform_cap: Number = Decimal(0)


class _Idle(_Part):
    headroom: Literal["platform", "teams"] = "platform"
    stranded: Literal["platform", "teams", "causers"] = "platform"
    lead_time: Literal["platform", "teams"] = "platform"
    failure: Literal["platform", "teams"] = "platform"


class _Scarcity(_Part):
    gamma: Number = Decimal(0)


class _Book(_Part):
    version: str = Field(min_length=1, max_length=60, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
    currency: str
    start: Moment
    end: Moment | None = None
    recovery: Recovery = "remainder"
    rule: _Rule = _Rule()
    prices: dict[Name, _Price] = Field(min_length=1, max_length=100)
    tiers: dict[Name, Factor] = Field(min_length=1, max_length=100)
    interference: _Interference = _Interference()
    idle: _Idle = _Idle()
    scarcity: _Scarcity = _Scarcity()


def price_book_from(text: str, proposed_by: str) -> PriceBook:
    """A version of the price book from its text.

    Args:
        text: TOML, see EXAMPLE.
        proposed_by: its author.

    Raises:
        BadBookText: something in it is missing, unknown or out of range.
    """
    try:
        read = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadBookText(f"invalid TOML: {error}") from error
    try:
        parsed = _Book.model_validate(read)
    except ValidationError as error:
        reasons = [f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors()]
        raise BadBookText("; ".join(reasons[:5])) from error
    return _book(parsed, proposed_by)


def _book(parsed: _Book, proposed_by: str) -> PriceBook:
    return PriceBook(
        version=parsed.version,
        currency=parsed.currency,
        start_us=_micros_at(parsed.start),
        end_us=None if parsed.end is None else _micros_at(parsed.end),
        prices=tuple(UnitPrice(name, one.unit, _millionths(one.price)) for name, one in parsed.prices.items()),
        tiers=tuple(Tier(name, _millionths(factor)) for name, factor in parsed.tiers.items()),
        policy=_policy(parsed),
        proposed_by=proposed_by,
    )


def _policy(parsed: _Book) -> Policy:
    of = parsed.interference
    return Policy(
        version=parsed.version,
        rule=parsed.rule.rule(),
        recovery=parsed.recovery,
        theta_ppm=_millionths(of.theta),
        delta_ppm=_millionths(of.delta),
        windows=of.windows,
        at_least=of.at_least,
        cap_ppm=_millionths(of.cap),
        platform_cap_micros=_millionths(of.platform_cap),
        gamma_ppm=_millionths(parsed.scarcity.gamma),
        shadow=of.shadow,
        idle=IdleKeys(**parsed.idle.model_dump()),
    )


def _millionths(of: Decimal) -> int:
    return int((of * MICROS).to_integral_value())


def _micros_at(of: datetime) -> int:
    return round(of.replace(tzinfo=of.tzinfo or UTC).timestamp() * 1e6)
