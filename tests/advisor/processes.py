"""A serving process over folders of its own, and what a test does to them."""

import shutil
from dataclasses import dataclass
from pathlib import Path

from clusters import NOW_US
from prometheus_client import CollectorRegistry

from advisor.serving import Serving
from advisor.snapshot import Snapshot, publish
from models.registry import Registry


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

    def publish(self, snapshot: Snapshot) -> Path:
        return publish(self.snapshots, snapshot)

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
