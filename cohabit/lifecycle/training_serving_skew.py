"""Skew: feature vectors that scores were made of, computed again from what landed, and compared. An edge.

What differs was served from something else than what landed: a message that came in another order, a job that rebuilt
profiles under the same time, a mend of the code between the two.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from advisor.cluster.pending_pod import PendingPod
from advisor.cluster.snapshot import Snapshot
from advisor.cluster.snapshot_builder import build_snapshot
from advisor.placement.rotating_log import SUFFIX
from advisor.scoring.scorer import pending_features
from cohabit.config.errors import CohabitError, NothingServed
from cohabit.refresh.live_state import BEGIN_US, KEEP_US
from features.columnar.arrow_columns import micros
from features.contention.node_state import Facts
from features.contention.usage_rates import rates
from features.schema.catalog import RAW_NAMES
from features.training.online_features import live_view, state_by
from ingest.lake.tables import Lake
from ingest.schema.tables import TIMESTAMP

LIMIT = 0.999
"""Share of values that must be equal to the last bit."""


MAX_US = 4_102_444_800_000_000
"""2100-01-01."""


class Served(BaseModel):
    """One line of a served log."""

    model_config = ConfigDict(frozen=True)

    cluster: str
    as_of_us: int = Field(ge=0, le=MAX_US)
    profiles_us: int = Field(ge=0, le=MAX_US)
    node: str
    app: str
    team: str | None = None
    best_effort: bool
    features: tuple[float | None, ...]


@dataclass(frozen=True, slots=True)
class Skew:
    """What was compared.

    Args:
        vectors: feature vectors compared.
        values: values compared.
        equal: how many of them are equal, missing being equal to missing.
        differing: how often each feature differed.
    """

    vectors: int
    values: int
    equal: int
    differing: Counter[str]

    @property
    def share(self) -> float:
        """Share of values that are equal."""
        return self.equal / self.values if self.values else 1.0


def read_served(folder: Path) -> list[Served]:
    """All lines of a folder, oldest time first.

    Raises:
        NothingServed: there are none.
        CohabitError: a line is not one of a served log, or of another catalogue of features.
    """
    lines = [(path, line) for path in sorted(folder.glob(f"*{SUFFIX}")) for line in path.read_bytes().splitlines()]
    if not lines:
        raise NothingServed(folder)
    return sorted((_parse(path, line) for path, line in lines), key=lambda s: (s.as_of_us, s.profiles_us))


def _parse(path: Path, line: bytes) -> Served:
    try:
        served = Served.model_validate_json(line)
    except ValidationError as error:
        raise _unreadable_served(path, str(error).splitlines()[0]) from error
    if len(served.features) != len(RAW_NAMES):
        raise _unreadable_served(path, f"{len(served.features)} features, the catalogue has {len(RAW_NAMES)}")
    return served


def comparable(served: Sequence[Served], lake: Lake) -> list[Served]:
    """Those that were made with profiles which the lake still has.

    The newest profiles are as of the newest sample, and the next `cohabit features` puts later ones in their place.
    """
    kept = {0, *micros(lake.read("profiles", columns=["as_of"])["as_of"]).tolist()}
    return [one for one in served if one.profiles_us in kept]


def compare(served: Sequence[Served], lake: Lake) -> Skew:
    """Compute every vector again from the lake, as of the time it was served for."""
    differing: Counter[str] = Counter()
    equal = 0
    for snapshot, group in _groups(served, lake):
        for one in group:
            found = _again(snapshot, one)
            expected = np.array([np.nan if v is None else v for v in one.features])
            same = (found == expected) | (np.isnan(found) & np.isnan(expected))
            equal += int(same.sum())
            differing.update(RAW_NAMES[i] for i in np.flatnonzero(~same))
    return Skew(len(served), len(served) * len(RAW_NAMES), equal, differing)


def _again(snapshot: Snapshot, served: Served) -> np.ndarray:
    """(raw features,) of the pending pod; infinite, which equals nothing, on a node that did not land."""
    if served.node not in snapshot.node_index:
        return np.full(len(RAW_NAMES), np.inf)
    rows = np.array([snapshot.node_index[served.node]], np.int32)
    features = pending_features(snapshot, PendingPod(served.app, served.team, served.best_effort), rows)
    return np.asarray(features[0], np.float64)


def _groups(served: Sequence[Served], lake: Lake) -> Iterator[tuple[Snapshot, list[Served]]]:
    """Vectors of the same snapshot together, and that snapshot."""
    by_snapshot: dict[tuple[str, int, int], list[Served]] = {}
    for one in served:
        by_snapshot.setdefault((one.cluster, one.as_of_us, one.profiles_us), []).append(one)
    profiles = lake.read("profiles")
    for (cluster, as_of_us, profiles_us), group in by_snapshot.items():
        known = profiles.filter(pc.less_equal(profiles["as_of"], pa.scalar(profiles_us, TIMESTAMP)))
        yield snapshot_as_of(lake, cluster, as_of_us, known), group


def snapshot_as_of(lake: Lake, cluster: str, as_of_us: int, profiles: pa.Table) -> Snapshot:
    """What a refresher that had landed all of a cluster by some time would have published then."""
    moment = _moment(as_of_us)
    of_cluster = pc.field("cluster") == cluster
    facts = Facts(*(lake.read(t, as_of=moment).filter(of_cluster) for t in ("nodes", "placements")))
    usage = lake.read("usage", _moment(as_of_us - KEEP_US), as_of=moment).filter(of_cluster)
    samples = lake.read("samples", _moment(as_of_us - BEGIN_US), as_of=moment).filter(of_cluster)
    state = state_by(as_of_us, pa.concat_tables([usage, rates(samples, facts).usage]), facts)
    return build_snapshot(live_view(as_of_us, state, facts, profiles), profiles, version=0, as_of_us=as_of_us)


def _moment(micros: int) -> datetime:
    moment: datetime = pa.scalar(micros, TIMESTAMP).as_py()
    return moment


def _unreadable_served(path: Path, reason: str) -> CohabitError:
    return CohabitError(f"{path} is not a feature log ({reason}): remove it if another version wrote it")
