"""Interference: what is moved between teams for what containers did to each other in hours of a pool. Kernel."""

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from advisor.billing.interference.claims import Node, claims_of, nodes_of, victims_of
from advisor.billing.interference.settlement_lines import transfer_lines
from advisor.billing.interference.transfers import Claim, Player, Settled, settle
from advisor.billing.lines.charge_rows import rows_of
from advisor.billing.lines.line import Line, Stamp
from advisor.billing.pricing.price_book import Policy, PriceBook
from ingest.schema.tables import TIMESTAMP

SPENT = pa.schema(
    [
        pa.field("hour", TIMESTAMP, nullable=False),
        pa.field("team", pa.string(), nullable=False),
        pa.field("spent_micros", pa.int64(), nullable=False),
    ]
)
"""What the platform had added to rebates of a team in a month before those of an hour."""


@dataclass(frozen=True)
class Transfers:
    """What is moved.

    Args:
        lines: rows of advisor.billing.lines.schema.SCHEMA that sum to zero, hour by hour.
        before: rows of SPENT, of each hour with claims the teams of its victims.
        spent: micro-units that the platform added in the month, by team, with these hours.
    """

    lines: pa.Table
    before: pa.Table
    spent: Mapping[str, int]


def transfers_of(
    lines: pa.Table, metered: pa.Table, slowed: pa.Table, book: PriceBook, spent: Mapping[str, int]
) -> Transfers:
    """What interference moves in hours of a pool.

    Args:
        lines: of these hours, from advisor.billing.pricing.charges.
        metered: what they were billed from.
        slowed: rows of table `slowed` of these hours; of containers that were not billed nothing is claimed.
        book: whose policy says how much of what was lost is given back.
        spent: what the platform added in the month before, by team.

    Returns:
        Rebates, surcharges and what the platform adds; none where theta is 0 or no container was slowed down. In
        shadow mode what the platform would add counts as spent, so that the lines show what would be paid.

    Raises:
        AdvisorError: there are more windows than the policy counts.

    Source: ours, docs/decisions/0050-transfers.md.
    """
    after, moved, before = dict(spent), list[Line](), list[dict[str, object]]()
    if not slowed.num_rows or not book.policy.theta_ppm:
        return Transfers(rows_of(moved), SPENT.empty_table(), after)
    nodes = nodes_of(lines, metered, slowed)
    for start, victims in victims_of(slowed).items():
        here = {name: node for (hour, name), node in nodes.items() if hour == start}
        claims = claims_of(victims, here, book.policy)
        for team in sorted({claim.who.team for claim in claims}):
            before.append({"hour": start, "team": team, "spent_micros": after.get(team, 0)})
        settled = _settled(claims, here, book.policy, after)
        for claim, added in zip(claims, settled.platform, strict=True):
            after[claim.who.team] = after.get(claim.who.team, 0) + added
        stamp = Stamp("", "", start, book.version, book.policy.version)
        moved += transfer_lines(claims, settled, book.policy, stamp)
    return Transfers(rows_of(moved), pa.Table.from_pylist(before, SPENT), after)


def _settled(claims: list[Claim], nodes: Mapping[str, Node], policy: Policy, spent: Mapping[str, int]) -> Settled:
    charged = {
        Player(team, name): base
        for name in {claim.who.node for claim in claims}
        for team, base in nodes[name].charged.items()
    }
    left = {claim.who.team: policy.platform_cap_micros - spent.get(claim.who.team, 0) for claim in claims}
    return settle(claims, charged, left, policy)
