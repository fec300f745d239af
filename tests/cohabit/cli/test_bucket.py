"""Commands on a lake in a bucket: what only reads writes nothing there, and features need no Spark."""

import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cohabit.cli.main import app
from cohabit.server.assembly import is_there
from features.jobs import local_job
from tests.s3_server import S3Server


def run(*words: str) -> str:
    """What a command prints."""
    own = {"COHABIT_CLUSTER": "sim", "COHABIT_LAKE": "s3://bucket/lake"}
    ran = CliRunner().invoke(app, list(words), env=own)
    assert ran.exit_code == 0, ran.output
    return ran.stdout


def test_a_server_starts_while_the_bucket_refuses_it(s3: S3Server) -> None:
    s3.refused.add("GET bucket")

    assert is_there("s3://bucket/lake")

    s3.refused.clear()
    assert not is_there("s3://bucket/lake")


def test_a_refresh_writes_nothing_to_a_bucket_and_features_use_no_spark(
    s3: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(local_job, "MAX_ROWS", 0)
    run("dev", "simulate", "stream", "--nodes", "2", "--apps", "3", "--hours", "0.1")
    run("ingest", "stream")
    before = set(s3.written)

    refreshed = run("refresh", "stream")
    unchanged = set(s3.written) == before
    computed = run("features")

    assert unchanged
    assert "snapshot 1: 2 nodes" in refreshed
    assert "in this process" in computed
    assert {"bucket/lake/usage", "bucket/lake/node_state"} <= {"/".join(name.split("/")[:3]) for name in s3.written}


@pytest.mark.parametrize(("words", "code"), [(["--version"], 0), (["lake", "check", "--lake", "nowhere"], 1)])
def test_what_used_a_bucket_ends_at_once_with_its_code_and_all_that_it_printed(
    tmp_path: Path, words: list[str], code: int
) -> None:
    """Of 12 runs of `features` on a bucket 3 aborted when all was done: Python had gone, a thread of Arrow had not."""
    script = "import atexit, obstore\natexit.register(print, 'late')\nfrom cohabit.cli.main import main\nmain()"

    ran = subprocess.run(
        [sys.executable, "-c", script, *words], capture_output=True, text=True, cwd=tmp_path, check=False
    )

    assert ran.returncode == code
    assert ran.stdout.startswith("cohabit ") if code == 0 else "no lake" in ran.stderr
    assert "late" not in ran.stdout
