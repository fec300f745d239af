"""Form of the pages: README is short, its links lead somewhere, and no page is long."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()


def test_the_readme_is_short_and_begins_with_a_picture() -> None:
    lines = README.splitlines()

    assert len(lines) <= 120
    assert any(re.match(r"!\[.+\]\(docs/images/\w+\.png\)", line) for line in lines[:25])
    assert all((ROOT / path).exists() for path in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", README))


def test_the_demo_prints_the_lines_that_the_readme_shows() -> None:
    shown = re.search(r"```text\n(.*?)```", README, flags=re.DOTALL)
    assert shown is not None
    code = "".join(path.read_text() for path in (ROOT / "cohabit" / "cli").rglob("*.py"))
    code += (ROOT / "features" / "schema" / "catalog.py").read_text()

    words = set(re.findall(r"[a-zA-Z]{4,}", re.sub(r"node-\d+", "", shown[1])))

    assert len(shown[1].splitlines()) == 8
    assert [word for word in words if word not in code] == []


def test_the_readme_says_what_every_extra_is_for() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = set(project["optional-dependencies"])

    assert set(re.findall(r"^\| `([\w-]+)` \| .+ \|$", README, re.MULTILINE)) == extras
    [(version, installed)] = re.findall(r"dist/cohabit-([\d.]+)-py3-none-any\.whl\[([\w,]+)\]", README)
    assert version == project["version"]
    assert set(installed.split(",")) < extras


def test_no_page_is_longer_than_two_hundred_lines() -> None:
    pages = [path for path in (ROOT / "docs").rglob("*.md") if "reference" not in path.parts]

    assert [path.name for path in pages if len(path.read_text().splitlines()) > 200] == []
