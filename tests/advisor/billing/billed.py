"""Pools, books and stamps that tests of pricing share, and ways to draw them."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import pyarrow as pa
from hypothesis import strategies as st

from advisor.billing.lines.line import Line, Stamp
from advisor.billing.lines.money import MICROS
from advisor.billing.pricing.base import base_lines
from advisor.billing.pricing.billed_quantity import HOUR, Rule
from advisor.billing.pricing.price_book import HOUR_US, Policy, PriceBook, Tier, UnitPrice
from features.schema.tables import IDLE, METERED, POOL_HOURS

START_US = 1_793_491_200_000_000  # 2026-11-01 00:00 UTC
STAMP = Stamp("2026-11", "standard-a", START_US, "2026-11", "policy-1", "model-7")
POLICY = Policy("policy-1", Rule(0.5, 3.0), shadow=False, platform_cap_micros=10**9)
TEAMS = ("search", "ads", "batch")
TIERS = ("prod", "mid", "batch", "free")
RESOURCES = ("cpu", "memory")


def book(policy: Policy = POLICY, **changes: object) -> PriceBook:
    made = PriceBook(
        version="2026-11",
        currency="EUR",
        start_us=START_US,
        end_us=None,
        prices=(UnitPrice("cpu", "core", 40_000), UnitPrice("memory", "GiB", 5_000)),
        tiers=(Tier("prod", MICROS), Tier("mid", 600_000), Tier("batch", 250_000), Tier("free", 0)),
        policy=policy,
        proposed_by="ann",
        approved_by="bob",
    )
    return replace(made, **changes)  # type: ignore[arg-type]


def full(of: PriceBook) -> PriceBook:
    return replace(of, policy=replace(of.policy, recovery="full"))


Taken: TypeAlias = pa.Table
"""Rows of table `metered`."""


NotTaken: TypeAlias = tuple[tuple[str, str, int, dict[str, int]], ...]


@dataclass(frozen=True)
class Pool:
    """An hour of a pool, and why it has more than is taken."""

    cost_micros: int
    capacity: Mapping[str, int]
    idle: NotTaken = ()
    """Of each cause and resource how much, and what of it by whom."""

    def hours(self, *starts: int) -> pa.Table:
        """Rows of table `pool_hours`."""
        row = {"cluster": "c", "pool": STAMP.pool, "nodes": 1, "cost_micros": self.cost_micros, "cost_source": "nodes"}
        rows = [{**row, "hour": start, "capacity": list(self.capacity.items())} for start in starts]
        return pa.Table.from_pylist(rows, schema=POOL_HOURS.schema)

    def not_taken(self, *starts: int) -> pa.Table:
        """Rows of table `idle`."""
        rows = [
            {"cluster": "c", "pool": STAMP.pool, "hour": start, "cause": cause, "resource": resource,
             "quantity": quantity, "by_team": list(teams.items())}
            for start in starts
            for cause, resource, quantity, teams in self.idle
        ]  # fmt: skip
        return pa.Table.from_pylist(rows, schema=IDLE.schema)


def taken(
    *rows: tuple[str, str, str, str, int], gap_minutes: int = 0, minutes: int = 60, hour_us: int = START_US
) -> Taken:
    """Of rows (account, container, tier, resource, micro-unit-minutes), all of it requested and used, so that every
    rule bills just that; the gap is the first row's, each of its minutes the mean of the known ones."""
    told = [
        {
            "cluster": "c", "hour": hour_us, "node": "n", "container": container, "resource": resource,
            "pool": STAMP.pool, "team": account, "qos": tier, "requested": known, "within": known, "beyond": 0,
            "minutes": minutes if row == 0 else 60, "gap_minutes": gap_minutes if row == 0 else 0,
        }
        for row, (account, container, tier, resource, known) in enumerate(rows)
    ]  # fmt: skip
    return pa.Table.from_pylist(told, schema=METERED.schema)


def billed(pool: Pool, hour: Taken, of: PriceBook, *starts: int) -> tuple[Line, ...]:
    """Lines of the hours, the first one unless told."""
    starts = starts or (START_US,)
    return base_lines(hour, pool.hours(*starts), of, STAMP, idle=pool.not_taken(*starts))


def total(lines: Iterable[Line]) -> int:
    return sum(line.amount_micros for line in lines)


def by(lines: Iterable[Line], key: Callable[[Line], str]) -> dict[str, int]:
    sums: dict[str, int] = defaultdict(int)
    for line in lines:
        sums[key(line)] += line.amount_micros
    return dict(sums)


def accounts(lines: Iterable[Line]) -> dict[str, int]:
    return by(lines, lambda line: line.subject.account)


ROWS = st.lists(
    st.tuples(st.sampled_from(TEAMS), st.sampled_from(TIERS), st.sampled_from(RESOURCES), st.integers(0, 200 * HOUR)),
    max_size=12,
)


def numbered(rows: Sequence[tuple[str, str, str, int]]) -> list[tuple[str, str, str, str, int]]:
    return [(team, f"c{i:02d}", tier, resource, q) for i, (team, tier, resource, q) in enumerate(rows)]


@st.composite
def drawn_taken(draw: st.DrawFn) -> Taken:
    rows = numbered(draw(ROWS))
    gap = draw(st.integers(1, 60))
    return taken(*rows, gap_minutes=gap, minutes=60 - gap)


@st.composite
def drawn_pool(draw: st.DrawFn) -> Pool:
    amounts = st.integers(0, 300 * HOUR)
    idle = []
    for cause in ("failure", "lead_time", "stranded"):
        for resource in draw(st.sets(st.sampled_from([*RESOURCES, "gpu"]))):
            teams = draw(st.dictionaries(st.sampled_from(TEAMS), amounts, max_size=2)) if cause == "stranded" else {}
            idle.append((cause, resource, sum(teams.values()) + draw(amounts), teams))
    capacity = {resource: draw(st.integers(0, 1000)) * HOUR for resource in RESOURCES}
    return Pool(draw(st.integers(-(10**9), 10**12)), capacity, tuple(idle))


BOOKS = st.sampled_from([book(), full(book())])
HOURS = [START_US + hour * HOUR_US for hour in range(4)]
