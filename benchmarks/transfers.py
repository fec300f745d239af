"""Transfers: whether what victims of neighbours get back is no more than they lost, on clusters whose law says that."""

import sys
import tempfile
from argparse import ArgumentParser, Namespace
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from advisor.billing.interference.claims import Victim, hour_bound, victims_of
from advisor.billing.interference.transfers import eligible
from advisor.billing.pricing.price_book import Policy
from advisor.diagnosis.slowed_hours import HOUR_US, slowed_hours
from benchmarks.antagonists import START_S, Cast, Scene, cast_of, played, truly_added
from benchmarks.diagnosis import LEARNT_H, LOUD_PER_NODE, tables_of
from benchmarks.reassign.timed import whole
from benchmarks.runner import OURS, Benchmark, Result
from ingest.simulator.laws import LAWS

US = 1_000_000
FIRST_SEED = 601
"""What neighbours have to explain, and how blame is shared, was chosen on seeds 7 and 8, after a first look at 601."""
BY_USE = "by_use"
"""Who crowds cache and memory bandwidth has to pay, by how much: no victim is looked at."""
POLICY = Policy("fair-1", shadow=False)


@dataclass(frozen=True)
class Truth:
    """What is true of a container's hour.

    Args:
        lost: share of the hour that was lost to its neighbours.
        ill: it was slow for a reason of its own, or held back by its own limit.
        shares: of what each neighbour added, by uid, in the middle of the hour; sum to 1.
    """

    lost: float
    ill: bool
    shares: Mapping[str, float]


def run(arguments: Namespace, _: np.random.Generator) -> Result:
    """Worlds with loud containers under each law: hours that are claimed for, beside what was truly lost in them."""
    count, whose = Counter[str](), defaultdict[str, list[float]](list)
    for law in LAWS:
        for seed in range(FIRST_SEED, FIRST_SEED + arguments.seeds):
            one = Counter[str]()
            _world(law, seed, arguments.hours, one, whose)
            print(f"{law}, seed {seed}: {_told(one)}", file=sys.stderr, flush=True)
            count += one
    ours = _told(count) | {"claims": count["claims"], "blame_error": float(np.mean(whose[OURS]))}
    return {OURS: ours, BY_USE: {"blame_error": float(np.mean(whose[BY_USE]))}}


def _told(count: Counter[str]) -> dict[str, float]:
    claims, claimed, lost = (max(count[name], 1) for name in ("claims", "claimed", "lost"))
    return {
        "over_rebated_frac": count["over"] / claims,
        "over_amount_frac": count["over_amount"] / claimed,
        "given_back_frac": count["claimed"] / lost,
        "ill_claims_frac": count["ill_claims"] / max(count["ill"], 1),
    }


def _world(law: str, seed: int, hours: float, count: Counter[str], whose: dict[str, list[float]]) -> None:
    cast = cast_of(law, seed, loud=True, per_node=LOUD_PER_NODE, hours=hours)
    with tempfile.TemporaryDirectory() as folder:
        lake, scenes = played(cast, Path(folder), seed)
        evidence = tables_of(lake).evidence
    start, end = (round((START_S + 3600 * hour) * US) for hour in (LEARNT_H, int(hours)))
    slowed = slowed_hours(evidence, start, end)
    claims = {
        (victim.container, hour): victim
        for hour, victims in victims_of(slowed).items()
        for victim in victims
        if eligible(np.array(victim.low, np.float64)[:, None], POLICY)[0]
    }
    for (uid, hour), truth in truths(cast, scenes, start, end, set(claims)).items():
        count["lost"] += round(US * truth.lost)
        count["ill"] += truth.ill
        if (uid, hour) in claims:
            _count(claims[uid, hour], truth, count, whose)


def _count(victim: Victim, truth: Truth, count: Counter[str], whose: dict[str, list[float]]) -> None:
    """One claim beside the truth; amounts are millionths of hours."""
    claimed = 1.0 - 1.0 / float(hour_bound(np.array(victim.low, np.float64)[:, None])[0])
    count.update(claims=1, claimed=round(US * claimed), ill_claims=int(truth.ill))
    if claimed > truth.lost:
        count.update(over=1, over_amount=round(US * (claimed - truth.lost)))
    if truth.shares:
        beside = victim.neighbours
        added = {one.container: max(one.added, 0.0) for one in beside}
        used = {one.container: (one.llc or 0.0) + (one.memory_bandwidth or 0.0) for one in beside}
        whose[OURS].append(_apart(added, truth.shares))
        whose[BY_USE].append(_apart(used, truth.shares))


def _apart(weights: Mapping[str, float], shares: Mapping[str, float]) -> float:
    """What of the blame lies on the wrong ones, 0 to 1."""
    total = sum(weights.values())
    told = {uid: weight / total for uid, weight in weights.items()} if total else {}
    return 0.5 * sum(abs(told.get(uid, 0.0) - shares.get(uid, 0.0)) for uid in told.keys() | shares.keys())


def truths(
    cast: Cast, scenes: Sequence[Scene], start: int, end: int, claimed: set[tuple[str, int]]
) -> dict[tuple[str, int], Truth]:
    """What is true of latency-sensitive containers' hours; whose doing it was only where something is claimed."""
    lost, ill, shares = defaultdict[tuple[str, int], float](float), set[tuple[str, int]](), {}
    for scene in scenes:
        hour = (round(scene.time_s * US) - 1) // HOUR_US * HOUR_US
        if not start <= hour < end:
            continue
        for number, one in enumerate(scene.containers):
            key = one.uid, hour
            if not cast.best_effort[one.app]:
                lost[key] += (1.0 - 1.0 / float(scene.slowdown[number])) * cast.interval_s / 3600
                ill |= {key} & {(uid, hour) for uid in scene.ill | scene.held}
                if key in claimed and scene.time_s % 3600 == 1800:
                    shares[key] = _shares(truly_added(cast, scene, number))
    return {key: Truth(value, key in ill, shares.get(key, {})) for key, value in lost.items()}


def _shares(added: Mapping[str, float]) -> dict[str, float]:
    total = sum(max(value, 0.0) for value in added.values())
    return {uid: max(value, 0.0) / total for uid, value in added.items()} if total else {}


def _arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--seeds", type=whole(1, 100), default=2, help="clusters for each law (2)")
    parser.add_argument("--hours", type=whole(4, 1000), default=10, help="of each cluster (10)")


BENCHMARK = Benchmark("transfers", "whether rebates for interference are no more than was lost", run, 1, _arguments)
