"""Damage: what cannot be read is never mended away, what is lost is named, and what is not damaged is not called so."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from deltalake import DeltaTable

from ingest.lake.check import check
from ingest.lake.store import first_line
from ingest.lake.stores import store_of
from ingest.lake.tables import Lake
from ingest.schema.errors import DamagedLake, IngestError
from ingest.schema.provenance import OffsetRange
from ingest.schema.tables import LANDED
from tests.ingest.lake.test_upkeep import Row, usage
from tests.landed import land_rows


def silent(_done: int, _total: int) -> None:
    """Progress that is not shown."""


def landed(root: Path, commits: int = 8) -> Lake:
    lake = Lake.open(root, LANDED)
    for at in range(commits):
        land_rows(lake, "usage", OffsetRange("usage", 0, at, at + 1), usage([Row(0, at, 0, at)]))
    return lake


def entries(lake: Lake) -> list[Path]:
    return sorted((lake.root / "usage" / "_delta_log").glob("[0-9]*.json"))


def damage(lake: Lake) -> list[str]:
    return [str(one.path) for one in check(Lake.to_read(lake.root, LANDED), silent).damage]


def test_an_entry_that_cannot_be_read_is_an_error_and_stays(tmp_path: Path) -> None:
    lake = landed(tmp_path / "lake")
    newest = entries(lake)[-1]
    newest.unlink()
    newest.mkdir()  # the system refuses to read it, as it does where permissions lack
    before = sorted(lake.root.rglob("*"))

    with pytest.raises(IngestError, match="nothing was changed") as failure:
        Lake.open(tmp_path / "lake", LANDED).read("usage")

    assert not isinstance(failure.value, DamagedLake)
    assert sorted(lake.root.rglob("*")) == before


@pytest.mark.parametrize("hint", ["", "{", "[]", '{"foo":1}', '{"version":99}', "[" * 100_000])
def test_a_hint_that_says_nothing_changes_no_row(tmp_path: Path, hint: str) -> None:
    lake = landed(tmp_path / "lake")
    (lake.root / "usage" / "_delta_log" / "_last_checkpoint").write_text(hint)

    assert Lake.to_read(tmp_path / "lake", LANDED).read("usage").num_rows == 8


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes().splitlines(keepends=True)[0])


def nest(path: Path) -> None:
    path.write_bytes(b"[" * 100_000)


@pytest.mark.parametrize("harm", [cut, nest, Path.unlink])
def test_a_log_entry_that_is_cut_or_missing_is_damage(tmp_path: Path, harm: Callable[[Path], None]) -> None:
    lake = landed(tmp_path / "lake")
    harmed = entries(lake)[-2]
    harm(harmed)

    assert str(harmed) in damage(lake)


def test_a_torn_commit_that_was_set_aside_is_told_of(tmp_path: Path) -> None:
    lake = landed(tmp_path / "lake")
    cut(entries(lake)[-1])

    report = check(Lake.to_read(tmp_path / "lake", LANDED), silent)

    assert (report.torn, report.rows, report.damage) == (1, 7, [])


@pytest.mark.parametrize("name", ["100%", "a b#?", "ü"])
def test_a_folder_of_any_name_holds_its_own_lake(tmp_path: Path, name: str) -> None:
    landed(tmp_path / "x y", 3)

    lake = landed(tmp_path / name, 2)

    assert Lake.open(lake.root, LANDED).read("usage").num_rows == 2
    assert damage(lake) == []
    assert Lake.open((tmp_path / name).as_uri(), LANDED).read("usage").num_rows == 2


@pytest.mark.parametrize(
    "address",
    [
        "",
        "x%20y",
        "back\\slash",
        "file:///x%2520y",
        "s3:/bucket/lake",
        "s3://me:secret@bucket/lake",
        "s3://bucket/lake?key=secret",
    ],
)
def test_an_address_that_names_no_lake_is_refused_without_its_secrets(address: str) -> None:
    with pytest.raises(IngestError, match="cannot be used") as failure:
        store_of(address)

    assert "secret" not in str(failure.value)


@pytest.mark.parametrize(
    ("endpoint", "why"),
    [
        ("minio:9000", "is no address"),
        ("", "is no address"),
        ("http://host:99999", "is no address"),
        ("https://me:secret@host", "is no address"),
        ("http://minio:9000", "AWS_ALLOW_HTTP"),
    ],
)
def test_an_endpoint_that_is_no_address_is_named(monkeypatch: pytest.MonkeyPatch, endpoint: str, why: str) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
    monkeypatch.delenv("AWS_ALLOW_HTTP", raising=False)

    with pytest.raises(IngestError, match=f"AWS_ENDPOINT_URL .*{why}|{why}") as failure:
        store_of("s3://bucket/lake").is_there()

    assert "secret" not in str(failure.value)


def test_of_an_error_the_system_s_own_words_are_kept_and_passwords_are_not() -> None:
    error = OSError("Generic error: http://me:secret@host\n  ↳ No space left on device (os error 28)\nmore")

    assert first_line(error) == "Generic error: http://***@host: No space left on device (os error 28)"


def test_rows_whose_last_time_another_engine_wrote_down_short_are_found(tmp_path: Path) -> None:
    lake = landed(tmp_path / "lake", 2)
    table = DeltaTable(str(lake.root / "usage"))
    table.optimize.compact()

    assert all(file.end_us % 1000 == 999 for file in Lake.to_read(lake.root, LANDED).fence("usage").files())


def test_a_check_writes_nothing(tmp_path: Path) -> None:
    lake = landed(tmp_path / "lake", 2)
    shutil.copytree(lake.root, tmp_path / "copy")
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "copy").rglob("*")}

    check(Lake.to_read(tmp_path / "copy", LANDED), silent)

    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "copy").rglob("*")} == before
