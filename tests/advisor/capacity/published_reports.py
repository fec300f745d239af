"""Published reports of a shop: demand, a purchase plan, what-ifs and offers, as servers and pages read them."""

from pathlib import Path

from advisor.capacity.capacity_reports import (
    ChangeOutcome,
    CostChange,
    DaysUntilFull,
    ForecastReport,
    PeriodShortage,
    PlannedOrder,
    PoolForecast,
    PublishedPurchase,
    PublishedWhatIf,
    SeriesPoint,
    write_capacity_report,
)
from advisor.capacity.offer_file import OfferReport, write_offers
from advisor.capacity.offers import NodeOffer

HOUR_US = 3600 * 10**6


def point(hour: int, low: float, middle: float, high: float) -> SeriesPoint:
    return SeriesPoint(at_us=hour * HOUR_US, low=low, middle=middle, high=high)


def series(pool: str = "std", capacity: float | None = 200.0) -> PoolForecast:
    return PoolForecast(
        pool=pool,
        resource="cpu",
        kind="request",
        unit="cores",
        model="MSTL",
        capacity=capacity,
        measured=48,
        past=tuple(point(hour, 100 + hour, 100 + hour, 100 + hour) for hour in range(48)),
        future=tuple(point(hour, 90 + hour, 100 + hour, 120 + hour) for hour in range(48, 96)),
        peak_p50=195.0,
        peak_p95=215.5,
        full=DaysUntilFull(low=1.2, middle=2.1, high=None),
    )


def forecast(now_us: int) -> ForecastReport:
    said = ("requests grow by 3 % a month, said eve",)
    return ForecastReport(
        cluster="shop", at_us=now_us - HOUR_US, created_us=now_us, horizon_h=48, inputs=said, series=(series(),)
    )


def plan(now_us: int) -> PublishedPurchase:
    dates = {"order_by": "2027-01-04", "deliver_by": "2027-02-15"}
    return PublishedPurchase(
        cluster="shop",
        created_us=now_us,
        unit="EUR",
        risk=0.05,
        risk_stated=0.04,
        orders=(PlannedOrder(sku="m-large", count=12, rack="r1", cost=14_400.0, **dates),),
        cost=3_600.0,
        outlay=14_400.0,
        bound=3_500.0,
        packed=True,
        unplaced=0,
        periods=(PeriodShortage(starts="2027-02-01", pods=410, short=7, incurable=3),),
        binding=("rack power in zone b binds: 1 kW more is worth 310 EUR a month",),
        changes=(CostChange(change="demand +10 %", cost=4_000.0, short=0),),
    )


def what_if(now_us: int) -> PublishedWhatIf:
    unplanned = ChangeOutcome(
        change="no change", short=3, first_short="2027-02-01", cost=None, outlay=0.0, machines={}, left=0
    )
    grown = ChangeOutcome(
        change="grow:30", short=90, first_short="2027-01-01", cost=9_000.0, outlay=36_000.0, machines={"m-large": 30},
        left=1,
    )  # fmt: skip
    return PublishedWhatIf(
        cluster="shop", created_us=now_us, unit="EUR", from_month="2027-01-01", to_month="2027-03-01", paths=1,
        changes=(unplanned, grown),
    )  # fmt: skip


def offer(node: str, cores: float, now_us: int) -> NodeOffer:
    return NodeOffer(
        node=node, pool="std", resource="cpu", horizon_s=3600, risk=0.05, offered=cores, total=cores, peak=10.0,
        capacity=23.0, booked=0.0, bound_by="peak", reason="residents need the rest",
    )  # fmt: skip


def publish_all(folder: Path, now_us: int) -> None:
    """Write all of them next to the snapshots."""
    write_capacity_report(folder, forecast(now_us))
    write_capacity_report(folder, plan(now_us))
    write_capacity_report(folder, what_if(now_us))
    found = [offer("n1", 3.5, now_us), offer("n2", 8.0, now_us)]
    write_offers(folder, OfferReport("shop", now_us, now_us, tuple(found)))
