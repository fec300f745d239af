"""Worker metrics: what several processes counted, added up. An edge.

Each process leaves its counters and histograms in a file once a second; whoever tells metrics adds them to its own.
What a process counted that has ended stays in the sum: no counter ever falls. Gauges are the telling process' own.
"""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec
from prometheus_client import CollectorRegistry, Metric
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample

ADDED = ("counter", "histogram")
CREATED = "_created"
GONE = "gone.counts"


class Count(msgspec.Struct, frozen=True, array_like=True):
    """One value of one process."""

    name: str
    labels: dict[str, str]
    value: float

    @property
    def key(self) -> tuple[str, frozenset[tuple[str, str]]]:
        """What is added up."""
        return self.name, frozenset(self.labels.items())


Counts = dict[str, list[Count]]
"""By family."""
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Counts).decode


def leave_counts(folder: Path, metrics: CollectorRegistry) -> None:
    """Write down what this process counted so far."""
    _write(folder / f"{os.getpid()}.counts", _counts(metrics.collect()))


def put_together(folder: Path, ended: int) -> None:
    """Keep what a process counted that has ended, without its file."""
    path = folder / f"{ended}.counts"
    if path.exists():
        _write(folder / GONE, _sum([folder / GONE, path]))
        path.unlink()


class Together(Collector):
    """What all processes counted.

    Args:
        own: metrics of the process that tells.
        folder: where the others leave theirs.
    """

    def __init__(self, own: CollectorRegistry, folder: Path) -> None:
        self.own, self.folder = own, folder

    def collect(self) -> Iterator[Metric]:
        """The own families, counters and histograms with all others' added."""
        others = _sum(self.folder.glob("*.counts"))
        for family in self.own.collect():
            more = {count.key: count for count in others.get(family.name, [])}
            samples = []
            for sample in family.samples:
                count = more.pop((sample.name, frozenset(sample.labels.items())), None)
                samples.append(sample if count is None else sample._replace(value=sample.value + count.value))
            family.samples = samples + [Sample(count.name, count.labels, count.value) for count in more.values()]
            yield family


def _counts(families: Iterable[Metric]) -> Counts:
    return {
        family.name: [Count(s.name, s.labels, s.value) for s in family.samples if not s.name.endswith(CREATED)]
        for family in families
        if family.type in ADDED
    }


def _sum(paths: Iterable[Path]) -> Counts:
    found: dict[str, dict[object, Count]] = {}
    for path in paths:
        for family, counts in _read(path).items():
            mine = found.setdefault(family, {})
            for count in counts:
                before = mine.get(count.key)
                mine[count.key] = (
                    count if before is None else Count(count.name, count.labels, before.value + count.value)
                )
    return {family: list(counts.values()) for family, counts in found.items()}


def _read(path: Path) -> Counts:
    try:
        return _decode(path.read_bytes())
    except FileNotFoundError:
        return {}


def _write(path: Path, counts: Counts) -> None:
    beside = path.with_suffix(".new")
    beside.write_bytes(_encode(counts))
    beside.replace(path)
