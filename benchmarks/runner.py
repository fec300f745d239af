"""Runner: a benchmark several times over, as a table for people and one line of JSON for programs."""

import json
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np
from rich.console import Console
from rich.table import Table

OURS = "ours"
TOP = ""
"""Figures of no method: they stand at the top of the JSON."""
LOW, HIGH = "_lo", "_hi"
Figures = Mapping[str, float]
"""Value by figure; units are in the names."""
Result = Mapping[str, Figures]
"""Figures by method: ours and the baselines."""
Run = Callable[[Namespace, np.random.Generator], Result]


def no_arguments(_: ArgumentParser) -> None:
    """For benchmarks without options of their own."""


@dataclass(frozen=True, slots=True)
class Benchmark:
    """Something that can be measured.

    Args:
        name: what it is called on the command line.
        summary: one line for the list.
        run: measures once, with its arguments and a generator seeded by the number of the run.
        runs: how often; 1 where a seed and a time budget, or a fixed data file, settle the outcome.
        add_arguments: declares its options.
    """

    name: str
    summary: str
    run: Run
    runs: int = 3
    add_arguments: Callable[[ArgumentParser], None] = no_arguments


def measure(benchmark: Benchmark, arguments: Namespace) -> Result:
    """Run a benchmark as often as it asks for, and take the median of each figure.

    Returns:
        By method, `ours` first, baselines by name, each figure followed by its smallest and largest value over the runs
        in `_lo` and `_hi`, unless the benchmark gives these itself.
    """
    results = [benchmark.run(arguments, np.random.default_rng(number)) for number in range(benchmark.runs)]
    methods = sorted(results[0], key=lambda name: (name != OURS, name))
    return {method: _middle([result[method] for result in results]) for method in methods}


def json_line(result: Result) -> str:
    """One line of JSON: {method: {figure, figure_lo, figure_hi}}, or {figure: number} where there is only ours.

    Figures of TOP stand before the methods.

    Raises:
        ValueError: a figure is not finite.
    """
    if TOP in result:
        top = {name: value for name, value in result[TOP].items() if not name.endswith((LOW, HIGH))}
        return json.dumps({**top, **{k: v for k, v in result.items() if k != TOP}}, allow_nan=False)
    alone = [name for name in result[OURS] if not name.endswith((LOW, HIGH))] if list(result) == [OURS] else []
    return json.dumps({name: result[OURS][name] for name in alone} or result, allow_nan=False)


def show(benchmark: Benchmark, result: Result, console: Console) -> None:
    """The result as a table: a row for each figure, a column for each method."""
    table = Table(title=f"{benchmark.name}: {benchmark.summary}", title_justify="left")
    for heading in ("figure", *(method or "all" for method in result)):
        table.add_column(heading)
    for name in dict.fromkeys(name for figures in result.values() for name in figures):
        if not name.endswith((LOW, HIGH)):
            table.add_row(name, *(_cell(values, name) for values in result.values()))
    console.print(table)


def parser_of(benchmarks: Sequence[Benchmark]) -> ArgumentParser:
    """A parser that lists the benchmarks with one line each."""
    parser = ArgumentParser(prog="python -m benchmarks", description=__doc__)
    chosen = parser.add_subparsers(dest="name", metavar="NAME", required=True)
    for benchmark in benchmarks:
        own = chosen.add_parser(benchmark.name, help=benchmark.summary, description=benchmark.summary)
        benchmark.add_arguments(own)
    return parser


def main(benchmarks: Sequence[Benchmark], arguments: Sequence[str] | None = None) -> None:
    """Measure the benchmark that is named; the last line printed is its JSON."""
    parsed = parser_of(benchmarks).parse_args(arguments)
    benchmark = next(b for b in benchmarks if b.name == parsed.name)
    result = measure(benchmark, parsed)
    show(benchmark, result, Console(width=None if sys.stdout.isatty() else 160))
    print(json_line(result))


def _middle(runs: Sequence[Figures]) -> dict[str, float]:
    """Median and range of each figure."""
    found: dict[str, float] = {}
    for name in runs[0]:
        values = [run[name] for run in runs]
        found[name] = median(values)
        if not name.endswith((LOW, HIGH)) and name + LOW not in runs[0]:
            found |= {name + LOW: min(values), name + HIGH: max(values)}
    return found


def _cell(values: Figures, name: str) -> str:
    if name not in values:
        return ""
    low, high = values[name + LOW], values[name + HIGH]
    return f"{values[name]:.4g}" + (f" ({low:.4g} to {high:.4g})" if low < high else "")
