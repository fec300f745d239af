"""Renamed: the page is what the table says, every new command is there, and no old one is."""

import importlib.util
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cohabit.cli.main import app

ROOT = Path(__file__).parents[2]
spec = importlib.util.spec_from_file_location("renamed_page", ROOT / "scripts" / "renamed_page.py")
assert spec is not None
assert spec.loader is not None
renamed_page = importlib.util.module_from_spec(spec)
spec.loader.exec_module(renamed_page)
COMMANDS = [one for one in renamed_page.renames() if one.scope == "command" and "PLAN" not in one.old]


def test_the_page_is_what_the_table_says() -> None:
    assert (ROOT / "docs" / "renamed.md").read_text() == "\n".join(renamed_page.page()) + "\n"


@pytest.mark.parametrize("new", sorted({one.new for one in COMMANDS}))
def test_every_new_command_has_help(new: str) -> None:
    assert CliRunner().invoke(app, [*new.split(), "--help"]).exit_code == 0


@pytest.mark.parametrize("old", sorted({one.old for one in COMMANDS}))
def test_no_old_command_is_accepted(old: str) -> None:
    assert CliRunner().invoke(app, [*old.split(), "--help"]).exit_code == 2


def test_every_module_that_was_moved_is_where_the_table_says() -> None:
    moved = [one.new for one in renamed_page.renames() if one.scope == "module"]

    assert [name for name in moved if not (ROOT / f"{name.replace('.', '/')}.py").exists()] == []
