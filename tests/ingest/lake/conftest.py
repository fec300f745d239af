"""Where a lake may lie: a folder, and a bucket of a small S3 server."""

from pathlib import Path

import pytest


@pytest.fixture(params=["folder", "bucket"])
def uri(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of a lake that is not there yet, in each kind of store."""
    if request.param == "folder":
        return str(tmp_path / "lake")
    request.getfixturevalue("s3")
    return "s3://bucket/lake"
