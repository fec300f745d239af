"""Verdicts: the cause of each container's slowdown, as far as it is known. Kernel."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from advisor.diagnosis.attribution import Attribution

Verdict = Literal["antagonist", "self-inflicted", "host", "downstream", "no offender", "not enough data"]
SURE = 0.7
"""Probability of adding most from which a neighbour is named."""
SHARE = 0.5
"""Of the victim's slowdown: a neighbour that may add so much, by its interval's upper end, is named."""
COMPARED = 3
"""Windows without slowdown that a share needs. With fewer, the effect of neighbours is not separable from the level
without them; only the largest contributor is known."""
MAX_SHARE = 0.6
"""The same where others that have other neighbours are slow as well."""
MOST = 2 / 3
"""Share of others from which it is not the victim alone."""
MAX_SUSPECTS = 5
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
        added: slowdown - 1 that it adds, mean over the windows in which the victim was slowed down.
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
        container: the slowed container.
        app: its app.
        window_end_us: end of the newest window looked at, microseconds since 1970.
        slowdown: mean over the windows in which it was slowed down; NaN where its own limit hides it.
        verdict: see Verdict.
        reason: in words.
        ends_us: ends of the windows that it was judged by, rising.
        slowdowns: in each of them; NaN where not known.
        suspects: neighbours by what they add, most first, whatever the verdict is.
        kind: of the label of its newest slow window, see `labels.kind`; None where no label says so.
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
    kind: str | None = None


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
        The verdict and a sentence. A container throttled by its own limit is no victim, whatever is co-located. One
        that is slow together with its node or replicas is a victim only of a neighbour that may add most of it.

    Raises:
        Nothing.

    Source: ours, docs/decisions/0042-diagnosis.md.
    """
    if of.held >= enough:
        return "self-inflicted", f"its own CPU limit held it back in {of.held} of its last windows"
    if of.known < enough or found is None:
        return "not enough data", f"only {of.known} of its last windows could be compared with its normal"
    attributed = _attributed(found, MAX_SHARE if of.others_unexplained >= MOST or of.downstream else SHARE)
    if attributed[0] != "antagonist" and of.others_unexplained >= MOST:
        return "host", f"{of.others_unexplained:.0%} of the others on the node are slower than neighbours explain"
    if attributed[0] != "antagonist" and of.downstream:
        return "downstream", "its replicas on other nodes are slow at the same time, and no local cause was found"
    return attributed


def _attributed(found: Attribution, least: float) -> tuple[Verdict, str]:
    if not len(found.added):
        return "no offender", "no neighbour is on the node"
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
        "antagonist",
        f"it adds {min(share, 1.0):.0%} of the slowdown; that it adds most is {found.surely[top]:.0%} sure",
    )
