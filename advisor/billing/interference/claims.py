"""Claims: rebates that victims of an hour may get, with attribution, from charges and metered usage. Kernel.

A player is a team on a node; containers without a known team belong to the platform.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from advisor.billing.interference.transfers import Claim, Player, attribution_of, eligible, rebates, within_entitlement
from advisor.billing.lines.line import PLATFORM, UNATTRIBUTED, Fact
from advisor.billing.lines.money import MICROS
from advisor.billing.pricing.price_book import Policy
from features.columnar.asof_join import key_codes

Floats = NDArray[np.float64]

OWN_ACCOUNTS = frozenset({PLATFORM, UNATTRIBUTED})
"""Accounts without rebates and without attribution."""
WEIGHED = ("cpu", "memory", "gpu")
"""Resources that a player may take what it requested of."""
SHARED = ("llc", "memory_bandwidth")
"""Resources of a node without requests: a player may take its share of the CPU requested there."""


@dataclass(frozen=True, slots=True)
class CoLocated:
    """A neighbour of a victim: what it added to the slowdown, and the shares of the node that it used."""

    container: str
    added: float
    llc: float | None
    memory_bandwidth: float | None


@dataclass(frozen=True, slots=True)
class Victim:
    """A row of table `slowed`, apart from its hour."""

    container: str
    node: str
    low: tuple[float | None, ...]
    excess: float
    neighbours: tuple[CoLocated, ...]
    method: str


@dataclass
class Node:
    """A node in an hour.

    Args:
        team: of each container.
        base: base charge of each container, micro-units.
        charged: base charge of each team.
        used: micro-unit-minutes that a team used, by team and resource.
        requested: the same of what it requested.
    """

    team: dict[str, str] = field(default_factory=dict)
    base: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    charged: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    used: dict[tuple[str, str], int] = field(default_factory=lambda: defaultdict(int))
    requested: dict[tuple[str, str], int] = field(default_factory=lambda: defaultdict(int))


def victims_of(slowed: pa.Table) -> dict[int, list[Victim]]:
    """Rows of table `slowed` by the hour, as microseconds since 1970, rising; of an hour by container and node."""
    found = defaultdict[int, list[Victim]](list)
    starts = slowed["hour"].cast(pa.int64()).to_pylist()
    for start, victim in zip(starts, msgspec.convert(slowed.to_pylist(), list[Victim]), strict=True):
        found[start].append(victim)
    return {start: sorted(found[start], key=lambda one: (one.container, one.node)) for start in sorted(found)}


def nodes_of(lines: pa.Table, metered: pa.Table, slowed: pa.Table) -> dict[tuple[int, str], Node]:
    """Charges and usage, by hour and node, where a container was slowed down.

    Args:
        lines: rows of line_table.SCHEMA; those of base charges count.
        metered: rows of table `metered` of the same hours.
        slowed: rows of table `slowed`.

    Raises:
        Nothing.
    """
    found = defaultdict[tuple[int, str], Node](Node)
    base = lines.filter(pc.equal(lines["kind"], "base"))
    for row in _summed(_of_slowed(base, slowed), "account", ["amount_micros"]):
        node, amount = found[row["start"], row["node"]], row["amount_micros_sum"]
        node.team[row["container"]] = row["account"]
        node.base[row["container"]] += amount
        node.charged[row["account"]] += amount
    for row in _summed(_of_slowed(metered, slowed), "resource", ["within", "beyond", "requested"]):
        node = found[row["start"], row["node"]]
        key = node.team.get(row["container"], UNATTRIBUTED), row["resource"]
        node.used[key] += row["within_sum"] + row["beyond_sum"]
        node.requested[key] += row["requested_sum"]
    return dict(found)


def claims_of(victims: Sequence[Victim], nodes: Mapping[str, Node], policy: Policy) -> list[Claim]:
    """What victims of an hour may get back.

    Args:
        victims: of the hour.
        nodes: of the hour, by name.
        policy: from when on and which share.

    Returns:
        Claims above zero; none of containers without charges or without a team.

    Raises:
        AdvisorError: there are more windows than the policy counts.

    Source: ours, docs/decisions/0050-transfers.md.
    """
    found = list[Claim]()
    for victim in victims:
        node = nodes.get(victim.node, Node())
        team = node.team.get(victim.container, UNATTRIBUTED)
        claim = None if team in OWN_ACCOUNTS else _claim(victim, Player(team, victim.node), node, policy)
        if claim is not None and claim.rebate_micros:
            found.append(claim)
    return found


def hour_bound(low: Floats) -> Floats:
    """What the slowdown of a whole hour surely was above: as much time was lost as in all of its windows together.

    Args:
        low: (w, n) lower bounds, window by window; NaN, and what is below 1, counts as 1.

    Returns:
        (n,) ratios >= 1, the harmonic mean.

    Raises:
        Nothing.

    Source: work done is time over slowdown, so that it adds up over windows.
    """
    surely = np.maximum(np.nan_to_num(low, nan=1.0), 1.0)
    bound: Floats = len(surely) / (1.0 / surely).sum(axis=0)
    return bound


def _claim(victim: Victim, who: Player, node: Node, policy: Policy) -> Claim:
    low = np.array(victim.low, np.float64)[:, None]
    base, whole = node.base[victim.container], hour_bound(low)
    back = rebates(np.array([base]), whole, eligible(low, policy), policy)
    attribution, platform = _attribution(victim, who, node)
    weights = [(player.team, weight) for player, weight in attribution] + [(PLATFORM, platform)]
    evidence = (
        Fact("base_micros", base),
        Fact("slowdown_low", round(float(whole[0]), 6)),
        Fact("slow_windows", int((low > 1.0 + policy.delta_ppm / MICROS).sum())),
        Fact("attribution", ", ".join(f"{name} {weight / MICROS:.3f}" for name, weight in weights if weight)),
        Fact("method", victim.method),
    )
    return Claim(victim.container, who, int(back[0]), attribution, platform, evidence)


def _attribution(victim: Victim, who: Player, node: Node) -> tuple[tuple[tuple[Player, int], ...], int]:
    """Teams on the node that add to a victim's slowdown with their attribution in millionths, and the platform's."""
    added, shared = defaultdict[str, float](float), defaultdict[str, Floats](lambda: np.zeros(len(SHARED)))
    for one in victim.neighbours:
        team = node.team.get(one.container, UNATTRIBUTED)
        if team not in OWN_ACCOUNTS:
            added[team] += one.added
            shared[team] = shared[team] + np.array([one.llc, one.memory_bandwidth], np.float64)
    teams = sorted(added)
    within = np.array([team != who.team and _within(team, shared[team], node) for team in teams], np.bool_)
    weights, platform = attribution_of(np.array([added[team] for team in teams]), victim.excess, within)
    players = (Player(team, who.node) for team in teams)
    return tuple(zip(players, weights.tolist(), strict=True)), platform


def _within(team: str, shared: Floats, node: Node) -> bool:
    """Whether a team took no more than it may."""
    keys = [(team, resource) for resource in WEIGHED]
    measured = [key in node.used for key in keys]
    use = [float(node.used[key]) if known else np.nan for key, known in zip(keys, measured, strict=True)]
    asked = [float(node.requested[key]) if known else np.nan for key, known in zip(keys, measured, strict=True)]
    whole = sum(amount for (_, resource), amount in node.requested.items() if resource == "cpu")
    fair = node.requested.get((team, "cpu"), 0) / whole if whole else np.nan
    flags = within_entitlement(np.array([[*use, *shared]]), np.array([[*asked, *[fair] * len(SHARED)]]))
    return bool(flags[0])


def _of_slowed(rows: pa.Table, slowed: pa.Table) -> pa.Table:
    """Rows of nodes and hours in which a container was slowed down."""
    own, theirs = key_codes(rows, slowed, ["hour", "node"])
    return rows.filter(pa.array(np.isin(own, theirs)))


def _summed(rows: pa.Table, by: str, sums: Sequence[str]) -> list[dict[str, Any]]:
    grouped = rows.group_by(["hour", "node", "container", by], use_threads=False)
    added = grouped.aggregate([(name, "sum") for name in sums])
    found: list[dict[str, Any]] = added.append_column("start", added["hour"].cast(pa.int64())).to_pylist()
    return found
