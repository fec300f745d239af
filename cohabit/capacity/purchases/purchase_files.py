"""Files that a purchase is planned from: SKUs, racks, machines that stand, come or go, demand and events. An edge."""

from datetime import date
from pathlib import Path
from typing import NamedTuple

from cohabit.capacity.purchases.comma_files import Line, lines_of

SKU_COLUMNS = ("sku", "cpu_milli", "memory_mib", "gpu", "ports", "port_gbps", "power_w", "units", "price",
               "life_months", "lead_days", "lot")  # fmt: skip
SKU_OPTIONAL = ("gpu_model", "available_from", "available_to", "max")
RACK_COLUMNS = ("rack", "zone", "room", "kw", "units", "ports")
DEMAND_COLUMNS = ("month", "shape", "cpu_milli", "memory_mib", "pods")
DEMAND_OPTIONAL = ("path", "gpu", "gpu_milli", "gpu_models", "prod", "min_domains")
EVENT_COLUMNS = ("event", "from", "to", "uplift_percent")
YES_NO = {"yes": True, "no": False}
UNLIMITED = 2**31 - 1
NO_LIMIT, NO_LIMIT_KW = 10**9, 10**6
"""What an empty cell of a rack stands for."""


class Sku(NamedTuple):
    """A line of the file of SKUs; `price` is paid once per machine, `most` is what can be had of it."""

    line: Line
    name: str
    cpu_milli: int
    memory_mib: int
    gpu: int
    gpu_model: str
    ports: int
    port_gbps: int
    power_w: int
    units: int
    price: float
    life_months: int
    lead_days: int
    lot: int
    available_from: date
    available_to: date
    most: int


class RackRow(NamedTuple):
    """A line of the file of racks; ports by Gbit/s, 0 for any speed."""

    line: Line
    name: str
    zone: str
    room: str
    power_w: int
    units: int
    ports: dict[int, int]


class Movement(NamedTuple):
    """Machines of a SKU in a rack that stand, come or go on a day."""

    line: Line
    sku: str
    rack: str
    machines: int
    day: date


class DemandRow(NamedTuple):
    """Pods of a shape that run at once in a month of a path."""

    line: Line
    path: str
    month: date
    shape: str
    size: tuple[int, int, int, int]
    models: frozenset[str]
    prod: bool
    min_domains: int
    pods: int


class EventRow(NamedTuple):
    """An uplift of a shape, or of all, in the months from one to another."""

    line: Line
    name: str
    first: date
    last: date
    shape: str
    uplift: float


def read_skus(path: Path) -> list[Sku]:
    """SKUs, each once.

    Raises:
        CohabitError: a line cannot be used; the message names it, the column, and what to write.
    """
    found = [_sku(line) for line in lines_of(path, SKU_COLUMNS, SKU_OPTIONAL)]
    _refuse_twice({}, [(one.line, "sku", one.name) for one in found])
    return found


def _sku(line: Line) -> Sku:
    first, last = line.day("available_from", date.min), line.day("available_to", date.max)
    if last < first:
        raise line.refused("available_to", f"write a day not before available_from, {first}")
    return Sku(
        line=line,
        name=line.text("sku"),
        cpu_milli=line.whole("cpu_milli", 1),
        memory_mib=line.whole("memory_mib", 1),
        gpu=line.whole("gpu"),
        gpu_model=line.cells.get("gpu_model", ""),
        ports=line.whole("ports"),
        port_gbps=line.whole("port_gbps", blank=0),
        power_w=line.whole("power_w"),
        units=line.whole("units"),
        price=line.number_of("price"),
        life_months=line.whole("life_months", 1),
        lead_days=line.whole("lead_days"),
        lot=line.whole("lot", 1),
        available_from=first,
        available_to=last,
        most=line.whole("max", blank=UNLIMITED),
    )


def read_racks(path: Path) -> list[RackRow]:
    """Racks, each once.

    Raises:
        CohabitError: as of `read_skus`.
    """
    found = [
        RackRow(
            line,
            line.text("rack"),
            line.text("zone"),
            line.text("room"),
            round(line.number_of("kw", blank=NO_LIMIT_KW) * 1_000),
            line.whole("units", blank=NO_LIMIT),
            _ports(line),
        )
        for line in lines_of(path, RACK_COLUMNS)
    ]
    _refuse_twice({}, [(one.line, "rack", one.name) for one in found])
    return found


def _ports(line: Line) -> dict[int, int]:
    """Ports by speed, of a number for any speed, or of `48x25+16x100`."""
    found = dict[int, int]()
    if not line.cells["ports"]:
        return {0: NO_LIMIT}
    for part in line.cells["ports"].split("+"):
        count, _, speed = part.partition("x")
        words = (count, speed or "0")
        if not all(word.isascii() and word.isdigit() and len(word) < 8 for word in words):
            raise line.refused(
                "ports",
                "write ports by Gbit/s, as 48x25+16x100, a number for any speed, or nothing for no limit",
            )
        found[int(words[1])] = found.get(int(words[1]), 0) + int(count)
    return found


def read_movements(path: Path, day: str) -> list[Movement]:
    """Machines by SKU and rack; `day` is the column of their day, empty where they stand.

    Raises:
        CohabitError: as of `read_skus`.
    """
    columns = ("sku", "rack", "machines", *((day,) if day else ()))
    found = [
        Movement(
            line,
            line.text("sku"),
            line.text("rack"),
            line.whole("machines", 1),
            line.day(day) if day else date.min,
        )
        for line in lines_of(path, columns)
    ]
    _refuse_twice({}, [(one.line, "rack", f"{one.sku}, {one.rack}, {one.day}") for one in found])
    return found


def read_demand(path: Path) -> list[DemandRow]:
    """Demand, each path, month and shape once.

    Raises:
        CohabitError: as of `read_skus`.
    """
    found = [_demand(line) for line in lines_of(path, DEMAND_COLUMNS, DEMAND_OPTIONAL)]
    _refuse_twice({}, [(one.line, "shape", f"{one.shape} of {one.month:%Y-%m}, {one.path}") for one in found])
    first = dict[str, DemandRow]()
    for one in found:
        same = first.setdefault(one.shape, one)
        if one[4:8] != same[4:8]:
            raise one.line.refused("shape", f"its size differs from line {same.line.number}: write another name")
    return found


def _demand(line: Line) -> DemandRow:
    size = (
        line.whole("cpu_milli"),
        line.whole("memory_mib"),
        line.whole("gpu", blank=0),
        line.whole("gpu_milli", blank=0),
    )
    if size[3] >= 1_000 or (size[2] and size[3]):
        raise line.refused("gpu_milli", "write a part of one GPU below 1000, and then 0 in column gpu")
    return DemandRow(
        line=line,
        path=line.cells.get("path", ""),
        month=line.month("month"),
        shape=line.text("shape"),
        size=size,
        models=frozenset(filter(None, line.cells.get("gpu_models", "").split("|"))),
        prod=line.one_of("prod", YES_NO, blank=False),
        min_domains=line.whole("min_domains", 1, blank=1),
        pods=line.whole("pods"),
    )


def read_apps(path: Path) -> dict[str, dict[str, int]]:
    """Pods of each app by shape, as `cohabit capacity inputs` writes them.

    Raises:
        CohabitError: as of `read_skus`.
    """
    found, seen = dict[str, dict[str, int]](), list[tuple[Line, str, str]]()
    for line in lines_of(path, ("shape", "app", "pods")):
        shape, app = line.text("shape"), line.cells["app"]
        seen.append((line, "shape", f"{shape} of {app}"))
        found.setdefault(app, {})[shape] = line.whole("pods")
    _refuse_twice({}, seen)
    return found


def read_events(path: Path) -> list[EventRow]:
    """Dated events that a planner foresees.

    Raises:
        CohabitError: as of `read_skus`.
    """
    found = []
    for line in lines_of(path, EVENT_COLUMNS, ("shape",)):
        first, last = line.day("from"), line.day("to")
        if last < first:
            raise line.refused("to", f"write a day not before column from, {first}")
        uplift = line.number_of("uplift_percent", -100.0) / 100.0
        found.append(EventRow(line, line.text("event"), first, last, line.cells.get("shape", ""), uplift))
    _refuse_twice({}, [(one.line, "event", f"{one.name}, {one.first}, {one.last}, {one.shape}") for one in found])
    return found


def _refuse_twice(seen: dict[str, Line], names: list[tuple[Line, str, str]]) -> None:
    for line, column, name in names:
        if name in seen:
            raise line.refused(column, f"line {seen[name].number} has it too: write each once")
        seen[name] = line
