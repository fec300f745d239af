"""Verdicts: what is wrong with who suffers, said only as far as it is known. Kernel."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from advisor.diagnosis.attribution import Attribution

Verdict = Literal["culprit", "self-inflicted", "host", "downstream", "no offender", "not enough data"]
SURE = 0.7
"""Probability of adding most from which a neighbour is named."""
SHARE = 0.5
"""Of what the victim suffers: a neighbour is named that may add so much, by the upper end of its interval."""
COMPARED = 3
"""Windows without suffering, with fewer of which a share says nothing: what is its neighbours' doing cannot be told
from what it is anyway, and only who adds most can."""
MOST_SHARE = 0.6
"""The same where others that have other neighbours are slow as well."""
MOST = 2 / 3
"""Share of others from which it is not the victim alone."""
MOST_SUSPECTS = 5
TWO_SIDED_90 = 1.6448536269514722
"""Standard deviations within which nine tenths of a normal distribution lie."""


@dataclass(frozen=True, slots=True)
class Suspect:
    """A neighbour and what it adds.

    Args:
        container: it.
        app: its app.
        qos: its class, BE or LS; what may be throttled depends on it.
        resource: through which it adds most.
        added: slowdown - 1 that it adds, on the mean over the windows in which the victim suffered.
        low: of a 90 % interval.
        high: of it.
        surely: probability that it adds most.
        through: what of `added` goes through `resource`.
        used: share of the node, or for CPU of the victim's own cores, that it used of that resource in each window.
    """

    container: str
    app: str | None
    qos: str | None
    resource: str
    added: float
    low: float
    high: float
    surely: float
    through: float
    used: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What is wrong with a container.

    Args:
        cluster: where.
        node: where.
        container: who suffers.
        app: its app.
        window_end_us: end of the newest window looked at, microseconds since 1970.
        slowdown: mean over the windows in which it suffered; NaN where its own limit hides it.
        verdict: see Verdict.
        reason: in words.
        ends_us: ends of the windows that it was judged by, rising.
        slowdowns: in each of them; NaN where not known.
        suspects: neighbours by what they add, most first, whatever the verdict is.
    """

    cluster: str
    node: str
    container: str
    app: str | None
    window_end_us: int
    slowdown: float
    verdict: Verdict
    reason: str
    ends_us: tuple[int, ...]
    slowdowns: tuple[float, ...]
    suspects: tuple[Suspect, ...]


@dataclass(frozen=True, slots=True)
class Circumstances:
    """What else there is to know of a victim.

    Args:
        known: how many of its last windows have a label.
        held: how many its own limit held it back in.
        others_unexplained: share of other containers of the node that are slower than their neighbours explain; NaN
            where too few were measured.
        downstream: its answers alone are late, and those of its replicas elsewhere too.
    """

    known: int
    held: int
    others_unexplained: float
    downstream: bool


def verdict_of(of: Circumstances, found: Attribution | None, enough: int) -> tuple[Verdict, str]:
    """What is wrong, and why that is said.

    Args:
        of: what is known of the victim.
        found: what neighbours add; None where that was not computed.
        enough: windows that have to show something.

    Returns:
        The verdict and a sentence. Who is held back by its own limit is nobody's victim, whoever stands beside it;
        who is slow together with its node, or with its replicas elsewhere, only of somebody who may add most of it.

    Raises:
        Nothing.

    Source: ours, docs/decisions/0042-diagnosis.md.
    """
    if of.held >= enough:
        return "self-inflicted", f"its own CPU limit held it back in {of.held} of its last windows"
    if of.known < enough or found is None:
        return "not enough data", f"only {of.known} of its last windows could be compared with its normal"
    attributed = _attributed(found, MOST_SHARE if of.others_unexplained >= MOST or of.downstream else SHARE)
    if attributed[0] != "culprit" and of.others_unexplained >= MOST:
        return "host", f"{of.others_unexplained:.0%} of the others on the node are slower than neighbours explain"
    if attributed[0] != "culprit" and of.downstream:
        return "downstream", "its replicas elsewhere answer late at the same time, and nothing here tells why"
    return attributed


def _attributed(found: Attribution, least: float) -> tuple[Verdict, str]:
    if not len(found.added):
        return "no offender", "nobody stands beside it"
    top = int(np.argmax(found.added))
    share = max(found.added[top], 0.0) / found.excess
    at_most = (found.added[top] + TWO_SIDED_90 * found.spread[top]) / found.excess
    if found.compared >= COMPARED and at_most < least:
        return (
            "no offender",
            f"the strongest neighbour adds {at_most:.0%} of its slowdown at most, less than {least:.0%}",
        )
    if found.surely[top] < SURE:
        return "no offender", f"which neighbour adds most is not sure: {found.surely[top]:.0%} for the strongest one"
    return (
        "culprit",
        f"it adds {min(share, 1.0):.0%} of the slowdown; that it adds most is {found.surely[top]:.0%} sure",
    )
