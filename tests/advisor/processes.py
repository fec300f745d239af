"""A serving process over folders of its own, and what a test does to them."""

import shutil
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from prometheus_client import CollectorRegistry

from advisor.cluster.snapshot import Snapshot, publish
from advisor.placement.model_state import Serving
from features.schema.catalog import EXPECTED
from models.registry.registry import Registry
from tests.advisor.clusters import NOW_US, TEAMS, snapshot

STATES = ("nothing", "no_bundle", "no_snapshot", "stale", "model", "last_good")


@dataclass
class Process:
    """A serving process and what it reads."""

    serving: Serving
    snapshots: Path
    registry: Registry
    bundle: Path
    now_us: int = NOW_US

    def promote(self, name: str, bundle: Path | None = None) -> Path:
        target = self.registry.root / name
        shutil.copytree(bundle or self.bundle, target)
        return self.registry.promote(name)

    def publish(self, newest: Snapshot) -> Path:
        return publish(self.snapshots, newest)

    def made_ready(self) -> "Process":
        """With a bundle and a snapshot in which nothing is expected of unknown apps."""
        self.promote("first")
        self.publish(replace(snapshot(11, version=1), cold_start_prior=np.zeros((len(TEAMS) + 1, 0, len(EXPECTED)))))
        self.serving.reload()
        return self

    def counted(self, name: str, **labels: str) -> float:
        return self.serving.metrics.get_sample_value(name, labels) or 0.0


def new_process(bundle: Path, folder: Path) -> Process:
    """Nothing published and nothing promoted yet; `bundle` is what `promote` promotes."""
    registry = Registry(folder / "registry")
    registry.root.mkdir(parents=True)
    made = Process(
        serving=Serving(folder / "snapshots", registry, 120.0, lambda: made.now_us, CollectorRegistry()),
        snapshots=folder / "snapshots",
        registry=registry,
        bundle=bundle,
    )
    return made


def process_in(state: str, bundle: Path, folder: Path) -> Process:
    """A process in one of STATES: all that serving can be in."""
    made = new_process(bundle, folder)
    if state == "no_bundle":
        made.publish(snapshot())
    elif state == "no_snapshot":
        made.promote("first")
    elif state != "nothing":
        made.made_ready()
    if state == "stale":
        made.now_us += 10**12
    elif state == "last_good":
        (made.publish(snapshot(version=2)) / "profile.npy").write_bytes(b"")
    made.serving.reload()
    return made
