"""Help reads well on a terminal of any width, and the version is told."""

import subprocess
import sys
import tomllib
from itertools import pairwise
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from cohabit.cli.main import app
from cohabit.reference.commands import commands

ROOT = Path(__file__).parents[3]
COMMANDS = [(), *(words for words, _ in commands(typer.main.get_command(app)))]
WIDTH = 80


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_a_line_of_help_ends_where_the_next_word_has_no_room(words: tuple[str, ...]) -> None:
    told = CliRunner().invoke(app, [*words, "--help"], env={"COLUMNS": str(WIDTH), "TERM": "dumb"}).stdout
    prose = [line.strip() for line in told.split("╭", 1)[0].splitlines()]

    assert len([line for line in prose if line]) > 1, "usage, and what it is for"
    for line, after in pairwise(prose):
        if line and after:
            assert len(f" {line} {after.split()[0]} ") > WIDTH, line


def test_the_version_is_that_of_the_project() -> None:
    told = CliRunner().invoke(app, ["--version"])

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert (told.exit_code, told.stdout) == (0, f"cohabit {project['version']}\n")


def test_kubectl_finds_the_same_program_under_its_own_name() -> None:
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]

    assert scripts["kubectl-cohabit"] == scripts["cohabit"] == "cohabit.__main__:main"


@pytest.mark.parametrize(
    ("program", "usage"),
    [("cohabit", "cohabit lake check"), ("kubectl-cohabit", "kubectl cohabit lake check")],
)
def test_usage_names_the_command_that_was_typed(program: str, usage: str) -> None:
    typed = f"import sys; sys.argv = ['/bin/{program}', 'lake', 'check', '--help']"
    typed += "; from cohabit.__main__ import main; main()"
    shown = subprocess.run([sys.executable, "-c", typed], capture_output=True, text=True, check=True).stdout

    assert f"Usage: {usage} [OPTIONS]" in shown
