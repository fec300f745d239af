"""Headroom loop: best-effort work that offers of nodes allow, and what it costs latency-sensitive containers."""

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from time import perf_counter

import numpy as np

from benchmarks.best_effort.offer_report import figures
from benchmarks.best_effort.offer_study import PRICE, Filled, OfferPlan, filled
from benchmarks.runner import TOP, Benchmark, Result
from cohabit.backtest.run_backtest import end_with_workers
from cohabit.backtest.study import Failure
from features.schema.errors import FeaturesError
from ingest.schema.errors import IngestError
from ingest.simulator.laws import LAWS
from models.errors import ModelsError

OVER_LAWS = ("be_ratio", "be_ratio_equal", "be_ratio_in_turn", "be_ratio_equal_in_turn")
"""Of these, and of the lower ends of their intervals, the worst law's stands at the top."""


def run(arguments: Namespace, _: np.random.Generator) -> Result:
    """Figures by law, and at the top the worst ratio over laws."""
    laws = arguments.laws or list(LAWS)
    if unknown := [law for law in laws if law not in LAWS]:
        raise SystemExit(f"no such law: {', '.join(unknown)}; choose from {', '.join(LAWS)}")
    if min(arguments.seeds, arguments.jobs) < 1 or arguments.hours < 1 or arguments.nodes < 1:
        raise SystemExit("at least one seed, process, hour and node are needed")
    plan = OfferPlan(nodes=arguments.nodes, hours=arguments.hours, price=arguments.price)
    parts = [(law, arguments.first_seed + number) for number in range(arguments.seeds) for law in laws]
    end_with_workers()
    done = list(_all_done(parts, plan, arguments.jobs))
    by_law = {law: figures(sorted(_of(done, law), key=lambda one: one.seed)) for law in laws}
    top = {name: min(found[name] for found in by_law.values()) for name in OVER_LAWS}
    top |= {f"{name}_at_least": min(found[f"{name}_lo"] for found in by_law.values()) for name in OVER_LAWS}
    top |= {"violation_ratio": max(found["violation_ratio"] for found in by_law.values()), "seeds": arguments.seeds}
    return {TOP: top, **by_law}


def _of(done: Sequence[Filled], law: str) -> list[Filled]:
    return [one for one in done if one.law == law]


def _all_done(parts: Sequence[tuple[str, int]], plan: OfferPlan, jobs: int) -> Iterator[Filled]:
    """Each law and seed as it is done, in any order."""
    begun = perf_counter()
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        waiting = [pool.submit(_filled, law, seed, plan) for law, seed in parts]
        for number, each in enumerate(as_completed(waiting), 1):
            found = each.result()
            if isinstance(found, Failure):
                pool.shutdown(cancel_futures=True)
                raise SystemExit(found.reason)
            print(f"{number} of {len(parts)}, {perf_counter() - begun:.0f} s: {_summary(found)}", file=sys.stderr)
            yield found


def _filled(law: str, seed: int, plan: OfferPlan) -> Filled | Failure:
    """One law and seed, or why not; most of our errors cannot be sent between processes."""
    try:
        return filled(law, seed, plan)
    except (IngestError, FeaturesError, ModelsError) as error:
        return Failure(f"{law}, seed {seed}: {error}")


def _summary(one: Filled) -> str:
    """Seed, ratio and containers beyond requests of one part."""
    above, all_of = one.beyond
    low, middle, high = np.quantile(one.ratio, [0.0, 0.5, 1.0])
    return (
        f"{one.law}, seed {one.seed}: use is {middle:.2f} of requests ({low:.2f} to {high:.2f} by app), "
        f"{above / all_of:.1%} of {all_of} container-intervals beyond; N {one.n:.1f} of {one.sigma_hours} h"
    )


def _arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--laws", nargs="+", help=f"of {', '.join(LAWS)}; all when left out")
    parser.add_argument("--nodes", type=int, default=16, help="of the cluster (16)")
    parser.add_argument("--hours", type=float, default=6.0, help="judged, a simulated day being 6 hours long (6)")
    parser.add_argument("--seeds", type=int, default=20, help="repetitions with other apps, histories and traces (20)")
    parser.add_argument("--first-seed", type=int, default=1, help="(1); to choose settings take others than are judged")
    parser.add_argument("--price", type=float, default=PRICE, help=f"cores that a violation costs ({PRICE:g})")
    parser.add_argument("--jobs", type=int, default=2, help="processes at once (2)")


BENCHMARK = Benchmark(
    "headroom-loop",
    "best-effort core-hours and violation-minutes by our offers, Koordinator's batch usage policy and tuned N-sigma",
    run,
    runs=1,
    add_arguments=_arguments,
)
