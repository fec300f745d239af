"""Kept plans: what each plan was made from, so that it can be made again to the byte. An edge.

A folder for each plan, its files written once: the snapshot, what nodes and placements said, and the rest.
"""

import hashlib
import io
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from advisor.cluster.snapshot import Snapshot, load_current, publish
from advisor.diagnosis.slowdown_causes import Diagnosis
from advisor.plans.rules.past_steps import Past
from advisor.plans.rules.policy import Rules
from cohabit.config.errors import CohabitError

MAX_KEPT = 200
"""Plans; the oldest go first."""
TABLES = ("nodes", "placements")
REST = "rest.msgpack"


@dataclass(frozen=True)
class Inputs:
    """All that a plan is made from.

    Args:
        snapshot: where everybody was.
        nodes: rows of `nodes` until then.
        placements: rows of `placements` until then.
        diagnoses: the victims.
        past: steps of earlier plans.
        rules: what may be proposed.
        achieved: cost an hour that earlier plans were to save, and did.
        bundle: name of the model's bundle in the registry.
        now_us: when.
    """

    snapshot: Snapshot
    nodes: pa.Table
    placements: pa.Table
    diagnoses: tuple[Diagnosis, ...]
    past: tuple[Past, ...]
    rules: Rules
    achieved: tuple[float, float]
    bundle: str
    now_us: int


class _Rest(msgspec.Struct, frozen=True):
    """What is neither array nor table; msgpack keeps NaN."""

    diagnoses: tuple[Diagnosis, ...]
    past: tuple[Past, ...]
    rules: Rules
    achieved: tuple[float, float]
    bundle: str
    now_us: int


def digest_of(inputs: Inputs) -> str:
    """SHA-256 of a situation: the snapshot's version and time, victims, earlier plans and rules."""
    parts = (inputs.snapshot.cluster, inputs.snapshot.version, inputs.snapshot.as_of_us, _rest(inputs))
    return hashlib.sha256(msgspec.msgpack.encode(parts, order="deterministic")).hexdigest()


def keep(folder: Path, inputs: Inputs) -> None:
    """Keep what a plan was made from, in its own folder; the oldest of its neighbours go where there are too many."""
    building = folder.with_name(f".{folder.name}")
    shutil.rmtree(building, ignore_errors=True)
    building.mkdir(parents=True)
    publish(building / "snapshot", inputs.snapshot)
    for name in TABLES:
        pq.write_table(getattr(inputs, name), building / f"{name}.parquet", compression="zstd")
    (building / REST).write_bytes(msgspec.msgpack.encode(_rest(inputs), order="deterministic"))
    shutil.rmtree(folder, ignore_errors=True)
    building.rename(folder)
    _forget(folder.parent)


def kept(folder: Path) -> Inputs:
    """What a plan was made from.

    Raises:
        CohabitError: it is not there any more.
    """
    try:
        rest = msgspec.msgpack.decode((folder / REST).read_bytes(), type=_Rest)
        tables = {name: pq.read_table(io.BytesIO((folder / f"{name}.parquet").read_bytes())) for name in TABLES}
    except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError, pa.ArrowException) as error:
        raise CohabitError(
            f"the saved inputs {folder} are missing or damaged: inputs are saved for the newest plans only"
        ) from error
    return Inputs(
        load_current(folder / "snapshot"),
        tables["nodes"],
        tables["placements"],
        rest.diagnoses,
        rest.past,
        rest.rules,
        rest.achieved,
        rest.bundle,
        rest.now_us,
    )


def _rest(inputs: Inputs) -> _Rest:
    return _Rest(inputs.diagnoses, inputs.past, inputs.rules, inputs.achieved, inputs.bundle, inputs.now_us)


def _forget(parent: Path) -> None:
    folders = [one for one in parent.iterdir() if one.is_dir() and not one.name.startswith(".")]
    for old in sorted(folders, key=os.path.getmtime)[:-MAX_KEPT]:
        shutil.rmtree(old, ignore_errors=True)
