"""Terms on pages have the meaning that the glossary has, and pages show them."""

import re
from pathlib import Path

import pytest

from advisor.ui.site.glossary import TERMS, term

ROOT = Path(__file__).parents[4]
PAGE = (ROOT / "docs" / "glossary.md").read_text()
TEMPLATES = ROOT / "advisor" / "ui" / "templates"


def test_meanings_are_those_of_the_glossary() -> None:
    listed = dict(re.findall(r"^\| ([^|]+) \| ([^|]+) \|", PAGE, re.MULTILINE))

    assert {name: listed.get(name) for name in TERMS} == TERMS


def test_every_term_is_on_a_page() -> None:
    shown = "".join(path.read_text() for path in TEMPLATES.glob("*.html"))

    assert set(re.findall(r"term\('([^']+)'", shown)) == set(TERMS)


def test_a_tooltip_escapes_what_it_shows() -> None:
    assert term("victim", "<b>") == '<abbr title="Container that interference slows down.">&lt;b&gt;</abbr>'
    with pytest.raises(KeyError):
        term("newcomer")
