"""`cohabit admin database`, `token` and `audit`, as people type them, on both databases."""

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from advisor.database.engine import newest_version
from cohabit.cli.main import app
from cohabit.config.logs import set_up_logs


def cohabit(*words: str, **settings: str) -> tuple[int, str, str]:
    """Exit code, output and complaints of a command."""
    environment: dict[str, str | None] = {f"COHABIT_{name.upper()}": value for name, value in settings.items()}
    ran = CliRunner().invoke(app, words, env={"COLUMNS": "300", "TERM": "dumb", **environment})
    set_up_logs("DEBUG")  # what comes next must not log to a stream that was closed
    return ran.exit_code, ran.stdout, ran.stderr


def test_the_store_is_made_and_then_left_alone(empty_address: str) -> None:
    code, told, _ = cohabit("admin", "database", "migrate", database=empty_address)
    assert (code, f"made at version {newest_version()}" in told) == (0, True)

    code, told, _ = cohabit("admin", "database", "migrate", database=empty_address)
    assert (code, told.endswith(f": version {newest_version()}\n")) == (0, True)


def test_without_a_setting_the_store_is_beside_the_registry(tmp_path: Path) -> None:
    code, told, _ = cohabit("admin", "database", "migrate", registry=str(tmp_path / "registry"))

    assert code == 0
    assert (tmp_path / "store.sqlite").is_file()
    assert str(tmp_path / "store.sqlite") in told


def test_a_store_that_cannot_be_had_is_told_in_a_line() -> None:
    code, _, complaint = cohabit("admin", "database", "migrate", database="mysql://me:secret@db/x")

    assert code == 1
    assert "COHABIT_DATABASE is not a database URL" in complaint
    assert "secret" not in complaint


def made(store_address: str) -> str:
    cohabit("admin", "database", "migrate", database=store_address)
    return store_address


def test_a_token_is_printed_alone_listed_and_taken_back(store_address: str) -> None:
    store = made(store_address)

    code, told, beside = cohabit("admin", "token", "create", "ci", "--role", "sre", "--days", "7", database=store)
    assert code == 0
    assert re.fullmatch(r"chb_[0-9a-f]{12}_[0-9a-f]{64}\n", told)
    assert "ci, sre, until" in beside
    _, listed, _ = cohabit("admin", "token", "list", database=store)
    code, revoked, _ = cohabit("admin", "token", "revoke", "ci", database=store)
    _, relisted, _ = cohabit("admin", "token", "list", database=store)
    _, audit, _ = cohabit("admin", "audit", database=store)

    prefix = told.split("_")[1]
    assert (code, revoked) == (0, f"revoked ci ({prefix}, sre)\n")
    assert re.search(rf"ci .*{prefix} .*sre .*valid", listed)
    assert re.search(rf"ci .*{prefix} .*sre .*revoked", relisted)
    assert [line.split("\t")[3:6] for line in audit.splitlines()] == [
        ["token create", f"ci {prefix} as sre", "done"],
        ["token revoke", f"ci {prefix} as sre", "done"],
    ]
    assert told.split("_")[2].strip() not in beside + listed + relisted + audit


def test_the_audit_is_listed_from_a_day_on(tmp_path: Path) -> None:
    store = made(str(tmp_path / "store.sqlite"))
    cohabit("admin", "token", "create", "ci", "--role", "sre", database=store)

    assert len(cohabit("admin", "audit", "--since", "2020-01-01", database=store)[1].splitlines()) == 1
    assert cohabit("admin", "audit", "--since", "2999-01-01T00:00:00", database=store)[1] == ""


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("create", "ci", "--role", "root"), "unknown role 'root': choose one of scheduler"),
        (("create", "a b", "--role", "sre"), "invalid token name"),
        (("revoke", "nobody"), "cohabit admin token list"),
    ],
)
def test_what_does_not_fit_is_told_in_a_line(tmp_path: Path, words: tuple[str, ...], said: str) -> None:
    code, _, complaint = cohabit("admin", "token", *words, database=made(str(tmp_path / "store.sqlite")))

    assert (code, said in complaint) == (1, True)


def test_without_a_store_every_command_names_the_one_that_makes_it(tmp_path: Path) -> None:
    for words in ("token create ci --role sre", "token list", "token revoke x", "audit"):
        code, _, complaint = cohabit("admin", *words.split(), database=str(tmp_path / "none.sqlite"))

        assert (code, "run `cohabit admin database migrate`" in complaint) == (1, True)
