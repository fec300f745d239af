"""Days to full: how often the 80 % interval holds the day on which a simulated cluster was full, and how wide it is."""

from argparse import ArgumentParser, Namespace
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from benchmarks.demand.clusters import AHEAD, LAWS, Cluster, cluster
from benchmarks.runner import OURS, TOP, Benchmark, Result
from models.demand.days_to_full import days_to_full

Floats = NDArray[np.float64]

NORMAL_90 = 1.2816
"""90th percentile of the normal distribution."""
LINES = {"line": 0, "line_8_weeks": 56}
"""Days that straight lines are fitted to; 0 is all."""


def run(arguments: Namespace, rng: np.random.Generator) -> Result:
    """Figures of ours and of straight lines; each cluster's own generator makes its past and its simulated futures."""
    clusters, ours = list[Cluster](), list[tuple[float, float, float]]()
    for number, one in enumerate(rng.spawn(arguments.clusters)):
        grown = cluster(LAWS[number % len(LAWS)], one)
        found = days_to_full(grown.largest, np.full(AHEAD, grown.capacity), rng=one)
        clusters.append(grown)
        ours.append((found.low, found.middle, found.high))
    said = {OURS: ours} | {name: [_line(grown, days) for grown in clusters] for name, days in LINES.items()}
    figures = {name: _figures(clusters, of) for name, of in said.items()}
    for law in LAWS:
        own = [number for number, grown in enumerate(clusters) if grown.law == law]
        for name, of in said.items():
            part = _figures([clusters[n] for n in own], [of[n] for n in own])
            figures[name] |= {f"{figure}_{law}": part[figure] for figure in ("held", "width")}
    top = {"clusters": float(len(clusters))} | {name: figures[OURS][name] for name in ("held", "width")}
    return {TOP: top} | figures


def _line(grown: Cluster, days: int) -> tuple[float, float, float]:
    """When a straight line, raised by its P95 residual, reaches capacity, at its slope's 80 % interval; or AHEAD."""
    seen = grown.largest[-days:]
    at = np.arange(len(seen)) - (len(seen) - 1) / 2
    slope = float((at * seen).sum() / (at**2).sum())
    rest = seen - seen.mean() - slope * at
    error = NORMAL_90 * float(np.sqrt((rest**2).sum() / (len(seen) - 2) / (at**2).sum()))
    room = grown.capacity - seen.mean() - float(np.quantile(rest, 0.95))
    low, middle, high = (
        max(room / rate - at[-1], 1.0) if rate > 0 else AHEAD for rate in (slope + error, slope, slope - error)
    )
    return low, middle, high


def _figures(clusters: Sequence[Cluster], said: Sequence[tuple[float, float, float]]) -> dict[str, float]:
    """Share of intervals that hold the truth, median width and error over the truth's days; no end counts as AHEAD."""
    truth = np.array([grown.days for grown in clusters])
    low, middle, high = np.minimum(np.array(said), AHEAD).T
    return {
        "held": float(((low <= truth) & (truth <= high)).mean()),
        "early": float((truth < low).mean()),
        "width": float(np.median((high - low) / truth)),
        "error": float(np.median(np.abs(middle - truth) / truth)),
    }


def add_arguments(parser: ArgumentParser) -> None:
    """How many clusters grow."""
    parser.add_argument("--clusters", type=int, default=100, help="simulated clusters, at least 4")


BENCHMARK = Benchmark("days-to-full", "days until growing clusters are full, with an interval", run, 1, add_arguments)
