"""Contracts: what others build on, pinned in tests/golden/contract-*.json and compared with the code.

`python -m tests.test_contracts` writes the files again, once a decision record says why.
"""

import inspect
import json
from collections.abc import Callable
from dataclasses import asdict, fields
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import get_args

import msgspec
import pyarrow as pa
import pytest
from pydantic import BaseModel

from advisor.api.v1.scores import ScoreReply, ScoreRequest
from advisor.cluster import pending_pod as pending_pods
from advisor.cluster.snapshot import ARRAYS, NAMES_FILE, Snapshot, directory_name
from advisor.diagnosis.report_file import FILE, ReportFile
from advisor.plans.export import ApprovedMove, document, evictions, migration_jobs
from advisor.plans.rules.plan_record import plan_json
from advisor.scoring import scorer as scoring
from features.contention.pressure import PRESSURE_COLUMNS
from features.schema.catalog import FEATURES, RAW_NAMES, RESOURCES, catalogue_hash
from features.schema.tables import TABLES
from features.training.diagnosis_rows import DIAGNOSIS
from ingest.decode import contract as decode
from ingest.lake.data_files import STREAMS, Origin
from ingest.lake.landing import Positions, RangeRows
from ingest.lake.tables import EXPIRED, REWRITE, Lake
from ingest.schema.provenance import OffsetRange
from ingest.schema.tables import LAKE_OWN, Column
from ingest.schema.topics import TOPICS
from models.bundle.manifest import Manifest
from models.drift.drift_status import DriftStatus
from models.drift.feature_shift import Reference
from models.registry.gate_result import Verdict
from models.registry.registry_log import Event
from tests.advisor.plans.made import plan, step

GOLDEN = Path(__file__).parent / "golden"


def column(of: Column) -> str:
    """One column in one line: name, type, unit, range, required or not."""
    return f"{of.name}: {of.type} [{of.unit}] {of.low}..{of.high}{' required' if of.required else ''}"


def tables() -> object:
    return {
        table.name: {
            "version": table.version,
            "key": table.key,
            "time": table.time,
            "columns": [column(of) for of in table.columns],
        }
        for table in TABLES.values()
    }


def topics() -> object:
    return {
        topic.name: {"key": topic.key, "partitions": topic.partitions, "compacted": topic.compacted}
        for topic in TOPICS.values()
    }


def arrow(schema: pa.Schema) -> object:
    return [f"{field.name}: {field.type}{'' if field.nullable else ' required'}" for field in schema]


def shape(of: type[BaseModel]) -> object:
    """JSON schema without its prose."""

    def bare(part: object) -> object:
        if isinstance(part, dict):
            return {key: bare(value) for key, value in part.items() if key != "description"}
        return [bare(item) for item in part] if isinstance(part, list) else part

    return bare(of.model_json_schema())


def decoding() -> object:
    return {
        "parameters": list(inspect.signature(decode.Decode.__call__).parameters)[1:],
        "context": [field.name for field in fields(decode.Context)],
        "decoded": [field.name for field in fields(decode.Decoded)],
        "rejects": arrow(decode.REJECTS),
        "reasons": decode.REASONS,
        "rows_of_usage": arrow(decode.rows_schema(TABLES["usage"])),
    }


def snapshot() -> object:
    return {
        "arrays": ARRAYS,
        "names": {"file": NAMES_FILE, "fields": [f.name for f in fields(Snapshot) if f.name not in ARRAYS]},
        "directory_of_version_7": directory_name(7),
    }


def scorer() -> object:
    return {
        "score": list(inspect.signature(scoring.Scorer.score).parameters)[1:],
        "newcomer": [field.name for field in fields(pending_pods.PendingPod)],
        "scores": [field.name for field in fields(scoring.Scores)],
        "harm": [field.name for field in fields(scoring.Harm)],
        "source": get_args(scoring.Source),
    }


def features() -> object:
    return {
        "hash": catalogue_hash(),
        "raw": len(RAW_NAMES),
        "resources": [{"name": r.name, "usage": r.usage, "capacity": r.capacity} for r in RESOURCES],
        "pressure_columns": PRESSURE_COLUMNS,
        "features": [f"{f.name} [{f.unit}] sign {f.sign}{' base' if f.base else ''}" for f in FEATURES],
    }


def exports() -> object:
    """Two steps of one round and one of the next, given in another order."""
    moves = [
        ApprovedMove(3, 2, "u-3", "shop", "db-0", "db", "n2", "n1", "P 7/Nov"),
        ApprovedMove(1, 1, "u-1", "shop", "web-5d9f-x2x7k", "web", "n1", "n4.example", "P 7/Nov", "5d9f", 0.5, 1 << 30),
        ApprovedMove(2, 1, "u-2", "shop", "web-5d9f-abcde", "web", "n1", "n3", "P 7/Nov", "5d9f"),
    ]
    steps, reservations = evictions(moves, "prod", 1_772_323_200_000_000)
    return {
        "evictions": json.loads(document("P 7/Nov", "evictions", steps)),
        "reservations": [asdict(reservation) for reservation in reservations],
        "migration-jobs": json.loads(document("P 7/Nov", "migration-jobs", migration_jobs(moves, 300))),
        "plain": json.loads(document("P 7/Nov", "plain", [step(kind="cpu.max", target=None)])),
        "plan": json.loads(plan_json(plan(1))),
    }


def diagnosis() -> object:
    return {"file": FILE, **components(ReportFile)}


def components(*kinds: type) -> dict[str, object]:
    """Properties of records, by name of the record; which may not be left out."""
    _, parts = msgspec.json.schema_components(kinds)
    return {name: {key: of[key] for key in ("properties", "required")} for name, of in parts.items()}


def lake() -> object:
    """How files of a lake are called, and what the log of a table says of them and of positions."""
    origins = (STREAMS, Origin("features", 0, 3_600_000_000), Origin("follow", batch=7))
    with TemporaryDirectory() as folder:
        opened = Lake.open(folder, TABLES)
        rows = pa.Table.from_pylist([NODE_ROW], schema=TABLES["nodes"].schema)
        assert Positions(opened).land("nodes", [RangeRows(OffsetRange("nodes", 0, 0, 7), rows)]) == []
        log = sorted(Path(folder, "nodes", "_delta_log").glob("*.json"))
        said = [json.loads(line) for path in log for line in path.read_text().splitlines()]
    [added] = [one["add"] for one in said if "add" in one]
    [metadata] = [one["metaData"] for one in said if "metaData" in one]
    return {
        "folders": [one.folder for one in origins],
        "partition": dict(sorted(added["partitionValues"].items())),
        "stats": json.loads(added["stats"]),
        "transactions": [{name: one["txn"][name] for name in ("appId", "version")} for one in said if "txn" in one],
        "configuration": dict(sorted(metadata["configuration"].items())),
        "partition_columns": metadata["partitionColumns"],
        "other_transactions": [EXPIRED, REWRITE, "batch/<job>", "topics/<topic>"],
        "own": {name: [str(field) for field in kind.schema] for name, kind in LAKE_OWN.items()},
    }


NODE_ROW = {
    "cluster": "c",
    "node": "n",
    "ts": datetime(2026, 3, 1, 7, 0, 0, 1500, tzinfo=UTC),
    "topic": "nodes",
    "partition": 0,
    "offset": 6,
    "arrived_at": datetime(2026, 3, 1, 7, 0, 1, tzinfo=UTC),
}


CONTRACTS: dict[str, Callable[[], object]] = {
    "tables": tables,
    "topics": topics,
    "decode": decoding,
    "snapshot": snapshot,
    "bundle-manifest": lambda: shape(Manifest),
    "registry": lambda: {of.__name__: shape(of) for of in (Verdict, DriftStatus, Event, Reference)},
    "score-request": lambda: shape(ScoreRequest),
    "score-reply": lambda: shape(ScoreReply),
    "diagnosis": diagnosis,
    "lake": lake,
    "scorer": scorer,
    "features": features,
    "export": exports,
    "diagnosis-features": lambda: [
        f"{f.name} [{f.unit}] sign {f.sign}{' base' if f.base else ''} {f.known}" for f in DIAGNOSIS
    ],
}


def file_of(name: str) -> Path:
    return GOLDEN / f"contract-{name}.json"


def as_json(contract: object) -> str:
    return json.dumps(contract, indent=2) + "\n"


@pytest.mark.parametrize("name", CONTRACTS)
def test_the_code_keeps_its_contracts(name: str) -> None:
    assert json.loads(as_json(CONTRACTS[name]())) == json.loads(file_of(name).read_text()), (
        f"the contract {name!r} differs from tests/golden/contract-{name}.json, which others build on. Changing this "
        "needs a decision record in docs/decisions/ (and a new version of the table or schema where there is one); "
        "then write the file again with `python -m tests.test_contracts`"
    )


def test_every_golden_contract_is_compared() -> None:
    assert {path.name for path in GOLDEN.glob("contract-*.json")} == {file_of(name).name for name in CONTRACTS}


@pytest.mark.parametrize("name", TABLES)
def test_tables_are_keyed_and_timed_by_columns_of_their_own(name: str) -> None:
    table = TABLES[name]

    assert {*table.key, table.time} <= table.by_name.keys()
    assert len(table.by_name) == len(table.columns)


if __name__ == "__main__":
    for written, contract in CONTRACTS.items():
        file_of(written).write_text(as_json(contract()))
