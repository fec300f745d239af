"""Pricing: what interference does to prices, on measured pairs: quoted prices, rebates and shares, beside baselines.

The price of the time alone is base / slowdown. Every method says slowdowns of pairs that it did not learn from, the
product's own kernels make money of them, and the measured slowdowns make what would have been right.
"""

import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path
from time import perf_counter

import numpy as np

from benchmarks.interference import ROLES, described_of, entities_of, splits_of_pairs, standard_of
from benchmarks.interference_files import PairTable, UnusableFile, read_pairs
from benchmarks.pair_baselines import Seen
from benchmarks.pair_blend import FOR_PRICES
from benchmarks.pricing_methods import foretell
from benchmarks.pricing_scores import Priced, nodes_of, scores, shapley_deviation
from benchmarks.runner import Benchmark, Result
from models.challengers.pair_model import PairConfig
from models.data.splits import Split, random_rows

FOLDS = 5
REPEATS = 2
NODES = 1000
EPILOG = """FILE.csv has columns victim, aggressor, slowdown, perhaps split (train, test), which then rules. Without it
cells are left out in five folds, --repeats times over; with --leave-out each workload that nobody learnt from in that
role, which is harder and never mixed with the other. Shares are of 1,000 nodes of 2 to 6 workloads, copies of one
workload among them, less those with a pair that the file lacks; told where neither a split nor a role is given.
"""


def add_arguments(parser: ArgumentParser) -> None:
    """The file, and what is left out."""
    parser.epilog = EPILOG
    parser.add_argument("--pairs", dest="file", type=Path, required=True, metavar="FILE.csv", help="measured pairs")
    parser.add_argument("--alone", type=Path, help="CSV with workload and numbers measured alone")
    parser.add_argument("--leave-out", choices=ROLES, help="judge each workload that was never seen in this role")
    parser.add_argument("--repeats", type=int, default=REPEATS, metavar="N", help=f"times five folds ({REPEATS})")


def run(arguments: Namespace, rng: np.random.Generator) -> Result:
    """Judge the file that is named; what is being done goes to standard error."""
    pairs = read_pairs(arguments)
    return judge(pairs, rng, FOR_PRICES, leave_out=arguments.leave_out, repeats=arguments.repeats)


def judge(
    pairs: PairTable, rng: np.random.Generator, config: PairConfig, *, leave_out: str | None, repeats: int
) -> Result:
    """Figures of every method.

    Args:
        pairs: the file.
        rng: of everything drawn.
        config: how long ours samples.
        leave_out: a role, or None for cells.
        repeats: how often cells are dealt to folds.

    Returns:
        As benchmarks.pricing_scores.scores, with shapley_deviation where cells are left out.

    Raises:
        UnusableFile: the file, the role and the repeats do not go together.
    """
    entities, splits, began = entities_of(pairs), _splits(pairs, leave_out, repeats), perf_counter()
    described, standard = described_of(pairs, entities), standard_of(pairs, entities)
    truth = entities.cells.log_slowdown
    count = 0 if pairs.held is not None or leave_out else -(-NODES // len(splits))
    parts, deviations = [], []
    for number, split in enumerate(splits, 1):
        print(f"{perf_counter() - began:8.1f} s  fold {number} of {len(splits)}", file=sys.stderr, flush=True)
        seen = Seen(entities.cells.take(split.train), standard)
        says = foretell(seen, described, entities.cells, config, rng)
        parts.append({name: Priced(truth[split.test], said.at(split.test)) for name, said in says.items()})
        if nodes := nodes_of(entities.cells, len(entities.workload), count, rng):
            deviations.append(shapley_deviation(nodes, split.train, truth, says))
    return scores(parts, deviations)


def _splits(pairs: PairTable, leave_out: str | None, repeats: int) -> list[Split]:
    if repeats < 1:
        raise UnusableFile(f"--repeats {repeats}: 1 or more")
    if pairs.held is not None or leave_out:
        return splits_of_pairs(pairs, leave_out)
    dealt = (random_rows(len(pairs.victim), folds=FOLDS, rng=np.random.default_rng(seed)) for seed in range(repeats))
    return [split for splits in dealt for split in splits]


BENCHMARK = Benchmark(
    "pricing", "prices, rebates and shares from measured pairs, ours beside baselines", run, 1, add_arguments
)
