"""Scoring: how long one request takes beside adding up pressure and nothing else."""

from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from statistics import median
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from advisor.cluster.pending_pod import PendingPod
from advisor.cluster.snapshot import Snapshot
from benchmarks import synthetic
from benchmarks.runner import OURS, Benchmark, Result

CANDIDATES = (100, 500)
Floats = NDArray[np.float64]
Nodes = NDArray[np.int32]


def sum_of_pressure(snapshot: Snapshot, nodes: Nodes) -> Floats:
    """(n,) what residents use of each node, added over resources: the least a load-aware scheduler computes."""
    counts = snapshot.first[nodes + 1] - snapshot.first[nodes]
    group = np.repeat(np.arange(len(nodes)), counts)
    rows = (
        np.arange(counts.sum())
        - np.repeat(np.cumsum(counts) - counts, counts)
        + np.repeat(snapshot.first[nodes], counts)
    )
    share = (snapshot.resident_use[rows] / snapshot.node_capacity[nodes[group]]).sum(axis=1)
    return np.bincount(group, share, minlength=len(nodes)).astype(np.float64)


def run(arguments: Namespace, rng: np.random.Generator) -> Result:
    """Milliseconds of a typical request, by candidates, and how many times those of the plain sum."""
    snapshot = synthetic.cluster(max(CANDIDATES) * 2, arguments.residents, rng)
    scorer = synthetic.scorer(snapshot, arguments.trees, rng)
    pending_pod = PendingPod(synthetic.APPS[0])
    found: dict[str, dict[str, float]] = {OURS: {}, "sum_of_pressure": {}}
    for count in CANDIDATES:
        asked = [rng.permutation(len(snapshot.nodes))[:count].astype(np.int32) for _ in range(arguments.requests)]
        ours = _typical_ms(lambda nodes: scorer.score(pending_pod, nodes, now_us=synthetic.NOW_US), asked)
        plain = _typical_ms(lambda nodes: sum_of_pressure(snapshot, nodes), asked)
        for method, ms in ((OURS, ours), ("sum_of_pressure", plain)):
            found[method] |= {f"ms_{count}": ms, f"times_sum_{count}": ms / plain}
    return found


def _typical_ms(answer: Callable[[Nodes], object], asked: list[Nodes]) -> float:
    answer(asked[0])
    seconds = []
    for nodes in asked:
        started = perf_counter()
        answer(nodes)
        seconds.append(perf_counter() - started)
    return 1e3 * median(seconds)


def _arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--residents", type=int, default=30, help="containers on each node (30)")
    parser.add_argument("--requests", type=int, default=20, help="requests timed for each number of candidates (20)")
    parser.add_argument("--trees", type=int, default=200, help="trees of the model at most (200)")


BENCHMARK = Benchmark(
    "scoring",
    "milliseconds to score 100 and 500 candidates, beside a plain sum of pressure",
    run,
    add_arguments=_arguments,
)
