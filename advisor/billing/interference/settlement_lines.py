"""Settled: lines of what victims get back and who pays for it, or would, while it is only shown."""

from collections.abc import Sequence
from dataclasses import replace

from advisor.billing.interference.transfers import Claim, Settled
from advisor.billing.lines.line import PLATFORM, Fact, Line, Stamp, Subject, line_of
from advisor.billing.pricing.price_book import Policy


def transfer_lines(claims: Sequence[Claim], settled: Settled, policy: Policy, stamp: Stamp) -> tuple[Line, ...]:
    """Rebates, surcharges and what the platform adds; their sum is 0.

    Args:
        claims: as they were settled.
        settled: what is paid.
        policy: in shadow mode no account pays: amounts are 0; charge records keep what would be due.
        stamp: of all lines.

    Returns:
        One line for each rebate, for each player with a surcharge, and for each rebate that the platform adds to.

    Raises:
        Nothing.

    Source: ours, docs/decisions/0047-pricing.md.
    """
    lines = [_rebate(claim, -amount, stamp) for claim, amount in zip(claims, settled.rebates, strict=True) if amount]
    for player, amount in sorted(settled.surcharges.items()):
        if not amount:
            continue
        about = (Fact("attributed_micros", settled.attributed[player]), Fact("cap_ppm", policy.cap_ppm))
        lines.append(line_of(stamp, Subject(player.team, None, player.node), "surcharge", amount, about))
    for claim, amount in zip(claims, settled.platform, strict=True):
        if amount:
            subject = Subject(PLATFORM, claim.container, claim.who.node)
            lines.append(line_of(stamp, subject, "platform_share", amount, (Fact("team", claim.who.team),)))
    return tuple(map(_shown, lines)) if policy.shadow else tuple(lines)


def _rebate(claim: Claim, amount_micros: int, stamp: Stamp) -> Line:
    subject = Subject(claim.who.team, claim.container, claim.who.node)
    about = (Fact("claimed_micros", claim.rebate_micros), *claim.evidence)
    return line_of(stamp, subject, "rebate", amount_micros, about)


def _shown(line: Line) -> Line:
    return replace(line, amount_micros=0, memo_micros=line.amount_micros)
