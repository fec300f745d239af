"""Saved table: what a restarted server begins with, and what it does not believe."""

from dataclasses import replace
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

from advisor.placement.model_state import Serving
from advisor.scoring.score_table_file import read_table, write_table
from cohabit.server.saved_table import NAME, SAVE_EVERY_S, Saving, restore, saved_classes
from cohabit.server.score_table_process import Tabling
from models.registry.registry import Registry
from tests.advisor.running import fill


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Serving:
    folder = tmp_path_factory.mktemp("served")
    fill(folder)
    made = Serving(folder / "snapshots", Registry(folder / "registry"), 1e9, lambda: 0, CollectorRegistry())
    made.reload()
    return made


@pytest.fixture
def tabling(served: Serving, tmp_path: Path) -> Tabling:
    made = Tabling(served, tmp_path / "table")
    made.step(0.0)
    return made


def test_a_saved_table_comes_back_as_it_was(tabling: Tabling, tmp_path: Path) -> None:
    Saving(tabling.path, tmp_path / NAME).save(0.0)
    assert restore(tmp_path / "mine", tmp_path, read_table(tabling.path).bundle)
    assert (tmp_path / "mine").read_bytes() == tabling.path.read_bytes()


def test_a_table_of_another_bundle_is_not_answered_from(tabling: Tabling, tmp_path: Path) -> None:
    Saving(tabling.path, tmp_path / NAME).save(0.0)
    assert not restore(tmp_path / "mine", tmp_path, "another")
    assert not (tmp_path / "mine").exists()


def test_of_any_table_the_classes_are_asked_for_again(tabling: Tabling, tmp_path: Path) -> None:
    assert saved_classes(tmp_path) == ()
    Saving(tabling.path, tmp_path / NAME).save(0.0)
    assert saved_classes(tmp_path) == read_table(tabling.path).classes


@pytest.mark.parametrize("cut", [0, 10, 100, -1])
def test_half_a_file_is_none(tabling: Tabling, tmp_path: Path, cut: int) -> None:
    (tmp_path / NAME).write_bytes(tabling.path.read_bytes()[:cut])
    assert not restore(tmp_path / "mine", tmp_path, read_table(tabling.path).bundle)


def test_it_is_saved_now_and_then_and_never_stops_the_table(tabling: Tabling, tmp_path: Path) -> None:
    saving = Saving(tabling.path, tmp_path / NAME)
    saving.save(0.0)
    first = (tmp_path / NAME).stat().st_ino
    write_table(tabling.path, replace(read_table(tabling.path), version=7))
    saving.save(SAVE_EVERY_S / 2)
    assert (tmp_path / NAME).stat().st_ino == first
    saving.save(SAVE_EVERY_S)
    assert read_table(tmp_path / NAME).version == 7

    (tmp_path / "nowhere").write_text("no folder")
    for version in (8, 9):  # the second may have the inode of the one that is saved
        write_table(tabling.path, replace(read_table(tabling.path), version=version))
    saving.save(2 * SAVE_EVERY_S)
    assert read_table(tmp_path / NAME).version == 9

    nowhere = Saving(tabling.path, tmp_path / "nowhere" / NAME)
    with capture_logs() as logs:
        nowhere.save(0.0)
        nowhere.save(SAVE_EVERY_S)
    assert [entry["event"] for entry in logs] == ["cannot copy the score table"]


def test_a_published_copy_is_of_each_table(tabling: Tabling, tmp_path: Path) -> None:
    published = tmp_path / "run" / "score-table"
    saving = Saving(tabling.path, published, 0.0)
    saving.save(0.0)
    write_table(tabling.path, replace(read_table(tabling.path), version=7))
    saving.save(0.0)
    assert read_table(published).version == 7
