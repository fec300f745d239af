"""Serving and help stay light: nothing that trains, streams or plots is imported by them."""

import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = {
    "alembic",
    "duckdb",
    "highspy",
    "kafka",
    "kubernetes",
    "lightgbm",
    "matplotlib",
    "numba",
    "onnx",
    "ortools",
    "pandas",
    "polars",
    "pyspark",
    "scipy",
    "sklearn",
}
MODULES = [
    "cohabit.config.settings",
    "cohabit.cli.main",
    "cohabit.server.main",
    "cohabit.server.score_table_process",
    "advisor.api.app",
    "advisor.placement.model_state",
    "advisor.scoring.loaded_model",
    "advisor.database.engine",
]
HELP = """
import runpy, sys
sys.argv = ["cohabit", *{arguments}]
try:
    runpy.run_module("cohabit", run_name="__main__")
except SystemExit as end:
    assert not end.code, end.code
"""


def imported_by(code: str) -> set[str]:
    """Top-level modules in a fresh interpreter after the code has run."""
    ending = "\nimport sys; print('modules:', *sys.modules)"
    done = subprocess.run([sys.executable, "-c", code + ending], capture_output=True, check=False, text=True)
    assert done.returncode == 0, done.stderr
    listed = done.stdout.splitlines()[-1].removeprefix("modules: ").split()
    return {name.partition(".")[0] for name in listed}


def test_a_lake_does_without_pandas_though_it_is_there() -> None:
    assert "pandas" not in imported_by("import ingest.lake.tables, pyarrow; pyarrow.array([1.0])")


def test_whoever_imports_pandas_later_gets_it() -> None:
    assert "pandas" in imported_by(
        "import ingest.lake.tables, pandas; assert len(pandas.DataFrame({'a': [1, 2]})) == 2"
    )


def test_importing_them_imports_nothing_heavy() -> None:
    assert not imported_by(f"import {', '.join(MODULES)}") & HEAVY


def test_processes_that_a_command_starts_do_without_the_commands() -> None:
    assert not imported_by("import cohabit.__main__") & {"typer", "pydantic", "rich"}


def test_the_version_is_printed_without_the_commands() -> None:
    printed = "import sys; sys.argv = ['cohabit', '--version']; from cohabit.__main__ import main; main()"

    assert not imported_by(printed) & {"typer", "pydantic", "rich"}


def test_workers_that_answer_schedulers_load_no_database_and_no_pages() -> None:
    assert not imported_by("import cohabit.server.workers") & (HEAVY | {"sqlalchemy", "psycopg", "jinja2"})


def test_help_imports_nothing_heavy_and_no_server() -> None:
    asked = [["--help"], ["serve", "--help"], ["demo", "--help"], ["watch", "--help"], ["dev", "import", "--help"]]

    found = imported_by("\n".join(HELP.format(arguments=arguments) for arguments in asked))

    assert "typer" in found
    assert not found & (HEAVY | {"fastapi", "onnxruntime", "uvicorn", "pyarrow", "numpy"})


@pytest.mark.parametrize("name", ["ingest", "features", "models", "advisor"])
def test_a_package_of_the_same_name_in_the_folder_is_named_or_does_no_harm(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    (tmp_path / name / "__init__.py").write_text("")

    def run(*words: str) -> tuple[int, str]:
        done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout + done.stderr

    assert run(str(Path(sys.executable).parent / "cohabit"), "--version")[0] == 0
    assert run(sys.executable, "-c", "import cohabit")[0] == 0
    code, said = run(sys.executable, "-m", "cohabit", "--version")
    assert code == 1
    assert f"{tmp_path} holds a package named {name!r}" in " ".join(said.split())
