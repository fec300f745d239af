"""Worker metrics: what several processes counted, added up. An edge.

Each process leaves its counters and histograms in a file once a second; the process that exports metrics adds them to
its own. What a process counted that has ended stays in the sum: no counter ever falls. Gauges are the telling process'
own.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
from prometheus_client import CollectorRegistry, Metric
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample

ADDED = ("counter", "histogram")
CREATED = "_created"


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


@dataclass
class Leaving:
    """What one worker counted, left for the exporting process, on top of what those before it in its place left.

    There is but one file for each place, replaced as a whole: a reader never finds less than before.

    Args:
        folder: of all workers' files.
        number: of the worker's place.
        metrics: what it counts.
    """

    folder: Path
    number: int
    metrics: CollectorRegistry
    _before: Counts = field(init=False)

    def __post_init__(self) -> None:
        self._before = _read(self._path)

    def leave(self) -> None:
        """Write down what was counted so far."""
        temporary = self._path.with_suffix(".new")
        temporary.write_bytes(_encode(_sum([self._before, _counts(self.metrics.collect())])))
        temporary.replace(self._path)

    @property
    def _path(self) -> Path:
        return self.folder / f"worker-{self.number}.counts"


class Together(Collector):
    """What all processes counted.

    Args:
        own: metrics of the exporting process.
        folder: where the others leave theirs.
    """

    def __init__(self, own: CollectorRegistry, folder: Path) -> None:
        self.own, self.folder = own, folder

    def collect(self) -> Iterator[Metric]:
        """The own families, counters and histograms with all others' added."""
        others = _sum(map(_read, self.folder.glob("*.counts")))
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


def _sum(several: Iterable[Counts]) -> Counts:
    found: dict[str, dict[object, Count]] = {}
    for each in several:
        for family, counts in each.items():
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
