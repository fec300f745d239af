"""Nodes for the headroom benchmark: groups of PlanetLab's virtual machines, and simulated clusters."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ingest.simulator.law import PLATFORMS, draw_apps
from ingest.simulator.laws import LAWS
from ingest.simulator.simulated_cluster import churn, empty_cluster, fill, step
from models.headroom.peak_features import BIN_US, DAY

Floats = NDArray[np.float64]

VMS = 40
"""Virtual machines of a node, one vCPU each."""
PERCENT = 0.01
NODES, APPS, PER_NODE, DAYS = 16, 24, 12, 8
REPLACED = 0.005
"""Share of containers that another one elsewhere takes the place of, in five minutes."""
START_S = 1_772_409_600.0
"""2 March 2026, 0:00 UTC."""


def planetlab_nodes(folder: Path, rng: np.random.Generator) -> Floats:
    """(n, VMS, days x 288) use of VMS machines on each node, drawn anew each day: they were never co-located.

    Raises:
        SystemExit: the folder has no days of 288 numbers.

    Source: Beloglazov and Buyya, CCPE 2012; five-minute means of CPU, in percent of one vCPU.
    """
    days = [
        np.array([np.loadtxt(file)[:DAY] for file in sorted(day.iterdir()) if file.is_file()]) * PERCENT
        for day in sorted(folder.iterdir())
        if day.is_dir() and day.name.isdecimal()
    ]
    if not days or min(len(day) for day in days) < VMS or any(day.shape[1:] != (DAY,) for day in days):
        raise SystemExit(
            f"headroom: {folder} has no folders of days, such as 20110303, with files of {DAY} percentages"
        )
    count = min(len(day) // VMS for day in days)
    drawn = [day[rng.permutation(len(day))[: count * VMS]].reshape(count, VMS, DAY) / VMS for day in days]
    return np.concatenate(drawn, axis=2)


def simulated_nodes(law: str, rng: np.random.Generator) -> Floats:
    """(NODES, APPS, DAYS x 288) CPU use of apps on simulated nodes as a share of their cores, under a law by name."""
    apps = draw_apps(APPS, rng)
    rule, state = LAWS[law](apps), empty_cluster(NODES, apps.best_effort.tolist(), START_S)
    interval_s = BIN_US / 1e6
    cores = np.array([p.cores for p in PLATFORMS])[state.platform]
    use = np.zeros((NODES, APPS, DAYS * DAY))
    actions = fill(state, PER_NODE, rng, APPS)
    for now in range(DAYS * DAY):
        state, records, _ = step(state, actions, law=rule, interval_s=interval_s, rng=rng)
        node = np.array([c.node for c in records.containers], np.int64)
        app = np.array([c.app for c in records.containers], np.int64)
        np.add.at(use[:, :, now], (node, app), records.signals["cpu_cores"] / cores[node])
        actions = churn(state, REPLACED, rng, APPS)
    return np.asarray(use / np.maximum(use.sum(axis=1, keepdims=True), 1.0))
