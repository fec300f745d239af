"""Backup: everything as one folder, checked, and back into either database with the same bytes."""

import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from sqlalchemy import Engine, select

from advisor.auth.audit_log import Entry
from advisor.billing.ledger import price_book_store as book_store
from advisor.billing.ledger import store as ledger_store
from advisor.billing.ledger.closing import Closing
from advisor.billing.pricing.price_book import HOUR_US
from advisor.database.dump import refuse_filled
from advisor.database.engine import METADATA, SESSIONS, open_store, reading, writing
from advisor.errors import AdvisorError, StoreAhead
from cohabit.backup.archive import MANIFEST, Places, back_up, back_up_once, restore, verify
from cohabit.billing.draft import draft_of
from cohabit.billing.statements.explain import explain
from cohabit.billing.statements.focus_export import export_focus
from cohabit.billing.statements.statements import write_statement
from cohabit.config.errors import CohabitError
from features.schema.tables import TABLES
from ingest.lake.tables import Lake
from tests.advisor.billing.billed import START_US
from tests.advisor.billing.metered_month import lake_of, pool_rows, price_book, rows
from tests.advisor.billing.months_drawn import ANN, BOB, NOW_US, PERIOD
from tests.advisor.plans.offices import Bureau, mixed
from tests.advisor.stores import migrated_store

ENTRY = Entry(0, "ann", "finance", "x", "y", "done", "r")
FOLDERS = ("lines", "plans", "registry", "lake")


def places_in(root: Path, store: Engine) -> Places:
    return Places("c", {name: root / name for name in FOLDERS}, store)


def quietly(_what: str, _done: int, _of: int) -> None:
    pass


def fill(places: Places) -> None:
    """A closed month, a proposal with an export, a bundle and a kept plan."""
    store, folders = places.store, places.folders
    lake = lake_of(folders["lake"], rows(), pool_rows())
    book_store.propose(store, price_book(), START_US - HOUR_US, ENTRY)
    book_store.approve(store, "2026-11", "bob", START_US - HOUR_US, ENTRY)
    closing, books = Closing(store, "c", lambda: NOW_US), book_store.books(store)
    draft = draft_of(lake, "c", PERIOD, books=books, folder=folders["lines"], progress=lambda *_: None)
    closing.close(PERIOD, closing.begin(draft, 0, ANN).digest, BOB)
    Bureau(store).put(mixed())
    for name, content in (
        ("registry/current", "one\n"),
        ("registry/one/model.onnx", "x"),
        ("plans/p1/rest.msgpack", "y"),
    ):
        path = folders["registry"].parent / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)


@pytest.fixture
def places(store_address: str, tmp_path: Path) -> Iterator[Places]:
    with open_store(store_address) as store:
        found = places_in(tmp_path / "site", store)
        fill(found)
        yield found


@dataclass(frozen=True)
class Told:
    """All that people and programs are told of a site."""

    statements: tuple[bytes, ...]
    proposals: tuple[object, ...]
    explained: dict[str, object]
    lake: dict[str, list[dict[str, object]]]
    store: dict[str, list[tuple[object, ...]]]


def told(places: Places, scratch: Path) -> Told:
    store, lines = places.store, places.folders["lines"]
    scratch.mkdir()
    for suffix in (".csv", ".html"):
        write_statement(store, "c", PERIOD, "shop", folder=lines, out=scratch / f"shop{suffix}")
    export_focus(store, "c", PERIOD, folder=lines, out=scratch / "focus.csv", grain="day", progress=lambda *_: None)
    batch = ledger_store.batches(store, "c", PERIOD)[0].batch
    lake = Lake.open(places.folders["lake"], TABLES)
    with reading(store) as connection:
        kept = {
            table.name: [tuple(row) for row in connection.execute(select(table).order_by(*table.primary_key.columns))]
            for table in METADATA.sorted_tables
            if table is not SESSIONS
        }
    return Told(
        tuple((scratch / name).read_bytes() for name in ("shop.csv", "shop.html", "focus.csv")),
        tuple(Bureau(store).desk.listed()),
        explain(store, "c", f"{batch.sha256[:12]}-0", lines).again,
        {name: lake.read(name).to_pylist() for name in TABLES},
        kept,
    )


def test_what_was_destroyed_comes_back_to_the_byte(places: Places, tmp_path: Path) -> None:
    """Lake, registry, plans, bills and store are gone; the new store is another file, or another kind of database."""
    before = told(places, tmp_path / "before")
    made = back_up(places, tmp_path / "backup", quietly)
    shutil.rmtree(tmp_path / "site")

    with open_store(str(tmp_path / "new.sqlite")) as store:
        again = places_in(tmp_path / "site", store)
        assert restore(again, tmp_path / "backup", quietly) == made
        after = told(again, tmp_path / "after")
        with writing(store) as connection:
            connection.execute(SESSIONS.delete())
        assert (tmp_path / "site" / "registry" / "current").read_text() == "one\n"
        assert (tmp_path / "site" / "plans" / "p1" / "rest.msgpack").read_text() == "y"

    assert after == before
    assert sum(len(rows) for rows in before.store.values()) > 10


def test_a_restored_store_numbers_on(places: Places, tmp_path: Path, store_address: str) -> None:
    back_up(places, tmp_path / "backup", quietly)
    before = Bureau(places.store).desk.listed()
    if places.store.dialect.name == "postgresql":
        with writing(places.store) as connection:
            for statement in ("DROP SCHEMA public CASCADE", "CREATE SCHEMA public"):
                connection.exec_driver_sql(statement)
    else:
        Path(store_address).unlink()
        places.store.dispose()

    restore(places_in(tmp_path / "new", places.store), tmp_path / "backup", quietly)
    Bureau(places.store).put(mixed("p2", victims=("other",)))

    assert {one.plan.plan for one in Bureau(places.store).desk.listed()} == {"p1", "p2"}
    assert len(before) == 1


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("filled")
    with migrated_store(folder / "store.sqlite") as store:
        fill(places_in(folder / "site", store))
    return folder


@pytest.fixture
def site(filled: Path, tmp_path: Path) -> Iterator[Places]:
    """A copy, which takes less long than to fill it."""
    shutil.copytree(filled, tmp_path, dirs_exist_ok=True)
    with open_store(str(tmp_path / "store.sqlite")) as store:
        yield places_in(tmp_path / "site", store)


def newest_entry(site: Places) -> Path:
    return max((site.folders["lake"] / "metered" / "_delta_log").glob("*.json"))


def test_a_backup_of_a_lake_with_a_torn_commit_is_whole(site: Places, tmp_path: Path) -> None:
    torn = newest_entry(site)
    torn.write_bytes(torn.read_bytes()[:-9])

    made = back_up(site, tmp_path / "backup", quietly)

    assert verify(tmp_path / "backup", quietly) == made


def test_a_lake_of_which_a_file_is_cut_is_not_backed_up(site: Places, tmp_path: Path) -> None:
    cut = next((site.folders["lake"] / "metered").rglob("*.parquet"))
    cut.write_bytes(b"x")

    with pytest.raises(CohabitError, match="has 1 bytes"):
        back_up(site, tmp_path / "backup", quietly)


def test_nothing_is_ever_overwritten(site: Places, tmp_path: Path) -> None:
    folder = tmp_path / "backup"
    back_up(site, folder, quietly)

    with pytest.raises(CohabitError, match="its files would be overwritten"):
        back_up(site, folder, quietly)
    with pytest.raises(CohabitError, match="lines is not empty"):
        restore(site, folder, quietly)
    with pytest.raises(AdvisorError, match="set COHABIT_DATABASE to an empty database"):
        restore(places_in(tmp_path / "new", site.store), folder, quietly)
    assert not (tmp_path / "new").exists()


def test_a_backup_is_made_once_however_often_and_half_of_one_begins_anew(site: Places, tmp_path: Path) -> None:
    folder, half = tmp_path / "2026-11-24", tmp_path / ".2026-11-24.unfinished"
    (half / "store").mkdir(parents=True)
    (half / "store" / "tokens.parquet").write_bytes(b"half")

    first = back_up_once(site, folder, quietly)
    again = back_up_once(site, folder, quietly)

    assert again == first == verify(folder, quietly)
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter").write_text("x")
    with pytest.raises(CohabitError, match="its files would be overwritten"):
        back_up_once(site, tmp_path / "mine", quietly)


@pytest.mark.parametrize("damage", ["changed", "gone", "outside"])
def test_a_damaged_backup_restores_nothing(site: Places, tmp_path: Path, damage: str) -> None:
    folder = tmp_path / "backup"
    made = back_up(site, folder, quietly)
    path = next(path for path in made.files if path.startswith("lines/"))
    if damage == "changed":
        (folder / path).write_bytes(b"x" * made.files[path].size)
    elif damage == "gone":
        (folder / path).unlink()
    else:
        facts = json.loads((folder / MANIFEST).read_text())
        facts["files"]["../site/registry/current"] = facts["files"]["registry/current"]
        (folder / MANIFEST).write_text(json.dumps(facts))

    with open_store(str(tmp_path / "new.sqlite")) as store, pytest.raises(CohabitError, match="1 files of the backup"):
        restore(places_in(tmp_path / "new", store), folder, quietly)
    assert not (tmp_path / "new.sqlite").exists()


@pytest.mark.parametrize("path", ["lines/\0", "x" * 5000, "lake/../registry/current"])
def test_a_path_that_no_file_can_have_is_a_missing_file(site: Places, tmp_path: Path, path: str) -> None:
    folder = tmp_path / "backup"
    back_up(site, folder, quietly)
    facts = json.loads((folder / MANIFEST).read_text())
    facts["files"][path] = facts["files"]["registry/current"]
    (folder / MANIFEST).write_text(json.dumps(facts))

    with pytest.raises(CohabitError, match="1 files of the backup"):
        verify(folder, quietly)


@pytest.mark.parametrize("manifest", [None, "{", '{"format": 2}', '{"x":' + "[" * 5000, "newer"])
def test_a_folder_without_a_whole_manifest_is_no_backup(site: Places, tmp_path: Path, manifest: str | None) -> None:
    folder = tmp_path / "backup"
    back_up(site, folder, quietly)
    whole = (folder / MANIFEST).read_text()
    if manifest is None:
        (folder / MANIFEST).unlink()
    else:
        (folder / MANIFEST).write_text(whole.replace('"format": 2', '"format": 3') if manifest == "newer" else manifest)

    with pytest.raises(CohabitError, match="is not a complete backup"):
        verify(folder, quietly)


def test_a_store_of_a_newer_version_is_not_restored(site: Places, tmp_path: Path) -> None:
    folder = tmp_path / "backup"
    made = back_up(site, folder, quietly)
    text = (folder / MANIFEST).read_text()
    (folder / MANIFEST).write_text(text.replace(f'"store_version": "{made.store_version}"', '"store_version": "9999"'))

    with open_store(str(tmp_path / "new.sqlite")) as store, pytest.raises(StoreAhead, match="upgrade Cohabit"):
        restore(places_in(tmp_path / "new", store), folder, quietly)
    assert list((tmp_path / "new").iterdir()) == []


def test_a_backup_without_all_tables_of_the_store_restores_nothing(site: Places, tmp_path: Path) -> None:
    folder = tmp_path / "backup"
    back_up(site, folder, quietly)
    facts = json.loads((folder / MANIFEST).read_text())
    del facts["files"]["store/tokens.parquet"]
    (folder / MANIFEST).write_text(json.dumps(facts))
    (folder / "store" / "tokens.parquet").unlink()

    with open_store(str(tmp_path / "new.sqlite")) as store:
        with pytest.raises(AdvisorError, match="lacks database tables tokens"):
            restore(places_in(tmp_path / "new", store), folder, quietly)
        assert list((tmp_path / "new").iterdir()) == []
        refuse_filled(store)


def test_what_became_of_models_comes_back_and_what_was_being_written_does_not(site: Places, tmp_path: Path) -> None:
    registry, folder = site.folders["registry"], tmp_path / "backup"
    kept = {".history.jsonl": "{}\n", ".drift.json": "{}", ".skew.json": "{}", ".verdicts/one.json": "{}"}
    half = {f".current.{'0a' * 16}": "one\n", f".one.{'1b' * 16}/model.onnx": "half", ".lock": ""}
    for name, content in {**kept, **half}.items():
        (registry / name).parent.mkdir(exist_ok=True)
        (registry / name).write_text(content)
    back_up(site, folder, quietly)

    with open_store(str(tmp_path / "new.sqlite")) as store:
        again = places_in(tmp_path / "new", store)
        restore(again, folder, quietly)
        there = {path.relative_to(again.folders["registry"]).as_posix() for path in files_below(again, "registry")}
    assert there == {"current", "one/model.onnx", *kept}


def files_below(places: Places, name: str) -> list[Path]:
    return [path for path in places.folders[name].rglob("*") if path.is_file()]


def test_nothing_that_the_backup_does_not_list_is_restored(site: Places, tmp_path: Path) -> None:
    folder = tmp_path / "backup"
    back_up(site, folder, quietly)
    (folder / "registry" / "evil").mkdir()
    (folder / "registry" / "evil" / "manifest.json").write_text("{}")

    with open_store(str(tmp_path / "new.sqlite")) as store:
        again = places_in(tmp_path / "new", store)
        restore(again, folder, quietly)
        assert not (again.folders["registry"] / "evil").exists()


def test_a_folder_that_is_not_there_yet_is_an_empty_one(site: Places, tmp_path: Path) -> None:
    shutil.rmtree(site.folders["plans"])

    made = back_up(site, tmp_path / "backup", quietly)

    assert made == verify(tmp_path / "backup", quietly)
    assert not any(path.startswith("plans/") for path in made.files)


def test_a_link_is_refused_before_a_backup_lacks_what_it_leads_to(site: Places, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (site.folders["registry"] / "two").symlink_to(tmp_path / "elsewhere")

    with pytest.raises(CohabitError, match="two is a symbolic link, which a backup does not include"):
        back_up(site, tmp_path / "backup", quietly)
    assert not (tmp_path / "backup" / MANIFEST).exists()


def test_a_folder_that_is_reached_by_a_link_is_filled_where_it_lies(site: Places, tmp_path: Path) -> None:
    back_up(site, tmp_path / "backup", quietly)
    (tmp_path / "disk" / "registry").mkdir(parents=True)
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "registry").symlink_to(tmp_path / "disk" / "registry")

    with open_store(str(tmp_path / "new.sqlite")) as store:
        restore(places_in(tmp_path / "new", store), tmp_path / "backup", quietly)
    assert (tmp_path / "disk" / "registry" / "current").read_text() == "one\n"


@pytest.mark.parametrize("comes_back", [True, False])
def test_a_lake_that_changes_meanwhile_is_copied_again(site: Places, tmp_path: Path, *, comes_back: bool) -> None:
    """Compaction takes files away; what says that they count was copied before."""
    folder, away = tmp_path / "backup", tmp_path / "away"
    first = Path(Lake.open(site.folders["lake"], TABLES).files("metered")[0])

    def lose(what: str, _done: int, _of: int) -> None:
        if what == "lines" and first.exists():
            first.rename(away)
        if what == "lake" and comes_back and away.exists():
            away.rename(first)

    if comes_back:
        back_up(site, folder, lose)
        assert any(path.endswith(first.name) for path in verify(folder, quietly).files)
    else:
        with pytest.raises(CohabitError, match="during each of 3 attempts"):
            back_up(site, folder, lose)
        assert not (folder / MANIFEST).exists()
