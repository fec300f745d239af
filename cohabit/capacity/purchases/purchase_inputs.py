"""The problem of orders from files: months as periods, days as months of service, names as indices. An edge."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from itertools import pairwise
from math import ceil
from pathlib import Path

import numpy as np

from advisor.purchase.instance import NO_LIMIT, Instance, Ints, MachineTypes, Shapes, instance
from advisor.purchase.orders.order_problem import Demand, Limits, OrderProblem, OrderTerms, Racks, order_problem
from cohabit.capacity.purchases.purchase_files import (
    UNLIMITED,
    DemandRow,
    EventRow,
    Movement,
    RackRow,
    Sku,
    read_apps,
    read_demand,
    read_events,
    read_movements,
    read_racks,
    read_skus,
)
from cohabit.config.errors import CohabitError

MONTH_DAYS = 30.5
"""Days of lead time that count as a month."""
MAX_MONTHS = 60
DOMAINS = ("zone", "room", "rack", "none")


@dataclass(frozen=True)
class PurchaseFiles:
    """Files of a purchase; None where there is none."""

    skus: Path
    racks: Path
    demand: Path
    fleet: Path | None = None
    in_flight: Path | None = None
    retire: Path | None = None
    events: Path | None = None
    apps: Path | None = None


@dataclass(frozen=True)
class PurchaseInputs:
    """A problem and what its indices mean.

    Args:
        problem: periods are months; prices are by machine and month.
        months: first days.
        skus: by index of the type.
        racks: by index.
        shapes: by index.
        paths: by index.
        start: the first day on which orders can be placed.
        apps: pods of each app by shape; empty where they are unknown.
    """

    problem: OrderProblem
    months: list[date]
    skus: list[Sku]
    racks: list[RackRow]
    shapes: list[str]
    paths: list[str]
    start: date
    apps: dict[str, dict[str, int]]


def purchase_inputs(
    files: PurchaseFiles, survive: str, limits: Limits, order_from: date | None = None
) -> PurchaseInputs:
    """The problem of some files.

    Args:
        files: see docs/purchases.md.
        survive: what may be lost at once with prod pods still packing, one of `DOMAINS`.
        limits: budget, and most SKUs that are ordered.
        order_from: the first day on which orders can be placed; None: that of the first month.

    Raises:
        CohabitError: a file cannot be used; the message names line, column and what to write.
    """
    skus, racks, demand = read_skus(files.skus), read_racks(files.racks), read_demand(files.demand)
    months = _months(demand)
    shapes = list({row.shape: row for row in demand}.values())
    paths = list(dict.fromkeys(row.path for row in demand))
    pods = np.zeros((len(paths), len(months), len(shapes)), np.int64)
    names = [row.shape for row in shapes]
    for row in demand:
        pods[paths.index(row.path), months.index(row.month), names.index(row.shape)] = row.pods
    for event in read_events(files.events) if files.events is not None else ():
        _uplift(pods, event, months, names)
    of = _instance(skus, shapes, files)
    room = _racks(racks, skus, survive)
    prod = np.array([row.prod and survive != "none" for row in shapes])
    if prod.any() and len(room.domains) == 1:
        raise CohabitError(
            f"{files.racks}: all racks are in one {survive}, whose loss leaves none: give --survive none"
        )
    spread = np.array([row.min_domains for row in shapes])
    start = order_from or months[0]
    if start >= next_month(months[-1]):
        raise CohabitError(f"--order-from {start}: demand ends before, in {months[-1]:%Y-%m}")
    terms = _terms(skus, months, start, speeds_of(racks, skus))
    standing = _standing(files, skus, racks, months)
    problem = order_problem(of, terms, room, standing, Demand(pods, prod, spread))._replace(limits=limits)
    apps = read_apps(files.apps) if files.apps is not None else {}
    return PurchaseInputs(problem, months, skus, racks, names, paths, start, apps)


def next_month(day: date) -> date:
    """The first day of the month after a day."""
    return (day.replace(day=1) + timedelta(days=32)).replace(day=1)


def order_by(serves: date, lead_days: int) -> date:
    """The last day for an order that serves from a day on."""
    return serves - timedelta(days=lead_days)


def speeds_of(racks: Sequence[RackRow], skus: Sequence[Sku]) -> list[int]:
    """Speeds of ports in Gbit/s, slowest first; the last one also stands for ports of any speed."""
    known = {speed for rack in racks for speed in rack.ports if speed} | {one.port_gbps for one in skus}
    return sorted(known)


def _months(demand: Sequence[DemandRow]) -> list[date]:
    found = sorted({row.month for row in demand})
    for before, month in pairwise(found):
        if next_month(before) != month:
            line = next(row.line for row in demand if row.month == month)
            raise line.refused(
                "month", f"{next_month(before):%Y-%m} is missing: write each month, pods 0 where none run"
            )
    if len(found) > MAX_MONTHS:
        raise demand[-1].line.refused(
            "month", f"{len(found)} months, and {MAX_MONTHS} are the most: leave later ones out"
        )
    return found


def _uplift(pods: Ints, event: EventRow, months: Sequence[date], names: Sequence[str]) -> None:
    """More pods in the months that an event touches."""
    if event.shape and event.shape not in names:
        raise event.line.refused("shape", f"demand has no such shape: write one of {', '.join(names[:9])}, or nothing")
    for period, month in enumerate(months):
        if event.first < next_month(month) and event.last >= month:
            own = [at for at, name in enumerate(names) if event.shape in ("", name)]
            pods[:, period, own] = np.ceil(pods[:, period, own] * (1.0 + event.uplift) - 1e-9)


def _instance(skus: Sequence[Sku], rows: Sequence[DemandRow], files: PurchaseFiles) -> Instance:
    cpu, memory, devices, share = np.array([row.size for row in rows], np.int64).T
    shapes = Shapes(cpu, memory, devices, share, np.zeros(len(rows), np.int64))
    types = MachineTypes(
        name=tuple(one.name for one in skus),
        cpu=np.array([one.cpu_milli for one in skus]),
        memory=np.array([one.memory_mib for one in skus]),
        devices=np.array([one.gpu for one in skus]),
        price=np.array([one.price / one.life_months for one in skus]),
        most=np.array([NO_LIMIT if one.most == UNLIMITED else one.most for one in skus]),
    )
    allowed = np.array([[not row.models or one.gpu_model in row.models for one in skus] for row in rows])
    found = instance(shapes, types, allowed)
    for row, fits in zip(rows, np.atleast_1d(found.allowed.any(axis=1)).tolist(), strict=True):
        if not fits:
            raise row.line.refused(
                "shape", f"no SKU of {files.skus} holds one pod: add one, or write a smaller request"
            )
    return found


def _racks(rows: Sequence[RackRow], skus: Sequence[Sku], survive: str) -> Racks:
    names = {"rack": [row.name for row in rows], "room": [f"{row.zone}/{row.room}" for row in rows]}
    kind = survive if survive in names else "zone"
    of = [f"{kind} {name}" for name in names.get(kind, [row.zone for row in rows])]
    domains = list(dict.fromkeys(of))
    speeds = speeds_of(rows, skus)
    ports = np.zeros((len(rows), len(speeds)), np.int64)
    for at, row in enumerate(rows):
        for speed, count in row.ports.items():
            ports[at, speeds.index(speed) if speed else -1] += count
    return Racks(
        name=tuple(row.name for row in rows),
        domain=np.array([domains.index(one) for one in of]),
        domains=tuple(domains),
        power_w=np.array([row.power_w for row in rows]),
        units=np.array([row.units for row in rows]),
        ports=ports,
    )


def _terms(skus: Sequence[Sku], months: Sequence[date], start: date, speeds: Sequence[int]) -> OrderTerms:
    lead = [ceil(one.lead_days / MONTH_DAYS) for one in skus]
    windows = [_window(one, months, start, ahead) for one, ahead in zip(skus, lead, strict=True)]
    return OrderTerms(
        outlay=np.array([one.price for one in skus]),
        lead=np.array(lead),
        lot=np.array([one.lot for one in skus]),
        first=np.array([first for first, _ in windows]),
        last=np.array([last for _, last in windows]),
        power_w=np.array([one.power_w for one in skus]),
        units=np.array([one.units for one in skus]),
        ports=np.array([one.ports for one in skus]),
        speed=np.array([speeds.index(one.port_gbps) for one in skus]),
    )


def _window(sku: Sku, months: Sequence[date], start: date, lead: int) -> tuple[int, int]:
    """First and last month of an order whose last day is from `start` on and on which the SKU is sold.

    Months before the first one of demand are below 0.
    """
    first = max(sku.available_from, start)
    sold = [
        at
        for at in range(-lead, len(months) - lead)
        if first <= order_by(months[at + lead], sku.lead_days) <= sku.available_to
    ]
    return (sold[0], sold[-1]) if sold else (0, -1)


def _standing(files: PurchaseFiles, skus: Sequence[Sku], racks: Sequence[RackRow], months: Sequence[date]) -> Ints:
    """(m, r, t) the fleet and deliveries, less retirements, by month."""
    found = np.zeros((len(skus), len(racks), len(months)), np.int64)
    sku_at = {one.name: at for at, one in enumerate(skus)}
    rack_at = {one.name: at for at, one in enumerate(racks)}
    for path, column, sign in (
        (files.fleet, "", 1),
        (files.in_flight, "deliver_by", 1),
        (files.retire, "retire_by", -1),
    ):
        for one in read_movements(path, column) if path is not None else ():
            machine, rack = _at(one, "sku", one.sku, sku_at), _at(one, "rack", one.rack, rack_at)
            found[machine, rack, _first_month(one.day, months, comes=sign > 0) :] += sign * one.machines
            if found[machine, rack].min() < 0:
                left = int(found[machine, rack].min()) + one.machines
                raise one.line.refused(
                    "machines", f"only {left} of {one.sku} stand in {one.rack} then: write at most that"
                )
    return found


def _at(one: Movement, column: str, name: str, index: dict[str, int]) -> int:
    if name not in index:
        raise one.line.refused(
            column, f"the file of {column}s has no such one: write one of {', '.join(sorted(index)[:9])}"
        )
    return index[name]


def _first_month(day: date, months: Sequence[date], *, comes: bool) -> int:
    """The first month in which machines serve that come on a day, or do not that go; past the end where none is."""
    if comes:
        return sum(month < day for month in months)
    return sum(next_month(month) <= day for month in months)
