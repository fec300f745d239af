"""Other forecasters: seasonal naive and MSTL of statsforecast, and the pool of the last four weeks."""

import subprocess
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from numpy.typing import NDArray

from benchmarks.demand.series import PEERS, WEEK

Floats = NDArray[np.float64]

LEVELS = (0.1, 0.5, 0.9, 0.95)
SCRIPT = Path(__file__).parents[2] / "scripts" / "demand_peers.py"
POOL, LIBRARY = "pool", ("seasonal_naive", "mstl")
WEEKS = 4


def pool(seen: Floats, horizon: int) -> Floats:
    """(LEVELS, horizon) quantiles of the same hour of the week over the last four weeks, or as many as there are."""
    weeks = max(1, min(WEEKS, len(seen) // WEEK))
    by_week = np.quantile(seen[-weeks * WEEK :].reshape(weeks, WEEK), LEVELS, axis=0)
    return np.asarray(by_week[:, np.arange(horizon) % WEEK])


def library_forecasts(jobs: Sequence[tuple[Floats, int]]) -> list[dict[str, Floats]]:
    """Of each history without unknown hours and its horizon: (LEVELS, horizon) by forecaster of statsforecast.

    Raises:
        SystemExit: it is not installed, or failed.
    """
    python = PEERS / "bin" / "python"
    if not python.exists():
        raise SystemExit(f"no statsforecast in {PEERS}: run `make bench-peers`")
    given: dict[str, Floats] = {}
    for which, (seen, horizon) in enumerate(jobs):
        given |= {f"seen_{which}": seen, f"horizon_{which}": np.array(float(horizon))}
    with TemporaryDirectory() as folder:
        source, target = Path(folder) / "in.npz", Path(folder) / "out.npz"
        np.savez(source, allow_pickle=False, **given)
        ran = subprocess.run([python, SCRIPT, source, target], capture_output=True, text=True, check=False)
        if ran.returncode:
            raise SystemExit(f"{SCRIPT.name} failed: {ran.stderr[-2000:]}")
        with np.load(target) as found:
            return [{name: found[f"{name}_{which}"] for name in LIBRARY} for which in range(len(jobs))]
