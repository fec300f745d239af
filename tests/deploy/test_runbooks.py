"""Runbooks: every alert leads to a page that says what it means and what to do, by commands and metrics that exist."""

import re
from pathlib import Path

import pytest
import yaml

from tests.deploy.checks import refusal
from tests.deploy.test_deploy import DEPLOY, alerts, exported

FOLDER = DEPLOY.parent / "docs" / "runbooks"
INDEX = (FOLDER / "index.md").read_text()
PAGES = sorted(FOLDER.glob("Cohabit*.md"))
HEADINGS = ["Meaning", "Impact", "Diagnosis", "Mitigation"]


def commands(page: str) -> set[tuple[str, ...]]:
    """Commands of ours that a page names, in blocks and in sentences."""
    lines = [line for block in re.findall(r"```sh\n(.*?)```", page, re.DOTALL) for line in block.splitlines()]
    spans = re.findall(r"`(cohabit [^`]+)`", re.sub(r"```.*?```", "", page, flags=re.DOTALL))
    named = [line.split(" #")[0] for line in lines if line.startswith("cohabit ")]
    return {tuple(words.split()[1:]) for words in [*named, *spans]}


def test_every_alert_has_the_path_of_its_page() -> None:
    assert {rule["alert"]: rule["annotations"]["runbook_url"] for rule in alerts()} == {
        page.stem: f"runbooks/{page.stem}.html" for page in PAGES
    }


def test_the_index_lists_every_alert_with_its_severity() -> None:
    listed = re.findall(r"^\| \[(\w+)\]\(\1\.md\) \| (\w+) \| `(cohabit [^`]+)` \|$", INDEX, re.MULTILINE)

    assert [(name, severity) for name, severity, _ in listed] == [
        (rule["alert"], rule["labels"]["severity"]) for rule in alerts()
    ]
    for name, _, command in listed:
        assert f"\n{command}" in (FOLDER / f"{name}.md").read_text(), name


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_says_what_it_means_what_to_look_at_and_what_to_do(page: Path) -> None:
    text = page.read_text()
    parts = re.split(r"^## (.+)$", text, flags=re.MULTILINE)

    assert text.startswith(f"# {page.stem}\n")
    assert parts[1::2] == HEADINGS
    assert all(len(part.split()) >= 10 for part in parts[2::2])
    assert "```sh" in parts[2 + 2 * HEADINGS.index("Diagnosis")]


@pytest.mark.parametrize("page", [*PAGES, FOLDER / "index.md"], ids=lambda page: page.stem)
def test_commands_and_metrics_of_a_page_exist(page: Path) -> None:
    text = page.read_text()

    assert [(words, why) for words in commands(text) if (why := refusal(list(words)))] == []
    assert set(re.findall(r"\bcohabit_\w+", text)) <= exported() | {"cohabit_prioritize_duration_seconds"}


def test_a_command_that_does_not_exist_is_found() -> None:
    assert commands("```sh\ncohabit ask --now   # why\nkubectl get pods\n```\nRun `cohabit lake chek`.") == {
        ("ask", "--now"),
        ("lake", "chek"),
    }
    assert refusal(["lake", "chek"])


def test_objects_that_pages_name_are_deployed() -> None:
    kinds = {"deployment": "Deployment", "statefulset": "StatefulSet", "service": "Service"}
    made = [one for path in (DEPLOY / "kubernetes").rglob("*.yaml") for one in yaml.safe_load_all(path.read_text())]
    there = {(one["kind"], one["metadata"]["name"]) for one in made if one and "metadata" in one}

    for page in PAGES:
        for kind, name in re.findall(r"\b(deployment|statefulset|service)/([a-z-]+)", page.read_text()):
            assert (kinds[kind], name) in there, (page.name, name)
