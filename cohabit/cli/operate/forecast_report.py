"""The command `capacity forecast`: demand until a horizon and days to full, as tables and a file."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import time_ns

import orjson

from advisor.capacity.capacity_reports import write_capacity_report
from cohabit.capacity.demand_series import DemandSeries, demand_series
from cohabit.capacity.forecasts import (
    Asked,
    Forecasts,
    LeftOut,
    PoolDays,
    PoolDemand,
    SeriesForecast,
    forecasts,
    pool_demand,
)
from cohabit.capacity.planner_files import read_events, read_pending
from cohabit.capacity.published_forecast import published_forecast
from cohabit.config.errors import CohabitError
from cohabit.config.settings import Settings
from cohabit.terminal.console import console, printable, show_amounts
from cohabit.terminal.locations import existing_lake
from features.metering.units import HOUR_US
from models.demand.planner_inputs import NEVER, Event

MAX_SHOWN = 40
"""Rows of a table for people; the file has all."""
MAX_DAYS = 366
HOURS = {"h": 1, "d": 24, "w": 168}
SERIES_COLUMNS = ("pool", "resource", "of", "last week", "P50", "P80", "P95", "by the past", "rule", "loss")
WIDE = 116
"""Columns of a terminal below which the rule and what the past alone says are left out; JSON has them."""
SERIES_COLUMNS = ("pool", "resource", "of", "last week", "P50", "P80", "P95", "by the past", "rule", "loss")
POOL_COLUMNS = ("pool", "resource", "capacity", "last week", "full in days", "80 %")
CLASSES = {"class": "qos", "app": "app", "team": "team"}


@dataclass(frozen=True)
class Options:
    """Of the command."""

    lake: str | None
    horizon: str
    days: int
    by: str
    growth: float
    signed_by: str
    events: Path | None
    pending: Path | None
    days_ahead: int
    out: Path | None
    publish: bool = False


def run_forecast(settings: Settings, options: Options) -> bool:
    """See `cohabit capacity forecast`; whether something was forecast."""
    horizon = _hours(options.horizon)
    if options.by not in CLASSES:
        raise CohabitError(f"--by {options.by}: give {', '.join(CLASSES)}")
    if options.growth and not options.signed_by.strip():
        raise CohabitError(f"--growth {options.growth:g}: name who expects it with --signed-by")
    if options.out is not None and not options.out.absolute().parent.is_dir():
        raise CohabitError(f"{options.out}: the folder does not exist")
    events = [] if options.events is None else read_events(options.events)
    opened = existing_lake(settings, options.lake, reads=True)
    with console.status("reading metered hours"):
        past = demand_series(opened, settings.cluster, options.days, CLASSES[options.by])
    pending = None if options.pending is None else read_pending(options.pending, past)
    asked = Asked(horizon, options.days_ahead, options.growth, options.signed_by.strip(), events)
    with console.status("forecasting"):
        found = forecasts(past, pending, asked)
    _show(settings.cluster, past, found, asked, options)
    if options.out is not None:
        options.out.write_bytes(_as_json(settings.cluster, past, found, asked))
        console.print(f"written: {options.out}", soft_wrap=True)
    if options.publish and found.series:
        _publish(settings, past, pool_demand(past, pending, asked), found, asked)
    return bool(found.series)


def _publish(
    settings: Settings, past: DemandSeries, pools: Sequence[PoolDemand], found: Forecasts, asked: Asked
) -> None:
    inputs = [_event_text(event) for event in asked.events]
    if asked.growth:
        inputs.insert(0, f"growth of {asked.growth:+.0%} a year beyond the past, says {asked.signed_by}")
    end_us = int(past.hours_us[-1]) + HOUR_US
    report = published_forecast(settings.cluster, end_us, pools, found.pools, inputs=inputs, now_us=time_ns() // 1000)
    console.print(f"published: {write_capacity_report(settings.snapshots, report)}", soft_wrap=True)


def _hours(text: str) -> int:
    unit = HOURS.get(text[-1:], 0)
    number = text[:-1]
    if not unit or not number.isdecimal() or not 1 <= int(number) * unit <= MAX_DAYS * 24:
        raise CohabitError(f"--horizon {text}: give hours, days or weeks, such as 48h, 28d or 12w, up to {MAX_DAYS}d")
    return int(number) * unit


def _show(cluster: str, past: DemandSeries, found: Forecasts, asked: Asked, options: Options) -> None:
    end = _time(int(past.hours_us[-1])) + timedelta(hours=1)
    console.print(
        f"up to {end:%Y-%m-%d %H:%M} UTC: looked at {found.hours:,} hours of cluster {printable(cluster)}, "
        f"{past.rows:,} metered container-hours in {len(past.keys):,} series",
        soft_wrap=True,
    )
    if found.series:
        names = (options.by, *SERIES_COLUMNS)
        shown = len(names) if console.width >= WIDE else len(names) - 3
        rows = [_series_row(one)[:shown] for one in found.series[:MAX_SHOWN]]
        show_amounts(f"largest hour in the next {options.horizon}", names[:shown], rows)
    if found.pools:
        pools = [_pool_row(one, asked) for one in found.pools[:MAX_SHOWN]]
        show_amounts("days to full, by requests", (*POOL_COLUMNS, f"in {asked.days_ahead} d"), pools)
    if (more := max(0, len(found.series) - MAX_SHOWN) + max(0, len(found.pools) - MAX_SHOWN)) > 0:
        console.print(f"{more:,} more rows: --json FILE has all")
    _show_inputs(asked)
    _show_limits(found, asked, options)
    _show_left_out(found.left_out)


def _series_row(one: SeriesForecast) -> tuple[str, ...]:
    loss = "" if one.loss is None else f"{one.loss:.3f}"
    naive = "" if one.naive_loss is None else f" ({one.naive_loss:.3f})"
    maxima = [f"{one.maximum[level]:,.1f}" for level in ("p50", "p80", "p95")]
    names = (one.app_class or "none", one.pool, one.resource, one.measure)
    return (*names, f"{one.largest_week:,.1f}", *maxima, f"{one.without_inputs['p95']:,.1f}", one.rule, loss + naive)


def _pool_row(one: PoolDays, asked: Asked) -> tuple[str, ...]:
    low, middle, high = (
        f"> {asked.days_ahead}" if days is None else f"{days:.0f}" for days in (one.low, one.middle, one.high)
    )
    amounts = (f"{one.capacity:,.1f}", f"{one.largest_week:,.1f}")
    return (one.pool, one.resource, *amounts, middle, f"{low} to {high}", f"{one.full_share:.0%}")


def _show_inputs(asked: Asked) -> None:
    """What the planner said, and who said so."""
    if asked.growth:
        console.print(f"growth of {asked.growth:+.0%} a year beyond the past, says {printable(asked.signed_by)}")
    for event in asked.events:
        console.print(printable(f"event: {_event_text(event)}"), soft_wrap=True)
    if not asked.growth and not asked.events:
        console.print("no growth and no events were given: the past alone is continued")


def _event_text(event: Event) -> str:
    end = "on" if event.end_us == NEVER else f"to {_time(event.end_us):%Y-%m-%d %H:%M}"
    whom = f"{event.app_class or 'all classes'} in {event.pool or 'all pools'}"
    return (
        f"x{event.factor:g} from {_time(event.start_us):%Y-%m-%d %H:%M} {end}, {whom}: {event.why} (says {event.who})"
    )


def _show_limits(found: Forecasts, asked: Asked, options: Options) -> None:
    """What the figures do not rest on."""
    if found.series and found.calibrated_hours < asked.horizon:
        console.print(
            f"maxima are calibrated on earlier windows of {found.calibrated_hours:,} hours; beyond, bounds grow "
            "as of a random walk: a longer past calibrates more",
            soft_wrap=True,
        )
    censored = max((one.full_hours for one in found.series), default=0)
    if censored and options.pending is None:
        console.print(
            f"pools were full in up to {censored:,} hours, whose demand is unknown, at least what ran: give --pending",
            soft_wrap=True,
        )


def _show_left_out(left: Sequence[LeftOut]) -> None:
    for one in left[:MAX_SHOWN]:
        name = " ".join(filter(None, (one.app_class, one.pool, one.resource, one.measure)))
        console.print(printable(f"no forecast of {name}: {one.why}"), soft_wrap=True)
    if len(left) > MAX_SHOWN:
        console.print(f"no forecast of {len(left) - MAX_SHOWN:,} more; --json FILE has all")


def _as_json(cluster: str, past: DemandSeries, found: Forecasts, asked: Asked) -> bytes:
    content = {
        "cluster": cluster,
        "until": _text(int(past.hours_us[-1]) + HOUR_US),
        "horizon_hours": asked.horizon,
        "days_ahead": asked.days_ahead,
        "growth": asked.growth,
        "signed_by": asked.signed_by,
        "events": [_event_json(event) for event in asked.events],
        **asdict(found),
    }
    return orjson.dumps(content, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


def _event_json(event: Event) -> dict[str, str | float | None]:
    given: dict[str, str | float | None] = {"at": _text(event.start_us), "until": _text(event.end_us)}
    concerned = {"class": event.app_class, "pool": event.pool}
    return given | concerned | {"factor": event.factor, "who": event.who, "why": event.why}


def _text(time_us: int) -> str | None:
    return None if time_us == NEVER else _time(time_us).isoformat()


def _time(time_us: int) -> datetime:
    return datetime.fromtimestamp(time_us / 1e6, UTC)
