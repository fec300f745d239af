"""Configuration: every setting is told and documented, no secret is given away, production refuses what is unsafe."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from cohabit.cli.main import app
from cohabit.config.describe import as_markdown, sections
from cohabit.config.errors import BadSettings
from cohabit.config.settings import Settings, read_settings
from cohabit.doctor.settings_checks import findings

DOCS = Path(__file__).parents[3] / "docs" / "settings.md"
SAFE = {
    "COHABIT_ENVIRONMENT": "production",
    "COHABIT_CLUSTER": "blue",
    "COHABIT_ADVISOR__AUTH": "token",
    **{f"COHABIT_{name}": f"/data/{name.lower()}" for name in ("LAKE", "REGISTRY", "SNAPSHOTS", "BILLING__LEDGER_DIR")},
}


def test_the_page_of_settings_is_what_the_model_says() -> None:
    assert DOCS.read_text() == as_markdown(sections(Settings(), {})), (
        "cohabit admin config reference > docs/settings.md"
    )


def test_every_setting_says_what_it_means() -> None:
    found = [one for section in sections(Settings(), {}) for one in section.settings]

    assert len(found) > 50
    assert [one.name for one in found if not one.meaning] == []


def test_what_the_environment_says_is_told_apart_from_defaults_and_secrets_are_left_out() -> None:
    given = {
        "COHABIT_DATABASE": "postgresql://cohabit:hunter2@db:5432/cohabit",
        "COHABIT_PLANS__WEBHOOK": "https://hooks.example/T0/secret",
        "COHABIT_PLANS__CHANGE_WINDOWS": "mon-thu 09:00-16:00",
        "COHABIT_KAFKA__GROUP": "mine",
    }

    found = {one.name: one for section in sections(read_settings(given), given) for one in section.settings}

    assert {name for name, one in found.items() if one.given} == set(given)
    assert found["COHABIT_DATABASE"].value == "postgresql://cohabit:***@db:5432/cohabit"
    assert found["COHABIT_PLANS__WEBHOOK"].value == "https://hooks.example/***"
    assert found["COHABIT_PLANS__CHANGE_WINDOWS"].value == "mon-thu 09:00-16:00"
    assert (found["COHABIT_KAFKA__GROUP"].value, found["COHABIT_KAFKA__GROUP"].default) == ("mine", "cohabit-ingest")


@pytest.mark.parametrize(
    ("name", "given", "shown"),
    [
        ("DATABASE", "postgresql://h/db?user=u&password=hunter2", "postgresql://h/db?***"),
        ("DATABASE", "postgresql://u:se]hunter2@h/db", "postgresql://u:***@h/db"),
        ("DATABASE", "postgresql://u:a@hunter2@h/db", "postgresql://u:***@h/db"),
        ("DATABASE", "postgresql://u:hun/ter2@h/db", "postgresql://***"),
        ("DATABASE", "postgresql://h/db?password=a@hunter2", "postgresql://***"),
        ("DATABASE", "/data/store.sqlite", "/data/store.sqlite"),
        ("BUDGETS__WEBHOOK", "https://hooks.example?token=hunter2", "https://hooks.example/***"),
        ("BUDGETS__WEBHOOK", "https://hooks.example/T0#hunter2", "https://hooks.example/***"),
    ],
)
def test_however_an_address_is_written_what_lets_one_in_is_left_out(name: str, given: str, shown: str) -> None:
    environment = {f"COHABIT_{name}": given}

    found = {one.name: one for section in sections(read_settings(environment), environment) for one in section.settings}

    assert found[f"COHABIT_{name}"].value == shown


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("COHABIT_BUDGETS__WEBHOOK", "http://hooks.example/T0/hunter2"),
        ("COHABIT_PLANS__WEBHOOK", "https://hooks.example/T0/ hunter2"),
        ("COHABIT_STORE__URL", "hunter2"),
    ],
)
def test_what_is_wrong_with_a_secret_is_told_without_it(name: str, value: str) -> None:
    with pytest.raises(BadSettings, match=name.rpartition("__")[0]) as caught:
        read_settings({name: value})

    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"COHABIT_ADVISOR__AUTH": "none"}, "set COHABIT_ADVISOR__AUTH=token"),
        ({"COHABIT_CLUSTER": "default"}, "set COHABIT_CLUSTER"),
        ({"COHABIT_LAKE": "data/lake"}, "set COHABIT_LAKE to an absolute path"),
        ({"COHABIT_BILLING__LEDGER_DIR": "lines"}, "set COHABIT_BILLING__LEDGER_DIR to an absolute path"),
    ],
)
def test_production_refuses_what_is_unsafe(changes: dict[str, str], says: str) -> None:
    assert read_settings(SAFE).environment == "production"
    assert read_settings({**SAFE, **changes, "COHABIT_ENVIRONMENT": "development"})

    with pytest.raises(BadSettings, match=says):
        read_settings({**SAFE, **changes})


def own(tmp_path: Path, **changes: str) -> Settings:
    folders = {
        f"COHABIT_{name}": str(tmp_path / name) for name in ("LAKE", "REGISTRY", "SNAPSHOTS", "BILLING__LEDGER_DIR")
    }
    return read_settings({**folders, **changes})


def test_what_does_not_work_is_told_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    given = own(
        tmp_path,
        COHABIT_BILLING__LEDGER_DIR=str(tmp_path / "file" / "x"),
        COHABIT_KAFKA__BOOTSTRAP="127.0.0.1:1,nowhere",
    )

    found = {(one.level, one.subject): one.said for one in findings(given)}

    assert found["problem", "COHABIT_BILLING__LEDGER_DIR"] == f"{tmp_path / 'file'} is no folder: name another"
    assert "run `cohabit admin database migrate`" in found["problem", "COHABIT_DATABASE"]
    assert "`cohabit model train`" in found["warning", "model"]
    assert "does not answer" in found["warning", "COHABIT_KAFKA__BOOTSTRAP"]
    assert found["problem", "COHABIT_KAFKA__BOOTSTRAP"] == "nowhere is no host:port"
    assert found["ok", "COHABIT_LAKE"].endswith("made when needed")
    assert not (tmp_path / "LAKE").exists(), "nothing is written"


@pytest.mark.parametrize(
    ("name", "value", "subject"),
    [
        ("COHABIT_SIGNING__KEY", "/no/such", "COHABIT_SIGNING__KEY"),
        ("COHABIT_MAPPING", "/no/such", "COHABIT_MAPPING"),
        ("COHABIT_SIGNING__TRUSTED_KEYS", "/no/such", "model"),
        ("COHABIT_KAFKA__BOOTSTRAP", "127.0.0.1:99999", "COHABIT_KAFKA__BOOTSTRAP"),
    ],
)
def test_each_thing_that_is_named_is_looked_at_and_none_ends_the_others(
    tmp_path: Path, name: str, value: str, subject: str
) -> None:
    found = [(one.level, one.subject) for one in findings(own(tmp_path, **{name: value}))]

    assert ("problem", subject) in found
    assert {subject for _, subject in found} >= {"COHABIT_DATABASE", "model", "COHABIT_KAFKA__BOOTSTRAP"}


def test_commands_show_and_check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    run = CliRunner()

    shown, checked = run.invoke(app, ["admin", "config", "show"]), run.invoke(app, ["admin", "config", "check"])
    assert (shown.exit_code, checked.exit_code) == (0, 1)
    assert "COHABIT_KAFKA__BOOTSTRAP" in shown.output
    assert "1 problems" in checked.output
    assert run.invoke(app, ["admin", "config", "reference"]).output == DOCS.read_text()
    assert run.invoke(app, ["admin", "database", "migrate"]).exit_code == 0
    assert run.invoke(app, ["admin", "config", "check"]).exit_code == 0
