"""The wheel: exactly our packages and their data files."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = ("cohabit", "ingest", "features", "models", "advisor")
DATA_FILES = {"ingest/devkafka/jars.sha256", "ingest/decode/metrics/app_metrics.toml"} | {
    str(path.relative_to(ROOT))
    for folder in ("advisor/ui/static", "advisor/ui/templates", "cohabit/billing/statements/templates")
    for path in (ROOT / folder).rglob("*")
    if path.is_file()
}
DESCRIPTION = {"METADATA", "WHEEL", "RECORD", "entry_points.txt", "licenses/LICENSE"}


@pytest.fixture(scope="module")
def contents(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """Paths in a wheel built from this checkout."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    subprocess.run(command, capture_output=True, check=True)
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as opened:
        return set(opened.namelist())


def test_the_wheel_holds_exactly_our_packages_and_their_data_files(contents: set[str]) -> None:
    sources = {str(path.relative_to(ROOT)) for name in PACKAGES for path in (ROOT / name).rglob("*.py")}

    packed = {path for path in contents if ".dist-info/" not in path}

    assert packed == sources | DATA_FILES


def test_it_describes_itself_and_nothing_else(contents: set[str]) -> None:
    described = {path.partition(".dist-info/")[2] for path in contents if ".dist-info/" in path}

    assert described == DESCRIPTION


def test_every_package_is_there_with_its_subpackages(contents: set[str]) -> None:
    assert {
        "models/bundle/bundle.py",
        "features/jobs/spark/batch_job.py",
        "ingest/decode/formats/native.py",
        "advisor/api/app.py",
    } <= contents
    assert all(f"{name}/__init__.py" in contents for name in PACKAGES)
