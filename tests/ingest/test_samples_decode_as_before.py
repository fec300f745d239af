"""Streams of data_samples and of the public cases are decoded to the rows that they were decoded to before."""

import hashlib
import json
import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from cohabit.cli.main import app

ROOT = Path(__file__).parents[2]
BEFORE = json.loads((ROOT / "tests" / "golden" / "decoded-samples.json").read_text())
"""By folder and table the number of rows and a digest over all of them, from the tree before the renaming (1ee7103)."""
OWN = ("usage", "nodes", "placements")
CASES = Path(os.environ["BENCH_DATA"]).parent / "cases" if "BENCH_DATA" in os.environ else None


def decoded(stream: Path, lake: Path) -> dict[str, list[int | str]]:
    """Rows and digest of each table that ingestion of a folder writes."""
    foreign = [f"--topic={log.stem}=auto" for log in sorted(stream.glob("*.log")) if log.stem not in OWN]
    ran = CliRunner().invoke(app, ["ingest", str(stream), "--lake", str(lake), *foreign], catch_exceptions=False)
    assert ran.exit_code == 0, ran.output
    found: dict[str, list[int | str]] = {}
    for folder in sorted((lake / "data").iterdir()):
        parts = [pq.ParquetFile(path).read() for path in folder.rglob("*.parquet")]
        rows = sorted(json.dumps(row, sort_keys=True, default=str) for row in pa.concat_tables(parts).to_pylist())
        found[folder.name] = [len(rows), hashlib.sha256("\n".join(rows).encode()).hexdigest()]
    return found


def test_data_samples(tmp_path: Path) -> None:
    assert decoded(ROOT / "data_samples" / "measured", tmp_path / "lake") == BEFORE["measured"]


@pytest.mark.public_data
@pytest.mark.parametrize("case", [name for name in BEFORE if name != "measured"])
def test_public_cases(case: str, tmp_path: Path) -> None:
    if CASES is None or not CASES.is_dir():
        pytest.skip("needs the folder cases next to the one named by BENCH_DATA")

    assert decoded(CASES / case / "stream", tmp_path / "lake") == BEFORE[case]
