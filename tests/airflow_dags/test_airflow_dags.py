"""DAGs as text: what they import, and that every command line of theirs is one that `cohabit` takes. No Airflow."""

import ast
import json
import shlex
import subprocess
import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import cohabit_commands
import pytest
from cohabit_commands import APPROVED, HEAVY, LIGHT, RETENTION, Command, bash_line
from jinja2 import Environment, StrictUndefined
from typer._click.exceptions import UsageError
from typer.main import get_command

from cohabit.cli.bill.close import NOT_CLOSED
from cohabit.cli.main import app
from cohabit.config.settings import read_settings

ROOT = Path(__file__).parents[2]
DAGS = ROOT / "airflow_dags"
ALLOWED = ("airflow.sdk", "airflow.providers.standard")
OWN = ("cohabit_commands", "cohabit_tasks")
NEVER = {"--confirm", "approve", "approve-book", "reject", "export", "token", "--force", "restore"}
"""What a person decides."""


def groups() -> Iterator[tuple[str, dict[str, Command]]]:
    for name, value in vars(cohabit_commands).items():
        if isinstance(value, dict) and not name.startswith("_"):
            yield name, value


COMMANDS = {f"{group}.{name}": command for group, of in groups() for name, command in of.items()} | {
    "APPROVED": APPROVED
}


def rendered(words: Sequence[str], **variables: str) -> list[str]:
    """The words after `cohabit` that bash makes of a line, with the interval of a day."""
    start = datetime(2026, 3, 2, 3, tzinfo=UTC)
    engine = Environment(undefined=StrictUndefined, autoescape=False)  # noqa: S701 - as Airflow does
    engine.filters |= {
        "quote": shlex.quote,
        "ds": lambda moment: f"{moment:%Y-%m-%d}",
        "ds_nodash": lambda moment: f"{moment:%Y%m%d}",
    }
    told = {"cohabit_backups": "/data/backups", "cohabit_reports": "/data/reports"} | variables
    line = engine.from_string(bash_line(tuple(words))).render(
        data_interval_start=start,
        data_interval_end=start + timedelta(days=1),
        var={"value": told},
    )
    return shlex.split(line)[2:]


def parse(words: Sequence[str]) -> list[str]:
    """Names of the command that the words call, by the very parser that `cohabit` has; nothing is run.

    Raises:
        UsageError: it does not take them.
    """
    command, context, names, rest = get_command(app), None, list[str](), list(words)
    while True:
        context = command.make_context(names[-1] if names else "cohabit", rest, parent=context)
        if not hasattr(command, "resolve_command"):
            return names
        name, command, rest = command.resolve_command(context, [*context._protected_args, *context.args])
        names.append(str(name))


def imported(path: Path) -> set[str]:
    found = set[str]()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add("." * node.level + (node.module or ""))
    return found


def is_allowed(module: str, own: Sequence[str]) -> bool:
    in_airflow = any(module == name or module.startswith(f"{name}.") for name in ALLOWED)
    return in_airflow or module in own or module.partition(".")[0] in sys.stdlib_module_names


@pytest.mark.parametrize("path", sorted(DAGS.glob("*.py")), ids=lambda path: path.name)
def test_dags_import_neither_our_packages_nor_anything_else_than_airflow(path: Path) -> None:
    assert [module for module in imported(path) if not is_allowed(module, OWN)] == []


def test_commands_are_data_that_need_nothing() -> None:
    assert all(module in sys.stdlib_module_names for module in imported(DAGS / "cohabit_commands.py"))


@pytest.mark.parametrize("module", ["cohabit.cli.main", "advisor", "airflow.models", "pyspark", ".hourly"])
def test_a_forbidden_import_is_found(module: str) -> None:
    assert not is_allowed(module, OWN)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_line_is_one_that_cohabit_takes(name: str) -> None:
    command = COMMANDS[name]

    names = parse(rendered(command.words))

    assert names == list(command.words[: len(names)])
    assert command.about
    assert command.minutes > 0
    assert command.retries > 0
    assert command.pool in (HEAVY, LIGHT)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("feature",), "No such command"),
        (("bill", "metre"), "No such command"),
        (("lake", "compact", "--older"), "No such option"),
        (("lake", "expire", "--before", "{{ data_interval_end }}", "--yes"), "Invalid value for '--before'"),
        (("bill", "closed"), "Missing option"),
        (("admin", "backup", "verify"), "Missing argument"),
        (("admin", "backup", "verify", "a", "b"), "Got unexpected extra argument"),
    ],
)
def test_a_wrong_command_line_is_found(words: tuple[str, ...], says: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse(rendered(words))

    assert says in str(caught.value.format_message()).capitalize()


@pytest.mark.parametrize("kept", ["", " ", "0", "-5", "2y", "800 days", "29", "1e3", "99999", "{{ 800 }}"])
@pytest.mark.parametrize(
    ("task", "variable"), [("expire", "cohabit_keep_days"), ("expire_raw", "cohabit_keep_raw_days")]
)
def test_what_is_no_number_of_days_lets_nothing_go(task: str, variable: str, kept: str) -> None:
    with pytest.raises(UsageError, match=r"integer|equal to"):
        parse(rendered(RETENTION[task].words, **{variable: kept}))


def test_what_a_person_decides_no_dag_does() -> None:
    assert {word for command in COMMANDS.values() for word in command.words} & NEVER == set()


@pytest.mark.parametrize("nasty", ["a b", "it's", '"$(touch x)"', "`id`", "a;b", "{{ 1 }}", "*", "-", "ä\n"])
def test_whatever_a_variable_holds_stays_one_word(nasty: str) -> None:
    words = rendered(("admin", "backup", "verify", "{{ var.value.cohabit_backups }}/x"), cohabit_backups=nasty)

    assert words == ["admin", "backup", "verify", f"{nasty}/x"]


@pytest.mark.parametrize("folder", [None, "with a folder"])
def test_the_line_runs_the_command_in_the_place_of_the_shell(tmp_path: Path, folder: str | None) -> None:
    """From COHABIT_BIN, whatever is in its name, else from PATH; with the words as they are."""
    place = tmp_path / (folder or "elsewhere")
    place.mkdir()
    program = place / "cohabit"
    program.write_text('#!/bin/sh\necho $$; printf "%s\\n" "$@"\n')
    program.chmod(0o755)
    env = {"COHABIT_BIN": str(place)} if folder else {"PATH": f"{place}:/usr/bin:/bin"}
    line = bash_line(("admin", "backup", "make", "it's $HOME"))

    with subprocess.Popen(["/bin/bash", "-c", line], env=env, stdout=subprocess.PIPE, text=True) as process:
        told, _ = process.communicate()

    assert told.splitlines() == [str(process.pid), "admin", "backup", "make", "it's $HOME"]


def test_a_month_is_waited_for_by_the_exit_code_that_says_so() -> None:
    assert cohabit_commands.NOT_CLOSED == NOT_CLOSED not in (0, 1, 2)


def test_variables_of_airflow_are_no_settings() -> None:
    names = ("COHABIT_BIN", "COHABIT_DAGS_SINCE", "COHABIT_DAGS_RETRY_S", "COHABIT_DAGS_ASK_S")

    assert read_settings(dict.fromkeys(names, "x")) == read_settings({})


def test_pools_that_are_imported_are_those_that_tasks_take() -> None:
    pools = json.loads((DAGS / "pools.json").read_text())

    assert set(pools) == {HEAVY, LIGHT} == {command.pool for command in COMMANDS.values()}
    assert pools[HEAVY]["slots"] == 1
