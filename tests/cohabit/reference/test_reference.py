"""Reference pages are what the code says, and leave nothing out that the code has."""

import re
from pathlib import Path

import pytest
import typer
from pydantic import BaseModel

from advisor.api.http.roles import roles_of
from cohabit.cli.main import app
from cohabit.config.settings import Settings
from cohabit.reference.commands import commands
from cohabit.reference.exported import exported
from cohabit.reference.pages import PAGES
from cohabit.reference.routes import listeners
from features.schema.catalog import FEATURE_NAMES
from features.schema.tables import TABLES
from features.training.diagnosis_rows import DIAGNOSIS_NAMES
from ingest.schema.tables import LAKE_OWN
from ingest.schema.topics import TOPICS

ROOT = Path(__file__).parents[3]
CODE = [path for name in ("ingest", "features", "models", "advisor", "cohabit") for path in (ROOT / name).rglob("*.py")]


def text(name: str) -> str:
    return (ROOT / "docs" / name).read_text()


@pytest.mark.parametrize("name", PAGES)
def test_the_page_is_what_the_code_says(name: str) -> None:
    assert text(name) == PAGES[name](typer.main.get_command(app)), "make reference"


def test_every_command_and_each_of_its_options_is_there() -> None:
    page = text("reference/cli.md")
    found = list(commands(typer.main.get_command(app)))
    sections = dict(re.findall(r"^#+ (cohabit .+?)\n(.*?)(?=^#|\Z)", page, flags=re.MULTILINE | re.DOTALL))

    assert sections.keys() == {f"cohabit {' '.join(words)}" for words, _ in found}
    assert len(found) > 70
    for words, of in found:
        section = sections[f"cohabit {' '.join(words)}"]
        if not getattr(of, "commands", None):
            options = [one for param in of.params for one in param.opts if one.startswith("--")]
            assert all(f"`{one}" in section for one in options if one != "--help"), words
            assert of.help.split("\n\n", 1)[0].split()[0] in section


def test_every_route_is_there_with_who_may() -> None:
    page = text("reference/api.md")

    for listener in listeners().values():
        for route, who in roles_of(listener).items():
            assert f"| `{route}` | {', '.join(who)} |" in page
            assert f"### {route}\n" in page or "openapi.json" in route


def test_every_metric_that_the_code_names_is_there() -> None:
    named = re.compile(
        r'(?:Counter|Gauge|Histogram)\(\s*"(cohabit_\w+)"|^\s+name, what = "(cohabit_\w+)"', re.MULTILINE
    )
    in_code = {"".join(found) for path in CODE for found in named.findall(path.read_text())}
    known = [one for found in exported().values() for one in found]

    assert {one.name for one in known} == in_code
    assert len(known) == len(in_code) > 30
    assert [one.name for one in known if not one.meaning] == []
    page = text("reference/metrics.md")
    assert all(f"| `{one.name}{'_total' * (one.kind == 'counter')}` | {one.kind} |" in page for one in known)


def test_every_table_topic_column_and_feature_is_there_with_its_meaning() -> None:
    tables, features = text("reference/tables.md"), text("reference/features.md")

    every = {**TABLES, **LAKE_OWN}
    assert re.findall(r"^## (\w+)$", tables, flags=re.MULTILINE)[1:] == list(every)
    assert all(f"| `{name}` |" in tables for name in TOPICS)
    for of in every.values():
        assert of.meaning
        section = tables.split(f"\n## {of.name}\n")[1].split("\n## ")[0]
        assert re.findall(r"^\| `(\w+)` \|", section, flags=re.MULTILINE) == [one.name for one in of.columns]
    assert re.findall(r"^\| `(\w+)` \|", features, flags=re.MULTILINE) == [*FEATURE_NAMES, *DIAGNOSIS_NAMES]
    assert not re.findall(r"\| – \|$", tables, flags=re.MULTILINE)
    assert not re.findall(r"\| – \| [^|]+\|$", features, flags=re.MULTILINE)


def test_every_setting_is_there() -> None:
    page = text("settings.md")
    branches = {name: getattr(Settings(), name) for name in Settings.model_fields}
    names = [name.upper() for name, of in branches.items() if not isinstance(of, BaseModel)]
    names += [
        f"{name}__{one}".upper() for name, of in branches.items() if isinstance(of, BaseModel) for one in
        type(of).model_fields
    ]  # fmt: skip

    assert [name for name in names if f"`COHABIT_{name}`" not in page] == []
