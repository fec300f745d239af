"""Billing: how fast container-hours are metered and billed, in which memory, and whether the bytes stay the same."""

import resource
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from advisor.billing.lines.money import MICROS
from advisor.billing.lines.parquet import write_lines
from advisor.billing.lines.schema import SHARED
from advisor.billing.pricing.billed_quantity import Rule
from advisor.billing.pricing.charges import bill_pool_hours
from advisor.billing.pricing.price_book import Policy, PriceBook, Tier, UnitPrice
from benchmarks.billing_site import DAY_HOURS, START_US, Site, bills, described, placed, used
from benchmarks.runner import OURS, Benchmark, Result
from features.contention.node_state import Facts
from features.metering.idle_causes import idle_hours
from features.metering.pools import pool_hours
from features.metering.units import HOUR_US, Hours
from features.metering.usage_hours import metered

Ints = NDArray[np.int64]
BOOK = PriceBook(
    version="benchmark",
    currency="EUR",
    start_us=START_US,
    end_us=None,
    prices=(UnitPrice("cpu", "core", 40_000), UnitPrice("memory", "GiB", 5_000)),
    tiers=(Tier("LS", MICROS), Tier("BE", 250_000), Tier("SYSTEM", 0)),
    policy=Policy("benchmark", Rule(0.5, 3.0)),
    proposed_by="a",
    approved_by="b",
)
FACTS = {**dict.fromkeys(SHARED, ""), "format": "1", "cluster": "c", "currency": "EUR"}


@dataclass
class Spent:
    """What a run took and made; drawing and checking are left out of the seconds."""

    meter_s: float = 0.0
    bill_s: float = 0.0
    container_hours: int = 0
    from_minutes: int = 0
    lines: int = 0
    identical: bool = True
    conserved: bool = True
    digests: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class _Metered:
    """What a day of a pool is billed from: rows of tables metered, pool_hours and idle."""

    sums: pa.Table
    pools: pa.Table
    idle: pa.Table

    def where(self, told: pc.Expression) -> "_Metered":
        """Some of it."""
        return _Metered(self.sums.filter(told), self.pools.filter(told), self.idle.filter(told))

    def lines(self) -> pa.Table:
        """What it comes to."""
        return bill_pool_hours(self.sums, self.pools, BOOK, idle=self.idle)


def days(hours: int) -> Iterator[Hours]:
    """The hours, a day at a time."""
    for first in range(0, hours, DAY_HOURS):
        yield Hours(START_US + first * HOUR_US, min(DAY_HOURS, hours - first))


def billed(site: Site, hours: int, folder: Path, seed: int) -> Spent:
    """Meter and bill every pool, day by day; files go once they are counted."""
    spent = Spent()
    for pool in range(site.pools):
        for number, day in enumerate(days(hours)):
            rng = np.random.default_rng([seed, pool, number])
            _pool_day(site, pool, day, folder=folder, rng=rng, spent=spent, check=number == 0)
    return spent


def _pool_day(
    site: Site, pool: int, day: Hours, *, folder: Path, rng: np.random.Generator, spent: Spent, check: bool
) -> None:
    usage, facts = used(site, pool, day, rng), Facts(described(site, pool), placed(site, pool, rng))
    nodes = facts.nodes.select(["cluster", "node"])
    started = perf_counter()
    sums = metered(usage, facts, day, nodes.slice(0, site.measured_nodes))
    there = pool_hours(facts.nodes, bills(), day.start_us, day.count)
    spent.meter_s += perf_counter() - started
    all_sums = site.copied(sums, pool, rng)
    started = perf_counter()
    known = _Metered(all_sums, there, idle_hours(facts, all_sums, day))
    file = write_lines(known.lines(), FACTS, folder)
    spent.bill_s += perf_counter() - started
    spent.container_hours += site.containers * day.count
    spent.from_minutes += site.measured * day.count
    spent.lines += file.rows
    spent.conserved &= file.amount_micros == pc.sum(there["cost_micros"]).as_py()
    spent.digests.append(file.sha256)
    file.path.unlink()
    if check:
        again = metered_in_pieces(usage, facts, day, nodes.slice(0, site.measured_nodes), rng)
        spent.identical &= again.equals(sums)
        spent.identical &= billed_in_pieces(known, folder, rng) == file.sha256


def metered_in_pieces(usage: pa.Table, facts: Facts, day: Hours, nodes: pa.Table, rng: np.random.Generator) -> pa.Table:
    """The same sums, of shuffled rows, hour by hour and node by node in two parts."""
    parts = []
    shuffled = usage.take(pa.array(rng.permutation(usage.num_rows)))
    cut = rng.permutation(nodes.num_rows) % 2 == 0
    for some in (nodes.filter(pa.array(cut)), nodes.filter(pa.array(~cut))):
        own = shuffled.filter(pc.is_in(shuffled["node"], some["node"].combine_chunks()))
        hours = [Hours(day.start_us + hour * HOUR_US, 1) for hour in range(day.count)]
        parts += [metered(own, facts, hour, some) for hour in hours]
    order = [(name, "ascending") for name in ("cluster", "hour", "container", "node", "resource")]
    return pa.concat_tables(parts).sort_by(order)


def billed_in_pieces(known: _Metered, folder: Path, rng: np.random.Generator) -> str:
    """Digest of the same lines, of shuffled sums, billed in two parts of the day and written later part first."""
    shuffled = replace(known, sums=known.sums.take(pa.array(rng.permutation(known.sums.num_rows))))
    cut = known.pools["hour"][known.pools.num_rows // 2]
    parts = [shuffled.where(part).lines() for part in (pc.field("hour") >= cut, pc.field("hour") < cut)]
    file = write_lines(pa.concat_tables(parts), FACTS, folder / "again")
    file.path.unlink()
    return file.sha256


def run(arguments: Namespace, _: np.random.Generator) -> Result:
    """Rates of all containers; growth from a tenth of them in as many pools."""
    site = Site(arguments.containers, arguments.pools, arguments.share)
    with TemporaryDirectory() as scratch:
        tenth = billed(
            replace(site, all_containers=max(site.pools, site.all_containers // 10)), arguments.hours, Path(scratch), 0
        )
        spent = billed(site, arguments.hours, Path(scratch), 0)
    seconds = spent.meter_s + spent.bill_s
    figures = {
        "rows_per_s": spent.container_hours / seconds,
        "rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "growth_x10": seconds / (tenth.meter_s + tenth.bill_s),
        "identical": float(spent.identical and tenth.identical),
        "conserved": float(spent.conserved and tenth.conserved),
        "bill_rows_per_s": spent.container_hours / spent.bill_s,
        "meter_rows_per_s": spent.from_minutes / spent.meter_s,
        "container_hours": float(spent.container_hours),
        "container_hours_from_minutes": float(spent.from_minutes),
        "lines": float(spent.lines),
        "seconds": seconds,
    }
    return {OURS: figures}


def _arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--containers", type=int, default=300_000, help="there all the time (300000)")
    parser.add_argument("--hours", type=int, default=720, help="metered and billed, a day and pool at a time (720)")
    parser.add_argument("--pools", type=int, default=30, help="that share the containers (30)")
    parser.add_argument(
        "--share",
        type=float,
        default=0.01,
        help="of the containers whose hours the metering kernel adds up from minutes that are drawn, one usage row a "
        "minute; the others' sums are those of one of these, moved a little (0.01)",
    )


SUMMARY = (
    "300,000 containers x 720 h metered and billed: container-hours a second (rows_per_s), memory, growth; "
    "byte-identical under shuffled input and other partitioning"
)
BENCHMARK = Benchmark("billing", SUMMARY, run, runs=1, add_arguments=_arguments)
