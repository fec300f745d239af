"""Purchase forecast: quantiles of hours and of a window's largest hour, next to other forecasters."""

from argparse import ArgumentParser, Namespace
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.demand.peers import LEVELS, LIBRARY, POOL, library_forecasts, pool
from benchmarks.demand.series import Family, files_of, simulated, traces
from benchmarks.runner import OURS, TOP, Benchmark, Result
from models.demand.centres import filled
from models.demand.choice import quantile_loss
from models.demand.demand_forecast import LEVELS as OWN_LEVELS
from models.demand.demand_forecast import forecast_demand

Floats = NDArray[np.float64]

FAMILIES = ("traces", "simulated", "files")
OWN = [OWN_LEVELS.index(level) for level in LEVELS]
WQL = slice(0, 3)


@dataclass(frozen=True)
class Said:
    """Of one window and series: (LEVELS, h) quantiles of hours, and the stated P95 of the largest hour."""

    quantiles: Floats
    peak: float


@dataclass(frozen=True)
class Window:
    """What came in a graded window, what the series measures on average, and the season's own error."""

    came: Floats
    size: float
    naive_error: float
    said: Mapping[str, Said]


def run(arguments: Namespace, rng: np.random.Generator) -> Result:
    """Figures by family of ours and the others; each forecast uses hours before its window alone."""
    graded: dict[str, list[Window]] = {}
    series = 0
    for family in _families(arguments, rng):
        graded[family.name] = graded.get(family.name, []) + _graded(family, rng)
        series += len(family.seen)
    found = {name: _of_all(graded, name) for name in (OURS, *LIBRARY, POOL)}
    ours = found[OURS]
    ratios = {
        f"wql_vs_best_{family}": ours[f"wql_{family}"] / min(found[name][f"wql_{family}"] for name in (*LIBRARY, POOL))
        for family in graded
    }
    counts = {"series": float(series), "windows": float(sum(map(len, graded.values())))}
    best = {"baseline_wql": min(found[name]["wql"] for name in (*LIBRARY, POOL))}
    own = {name: ours[name] for name in ("wql", "mase", "cov90", "cov80", "peak_short", "peak_over")}
    return {TOP: counts | own | best | ratios} | found


def _families(arguments: Namespace, rng: np.random.Generator) -> list[Family]:
    names = arguments.family or [name for name in FAMILIES if name != "files" or arguments.data]
    found: list[Family] = []
    if "traces" in names:
        found += traces()
    if "simulated" in names:
        found.append(simulated(rng))
    if "files" in names:
        if arguments.data is None:
            raise SystemExit("--family files: name the folder with --data")
        found += files_of(Path(arguments.data), arguments.horizon, arguments.windows)
    return found


def _graded(family: Family, rng: np.random.Generator) -> list[Window]:
    """Every window of every series of a family."""
    known = family.seen / family.factors
    jobs = [(filled(series[:at]), family.horizon) for at in family.origins() for series in known]
    others = iter(library_forecasts(jobs))
    found = []
    for at in family.origins():
        ahead = slice(at, at + family.horizon)
        factors = family.factors[:, ahead]
        least = family.least[:, :at] / family.factors[:, :at]
        ours = forecast_demand(known[:, :at], family.horizon, rng=rng, least=least, factors=factors)
        for row, series in enumerate(known):
            past = filled(series[:at])
            said = {OURS: Said(ours.quantiles[row][OWN], float(ours.maximum[row, -1]))}
            peers = {**next(others), POOL: pool(past, family.horizon)}
            said |= {name: _with_events(each * factors[row]) for name, each in peers.items()}
            season = float(np.abs(past[168:] - past[:-168]).mean())
            found.append(Window(family.true[row, ahead], float(np.nanmean(family.true[row])), season, said))
    return found


def _with_events(quantiles: Floats) -> Said:
    """Others state no maximum: the largest P95 of an hour takes its place."""
    return Said(quantiles, float(quantiles[-1].max()))


def _of_all(graded: Mapping[str, Sequence[Window]], name: str) -> dict[str, float]:
    """Of all windows, then by family; losses of families, whose series differ, are read apart."""
    found = _figures([window for family in graded.values() for window in family], name)
    for family, of in graded.items():
        found |= {f"{figure}_{family}": value for figure, value in _figures(of, name).items()}
    return found


def _figures(windows: Sequence[Window], name: str) -> dict[str, float]:
    """Loss, error and coverage; hours that are not known are left out, and series count by their own size."""
    came = np.concatenate([window.came / window.size for window in windows])
    said = np.concatenate([window.said[name].quantiles / window.size for window in windows], axis=1)
    known = np.isfinite(came)
    low, middle, high = said[WQL]
    largest = np.array([np.nanmax(window.came) for window in windows])
    peak = np.array([window.said[name].peak for window in windows])
    errors = [np.nanmean(np.abs(w.came - w.said[name].quantiles[1])) / w.naive_error for w in windows]
    return {
        "wql": quantile_loss(came, np.stack([low, middle, high])),
        "mase": float(np.mean(errors)),
        "cov90": float((came <= high)[known].mean()),
        "cov80": float(((came <= high) & (came >= low))[known].mean()),
        "peak_short": float((largest > peak).mean()),
        "peak_over": float(np.mean(peak / largest - 1.0)),
    }


def add_arguments(parser: ArgumentParser) -> None:
    """Which series, and how files are graded."""
    parser.add_argument("--family", action="append", choices=FAMILIES, help="only this one; repeatable")
    parser.add_argument("--data", help="folder of CSV files with columns ts and value; adds the family files")
    parser.add_argument("--horizon", type=int, default=168, help="hours ahead, of files")
    parser.add_argument("--windows", type=int, default=4, help="graded windows of each file")


BENCHMARK = Benchmark(
    "purchase-forecast", "demand of hours and of a window's largest hour, on later windows", run, 1, add_arguments
)
