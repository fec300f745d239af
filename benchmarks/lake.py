"""Lake: landing, commits and reading beside the format of before Delta Lake and beside bare files, in one run."""

import json
import os
import subprocess
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from benchmarks.runner import OURS, TOP, Benchmark, Figures, Result

ROOT = Path(__file__).parents[1]
BEFORE = "3aa6522014cd1183412e05b841d069c978180051"
"""The commit before the lake became Delta Lake."""


def run(arguments: Namespace, _: np.random.Generator) -> Result:
    """Measure each way in a process of its own, one after the other."""
    with TemporaryDirectory(prefix="cohabit-lake-") as name:
        folder = Path(name)
        found = {OURS: _child("ours", ROOT, str(folder / "ours"), arguments)}
        found["bare"] = _child("bare", ROOT, str(folder / "bare"), arguments)
        with _checkout(folder / "checkout") as before:
            if before is not None:
                found["before"] = _child("before", before, str(folder / "before"), arguments)
        if arguments.bucket:
            found["bucket"] = _child("ours", ROOT, f"{arguments.bucket}/{os.getpid()}", arguments)
    return {TOP: _ratios(found), **found}


def _ratios(found: Mapping[str, Figures]) -> Figures:
    ours, bare = found[OURS], found["bare"]
    top = {
        "landing_vs_bare": ours["landed_rows_s"] / bare["landed_rows_s"],
        "commit_p95_ms_folder": ours["commit_p95_ms"],
        "commit_growth": ours["commit_last_cpu_ms"] / ours["commit_first_cpu_ms"],
        "landing_mb": ours["memory_mb"],
    }
    if before := found.get("before"):
        top |= {
            "landing_vs_before": ours["landed_rows_s"] / before["landed_rows_s"],
            "hour_read_vs_before": ours["hour_ms"] / before["hour_ms"],
            "scan_vs_before": ours["scan_ms"] / before["scan_ms"],
        }
    if bucket := found.get("bucket"):
        top["commit_p95_ms_s3"] = bucket["commit_p95_ms"]
    return top


def _child(way: str, checkout: Path, address: str, arguments: Namespace) -> Figures:
    words = [sys.executable, "-P", str(ROOT / "benchmarks" / "lake_child.py"), way, address]
    ran = subprocess.run(
        [*words, str(arguments.batches), str(arguments.commits)],
        cwd=checkout,
        env={**os.environ, "PYTHONPATH": str(checkout)},
        stdout=subprocess.PIPE,
        check=True,
    )
    figures: dict[str, float] = json.loads(ran.stdout)
    return figures


@contextmanager
def _checkout(folder: Path) -> Iterator[Path | None]:
    """The commit before, in a work tree of its own; None, and why, where the clone is too shallow to have it."""
    git = ["git", "-C", str(ROOT), "worktree"]
    made = subprocess.run([*git, "add", "--detach", str(folder), BEFORE], capture_output=True, text=True, check=False)
    if made.returncode:
        print(f"without `before`: {made.stderr.strip().splitlines()[-1]}", file=sys.stderr)
        yield None
        return
    try:
        yield folder
    finally:
        subprocess.run([*git, "remove", "--force", str(folder)], check=True)


def _arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--batches", type=int, default=10, help="batches of 48,000 rows that are landed first (10)")
    parser.add_argument("--commits", type=int, default=1000, help="commits of one row after them (1000)")
    parser.add_argument("--bucket", help="address of a bucket to measure too, s3://…, with AWS_* variables")


BENCHMARK = Benchmark(
    "lake",
    "landing, commits and reading, beside the format of before and beside bare files",
    run,
    runs=1,
    add_arguments=_arguments,
)
