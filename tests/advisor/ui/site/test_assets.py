"""The files of the pages: what others wrote is as they released it, and nothing is inline that the policy forbids."""

import re
from hashlib import sha256
from pathlib import Path

import pytest

from advisor.ui.site.assets import assets

ROOT = Path(__file__).parents[4]
STATIC = ROOT / "advisor" / "ui" / "static"
TEMPLATES = sorted((ROOT / "advisor" / "ui" / "templates").glob("*.html"))
VENDORED = (STATIC / "vendor", Path(__file__).parents[1] / "vendor")
OURS = {"README.md", "SHA256SUMS"}


@pytest.mark.parametrize("folder", VENDORED, ids=["pages", "tests"])
def test_vendored_files_are_those_that_are_listed(folder: Path) -> None:
    rows = (line.split() for line in (folder / "SHA256SUMS").read_text().splitlines())
    listed = {name: digest for digest, name in rows}

    found = {path.name: sha256(path.read_bytes()).hexdigest() for path in folder.iterdir() if path.name not in OURS}

    assert found == listed
    note = (folder / "README.md").read_text()
    for name in found:
        assert name in note


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda path: path.name)
def test_no_page_has_scripts_or_styles_in_it(template: Path) -> None:
    text = template.read_text()

    assert not re.search(r"<style|\sstyle=|\son[a-z]+=|javascript:|hx-on|\|\s*safe", text)
    assert all('src="{{ static(' in script for script in re.findall(r"<script[^>]*>", text))
    assert "//" not in re.sub(r"// 1000000", "", text)


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda path: path.name)
def test_every_form_that_changes_something_brings_back_what_it_must(template: Path) -> None:
    for form in re.findall(r'<form[^>]*method="post".*?</form>', template.read_text(), flags=re.DOTALL):
        assert re.search(r'<input type="hidden" name="csrf" value="\{\{ (login_)?csrf \}\}">', form)


def test_dark_colours_are_the_same_chosen_or_not() -> None:
    css = (STATIC / "pages.css").read_text()
    chosen, wanted = (
        re.findall(r"(--[\w-]+): ([^;]+);", part.split("}")[0])
        for part in (css.split('[data-theme="dark"] {')[1], css.split(":root:not([data-theme]) {")[1])
    )

    assert chosen == wanted
    assert {name for name, _ in chosen} == set(re.findall(r"^  (--[\w-]+):", css.split("}")[0], flags=re.MULTILINE))


def test_browsers_get_what_pages_refer_to_and_no_more() -> None:
    referred = set(re.findall(r"static\('([^']+)'\)", "".join(path.read_text() for path in TEMPLATES)))

    assert set(assets()) == referred
