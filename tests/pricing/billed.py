"""Pools, books and stamps that tests of pricing share, and ways to draw them."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import numpy as np
from hypothesis import strategies as st

from advisor.pricing.base import HOUR, Idle, Pool, Taken
from advisor.pricing.book import HOUR_US, Policy, PriceBook, Tier, UnitPrice
from advisor.pricing.lines import Line, Stamp
from advisor.pricing.money import MICROS
from advisor.pricing.quantity import Rule

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


def taken(*rows: tuple[str, str, str, str, int], gap: int = 0, gap_minutes: int = 0) -> Taken:
    """Of rows (account, container, tier, resource, micro-unit-minutes); the gap is the first row's."""
    account, container, tier, resource, known = zip(*rows, strict=True) if rows else ((), (), (), (), ())
    gaps, minutes = np.zeros((2, len(rows)), np.int64)
    if rows:
        gaps[0], minutes[0] = gap, gap_minutes
    return Taken(account, container, tier, resource, np.array(known, np.int64), gaps, minutes)


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
CAUSES = ("idle_headroom", "idle_stranded", "idle_lead_time", "idle_failure")


def numbered(rows: Sequence[tuple[str, str, str, int]]) -> list[tuple[str, str, str, str, int]]:
    return [(team, f"c{i:02d}", tier, resource, q) for i, (team, tier, resource, q) in enumerate(rows)]


@st.composite
def drawn_taken(draw: st.DrawFn) -> Taken:
    rows = numbered(draw(ROWS))
    return taken(*rows, gap=draw(st.integers(0, HOUR)), gap_minutes=draw(st.integers(1, 60)))


@st.composite
def drawn_pool(draw: st.DrawFn) -> Pool:
    keys = st.lists(st.tuples(st.sampled_from(TEAMS), st.integers(0, 9)), max_size=3, unique_by=lambda key: key[0])
    causes = tuple(
        Idle(kind, draw(st.integers(0, 9)), tuple(draw(keys)))  # type: ignore[arg-type]
        for kind in CAUSES
    )
    capacity = {resource: draw(st.integers(0, 1000)) * HOUR for resource in RESOURCES}
    return Pool(draw(st.integers(-(10**9), 10**12)), capacity, causes)


BOOKS = st.sampled_from([book(), full(book())])
HOURS = [START_US + hour * HOUR_US for hour in range(4)]
