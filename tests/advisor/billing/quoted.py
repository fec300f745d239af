"""Containers to quote, and neighbours of theirs, that tests share, and ways to draw them."""

from dataclasses import replace

import pyarrow as pa
from hypothesis import strategies as st

from advisor.billing.interference.expected_adjustment import Colocation, IncomingPod, Neighbour, Residents, Slowdown
from advisor.billing.interference.transfers import Player
from advisor.billing.quotes.cost_estimate import Asked, Need, Sold
from features.schema.tables import METERED
from tests.advisor.billing.billed import RESOURCES, STAMP, TEAMS, TIERS, Pool, book, drawn_pool, drawn_taken, full

NODE = "n"
NEEDS = (Need("cpu", 4.0, 2.0), Need("memory", 16.0, 12.0))
ASKED = Asked("c-new", "web", "search", "prod", NEEDS)
ME = Player("search", NODE)


def asked_rows(of: Asked, pool_hour: pa.Table, node: str = NODE) -> pa.Table:
    """What is metered once it came, minute by minute, by hand."""
    rows = []
    for need in of.needs:
        request = round((need.use if need.request is None else need.request) * 10**6)  # type: ignore[operator]
        use = round((need.request if need.use is None else need.use) * 10**6)  # type: ignore[operator]
        rows.append(
            {
                "cluster": "c", "hour": pool_hour["hour"][0].as_py(), "node": node, "container": of.container,
                "resource": need.resource, "pool": STAMP.pool, "team": of.team, "qos": of.tier,
                "requested": 60 * request, "within": 60 * min(request, use), "beyond": 60 * max(0, use - request),
                "minutes": 60, "gap_minutes": 0,
            }
        )  # fmt: skip
    return pa.Table.from_pylist(rows, schema=METERED.schema)


UNITS = st.integers(0, 200_000).map(lambda thousandths: thousandths / 1000)


@st.composite
def drawn_asked(draw: st.DrawFn) -> Asked:
    known = st.tuples(UNITS, UNITS) | st.tuples(UNITS, st.none()) | st.tuples(st.none(), UNITS)
    names = draw(st.lists(st.sampled_from(RESOURCES), min_size=1, max_size=2, unique=True))
    needs = tuple(Need(name, *draw(known)) for name in names)
    return Asked("c-new", "web", draw(st.sampled_from(TEAMS)), draw(st.sampled_from(TIERS)), needs)


@st.composite
def drawn_sold(draw: st.DrawFn) -> Sold:
    pool = replace(draw(drawn_pool()), cost_micros=draw(st.integers(0, 10**12)))
    return sold(pool, draw(drawn_taken()), whole=draw(st.booleans()))


def sold(pool: Pool, taken: pa.Table, *, whole: bool = False) -> Sold:
    """An hour; all of its cost is shared out where it is whole."""
    by = full(book()) if whole else book()
    return Sold(by, taken, pool.hours(int(taken["hour"].cast(pa.int64())[0].as_py()) if taken.num_rows else START))


START = 1_793_491_200_000_000


def slowdown(mean: float, wide: float = 1.1) -> Slowdown:
    return Slowdown(mean / wide, mean, mean * wide)


def neighbour(name: str, mean: float = 1.0, *, adds: float = 0.0, added: float = 0.0) -> Neighbour:
    return Neighbour(name, name.rsplit("-", 1)[0], False, slowdown(mean), adds, added)


MORE = st.floats(0, 3)


@st.composite
def drawn_colocation(draw: st.DrawFn, teams: tuple[str, ...] = TEAMS) -> tuple[IncomingPod, Colocation, Residents]:
    """A container among others, who pay something and may use more than they requested."""
    count = draw(st.integers(0, 5))
    found = tuple(
        Neighbour(
            f"n-{i}",
            None,
            draw(st.booleans()),
            slowdown(1 + draw(MORE), 1 + draw(MORE) / 3),
            draw(st.floats(-0.1, 1)),
            draw(st.floats(-0.1, 1)),
        )
        for i in range(count)
    )
    names = [one.container for one in found]
    team = {name: draw(st.sampled_from(teams)) for name in names}
    base = {name: draw(st.integers(0, 10**9)) for name in names}
    beyond = frozenset(draw(st.sets(st.sampled_from(TEAMS))))
    incoming = IncomingPod("c-new", ME, draw(st.integers(0, 10**9)), draw(st.booleans()), draw(st.integers(1, 2000)))
    own = slowdown(1 + draw(MORE), 1 + draw(MORE) / 3)
    return incoming, Colocation(own, found), Residents(team, base, beyond)
