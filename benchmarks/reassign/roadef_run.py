"""Roadef run: the engine on an instance of the Google ROADEF/EURO Challenge 2012, and a check of any assignment."""

from argparse import ArgumentParser, Namespace
from pathlib import Path

import numpy as np

from advisor.errors import UnusableProblem
from advisor.optimizer.constraints import wrongs
from advisor.optimizer.objective import cost
from advisor.optimizer.problem import Problem
from advisor.optimizer.search.parameters import Tuning
from benchmarks.reassign.errors import UnusableFile
from benchmarks.reassign.roadef import read_assignment, read_model, write_assignment
from benchmarks.reassign.timed import keep, seconds, seed, timed, writable
from benchmarks.runner import OURS, Benchmark, Result


def run(arguments: Namespace, _: np.random.Generator) -> Result:
    """Search, and write the new assignment once it is checked."""
    problem = _problem(arguments)
    broken = wrongs(problem, problem.start)
    if broken:
        raise SystemExit(f"{arguments.assignment}, line 1: the start breaks a rule: {broken[0].text}")
    found = timed(problem, arguments.seed, arguments.seconds, Tuning())
    broken = wrongs(problem, found.place)
    if broken:
        raise SystemExit(f"the engine broke a rule: {broken[0].text}")
    keep(arguments.out, lambda path: write_assignment(path, found.place), found.cost)
    return {OURS: found.figures()}


def check(arguments: Namespace, _: np.random.Generator) -> Result:
    """What an assignment costs; an illegal one is refused with its line and why."""
    problem = _problem(arguments)
    try:
        place = read_assignment(arguments.new, problem.containers, problem.nodes)
    except UnusableFile as error:
        raise SystemExit(str(error)) from error
    broken = wrongs(problem, place)
    if broken:
        raise SystemExit(f"{arguments.new}, line 1: {broken[0].text}")
    of = cost(problem, place)
    moved = float((place != problem.start).sum())
    return {OURS: {"cost": of.total, "load": of.excess, "balance": of.balance, "move_cost": of.moves, "moved": moved}}


def _problem(arguments: Namespace) -> Problem:
    try:
        return read_model(arguments.model, arguments.assignment)
    except (UnusableFile, UnusableProblem) as error:
        raise SystemExit(str(error)) from error


def _files(parser: ArgumentParser) -> None:
    parser.add_argument("--model", type=Path, required=True, help="model file, may be packed with xz")
    parser.add_argument("--assignment", type=Path, required=True, help="assignment to start from, may be packed")


def _arguments(parser: ArgumentParser) -> None:
    _files(parser)
    parser.add_argument("--seconds", type=seconds, default=300.0, help="how long to search (300)")
    parser.add_argument("--seed", type=seed, default=1, help="of random moves (1)")
    parser.add_argument("--out", type=writable, help="where the new assignment is written")


def _check_arguments(parser: ArgumentParser) -> None:
    _files(parser)
    parser.add_argument("--new", type=Path, required=True, help="assignment to check")


ROADEF = Benchmark("roadef", "the reassignment engine on a problem of the ROADEF/EURO challenge", run, 1, _arguments)
CHECK_ROADEF = Benchmark("check-roadef", "accept or refuse an assignment of that challenge", check, 1, _check_arguments)
