"""`python -m e2e.kube`: a real kube-scheduler and a real advisor, part by part.

Targets of plans, a pool with its own scheduler, moves, advice at admission, tests of the plugin, and throughput without
advice, with the extender, the webhook and the plugin in turns, with the CPU time of each program.

Exit 1 where kube-scheduler rejected a target of a plan on a drawn cluster, where a pod got no node, where a total was
not what both sides say, where a pod did not go to the highest one, where too few moved pods are on their target, a
disruption budget was breached, a dry run had another answer, too few pods went where the webhook advised, it delayed
pods while it was dead, the plugin and Python differ, or the advisor has not heard of pods that the plugin reserved.
"""

import signal
import sys
import tempfile
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from time import monotonic
from types import FrameType
from typing import NoReturn

import numpy as np

from benchmarks.serving import going
from cohabit.terminal.console import console, show_error, show_table
from e2e.kube.admission import followed, holds
from e2e.kube.advisor import prepared
from e2e.kube.binaries import binaries
from e2e.kube.dry_runs import Asked
from e2e.kube.errors import E2eError
from e2e.kube.moves import Moved, moved, steered
from e2e.kube.plugin import VERSIONS, scheduler_with_plugin, tested, with_plugin
from e2e.kube.pool import Pooled, pooled
from e2e.kube.runs import Outcome, Plan, Sample, killed, with_advisor, without
from e2e.kube.targets import targets

POOL_PODS = 400
"""Of each namespace."""


def main(words: Sequence[str] | None = None) -> int:
    """Run everything; the exit code."""
    arguments = _parser().parse_args(words)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _leave)
    try:
        return _run(arguments)
    except E2eError as error:
        show_error(error)
        return 1


def _run(arguments: Namespace) -> int:
    if arguments.only == ["plugin"]:
        return 0 if _plugin(None, arguments) else 1
    programs = binaries(console.print)
    with tempfile.TemporaryDirectory(prefix="cohabit-e2e-kube-") as name:
        folder = Path(name)
        console.print(f"a snapshot of {arguments.nodes:,} nodes and a bundle; then clusters, one after the other")
        changing = prepared(folder, arguments.nodes, arguments.residents)
        plan = Plan(folder, programs, changing.view.nodes, arguments.pods, changing.view.cluster)
        with going(changing):
            held = [_held(part, plan, arguments) for part in arguments.only or PARTS]
    return 0 if all(held) else 1


def _held(part: str, plan: Plan, arguments: Namespace) -> bool:
    """Whether a part holds; it and how long it took are shown."""
    began = monotonic()
    holds_now = PARTS[part](plan, arguments)
    console.print(f"{part}: {'holds' if holds_now else 'FAILS'}, {monotonic() - began:,.0f} s")
    return holds_now


def _targets(plan: Plan, arguments: Namespace) -> bool:
    """Whether kube-scheduler accepts every target of the plans on drawn clusters."""
    found = targets(plan.folder, plan.binaries, arguments.clusters)
    rejected = [one for one in found if one.said]
    console.print(
        f"targets of plans on drawn clusters: {len(found):,}, of which kube-scheduler rejected {len(rejected):,}"
    )
    for one in rejected:
        console.print(f"  cluster {one.cluster}, {one.pod} to {one.target}: {one.said}")
    return not rejected


def _pool(plan: Plan, _: Namespace) -> bool:
    """Whether a pool's own scheduler and the cluster's keep to their nodes."""
    pool = pooled(replace(plan, pods=min(plan.pods, POOL_PODS)))
    _show_pool(pool)
    return pool.whole


def _moves(plan: Plan, arguments: Namespace) -> bool:
    """Whether moved pods arrive, and dry runs say what comes."""
    plans, dry_runs = moved(plan, arguments.moves, plan.cluster)
    _show_moves(plans, dry_runs)
    return steered(plans) and all(one.found == one.expected for one in dry_runs)


def _plugin(_: Plan | None, arguments: Namespace) -> bool:
    """Whether the plugin answers as Python does, and no swap of tables is seen by a pod; it needs no cluster."""
    return all(tested(kubernetes, console.print) for kubernetes in arguments.kubernetes or VERSIONS)


def _throughput(plan: Plan, arguments: Namespace) -> bool:
    """Whether all pods are scheduled, with and without advice and with an advisor that is killed."""
    program = scheduler_with_plugin((arguments.kubernetes or [*VERSIONS])[0], console.print)
    outcomes, sample, assumed = paired(plan, program, arguments.pairs, arguments.sampled)
    _show_pairs(outcomes)
    console.print(f"plugin: pods that the advisor has assumed, of {plan.pods:,}: {', '.join(map(str, assumed))}")
    outcomes.append(killed(plan))
    _show(outcomes)
    _show_sample(sample)
    judged = sample.verdict
    whole = all(outcome.bound == outcome.pods for outcome in outcomes)
    return whole and judged.pods == judged.highest and not judged.astray and min(assumed) > 0


def paired(plan: Plan, program: Path, pairs: int, sampled: int) -> tuple[list[Outcome], Sample, list[int]]:
    """Without advice, with the extender, the webhook and the plugin, in turns; the last advised run has the sample.

    Of runs with the plugin also how many pods the advisor has assumed; those of over two minutes ago have ended.
    """
    outcomes, assumed = list[Outcome](), list[int]()
    for pair in range(pairs):
        alone = without(plan, pair)
        advised, sample = with_advisor(plan, sampled if pair == pairs - 1 else 1, pair)
        plugged, heard = with_plugin(plan, program, pair)
        outcomes += [alone, advised, followed(plan, "advise", pair + 1)[0], plugged]
        assumed.append(heard)
    return outcomes, sample, assumed


def _show_pairs(outcomes: Sequence[Outcome]) -> None:
    """Pods per second over those without advice, by pair, and CPU milliseconds per pod of each program."""
    by_name: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        by_name.setdefault(outcome.name, []).append(outcome)
    alone = by_name["without"]
    for name, runs in by_name.items():
        ratios = [one.pods_per_s / other.pods_per_s for one, other in zip(runs, alone, strict=True)]
        shown = ", ".join(f"{one.pods_per_s:,.0f} ({ratio:.2f})" for one, ratio in zip(runs, ratios, strict=True))
        console.print(f"{name}: pods/s in pairs, and over those without: {shown}; median {np.median(ratios):.2f}")
    programs = sorted({program for outcome in outcomes for program in outcome.cpu_s})
    rows = [[program, *(_cpu(runs, program) for runs in by_name.values())] for program in programs]
    show_table("CPU ms per pod (of the busiest thread)", ("program", *by_name), rows)


def _cpu(runs: Sequence[Outcome], program: str) -> str:
    took = [(1e3 * np.array(one.cpu_s[program]) / one.pods).tolist() for one in runs if program in one.cpu_s]
    return "" if not took else "{:.2f} ({:.2f})".format(*np.median(took, axis=0))


def _followed(plan: Plan, _: Namespace) -> bool:
    """Whether pods go where the webhook advises, and a dead webhook delays none."""
    results = [followed(plan, mode)[1:] for mode in ("annotate", "advise")]
    rows = [
        [one.mode, f"{one.bound:,} of {plan.pods:,}", f"{one.named:,}", f"{one.listed:,}", f"{one.top:,}"]
        for one, _ in results
    ]
    show_table(
        "advice at admission", ("mode", "pods scheduled", "with a list", "on a listed node", "on the best"), rows
    )
    for one, creates in results:
        console.print(
            f"{one.mode}: webhook dead: {creates.failed:,} creates failed, p99 {creates.p99_s:.3f} s, "
            f"of {len(creates.seconds):,}"
        )
    return holds(*results[-1])


def _show(outcomes: Sequence[Outcome]) -> None:
    rows = [
        [one.name, f"{one.bound:,} of {one.pods:,}", f"{one.pods_per_s:,.0f}", f"{sum(one.lost.values()):,}"]
        for one in outcomes
    ]
    show_table("kube-scheduler", ("advisor", "pods scheduled", "pods/s", "answers lost"), rows)
    for outcome in outcomes:
        for why, count in outcome.lost.items():
            console.print(f"{outcome.name}: lost {count:,} answers: {why}")
        for when, counts in outcome.counts.items():
            console.print(f"{outcome.name}: the advisor {when}: {counts}")


def _show_sample(sample: Sample) -> None:
    judged = sample.verdict
    console.print(
        f"of {judged.pods:,} pods looked at {judged.highest:,} went to a node with the highest total, {judged.ours:,} "
        f"to one with our highest points; {judged.changed:,} to one that kube-scheduler alone would not have taken"
    )
    console.print(f"totals other than its own scores + weight x 10 x ours: {judged.astray:,} of {judged.nodes:,}")
    p50, p99 = 1e3 * np.quantile(sample.waits_s or [np.nan], [0.5, 0.99])
    console.print(f"kube-scheduler waited {p50:.1f} ms for an answer in the median, {p99:.1f} ms at p99")


def _show_pool(pool: Pooled) -> None:
    console.print(
        f"own scheduler for a pool: {pool.within:,} of {pool.pods:,} pods on its nodes; of as many pods of another "
        f"namespace {pool.outside:,} on other nodes, {pool.without_ours:,} of them before ours was started"
    )
    console.print(f"own scheduler for a pool: answers {dict(pool.answers)}")


def _show_moves(plans: Sequence[Moved], dry_runs: Sequence[Asked]) -> None:
    rows = [
        [
            one.advice,
            f"{one.landed:,} of {one.moves:,} ({one.share:.1%})",
            f"{one.not_offered:,}",
            f"{one.blocked:,}",
            f"{one.breaches:,}",
            f"{one.seconds:,.0f}",
        ]
        for one in plans
    ]
    columns = ("kube-scheduler asks", "on target", "target not offered", "blocked at first", "budgets breached", "s")
    show_table("moves carried out as evictions", columns, rows)
    for one in dry_runs:
        expected = "" if one.found == one.expected else f", which should be {one.expected} ({one.said})"
        console.print(f"dry run of {one.about}: {one.found}{expected}")


def _parser() -> ArgumentParser:
    parser = ArgumentParser("python -m e2e.kube", description="kube-scheduler, kube-apiserver and etcd, as released")
    parser.add_argument("--nodes", type=int, default=1000, help="nodes (1000)")
    parser.add_argument("--pods", type=int, default=5000, help="pods of each run (5000)")
    parser.add_argument("--residents", type=int, default=30, help="containers on each node, for the advisor alone (30)")
    parser.add_argument("--sampled", type=int, default=200, help="pods of which every score is looked at (200)")
    parser.add_argument("--moves", type=int, default=500, help="pods that are moved, by each way of asking (500)")
    parser.add_argument("--clusters", type=int, default=200, help="drawn clusters whose plans are carried out (200)")
    parser.add_argument("--pairs", type=int, default=3, help="runs with and without advice, in turns (3)")
    parser.add_argument(
        "--kubernetes", action="append", choices=VERSIONS, help="minor version that the plugin is built for (all)"
    )
    parser.add_argument("--only", action="append", choices=PARTS, help="a part, several by several options (all)")
    return parser


PARTS: Mapping[str, Callable[[Plan, Namespace], bool]] = {
    "targets": _targets,
    "pool": _pool,
    "moves": _moves,
    "admission": _followed,
    "plugin": _plugin,
    "throughput": _throughput,
}
"""What is run, each with whether it holds."""


def _leave(number: int, _frame: FrameType | None) -> NoReturn:
    raise SystemExit(128 + number)


if __name__ == "__main__":
    sys.exit(main())
