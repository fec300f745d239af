"""`cohabit store`, `token` and `audit`, as people type them, on both databases."""

from pathlib import Path

from typer.testing import CliRunner

from cohabit.cli import app


def cohabit(*words: str, **settings: str) -> tuple[int, str, str]:
    """Exit code, output and complaints of a command."""
    environment: dict[str, str | None] = {f"COHABIT_{name.upper()}": value for name, value in settings.items()}
    ran = CliRunner().invoke(app, words, env={"COLUMNS": "300", "TERM": "dumb", **environment})
    return ran.exit_code, ran.stdout, ran.stderr


def test_the_store_is_made_and_then_left_alone(store_address: str) -> None:
    code, told, _ = cohabit("store", "migrate", store=store_address)
    assert (code, "made at version 0001" in told) == (0, True)

    code, told, _ = cohabit("store", "migrate", store=store_address)
    assert (code, told.endswith(": version 0001\n")) == (0, True)


def test_without_a_setting_the_store_is_beside_the_registry(tmp_path: Path) -> None:
    code, told, _ = cohabit("store", "migrate", registry=str(tmp_path / "registry"))

    assert code == 0
    assert (tmp_path / "store.sqlite").is_file()
    assert str(tmp_path / "store.sqlite") in told


def test_a_store_that_cannot_be_had_is_told_in_a_line() -> None:
    code, _, complaint = cohabit("store", "migrate", store="mysql://me:secret@db/x")

    assert code == 1
    assert "COHABIT_STORE is no address of a store" in complaint
    assert "secret" not in complaint
