"""Tianchi run: the engine on an instance of Alibaba's scheduling contest of 2018, and a check of any submission."""

from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from time import monotonic

import numpy as np

from advisor.errors import UnusableProblem
from advisor.optimizer.problem import NOWHERE, Ints
from advisor.optimizer.search.parameters import Tuning, housed
from advisor.optimizer.search.search import compile_kernels
from benchmarks.reassign.bound import bound
from benchmarks.reassign.cluster import Move
from benchmarks.reassign.descent import best_gain, first_improvement
from benchmarks.reassign.errors import UnusableFile
from benchmarks.reassign.ordering import Pace, in_order, ordered
from benchmarks.reassign.tianchi import ROUNDS, Contest, read_contest
from benchmarks.reassign.tianchi_plan import Machines, Step, carried_out, cost_of, read_plan, write_plan
from benchmarks.reassign.timed import Timed, keep, seconds, seed, timed, whole, writable
from benchmarks.runner import OURS, TOP, Benchmark, Figures, Result

SEARCHED = 0.97
"""Share of the time for the search; the rest puts the moves into an order."""
DESCENT, GREEDY = "descent", "greedy"
NO_LIMIT = 2**62
SECONDS_HELP = "how long to search (600); simpler searches, to be compared with, run afterwards"
MAX_HELP = "how many containers may leave their node (any number); who is placed nowhere at the start does not count"


@dataclass(frozen=True)
class Planned:
    """Steps, and what they were found by."""

    steps: list[Step]
    searches: list[Timed]


def run(arguments: Namespace, _: np.random.Generator) -> Result:
    """Search, order, carry out on paper, write, and do the same by simpler means."""
    contest = _contest(arguments)
    compile_kernels()
    begin = monotonic()
    plan = _plan(contest, arguments)
    took = monotonic() - begin
    cost = cost_of(contest, _checked(contest, plan.steps))
    keep(arguments.out, lambda path: write_plan(path, contest, plan.steps), cost)
    ours = {
        "cost": cost,
        "start": cost_of(contest, contest.problem.start),
        "bound": bound(contest.problem),
        "seconds": took,
        "evaluations_per_s": sum(found.per_s * found.seconds for found in plan.searches) / took,
        "moves": len(plan.steps),
    }
    simpler = _simpler(contest, arguments)
    return {TOP: ours, **simpler} if simpler else {OURS: ours}


def check(arguments: Namespace, _: np.random.Generator) -> Result:
    """What a submission costs; one that cannot be carried out is refused with its line and why."""
    contest = _contest(arguments)
    try:
        steps = read_plan(arguments.submit, contest)
        place = carried_out(arguments.submit, contest, steps)
    except UnusableFile as error:
        raise SystemExit(str(error)) from error
    figures = {
        "cost": cost_of(contest, place),
        "start": cost_of(contest, contest.problem.start),
        "moves": float(len(steps)),
        "broken": float(Machines(contest, place).broken()),
        "broken_at_start": float(Machines(contest, contest.problem.start).broken()),
    }
    return {OURS: figures}


def _contest(arguments: Namespace) -> Contest:
    try:
        return read_contest(arguments.dir, arguments.rules)
    except (UnusableFile, UnusableProblem) as error:
        raise SystemExit(str(error)) from error


def _checked(contest: Contest, steps: Sequence[Step]) -> Ints:
    try:
        return carried_out(Path("what the engine planned"), contest, steps)
    except UnusableFile as error:
        raise SystemExit(str(error)) from error


def _plan(contest: Contest, arguments: Namespace) -> Planned:
    if contest.rules == "semifinal":
        return _in_rounds(contest, arguments)
    return _in_sequence(contest, arguments)


def _in_sequence(contest: Contest, arguments: Namespace) -> Planned:
    """One search, then moves one after the other; who found no way to where it should be goes where there is room."""
    problem = replace(contest.problem, moves=replace(contest.problem.moves, most=arguments.max_moves))
    found = timed(problem, arguments.seed, SEARCHED * arguments.seconds, Tuning())
    moves, left = in_order(problem, found.place)
    if left:
        reached = _after(problem.start, moves)
        moves += in_order(replace(problem, start=reached), housed(replace(problem, start=reached), reached))[0]
    return Planned([Step(0, move.container, move.target) for move in moves], [found])


def _in_rounds(contest: Contest, arguments: Namespace) -> Planned:
    """A search for each round, of what can be carried out at once while everybody still counts where they were."""
    steps, searches, place = list[Step](), list[Timed](), contest.problem.start
    for number in range(1, ROUNDS + 1):
        problem = replace(
            contest.problem,
            start=place,
            held=np.ones(contest.problem.columns, np.bool_),
            moves=replace(contest.problem.moves, most=arguments.max_moves - _left(contest, steps)),
        )
        searches.append(timed(problem, arguments.seed, SEARCHED * arguments.seconds / ROUNDS, Tuning()))
        plan = ordered(problem, searches[-1].place, Pace(rounds=1))
        steps += [Step(number, move.container, move.target) for moves in plan.rounds for move in moves]
        place = plan.place
    return Planned(steps, searches)


def _left(contest: Contest, steps: Sequence[Step]) -> int:
    """Steps of containers that were placed at the start."""
    return sum(int(contest.problem.start[step.container]) != NOWHERE for step in steps)


def _after(start: Ints, moves: Sequence[Move]) -> Ints:
    place = start.copy()
    for move in moves:
        place[move.container] = move.target
    return place


def _simpler(contest: Contest, arguments: Namespace) -> dict[str, Figures]:
    """What simpler means reach by the rules of the semifinal, in the same time."""
    if contest.rules != "semifinal":
        return {}
    if arguments.max_moves < len(contest.instances):
        steps = {GREEDY: best_gain(contest, arguments.max_moves)}
    else:
        steps = {DESCENT: first_improvement(contest, _clock(arguments.seconds))}
    return {
        name: {"cost": cost_of(contest, _checked(contest, some)), "moves": len(some)} for name, some in steps.items()
    }


def _clock(budget_s: float) -> Callable[[], float]:
    begin = monotonic()
    return lambda: (monotonic() - begin) / budget_s


def _files(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--rules", choices=("preliminary", "semifinal"), required=True, help="how plans are carried out"
    )
    parser.add_argument("--dir", type=Path, required=True, help="folder of the four files, which may be packed with xz")


def _arguments(parser: ArgumentParser) -> None:
    _files(parser)
    parser.add_argument("--seconds", type=seconds, default=600.0, help=SECONDS_HELP)
    parser.add_argument("--seed", type=seed, default=1, help="of random moves (1)")
    parser.add_argument("--max-moves", type=whole(0, NO_LIMIT), default=NO_LIMIT, help=MAX_HELP)
    parser.add_argument("--out", type=writable, help="where the submission is written")


def _check_arguments(parser: ArgumentParser) -> None:
    _files(parser)
    parser.add_argument("--submit", type=Path, required=True, help="submission to check")


TIANCHI = Benchmark("tianchi", "the reassignment engine on a problem of Alibaba's contest of 2018", run, 1, _arguments)
CHECK_TIANCHI = Benchmark("check-tianchi", "accept or refuse a submission to that contest", check, 1, _check_arguments)
